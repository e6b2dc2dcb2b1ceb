/*
 * shadow: the place that is kept for one job, the head, while others pass it.
 *
 * Running jobs are removed by believed end until the head would fit. The last of these ends is its shadow
 * time, and the view is what will be free then. Another job may start if it is believed to end before that
 * time, or if the head would still fit then next to it.
 *
 * A belief can be too short, and then the kept place comes later. From then on only limits count for this
 * head, so that it does not happen again: the head starts at the latest when all jobs have reached their
 * limits that had started by then.
 */
#include "scheduler/policy/shadow.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"

/* The place is made anew at each pass, unless so many jobs run that this would take long; then only when one
 * in KEEP of them has ended. */
#define MANY 4096
#define KEEP 16

int ends_compare(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (!x->job || !y->job)
		return !!x->job - !!y->job;
	return x->job->id < y->job->id ? -1 : x->job->id > y->job->id;
}

/* Follows S-236 and S-238. */
int promise_holds(const struct sched *s, struct job *j, uint64_t from_s)
{
	if (from_s == UINT64_MAX)
		return 1;
	if (!j->promise_s || j->promise_nodes != (uint32_t)s->went_gen) {
		j->promise_s = from_s;
		j->promise_nodes = (uint32_t)s->went_gen;
	}
	return from_s <= j->promise_s;
}

static int view_fits(struct sched *s, const struct shape *sh, int32_t *assign)
{
	return !view_too_full(s, sh) && fit_gang(s, sh, FIT_VIEW, assign);
}

/* Running jobs and reservations by believed end, and how many of them are gone in the view. */
struct ends {
	struct end *v;
	size_t n, gone;
};

static void end_change(struct sched *s, const struct end *e, int sign)
{
	if (e->job)
		view_change(s, e->job, sign);
}

/* Does the head fit when the first n are gone? The view is left so. */
static int fits_after(struct sched *s, const struct shape *sh, struct ends *e, size_t n, int32_t *assign)
{
	for (; e->gone < n; e->gone++)
		end_change(s, &e->v[e->gone], 1);
	for (; e->gone > n; e->gone--)
		end_change(s, &e->v[e->gone - 1], -1);
	return view_fits(s, sh, assign);
}

/* The least number of ends with which it fits. More ends never make it fit less: by halving, after steps that
 * double, since often a few ends are enough of many. */
static size_t by_halving(struct sched *s, const struct job *head, struct ends *e, int32_t *assign)
{
	size_t lo = 0, hi = e->n;

	for (size_t try = 0; try < e->n; try = 2 * try + 64) {
		if (fits_after(s, head->shape, e, try, assign)) {
			hi = try;
			break;
		}
		lo = try + 1;
	}
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (fits_after(s, head->shape, e, mid, assign))
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

#define LOOKS       400
#define LOOKS_LEAST 16

/* With an effort: so many as it allows for. */
static unsigned looks_of(const struct sched *s)
{
	uint64_t n = s->policy.effort && s->n_sorted ? s->policy.effort / s->n_sorted : LOOKS;

	return n > LOOKS ? LOOKS : n < LOOKS_LEAST ? LOOKS_LEAST : (unsigned)n;
}

/* The same where nodes are booked: a place that is there at one time may be gone at a later one, so each time
 * is looked at, up to a bound. SIZE_MAX: not found within it. Follows S-135. */
static size_t one_by_one(struct sched *s, const struct job *head, struct ends *e, int32_t *assign)
{
	unsigned looks = 0, most = looks_of(s);

	for (size_t i = 0; i <= e->n; i++) {
		if (i && i < e->n && e->v[i].at == e->v[i - 1].at)
			continue;
		if (looks++ == most)
			break;
		reservation_try(s, head, i && e->v[i - 1].at > s->now_s ? e->v[i - 1].at : s->now_s);
		if (fits_after(s, head->shape, e, i, assign))
			return i;
	}
	reservation_try(s, NULL, 0);
	return SIZE_MAX;
}

static void reservation_ends(const struct sched *s, struct ends *e)
{
	for (size_t i = 0; s->n_reservations && i < s->n_sorted; i++)
		for (uint32_t k = 0; k < s->sorted[i]->n_reservations; k++)
			if (s->sorted[i]->reservations[k].to_s > s->now_s)
				e->v[e->n++] = (struct end){s->sorted[i]->reservations[k].to_s, NULL};
}

/* keep: what is believed now is remembered, so that the view can be kept true. */
static void find_place(struct sched *s, const struct job *head, int32_t *assign, int keep, int by_limits)
{
	struct ends e = {.v = mem_alloc(s->n_running + s->n_reservations, sizeof(*e.v))};
	size_t lo = SIZE_MAX;

	s->view = mem_resize(s->view, s->n_sorted, sizeof(*s->view));
	view_now(s);
	for (struct job *j = s->running; j; j = j->next_running) {
		e.v[e.n] = (struct end){by_limits ? limit_end(s, j) : running_end(s, j), j};
		if (keep)
			j->end_s = e.v[e.n].at;
		e.n++;
	}
	reservation_ends(s, &e);
	qsort(e.v, e.n, sizeof(*e.v), ends_compare);
	if (s->n_reservations)
		lo = one_by_one(s, head, &e, assign);
	if (lo == SIZE_MAX)
		lo = by_halving(s, head, &e, assign);
	s->shadow_s = lo && lo <= e.n ? e.v[lo - 1].at : s->now_s;
	while (lo < e.n && e.v[lo].at <= s->shadow_s)
		lo++;
	if (!fits_after(s, head->shape, &e, lo, assign))
		s->shadow_s = UINT64_MAX; /* not even when all have ended: it waits for nodes */
	reservation_try(s, NULL, 0);
	free(e.v);
}

/* Is the view that was made for it, or for one that asks for the same, still good? What started and ended
 * since is in it; each further end may let it start sooner than it says, so it is made anew after some. */
static int still_kept(struct sched *s, const struct job *head, int32_t *assign)
{
	return s->n_running >= MANY && s->kept && s->kept->shape == head->shape &&
	       s->kept->by_limits == head->by_limits && s->kept_nodes == s->nodes_gen && !s->n_reservations &&
	       s->shadow_s != UINT64_MAX && s->shadow_s > s->now_s && s->kept_ends <= s->n_running / KEEP &&
	       view_fits(s, head->shape, assign);
}

/* Follows S-218. */
void shadow_make(struct sched *s, struct job *head)
{
	int32_t *assign = mem_alloc(s->n_sorted, sizeof(*assign));

	if (!still_kept(s, head, assign)) {
		find_place(s, head, assign, 1, head->by_limits);
		if (!promise_holds(s, head, s->shadow_s) && !head->by_limits) {
			head->by_limits = 1;
			find_place(s, head, assign, 1, 1);
		}
		s->kept_nodes = s->nodes_gen;
		s->kept_ends = 0;
	}
	s->kept = head;
	s->head = head;
	s->era++;
	reservation_try(s, NULL, 0);
	free(assign);
}

/* Follows S-219. */
int shadow_allows(struct sched *s, const struct job *j, const int32_t *assign)
{
	int32_t *beside;
	int fits;

	if (s->shadow_s == UINT64_MAX || believed_end(s, j) <= s->shadow_s)
		return 1;
	beside = mem_alloc(s->n_sorted, sizeof(*beside));
	view_take(s, j, assign, 1);
	reservation_try(s, s->head, s->shadow_s);
	fits = view_fits(s, s->head->shape, beside);
	view_take(s, j, assign, -1);
	free(beside);
	return fits;
}

void shadow_took(struct sched *s, struct job *j, const int32_t *assign)
{
	j->end_s = believed_end(s, j);
	if (s->kept == j)
		s->kept = NULL;
	else if (s->kept && s->kept_nodes == s->nodes_gen && j->end_s > s->shadow_s)
		view_take(s, j, assign, 1);
}

struct shadow shadow_aside(struct sched *s)
{
	struct shadow was = {s->head, s->kept, s->shadow_s, s->kept_nodes, s->kept_ends, s->view, {0}};

	memcpy(was.view_free, s->view_free, sizeof(was.view_free));
	s->kept = NULL;
	s->view = mem_alloc(s->n_sorted, sizeof(*s->view));
	return was;
}

void shadow_back(struct sched *s, const struct shadow *was)
{
	free(s->view);
	s->head = was->head;
	s->kept = was->kept;
	s->shadow_s = was->shadow_s;
	s->kept_nodes = was->kept_nodes;
	s->kept_ends = was->kept_ends;
	s->view = was->view;
	memcpy(s->view_free, was->view_free, sizeof(s->view_free));
}

/* Follows S-321. */
uint64_t sched_earliest(struct sched *s, uint64_t id)
{
	int32_t *assign;
	struct shadow was;
	struct job *j;
	uint64_t at;

	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	if (!j || !j->is_waiting || pool_is_short(s, j))
		return UINT64_MAX;
	was = shadow_aside(s);
	assign = mem_alloc(s->n_sorted, sizeof(*assign));
	find_place(s, j, assign, 0, 0);
	at = s->shadow_s;
	free(assign);
	shadow_back(s, &was);
	return at;
}

/* What it held back may start now. */
void shadow_drop_head(struct sched *s)
{
	s->head = NULL;
	s->era++;
	s->idle = 0;
}
