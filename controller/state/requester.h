/*
 * requester: who asks, whether they may, and the answer that changes of a job share.
 */
#ifndef HEARTH_CONTROLLER_STATE_REQUESTER_H
#define HEARTH_CONTROLLER_STATE_REQUESTER_H

#include "controller/state/jobs.h"
#include "controller/state/request.h"

const char *req_user(const struct core *c, const struct request *rq);
cJSON *event_by(const struct core *c, const struct request *rq, const char *what);
struct cjob *req_job(struct core *c, struct request *rq); /* NULL: answered */
void op_answer(struct core *c, struct request *rq, const struct cjob *j, const char *text);
/* warning: "" none. */
void op_answer_warning(struct core *c, struct request *rq, const struct cjob *j, const char *text,
                       const char *warning);

#endif
