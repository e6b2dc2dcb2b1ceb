/*
 * queues: queues, the weights of queues and users, quotas, and use.
 *
 * A path is a queue, "research/vision", or a user in a queue, "research/@ada". A row allows jobs to name the
 * queue, or gives the user a weight there; it may have a quota of GPUs. The queue "default" always exists. A
 * change is an event of the cluster, and the scheduler library gets it immediately.
 *
 * The library counts use. When a job releases its GPUs, hearthd writes the row of its queue and its user with
 * all use until then. A restart adds only later use, so nothing counts twice.
 */
#include "controller/share/queues.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "controller/record/event.h"
#include "controller/record/states.h"
#include "controller/share/budget.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/observer.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

struct used { /* its row is to be written */
	char *path;
	UT_hash_handle hh;
};

struct queue_jobs { /* of a queue that unfinished jobs name */
	char *path;
	uint32_t n;
	UT_hash_handle hh;
};

static struct queue_rec *find_queue(const struct core *c, const char *path)
{
	return cluster_queue(&c->records, path);
}

static struct queue_jobs *find_jobs(const struct core *c, const char *path)
{
	struct queue_jobs *q;

	HASH_FIND_STR(c->queues.jobs, path, q);
	return q;
}

static void drop_jobs(struct core *c, struct queue_jobs *q)
{
	HASH_DELETE(hh, c->queues.jobs, q);
	free(q->path);
	free(q);
}

void queue_tell(struct core *c, const char *path)
{
	const struct queue_rec *q = find_queue(c, path);
	uint32_t quota = !q || FAULT("mistake.no_quota") ? 0 : q->quota_gpus;

	sched_queue_set(c->sched, &(struct sched_queue){path, q ? q->weight : 1, quota, q && q->borrow});
	c->alloc.dirty = 1;
}

void queues_clear(struct core *c)
{
	struct queue_jobs *q, *qt;
	struct used *u, *ut;

	HASH_ITER (hh, c->queues.jobs, q, qt)
		drop_jobs(c, q);
	HASH_ITER (hh, c->queues.used, u, ut) {
		HASH_DELETE(hh, c->queues.used, u);
		free(u->path);
		free(u);
	}
}

int queue_load(struct core *c, const struct queue_row *r)
{
	if (cluster_load(&c->records, &(struct store_cluster_row){.queue = r}))
		queue_tell(c, r->path);
	return 0;
}

void queues_loaded(const struct core *c)
{
	const struct cluster_rec *r = c->records.all[CLUSTER_QUEUE];

	while (r && ((const struct queue_rec *)r)->weight == 1)
		r = r->hh.next;
	if (r && c->cfg.backfill == BACKFILL_CONSERVATIVE)
		log_warn("event=weights_not_kept backfill=conservative path=%s weight=%g: places are promised first "
		         "come, first served; backfill=easy keeps the weights",
		         r->name, ((const struct queue_rec *)r)->weight);
}

void usage_load(struct core *c, const struct usage_row *r)
{
	sched_usage_set(c->sched, r->path, (double)r->gpu_ms / 1000, r->at_us / 1000000);
}

void queue_jobs(struct core *c, const char *path, int delta)
{
	struct queue_jobs *q = find_jobs(c, path && *path ? path : "default");

	if (!q) {
		q = xcalloc(1, sizeof(*q));
		q->path = xstrdup(path && *path ? path : "default");
		HASH_ADD_KEYPTR(hh, c->queues.jobs, q->path, strlen(q->path), q);
	}
	q->n = (uint32_t)((int64_t)q->n + delta);
	if (!q->n)
		drop_jobs(c, q);
}

/* EV_CHANGED may change the queue: the job leaves the old one first. */
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
	const struct queue_rec *q = find_queue(c, path);

	return q && q->is_queue
	           ? 0
	           : err_set(e, ERR_NOT_FOUND,
	                     "queue: there is no queue \"%.100s\"; jobctl queue ls lists them, jobctl "
	                     "queue set adds one",
	                     path);
}

int queue_of_path(const struct core *c, const char *path, struct err *e)
{
	char queue[SPEC_MAX_QUEUE + 1];
	char *at;

	snprintf(queue, sizeof(queue), "%s", path);
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

	account_path(path, sizeof(path), queue, owner);
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		const struct queue_rec *q;

		*end = '\0';
		q = find_queue(c, path);
		if (q && q->quota_gpus && !q->borrow && gpus > q->quota_gpus)
			return err_set(e, ERR_CONFLICT,
			               "resources: the job wants %" PRIu64
			               " GPUs, and the quota of %s is %u GPU%s: it could never start",
			               gpus, path, q->quota_gpus, q->quota_gpus == 1 ? "" : "s");
	}
	return 0;
}

/* ---- use --------------------------------------------------------------------------------------- */

void usage_mark(struct core *c, const struct cjob *j)
{
	char path[ACCOUNT_PATH];

	account_path(path, sizeof(path), j->r.queue, j->r.owner);
	for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
		struct used *u;

		*end = '\0';
		HASH_FIND_STR(c->queues.used, path, u);
		if (u)
			continue;
		u = xcalloc(1, sizeof(*u));
		u->path = xstrdup(path);
		HASH_ADD_KEYPTR(hh, c->queues.used, u->path, strlen(u->path), u);
	}
}

void usage_write(struct core *c)
{
	struct used *u, *tmp;

	if (!c->queues.used)
		return;
	sched_now(c->sched, sched_time(c));
	HASH_ITER (hh, c->queues.used, u, tmp) {
		struct usage_row r = {.path = u->path, .at_us = sched_time(c) * 1000000};
		double ms = sched_usage(c->sched, u->path) * 1000;

		r.gpu_ms = ms < 9e18 ? (uint64_t)ms : 0;
		store_txn_usage(turn_now(c)->txn, &r);
		turn_now(c)->n++;
		HASH_DELETE(hh, c->queues.used, u);
		free(u->path);
		free(u);
	}
}

uint32_t queue_unfinished(const struct core *c, const char *path)
{
	const struct queue_jobs *q = find_jobs(c, path);

	return q ? q->n : 0;
}
