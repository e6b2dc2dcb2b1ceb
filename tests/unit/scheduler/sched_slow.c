#include "tests/unit/scheduler/sched_slow.h"

#include <string.h>

struct room {
	int open, gpus, slots, memory, holders, exclusive;
};

static const char *doubt;

const char *slow_doubt(void)
{
	return doubt;
}

/* ---- what is free ------------------------------------------------------------------------------ */

static int lane_of(const struct slow_job *j)
{
	return j->shape * SLOW_ACCOUNTS + j->account;
}

static const struct slow_shape *shape_of(const struct slow *w, const struct slow_job *j)
{
	return &w->shapes[j->shape];
}

static unsigned bits(unsigned mask)
{
	return (unsigned)__builtin_popcount(mask);
}

/* One that has outlived its limit ends any moment; one that has outlived a belief takes as long again, but
 * for whom the place came later than promised: for that one limits count. */
static uint64_t end_of(const struct slow *w, const struct slow_job *j, int by_limits)
{
	const struct slow_shape *sh = shape_of(w, j);
	uint64_t takes = sh->believed_s && !by_limits ? sh->believed_s : sh->limit_s;

	while (takes < sh->limit_s && j->start_s + takes <= w->now_s)
		takes += takes;
	takes = takes < sh->limit_s ? takes : sh->limit_s;
	return j->start_s + takes > w->now_s ? j->start_s + takes : w->now_s;
}

/* How long one that starts is taken to run, where a place is kept for that one. */
static uint64_t time_of(const struct slow *w, const struct slow_job *j, unsigned head)
{
	const struct slow_shape *sh = shape_of(w, j);

	return sh->believed_s && !w->jobs[head].by_limits ? sh->believed_s : sh->limit_s;
}

/* Whose things count as given back. */
struct gone {
	uint64_t by_s; /* whoever ends until then; 0 nobody */
	int all, by_limits;
	const unsigned *ids;
	size_t n;
};

static int is_gone(const struct slow *w, unsigned id, const struct gone *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->ids[i] == id)
			return 1;
	return g->all || (g->by_s && end_of(w, &w->jobs[id], g->by_limits) <= g->by_s);
}

static void rooms(const struct slow *w, const struct gone *g, struct room *r)
{
	for (int i = 0; i < SLOW_NODES; i++)
		r[i] = (struct room){w->nodes[i].known && w->nodes[i].usable,
		                     (int)w->nodes[i].gpus,
		                     (int)w->nodes[i].slots,
		                     (int)w->nodes[i].memory,
		                     0,
		                     0};
	for (unsigned id = 1; id <= w->n_jobs; id++) {
		const struct slow_job *j = &w->jobs[id];

		for (unsigned k = 0; k < j->n_holds && !is_gone(w, id, g); k++) {
			struct room *at = &r[j->holds[k].node];

			at->gpus -= (int)bits(j->holds[k].gpu_mask);
			at->slots -= (int)bits(j->holds[k].slot_mask);
			at->memory -= (int)shape_of(w, j)->memory;
			at->holders++;
			at->exclusive |= shape_of(w, j)->exclusive;
		}
	}
}

/* ---- does it fit ------------------------------------------------------------------------------- */

struct ask { /* a job, or only its wishes, at a time */
	const struct slow *w;
	const struct slow_shape *sh;
	int account; /* whose it is; -1: reservations do not count */
	uint64_t at_s;
	struct room room[SLOW_NODES];
	int type, at_switch, in_rack; /* only these; -1 any */
};

static int booked(const struct ask *a, int node)
{
	const struct slow_node *n = &a->w->nodes[node];

	for (int i = 0; a->account >= 0 && i < n->n_books; i++) {
		const struct slow_book *b = &n->books[i];

		if (b->to_s > a->at_s && b->from_s < a->at_s + a->sh->limit_s &&
		    (b->account < 0 || !slow_below(a->w, a->account, b->account)))
			return 1;
	}
	return 0;
}

static int suits(const struct ask *a, int node, unsigned group)
{
	const struct slow_node *n = &a->w->nodes[node];
	const struct sched_group *g = &a->sh->g[group];
	const struct room *r = &a->room[node];

	return r->open && !r->exclusive && !(a->sh->exclusive && r->holders) && r->gpus >= (int)g->gpus &&
	       r->slots >= (int)(g->ranks * g->cpus_per_rank) && r->memory >= (int)a->sh->memory &&
	       (a->type < 0 || a->type == n->type) && (a->at_switch < 0 || a->at_switch == n->at_switch) &&
	       (a->in_rack < 0 || a->in_rack == n->in_rack) && (!a->sh->needs_label || n->labelled) &&
	       a->sh->avoid != node && !booked(a, node);
}

/* All ways of giving nodes to instances are tried. */
static int by_trial(const struct ask *a, unsigned group, unsigned done, unsigned used)
{
	if (group == a->sh->n_groups)
		return 1;
	if (done == a->sh->g[group].instances)
		return by_trial(a, group + 1, 0, used);
	for (int n = 0; n < SLOW_NODES; n++)
		if (!(used & 1u << n) && suits(a, n, group) && by_trial(a, group, done + 1, used | 1u << n))
			return 1;
	return 0;
}

static void anywhere(struct ask *a)
{
	a->at_switch = a->in_rack = -1;
}

/* Only there; 0: the part with that number does not count as one. */
static int only(struct ask *a, enum sched_span level, int part)
{
	anywhere(a);
	*(level == SCHED_SPAN_SWITCH ? &a->at_switch : &a->in_rack) = part;
	return part > 0;
}

/* On nodes of one type, where types are named; on one switch or in one rack, where that is a condition. */
static int exists(struct ask *a)
{
	int must = a->sh->instances > 1 && (a->sh->span == SCHED_SPAN_SWITCH || a->sh->span == SCHED_SPAN_RACK);

	for (int t = 0; t < (a->sh->n_types ? a->sh->n_types : 1); t++) {
		a->type = a->sh->n_types ? a->sh->types[t] : -1;
		anywhere(a);
		if (!must && by_trial(a, 0, 0, 0))
			return 1;
		for (int part = 1; must && part < SLOW_PARTS; part++)
			if (only(a, a->sh->span, part) && by_trial(a, 0, 0, 0))
				return 1;
	}
	return 0;
}

static int fits_at(const struct slow *w, const struct slow_job *j, const struct gone *g, uint64_t at_s,
                   int books)
{
	struct ask a = {.w = w, .sh = shape_of(w, j), .account = books ? j->account : -1, .at_s = at_s};

	rooms(w, g, a.room);
	return exists(&a);
}

int slow_fits_without(const struct slow *w, unsigned id, const unsigned *gone, size_t n)
{
	return fits_at(w, &w->jobs[id], &(struct gone){.ids = gone, .n = n}, w->now_s, 0);
}

/* The usable nodes, empty, could not hold it. */
static int hopeless(const struct slow *w, const struct slow_job *j)
{
	return !fits_at(w, j, &(struct gone){.all = 1}, w->now_s, 0);
}

/* ---- where it goes ----------------------------------------------------------------------------- */

/* Least doubt, fewest free GPUs, cheapest, least power, fewest free slots, the first that joined. */
static int better(const struct ask *a, int x, int y)
{
	const struct slow_node *p = &a->w->nodes[x], *q = &a->w->nodes[y];

	if (p->doubt != q->doubt)
		return p->doubt < q->doubt;
	if (a->room[x].gpus != a->room[y].gpus)
		return a->room[x].gpus < a->room[y].gpus;
	if (p->price != q->price)
		return p->price < q->price;
	if (p->power != q->power)
		return p->power < q->power;
	if (a->room[x].slots != a->room[y].slots)
		return a->room[x].slots < a->room[y].slots;
	return x < y;
}

/* One more node for a group, others' nodes moved where that helps; tried: groups on this path. */
static int exchange(const struct ask *a, unsigned group, int *place, unsigned tried)
{
	for (int n = 0; n < SLOW_NODES; n++)
		if (place[n] < 0 && suits(a, n, group)) {
			place[n] = (int)group;
			return 1;
		}
	for (int n = 0; n < SLOW_NODES; n++) {
		unsigned other = (unsigned)place[n];

		if (place[n] < 0 || other == group || tried & 1u << other || !suits(a, n, group))
			continue;
		if (exchange(a, other, place, tried | 1u << other | 1u << group)) {
			place[n] = (int)group;
			return 1;
		}
	}
	return 0;
}

/* Group by group the best nodes that are left; then by exchange. */
static int place_on(const struct ask *a, int *place)
{
	memset(place, 0xff, SLOW_NODES * sizeof(*place));
	for (unsigned g = 0; g < a->sh->n_groups; g++) {
		for (unsigned i = 0; i < a->sh->g[g].instances; i++) {
			int best = -1;

			for (int n = 0; n < SLOW_NODES; n++)
				if (place[n] < 0 && suits(a, n, g) && (best < 0 || better(a, n, best)))
					best = n;
			if (best >= 0)
				place[best] = (int)g;
			else if (!exchange(a, g, place, 0))
				return 0;
		}
	}
	return 1;
}

static int part_of(const struct slow_node *n, enum sched_span level)
{
	return level == SCHED_SPAN_SWITCH ? n->at_switch : n->in_rack;
}

/* All that hangs on it stands in one rack. */
static int within_a_rack(const struct slow *w, int at_switch)
{
	int rack = -1;

	for (int n = 0; n < SLOW_NODES; n++) {
		const struct slow_node *x = &w->nodes[n];

		if (!x->known || x->at_switch != at_switch)
			continue;
		if (!x->in_rack || (rack >= 0 && x->in_rack != rack))
			return 0;
		rack = x->in_rack;
	}
	return 1;
}

/* Of those that can take the gang the one in which the fewest nodes could take its first group; then the one
 * whose first node joined first. */
static int place_in_one(struct ask *a, const struct slow *w, enum sched_span level, int *place)
{
	unsigned count[SLOW_PARTS] = {0};
	int first[SLOW_PARTS] = {0}, best = 0, at[SLOW_NODES];

	anywhere(a);
	for (int n = SLOW_NODES; n-- > 0;) {
		count[part_of(&w->nodes[n], level)] += (unsigned)suits(a, n, 0);
		if (w->nodes[n].known)
			first[part_of(&w->nodes[n], level)] = n;
	}
	for (int part = 1; part < SLOW_PARTS; part++) {
		if (level == SCHED_SPAN_SWITCH && a->sh->span == SCHED_SPAN_RACK && !within_a_rack(w, part))
			continue;
		if (!only(a, level, part) || !place_on(a, at))
			continue;
		if (best && (count[part] > count[best] || (count[part] == count[best] && first[part] > first[best])))
			continue;
		best = part;
		memcpy(place, at, sizeof(at));
	}
	return best;
}

/* The nearest: one switch, one rack, anywhere. */
static int place_type(struct ask *a, const struct slow *w, int *place)
{
	int alone = a->sh->instances < 2;

	if (!alone && a->sh->span != SCHED_SPAN_ANY && place_in_one(a, w, SCHED_SPAN_SWITCH, place))
		return 1;
	if (!alone && a->sh->span != SCHED_SPAN_ANY && a->sh->span != SCHED_SPAN_SWITCH &&
	    place_in_one(a, w, SCHED_SPAN_RACK, place))
		return 1;
	anywhere(a);
	return (alone || a->sh->span == SCHED_SPAN_ANY || a->sh->span == SCHED_SPAN_PREFER) && place_on(a, place);
}

static int place_now(const struct slow *w, const struct slow_job *j, int *place)
{
	struct ask a = {.w = w, .sh = shape_of(w, j), .account = j->account, .at_s = w->now_s};
	int found = 0;

	rooms(w, &(struct gone){0}, a.room);
	for (int t = 0; t < (a.sh->n_types ? a.sh->n_types : 1) && !found; t++) {
		a.type = a.sh->n_types ? a.sh->types[t] : -1;
		found = place_type(&a, w, place);
	}
	if (found != exists(&a))
		doubt = "the slow one's placement and its trial of all disagree";
	return found;
}

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
			held += slow_load(shape_of(w, &w->jobs[id]), bits(w->jobs[id].holds[k].gpu_mask),
			                  bits(w->jobs[id].holds[k].slot_mask));
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

static int by_age(const struct slow *w, unsigned a, unsigned b)
{
	const struct slow_job *x = &w->jobs[a], *y = &w->jobs[b];

	if (x->priority != y->priority)
		return x->priority > y->priority;
	return x->order != y->order ? x->order < y->order : a < b;
}

static int due(const struct slow *w, unsigned id)
{
	return w->starve_s && w->jobs[id].submit_s + w->starve_s <= w->now_s;
}

static int before_when(const struct slow *w, unsigned a, int a_due, unsigned b, int b_due)
{
	const struct slow_job *x = &w->jobs[a], *y = &w->jobs[b];
	int p = slow_full(w, x->account, shape_of(w, x)->gpus) == 1,
	    q = slow_full(w, y->account, shape_of(w, y)->gpus) == 1, c;

	if (x->priority != y->priority)
		return x->priority > y->priority;
	if (p != q)
		return !p;
	if (a_due != b_due)
		return a_due;
	c = a_due || !w->fair ? 0 : share_order(w, x->account, y->account);
	return c ? c < 0 : by_age(w, a, b);
}

static int before(const struct slow *w, unsigned a, unsigned b)
{
	return before_when(w, a, due(w, a), b, due(w, b));
}

/* One that came back to its old place waits anew, and those of its kind and account behind it with it. */
static int due_in_turn(const struct slow *w, unsigned id)
{
	for (unsigned x = 1; x <= w->n_jobs; x++)
		if (w->jobs[x].state == SLOW_WAITS && lane_of(&w->jobs[x]) == lane_of(&w->jobs[id]) &&
		    w->jobs[x].priority == w->jobs[id].priority && by_age(w, x, id) && !due(w, x))
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
		n += w->jobs[id].state == SLOW_WAITS && lane_of(&w->jobs[id]) == lane;
	return n;
}

void slow_waits(struct slow *w, unsigned id)
{
	struct slow_job *j = &w->jobs[id];

	if (!in_lane(w, lane_of(j)))
		w->active[w->n_active++] = lane_of(j);
	j->state = SLOW_WAITS;
	j->promise_s = 0;
	j->by_limits = 0;
	w->stale = 0;
}

void slow_stops_waiting(struct slow *w, unsigned id, enum slow_state now)
{
	int lane = lane_of(&w->jobs[id]), waited = w->jobs[id].state == SLOW_WAITS;

	if (w->head == id)
		no_head(w);
	forget_first(w, id);
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
	if (!w->nodes[node].known && !holders(w, node))
		w->nodes[node].n_books = 0;
}

void slow_gives_back(struct slow *w, unsigned id, unsigned hold)
{
	struct slow_job *j = &w->jobs[id];
	int node = j->holds[hold].node;

	j->holds[hold] = j->holds[--j->n_holds];
	slow_freed(w);
	slow_node_gone(w, node);
}

void slow_started(struct slow *w, unsigned id)
{
	w->jobs[id].start_s = w->jobs[id].saved_s = w->now_s;
	slow_stops_waiting(w, id, SLOW_RUNS);
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

	while (at != SLOW_NEVER && !fits_at(w, j, &(struct gone){.by_s = at, .by_limits = by_limits}, at, 1)) {
		uint64_t next = next_book_end(w, at);

		for (unsigned id = 1; id <= w->n_jobs; id++) {
			uint64_t end = w->jobs[id].n_holds ? end_of(w, &w->jobs[id], by_limits) : at;

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
	return fits_at(w, j, &(struct gone){0}, w->now_s, books);
}

static int booked_out(struct slow *w, const struct slow_job *j)
{
	if (!any_books(w) || known_booked_out(w, lane_of(j)))
		return any_books(w) > 0;
	if (fits_now(w, j, 1) || !fits_now(w, j, 0))
		return 0;
	book_out(w, lane_of(j));
	return 1;
}

/* It waits for room and for nothing else. */
static int wants_room(struct slow *w, const struct slow_job *j)
{
	return slow_full(w, j->account, shape_of(w, j)->gpus) != 2 && !hopeless(w, j) && !booked_out(w, j);
}

static unsigned first_of_lane(const struct slow *w, int lane)
{
	unsigned best = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		if (w->jobs[id].state == SLOW_WAITS && lane_of(&w->jobs[id]) == lane &&
		    (!best || by_age(w, id, best)))
			best = id;
	return best;
}

static int must_yield(struct slow *w, unsigned id)
{
	for (int i = 0; i < w->n_active; i++) {
		unsigned x = first_of_lane(w, w->active[i]);
		const struct slow_job *j = &w->jobs[x];
		int sooner = j->priority == w->jobs[id].priority && due(w, x) && !due(w, id) && before(w, x, id);

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
	return slow_full(w, w->jobs[best].account, shape_of(w, &w->jobs[best])->gpus) == 2 ? 0 : best;
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

	if (w->shadow_s == SLOW_NEVER || w->now_s + time_of(w, j, w->head) <= w->shadow_s)
		return 1;
	for (int n = 0; n < SLOW_NODES; n++) {
		const struct sched_group *g = place[n] < 0 ? NULL : &shape_of(w, j)->g[place[n]];

		if (g)
			j->holds[j->n_holds++] = (struct slow_hold){n, (unsigned)place[n], (1u << g->gpus) - 1,
			                                            (1u << (g->ranks * g->cpus_per_rank)) - 1};
	}
	j->start_s = w->now_s;
	fits =
	    fits_at(w, &w->jobs[w->head],
	            &(struct gone){.by_s = w->shadow_s, .by_limits = w->jobs[w->head].by_limits}, w->shadow_s, 1);
	j->n_holds = 0;
	return fits;
}

/* 1: it starts there. -1: it holds back all behind it. */
static int try(struct slow *w, unsigned id, int *place)
{
	const struct slow_job *j = &w->jobs[id];
	const struct slow_shape *sh = shape_of(w, j);

	if (hopeless(w, j) || known_booked_out(w, lane_of(j)) || slow_full(w, j->account, sh->gpus) == 2)
		return 0;
	if (w->head && w->crowds[j->shape] && w->now_s + time_of(w, j, w->head) > w->shadow_s)
		return 0;
	if (!place_now(w, j, place)) {
		if (any_books(w) && fits_now(w, j, 0)) { /* it holds nobody back */
			book_out(w, lane_of(j));
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
	w->crowds[j->shape] = 1;
	return 0;
}

unsigned slow_step(struct slow *w, int place[SLOW_NODES])
{
	unsigned order[SLOW_JOBS], n = 0;
	int in_turn[SLOW_JOBS];

	if (w->stale)
		return 0;
	if (w->walk_freed != w->freed || w->walk_now_s != w->now_s) {
		w->walk_freed = w->freed;
		w->walk_now_s = w->now_s;
		w->head = 0;
		walk_over(w);
	}
	if (!w->head)
		keep_first(w);
	for (unsigned id = 1; id <= w->n_jobs; id++) {
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
