/*
 * order: the policies that start jobs in the order of a fixed key: by arrival, by duration, by area (GPUs x
 * duration).
 *
 * A policy that blocks has one heap. One that skips has a heap for each size: of equal sizes only the first
 * can be the next, and a size that does not fit now is passed over as a whole.
 */
#include "scheduler/sim/sim_int.h"

int sim_heap_before(const struct sim_key *a, const struct sim_key *b)
{
	return a->k != b->k ? a->k < b->k : a->row < b->row;
}

void sim_heap_push(struct sim_heap *h, struct sim_key k)
{
	size_t i = h->n++;

	if (h->n > h->cap) {
		h->cap = h->cap ? h->cap * 2 : 64;
		h->v = mem_resize(h->v, h->cap, sizeof *h->v);
	}
	for (; i && sim_heap_before(&k, &h->v[(i - 1) / 2]); i = (i - 1) / 2)
		h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = k;
}

struct sim_key sim_heap_pop(struct sim_heap *h)
{
	struct sim_key top = h->v[0], last = h->v[--h->n];
	size_t i = 0, c;

	while ((c = 2 * i + 1) < h->n) {
		if (c + 1 < h->n && sim_heap_before(&h->v[c + 1], &h->v[c]))
			c++;
		if (!sim_heap_before(&h->v[c], &last))
			break;
		h->v[i] = h->v[c];
		i = c;
	}
	h->v[i] = last;
	return top;
}

static int skips(enum sim_policy p)
{
	return p == SIM_FIFO_SKIP || p == SIM_SJF_SKIP || p == SIM_SAF_SKIP;
}

/* Follows S-412. */
void order_arrive(struct sim *s, uint32_t job)
{
	const struct sim_job *j = &s->jobs[job];
	struct sim_key k = {.k = job, .row = j->row, .job = job};
	enum sim_policy p = s->conf->policy;

	if (p == SIM_SJF || p == SIM_SJF_SKIP)
		k.k = s->live[job].believed_s;
	else if (p == SIM_SAF || p == SIM_SAF_SKIP)
		k.k = s->live[job].believed_s * j->gpus;
	sim_heap_push(skips(p) ? &s->classes[s->live[job].class_id].heap : &s->queue, k);
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
void order_pass(struct sim *s)
{
	if (skips(s->conf->policy)) {
		pass_skip(s);
		return;
	}
	while (s->queue.n && flat_fits(&s->flat, s->jobs[s->queue.v[0].job].gpus))
		sim_start(s, sim_heap_pop(&s->queue).job);
}
