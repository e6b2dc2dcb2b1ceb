/*
 * sched_slow_stop: which jobs would have to stop so that a waiting one can start, as obvious as it can be:
 * the world is copied, and jobs are taken out of the copy one by one.
 */
#include <stdlib.h>

#include "tests/unit/scheduler/sched_slow.h"

struct offer {
	unsigned id;
	int tier; /* 0; 1 its account is within its quota, one above it is not; 2 firm */
	double each;
};

static unsigned gpus_of(const struct slow_job *j)
{
	unsigned gpus = 0;

	for (unsigned k = 0; k < j->n_holds; k++)
		gpus += (unsigned)__builtin_popcount(j->holds[k].gpu_mask);
	return gpus;
}

static int full(const struct slow *w, unsigned id)
{
	return slow_full(w, w->jobs[id].account, w->shapes[w->jobs[id].shape].gpus);
}

/* May it be stopped for the other, as things are in w? -1 no, else its tier. */
static int tier_of(const struct slow *w, unsigned id, unsigned wants)
{
	const struct slow_job *j = &w->jobs[id];
	int lower = j->priority < w->jobs[wants].priority && !j->firm, accounts = 0, quotas = 0, under = 0,
	    top_over = 0, within = 1;
	unsigned gpus = w->shapes[w->jobs[wants].shape].gpus;

	for (int a = w->jobs[wants].account; a >= 0; a = w->accounts[a].parent)
		if (!slow_below(w, j->account, a) && w->accounts[a].quota && gpus &&
		    slow_held(w, a) + gpus > w->accounts[a].quota)
			within = 0;
	for (int a = j->account; a >= 0; a = w->accounts[a].parent) {
		const struct slow_account *x = &w->accounts[a];

		if (slow_below(w, w->jobs[wants].account, a))
			continue;
		accounts++;
		if (!x->quota)
			continue;
		quotas++;
		top_over = slow_held(w, a) > x->quota;
		under += !top_over;
	}
	top_over &= !within || (gpus_of(j) && gpus && j->priority <= w->jobs[wants].priority);
	if (within ? !lower && !top_over : !lower || (accounts && !top_over))
		return -1;
	return j->firm ? 2 : under && !lower ? 1 : 0;
}

static int by_worth(const void *a, const void *b)
{
	const struct offer *x = a, *y = b;

	if (x->tier != y->tier)
		return x->tier - y->tier;
	if (x->each != y->each)
		return x->each < y->each ? -1 : 1;
	return x->id < y->id ? -1 : 1;
}

static int goes_without(const struct slow *w, unsigned id, const unsigned *gone, size_t n)
{
	struct slow *copy = malloc(sizeof(*copy));
	int ok;

	*copy = *w;
	for (size_t i = 0; i < n; i++)
		copy->jobs[gone[i]].n_holds = 0;
	ok = full(copy, id) != 2 && slow_fits_without(w, id, gone, n);
	free(copy);
	return ok;
}

size_t slow_victims(const struct slow *w, unsigned id, unsigned out[SLOW_JOBS])
{
	struct slow *copy = malloc(sizeof(*copy));
	struct offer offers[SLOW_JOBS];
	size_t n = 0, taken = 0, need = 0;

	if (w->shapes[w->jobs[id].shape].pool) {
		free(copy);
		return 0; /* it waits for its pool */
	}

	*copy = *w;
	for (unsigned x = 1; x <= w->n_jobs; x++) {
		const struct slow_job *j = &w->jobs[x];
		int tier = j->state == SLOW_RUNS ? tier_of(w, x, id) : -1;
		unsigned gpus = gpus_of(j);

		if (tier >= 0) /* the cost over the GPUs; of one without any, its time alone */
			offers[n++] = (struct offer){x, tier,
			                             (double)(w->now_s - j->saved_s + j->restart_s) * (gpus ? gpus : 1) /
			                                 (gpus ? gpus : 1)};
	}
	qsort(offers, n, sizeof(*offers), by_worth);
	for (size_t i = 0; i < n; i++) {
		if (tier_of(copy, offers[i].id, id) < 0)
			continue;
		out[taken++] = offers[i].id;
		copy->jobs[offers[i].id].n_holds = 0;
	}
	free(copy);
	while (need < taken && !goes_without(w, id, out, need))
		need++;
	if (!goes_without(w, id, out, need))
		return 0;
	for (size_t i = need; i-- > 0;) { /* dearest first */
		unsigned rest[SLOW_JOBS];
		size_t k = 0;

		for (size_t m = 0; m < need; m++)
			if (m != i)
				rest[k++] = out[m];
		if (!goes_without(w, id, rest, k))
			continue;
		for (size_t m = 0; m < k; m++)
			out[m] = rest[m];
		need = k;
	}
	return need;
}
