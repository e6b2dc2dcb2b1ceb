/*
 * sched_slow_place: what is free, whether a gang fits there, and where it goes, for sched_slow.c.
 */
#include "tests/unit/scheduler/sched_slow_int.h"

#include <string.h>

static const char *doubt;

const char *slow_doubt(void)
{
	return doubt;
}

/* ---- what is free ------------------------------------------------------------------------------ */

int slow_lane_of(const struct slow_job *j)
{
	return j->shape * SLOW_ACCOUNTS + j->account;
}

const struct slow_shape *slow_shape_of(const struct slow *w, const struct slow_job *j)
{
	return &w->shapes[j->shape];
}

unsigned slow_bits(unsigned mask)
{
	return (unsigned)__builtin_popcount(mask);
}

/* One that has outlived its limit ends any moment; one that has outlived a belief takes as long again, but
 * for whom the place came later than promised: for that one limits count. */
uint64_t slow_end_of(const struct slow *w, const struct slow_job *j, int by_limits)
{
	const struct slow_shape *sh = slow_shape_of(w, j);
	uint64_t takes = sh->believed_s && !by_limits ? sh->believed_s : sh->limit_s;

	while (takes < sh->limit_s && j->start_s + takes <= w->now_s)
		takes += takes;
	takes = takes < sh->limit_s ? takes : sh->limit_s;
	return j->start_s + takes > w->now_s ? j->start_s + takes : w->now_s;
}

/* How long one that starts is taken to run, where a place is kept for that one. */
uint64_t slow_time_of(const struct slow *w, const struct slow_job *j, unsigned head)
{
	const struct slow_shape *sh = slow_shape_of(w, j);

	return sh->believed_s && !w->jobs[head].by_limits ? sh->believed_s : sh->limit_s;
}

static int is_gone(const struct slow *w, unsigned id, const struct slow_gone *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->ids[i] == id)
			return 1;
	return g->all || (g->by_s && slow_end_of(w, &w->jobs[id], g->by_limits) <= g->by_s);
}

static void rooms(const struct slow *w, const struct slow_gone *g, struct slow_room *r)
{
	for (int i = 0; i < SLOW_NODES; i++)
		r[i] = (struct slow_room){w->nodes[i].known && w->nodes[i].usable && !w->nodes[i].spare,
		                          (int)w->nodes[i].gpus,
		                          (int)w->nodes[i].slots,
		                          (int)w->nodes[i].memory,
		                          0,
		                          0};
	for (unsigned id = 1; id <= w->n_jobs; id++) {
		const struct slow_job *j = &w->jobs[id];

		for (unsigned k = 0; k < j->n_holds && !is_gone(w, id, g); k++) {
			struct slow_room *at = &r[j->holds[k].node];

			at->gpus -= (int)slow_bits(j->holds[k].gpu_mask);
			at->slots -= (int)slow_bits(j->holds[k].slot_mask);
			at->memory -= (int)slow_shape_of(w, j)->memory;
			at->holders++;
			at->exclusive |= slow_shape_of(w, j)->exclusive;
		}
	}
}

/* ---- does it fit ------------------------------------------------------------------------------- */

struct ask { /* a job, or only its wishes, at a time */
	const struct slow *w;
	const struct slow_shape *sh;
	int account; /* whose it is; -1: reservations do not count */
	uint64_t at_s;
	struct slow_room room[SLOW_NODES];
	int type, at_switch, in_rack;       /* only these; -1 any */
	int spares, near_switch, near_rack; /* spares, and then these, are better; 0 none */
	struct slow_look look;
	int pools; /* they count */
	int only;  /* 0 all nodes; healthy ones: 1 with an own part, 2 where no pool gives way, 3 with one of the
	           first pool */
	int empty; /* as if the nodes were */
};

static struct ask ask_of(const struct slow *w, const struct slow_job *j)
{
	return (struct ask){.w = w,
	                    .sh = slow_shape_of(w, j),
	                    .account = j->account,
	                    .at_s = w->now_s,
	                    .look = {.w = w, .job = j, .sh = slow_shape_of(w, j)}};
}

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

static int warm_enough(const struct ask *a, int node, unsigned group)
{
	const struct slow_node *n = &a->w->nodes[node];
	uint64_t order;
	int warmth;

	if (a->sh->pool && !a->empty && !slow_pool_suffices(&a->look, node, group))
		return 0;
	if (!a->only)
		return 1;
	warmth = slow_warmth(&a->look, &a->room[node], node, group, &order);
	return (!n->doubt || (a->spares && n->spare)) && warmth <= (a->only == 2 ? 2 : 1) &&
	       (a->only != 3 || order == 0);
}

static int suits(const struct ask *a, int node, unsigned group)
{
	const struct slow_node *n = &a->w->nodes[node];
	const struct sched_group *g = &a->sh->g[group];
	const struct slow_room *r = &a->room[node];

	return r->open && !r->exclusive && !(a->sh->exclusive && r->holders) && r->gpus >= (int)g->gpus &&
	       r->slots >= (int)(g->ranks * g->cpus_per_rank) && r->memory >= (int)a->sh->memory &&
	       (a->type < 0 || a->type == n->type) && (a->at_switch < 0 || a->at_switch == n->at_switch) &&
	       (a->in_rack < 0 || a->in_rack == n->in_rack) && (!a->sh->needs_label || n->labelled) &&
	       a->sh->avoid != node && !booked(a, node) && warm_enough(a, node, group);
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

int slow_fits_at(const struct slow *w, const struct slow_job *j, const struct slow_gone *g, uint64_t at_s,
                 int books)
{
	struct ask a = ask_of(w, j);

	a.account = books ? j->account : -1;
	a.at_s = at_s;
	a.empty = g->all;
	rooms(w, g, a.room);
	return exists(&a);
}

int slow_fits_without(const struct slow *w, unsigned id, const unsigned *gone, size_t n)
{
	return slow_fits_at(w, &w->jobs[id], &(struct slow_gone){.ids = gone, .n = n}, w->now_s, 0);
}

/* The usable nodes, empty, could not hold it. */
int slow_hopeless(const struct slow *w, const struct slow_job *j)
{
	return !slow_fits_at(w, j, &(struct slow_gone){.all = 1}, w->now_s, 0);
}

/* ---- where it goes ----------------------------------------------------------------------------- */

static int distance(const struct ask *a, const struct slow_node *n)
{
	return a->near_switch && n->at_switch == a->near_switch ? 0
	       : a->near_rack && n->in_rack == a->near_rack     ? 1
	                                                        : 2;
}

/* Least doubt, warmest, fewest free GPUs, left last by a job of this environment, cheapest, least power,
 * fewest free slots, the first that joined. */
static int better(const struct ask *a, unsigned group, int x, int y)
{
	const struct slow_node *p = &a->w->nodes[x], *q = &a->w->nodes[y];

	if (a->spares && p->spare != q->spare)
		return p->spare;
	if (distance(a, p) != distance(a, q))
		return distance(a, p) < distance(a, q);
	if (p->doubt != q->doubt)
		return p->doubt < q->doubt;
	if (a->pools) {
		uint64_t p_idle, q_idle;
		int p_warmth = slow_warmth(&a->look, &a->room[x], x, group, &p_idle),
		    q_warmth = slow_warmth(&a->look, &a->room[y], y, group, &q_idle);

		if (p_warmth != q_warmth)
			return p_warmth < q_warmth;
		if (p_idle != q_idle)
			return p_idle < q_idle;
	}
	if (a->room[x].gpus != a->room[y].gpus)
		return a->room[x].gpus < a->room[y].gpus;
	if (a->look.job->warm && (p->last_warm == a->look.job->warm) != (q->last_warm == a->look.job->warm))
		return p->last_warm == a->look.job->warm;
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
				if (place[n] < 0 && suits(a, n, g) && (best < 0 || better(a, g, n, best)))
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

static int place_types(struct ask *a, int *place)
{
	int found = 0;

	for (int t = 0; t < (a->sh->n_types ? a->sh->n_types : 1) && !found; t++) {
		a->type = a->sh->n_types ? a->sh->types[t] : -1;
		found = place_type(a, a->w, place);
	}
	return found;
}

/* On nodes of one pool, on warm ones, on those where no pool gives way, on all. */
static int place_looks(struct ask *a, int *place)
{
	static const int looks[] = {3, 1, 2, 0};
	int found = 0, one;

	a->look.need = a->sh->instances;
	one = slow_pools_turns(&a->look);
	for (int i = a->spares ? 2 : one ? 0 : 1; i < 4 && !found; i++) {
		a->only = looks[i];
		found = place_types(a, place);
	}
	a->only = 0;
	return found;
}

/* Exclusive pools of which only a part would be used are not for this job: twice, then none of them is. */
static int place_pools(struct ask *a, int *place)
{
	int found;

	a->look.open = slow_pools_whole(a->w, a->look.job, a->sh->instances);
	for (int i = 0; i < 2; i++) {
		unsigned was = a->look.open;

		found = place_looks(a, place);
		if (!found)
			return 0;
		a->look.open = slow_pools_open(a->w, a->look.job, place, a->look.open);
		if (a->look.open == was)
			return 1;
	}
	a->look.open = 0;
	return place_looks(a, place);
}

int slow_place_now(const struct slow *w, const struct slow_job *j, int blind, int *place)
{
	struct ask a = ask_of(w, j);
	int found;

	rooms(w, &(struct slow_gone){0}, a.room);
	a.pools = slow_any_pools(w) && !blind;
	found = a.pools ? place_pools(&a, place) : place_types(&a, place);
	if (found != exists(&a))
		doubt = "the slow one's placement and its trial of all disagree";
	return found;
}

/* ---- the rest of a gang ------------------------------------------------------------------------- */

static void open_spares(const struct slow *w, struct ask *a)
{
	a->spares = 1;
	for (int n = 0; n < SLOW_NODES; n++)
		a->room[n].open = w->nodes[n].known && w->nodes[n].usable;
}

/* What all kept places share; 0 nothing. */
static int shared(const struct slow *w, const struct slow_job *j, enum sched_span level)
{
	int part = part_of(&w->nodes[j->holds[0].node], level);

	for (unsigned k = 1; k < j->n_holds; k++)
		if (part_of(&w->nodes[j->holds[k].node], level) != part)
			return 0;
	return part;
}

/* On other nodes than it has, of their type, on their switch or in their rack where that is a condition. */
static int place_rest(const struct slow *w, const struct slow_job *j, int *place)
{
	const struct slow_shape *sh = slow_shape_of(w, j);
	struct slow_shape rest = *sh;
	struct ask a = ask_of(w, j);
	const struct slow_node *first = &w->nodes[j->holds[0].node];
	int must = sh->instances > 1 && (sh->span == SCHED_SPAN_SWITCH || sh->span == SCHED_SPAN_RACK), found;

	a.sh = a.look.sh = &rest;
	rooms(w, &(struct slow_gone){0}, a.room);
	open_spares(w, &a);
	for (unsigned k = 0; k < j->n_holds; k++) {
		rest.g[j->holds[k].group].instances--;
		a.room[j->holds[k].node].open = 0;
	}
	a.type = sh->n_types ? first->type : -1;
	a.near_switch = sh->span == SCHED_SPAN_ANY ? 0 : shared(w, j, SCHED_SPAN_SWITCH);
	a.near_rack = sh->span == SCHED_SPAN_ANY ? 0 : shared(w, j, SCHED_SPAN_RACK);
	anywhere(&a);
	if (must && !only(&a, sh->span, shared(w, j, sh->span)))
		for (int n = 0; n < SLOW_NODES; n++)
			a.room[n].open = 0; /* it is nowhere */
	a.pools = slow_any_pools(w);
	a.only = a.pools ? 2 : 0;
	a.look.need = sh->instances - j->n_holds;
	(void)slow_pools_turns(&a.look);
	found = place_on(&a, place);
	a.only = 0;
	found = found || place_on(&a, place);
	if (found != by_trial(&a, 0, 0, 0))
		doubt = "the slow one's rest of a gang and its trial of all disagree";
	return found;
}

static int place_whole(const struct slow *w, const struct slow_job *j, int *place)
{
	struct ask a = ask_of(w, j);

	rooms(w, &(struct slow_gone){0}, a.room);
	open_spares(w, &a);
	a.pools = slow_any_pools(w);
	return a.pools ? place_pools(&a, place) : place_types(&a, place);
}

unsigned slow_replace(const struct slow *w, int *place)
{
	unsigned best = 0;
	int at[SLOW_NODES];

	for (unsigned id = 1; id <= w->n_jobs; id++) {
		const struct slow_job *j = &w->jobs[id];
		int can = j->state == SLOW_REPLACES && (!best || slow_by_age(w, id, best));

		for (unsigned k = 0; k < j->n_holds && can; k++)
			can = w->nodes[j->holds[k].node].known && w->nodes[j->holds[k].node].usable;
		if (!can || !(j->n_holds ? place_rest(w, j, at) : place_whole(w, j, at)))
			continue;
		best = id;
		memcpy(place, at, sizeof(at));
	}
	return best;
}
