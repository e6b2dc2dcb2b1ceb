/*
 * api_queues: queues, quotas and instance types. The state thread checks names and values; this file only
 * checks the shape of the body.
 */
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/api/api.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"

void api_queues(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_QUEUES, NULL));
}

void named_change(struct call *c, struct io *io, enum request_op op, const char *what,
                  const char *const *keys)
{
	cJSON *body = route_body(c);
	const char *name = NULL;
	struct request *rq;
	struct err e;

	if (!body)
		return;
	if ((keys && json_check_keys(body, "", keys, &e) < 0) || json_get_str(body, "", "name", &name, &e) < 0 ||
	    (!name && err_set(&e, ERR_INVALID, "name: missing; expected %s", what) < 0)) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	rq = ask_new(c, op, body);
	rq->node = xstrdup(name);
	cJSON_DeleteItemFromObjectCaseSensitive(body, "name");
	ask_send(c, io, rq);
}

void named_request(struct call *c, struct io *io, enum request_op op)
{
	struct request *rq = ask_new(c, op, NULL);

	rq->node = xstrdup(c->params[0]);
	ask_send(c, io, rq);
}

void api_queue_set(struct call *c, struct io *io)
{
	static const char *const keys[] = {"name", "weight", NULL};

	named_change(c, io, REQ_QUEUE_SET, QUEUE_OR_USER, keys);
}

void api_queue_rm(struct call *c, struct io *io)
{
	named_request(c, io, REQ_QUEUE_RM);
}

void api_quota_set(struct call *c, struct io *io)
{
	static const char *const keys[] = {"name", "gpus", "borrow", "warm_gpus", "warm_nodes", NULL};

	named_change(c, io, REQ_QUOTA_SET, QUEUE_OR_USER, keys);
}

void api_quota_rm(struct call *c, struct io *io)
{
	named_request(c, io, REQ_QUOTA_RM);
}

/* ---- instance types --------------------------------------------------------------------------- */

void api_instances(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_INSTANCES, NULL));
}

void api_instance(struct call *c, struct io *io)
{
	named_request(c, io, REQ_INSTANCES);
}

void api_instance_set(struct call *c, struct io *io)
{
	named_change(c, io, REQ_INSTANCE_SET, "an instance type", NULL); /* the catalogue knows the facts */
}

void api_instance_rm(struct call *c, struct io *io)
{
	named_request(c, io, REQ_INSTANCE_RM);
}
