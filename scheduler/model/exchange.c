/*
 * exchange: jobs that keep some of their places and wait for others instead of the rest.
 *
 * What such a job keeps is on its account like that of any running job. What it lacks is owed to it: it
 * counts for the quotas of its account, so that no other job of the account starts with it.
 */
#include "scheduler/model/exchange.h"

#include <stdlib.h>

#include "scheduler/model/model.h"

struct exchange *exchange_find(const struct sched *s, const struct job *j)
{
	struct exchange *x = j->is_exchanging ? s->exchanges : NULL;

	while (x && x->job != j)
		x = x->next;
	return x;
}

void exchange_owe(struct job *j, int sign)
{
	uint64_t gpus = j->shape->gpus;

	for (uint32_t i = 0; i < j->n_holds; i++)
		gpus -= j->holds[i].n_gpus;
	for (struct account *a = j->lane->account; a; a = a->parent)
		a->owed = sign > 0 ? a->owed + gpus : a->owed - gpus;
}

/* Follows S-155. */
struct exchange *exchange_link(struct sched *s, struct job *j, struct exchange *x)
{
	struct exchange **at = &s->exchanges;

	if (!x)
		x = mem_alloc(1, sizeof(*x));
	x->job = j;
	x->tried_gen = 0;
	while (*at && queue_before((*at)->job, j))
		at = &(*at)->next;
	x->next = *at;
	*at = x;
	j->is_exchanging = 1;
	exchange_owe(j, 1);
	return x;
}

struct exchange *exchange_unlink(struct sched *s, struct job *j)
{
	struct exchange *x, **at = &s->exchanges;

	if (!j->is_exchanging)
		return NULL;
	while ((*at)->job != j)
		at = &(*at)->next;
	x = *at;
	*at = x->next;
	exchange_owe(j, -1);
	j->is_exchanging = 0;
	return x;
}

void exchange_end(struct sched *s, struct job *j)
{
	struct exchange *x = exchange_unlink(s, j);

	if (!x)
		return;
	free(x->lost);
	free(x);
}

void exchange_lost(struct exchange *x, uint64_t node)
{
	for (uint32_t i = 0; i < x->n_lost; i++)
		if (x->lost[i] == node)
			return;
	x->lost = mem_resize(x->lost, x->n_lost + 1, sizeof(*x->lost));
	x->lost[x->n_lost++] = node;
}

uint32_t exchange_lacks(const struct job *j, uint32_t group)
{
	uint32_t n = j->shape->groups[group].instances;

	for (uint32_t i = 0; i < j->n_holds; i++)
		n -= j->holds[i].group == group;
	return n;
}
