/*
 * shadow: the place that is kept for one job while others pass it.
 *
 * Running jobs are taken away by believed end until the job would fit: that is its shadow time, and the view
 * is what will be free then. Another job may start when it is believed to end before, or when the first would
 * still fit at that time with it in its place. A running job is believed to end at its time limit, or when
 * its burst's expected time is over; one that has outlived that is believed to take as long again. One that
 * would start is judged with caution: a job without a limit is taken to run some times longer than expected.
 */
#include "scheduler/model.h"

struct end {
	uint64_t at;
	const struct job *job; /* NULL: of a booking */
};

static int by_end(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (!x->job || !y->job)
		return !!x->job - !!y->job;
	return x->job->id < y->job->id ? -1 : x->job->id > y->job->id;
}

uint64_t running_end(const struct sched *s, const struct job *j)
{
	uint64_t ran = s->now_s - j->start_s;
	double expect;

	if (j->limit_s)
		return j->start_s + j->limit_s > s->now_s ? j->start_s + j->limit_s : s->now_s;
	if (!j->lane)
		return s->now_s + ran;
	expect = lane_expect(s, j->lane);
	return expect > (double)ran ? j->start_s + (uint64_t)expect : j->start_s + 2 * ran;
}

uint64_t believed_end(const struct sched *s, const struct job *j)
{
	double expect;

	if (j->limit_s)
		return s->now_s + j->limit_s;
	if (s->policy.by_limit)
		return s->now_s + (uint64_t)1e15;
	expect = s->policy.caution * j->lane->mean;
	return s->now_s + (expect < 1e15 ? (uint64_t)expect : (uint64_t)1e15);
}

static void room_change(struct room *r, const struct hold *h, uint64_t job)
{
	r->gpus += h->n_gpus;
	r->slots += h->n_cpus;
	r->memory += h->memory;
	r->disk += h->disk;
	r->holders--;
	if (r->exclusive == job)
		r->exclusive = 0;
}

void view_now(struct sched *s)
{
	for (size_t i = 0; i < s->n_sorted; i++) {
		const struct node *n = s->sorted[i];

		s->view[i] = (struct room){.memory = n->memory > n->memory_used ? n->memory - n->memory_used : 0,
		                           .disk = n->disk > n->disk_used ? n->disk - n->disk_used : 0,
		                           .exclusive = n->exclusive,
		                           .gpus = n->free_gpus,
		                           .slots = n->free_slots,
		                           .holders = n->holders};
	}
}

void view_release(struct sched *s, const struct job *j)
{
	for (uint32_t i = 0; i < j->n_holds; i++)
		if (j->holds[i].node->known)
			room_change(&s->view[j->holds[i].node->at], &j->holds[i], j->id);
}

/* Too few nodes have as many GPUs and slots: that is seen sooner than that no placement exists. */
static int view_too_full(const struct sched *s, const struct shape *sh)
{
	for (uint32_t k = 0; k < sh->n_groups; k++) {
		const struct sched_group *g = &sh->groups[k];
		uint32_t nodes = 0;

		for (size_t i = 0; i < s->n_sorted && nodes < g->instances; i++)
			nodes += s->view[i].gpus >= g->gpus && s->view[i].slots >= g->ranks * g->cpus_per_rank;
		if (nodes < g->instances)
			return 1;
	}
	return 0;
}

static int view_fits(struct sched *s, const struct shape *sh, int32_t *assign)
{
	return !view_too_full(s, sh) && fit_gang(s, sh, FIT_VIEW, assign);
}

/* Is the head there with the first n of the ends? The view is left so. */
static int fits_after(struct sched *s, const struct shape *sh, const struct end *e, size_t n, int32_t *assign)
{
	view_now(s);
	for (size_t i = 0; i < n; i++)
		if (e[i].job)
			view_release(s, e[i].job);
	return view_fits(s, sh, assign);
}

/* The least number of ends with which it fits. More ends never make it fit less: by halving. */
static size_t by_halving(struct sched *s, const struct job *head, const struct end *e, size_t n,
                         int32_t *assign)
{
	size_t lo = 0;

	for (size_t hi = n; lo < hi;) {
		size_t mid = (lo + hi) / 2;

		if (fits_after(s, head->shape, e, mid, assign))
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

#define LOOKS 400

/* The same where nodes are booked: a place that is there at one time may be gone at a later one, so each time
 * is looked at, up to a bound. SIZE_MAX: not found within it. */
static size_t one_by_one(struct sched *s, const struct job *head, const struct end *e, size_t n,
                         int32_t *assign)
{
	unsigned looks = 0;

	view_now(s);
	for (size_t i = 0; i <= n; i++) {
		if (i && e[i - 1].job)
			view_release(s, e[i - 1].job);
		if (i && i < n && e[i].at == e[i - 1].at)
			continue;
		if (looks++ == LOOKS)
			break;
		book_try(s, head, i && e[i - 1].at > s->now_s ? e[i - 1].at : s->now_s);
		if (view_fits(s, head->shape, assign))
			return i;
	}
	book_try(s, NULL, 0);
	return SIZE_MAX;
}

static size_t booking_ends(const struct sched *s, struct end *e, size_t n)
{
	for (size_t i = 0; s->n_books && i < s->n_sorted; i++)
		for (uint32_t k = 0; k < s->sorted[i]->n_bookings; k++)
			if (s->sorted[i]->bookings[k].to_s > s->now_s)
				e[n++] = (struct end){s->sorted[i]->bookings[k].to_s, NULL};
	return n;
}

void shadow_make(struct sched *s, struct job *head)
{
	struct end *e = mem_alloc(s->n_running + s->n_books, sizeof *e);
	int32_t *assign = mem_alloc(s->n_sorted, sizeof *assign);
	size_t n = 0, lo = SIZE_MAX;

	s->view = mem_resize(s->view, s->n_sorted, sizeof *s->view);
	for (const struct job *j = s->running; j; j = j->next_running)
		e[n++] = (struct end){running_end(s, j), j};
	n = booking_ends(s, e, n);
	qsort(e, n, sizeof *e, by_end);
	if (s->n_books)
		lo = one_by_one(s, head, e, n, assign);
	if (lo == SIZE_MAX)
		lo = by_halving(s, head, e, n, assign);
	s->shadow_s = lo && lo <= n ? e[lo - 1].at : s->now_s;
	while (lo < n && e[lo].at <= s->shadow_s)
		lo++;
	if (!fits_after(s, head->shape, e, lo, assign))
		s->shadow_s = UINT64_MAX; /* not even when all have ended: it waits for nodes */
	s->head = head;
	s->era++;
	book_try(s, NULL, 0);
	free(assign);
	free(e);
}

void view_take(struct sched *s, const struct job *j, const int32_t *assign, int sign)
{
	for (size_t i = 0; i < s->n_sorted; i++) {
		const struct sched_group *g = assign[i] >= 0 ? &j->shape->groups[assign[i]] : NULL;
		struct room *r = &s->view[i];

		if (!g)
			continue;
		r->gpus -= (uint32_t)sign * g->gpus;
		r->slots -= (uint32_t)sign * g->ranks * g->cpus_per_rank;
		r->memory -= (uint64_t)sign * j->shape->memory;
		r->disk -= (uint64_t)sign * j->shape->disk;
		r->holders += (uint32_t)sign;
		if (j->shape->exclusive)
			r->exclusive = sign > 0 ? j->id : 0;
	}
}

int shadow_allows(struct sched *s, const struct job *j, const int32_t *assign)
{
	int32_t *beside;
	int fits;

	if (s->shadow_s == UINT64_MAX || believed_end(s, j) <= s->shadow_s)
		return 1;
	beside = mem_alloc(s->n_sorted, sizeof *beside);
	view_take(s, j, assign, 1);
	book_try(s, s->head, s->shadow_s);
	fits = fit_gang(s, s->head->shape, FIT_VIEW, beside);
	view_take(s, j, assign, -1);
	free(beside);
	return fits;
}

void shadow_took(struct sched *s, const struct job *j, const int32_t *assign)
{
	if (s->shadow_s != UINT64_MAX && believed_end(s, j) > s->shadow_s)
		view_take(s, j, assign, 1);
}

void view_lost(struct sched *s)
{
	s->head = NULL;
	s->look_input = 0; /* the next step begins a new look and a new era */
	s->era_gen = 0;
}

uint64_t sched_earliest(struct sched *s, uint64_t id)
{
	struct job *j;
	uint64_t at;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	if (!j || !j->is_waiting)
		return UINT64_MAX;
	shadow_make(s, j);
	at = s->shadow_s;
	view_lost(s);
	return at;
}
