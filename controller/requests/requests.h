/*
 * requests: what users ask of the state thread. Each answers its request once, at once or later.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_REQUESTS_H
#define HEARTH_CONTROLLER_REQUESTS_REQUESTS_H

#include "controller/state/core_state.h"
#include "controller/state/request.h"

void req_submit(struct core *c, struct request *rq);
void req_clone(struct core *c, struct request *rq);
void req_stop(struct core *c, struct request *rq);
void req_hold(struct core *c, struct request *rq);
void req_release(struct core *c, struct request *rq);
void req_set(struct core *c, struct request *rq);
void req_requeue(struct core *c, struct request *rq);
void req_rm(struct core *c, struct request *rq);
void req_why(struct core *c, struct request *rq);
void req_nodes(struct core *c, struct request *rq);
void req_top(struct core *c, struct request *rq);
void req_stats(struct core *c, struct request *rq);
void req_drain(struct core *c, struct request *rq);
void req_resume(struct core *c, struct request *rq);
void req_node_rm(struct core *c, struct request *rq);
void req_node_lost(struct core *c, struct request *rq);
void req_queues(struct core *c, struct request *rq);
void req_queue_set(struct core *c, struct request *rq);
void req_queue_rm(struct core *c, struct request *rq);
void req_quota_set(struct core *c, struct request *rq);
void req_quota_rm(struct core *c, struct request *rq);
void req_instances(struct core *c, struct request *rq);
void req_instance_set(struct core *c, struct request *rq);
void req_instance_rm(struct core *c, struct request *rq);
void req_reserves(struct core *c, struct request *rq);
void req_reserve_add(struct core *c, struct request *rq);
void req_reserve_set(struct core *c, struct request *rq);
void req_reserve_rm(struct core *c, struct request *rq);
void req_brief(struct core *c, struct request *rq);
void req_budgets(struct core *c, struct request *rq);
void req_budget_set(struct core *c, struct request *rq);
void req_budget_rm(struct core *c, struct request *rq);
void req_token(struct core *c, struct request *rq);
void req_join(struct core *c, struct request *rq);

#endif
