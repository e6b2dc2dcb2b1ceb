/*
 * array_req: requests for an array or a sweep as a whole.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_ARRAY_REQ_H
#define HEARTH_CONTROLLER_REQUESTS_ARRAY_REQ_H

#include "common/base/text.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"

/* Each answers one request for the whole job. */
void array_stop(struct core *c, struct request *rq, struct cjob *j);
void array_hold(struct core *c, struct request *rq, struct cjob *j);
void array_release(struct core *c, struct request *rq, struct cjob *j);
void array_why(struct core *c, struct request *rq, struct cjob *j);
/* Adds why a member waits that its array has not let go to the scheduler yet. */
void array_why_member(struct core *c, const struct cjob *j, struct text *t);
void array_rm(struct core *c, struct request *rq, struct cjob *j);

#endif
