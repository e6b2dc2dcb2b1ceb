/*
 * order: the policies that start jobs in the order of a fixed key: by arrival, by duration, by area (GPUs x
 * duration).
 *
 * A policy that blocks has one heap. One that skips has a heap for each size: of equal sizes only the first
 * can be the next, and a size that does not fit now is passed over as a whole.
 */
#include "scheduler/sim/sim_int.h"

static int policy_skips(enum sim_policy p)
{
	return p == SIM_FIFO_SKIP || p == SIM_SJF_SKIP || p == SIM_SAF_SKIP;
}

/* Follows S-412. */
static void order_arrive(struct sim *s, uint32_t job)
{
	const struct sim_job *j = &s->jobs[job];
	struct sim_key k = {.k = job, .row = j->row, .job = job};
	enum sim_policy p = s->conf->policy;

	if (p == SIM_SJF || p == SIM_SJF_SKIP)
		k.k = s->live[job].believed_s;
	else if (p == SIM_SAF || p == SIM_SAF_SKIP)
		k.k = s->live[job].believed_s * j->gpus;
	sim_heap_push(policy_skips(p) ? &s->classes[s->live[job].class_id].heap : &s->queue, k);
}

static void pass_skip(struct sim *s)
{
	for (;;) {
		struct sim_class *best = NULL;

		for (uint32_t i = 0; i < s->n_classes; i++) {
			struct sim_class *c = &s->classes[i];

			if (c->heap.n && (!best || sim_heap_before(&c->heap.v[0], &best->heap.v[0])) &&
			    flat_fits(&s->flat, c->gpus))
				best = c;
		}
		if (!best)
			return;
		sim_start(s, sim_heap_pop(&best->heap).job);
	}
}

/* Follows S-413. */
static void order_pass(struct sim *s, uint32_t first_new)
{
	(void)first_new;
	if (policy_skips(s->conf->policy)) {
		pass_skip(s);
		return;
	}
	while (s->queue.n && flat_fits(&s->flat, s->jobs[s->queue.v[0].job].gpus))
		sim_start(s, sim_heap_pop(&s->queue).job);
}

const struct sim_rule order_rule = {.arrive = order_arrive, .pass = order_pass};
