/*
 * requester: who asks, whether they may, and the answer that changes of a job share.
 */
#include "controller/state/requester.h"

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/access.h"
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

/* The caller's right to ask about any job was the route's to check; here it may change its own only. */
static int may_touch(struct core *c, struct request *rq, const struct cjob *j)
{
	char ref[REC_REF_SIZE];
	const struct access_caller who = {.user = req_user(c, rq), .role = rq->role, .token_job = rq->token_job};
	const struct access_object on = {
	    .role = ROLE_JOB, .job = j->r.id, .ref = rec_ref(&j->r, ref), .owner = j->r.owner ? j->r.owner : ""};
	struct err e;

	if (access_check(&who, ACCESS_CHANGE, &on, &e) == 0)
		return 1;
	reply_err(c, rq, &e);
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

void op_answer_warning(struct core *c, struct request *rq, const struct cjob *j, const char *text,
                       const char *warning)
{
	cJSON *body = cJSON_CreateObject();
	char ref[REC_REF_SIZE];

	json_add_u64(body, "id", j->r.id);
	json_add_str(body, "ref", rec_ref(&j->r, ref));
	json_add_str(body, "name", j->r.name);
	json_add_str(body, "status", state_name(STATE_JOB, (int)j->r.status));
	json_add_str(body, "text", text);
	if (*warning)
		cJSON_AddItemToArray(cJSON_AddArrayToObject(body, "warnings"), cJSON_CreateString(warning));
	hold_reply(c, rq, 200, body);
}

void op_answer(struct core *c, struct request *rq, const struct cjob *j, const char *text)
{
	op_answer_warning(c, rq, j, text, "");
}
