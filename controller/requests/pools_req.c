/*
 * pools_req: warm pools: list, show, change the time, end (docs/spec/15-pools.md).
 */
#include "controller/requests/requests.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/park/park.h"
#include "controller/record/pool.h"
#include "controller/share/pools.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define POOLS_SHOWN 100 /* in one answer, without limit=N */
#define POOLS_MOST  1000
#define LIST_BYTES  4000000 /* then it ends: it is made on the state thread */
#define POOL_BYTES  600     /* about, of one pool without parts, and of a part */
#define PART_BYTES  150

/* ---- as JSON ----------------------------------------------------------------------------------------- */

static cJSON *part_json(const struct pool_part *part)
{
	cJSON *o = cJSON_CreateObject(), *gpus;

	json_add_str(o, "node", part->node);
	gpus = cJSON_AddArrayToObject(o, "gpus");
	for (uint32_t i = 0; i < part->gpus.n; i++)
		cJSON_AddItemToArray(gpus, cJSON_CreateNumber(part->gpus.v[i]));
	json_add_u64(o, "cpus", part->cpus.n);
	json_add_u64(o, "memory_bytes", part->memory_bytes);
	json_add_str(o, "state", pool_state_names[part->used_by ? POOL_IN_USE : POOL_AVAILABLE]);
	return o;
}

static void add_job(cJSON *o, const char *key, uint64_t job)
{
	if (job)
		json_add_u64(o, key, job);
	else
		cJSON_AddNullToObject(o, key);
}

static cJSON *environment_json(const char *text)
{
	cJSON *o = text ? cJSON_Parse(text) : NULL;

	return o ? o : cJSON_CreateNull();
}

/* The newest parts that are gone. */
static cJSON *ended_json(const struct pool_rec *p)
{
	cJSON *list = cJSON_CreateArray(), *all = p->ended_parts ? cJSON_Parse(p->ended_parts) : NULL;
	const cJSON *v;

	cJSON_ArrayForEach (v, all) {
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "node", json_str_or(v, "node", NULL));
		json_add_str(o, "cause", json_str_or(v, "cause", NULL));
		json_add_str(o, "cause_text", json_str_or(v, "text", NULL));
		json_add_time(o, "at", json_whole(v, "at_us", 0));
		cJSON_AddItemToArray(list, o);
	}
	cJSON_Delete(all);
	return list;
}

static void add_cost(cJSON *o, const struct core *c, const struct pool_rec *p)
{
	uint64_t uusd = pool_uusd(&c->records, p, now_real(c)), price = 0;

	for (uint32_t i = 0; i < p->n_parts; i++)
		price += p->parts[i].price_uusd;
	if (uusd || price)
		cJSON_AddNumberToObject(o, "idle_usd", (double)uusd / 1e6);
	else
		cJSON_AddNullToObject(o, "idle_usd");
}

static void add_ends(cJSON *o, const struct pool_rec *p)
{
	int waits = !p->ended_us && !pool_used_by(p);

	json_add_u64(o, "keep_alive_s", p->keep_alive_s);
	json_add_str(o, "kept_by", waits ? p->kept_by : NULL);
	json_add_time(o, "made_at", p->made_us);
	json_add_time(o, "idle_since", waits ? p->idle_us : 0);
	json_add_time(o, "expires_at", waits ? p->expires_us : 0);
	json_add_time(o, "ended_at", p->ended_us);
	json_add_str(o, "cause", p->cause);
	json_add_str(o, "cause_text", p->cause_text);
}

/* How its last job was launched: what one sees of it. */
static void add_launch(cJSON *o, const cJSON *launch)
{
	const cJSON *modules =
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(launch, "interpreter"), "preload");

	json_add_str(o, "launcher", json_str_or(launch, "launcher", NULL));
	cJSON_AddItemToObject(o, "preload", modules ? cJSON_Duplicate(modules, 1) : cJSON_CreateArray());
}

static cJSON *pool_json(const struct core *c, const struct pool_rec *p)
{
	cJSON *o = cJSON_CreateObject(), *nodes,
	      *launch = p->launch && !p->ended_us ? cJSON_Parse(p->launch) : NULL;
	uint64_t gpus = 0;

	json_add_u64(o, "id", p->id);
	json_add_str(o, "name", p->name);
	json_add_str(o, "owner", p->owner);
	json_add_str(o, "queue", p->queue);
	cJSON_AddBoolToObject(o, "exclusive", p->exclusive);
	json_add_str(o, "state", pool_state_names[pool_state_of(p)]);
	json_add_u64(o, "made_by", p->made_by);
	add_job(o, "used_by", pool_used_by(p));
	add_ends(o, p);
	add_cost(o, c, p);
	cJSON_AddItemToObject(o, "environment", environment_json(p->environment));
	add_launch(o, launch);
	cJSON_AddItemToObject(o, "parked", park_json(c, p, launch));
	cJSON_Delete(launch);
	nodes = cJSON_AddArrayToObject(o, "nodes");
	for (uint32_t i = 0; i < p->n_parts; i++) {
		cJSON_AddItemToArray(nodes, part_json(&p->parts[i]));
		gpus += p->parts[i].gpus.n;
	}
	json_add_u64(o, "gpus", gpus);
	cJSON_AddItemToObject(o, "ended_nodes", ended_json(p));
	return o;
}

/* ---- which ------------------------------------------------------------------------------------------- */

/* Finds the pool that lives and has the name. owner: of that user only, NULL of all. NULL: none, or several;
 * e says which. */
static struct pool_rec *find_named(const struct core *c, const char *ref, const char *owner, struct err *e)
{
	struct pool_rec *found = NULL;
	TEXT(others);

	for (struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		if (!p->name || strcmp(p->name, ref) != 0 || (owner && strcmp(p->owner ? p->owner : "", owner) != 0))
			continue;
		if (found)
			text_add(&others, "%s%" PRIu64, text_is_empty(&others) ? "" : ", ", p->id);
		else
			found = p;
	}
	if (!found)
		err_set(e, ERR_NOT_FOUND, "unknown pool \"%.100s\"; jobctl pool ls lists the pools", ref);
	else if (!text_is_empty(&others))
		err_set(e, ERR_CONFLICT, "several pools have the name \"%.100s\"; give an id: %" PRIu64 ", %s", ref,
		        found->id, others.at);
	return found && text_is_empty(&others) ? found : NULL;
}

/* Finds the pool by its id, or by its name: one of the user first. */
static struct pool_rec *find_pool(const struct core *c, const struct request *rq, struct err *e)
{
	const char *ref = rq->node ? rq->node : "";
	struct pool_rec *own;
	uint64_t id;

	if (str_parse_u64(ref, &id) == 0 && cluster_pool(&c->records, id))
		return cluster_pool(&c->records, id);
	own = find_named(c, ref, req_user(c, rq), e);
	return own || e->code == ERR_CONFLICT ? own : find_named(c, ref, NULL, e);
}

/* The pool that the request names and may change. NULL: the request is answered. */
static struct pool_rec *pool_to_change(struct core *c, struct request *rq)
{
	struct pool_rec *p;
	struct err e;

	p = find_pool(c, rq, &e);
	if (!p)
		reply_err(c, rq, &e);
	else if (rq->role != ROLE_ADMIN && strcmp(p->owner ? p->owner : "", req_user(c, rq)) != 0)
		reply_fail(c, rq, ERR_DENIED, "pool %" PRIu64 " belongs to %s", p->id,
		           p->owner ? p->owner : "nobody");
	else if (p->ended_us)
		reply_fail(c, rq, ERR_CONFLICT, "pool %" PRIu64 " has ended: %s", p->id,
		           p->cause_text ? p->cause_text
		           : p->cause    ? p->cause
		                         : "");
	else
		return p;
	return NULL;
}

/* ---- requests ---------------------------------------------------------------------------------------- */

struct listing {
	const char *owner; /* NULL all */
	int wanted;        /* enum pool_state; -1 all */
	cJSON *list;
	uint64_t limit, n, total;
	size_t bytes; /* about what the list has */
};

static void list_from(const struct core *c, struct listing *l, const struct pool_rec *p)
{
	for (; p; p = pool_next(p)) {
		if ((l->wanted >= 0 && (int)pool_state_of(p) != l->wanted) ||
		    (l->owner && strcmp(l->owner, p->owner ? p->owner : "") != 0))
			continue;
		l->total++;
		if (l->n == l->limit || l->bytes > LIST_BYTES)
			continue;
		cJSON_AddItemToArray(l->list, pool_json(c, p));
		l->bytes += POOL_BYTES + (p->environment ? strlen(p->environment) : 0) + p->n_parts * PART_BYTES;
		l->n++;
	}
}

void req_pools(struct core *c, struct request *rq)
{
	const char *state = json_str_or(rq->body, "state", NULL);
	uint64_t limit = json_whole(rq->body, "limit", POOLS_SHOWN);
	struct listing l = {.owner = json_str_or(rq->body, "owner", NULL),
	                    .wanted = state ? name_find(pool_state_names, N_POOL_STATE, state) : -1,
	                    .limit = limit < POOLS_MOST ? limit : POOLS_MOST};
	cJSON *body;

	if (state && l.wanted < 0 && strcmp(state, "all") != 0) {
		reply_fail(c, rq, ERR_INVALID, "state: expected available, in_use, terminated or all, not \"%.40s\"",
		           state);
		return;
	}
	body = cJSON_CreateObject();
	l.list = cJSON_AddArrayToObject(body, "pools");
	if (l.wanted != POOL_TERMINATED)
		list_from(c, &l, pool_first(c));
	if (state && (l.wanted < 0 || l.wanted == POOL_TERMINATED))
		list_from(c, &l, pool_ended(c));
	json_add_u64(body, "total", l.total);
	hold_reply(c, rq, 200, body);
}

void req_pool(struct core *c, struct request *rq)
{
	struct err e;
	const struct pool_rec *p = find_pool(c, rq, &e);

	if (p)
		hold_reply(c, rq, 200, pool_json(c, p));
	else
		reply_err(c, rq, &e);
}

void req_pool_keep(struct core *c, struct request *rq)
{
	uint64_t keep = json_whole(rq->body, "keep_alive_s", 0), max = c->cfg.warm_keep_alive_max_s;
	struct pool_rec *p = pool_to_change(c, rq);

	if (!p)
		return;
	if (!keep || keep > max) {
		char span[40];

		reply_fail(c, rq, ERR_INVALID,
		           "keep_alive_s: expected 1 to %" PRIu64 " seconds (%s, warm_keep_alive_max)", max,
		           str_duration(max, span, sizeof(span)));
		return;
	}
	if (pool_used_by(p)) {
		reply_fail(c, rq, ERR_CONFLICT,
		           "pool %" PRIu64 " is in use by job %" PRIu64
		           ", and gets the time of that job at its end; set another one after that",
		           p->id, pool_used_by(p));
		return;
	}
	pool_set_time(c, p, keep, req_user(c, rq));
	hold_reply(c, rq, 200, pool_json(c, p));
}

/* Reads "a,b". -1: the pool has no such node. */
static int read_nodes(const struct pool_rec *p, const char *text, struct strv *out, struct err *e)
{
	char *all = xstrdup(text), *save = NULL;
	int rc = 0;

	for (char *w = strtok_r(all, ",", &save); w && rc == 0; w = strtok_r(NULL, ",", &save)) {
		int has = 0;

		for (uint32_t i = 0; i < p->n_parts; i++)
			has |= strcmp(p->parts[i].node, w) == 0;
		if (has)
			strv_add(out, w);
		else
			rc = err_set(e, ERR_NOT_FOUND, "pool %" PRIu64 " has nothing on node \"%.100s\"", p->id, w);
	}
	free(all);
	if (rc == 0 && !out->n)
		rc = err_set(e, ERR_INVALID, "node: expected names of nodes; without it all of the pool ends");
	return rc;
}

void req_pool_drop(struct core *c, struct request *rq)
{
	const char *names = json_str_or(rq->body, "node", NULL);
	struct pool_rec *p = pool_to_change(c, rq);
	struct strv nodes = {0};
	struct err e;
	TEXT(text);

	if (!p)
		return;
	if (pool_used_by(p)) { /* its job would leave none, without a word */
		reply_fail(c, rq, ERR_CONFLICT,
		           "pool %" PRIu64 " is in use by job %" PRIu64
		           ", which gives it back at its end; drop it after that: jobctl wait %" PRIu64
		           "; jobctl pool drop %" PRIu64,
		           p->id, pool_used_by(p), pool_used_by(p), p->id);
		return;
	}
	if (names && read_nodes(p, names, &nodes, &e) < 0) {
		reply_err(c, rq, &e);
	} else {
		text_add(&text, "dropped by %s", req_user(c, rq));
		pool_end(c, p, POOL_DROPPED, names ? &nodes : NULL, 0, text.at);
		hold_reply(c, rq, 200, pool_json(c, p));
	}
	strv_fini(&nodes);
}
