/*
 * preempt: which running jobs would have to stop so that a waiting one could start now, at the least cost.
 *
 * A victim is of lower priority, or of an account over its quota while the waiting job stays within its own;
 * and it is not firm. Its cost is the work since its last checkpoint and what a restart takes, times its
 * GPUs. Victims are taken in the order of cost a GPU until the gang fits, and then, dearest first, spared
 * again where it fits without their going.
 */
#include "scheduler/model.h"

struct candidate {
	struct job *job;
	uint64_t cost, lost; /* GPU-seconds; cost: with the restart */
	uint64_t gpus;
};

/* seconds, on all its GPUs */
static uint64_t gpu_s(const struct job *j, uint64_t seconds)
{
	uint64_t gpus = 0;

	for (uint32_t i = 0; i < j->n_holds; i++)
		gpus += j->holds[i].n_gpus;
	return seconds * (gpus ? gpus : 1);
}

/* Does it hold more than some quota above it, be it that it was lowered since or that nothing starts there
 * any more? */
static int over_quota(const struct account *a)
{
	for (; a; a = a->parent)
		if (a->quota && a->gpus > a->quota)
			return 1;
	return 0;
}

static int may_go(const struct sched *s, const struct job *j, const struct job *wants)
{
	(void)s;
	if (j->firm || !j->lane)
		return 0;
	if (j->priority < wants->priority)
		return 1;
	return over_quota(j->lane->account) && !account_full(wants->lane->account, wants->shape->gpus);
}

static int by_cost(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	double p = (double)x->cost / (double)(x->gpus ? x->gpus : 1),
	       q = (double)y->cost / (double)(y->gpus ? y->gpus : 1);

	if (p != q)
		return p < q ? -1 : 1;
	return x->job->id < y->job->id ? -1 : x->job->id > y->job->id;
}

static int fits_without(struct sched *s, const struct job *j, const struct candidate *c, size_t n,
                        int32_t *assign)
{
	view_now(s);
	for (size_t i = 0; i < n; i++)
		if (c[i].job)
			view_release(s, c[i].job);
	return fit_gang(s, j->shape, FIT_VIEW, assign);
}

/* Candidates without the ones that are not needed; how many are left. */
static size_t spare(struct sched *s, const struct job *j, struct candidate *c, size_t n, int32_t *assign)
{
	size_t kept = 0;

	for (size_t i = n; i-- > 0;) {
		struct job *was = c[i].job;

		c[i].job = NULL;
		if (!fits_without(s, j, c, n, assign))
			c[i].job = was;
	}
	for (size_t i = 0; i < n; i++)
		if (c[i].job)
			c[kept++] = c[i];
	return kept;
}

size_t sched_preempt(struct sched *s, uint64_t id, struct sched_victim *v, size_t max)
{
	struct candidate *c = mem_alloc(s->n_running, sizeof *c);
	int32_t *assign = mem_alloc(s->n_sorted, sizeof *assign);
	size_t n = 0, lo = 0, hi;
	struct shadow was;
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	for (struct job *r = s->running; j && j->is_waiting && r; r = r->next_running)
		if (may_go(s, r, j)) {
			c[n].job = r;
			c[n].lost = gpu_s(r, s->now_s - r->saved_s);
			c[n].cost = c[n].lost + gpu_s(r, r->restart_s);
			for (uint32_t i = 0; i < r->n_holds; i++)
				c[n].gpus += r->holds[i].n_gpus;
			n++;
		}
	qsort(c, n, sizeof *c, by_cost);
	was = shadow_aside(s);
	for (hi = n; lo < hi;) {
		size_t mid = (lo + hi) / 2;

		if (fits_without(s, j, c, mid, assign))
			hi = mid;
		else
			lo = mid + 1;
	}
	n = n && fits_without(s, j, c, lo, assign) ? spare(s, j, c, lo, assign) : 0;
	shadow_back(s, &was);
	if (n > max)
		n = 0;
	for (size_t i = 0; i < n; i++)
		v[i] = (struct sched_victim){c[i].job->id, c[i].lost};
	free(assign);
	free(c);
	return n;
}

void sched_checkpointed(struct sched *s, uint64_t id, uint64_t at_s, uint64_t restart_s)
{
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	if (!j || !j->is_running)
		return;
	j->saved_s = at_s < s->now_s ? at_s : s->now_s;
	j->restart_s = restart_s;
}
