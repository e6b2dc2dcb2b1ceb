/*
 * plan: conservative backfill: a place is kept for every waiting job, in order, and nobody starts who would
 * be in the way of one.
 *
 * Time is cut where something begins or ends; of each piece it is known what is free on every node. A job
 * gets the first time from which on it fits for as long as it is believed to take, and the best place at that
 * time; that is its promise. When something ends sooner than was believed, each job in order gives its place
 * back and takes the first there is now: its old one at the latest. So while nothing takes longer than
 * believed no job starts later than it was promised first. A promise ends when the nodes or their
 * reservations change, and yields to a job of higher priority.
 *
 * The work is bounded by the policy's effort, counted in nodes looked at. When it is used up, those that are
 * left have no place kept, and start only where they are in nobody's way. When the pieces would be too many
 * for memory none is kept, and the pass is one of EASY.
 */
#include "scheduler/policy/plan.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/order.h"
#include "scheduler/policy/shadow.h"

#define EFFORT    500000u    /* unless the policy says */
#define MAX_ROOMS (1u << 20) /* pieces times nodes */

struct kept { /* the place of a waiting job */
	struct job *job;
	uint64_t from_s, to_s;
	struct kept *prev, *next;
	uint32_t n;
	struct spot spots[];
};

struct plan {
	struct kept *kept;
	uint64_t *at;       /* where pieces begin; the first is now, the last has no end */
	struct room *rooms; /* [n][n_sorted] */
	size_t n, cap, width;
	int32_t *assign;
	uint64_t input, now_s, nodes_gen; /* for which it was made */
	uint64_t effort;
	int none;      /* too large: nothing is kept */
	int by_limits; /* somebody's place came later than promised: beliefs do not count until it has started */
	int short_of_effort;
	unsigned started; /* since it was made */
};

static struct plan *plan_of(struct sched *s)
{
	if (!s->plan)
		s->plan = mem_alloc(1, sizeof(*s->plan));
	return s->plan;
}

static void forget_kept(struct plan *p, struct kept *k)
{
	DL_DELETE(p->kept, k);
	k->job->kept = NULL;
	free(k);
}

void plan_forget(struct sched *s, struct job *j)
{
	if (j->kept)
		forget_kept(s->plan, j->kept);
}

void plan_forget_all(struct sched *s)
{
	while (s->plan && s->plan->kept)
		forget_kept(s->plan, s->plan->kept);
}

void plan_fini(struct sched *s)
{
	plan_forget_all(s);
	if (!s->plan)
		return;
	free(s->plan->at);
	free(s->plan->rooms);
	free(s->plan->assign);
	free(s->plan);
	s->plan = NULL;
}

/* ---- pieces of time ---------------------------------------------------------------------------- */

static struct room *rooms_at(const struct plan *p, size_t i)
{
	return &p->rooms[i * p->width];
}

static void grow_pieces(struct plan *p, size_t n)
{
	if (n <= p->cap)
		return;
	p->cap = n * 2;
	p->at = mem_resize(p->at, p->cap, sizeof(*p->at));
	p->rooms = mem_resize(p->rooms, p->cap * (p->width ? p->width : 1), sizeof(*p->rooms));
}

/* The piece that begins then; it is made. -1: there are too many. */
static long cut_at(struct plan *p, uint64_t at)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) { /* the first that begins later */
		size_t mid = (lo + hi) / 2;

		if (p->at[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo && p->at[lo - 1] == at)
		return (long)lo - 1;
	if ((p->n + 1) * p->width > MAX_ROOMS)
		return -1;
	grow_pieces(p, p->n + 1);
	memmove(&p->at[lo + 1], &p->at[lo], (p->n - lo) * sizeof(*p->at));
	memmove(rooms_at(p, lo + 1), rooms_at(p, lo), (p->n - lo) * p->width * sizeof(*p->rooms));
	p->at[lo] = at;
	memcpy(rooms_at(p, lo), rooms_at(p, lo - 1), p->width * sizeof(*p->rooms));
	p->n++;
	p->effort += p->width;
	return (long)lo;
}

static int room_has(const struct room *r, const struct job *j, const struct sched_group *g)
{
	return !r->exclusive && !(j->shape->exclusive && r->holders) && r->gpus >= g->gpus &&
	       r->slots >= g->ranks * g->cpus_per_rank && r->memory >= j->shape->memory &&
	       r->disk >= j->shape->disk;
}

static void room_use(struct room *r, const struct job *j, const struct sched_group *g, int sign)
{
	r->gpus -= (uint32_t)sign * g->gpus;
	r->slots -= (uint32_t)sign * g->ranks * g->cpus_per_rank;
	r->memory -= (uint64_t)sign * j->shape->memory;
	r->disk -= (uint64_t)sign * j->shape->disk;
	r->holders += (uint32_t)sign;
	if (j->shape->exclusive)
		r->exclusive = sign > 0 ? j->id : 0;
}

/* From one piece up to another, where it is taken (sign 1) or given back. */
static void use_room(struct plan *p, const struct kept *k, size_t from, size_t to, int sign)
{
	for (size_t i = from; i < to; i++)
		for (uint32_t x = 0; x < k->n; x++)
			room_use(&rooms_at(p, i)[k->spots[x].at], k->job, &k->job->shape->groups[k->spots[x].group],
			         sign);
}

static int has_room(const struct plan *p, const struct kept *k, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		for (uint32_t x = 0; x < k->n; x++)
			if (!room_has(&rooms_at(p, i)[k->spots[x].at], k->job, &k->job->shape->groups[k->spots[x].group]))
				return 0;
	return 1;
}

/* Into the pieces. 0: it has no room there any more, or there are too many of them. */
static int put_kept(struct plan *p, struct kept *k)
{
	long from = cut_at(p, k->from_s), to = from < 0 ? -1 : cut_at(p, k->to_s);

	if (to < 0 || !has_room(p, k, (size_t)from, (size_t)to))
		return 0;
	use_room(p, k, (size_t)from, (size_t)to, 1);
	return 1;
}

static void lift_kept(struct plan *p, const struct kept *k)
{
	use_room(p, k, (size_t)cut_at(p, k->from_s), (size_t)cut_at(p, k->to_s), -1);
}

/* ---- what runs --------------------------------------------------------------------------------- */

static size_t ends_of(const struct sched *s, struct end *e)
{
	size_t n = 0;

	for (const struct job *j = s->running; j; j = j->next_running) {
		uint64_t at = s->plan->by_limits ? limit_end(s, j) : running_end(s, j);

		e[n++] = (struct end){at > s->now_s ? at : s->now_s + 1, j}; /* it has not ended yet */
	}
	for (size_t i = 0; s->n_reservations && i < s->n_sorted; i++)
		for (uint32_t k = 0; k < s->sorted[i]->n_reservations; k++)
			if (s->sorted[i]->reservations[k].to_s > s->now_s)
				e[n++] = (struct end){s->sorted[i]->reservations[k].to_s, NULL};
	qsort(e, n, sizeof(*e), ends_compare);
	return n;
}

/* Pieces of what runs alone. -1: too many. Follows S-260. */
static int lay_out(struct sched *s, struct plan *p)
{
	struct end *e = mem_alloc(s->n_running + s->n_reservations + 1, sizeof(*e));
	size_t n = ends_of(s, e), pieces = 1;

	for (size_t i = 0; i < n; i++)
		pieces += !i || e[i].at != e[i - 1].at;
	p->n = 0;
	if (pieces * s->n_sorted > MAX_ROOMS / 2) {
		free(e);
		return -1;
	}
	if (p->width != s->n_sorted) {
		p->width = s->n_sorted;
		p->cap = 0;
	}
	grow_pieces(p, pieces);
	s->view = mem_resize(s->view, s->n_sorted, sizeof(*s->view));
	view_now(s);
	for (size_t i = 0;;) {
		p->at[p->n] = i ? e[i - 1].at : s->now_s;
		memcpy(rooms_at(p, p->n), s->view, p->width * sizeof(*s->view));
		p->n++;
		p->effort += p->width;
		if (i == n)
			break;
		for (uint64_t at = e[i].at; i < n && e[i].at == at; i++)
			if (e[i].job)
				view_release(s, e[i].job);
	}
	free(e);
	return 0;
}

/* ---- a place for one job ----------------------------------------------------------------------- */

/* What is there throughout; a kept place has room when it has at each time for itself. */
static void narrow_room(struct room *v, const struct room *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		v[i].gpus = v[i].gpus < r[i].gpus ? v[i].gpus : r[i].gpus;
		v[i].slots = v[i].slots < r[i].slots ? v[i].slots : r[i].slots;
		v[i].memory = v[i].memory < r[i].memory ? v[i].memory : r[i].memory;
		v[i].disk = v[i].disk < r[i].disk ? v[i].disk : r[i].disk;
		v[i].holders = v[i].holders > r[i].holders ? v[i].holders : r[i].holders;
		v[i].exclusive = v[i].exclusive ? v[i].exclusive : r[i].exclusive;
	}
}

/* Does it fit for so long from that piece on? The place goes to p->assign. */
static int fits_from(struct sched *s, struct plan *p, const struct job *j, size_t i, uint64_t takes)
{
	size_t last = i + 1;

	p->effort += p->width;
	memcpy(s->view, rooms_at(p, i), p->width * sizeof(*s->view));
	reservation_try(s, j, p->at[i]);
	if (!fit_gang(s, j->shape, FIT_VIEW, p->assign))
		return 0;
	for (; last < p->n && p->at[last] < p->at[i] + takes; last++)
		narrow_room(s->view, rooms_at(p, last), p->width);
	p->effort += p->width * (last - i);
	return last == i + 1 || fit_gang(s, j->shape, FIT_VIEW, p->assign);
}

static struct kept *keep_place(struct sched *s, struct plan *p, struct job *j, uint64_t from_s,
                               uint64_t takes)
{
	struct kept *k = mem_alloc(1, sizeof(*k) + j->shape->instances * sizeof(k->spots[0]));

	k->job = j;
	k->from_s = from_s;
	k->to_s = from_s + takes;
	for (size_t i = 0; i < s->n_sorted; i++)
		if (p->assign[i] >= 0)
			k->spots[k->n++] = (struct spot){(uint32_t)i, (uint32_t)p->assign[i]};
	DL_APPEND(p->kept, k);
	j->kept = k;
	return k;
}

/* From now until then; 1: it has a place. Follows S-249. */
static int find_place(struct sched *s, struct plan *p, struct job *j, uint64_t until_s)
{
	uint64_t takes = believed_time(s, j, p->by_limits);

	if (!takes) /* a job that takes no time needs its place all the same */
		takes = 1;
	for (size_t i = 0; i < p->n && p->at[i] <= until_s; i++) {
		if (!fits_from(s, p, j, i, takes))
			continue;
		if (!put_kept(p, keep_place(s, p, j, p->at[i], takes))) {
			forget_kept(p, j->kept);
			return 0;
		}
		return 1;
	}
	return 0;
}

/* ---- all of them ------------------------------------------------------------------------------- */

static int is_plannable(const struct sched *s, const struct lane *l)
{
	return l->shape->hopeless_gen != s->nodes_gen && !pool_is_short(s, l->first) &&
	       account_full(l->account, l->shape->gpus) != 2;
}

/* Promises to jobs of lower priority than one that has none yet are void. Follows S-251. */
static void give_way(struct sched *s, struct plan *p)
{
	int64_t highest = INT64_MIN;
	struct kept *k, *tmp;

	for (uint32_t i = 0; i < s->n_active; i++) {
		const struct lane *l = s->active[i];
		const struct job *j = l->first;

		for (uint32_t at = 0; is_plannable(s, l) && j && j->kept; at++)
			j = queue_at(l, at);
		if (is_plannable(s, l) && j && j->priority > highest)
			highest = j->priority;
	}
	DL_FOREACH_SAFE (p->kept, k, tmp)
		if (k->job->priority < highest)
			forget_kept(p, k);
}

/* Its time is over, or it was kept for less time than is believed now. */
static int is_void(const struct sched *s, const struct plan *p, const struct kept *k)
{
	return k->from_s < s->now_s || (p->by_limits && k->to_s - k->from_s < believed_time(s, k->job, 1));
}

/* Those that were kept go in as they are; one that has no room any more, since something took longer than
 * believed, is looked for anew. So are those behind it then: else it would come after them all.
 * Follows S-255. */
static void put_back(struct sched *s, struct plan *p)
{
	const struct job *late = NULL;
	struct kept *k, *tmp;

	DL_FOREACH_SAFE (p->kept, k, tmp) {
		int can = is_plannable(s, k->job->lane);

		if (can && !is_void(s, p, k) && put_kept(p, k))
			continue;
		if (can && (!late || order_before(s, k->job, late)))
			late = k->job;
		forget_kept(p, k);
	}
	DL_FOREACH_SAFE (p->kept, k, tmp)
		if (late && order_before(s, late, k->job)) {
			lift_kept(p, k);
			forget_kept(p, k);
		}
}

/* A place no later than the one it has, or its first. only_now: no effort is left to look at later ones.
 * Follows S-250 and S-254. */
static int renew_place(struct sched *s, struct plan *p, struct job *j, int only_now)
{
	struct kept *old = j->kept;

	if (!old)
		return find_place(s, p, j, only_now ? s->now_s : UINT64_MAX);
	lift_kept(p, old);
	j->kept = NULL;
	DL_DELETE(p->kept, old);
	if (find_place(s, p, j, only_now ? s->now_s : old->from_s)) {
		free(old);
		return 1;
	}
	DL_APPEND(p->kept, old); /* it is believed to take longer now, or there are too many pieces: as it was */
	j->kept = old;
	use_room(p, old, (size_t)cut_at(p, old->from_s), (size_t)cut_at(p, old->to_s), 1);
	return 1;
}

static void account_ahead(struct account *a, const struct shape *sh)
{
	for (; a; a = a->parent) {
		a->ahead += sh->gpus;
		a->ahead_cpus += sh->cpus;
	}
}

static void no_ahead(struct sched *s)
{
	for (struct account *a = s->accounts; a; a = a->hh.next)
		a->ahead = a->ahead_cpus = 0;
}

/* The next in order, of those that were not looked at. Shares are compared as if those before had started.
 * Follows S-252. */
static struct job *next_in_order(const struct sched *s, const uint32_t *taken, uint32_t *lane)
{
	struct job *best = NULL;

	for (uint32_t i = 0; i < s->n_active; i++) {
		struct job *j = taken[i] == UINT32_MAX ? NULL : queue_at(s->active[i], taken[i]);

		if (j && (!best || order_before(s, j, best))) {
			best = j;
			*lane = i;
		}
	}
	return best;
}

static int starts_now(const struct sched *s, const struct plan *p)
{
	const struct kept *k = p->kept;

	while (k && k->from_s != s->now_s)
		k = k->next;
	return k != NULL;
}

/* What runs may use up half of the effort at most: the first in order are always looked at. While nothing
 * runs nothing would come to look again: then all are, until one can start.
 * Follows S-256, S-257 and S-258. */
static void walk_order(struct sched *s, struct plan *p)
{
	uint32_t *taken = mem_alloc(s->n_active + 1, sizeof(*taken)), lane = 0;
	uint64_t bound = s->policy.effort ? s->policy.effort : EFFORT;
	struct job *j;

	p->effort = p->effort < bound / 2 ? p->effort : bound / 2;
	while ((j = next_in_order(s, taken, &lane)) &&
	       (p->effort < 2 * bound || (!s->n_running && !starts_now(s, p)))) {
		int only_now = p->effort >= bound;

		taken[lane]++;
		reservation_try(s, NULL, 0);
		if (fit_hopeless(s, j->shape, p->assign) || !is_plannable(s, s->active[lane]) ||
		    !renew_place(s, p, j, only_now))
			taken[lane] = UINT32_MAX; /* those behind it in its lane are like it */
		else
			account_ahead(j->lane->account, j->shape);
		if (j->kept && !promise_holds(s, j, j->kept->from_s))
			j->by_limits = 1;
	}
	p->short_of_effort = p->effort >= bound;
	no_ahead(s);
	free(taken);
}

#define EARLIEST_TRIED 16

/* Nothing runs and nobody has a place now, since jobs are believed to take longer than when they got theirs:
 * who has the first starts. Only what is booked stays so. */
static void start_earliest(struct sched *s, struct plan *p)
{
	uint64_t after = s->now_s;

	for (unsigned i = 0; i < EARLIEST_TRIED && !s->n_running && !starts_now(s, p); i++) {
		struct kept *k = NULL, *x;

		DL_FOREACH (p->kept, x)
			if (x->from_s > after && (!k || x->from_s < k->from_s))
				k = x;
		if (!k)
			return;
		after = k->from_s;
		reservation_try(s, k->job, s->now_s);
		if (!fit_gang(s, k->job->shape, FIT_NOW, p->assign))
			continue;
		k->from_s = s->now_s;
		k->n = 0;
		for (size_t n = 0; n < s->n_sorted; n++)
			if (p->assign[n] >= 0)
				k->spots[k->n++] = (struct spot){(uint32_t)n, (uint32_t)p->assign[n]};
	}
}

static int any_by_limits(const struct plan *p)
{
	const struct kept *k = p->kept;

	while (k && !k->job->by_limits)
		k = k->next;
	return k != NULL;
}

static void make_plan(struct sched *s, struct plan *p)
{
	p->input = s->input;
	p->now_s = s->now_s;
	p->effort = 0;
	p->started = 0;
	p->short_of_effort = 0;
	p->assign = mem_resize(p->assign, s->n_sorted + 1, sizeof(*p->assign));
	if (p->nodes_gen != s->nodes_gen)
		plan_forget_all(s);
	p->nodes_gen = s->nodes_gen;
	p->by_limits = any_by_limits(p);
	p->none = lay_out(s, p) < 0;
	if (p->none) {
		plan_forget_all(s);
		return;
	}
	s->planning = 1;
	give_way(s, p);
	put_back(s, p);
	walk_order(s, p);
	start_earliest(s, p);
	s->planning = 0;
	reservation_try(s, NULL, 0);
}

/* GPUs of one model, or of much memory, are counted as any others where time goes on: now they must be there.
 */
static int is_there(const struct sched *s, const struct kept *k)
{
	for (uint32_t x = 0; x < k->n; x++)
		if (!fit_node(s, s->sorted[k->spots[x].at], k->job->shape, &k->job->shape->groups[k->spots[x].group],
		              NULL, FIT_NOW))
			return 0;
	return account_full(k->job->lane->account, k->job->shape->gpus) != 2;
}

static struct job *next_start(struct sched *s, struct plan *p, int32_t *assign)
{
	struct kept *k, *tmp;

	DL_FOREACH_SAFE (p->kept, k, tmp) {
		struct job *j = k->job;
		int good;

		if (k->from_s != s->now_s)
			continue;
		good = is_there(s, k);
		memset(assign, 0xff, s->n_sorted * sizeof(*assign));
		for (uint32_t x = 0; x < k->n; x++)
			assign[k->spots[x].at] = (int32_t)k->spots[x].group;
		forget_kept(p, k);
		if (good)
			return j;
	}
	return NULL;
}

/* Follows S-248. */
struct job *plan_next(struct sched *s, int32_t *assign)
{
	struct plan *p = plan_of(s);
	struct job *j;

	if (p->input != s->input || p->now_s != s->now_s)
		make_plan(s, p);
	j = next_start(s, p, assign);
	/* Whom the effort did not reach may fit as well: as long as somebody starts there is more. */
	while (!j && p->short_of_effort && p->started) {
		make_plan(s, p);
		j = next_start(s, p, assign);
	}
	p->started += !!j;
	return j;
}

int plan_none(const struct sched *s)
{
	return !s->plan || s->plan->none;
}

/* Follows S-315. */
void plan_forecast(const struct sched *s, const struct job *j, struct sched_forecast *out)
{
	const struct kept *k = j->kept;

	if (!k || k->from_s < s->now_s || (out->whole && out->start_s <= k->from_s))
		return;
	free(out->places);
	out->start_s = k->from_s;
	out->whole = 1;
	out->n = 0;
	out->places = mem_alloc(k->n + 1, sizeof(*out->places));
	for (uint32_t g = 0; g < j->shape->n_groups; g++)
		for (uint32_t x = 0; x < k->n; x++)
			if (k->spots[x].group == g)
				out->places[out->n++] =
				    (struct sched_place){.node = s->sorted[k->spots[x].at]->id, .group = g};
}

/* Follows S-259. */
uint64_t sched_next_kept(const struct sched *s)
{
	uint64_t at = UINT64_MAX;

	for (const struct kept *k = s->plan ? s->plan->kept : NULL; k; k = k->next)
		at = k->from_s > s->now_s && k->from_s < at ? k->from_s : at;
	return at;
}

uint64_t sched_kept(const struct sched *s, uint64_t id)
{
	const struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	return j && j->kept ? j->kept->from_s : UINT64_MAX;
}
