/* heap: keys in order, the least at the top. */
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
		h->v = mem_resize(h->v, h->cap, sizeof(*h->v));
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
