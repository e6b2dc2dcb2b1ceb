/*
 * forecast: when a waiting job is believed to start, and where.
 *
 * The one that a place is kept for, then the jobs before it in their order, start as soon as they fit and
 * their quotas allow it, and end when they are believed to; time goes on from end to end. That is what
 * happens without backfill; with it the job may start earlier. The work is bounded: so many jobs before it,
 * and so many steps, one for each node that is looked at, more for what costs more. Beyond that there is only
 * a time before which it cannot fit, even if nobody were before it.
 */
#include "scheduler/explain/explain.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/order.h"
#include "scheduler/policy/plan.h"
#include "scheduler/policy/shadow.h"

#define MAX_AHEAD 100
#define EFFORT    400000u /* steps: some milliseconds */
#define PER_LANE  16
#define PER_END   4
#define PER_TAKES 64 /* the caller is asked how long one takes */
#define PER_POP   96

struct event { /* something ends */
	uint64_t at;
	const struct job *job; /* NULL: a reservation */
	struct spot *spots;    /* of one that was started here; NULL it runs */
};

struct run {
	struct sched *s;
	sched_takes_fn takes;
	void *arg;
	struct event *ends; /* a heap by time */
	size_t n, cap;
	uint64_t now, left; /* left: steps */
	int32_t *assign;
	int cut; /* they did not suffice */
};

/* Follows S-319. */
static int spend_steps(struct run *r, uint64_t steps)
{
	if (r->left < steps) {
		r->left = 0;
		r->cut = 1;
		return 0;
	}
	r->left -= steps;
	return 1;
}

/* ---- what ends, by time ------------------------------------------------------------------------ */

static int is_earlier(const struct event *a, const struct event *b)
{
	if (a->at != b->at || !a->job || !b->job)
		return a->at != b->at ? a->at < b->at : !a->job && b->job;
	return a->job->id < b->job->id;
}

static void ends_grow(struct run *r, size_t n)
{
	if (n <= r->cap)
		return;
	r->cap = n * 2;
	r->ends = mem_resize(r->ends, r->cap, sizeof(*r->ends));
}

static void push_event(struct run *r, struct event e)
{
	size_t at = r->n;

	ends_grow(r, r->n + 1);
	r->n++;
	for (; at && is_earlier(&e, &r->ends[(at - 1) / 2]); at = (at - 1) / 2)
		r->ends[at] = r->ends[(at - 1) / 2];
	r->ends[at] = e;
}

static void sift_down(struct run *r, size_t at, struct event e)
{
	size_t child;

	while ((child = 2 * at + 1) < r->n) {
		if (child + 1 < r->n && is_earlier(&r->ends[child + 1], &r->ends[child]))
			child++;
		if (!is_earlier(&r->ends[child], &e))
			break;
		r->ends[at] = r->ends[child];
		at = child;
	}
	r->ends[at] = e;
}

static struct event pop_event(struct run *r)
{
	struct event top = r->ends[0], last = r->ends[--r->n];

	if (r->n)
		sift_down(r, 0, last);
	return top;
}

static uint64_t believed_length(const struct run *r, const struct job *j)
{
	double takes = r->takes ? r->takes(j->id, r->arg) : 0;
	uint64_t limit = believed_time(r->s, j, 0);

	return takes > 0 && takes < (double)limit ? (uint64_t)(takes + 0.5) : limit;
}

static uint64_t end_of(const struct run *r, const struct job *j)
{
	uint64_t limit = running_end(r->s, j);
	double takes = r->takes(j->id, r->arg);

	if (takes <= 0)
		return limit;
	if (j->start_s + (uint64_t)takes > r->s->now_s)
		return j->start_s + (uint64_t)takes < limit || !j->limit_s ? j->start_s + (uint64_t)takes : limit;
	return limit; /* it has outlived what was believed */
}

/* All that runs, and reservations. Of very many that run only the limits are looked at. 0: too many. */
static int gather_ends(struct run *r)
{
	struct sched *s = r->s;
	int ask = r->takes && s->n_running * PER_TAKES <= EFFORT / 4;

	if (!spend_steps(r, (uint64_t)s->n_running * (ask                  ? PER_TAKES
	                                              : s->policy.by_limit ? PER_END
	                                                                   : PER_LANE) +
	                        s->n_sorted + s->n_reservations + (s->quotas ? HASH_COUNT(s->accounts) : 0)))
		return 0;
	ends_grow(r, s->n_running + s->n_reservations + 1);
	for (size_t i = 0; i < s->n_running; i++) {
		const struct job *x = s->runs[i].job;
		uint64_t at = ask ? end_of(r, x) : running_end_of(s, i);

		r->ends[r->n++] = (struct event){at > s->now_s ? at : s->now_s, x, NULL};
	}
	for (size_t i = 0; s->n_reservations && i < s->n_sorted; i++)
		for (uint32_t k = 0; k < s->sorted[i]->n_reservations; k++)
			if (s->sorted[i]->reservations[k].to_s > s->now_s)
				r->ends[r->n++] = (struct event){s->sorted[i]->reservations[k].to_s, NULL, NULL};
	for (size_t i = r->n / 2; i-- > 0;)
		sift_down(r, i, r->ends[i]);
	return 1;
}

/* ---- quotas in the time to come ----------------------------------------------------------------- */

static void hold_place(const struct run *r, const struct job *j, uint64_t gpus, int sign)
{
	for (struct account *a = r->s->quotas && j->lane ? j->lane->account : NULL; a; a = a->parent)
		a->ahead += sign > 0 ? gpus : 0 - gpus;
}

static void hold_nothing(const struct sched *s)
{
	for (struct account *a = s->quotas ? s->accounts : NULL; a; a = a->hh.next)
		a->ahead = 0;
}

static uint64_t gpus_held(const struct job *j)
{
	uint64_t gpus = 0;

	for (uint32_t i = 0; i < j->n_holds; i++)
		gpus += j->holds[i].n_gpus;
	return gpus;
}

/* Everything that ends at the next time. 0: nothing does. */
static int next_event(struct run *r)
{
	if (!r->n)
		return 0;
	r->now = r->ends[0].at > r->now ? r->ends[0].at : r->now;
	while (r->n && r->ends[0].at <= r->now) {
		struct event e = pop_event(r);

		if (!e.job)
			continue;
		if (e.spots)
			view_spots(r->s, e.job, e.spots, -1);
		else
			view_release(r->s, e.job);
		hold_place(r, e.job, e.spots ? e.job->shape->gpus : gpus_held(e.job), -1);
		free(e.spots);
		(void)spend_steps(r, PER_POP);
	}
	return 1;
}

/* How many nodes a look at all places for it is. */
static uint64_t look_cost(const struct sched *s, const struct shape *sh)
{
	uint64_t types = 1;

	while (sh->types[0] && sh->types[types])
		types++;
	return (uint64_t)s->n_sorted * types * (domain_needed(sh->span) < LEVELS ? 3 : 1);
}

/* It fits: where it goes by the rules for places, which a first look does not ask for. */
static void best_place(struct run *r, const struct job *j)
{
	if (!spend_steps(r, look_cost(r->s, j->shape)))
		return;
	r->s->planning = 1;
	(void)fit_gang(r->s, j->shape, FIT_VIEW, r->assign);
	r->s->planning = 0;
}

/* Time goes on until it fits. 1 it does (assign says where), 0 never, -1 no more steps: not before r->now. */
static int wait_for(struct run *r, const struct job *j)
{
	for (;;) {
		if (!account_full_then(j->lane->account, j->shape->gpus) && !view_too_full(r->s, j->shape)) {
			if (!spend_steps(r, look_cost(r->s, j->shape)))
				return -1;
			reservation_try(r->s, j, r->now);
			if (fit_gang(r->s, j->shape, FIT_VIEW, r->assign)) {
				best_place(r, j);
				return 1;
			}
		}
		if (!spend_steps(r, 1))
			return -1;
		if (!next_event(r))
			return 0;
	}
}

/* ---- who goes before it ------------------------------------------------------------------------- */

struct turn { /* a lane's next that goes before the job in question */
	struct bid bid;
	uint32_t at;
};

static void turn_down(const struct sched *s, struct turn *v, uint32_t n, uint32_t at)
{
	struct turn t = v[at];

	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && order_bid_before(s, &v[child + 1].bid, &v[child].bid))
			child++;
		if (!order_bid_before(s, &v[child].bid, &t.bid))
			break;
		v[at] = v[child];
	}
	v[at] = t;
}

/* The lane's next from there on that goes before j, which may stand in it, as the head may. */
static int turn_of(const struct sched *s, const struct lane *l, const struct bid *j, struct turn *t)
{
	const struct job *x = t->at ? queue_at(l, t->at) : l->first;

	while (x && (x == j->job || x == s->head))
		x = queue_at(l, ++t->at);
	if (!x)
		return 0;
	t->bid = order_bid(s, x);
	return order_bid_before(s, &t->bid, j);
}

/* Can it start before j? One that its quota keeps back can where j has to wait for the same quota.
 * Follows S-316. */
static int goes_before(const struct sched *s, const struct lane *l, const struct job *j)
{
	const struct account *full;

	if (l->shape->hopeless_gen == s->nodes_gen)
		return 0;
	if (account_full(l->account, l->shape->gpus) != 2)
		return 1;
	full = account_waits_for(l->account, l->shape->gpus);
	return full && account_below(j->lane->account, full);
}

#define NAMED 5

/* Of many lanes those with the first few. */
static uint32_t first_lanes(const struct sched *s, struct turn *v, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct turn t = v[i];
		uint32_t at = kept < NAMED ? kept++ : kept;

		for (; at && order_bid_before(s, &t.bid, &v[at - 1].bid); at--)
			if (at < NAMED)
				v[at] = v[at - 1];
		if (at < NAMED)
			v[at] = t;
	}
	return kept;
}

/* Those that go before it, in order: who has a place kept, then by the order of a pass that is made now. How
 * many, or more than MAX_AHEAD: then only the first few, named, are there. Follows S-314. */
static size_t start_before(struct run *r, const struct job *j, const struct job **out, uint32_t *named)
{
	const struct sched *s = r->s;
	struct bid of_j = order_bid(s, j);
	struct turn *v;
	uint32_t lanes = 0;
	size_t n = 0;
	int many;

	*named = 0;
	if (j == s->head)
		return 0;
	if (s->head && s->head->is_waiting)
		out[n++] = s->head;
	*named = (uint32_t)n;
	if (!spend_steps(r, (uint64_t)s->n_active * PER_LANE))
		return MAX_AHEAD + 1;
	v = mem_alloc(s->n_active, sizeof(*v));
	for (uint32_t k = 0; k < s->n_active; k++) {
		v[lanes].at = 0;
		lanes += turn_of(s, s->active[k], &of_j, &v[lanes]) && goes_before(s, s->active[k], j);
	}
	many = lanes > MAX_AHEAD;
	if (many)
		lanes = first_lanes(s, v, lanes);
	for (uint32_t i = lanes / 2; i-- > 0;)
		turn_down(s, v, lanes, i);
	for (; lanes && n < (many ? NAMED : MAX_AHEAD); n++) {
		out[n] = v[0].bid.job;
		v[0].at++;
		if (!turn_of(s, v[0].bid.lane, &of_j, &v[0]))
			v[0] = v[--lanes];
		if (lanes)
			turn_down(s, v, lanes, 0);
	}
	free(v);
	*named = n < NAMED ? (uint32_t)n : NAMED;
	return many || lanes ? MAX_AHEAD + 1 : n;
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static struct spot *spots_of(const struct sched *s, const struct job *j, const int32_t *assign)
{
	struct spot *v = mem_alloc(j->shape->instances + 1, sizeof(*v));
	uint32_t n = 0;

	for (size_t i = 0; i < s->n_sorted && n < j->shape->instances; i++)
		if (assign[i] >= 0)
			v[n++] = (struct spot){(uint32_t)i, (uint32_t)assign[i]};
	return v;
}

static void fill_places(const struct sched *s, const struct job *j, const int32_t *assign,
                        struct sched_forecast *out)
{
	out->places = mem_alloc(j->shape->instances + 1, sizeof(*out->places));
	for (uint32_t g = 0; g < j->shape->n_groups; g++)
		for (size_t i = 0; i < s->n_sorted; i++)
			if (assign[i] == (int32_t)g)
				out->places[out->n++] = (struct sched_place){.node = s->sorted[i]->id, .group = g};
}

/* 1: when and where is known. Follows S-317. */
static int walk_turns(struct run *r, const struct job *j, const struct job **ahead, size_t n,
                      struct sched_forecast *out)
{
	for (size_t i = 0; i < n; i++) {
		struct job *x = (struct job *)(uintptr_t)ahead[i]; /* what is found out of its shape is kept there */
		int fits;

		/* One that can never start holds nobody back. */
		if (x->shape->possible_gen != r->s->nodes_gen && !spend_steps(r, look_cost(r->s, x->shape)))
			return 0;
		if (pool_is_short(r->s, x) || fit_hopeless(r->s, x->shape, r->assign) ||
		    account_never(x->lane->account, x->shape->gpus))
			continue;
		fits = wait_for(r, x);
		if (fits <= 0)
			return 0;
		view_take(r->s, x, r->assign, 1);
		hold_place(r, x, x->shape->gpus, 1);
		push_event(r, (struct event){r->now + believed_length(r, x), x, spots_of(r->s, x, r->assign)});
		if (!spend_steps(r, r->s->n_sorted))
			return 0;
	}
	if (wait_for(r, j) <= 0)
		return 0;
	out->start_s = r->now;
	out->whole = 1;
	fill_places(r->s, j, r->assign, out);
	return 1;
}

static void run_fini(struct run *r)
{
	while (r->n)
		free(r->ends[--r->n].spots);
	free(r->ends);
	hold_nothing(r->s);
}

/* Follows S-320. */
static void look_ahead(struct run *r, const struct job *j, struct sched_forecast *out)
{
	const struct job *ahead[MAX_AHEAD + 1];
	uint32_t named;
	size_t n = start_before(r, j, ahead, &named);
	int known = gather_ends(r), there = 0;
	struct run alone = *r; /* for the same, were nobody before it */

	for (uint32_t i = 0; i < named; i++)
		out->first[out->n_first++] = ahead[i]->id;
	if (known && n && n <= MAX_AHEAD) {
		alone.ends = mem_alloc(r->n + 1, sizeof(*alone.ends));
		alone.cap = r->n + 1;
		memcpy(alone.ends, r->ends, r->n * sizeof(*alone.ends));
		alone.left = r->left / 3;
		r->left -= alone.left;
		there = walk_turns(r, j, ahead, n, out);
		run_fini(r);
		alone.left += r->left;
		r->ends = NULL;
		view_now(r->s);
	}
	if (known && !there) {
		int fits = wait_for(&alone, j);

		out->start_s = fits ? alone.now : UINT64_MAX;
		out->whole = fits > 0 && !n;
		if (out->whole)
			fill_places(r->s, j, r->assign, out);
		r->cut |= alone.cut;
	}
	out->cut = !out->whole && r->cut;
	run_fini(&alone);
}

/* Follows S-318. */
void sched_forecast(struct sched *s, uint64_t id, sched_takes_fn takes, void *arg, struct sched_forecast *out)
{
	struct run r = {.s = s, .takes = takes, .arg = arg, .now = s->now_s, .left = EFFORT};
	struct shadow was;
	struct job *j;

	*out = (struct sched_forecast){.start_s = UINT64_MAX};
	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	if (!j || !j->is_waiting || pool_is_short(s, j) || account_never(j->lane->account, j->shape->gpus))
		return; /* it is not known when a budget opens again, or a pool is left */
	was = shadow_aside(s);
	r.assign = mem_alloc(s->n_sorted + 1, sizeof(*r.assign));
	view_now(s);
	look_ahead(&r, j, out);
	free(r.assign);
	reservation_try(s, NULL, 0);
	shadow_back(s, &was);
	plan_forecast(s, j, out);
}
