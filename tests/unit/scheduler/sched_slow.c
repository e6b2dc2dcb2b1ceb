#include "tests/unit/scheduler/sched_slow_int.h"

#include <string.h>

/* ---- order ------------------------------------------------------------------------------------- */

static int depth(const struct slow *w, int account)
{
	int d = 0;

	while ((account = w->accounts[account].parent) >= 0)
		d++;
	return d;
}

double slow_load(const struct slow_shape *sh, unsigned gpus, unsigned slots)
{
	return sh->gpus ? gpus : slots / 16.0;
}

static double share(const struct slow *w, int account)
{
	double held = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		for (unsigned k = 0; k < w->jobs[id].n_holds && slow_below(w, w->jobs[id].account, account); k++)
			held += slow_load(slow_shape_of(w, &w->jobs[id]), slow_bits(w->jobs[id].holds[k].gpu_mask),
			                  slow_bits(w->jobs[id].holds[k].slot_mask));
	return (w->accounts[account].use + 60.0 * held) / w->accounts[account].weight;
}

/* By share of the two brothers at which their ways up part. */
static int share_order(const struct slow *w, int a, int b)
{
	double x, y;

	while (depth(w, a) > depth(w, b))
		a = w->accounts[a].parent;
	while (depth(w, b) > depth(w, a))
		b = w->accounts[b].parent;
	if (a == b)
		return 0;
	while (w->accounts[a].parent != w->accounts[b].parent) {
		a = w->accounts[a].parent;
		b = w->accounts[b].parent;
	}
	x = share(w, a);
	y = share(w, b);
	return x < y ? -1 : x > y;
}

int slow_by_age(const struct slow *w, unsigned a, unsigned b)
{
	const struct slow_job *x = &w->jobs[a], *y = &w->jobs[b];

	if (x->priority != y->priority)
		return x->priority > y->priority;
	if (x->first != y->first)
		return x->first;
	return x->order != y->order ? x->order < y->order : a < b;
}

static int due(const struct slow *w, unsigned id)
{
	return w->starve_s && w->jobs[id].submit_s + w->starve_s <= w->now_s;
}

static int before_when(const struct slow *w, unsigned a, int a_due, unsigned b, int b_due)
{
	const struct slow_job *x = &w->jobs[a], *y = &w->jobs[b];
	int p = slow_full(w, x->account, slow_shape_of(w, x)->gpus) == 1,
	    q = slow_full(w, y->account, slow_shape_of(w, y)->gpus) == 1, c;

	if (x->priority != y->priority)
		return x->priority > y->priority;
	if (x->first || y->first)
		return slow_by_age(w, a, b);
	if (p != q)
		return !p;
	if (a_due != b_due)
		return a_due;
	c = a_due || !w->fair ? 0 : share_order(w, x->account, y->account);
	return c ? c < 0 : slow_by_age(w, a, b);
}

static int before(const struct slow *w, unsigned a, unsigned b)
{
	return before_when(w, a, due(w, a), b, due(w, b));
}

/* One that came back to its old place waits anew, and those of its kind and account behind it with it. */
static int due_in_turn(const struct slow *w, unsigned id)
{
	for (unsigned x = 1; x <= w->n_jobs; x++)
		if (w->jobs[x].state == SLOW_WAITS && slow_lane_of(&w->jobs[x]) == slow_lane_of(&w->jobs[id]) &&
		    w->jobs[x].priority == w->jobs[id].priority && slow_by_age(w, x, id) && !due(w, x))
			return 0;
	return due(w, id);
}

/* ---- what happened ------------------------------------------------------------------------------ */

static void walk_over(struct slow *w)
{
	memset(w->crowds, 0, sizeof(w->crowds));
}

static void no_head(struct slow *w)
{
	w->head = 0;
	w->stale = 0;
	walk_over(w);
}

static void forget_first(struct slow *w, unsigned id)
{
	for (int i = 0; i < SLOW_LEVELS; i++)
		w->first[i] = w->first[i] == id ? 0 : w->first[i];
}

static unsigned in_lane(const struct slow *w, int lane)
{
	unsigned n = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		n += w->jobs[id].state == SLOW_WAITS && slow_lane_of(&w->jobs[id]) == lane;
	return n;
}

void slow_waits(struct slow *w, unsigned id)
{
	struct slow_job *j = &w->jobs[id];

	if (!in_lane(w, slow_lane_of(j)))
		w->active[w->n_active++] = slow_lane_of(j);
	j->state = SLOW_WAITS;
	j->promise_s = 0;
	j->by_limits = 0;
	w->stale = 0;
}

void slow_stops_waiting(struct slow *w, unsigned id, enum slow_state now)
{
	int lane = slow_lane_of(&w->jobs[id]), waited = w->jobs[id].state == SLOW_WAITS;

	if (w->head == id)
		no_head(w);
	forget_first(w, id);
	if (w->jobs[id].state == SLOW_REPLACES)
		slow_freed(w);
	w->jobs[id].state = now;
	if (!waited)
		return;
	if (now != SLOW_RUNS)
		w->stale = 0;
	if (in_lane(w, lane))
		return;
	for (int i = 0; i < w->n_active; i++) {
		if (w->active[i] == lane) {
			w->active[i] = w->active[--w->n_active];
			return;
		}
	}
}

/* What was remembered of jobs that are alike is forgotten with the last of them. */
void slow_lane_left(struct slow *w, int shape, int account)
{
	int of_shape = 0, of_lane = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++) {
		const struct slow_job *j = &w->jobs[id];

		if (j->state < SLOW_WAITS || j->state > SLOW_EMPTY || j->shape != shape)
			continue;
		of_shape++;
		of_lane += j->account == account;
	}
	if (!of_shape)
		w->crowds[shape] = 0;
	if (!of_lane)
		w->booked_until_s[shape * SLOW_ACCOUNTS + account] = 0;
}

void slow_freed(struct slow *w)
{
	w->freed++;
	w->stale = 0;
}

static int holders(const struct slow *w, int node)
{
	int n = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		for (unsigned k = 0; k < w->jobs[id].n_holds; k++)
			n += w->jobs[id].holds[k].node == node;
	return n;
}

void slow_node_gone(struct slow *w, int node)
{
	int parts = 0;

	for (int i = 0; i < SLOW_POOLS; i++)
		for (unsigned k = 0; k < w->pools[i].n_parts; k++)
			parts += w->pools[i].parts[k].node == node;
	if (!w->nodes[node].known && !holders(w, node) && !parts)
		w->nodes[node].n_books = w->nodes[node].last_warm = 0;
}

void slow_gives_back(struct slow *w, unsigned id, unsigned hold)
{
	struct slow_job *j = &w->jobs[id];
	int node = j->holds[hold].node;

	j->holds[hold] = j->holds[--j->n_holds];
	if (j->begun)
		w->nodes[node].last_warm = j->warm;
	slow_freed(w);
	slow_node_gone(w, node);
}

void slow_started(struct slow *w, unsigned id)
{
	w->jobs[id].start_s = w->jobs[id].saved_s = w->now_s;
	slow_stops_waiting(w, id, SLOW_RUNS);
}

void slow_replaces(struct slow *w, unsigned id)
{
	w->jobs[id].state = SLOW_REPLACES;
	w->jobs[id].restart_s = 0;
	w->jobs[id].start_s = w->jobs[id].saved_s = w->now_s;
	w->stale = 0;
}

/* ---- the place that is kept --------------------------------------------------------------------- */

static int any_books(const struct slow *w)
{
	int n = 0;

	for (int i = 0; i < SLOW_NODES; i++)
		n += w->nodes[i].n_books;
	return n;
}

static uint64_t next_book_end(const struct slow *w, uint64_t after_s)
{
	uint64_t at = SLOW_NEVER;

	for (int i = 0; i < SLOW_NODES; i++)
		for (int k = 0; k < w->nodes[i].n_books && w->nodes[i].known; k++)
			if (w->nodes[i].books[k].to_s > after_s && w->nodes[i].books[k].to_s < at)
				at = w->nodes[i].books[k].to_s;
	return at;
}

/* The first time at which it fits, when those that ought to have ended by then have. */
static uint64_t shadow_of(const struct slow *w, const struct slow_job *j, int by_limits)
{
	uint64_t at = w->now_s;

	while (at != SLOW_NEVER &&
	       !slow_fits_at(w, j, &(struct slow_gone){.by_s = at, .by_limits = by_limits}, at, 1)) {
		uint64_t next = next_book_end(w, at);

		for (unsigned id = 1; id <= w->n_jobs; id++) {
			uint64_t end = w->jobs[id].n_holds ? slow_end_of(w, &w->jobs[id], by_limits) : at;

			next = end > at && end < next ? end : next;
		}
		at = next;
	}
	return at;
}

uint64_t slow_earliest(const struct slow *w, unsigned id)
{
	return shadow_of(w, &w->jobs[id], 0);
}

static void make_head(struct slow *w, unsigned id)
{
	struct slow_job *j = &w->jobs[id];
	int renewed = !j->promise_s || j->promise_nodes != w->nodes_went;

	w->head = id;
	w->shadow_s = shadow_of(w, j, j->by_limits);
	if (renewed && w->shadow_s != SLOW_NEVER) {
		j->promise_s = w->shadow_s;
		j->promise_nodes = w->nodes_went;
	} else if (!renewed && !j->by_limits && w->shadow_s != SLOW_NEVER && w->shadow_s > j->promise_s) {
		j->by_limits = 1;
		w->shadow_s = shadow_of(w, j, 1);
	}
	walk_over(w);
}

static void remember(struct slow *w, unsigned id)
{
	forget_first(w, id);
	w->first[w->jobs[id].priority] = id;
}

static int known_booked_out(const struct slow *w, int lane)
{
	return any_books(w) && w->booked_freed[lane] == w->freed && w->now_s < w->booked_until_s[lane];
}

static void book_out(struct slow *w, int lane)
{
	w->booked_freed[lane] = w->freed;
	w->booked_until_s[lane] = next_book_end(w, w->now_s);
}

static int fits_now(const struct slow *w, const struct slow_job *j, int books)
{
	return slow_fits_at(w, j, &(struct slow_gone){0}, w->now_s, books);
}

static int booked_out(struct slow *w, const struct slow_job *j)
{
	if (!any_books(w) || known_booked_out(w, slow_lane_of(j)))
		return any_books(w) > 0;
	if (fits_now(w, j, 1) || !fits_now(w, j, 0))
		return 0;
	book_out(w, slow_lane_of(j));
	return 1;
}

/* It waits for room and for nothing else. */
static int wants_room(struct slow *w, const struct slow_job *j)
{
	return !slow_shape_of(w, j)->pool && slow_full(w, j->account, slow_shape_of(w, j)->gpus) != 2 &&
	       !slow_hopeless(w, j) && !booked_out(w, j);
}

static unsigned first_of_lane(const struct slow *w, int lane)
{
	unsigned best = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		if (w->jobs[id].state == SLOW_WAITS && slow_lane_of(&w->jobs[id]) == lane &&
		    (!best || slow_by_age(w, id, best)))
			best = id;
	return best;
}

static int must_yield(struct slow *w, unsigned id)
{
	for (int i = 0; i < w->n_active; i++) {
		unsigned x = first_of_lane(w, w->active[i]);
		const struct slow_job *j = &w->jobs[x];
		int alike = j->priority == w->jobs[id].priority && !j->first && !w->jobs[id].first,
		    sooner = (j->priority == w->jobs[id].priority && j->first && !w->jobs[id].first) ||
		             (alike && due(w, x) && !due(w, id) && before(w, x, id));

		if ((j->priority > w->jobs[id].priority || sooner) && wants_room(w, j))
			return 1;
	}
	return 0;
}

/* Who asks for the same and is before it has the place instead. 0: a quota is in its way. */
static unsigned first_alike(struct slow *w, unsigned id)
{
	unsigned best = id;

	for (int i = 0; i < w->n_active; i++) {
		unsigned x = first_of_lane(w, w->active[i]);

		if (w->jobs[x].shape == w->jobs[id].shape && before(w, x, best) && wants_room(w, &w->jobs[x]))
			best = x;
	}
	return slow_full(w, w->jobs[best].account, slow_shape_of(w, &w->jobs[best])->gpus) == 2 ? 0 : best;
}

static void keep_first(struct slow *w)
{
	for (int level = SLOW_LEVELS - 1; level >= 0 && !w->head; level--) {
		unsigned id = w->first[level], x;

		if (!id)
			continue;
		if (must_yield(w, id))
			return;
		x = first_alike(w, id);
		if (!x)
			continue;
		remember(w, x);
		make_head(w, x);
		if (w->shadow_s == SLOW_NEVER) {
			w->head = 0;
			forget_first(w, x);
		}
	}
}

/* ---- deciding ---------------------------------------------------------------------------------- */

/* Would the head still fit at its time beside it? */
static int in_no_way(struct slow *w, unsigned id, const int *place)
{
	struct slow_job *j = &w->jobs[id];
	int fits;

	if (w->shadow_s == SLOW_NEVER || w->now_s + slow_time_of(w, j, w->head) <= w->shadow_s)
		return 1;
	for (int n = 0; n < SLOW_NODES; n++) {
		const struct sched_group *g = place[n] < 0 ? NULL : &slow_shape_of(w, j)->g[place[n]];

		if (g)
			j->holds[j->n_holds++] = (struct slow_hold){n, (unsigned)place[n], (1u << g->gpus) - 1,
			                                            (1u << (g->ranks * g->cpus_per_rank)) - 1};
	}
	j->start_s = w->now_s;
	fits = slow_fits_at(w, &w->jobs[w->head],
	                    &(struct slow_gone){.by_s = w->shadow_s, .by_limits = w->jobs[w->head].by_limits},
	                    w->shadow_s, 1);
	j->n_holds = 0;
	return fits;
}

/* 1: it starts there. -1: it holds back all behind it. */
static int try(struct slow *w, unsigned id, int *place)
{
	const struct slow_job *j = &w->jobs[id];
	const struct slow_shape *sh = slow_shape_of(w, j);

	if (slow_hopeless(w, j) || known_booked_out(w, slow_lane_of(j)) ||
	    slow_full(w, j->account, sh->gpus) == 2)
		return 0;
	if (w->head && w->crowds[j->shape] && w->now_s + slow_time_of(w, j, w->head) > w->shadow_s)
		return 0;
	if (!slow_place_now(w, j, 0, place)) {
		if (sh->pool)
			return 0;                            /* it waits for its pool */
		if (any_books(w) && fits_now(w, j, 0)) { /* it holds nobody back */
			book_out(w, slow_lane_of(j));
		} else if (w->backfill == SCHED_BLOCK) {
			return -1;
		} else if (w->backfill == SCHED_RESERVE && !w->head) {
			make_head(w, id);
			remember(w, id);
		}
		return 0;
	}
	if (!w->head || id == w->head || in_no_way(w, id, place))
		return 1;
	if (!sh->pool && slow_any_pools(w) && slow_place_now(w, j, 1, place) && in_no_way(w, id, place))
		return 1;
	w->crowds[j->shape] = 1;
	return 0;
}

unsigned slow_step(struct slow *w, int place[SLOW_NODES])
{
	unsigned order[SLOW_JOBS], n = 0, id;
	int in_turn[SLOW_JOBS];

	if (w->stale)
		return 0;
	if (w->walk_freed != w->freed || w->walk_now_s != w->now_s) {
		w->walk_freed = w->freed;
		w->walk_now_s = w->now_s;
		w->head = 0;
		walk_over(w);
	}
	id = slow_replace(w, place);
	if (id)
		return id;
	if (!w->head)
		keep_first(w);
	for (id = 1; id <= w->n_jobs; id++) {
		unsigned at = n;

		if (w->jobs[id].state != SLOW_WAITS)
			continue;
		in_turn[id] = due_in_turn(w, id);
		for (n++; at && before_when(w, id, in_turn[id], order[at - 1], in_turn[order[at - 1]]); at--)
			order[at] = order[at - 1];
		order[at] = id;
	}
	for (unsigned i = 0; i < n; i++) {
		int verdict = try(w, order[i], place);

		if (verdict > 0)
			return order[i];
		if (verdict < 0)
			break;
	}
	w->stale = 1;
	return 0;
}
