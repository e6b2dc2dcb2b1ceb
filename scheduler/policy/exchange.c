/*
 * exchange: jobs that keep some of their places and wait for others instead of the rest.
 *
 * They come before all waiting jobs, because what they keep stands idle until they have the rest. Their
 * quotas are not asked: what they lack is owed to them. A gang that was promised a place may lose it to them.
 */
#include "scheduler/policy/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/warmth.h"

static uint32_t *ids_copy(const uint32_t *v, uint32_t n)
{
	uint32_t *out = mem_alloc((size_t)n + 1, sizeof(*out));

	if (n)
		memcpy(out, v, n * sizeof(*out));
	return out;
}

static struct sched_place place_of(const struct hold *h)
{
	return (struct sched_place){.node = h->node->id,
	                            .group = h->group,
	                            .gpus = ids_copy(h->gpus, h->n_gpus),
	                            .n_gpus = h->n_gpus,
	                            .cpus = ids_copy(h->cpus, h->n_cpus),
	                            .n_cpus = h->n_cpus,
	                            .pool = h->pool};
}

static void take_new(struct sched *s, struct job *j, const int32_t *assign)
{
	warmth_settle(j, assign, s->n_sorted);
	for (size_t i = 0; i < s->n_sorted; i++) {
		struct hold h;

		if (assign[i] < 0)
			continue;
		fit_choose(s->sorted[i], j, (uint32_t)assign[i], &h);
		h.node = s->sorted[i];
		hold_take(s, j, &h);
		free(h.gpus);
		free(h.cpus);
	}
}

/* Whatever was found out or promised since the last start may be wrong now. Follows S-154. */
static struct sched_decision *take_places(struct sched *s, struct job *j, const int32_t *assign)
{
	struct sched_decision *d = mem_alloc(1, sizeof(*d));

	exchange_end(s, j);
	take_new(s, j, assign);
	running_again(s, j);
	d->job = j->id;
	d->turn = SCHED_TURN_REPLACED;
	d->places = mem_alloc(j->shape->instances, sizeof(*d->places));
	for (uint32_t g = 0; g < j->shape->n_groups; g++)
		for (uint32_t i = 0; i < j->n_holds; i++)
			if (j->holds[i].group == g)
				d->places[d->n++] = place_of(&j->holds[i]);
	s->kept = NULL;
	s->gen++;
	s->input++;
	return d;
}

/* Follows S-153. */
static int kept_are_usable(const struct job *j)
{
	for (uint32_t i = 0; i < j->n_holds; i++)
		if (!node_takes_exchange(j->holds[i].node))
			return 0;
	return 1;
}

static int fits_now(struct sched *s, const struct job *j, int32_t *assign)
{
	int fits;

	reservation_try(s, j, s->now_s);
	fits = fit_rest(s, j, assign);
	reservation_try(s, NULL, 0);
	return fits;
}

/* Follows S-151. */
struct sched_decision *exchange_next(struct sched *s, int32_t *assign)
{
	for (struct exchange *x = s->exchanges; x; x = x->next) {
		if (x->tried_gen == s->gen && x->tried_s == s->now_s)
			continue;
		if (kept_are_usable(x->job) && fits_now(s, x->job, assign))
			return take_places(s, x->job, assign);
		x->tried_gen = s->gen;
		x->tried_s = s->now_s;
	}
	return NULL;
}
