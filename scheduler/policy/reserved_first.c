/*
 * reserved_first: a job that a place was kept for keeps it until it starts.
 *
 * Shares change while a job waits for its place. Without this rule, other jobs that are before it then would
 * take the place each time. The job yields to jobs of higher priority while they want room, and has its place
 * again afterwards, so there may be one such job of each priority. A job that is not due yields to due jobs,
 * and the first of them that does not fit has the place from then on. A job that could not start even with
 * room makes nobody yield: its account is closed or full, the nodes are too small, or only a reservation bars
 * it.
 */
#include "scheduler/policy/reserved_first.h"

#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/order.h"
#include "scheduler/policy/shadow.h"

void reserved_first_forget(struct sched *s, struct job *j)
{
	struct job **p = &s->reserved_first;

	while (*p && *p != j)
		p = &(*p)->kept_below;
	if (*p)
		*p = j->kept_below;
	j->kept_below = NULL;
}

/* One of each priority, the highest first: who had it of that priority has lost it. Follows S-223. */
void reserved_first_remember(struct sched *s, struct job *j)
{
	struct job **p = &s->reserved_first;

	reserved_first_forget(s, j);
	while (*p && (*p)->priority > j->priority)
		p = &(*p)->kept_below;
	if (*p && (*p)->priority == j->priority)
		reserved_first_forget(s, *p);
	j->kept_below = *p;
	*p = j;
}

/* Would the nodes hold its first now, were none of them booked, and do they not as it is? */
static int check_barred(struct sched *s, struct lane *l, int32_t *assign)
{
	int out;

	if (!s->n_reservations || lane_is_barred(s, l))
		return s->n_reservations > 0;
	reservation_try(s, l->first, s->now_s);
	out = !fit_gang(s, l->shape, FIT_NOW, assign);
	reservation_try(s, NULL, 0);
	out = out && fit_gang(s, l->shape, FIT_NOW, assign);
	if (out)
		lane_bar(s, l);
	return out;
}

/* Does its first wait for room, and for nothing else? Only then does it hold back others. Follows S-225. */
static int wants_room(struct sched *s, struct lane *l, int32_t *assign)
{
	return !l->shape->pool && account_full(l->account, l->shape->gpus) != 2 &&
	       !fit_hopeless(s, l->shape, assign) && !check_barred(s, l, assign);
}

/* Of higher priority, or first of its own, or due, which the other is not. Follows S-224. */
static int goes_before(const struct sched *s, const struct job *a, const struct job *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->is_first || b->is_first)
		return a->is_first && !b->is_first;
	return order_due(s, a) && !order_due(s, b) && order_before(s, a, b);
}

/* Is one of these to be placed before it? */
static int must_yield(struct sched *s, const struct job *j, int32_t *assign)
{
	for (uint32_t i = 0; i < s->n_active; i++)
		if (goes_before(s, s->active[i]->first, j) && wants_room(s, s->active[i], assign))
			return 1;
	return 0;
}

/* Of those that ask for the same it is the one that is first now: to them the place is as good. NULL: a quota
 * is in its way. Follows S-222. */
static struct job *first_alike(struct sched *s, struct job *j, int32_t *assign)
{
	struct job *best = j;

	for (uint32_t i = 0; i < s->n_active; i++) {
		struct lane *l = s->active[i];

		if (l->shape == j->shape && order_before(s, l->first, best) && wants_room(s, l, assign))
			best = l->first;
	}
	return account_full(best->lane->account, best->shape->gpus) == 2 ? NULL : best;
}

/* Follows S-221. */
void reserved_first_keep(struct sched *s, int32_t *assign)
{
	struct job *below, *j;

	for (struct job *was = s->reserved_first; was && !s->head; was = below) {
		below = was->kept_below;
		if (must_yield(s, was, assign))
			return;
		j = first_alike(s, was, assign);
		if (!j)
			continue;
		if (j != was) {
			reserved_first_forget(s, was);
			reserved_first_remember(s, j);
		}
		shadow_make(s, j);
		if (s->shadow_s == UINT64_MAX) { /* now it waits for nodes, not for others */
			s->head = NULL;
			reserved_first_forget(s, j);
		}
	}
}
