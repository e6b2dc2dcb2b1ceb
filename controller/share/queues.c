/*
 * queues: queues, the weights of queues and users, quotas, and what was used.
 *
 * A path is a queue, "research/vision", or a user in one, "research/@ada". A row says that jobs may name that
 * queue (or that the user has a weight there), and may bear a quota of GPUs. "default" is always there. Each
 * change is an event of the cluster, its row goes in the same transaction, and the scheduler library knows it
 * at once. Use is the library's; the row of a queue or user is written when a job of theirs has given back
 * its GPUs, with all that was held until then, so that a restart adds what ran since and counts nothing
 * twice.
 */
#include "controller/share/queues.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/core.h"
#include "controller/record/event.h"
#include "controller/record/states.h"
#include "controller/requests/requests.h"
#include "controller/share/budget.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define QUEUES_MAX 10000 /* rows; also the most that are listed */
#define WEIGHT_MAX 1000000.0

struct used { /* its row is to be written */
	char *path;
	UT_hash_handle hh;
};

static struct cqueue *find(const struct core *c, const char *path)
{
	struct cqueue *q;

	HASH_FIND_STR(c->queues, path, q);
	return q;
}

static struct cqueue *make(struct core *c, const char *path)
{
	struct cqueue *q = find(c, path);

	if (q)
		return q;
	q = xcalloc(1, sizeof *q);
	q->path = xstrdup(path);
	q->weight = 1;
	HASH_ADD_KEYPTR(hh, c->queues, q->path, strlen(q->path), q);
	return q;
}

static void drop(struct core *c, struct cqueue *q)
{
	HASH_DELETE(hh, c->queues, q);
	free(q->path);
	free(q);
}

static void tell_sched(struct core *c, const struct cqueue *q)
{
	uint32_t quota = FAULT("mistake.no_quota") ? 0 : q->quota_gpus;

	sched_queue_set(c->sched, &(struct sched_queue){q->path, q->weight, quota, q->borrow});
	c->sched_dirty = 1;
}

void queues_open(struct core *c)
{
	make(c, "default")->is_queue = 1;
}

void queues_clear(struct core *c)
{
	struct cqueue *q, *qt;
	struct used *u, *ut;

	HASH_ITER (hh, c->queues, q, qt)
		drop(c, q);
	HASH_ITER (hh, c->used, u, ut) {
		HASH_DELETE(hh, c->used, u);
		free(u->path);
		free(u);
	}
}

int queue_load(struct core *c, const struct queue_row *r)
{
	struct cqueue *q = make(c, r->path);

	q->is_queue |= r->is_queue;
	q->weight = (double)r->weight_milli / 1000;
	q->quota_gpus = r->quota_gpus;
	q->borrow = r->borrow;
	tell_sched(c, q);
	return 0;
}

void queues_loaded(const struct core *c)
{
	const struct cqueue *q = c->queues;

	while (q && q->weight == 1)
		q = q->hh.next;
	if (q && c->cfg.backfill == BACKFILL_CONSERVATIVE)
		log_warn("event=weights_not_kept backfill=conservative path=%s weight=%g: places are promised first "
		         "come, first served; backfill=easy keeps the weights",
		         q->path, q->weight);
}

void usage_load(struct core *c, const struct usage_row *r)
{
	sched_usage_set(c->sched, r->path, (double)r->gpu_ms / 1000, r->at_us / 1000000);
}

void queue_jobs(struct core *c, const char *path, int delta)
{
	struct cqueue *q = make(c, path && *path ? path : "default");

	q->jobs = (uint32_t)((int64_t)q->jobs + delta);
	if (!q->jobs && !q->is_queue && !q->quota_gpus)
		drop(c, q); /* a queue that is not there any more */
}

/* A change may be one of its queue: it leaves the old one first. */
static int may_change_queue(enum event_type t, enum job_status before)
{
	return t == EV_CHANGED && !job_ended(before);
}

void queue_before_event(struct core *c, const struct cjob *j, enum event_type t, cJSON *data)
{
	(void)data;
	if (j && may_change_queue(t, j->r.status))
		queue_jobs(c, j->r.queue, -1);
}

void queue_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before)
{
	if (may_change_queue(t, before->status))
		queue_jobs(c, j->r.queue, 1);
	if (before->refused)
		return;
	if (before->is_new)
		queue_jobs(c, j->r.queue, 1);
	else if (before->status != j->r.status && job_ended(j->r.status))
		queue_jobs(c, j->r.queue, -1);
}

int queue_exists(const struct core *c, const char *path, struct err *e)
{
	const struct cqueue *q = find(c, path);

	return q && q->is_queue
	           ? 0
	           : err_set(e, ERR_NOT_FOUND,
	                     "queue: there is no queue \"%.100s\"; jobctl queue ls lists them, jobctl "
	                     "queue set makes one",
	                     path);
}

int queue_of_path(const struct core *c, const char *path, struct err *e)
{
	char queue[SPEC_MAX_QUEUE + 1];
	char *at;

	snprintf(queue, sizeof queue, "%s", path);
	at = strrchr(queue, '/');
	if (at && at[1] == '@')
		*at = '\0';
	return queue_exists(c, queue, e);
}

void account_path(char *out, size_t n, const char *queue, const char *owner)
{
	snprintf(out, n, "%s/@%s", queue && *queue ? queue : "default", owner && *owner ? owner : "nobody");
}

int queue_holds(const struct core *c, const char *queue, const char *owner, uint64_t gpus, struct err *e)
{
	char path[ACCOUNT_PATH];

	account_path(path, sizeof path, queue, owner);
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		const struct cqueue *q;

		*end = '\0';
		q = find(c, path);
		if (q && q->quota_gpus && !q->borrow && gpus > q->quota_gpus)
			return err_set(
			    e, ERR_CONFLICT,
			    "resources: the job wants %llu GPUs, and the quota of %s is %u GPU%s: it could never start",
			    (unsigned long long)gpus, path, q->quota_gpus, q->quota_gpus == 1 ? "" : "s");
	}
	return 0;
}

/* ---- use --------------------------------------------------------------------------------------- */

void usage_mark(struct core *c, const struct cjob *j)
{
	char path[ACCOUNT_PATH];

	account_path(path, sizeof path, j->r.queue, j->r.owner);
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		struct used *u;

		*end = '\0';
		HASH_FIND_STR(c->used, path, u);
		if (u)
			continue;
		u = xcalloc(1, sizeof *u);
		u->path = xstrdup(path);
		HASH_ADD_KEYPTR(hh, c->used, u->path, strlen(u->path), u);
	}
}

void usage_write(struct core *c)
{
	struct used *u, *tmp;

	if (!c->used)
		return;
	sched_now(c->sched, sched_time(c));
	HASH_ITER (hh, c->used, u, tmp) {
		struct usage_row r = {.path = u->path, .at_us = sched_time(c) * 1000000};
		double ms = sched_usage(c->sched, u->path) * 1000;

		r.gpu_ms = ms < 9e18 ? (uint64_t)ms : 0;
		store_txn_usage(turn_now(c)->txn, &r);
		turn_now(c)->n++;
		HASH_DELETE(hh, c->used, u);
		free(u->path);
		free(u);
	}
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void write_row(struct core *c, const struct cqueue *q)
{
	struct queue_row r = {q->path, q->is_queue, q->borrow, (uint64_t)llround(q->weight * 1000),
	                      q->quota_gpus};

	if (q->is_queue || q->quota_gpus)
		store_txn_queue(turn_now(c)->txn, &r);
	else
		store_txn_queue_del(turn_now(c)->txn, q->path);
	turn_now(c)->n++;
}

static void post(struct core *c, const struct request *rq, enum event_type t, const struct cqueue *q)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "queue", q->path);
	json_add_str(d, "by", req_user(c, rq));
	if (t == EV_QUEUE_SET)
		cJSON_AddNumberToObject(d, "weight", q->weight);
	if (t == EV_QUOTA_SET) {
		json_add_u64(d, "gpus", q->quota_gpus);
		cJSON_AddBoolToObject(d, "borrow", q->borrow);
	}
	cluster_post(c, t, d);
	write_row(c, q);
	tell_sched(c, q);
}

static cJSON *queue_json(struct core *c, const char *path)
{
	const struct cqueue *q = find(c, path);
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
	const char **paths = xcalloc(2 * QUEUES_MAX, sizeof *paths);
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "queues");
	size_t n;

	n = sched_queue_list(c->sched, paths, QUEUES_MAX);
	for (const struct cqueue *q = c->queues; q && n < 2 * QUEUES_MAX; q = q->hh.next)
		paths[n++] = q->path;
	qsort(paths, n, sizeof *paths, by_text);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(paths[i], paths[i - 1]) != 0)
			cJSON_AddItemToArray(list, queue_json(c, paths[i]));
	free(paths);
	hold_reply(c, rq, 200, body);
}

/* The row that a change is about: its parent must be there. NULL: answered. */
static struct cqueue *wanted(struct core *c, struct request *rq, int create)
{
	char parent[SPEC_MAX_QUEUE + 1];
	struct cqueue *q;
	struct err e;
	char *slash;

	if (!rq->node || spec_check_queue(rq->node, 1, &e) < 0) {
		if (!rq->node)
			err_set(&e, ERR_INVALID, "name: needed");
		reply_err(c, rq, &e);
		return NULL;
	}
	snprintf(parent, sizeof parent, "%s", rq->node);
	slash = strrchr(parent, '/');
	if (slash) {
		*slash = '\0';
		if (queue_exists(c, parent, &e) < 0) {
			reply_err(c, rq, &e);
			return NULL;
		}
	}
	q = find(c, rq->node);
	if (!q && create && HASH_COUNT(c->queues) >= QUEUES_MAX)
		reply_fail(c, rq, ERR_LIMIT, "there are %d queues and quotas: that is the limit", QUEUES_MAX);
	else if (!q && !create)
		reply_fail(c, rq, ERR_NOT_FOUND,
		           "there is nothing set for \"%.100s\"; jobctl queue ls lists what there is", rq->node);
	else
		return q ? q : make(c, rq->node);
	return NULL;
}

static int is_user(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] == '@';
}

void req_queue_set(struct core *c, struct request *rq)
{
	const cJSON *w = cJSON_GetObjectItemCaseSensitive(rq->body, "weight");
	struct cqueue *q;

	if (w && !cJSON_IsNull(w) &&
	    (!cJSON_IsNumber(w) || !(w->valuedouble >= 0.001) || w->valuedouble > WEIGHT_MAX)) {
		reply_fail(c, rq, ERR_INVALID, "weight: expected a number from 0.001 to 1000000");
		return;
	}
	q = wanted(c, rq, 1);
	if (!q)
		return;
	q->is_queue = 1;
	if (cJSON_IsNumber(w))
		q->weight = w->valuedouble;
	post(c, rq, EV_QUEUE_SET, q);
	hold_reply(c, rq, 200, queue_json(c, q->path));
}

static const struct cqueue *below(const struct core *c, const char *path)
{
	size_t n = strlen(path);

	for (const struct cqueue *q = c->queues; q; q = q->hh.next)
		if (q->is_queue && strncmp(q->path, path, n) == 0 && q->path[n] == '/' && !is_user(q->path))
			return q;
	return NULL;
}

/* With it go the weights, quotas and budgets of users in it. */
static void drop_users(struct core *c, const struct request *rq, const char *path)
{
	size_t n = strlen(path);
	struct cqueue *q, *tmp;

	HASH_ITER (hh, c->queues, q, tmp) {
		if (strncmp(q->path, path, n) != 0 || q->path[n] != '/' || !is_user(q->path))
			continue;
		q->is_queue = q->borrow = 0;
		q->quota_gpus = 0;
		q->weight = 1;
		post(c, rq, EV_QUEUE_REMOVED, q);
		drop(c, q);
	}
	budgets_drop_users(c, path, req_user(c, rq));
}

void req_queue_rm(struct core *c, struct request *rq)
{
	struct cqueue *q = wanted(c, rq, 0);
	const struct cqueue *child;
	cJSON *body;

	if (!q)
		return;
	child = below(c, q->path);
	if (strcmp(q->path, "default") == 0) {
		reply_fail(c, rq, ERR_CONFLICT, "the queue \"default\" stays: jobs that name no queue wait there");
		return;
	}
	if (q->jobs || child) {
		if (q->jobs)
			reply_fail(
			    c, rq, ERR_CONFLICT,
			    "%u jobs of queue %s have not ended; move or stop them first: jobctl set JOB queue=OTHER",
			    q->jobs, q->path);
		else
			reply_fail(c, rq, ERR_CONFLICT, "queue %s lies below %s; remove it first", child->path, q->path);
		return;
	}
	if (reserve_of_queue(c, q->path)) {
		reply_fail(c, rq, ERR_CONFLICT,
		           "the reservation '%s' keeps nodes for queue %s; end it first: jobctl reserve rm",
		           reserve_of_queue(c, q->path), q->path);
		return;
	}
	if (!is_user(q->path))
		drop_users(c, rq, q->path);
	q->is_queue = q->borrow = 0;
	q->quota_gpus = 0;
	q->weight = 1;
	post(c, rq, EV_QUEUE_REMOVED, q);
	budget_drop(c, q->path, req_user(c, rq));
	body = cJSON_CreateObject();
	json_add_str(body, "name", q->path);
	drop(c, q);
	hold_reply(c, rq, 200, body);
}

void req_quota_set(struct core *c, struct request *rq)
{
	int64_t gpus = 0;
	struct cqueue *q;
	struct err e;
	int borrow = -1;

	if (json_get_i64(rq->body, "", "gpus", 1, 1000000, &gpus, &e) < 0 ||
	    json_get_bool(rq->body, "", "borrow", &borrow, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (rq->node && !is_user(rq->node) && queue_exists(c, rq->node, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	q = wanted(c, rq, gpus > 0);
	if (!q)
		return;
	if (!gpus && !q->quota_gpus) {
		reply_fail(c, rq, ERR_INVALID, "gpus: needed, %s has no quota yet", q->path);
		return;
	}
	if (gpus)
		q->quota_gpus = (uint32_t)gpus;
	if (borrow >= 0)
		q->borrow = (uint8_t)borrow;
	post(c, rq, EV_QUOTA_SET, q);
	hold_reply(c, rq, 200, queue_json(c, q->path));
}

void req_quota_rm(struct core *c, struct request *rq)
{
	struct cqueue *q = wanted(c, rq, 0);
	cJSON *body;

	if (!q)
		return;
	if (!q->quota_gpus) {
		reply_fail(c, rq, ERR_NOT_FOUND, "%s has no quota", q->path);
		return;
	}
	q->quota_gpus = 0;
	q->borrow = 0;
	post(c, rq, EV_QUOTA_REMOVED, q);
	body = queue_json(c, q->path);
	if (!q->is_queue && !q->jobs)
		drop(c, q);
	hold_reply(c, rq, 200, body);
}
