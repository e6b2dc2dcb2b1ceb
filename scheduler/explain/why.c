/*
 * why: the explanation of a waiting job, as numbers and one sentence for its owner.
 */
#include "scheduler/explain/explain.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/text.h"
#include "scheduler/explain/obstacle.h"
#include "scheduler/explain/replacing.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/order.h"

static const struct job *find_blocker(const struct sched *s, const struct job *j)
{
	const struct job *best = NULL;

	for (uint32_t i = 0; i < s->n_active; i++) {
		const struct lane *l = s->active[i];
		const struct job *first = l->shape->hopeless_gen == s->nodes_gen ? NULL : l->first;

		if (!first || first == j || l->shape->pool || account_full(l->account, l->shape->gpus) == 2)
			continue;
		if (order_before(s, first, j) && (!best || order_before(s, first, best)))
			best = first;
	}
	return best;
}

/* Of this lane those of higher priority than j, and those of its own that are due: they are the first of it.
 * Jobs that go first of their priority are before the others; j does not count itself. */
static uint32_t due_in(const struct sched *s, const struct lane *l, const struct job *j)
{
	struct job edge = {.priority = j->priority, .is_first = j->is_first};
	uint32_t from = queue_count_before(l, &edge), to;

	edge.order = edge.id = UINT64_MAX;
	edge.is_first = 0;
	to = queue_count_before(l, &edge);
	if (from < to && !order_due(s, queue_at(l, from)))
		return from;
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (order_due(s, queue_at(l, middle)))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Jobs of this lane that a pass that is made now would look at before j: of another account all of j's
 * priority, or those that are due, or none. */
static uint32_t ahead_in(const struct sched *s, const struct lane *l, const struct job *j)
{
	struct job edge = {.priority = j->priority, .order = UINT64_MAX, .id = UINT64_MAX};
	int c = s->policy.fair ? account_before(s, l->account, j->lane->account) : 0;
	uint32_t older = queue_count_before(l, j), due;

	if (!c && !s->policy.starve_s)
		return older;
	due = due_in(s, l, j);
	if (order_due(s, j))
		return older < due ? older : due;
	if (c < 0)
		return queue_count_before(l, &edge);
	return c > 0 || older < due ? due : older;
}

static const char *unit_of(uint64_t s, uint64_t *n)
{
	static const struct {
		uint64_t s;
		const char *name;
	} units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
	size_t i = 0;

	while (i < 3 && s < 2 * units[i].s)
		i++;
	*n = s / units[i].s;
	return units[i].name;
}

static void say_waited(const struct sched *s, const struct job *j, struct text *o)
{
	uint64_t n;
	const char *unit = unit_of(s->now_s - j->submit_s, &n);

	text_add(o, "has waited %" PRIu64 " %s%s", n, unit, n == 1 ? "" : "s");
}

static double gpu_hours(const struct sched *s, const struct account *a)
{
	return account_use(s, a) / 3600;
}

/* Why that one is first. */
static void explain_turn(const struct sched *s, const struct job *j, const struct job *first, struct text *o)
{
	const struct account *a = first->lane->account, *b = j->lane->account;

	text_add(o, "waits its turn: job %" PRIu64, first->id);
	if (first->priority == j->priority && order_due(s, first)) {
		text_add(o, " (which ");
		say_waited(s, first, o);
		text_add(o, ": before fair share) is ahead and does not fit yet");
		return;
	}
	if (first->priority != j->priority || !s->policy.fair || !account_before(s, a, b)) {
		text_add(o, " (priority %" PRId64 ") is ahead and does not fit yet", first->priority);
		return;
	}
	account_part(&a, &b);
	text_add(o,
	         " of %s is ahead and does not fit yet: %s has used less of its share (%.1f GPU hours, weight "
	         "%.1f; %s: "
	         "%.1f, weight %.1f)",
	         a->path, a->path, gpu_hours(s, a), a->weight, b->path, gpu_hours(s, b), b->weight);
}

static void explain_quota(const struct job *j, struct sched_reason *r, struct text *o)
{
	const struct account *a = j->lane->account;

	for (; a; a = a->parent) {
		if (!a->closed)
			continue;
		r->why = SCHED_CLOSED;
		text_add(o, "nothing more of %s is started now", *a->path ? a->path : "the cluster");
		return;
	}
	a = j->lane->account;
	while (a && (!a->quota || a->gpus + a->owed + j->shape->gpus <= a->quota))
		a = a->parent;
	r->why = SCHED_QUOTA;
	if (a)
		text_add(o, "%s holds %" PRIu64 " of the %" PRIu64 " GPUs of its quota; this job wants %" PRIu64,
		         *a->path ? a->path : "the cluster", a->gpus, a->quota, j->shape->gpus);
}

/* It would fit, but for the nodes that are kept for others. */
static int explain_booked(const struct sched *s, const struct job *j, struct sched_reason *r, struct text *o)
{
	struct sched *mut = (struct sched *)(uintptr_t)s; /* as it was when this is over */
	uint32_t failed = 0;
	int fits;

	if (!s->n_reservations)
		return 0;
	reservation_try(mut, j, s->now_s);
	fits = fit_possible(s, j->shape, FIT_NOW, &failed);
	if (!fits) {
		r->why = SCHED_RESERVED;
		r->need_instances = j->shape->groups[failed].instances;
		r->free_instances = fit_count(s, j->shape, failed, FIT_NOW);
		text_add(o, "needs ");
		obstacle_need(o, j->shape, &j->shape->groups[failed]);
		text_add(o, "; %" PRIu32 " free now and not reserved for others before the job's time limit is over",
		         r->free_instances);
	}
	reservation_try(mut, NULL, 0);
	return !fits;
}

/* Follows S-172. */
static void explain_pool(const struct sched *s, const struct shape *sh, uint32_t failed,
                         struct sched_reason *r, struct text *o)
{
	uint32_t parts = sched_pool_parts(s, sh->pool);

	r->why = SCHED_POOL;
	text_add(o, "waits for warm pool %" PRIu64 ": ", sh->pool);
	if (!parts) {
		text_add(o, "none of it is free now");
		return;
	}
	text_add(o, "needs ");
	obstacle_need(o, sh, &sh->groups[failed]);
	text_add(o, "; its %" PRIu32 " free node%s %" PRIu32 " of them", parts, parts == 1 ? " holds" : "s hold",
	         r->free_instances);
}

static void explain_now(const struct sched *s, const struct job *j, struct sched_reason *r)
{
	struct text o = text_on(r->text, sizeof(r->text));
	const struct shape *sh = j->shape;
	const struct job *first;
	uint32_t failed = 0;
	int fits = fit_possible(s, sh, FIT_NOW, &failed);

	r->need_instances = sh->groups[failed].instances;
	r->free_instances = fit_count(s, sh, failed, FIT_NOW);
	r->possible_instances = fit_count(s, sh, failed, FIT_EMPTY);
	first = find_blocker(s, j);
	if (account_full(j->lane->account, sh->gpus) == 2) {
		explain_quota(j, r, &o);
	} else if (!fits && sh->pool) {
		explain_pool(s, sh, failed, r, &o);
	} else if (!fits) {
		r->why = SCHED_BUSY;
		text_add(&o, "needs ");
		obstacle_need(&o, sh, &sh->groups[failed]);
		text_add(&o, "; %" PRIu32 " free now", r->free_instances);
		obstacle_busy(s, sh, failed, &o);
	} else if (explain_booked(s, j, r, &o)) {
		; /* said */
	} else if (first) {
		r->why = SCHED_BEHIND;
		explain_turn(s, j, first, &o);
	} else if (s->head && s->head != j) {
		/* One later in order may have it (it was first once), and of many that wait some are not reached. */
		first = s->head;
		r->why = SCHED_BEHIND;
		text_add(&o,
		         "would fit, but a place is kept for job %" PRIu64
		         ", which it may be in the way of; it is looked at again when a job ends or comes",
		         first->id);
	} else {
		r->why = SCHED_FITS;
		text_add(&o, "can start now");
	}
	r->behind = first ? first->id : 0;
	if (s->policy.starve_s && order_due(s, j)) {
		r->due_s = s->now_s - j->submit_s;
		text_add(&o, "; it ");
		say_waited(s, j, &o);
		text_add(&o, ": goes before fair share");
	}
}

/* What it waits for has not ended, or not as it should. */
static void explain_held(const struct job *j, struct sched_reason *r)
{
	static const char *const what[] = {"end", "end well", "start"};
	struct text o = text_on(r->text, sizeof(r->text));
	enum dep_state shown = j->n_never ? DEP_NEVER : DEP_OPEN;
	uint32_t named = 0, more = 0;

	r->why = j->n_never ? SCHED_NEVER : SCHED_DEPENDS;
	for (uint32_t i = 0; i < j->n_after; i++) {
		const struct dep *d = &j->after[i];

		if (d->state != shown)
			continue;
		if (named == 3) {
			more++;
			continue;
		}
		if (!named)
			r->behind = d->on;
		text_add(&o, "%sjob %" PRIu64 " to %s", named++ ? ", " : "waits for ", d->on, what[d->kind]);
	}
	if (more)
		text_add(&o, " and for %" PRIu32 " more", more);
	if (j->n_never)
		text_add(&o, ", which can never be");
}

/* Follows S-325. */
void sched_explain(const struct sched *s, uint64_t id, struct sched_reason *r)
{
	struct text o = text_on(r->text, sizeof(r->text));
	const struct job *j;
	size_t usable;

	memset(r, 0, sizeof(*r));
	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	if (j && j->is_held) {
		explain_held(j, r);
		return;
	}
	if (j && j->is_exchanging)
		replacing_explain(s, j, r);
	if (!j || !j->is_waiting)
		return;
	sched_count(s, NULL, NULL, &usable);
	if (!s->n_sorted) {
		r->why = SCHED_NO_NODES;
		r->need_instances = j->shape->instances;
		text_add(&o, "no node has joined yet");
	} else if (!usable) {
		r->why = SCHED_NO_NODES;
		r->need_instances = j->shape->instances;
		text_add(&o,
		         s->n_sorted == 1 ? "the only node takes no jobs now"
		                          : "none of the %zu nodes is up and open for work",
		         s->n_sorted);
		replacing_say_spares(s, j->shape, &o);
	} else if (obstacle_judge(s, j->shape, FIT_EMPTY, r)) {
		explain_now(s, j, r);
	}
	for (uint32_t i = 0; i < s->n_active; i++)
		r->ahead += ahead_in(s, s->active[i], j);
}
