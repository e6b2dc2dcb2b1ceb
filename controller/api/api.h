/*
 * api: the HTTP API. One table of routes (route_table.c) and one file of handlers for each noun. Handlers
 * read the store on their I/O thread; what changes or asks for live state goes to the state thread
 * (controller/io/ask.h).
 *
 * This header: the handlers that the table names. Each answers its call once, now or later on the same I/O
 * thread.
 */
#ifndef HEARTH_CONTROLLER_API_H
#define HEARTH_CONTROLLER_API_H

#include "controller/http/route.h"
#include "controller/state/request.h"

struct call;
struct io;

enum api_flags {                  /* of routes, with enum route_flags */
	             RF_JOB = RF_OWN, /* {id} is a job: it must exist; a job's token reaches its own job only;
	                                 RF_WRITE needs its owner or an administrator */
	             RF_FINDS = RF_OWN * 2, /* the handler itself says when there is no such job */
	             RF_SPEC = RF_OWN * 4,  /* body has a specification: 1 MiB and a margin */
};

const struct route *route_table(size_t *n);
/* route_param_fn of the table */
int api_check_param(const char *name, size_t n, const char *value, struct err *e);

/* api_jobs.c */
void api_jobs_list(struct call *c, struct io *io);
void api_jobs_submit(struct call *c, struct io *io);
void api_jobs_resolve(struct call *c, struct io *io);
void api_job_get(struct call *c, struct io *io);
void api_job_members(struct call *c, struct io *io);
void api_job_set(struct call *c, struct io *io);
void api_job_rm(struct call *c, struct io *io);
void api_job_stop(struct call *c, struct io *io);
void api_job_hold(struct call *c, struct io *io);
void api_job_release(struct call *c, struct io *io);
void api_job_requeue(struct call *c, struct io *io);
void api_job_clone(struct call *c, struct io *io);
void api_job_why(struct call *c, struct io *io);
/* api_records.c */
void api_job_events(struct call *c, struct io *io);
void api_job_attempts(struct call *c, struct io *io);
void api_job_ranks(struct call *c, struct io *io);
void api_job_metrics(struct call *c, struct io *io);
void api_job_metric(struct call *c, struct io *io);
void api_job_run(struct call *c, struct io *io);
void api_job_spec(struct call *c, struct io *io);
void api_job_artifacts(struct call *c, struct io *io);
/* api_logs.c */
void api_logs_list(struct call *c, struct io *io);
void api_logs_read(struct call *c, struct io *io);
/* api_data.c */
void api_artifact(struct call *c, struct io *io);
void api_artifact_file(struct call *c, struct io *io);
void api_blob_get(struct call *c, struct io *io);
void api_blob_head(struct call *c, struct io *io);
void api_blob_put(struct call *c, struct io *io);
void api_blobs_missing(struct call *c, struct io *io);
/* api_cluster.c */
void api_nodes(struct call *c, struct io *io);
void api_node(struct call *c, struct io *io);
void api_node_drain(struct call *c, struct io *io);
void api_node_resume(struct call *c, struct io *io);
void api_node_lost(struct call *c, struct io *io);
void api_node_rm(struct call *c, struct io *io);
void api_tokens(struct call *c, struct io *io);
void api_join(struct call *c, struct io *io);
void api_top(struct call *c, struct io *io);
void api_health(struct call *c, struct io *io);
void api_whoami(struct call *c, struct io *io);
void api_metrics(struct call *c, struct io *io);
void api_openapi(struct call *c, struct io *io);
/* api_queues.c */
void api_queues(struct call *c, struct io *io);
void api_queue_set(struct call *c, struct io *io);
void api_queue_rm(struct call *c, struct io *io);
void api_quota_set(struct call *c, struct io *io);
/* To the state thread. named_change: what the body's "name" names (`what` in words), with the rest of the
 * body, which has no other keys than these (NULL: the state thread looks at them). named_request: what the
 * address names. */
#define QUEUE_OR_USER "QUEUE, or QUEUE/@USER"
void named_change(struct call *c, struct io *io, enum request_op op, const char *what,
                  const char *const *keys);
void named_request(struct call *c, struct io *io, enum request_op op);
void api_cost(struct call *c, struct io *io);
void api_trace(struct call *c, struct io *io);
void api_trace_part(struct call *c, struct io *io);
void api_budgets(struct call *c, struct io *io);
void api_budget_set(struct call *c, struct io *io);
void api_budget_rm(struct call *c, struct io *io);
void api_instances(struct call *c, struct io *io);
void api_instance(struct call *c, struct io *io);
void api_instance_set(struct call *c, struct io *io);
void api_instance_rm(struct call *c, struct io *io);
void api_quota_rm(struct call *c, struct io *io);
/* api_reserve.c */
void api_reserves(struct call *c, struct io *io);
void api_reserve_add(struct call *c, struct io *io);
void api_reserve_set(struct call *c, struct io *io);
void api_reserve_rm(struct call *c, struct io *io);
/* api_login.c */
void api_login(struct call *c, struct io *io);
void api_login_link(struct call *c, struct io *io);
void api_login_turn_in(struct call *c, struct io *io);
void api_logout(struct call *c, struct io *io);
/* web.c */
void api_web(struct call *c, struct io *io);
/* api_stream.c */
void api_stream(struct call *c, struct io *io);

#endif
