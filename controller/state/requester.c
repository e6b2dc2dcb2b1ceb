/*
 * requester: who asks, whether they may, and the answer that changes of a job share.
 */
#include "controller/state/requester.h"

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/request.h"
#include "controller/state/role.h"
#include "controller/state/turn.h"

const char *req_user(const struct core *c, const struct request *rq)
{
	return rq->user && *rq->user ? rq->user : c->cfg.owner_of_admin;
}

cJSON *event_by(const struct core *c, const struct request *rq, const char *what)
{
	cJSON *d = cJSON_CreateObject();
	char *reason = xasprintf("%s by %.100s", what, req_user(c, rq));

	json_add_str(d, "by", req_user(c, rq));
	json_add_str(d, "reason", reason);
	free(reason);
	return d;
}

/* Returns 1 for the owner and administrators; else answers the request and returns 0. */
static int may_touch(struct core *c, struct request *rq, const struct cjob *j)
{
	const char *owner = j->r.owner ? j->r.owner : "";
	char ref[REC_REF_SIZE];

	if (rq->role == ROLE_ADMIN ||
	    (rq->role >= ROLE_JOB && strcmp(owner, req_user(c, rq)) == 0 &&
	     (rq->role != ROLE_JOB || !request_op_writes(rq->op) || rq->token_job == j->r.id)))
		return 1;
	if (rq->role == ROLE_JOB)
		reply_fail(c, rq, ERR_DENIED, "the token of a job may change only that job");
	else
		reply_fail(c, rq, ERR_DENIED, "job %s belongs to %s", rec_ref(&j->r, ref), *owner ? owner : "nobody");
	return 0;
}

struct cjob *req_job(struct core *c, struct request *rq)
{
	struct err e;
	struct cjob *j = job_get(c, rq->job, &e);

	if (!j)
		reply_err(c, rq, &e);
	else if (!may_touch(c, rq, j))
		j = NULL;
	return j;
}

void op_answer(struct core *c, struct request *rq, const struct cjob *j, const char *text)
{
	cJSON *body = cJSON_CreateObject();
	char ref[REC_REF_SIZE];

	json_add_u64(body, "id", j->r.id);
	json_add_str(body, "ref", rec_ref(&j->r, ref));
	json_add_str(body, "name", j->r.name);
	json_add_str(body, "status", state_name(STATE_JOB, (int)j->r.status));
	json_add_str(body, "text", text);
	hold_reply(c, rq, 200, body);
}
