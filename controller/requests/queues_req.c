/*
 * queues_req: queues, weights and quotas: list, set, remove. PATH is a queue, "research", or a user in a
 * queue, "research/@ada".
 */
#include "controller/requests/requests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"
#include "controller/record/cluster.h"
#include "controller/record/event.h"
#include "controller/share/budget.h"
#include "controller/share/pools.h"
#include "controller/share/queues.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define QUEUES_MAX 10000 /* rows; also the limit of a list */
#define WEIGHT_MAX 1000000.0

static cJSON *event_data(const struct core *c, const struct request *rq, const char *path)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "queue", path);
	json_add_str(d, "by", req_user(c, rq));
	return d;
}

/* Posts the event; takes d. path must not be the record's own name, which may be freed. */
static void post_change(struct core *c, enum event_type t, const char *path, cJSON *d)
{
	cluster_post(c, t, d);
	queue_tell(c, path);
}

static void add_limit(cJSON *o, const char *key, uint32_t n)
{
	if (n)
		json_add_u64(o, key, n);
	else
		cJSON_AddNullToObject(o, key);
}

/* Adds the limits of warm pools, and what is idle in pools now: null without a limit. */
static void add_warm(const struct core *c, const char *path, const struct queue_rec *q, cJSON *o)
{
	uint32_t gpus, nodes;

	add_limit(o, "quota_warm_gpus", q ? q->warm_gpus : 0);
	add_limit(o, "quota_warm_nodes", q ? q->warm_nodes : 0);
	if (!q || !(q->warm_gpus || q->warm_nodes)) {
		cJSON_AddNullToObject(o, "warm_gpus");
		cJSON_AddNullToObject(o, "warm_nodes");
		return;
	}
	pools_idle(c, path, &gpus, &nodes);
	json_add_u64(o, "warm_gpus", gpus);
	json_add_u64(o, "warm_nodes", nodes);
}

static cJSON *queue_json(struct core *c, const char *path)
{
	const struct queue_rec *q = cluster_queue(&c->records, path);
	struct sched_queue_state s;
	cJSON *o = cJSON_CreateObject();

	sched_queue_get(c->sched, path, &s);
	json_add_str(o, "name", path);
	cJSON_AddBoolToObject(o, "queue", q && q->is_queue);
	cJSON_AddNumberToObject(o, "weight", q ? q->weight : 1);
	if (q && q->quota_gpus)
		json_add_u64(o, "quota_gpus", q->quota_gpus);
	else
		cJSON_AddNullToObject(o, "quota_gpus");
	cJSON_AddBoolToObject(o, "borrow", q && q->borrow);
	add_warm(c, path, q, o);
	json_add_u64(o, "gpus", s.gpus);
	json_add_u64(o, "waiting", s.waiting);
	json_add_u64(o, "waiting_gpus", s.wants);
	cJSON_AddNumberToObject(o, "used_gpu_hours", round(s.use_gpu_s / 3.6) / 1000);
	return o;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void req_queues(struct core *c, struct request *rq)
{
	const struct cluster_rec *q = c->records.all[CLUSTER_QUEUE];
	const char **paths = xcalloc(2 * QUEUES_MAX, sizeof(*paths));
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "queues");
	size_t n;

	n = sched_queue_list(c->sched, paths, QUEUES_MAX);
	for (; q && n < 2 * QUEUES_MAX; q = q->hh.next)
		paths[n++] = q->name;
	qsort(paths, n, sizeof(*paths), by_text);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(paths[i], paths[i - 1]) != 0)
			cJSON_AddItemToArray(list, queue_json(c, paths[i]));
	free(paths);
	hold_reply(c, rq, 200, body);
}

/* Checks the path of a request: its parent must exist, and a record for it unless make is 1. Returns -1 when
 * the request is answered. */
static int check_path(struct core *c, struct request *rq, int make)
{
	char parent[SPEC_MAX_QUEUE + 1];
	struct err e;
	char *slash;

	if (!rq->node || spec_check_queue(rq->node, 1, &e) < 0) {
		if (!rq->node)
			err_set(&e, ERR_INVALID, "name: missing");
		reply_err(c, rq, &e);
		return -1;
	}
	snprintf(parent, sizeof(parent), "%s", rq->node);
	slash = strrchr(parent, '/');
	if (slash) {
		*slash = '\0';
		if (queue_exists(c, parent, &e) < 0) {
			reply_err(c, rq, &e);
			return -1;
		}
	}
	if (cluster_queue(&c->records, rq->node))
		return 0;
	if (!make)
		return reply_fail(c, rq, ERR_NOT_FOUND,
		                  "there is nothing set for \"%.100s\"; jobctl queue ls lists what there is",
		                  rq->node);
	if (HASH_COUNT(c->records.all[CLUSTER_QUEUE]) >= QUEUES_MAX)
		return reply_fail(c, rq, ERR_LIMIT, "there are %d queues and quotas: that is the limit", QUEUES_MAX);
	return 0;
}

static int is_user(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] == '@';
}

void req_queue_set(struct core *c, struct request *rq)
{
	const cJSON *w = cJSON_GetObjectItemCaseSensitive(rq->body, "weight");
	const struct queue_rec *q;
	double weight;
	cJSON *d;

	if (w && !cJSON_IsNull(w) &&
	    (!cJSON_IsNumber(w) || !(w->valuedouble >= 0.001) || w->valuedouble > WEIGHT_MAX)) {
		reply_fail(c, rq, ERR_INVALID, "weight: expected a number from 0.001 to 1000000");
		return;
	}
	if (check_path(c, rq, 1) < 0)
		return;
	q = cluster_queue(&c->records, rq->node);
	weight = cJSON_IsNumber(w) ? w->valuedouble : q ? q->weight : 1;
	d = event_data(c, rq, rq->node);
	cJSON_AddNumberToObject(d, "weight", weight);
	post_change(c, EV_QUEUE_SET, rq->node, d);
	hold_reply(c, rq, 200, queue_json(c, rq->node));
}

/* Returns the first queue below that path; NULL: none. */
static const char *queue_below(const struct core *c, const char *path)
{
	size_t n = strlen(path);

	for (const struct cluster_rec *r = c->records.all[CLUSTER_QUEUE]; r; r = r->hh.next)
		if (((const struct queue_rec *)r)->is_queue && strncmp(r->name, path, n) == 0 && r->name[n] == '/' &&
		    !is_user(r->name))
			return r->name;
	return NULL;
}

/* Removes the weights, quotas and budgets of users in a queue. */
static void remove_users(struct core *c, const struct request *rq, const char *path)
{
	struct cluster_rec *r, *tmp;
	size_t n = strlen(path);

	HASH_ITER (hh, c->records.all[CLUSTER_QUEUE], r, tmp) {
		cleanup_free char *user = NULL;

		if (strncmp(r->name, path, n) != 0 || r->name[n] != '/' || !is_user(r->name))
			continue;
		user = xstrdup(r->name);
		post_change(c, EV_QUEUE_REMOVED, user, event_data(c, rq, user));
	}
	budgets_drop_users(c, path, req_user(c, rq));
}

void req_queue_rm(struct core *c, struct request *rq)
{
	uint32_t jobs;
	const char *path = rq->node, *child;
	cJSON *body;

	if (check_path(c, rq, 0) < 0)
		return;
	jobs = queue_unfinished(c, path);
	child = queue_below(c, path);
	if (strcmp(path, "default") == 0) {
		reply_fail(c, rq, ERR_CONFLICT, "the queue \"default\" stays: jobs that name no queue wait there");
		return;
	}
	if (jobs || child) {
		if (jobs)
			reply_fail(
			    c, rq, ERR_CONFLICT,
			    "%u jobs of queue %s have not ended; move or stop them first: jobctl set JOB queue=OTHER",
			    jobs, path);
		else
			reply_fail(c, rq, ERR_CONFLICT, "queue %s is below %s; remove it first", child, path);
		return;
	}
	if (reserve_of_queue(c, path)) {
		reply_fail(c, rq, ERR_CONFLICT,
		           "the reservation '%s' keeps nodes for queue %s; end it first: jobctl reserve rm",
		           reserve_of_queue(c, path), path);
		return;
	}
	if (!is_user(path))
		remove_users(c, rq, path);
	post_change(c, EV_QUEUE_REMOVED, path, event_data(c, rq, path));
	budget_drop(c, path, req_user(c, rq));
	body = cJSON_CreateObject();
	json_add_str(body, "name", path);
	hold_reply(c, rq, 200, body);
}

void req_quota_set(struct core *c, struct request *rq)
{
	int64_t gpus = 0, warm_gpus = 0, warm_nodes = 0;
	const struct queue_rec *q;
	struct err e;
	int borrow = -1, warm;
	cJSON *d;

	if (json_get_i64(rq->body, "", "gpus", 1, 1000000, &gpus, &e) < 0 ||
	    json_get_i64(rq->body, "", "warm_gpus", 1, 1000000, &warm_gpus, &e) < 0 ||
	    json_get_i64(rq->body, "", "warm_nodes", 1, 1000000, &warm_nodes, &e) < 0 ||
	    json_get_bool(rq->body, "", "borrow", &borrow, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (rq->node && !is_user(rq->node) && queue_exists(c, rq->node, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	warm = warm_gpus || warm_nodes;
	if (check_path(c, rq, gpus || warm) < 0)
		return;
	q = cluster_queue(&c->records, rq->node);
	if (!gpus && !(q && q->quota_gpus) && (!warm || borrow >= 0)) {
		reply_fail(c, rq, ERR_INVALID, "gpus: missing; %s has no quota yet", rq->node);
		return;
	}
	d = event_data(c, rq, rq->node);
	json_add_u64(d, "gpus", gpus ? (uint64_t)gpus : q ? q->quota_gpus : 0);
	cJSON_AddBoolToObject(d, "borrow", borrow >= 0 ? borrow : q && q->borrow);
	json_add_u64(d, "warm_gpus", warm_gpus ? (uint64_t)warm_gpus : q ? q->warm_gpus : 0);
	json_add_u64(d, "warm_nodes", warm_nodes ? (uint64_t)warm_nodes : q ? q->warm_nodes : 0);
	post_change(c, EV_QUOTA_SET, rq->node, d);
	pools_limit(c, rq->node);
	hold_reply(c, rq, 200, queue_json(c, rq->node));
}

void req_quota_rm(struct core *c, struct request *rq)
{
	const struct queue_rec *q;

	if (check_path(c, rq, 0) < 0)
		return;
	q = cluster_queue(&c->records, rq->node);
	if (!q->quota_gpus && !q->warm_gpus && !q->warm_nodes) {
		reply_fail(c, rq, ERR_NOT_FOUND, "%s has no quota", rq->node);
		return;
	}
	post_change(c, EV_QUOTA_REMOVED, rq->node, event_data(c, rq, rq->node));
	hold_reply(c, rq, 200, queue_json(c, rq->node));
}
