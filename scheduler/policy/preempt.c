/*
 * preempt: which running jobs would have to stop so that a waiting job could start now, at the least cost.
 *
 * A victim has lower priority, or it has no higher priority and its account holds more than its quota while
 * the waiting job stays within its own. Its cost is the work since its last checkpoint plus a restart, times
 * its GPUs. Victims are taken in the order of cost per GPU until the gang fits and its quota allows it. Then,
 * dearest first, a victim is spared if the gang fits without it. What an account holds within its quota is
 * safe from other accounts: each victim is deducted before the next is considered. A firm job is a victim
 * only for what its account holds beyond the quota when all jobs that are not firm have gone.
 */
#include "scheduler/sched.h"

#include <stdlib.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/shadow.h"

/* Those of a lower one go first. */
enum tier {
	TIER_FREELY, /* its own account has too much, or its priority is lower */
	TIER_ABOVE,  /* its account is within its quota, one above it is not */
	TIER_FIRM
};
struct candidate {
	struct job *job;
	enum tier tier;
	uint64_t cost, lost; /* GPU-seconds; cost: with the restart */
	uint64_t gpus;
};

/* seconds, on all its GPUs */
static uint64_t gpu_s(const struct candidate *c, uint64_t seconds)
{
	return seconds * (c->gpus ? c->gpus : 1);
}

static uint64_t gpus_of(const struct job *j)
{
	uint64_t gpus = 0;

	for (uint32_t i = 0; i < j->n_holds; i++)
		gpus += j->holds[i].n_gpus;
	return gpus;
}

static void account_deduct(struct account *a, uint64_t gpus)
{
	for (; a; a = a->parent)
		a->gpus -= gpus;
}

static void account_restore(struct account *a, uint64_t gpus)
{
	for (; a; a = a->parent)
		a->gpus += gpus;
}

/* The accounts of a running job that the waiting one is not below. */
struct side {
	int accounts, quotas; /* how many; so many of them have a quota */
	int highest_over;     /* of these the highest holds more than it, be it that it was lowered since */
	int all_over;
};

/* Follows S-306. */
static struct side side_of(const struct account *a, const struct account *wants)
{
	struct side x = {.all_over = 1};

	for (; a && !account_below(wants, a); a = a->parent) {
		x.accounts++;
		if (!a->quota)
			continue;
		x.quotas++;
		x.highest_over = a->gpus > a->quota;
		x.all_over &= x.highest_over;
	}
	return x;
}

/* Does the waiting job stay within the quotas that are its own and not the running one's, too? */
static int is_within(const struct job *wants, const struct job *j)
{
	const struct account *a = wants->lane->account;
	uint64_t gpus = wants->shape->gpus;

	for (; a && !account_below(j->lane->account, a); a = a->parent)
		if (a->quota && gpus && a->gpus + gpus > a->quota)
			return 0;
	return 1;
}

/* May it go, as things are now? Follows S-304, S-305, S-308 and S-310. */
static int may_go(const struct job *j, const struct job *wants, enum tier *tier)
{
	const struct side x = side_of(j->lane->account, wants->lane->account);
	int lower = j->priority < wants->priority && !j->firm;
	int gives = gpus_of(j) && wants->shape->gpus; /* quotas are of GPUs */

	*tier = j->firm ? TIER_FIRM : x.quotas && !x.all_over && !lower ? TIER_ABOVE : TIER_FREELY;
	if (is_within(wants, j)) /* of who goes before it in the order it would get nothing */
		return lower || (gives && x.highest_over && j->priority <= wants->priority);
	return lower && (!x.accounts || x.highest_over);
}

/* Follows S-312. */
static int by_cost(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	double p = (double)x->cost / (double)(x->gpus ? x->gpus : 1),
	       q = (double)y->cost / (double)(y->gpus ? y->gpus : 1);

	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	if (p != q)
		return p < q ? -1 : 1;
	return x->job->id < y->job->id ? -1 : x->job->id > y->job->id;
}

/* All that may go by themselves, in order. Follows S-311. */
static size_t collect_candidates(const struct sched *s, const struct job *j, struct candidate *c)
{
	size_t n = 0;

	for (struct job *r = s->running; r; r = r->next_running) {
		if (!r->lane || r->is_exchanging || !may_go(r, j, &c[n].tier))
			continue;
		c[n].job = r;
		c[n].gpus = gpus_of(r);
		c[n].lost = gpu_s(&c[n], s->now_s - r->saved_s);
		c[n].cost = c[n].lost + gpu_s(&c[n], r->restart_s);
		n++;
	}
	qsort(c, n, sizeof(*c), by_cost);
	return n;
}

/* Of these, who may go when those before it have gone. Follows S-307. */
static size_t one_after_the_other(const struct job *j, struct candidate *c, size_t n)
{
	size_t kept = 0;
	enum tier tier;

	for (size_t i = 0; i < n; i++)
		if (may_go(c[i].job, j, &tier)) {
			account_deduct(c[i].job->lane->account, c[i].gpus);
			c[kept++] = c[i];
		}
	for (size_t i = 0; i < kept; i++)
		account_restore(c[i].job->lane->account, c[i].gpus);
	return kept;
}

/* Follows S-309. */
static int fits_without(struct sched *s, const struct job *j, const struct candidate *c, size_t n,
                        int32_t *assign)
{
	int full;

	view_now(s);
	for (size_t i = 0; i < n; i++)
		if (c[i].job) {
			view_release(s, c[i].job);
			account_deduct(c[i].job->lane->account, c[i].gpus);
		}
	full = account_full(j->lane->account, j->shape->gpus);
	for (size_t i = 0; i < n; i++)
		if (c[i].job)
			account_restore(c[i].job->lane->account, c[i].gpus);
	return full != 2 && fit_gang(s, j->shape, FIT_VIEW, assign);
}

/* Candidates without the ones that are not needed; how many are left. Follows S-313. */
static size_t spare_unneeded(struct sched *s, const struct job *j, struct candidate *c, size_t n,
                             int32_t *assign)
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
	struct candidate *c = mem_alloc(s->n_running, sizeof(*c));
	int32_t *assign = mem_alloc(s->n_sorted, sizeof(*assign));
	size_t n = 0, lo = 0, hi;
	struct shadow was;
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	if (j && j->is_waiting && !j->shape->pool)
		n = one_after_the_other(j, c, collect_candidates(s, j, c));
	was = shadow_aside(s);
	for (hi = n; lo < hi;) {
		size_t mid = (lo + hi) / 2;

		if (fits_without(s, j, c, mid, assign))
			hi = mid;
		else
			lo = mid + 1;
	}
	n = n && fits_without(s, j, c, lo, assign) ? spare_unneeded(s, j, c, lo, assign) : 0;
	shadow_back(s, &was);
	if (n > max)
		n = 0;
	for (size_t i = 0; i < n; i++)
		v[i] = (struct sched_victim){c[i].job->id, c[i].lost};
	free(assign);
	free(c);
	return n;
}
