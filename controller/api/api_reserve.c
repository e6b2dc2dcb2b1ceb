/*
 * api_reserve: reservations of nodes, and warm pools. The state thread checks names and values; this file
 * only checks the shape of the body.
 */
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"

#define VALUES "nodes", "count", "instance_type", "from", "to", "for_s", "queue", "maintenance", "reason"

void api_reserves(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_RESERVES, NULL));
}

/* name NULL: it is in the body. */
static void change_reservation(struct call *c, struct io *io, enum request_op op, const char *const *keys,
                               const char *name)
{
	cJSON *body = route_body(c);
	struct request *rq;
	struct err e;

	if (!body)
		return;
	if (json_check_keys(body, "", keys, &e) < 0 ||
	    (!name &&
	     (json_get_str(body, "", "name", &name, &e) < 0 ||
	      (!name && err_set(&e, ERR_INVALID, "name: missing; expected the reservation's name") < 0)))) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	rq = ask_new(c, op, body);
	rq->node = xstrdup(name);
	ask_send(c, io, rq);
}

void api_reserve_add(struct call *c, struct io *io)
{
	static const char *const keys[] = {"name", VALUES, NULL};

	change_reservation(c, io, REQ_RESERVE_ADD, keys, NULL);
}

void api_reserve_set(struct call *c, struct io *io)
{
	static const char *const keys[] = {VALUES, NULL};

	change_reservation(c, io, REQ_RESERVE_SET, keys, c->params[0]);
}

void api_reserve_rm(struct call *c, struct io *io)
{
	struct request *rq = ask_new(c, REQ_RESERVE_RM, NULL);

	rq->node = xstrdup(c->params[0]);
	ask_send(c, io, rq);
}

/* ---- warm pools --------------------------------------------------------------------------------------- */

static void add_query(struct call *c, cJSON *body, const char *name)
{
	if (query_str(c, name))
		json_add_str(body, name, query_str(c, name));
}

void api_pools(struct call *c, struct io *io)
{
	cJSON *body = cJSON_CreateObject();

	add_query(c, body, "state");
	add_query(c, body, "owner");
	json_add_u64(body, "limit", query_u64(c, "limit", 100));
	ask_send(c, io, ask_new(c, REQ_POOLS, body));
}

static void ask_pool(struct call *c, struct io *io, enum request_op op, cJSON *body)
{
	struct request *rq = ask_new(c, op, body);

	rq->node = xstrdup(c->params[0]);
	ask_send(c, io, rq);
}

void api_pool(struct call *c, struct io *io)
{
	ask_pool(c, io, REQ_POOL, NULL);
}

void api_pool_keep(struct call *c, struct io *io)
{
	static const char *const keys[] = {"keep_alive_s", NULL};
	cJSON *body = route_body(c);
	int64_t keep = 0;
	struct err e;

	if (!body)
		return;
	if (json_check_keys(body, "", keys, &e) < 0 ||
	    json_get_i64(body, "", "keep_alive_s", 1, 366LL * 86400, &keep, &e) < 0 ||
	    (!keep && err_set(&e, ERR_INVALID, "keep_alive_s: missing; expected seconds") < 0)) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	ask_pool(c, io, REQ_POOL_KEEP, body);
}

void api_pool_drop(struct call *c, struct io *io)
{
	cJSON *body = cJSON_CreateObject();

	add_query(c, body, "node");
	ask_pool(c, io, REQ_POOL_DROP, body);
}
