/*
 * api_cluster: nodes, joining, overview, health, numbers. The state thread knows all of it.
 */
#include "controller/api/api_cluster.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/openapi.h"
#include "controller/api/prom.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"

#define JOIN_RATE  10.0 /* joins a second and thread, in the long run */
#define JOIN_BURST 50.0

/* ---- nodes ------------------------------------------------------------------------------------ */

void api_nodes(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_NODES, NULL));
}

static void answer_node(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	cJSON *n, *found = NULL;

	(void)io;
	if (e) {
		call_fail_with(c, status, e, body);
		cJSON_Delete(body);
		return;
	}
	cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(body, "nodes")) {
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(n, "name");

		if (cJSON_IsString(name) && strcmp(name->valuestring, c->params[0]) == 0)
			found = n;
	}
	if (found)
		call_json(c, 200, cJSON_Duplicate(found, 1));
	else
		call_problem(c, 404, NULL, "unknown node \"%s\"", c->params[0]);
	cJSON_Delete(body);
}

static struct request *node_request(struct call *c, enum request_op op, cJSON *body)
{
	struct request *rq = ask_new(c, op, body);

	rq->node = xstrdup(c->params[0]);
	return rq;
}

void api_node(struct call *c, struct io *io)
{
	ask_send_cb(c, io, node_request(c, REQ_NODES, NULL), answer_node);
}

static void node_change(struct call *c, struct io *io, enum request_op op, const char *const *keys, int force)
{
	cJSON *body = route_body(c);
	const char *reason = NULL;
	struct err e;

	if (!body)
		return;
	if (json_check_keys(body, "", keys, &e) < 0 || json_get_str(body, "", "reason", &reason, &e) < 0 ||
	    (reason && strlen(reason) > 1024 && err_set(&e, ERR_LIMIT, "reason: longer than 1024 bytes") < 0)) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	if (force)
		cJSON_AddTrueToObject(body, "force");
	ask_send(c, io, node_request(c, op, body));
}

void api_node_drain(struct call *c, struct io *io)
{
	static const char *const keys[] = {"reason", NULL};

	node_change(c, io, REQ_DRAIN, keys, 0);
}

void api_node_spare(struct call *c, struct io *io)
{
	static const char *const keys[] = {"off", NULL};
	cJSON *body = route_body(c);
	struct err e;
	int off;

	if (!body)
		return;
	if (json_check_keys(body, "", keys, &e) < 0 || json_get_bool(body, "", "off", &off, &e) < 0) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	ask_send(c, io, node_request(c, REQ_SPARE, body));
}

void api_node_lost(struct call *c, struct io *io)
{
	static const char *const keys[] = {"reason", NULL};

	node_change(c, io, REQ_NODE_LOST, keys, 0);
}

static const char *const no_keys[] = {NULL};

void api_node_resume(struct call *c, struct io *io)
{
	node_change(c, io, REQ_RESUME, no_keys, 0);
}

void api_node_rm(struct call *c, struct io *io)
{
	node_change(c, io, REQ_NODE_RM, no_keys, query_bool(c, "force"));
}

/* ---- joining ---------------------------------------------------------------------------------- */

/* A bucket per thread: guessing tokens is hopeless anyway, but each try costs the state thread a turn. */
static int join_allowed(struct io *io)
{
	uint64_t now = clock_boot_us(clock_real());

	io->api->join_tokens +=
	    io->api->join_at_us ? (double)(now - io->api->join_at_us) * JOIN_RATE / 1e6 : JOIN_BURST;
	io->api->join_at_us = now;
	if (io->api->join_tokens > JOIN_BURST)
		io->api->join_tokens = JOIN_BURST;
	if (io->api->join_tokens < 1)
		return 0;
	io->api->join_tokens -= 1;
	return 1;
}

void api_join(struct call *c, struct io *io)
{
	static const char *const known[] = {"token", "node", "csr", NULL};
	const char *token = NULL, *node = NULL, *csr = NULL;
	cJSON *body;
	struct request *rq;
	struct err e;

	if (!join_allowed(io)) {
		call_problem(c, 429, NULL, "too many nodes join at once; try again in some seconds");
		return;
	}
	body = route_body(c);
	if (!body)
		return;
	if (json_check_keys(body, "", known, &e) < 0 || json_get_str(body, "", "token", &token, &e) < 0 ||
	    json_get_str(body, "", "node", &node, &e) < 0 || json_get_str(body, "", "csr", &csr, &e) < 0 ||
	    ((!token || !node || !csr) && err_set(&e, ERR_INVALID, "token, node and csr are required") < 0) ||
	    str_check_name(node, 63, "node", &e) < 0 ||
	    ((strlen(token) > 256 || strlen(csr) > 16384) &&
	     err_set(&e, ERR_LIMIT, "token or csr is too long") < 0)) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	rq = ask_new(c, REQ_JOIN, body);
	rq->node = xstrdup(node);
	ask_send(c, io, rq);
}

/* ---- overview, health ------------------------------------------------------------------------- */

void api_top(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_TOP, NULL));
}

static void answer_health(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	const cJSON *problem = cJSON_GetObjectItemCaseSensitive(body, "problem");
	cJSON *o;

	if (e) {
		cJSON_Delete(body);
		call_fail_with(c, status, e, NULL);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "status", "ok");
	if (cJSON_IsString(problem))
		cJSON_AddStringToObject(o, "problem", problem->valuestring);
	cJSON_Delete(body);
	cJSON_AddStringToObject(o, "cluster", api_of(io)->cluster);
	cJSON_AddStringToObject(o, "version", PACKAGE_VERSION);
	call_json(c, 200, o);
}

/* Asks the state thread: an answer means that hearthd decides, not only that it listens. */
void api_health(struct call *c, struct io *io)
{
	ask_send_cb(c, io, ask_new(c, REQ_STATS, NULL), answer_health);
}

static void answer_metrics(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	cJSON *own;
	char *text;

	if (e) {
		call_fail_with(c, status, e, body);
		cJSON_Delete(body);
		return;
	}
	own = api_numbers(api_of(io));
	text = prom_text(body, own);
	call_text(c, 200, PROM_TYPE, text);
	free(text);
	cJSON_Delete(own);
	cJSON_Delete(body);
}

void api_metrics(struct call *c, struct io *io)
{
	ask_send_cb(c, io, ask_new(c, REQ_STATS, NULL), answer_metrics);
}

void api_openapi(struct call *c, struct io *io)
{
	call_text(c, 200, "application/json", api_of(io)->openapi);
}
