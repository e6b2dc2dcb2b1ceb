/*
 * jobs: the jobs in memory: all unfinished ones, and ended ones until their last change is durable. Also
 * their specifications (only while needed), their deadlines (a heap), and what is not stored of a running
 * attempt.
 */
#include "controller/state/jobs.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"
#include "controller/state/quota.h"

struct cjob *job_find(const struct core *c, uint64_t id)
{
	struct cjob *j;

	HASH_FIND(hh, c->jobs.all, &id, sizeof(id), j);
	return j;
}

struct cjob *job_new(struct core *c, uint64_t id)
{
	struct cjob *j = xcalloc(1, sizeof(*j));

	j->r.id = id;
	j->deadline_us = UINT64_MAX;
	HASH_ADD(hh, c->jobs.all, r.id, sizeof(j->r.id), j);
	return j;
}

/* Frees what is not stored of an attempt that is being collected. */
static void collection_free(struct core *c, struct cjob *j)
{
	struct attempt_rec *newest = j->r.att;

	if (!j->collect)
		return;
	j->r.att = rec_attempt(&j->r, j->collect_attempt);
	j->act = j->collect;
	j->collect = NULL;
	j->looks_back = LOOKS_AT_NEWEST;
	active_free(c, j);
	j->r.att = newest;
}

void job_free(struct core *c, struct cjob *j)
{
	job_deadline(c, j, UINT64_MAX);
	if (j->in_turn)
		DL_DELETE2(c->turn.jobs, j, turn_prev, turn_next);
	if (j->touched)
		DL_DELETE2(c->jobs.touched, j, touch_prev, touch_next);
	active_free(c, j);
	collection_free(c, j);
	quota_stored(c, j, 1);
	for (size_t i = 0; i < c->n_observers; i++)
		if (c->observers[i].job_goes)
			c->observers[i].job_goes(c, j);
	HASH_DELETE(hh, c->jobs.all, j);
	rec_fini(&j->r);
	free(j->spec);
	free(j->run);
	if (j->avoid)
		strv_fini(j->avoid);
	free(j->avoid);
	free(j);
}

static void on_checkpoint_row(struct checkpoint_row *row, void *arg)
{
	ckpt_from_row(arg, row);
}

static void on_part_row(struct checkpoint_part_row *row, void *arg)
{
	ckpt_part_from_row(arg, row);
}

static int load_checkpoints(struct core *c, struct cjob *j, struct err *e)
{
	const struct store_checkpoints to = {on_checkpoint_row, on_part_row, &j->r};

	return c->io.checkpoints ? c->io.checkpoints(j->r.id, &to, c->io.arg, e) : 0;
}

struct cjob *job_get(struct core *c, uint64_t id, struct err *e)
{
	struct cjob *j = job_find(c, id);
	struct job_row row = {0};

	if (j)
		return j;
	if (!c->io.job_row || id == 0 || id > c->jobs.last_id) {
		err_set(e, ERR_NOT_FOUND, "there is no job %" PRIu64, id);
		return NULL;
	}
	if (c->io.job_row(id, &row, c->io.arg, e) < 0) {
		if (e->code == ERR_NOT_FOUND)
			err_set(e, ERR_NOT_FOUND, "there is no job %" PRIu64, id);
		return NULL;
	}
	j = job_new(c, id);
	j->spec_saved = 1;
	if (rec_from_job_row(&j->r, &row, e) < 0) {
		job_row_fini(&row);
		job_free(c, j);
		return NULL;
	}
	job_row_fini(&row);
	if (load_checkpoints(c, j, e) < 0) {
		job_free(c, j);
		return NULL;
	}
	job_touch(c, j); /* the end of the turn frees it again */
	return j;
}

int job_need_spec(struct core *c, struct cjob *j, struct err *e)
{
	struct job_row row = {0};

	if (j->spec)
		return 0;
	if (!c->io.job_row)
		return err_set(e, ERR_INTERNAL, "job %" PRIu64 ": its specification is missing", j->r.id);
	if (c->io.job_row(j->r.id, &row, c->io.arg, e) < 0)
		return err_wrap(e, "job %" PRIu64 ": its specification", j->r.id);
	j->spec = row.spec;
	free(j->run);
	j->run = row.run;
	row.spec = row.run = NULL;
	job_row_fini(&row);
	return j->spec ? 0 : err_set(e, ERR_INTERNAL, "job %" PRIu64 " has no specification", j->r.id);
}

struct job_spec *job_parse_spec(struct core *c, struct cjob *j, struct err *e)
{
	struct job_spec *s;

	if (job_need_spec(c, j, e) < 0)
		return NULL;
	s = spec_parse(j->spec, strlen(j->spec), e);
	if (!s)
		err_wrap(e, "job %" PRIu64 ": its specification", j->r.id);
	return s;
}

/* Called after a commit. A waiting job keeps only its record, because a million of them must fit. */
void job_settle(struct core *c, uint64_t id)
{
	struct cjob *j = job_find(c, id);

	if (!j || j->in_turn || j->touched)
		return;
	if (job_ended(j->r.status)) {
		job_free(c, j);
		return;
	}
	if (!j->act && j->r.status == JOB_RECOVERING) /* its next beginning follows from its last attempt */
		return;
	if (!j->act && c->io.job_row) {
		free(j->spec);
		free(j->run);
		j->spec = j->run = NULL;
	}
	if (!j->act && j->r.att && j->r.att->state == ATT_ENDED) {
		attempt_rec_free(j->r.att);
		attempt_rec_free(j->r.old);
		j->r.att = j->r.old = NULL;
	}
}

void job_touch(struct core *c, struct cjob *j)
{
	if (j->touched)
		return;
	j->touched = 1;
	DL_APPEND2(c->jobs.touched, j, touch_prev, touch_next);
}

/* ---- deadlines: a binary heap, 1-based ------------------------------------------------------- */

static void heap_put(struct core *c, uint32_t at, struct cjob *j)
{
	c->jobs.heap[at] = j;
	j->heap_at = at;
}

static void heap_up(struct core *c, uint32_t at)
{
	struct cjob *j = c->jobs.heap[at];

	for (; at > 1 && c->jobs.heap[at / 2]->deadline_us > j->deadline_us; at /= 2)
		heap_put(c, at, c->jobs.heap[at / 2]);
	heap_put(c, at, j);
}

static void heap_down(struct core *c, uint32_t at)
{
	struct cjob *j = c->jobs.heap[at];

	for (;;) {
		uint32_t child = at * 2;

		if (child > c->jobs.n_heap)
			break;
		if (child < c->jobs.n_heap && c->jobs.heap[child + 1]->deadline_us < c->jobs.heap[child]->deadline_us)
			child++;
		if (c->jobs.heap[child]->deadline_us >= j->deadline_us)
			break;
		heap_put(c, at, c->jobs.heap[child]);
		at = child;
	}
	heap_put(c, at, j);
}

static void heap_remove(struct core *c, struct cjob *j)
{
	uint32_t at = j->heap_at;
	struct cjob *last = c->jobs.heap[c->jobs.n_heap--];

	j->heap_at = 0;
	if (last == j)
		return;
	heap_put(c, at, last);
	heap_up(c, at);
	heap_down(c, last->heap_at);
}

void job_deadline(struct core *c, struct cjob *j, uint64_t at_us)
{
	if (j->heap_at && j->deadline_us == at_us)
		return;
	if (j->heap_at)
		heap_remove(c, j);
	j->deadline_us = at_us;
	if (at_us == UINT64_MAX)
		return;
	if (c->jobs.n_heap + 2 > c->jobs.cap_heap) {
		c->jobs.cap_heap = c->jobs.cap_heap ? c->jobs.cap_heap * 2 : 64;
		c->jobs.heap = xreallocarray(c->jobs.heap, c->jobs.cap_heap, sizeof(*c->jobs.heap));
	}
	c->jobs.n_heap++;
	heap_put(c, c->jobs.n_heap, j);
	heap_up(c, c->jobs.n_heap);
}

struct cjob *job_due(struct core *c, uint64_t now_us)
{
	struct cjob *j = c->jobs.n_heap ? c->jobs.heap[1] : NULL;

	if (!j || j->deadline_us > now_us)
		return NULL;
	job_deadline(c, j, UINT64_MAX);
	return j;
}

uint64_t job_next_deadline(const struct core *c)
{
	return c->jobs.n_heap ? c->jobs.heap[1]->deadline_us : UINT64_MAX;
}

uint64_t max_runtime_s(const struct core *c, const struct cjob *j, const struct job_spec *s)
{
	uint64_t v = j->r.max_runtime_s ? j->r.max_runtime_s
	             : s->max_runtime_s ? s->max_runtime_s
	                                : c->cfg.max_runtime_default_s;

	return c->cfg.max_runtime_limit_s && v > c->cfg.max_runtime_limit_s ? c->cfg.max_runtime_limit_s : v;
}

/* ---- what is not stored of an attempt -------------------------------------------------------- */

static void rsh_free(struct rsh *r)
{
	free(r->id);
	for (uint32_t i = 0; i < r->argv.n; i++)
		free(r->argv.v[i]);
	free(r->argv.v);
	free(r);
}

void beginning_fini(struct beginning *b)
{
	ckpt_free(b->ckpt);
	for (uint32_t i = 0; i < b->n_also; i++)
		ckpt_free(b->also[i]);
	strv_fini(&b->parts);
	*b = (struct beginning){.step = -1};
}

void active_free(struct core *c, struct cjob *j)
{
	struct active *a = j->act;
	struct rsh *r, *t;

	if (!a)
		return;
	for (uint32_t i = 0; j->r.att && i < j->r.att->n_places; i++) {
		struct cnode *n = node_by_id(c, j->r.att->places[i].node_id);

		if (n)
			node_job_del(n, j);
	}
	LL_FOREACH_SAFE (a->rsh, r, t)
		rsh_free(r);
	spec_destroy(a->spec);
	wire_unshare(a->gang);
	free(a->rt);
	strv_fini(&a->inputs);
	beginning_fini(&a->begin);
	strv_fini(&a->warnings);
	free(a->losses);
	free(a->step_us);
	free(a->upload_text);
	free(a->program_says);
	quota_free(c, a);
	free(a);
	j->act = NULL;
}

struct active *active_new(struct core *c, struct cjob *j, struct err *e)
{
	struct active *a = xcalloc(1, sizeof(*a));

	a->spec = job_parse_spec(c, j, e);
	if (!a->spec) {
		free(a);
		return NULL;
	}
	a->max_runtime_us = max_runtime_s(c, j, a->spec) * 1000000;
	a->grace_ms = (uint32_t)((a->spec->grace_s ? a->spec->grace_s : c->cfg.default_grace_s) * 1000);
	return a;
}

struct place_rt *place_rt(const struct cjob *j, const struct place_rec *p)
{
	return &j->act->rt[p - j->r.att->places];
}

uint32_t place_index(const struct cjob *j, const struct place_rec *p)
{
	return (uint32_t)(p - j->r.att->places);
}
