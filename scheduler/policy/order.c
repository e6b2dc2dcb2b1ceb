/* order: which of two waiting jobs a pass looks at first. */
#include "scheduler/policy/order.h"

#include <stdlib.h>

#include "scheduler/model/model.h"

/* Follows S-243 and S-244. */
int order_due(const struct sched *s, const struct job *j)
{
	return s->policy.starve_s && j->submit_s <= s->now_s && s->now_s - j->submit_s >= s->policy.starve_s;
}

/* Priority; first; within quota; due; fair share; age. Follows S-201. */
int order_bid_before(const struct sched *s, const struct bid *a, const struct bid *b)
{
	int c;

	if (a->job->priority != b->job->priority)
		return a->job->priority > b->job->priority;
	if (a->job->is_first || b->job->is_first)
		return queue_before(a->job, b->job);
	if (a->borrows != b->borrows)
		return !a->borrows;
	if (a->due != b->due)
		return a->due;
	if (s->policy.fair && !a->due) {
		c = account_before(s, a->lane->account, b->lane->account);
		if (c)
			return c < 0;
	}
	return queue_before(a->job, b->job);
}

struct bid order_bid(const struct sched *s, const struct job *j)
{
	struct bid b = {.lane = j->lane};

	b.job = (struct job *)(uintptr_t)j;
	b.due = order_due(s, j);
	b.borrows = account_full(j->lane->account, j->shape->gpus) == 1;
	return b;
}

int order_before(const struct sched *s, const struct job *a, const struct job *b)
{
	struct bid x = order_bid(s, a), y = order_bid(s, b);

	return order_bid_before(s, &x, &y);
}

size_t sched_waiting(const struct sched *s, uint64_t *ids, size_t max)
{
	uint32_t *taken = mem_alloc(s->n_active, sizeof(*taken)); /* of each lane */
	size_t n = 0;

	while (n < max) {
		const struct job *best = NULL;
		uint32_t of = 0;

		for (uint32_t k = 0; k < s->n_active; k++) {
			const struct job *j = queue_at(s->active[k], taken[k]);

			if (j && (!best || order_before(s, j, best))) {
				best = j;
				of = k;
			}
		}
		if (!best)
			break;
		taken[of]++;
		ids[n++] = best->id;
	}
	free(taken);
	return n;
}
