/*
 * api_cluster: the handlers of nodes, queues, money, reservations, login and pages. Each handler answers its
 * call once, now or later on the same I/O thread.
 */
#ifndef HEARTH_CONTROLLER_API_API_CLUSTER_H
#define HEARTH_CONTROLLER_API_API_CLUSTER_H

struct call;
struct io;

/* api_cluster.c */
void api_nodes(struct call *c, struct io *io);
void api_node(struct call *c, struct io *io);
void api_node_drain(struct call *c, struct io *io);
void api_node_spare(struct call *c, struct io *io);
void api_node_resume(struct call *c, struct io *io);
void api_node_lost(struct call *c, struct io *io);
void api_node_rm(struct call *c, struct io *io);
void api_join(struct call *c, struct io *io);
void api_top(struct call *c, struct io *io);
void api_health(struct call *c, struct io *io);
void api_metrics(struct call *c, struct io *io);
void api_openapi(struct call *c, struct io *io);
/* api_queues.c */
void api_queues(struct call *c, struct io *io);
void api_queue_set(struct call *c, struct io *io);
void api_queue_rm(struct call *c, struct io *io);
void api_quota_set(struct call *c, struct io *io);
void api_instances(struct call *c, struct io *io);
void api_instance(struct call *c, struct io *io);
void api_instance_set(struct call *c, struct io *io);
void api_instance_rm(struct call *c, struct io *io);
void api_quota_rm(struct call *c, struct io *io);
/* api_cost.c */
void api_cost(struct call *c, struct io *io);
void api_budgets(struct call *c, struct io *io);
void api_budget_set(struct call *c, struct io *io);
void api_budget_rm(struct call *c, struct io *io);
/* api_trace.c */
void api_trace(struct call *c, struct io *io);
void api_trace_part(struct call *c, struct io *io);
/* api_reserve.c */
void api_pools(struct call *c, struct io *io);
void api_pool(struct call *c, struct io *io);
void api_pool_keep(struct call *c, struct io *io);
void api_pool_drop(struct call *c, struct io *io);
void api_reserves(struct call *c, struct io *io);
void api_reserve_add(struct call *c, struct io *io);
void api_reserve_set(struct call *c, struct io *io);
void api_reserve_rm(struct call *c, struct io *io);
/* api_login.c */
void api_tokens(struct call *c, struct io *io);
void api_token_list(struct call *c, struct io *io);
void api_token_rm(struct call *c, struct io *io);
void api_whoami(struct call *c, struct io *io);
void api_login(struct call *c, struct io *io);
void api_login_link(struct call *c, struct io *io);
void api_login_turn_in(struct call *c, struct io *io);
void api_logout(struct call *c, struct io *io);
/* api_stream.c */
void api_stream(struct call *c, struct io *io);
/* web.c */
void api_web(struct call *c, struct io *io);

#endif
