/* view: what will be free on each node at a later time, kept as a change of what is free now. */
#include "scheduler/model/view.h"

#include <string.h>

#include "scheduler/model/model.h"

static uint32_t counted_as(uint32_t gpus)
{
	return gpus < MAX_FREE ? gpus : MAX_FREE;
}

/* sign 1: the hold is given back, -1: it is there again. */
static void room_change(struct sched *s, struct room *r, const struct hold *h, uint64_t job, int sign)
{
	s->view_free[counted_as(r->gpus)]--;
	r->gpus += (uint32_t)sign * h->n_gpus;
	s->view_free[counted_as(r->gpus)]++;
	r->slots += (uint32_t)sign * h->n_cpus;
	r->memory += (uint64_t)sign * h->memory;
	r->disk += (uint64_t)sign * h->disk;
	r->holders -= (uint32_t)sign;
	if (h->exclusive)
		r->exclusive = sign > 0 ? 0 : job;
}

void view_now(struct sched *s)
{
	memset(s->view_free, 0, sizeof(s->view_free));
	for (size_t i = 0; i < s->n_sorted; i++) {
		const struct node *n = s->sorted[i];

		s->view[i] = (struct room){.memory = n->memory > n->memory_used ? n->memory - n->memory_used : 0,
		                           .disk = n->disk > n->disk_used ? n->disk - n->disk_used : 0,
		                           .exclusive = n->exclusive,
		                           .gpus = n->free_gpus,
		                           .slots = n->free_slots,
		                           .holders = n->holders};
		s->view_free[counted_as(n->free_gpus)]++;
	}
}

void view_change(struct sched *s, const struct job *j, int sign)
{
	for (uint32_t i = 0; i < j->n_holds; i++)
		if (j->holds[i].node->known)
			room_change(s, &s->view[j->holds[i].node->at], &j->holds[i], j->id, sign);
}

void view_release(struct sched *s, const struct job *j)
{
	view_change(s, j, 1);
}

/* Too few nodes have as many GPUs: that is seen sooner than that no placement exists. */
int view_too_full(const struct sched *s, const struct shape *sh)
{
	for (uint32_t k = 0; k < sh->n_groups; k++) {
		const struct sched_group *g = &sh->groups[k];
		uint32_t nodes = 0;

		for (uint32_t i = counted_as(g->gpus); i <= MAX_FREE && nodes < g->instances; i++)
			nodes += s->view_free[i];
		if (nodes < g->instances)
			return 1;
	}
	return 0;
}

static void view_take_one(struct sched *s, const struct job *j, size_t at, uint32_t group, int sign)
{
	const struct sched_group *g = &j->shape->groups[group];
	struct room *r = &s->view[at];

	s->view_free[counted_as(r->gpus)]--;
	r->gpus -= (uint32_t)sign * g->gpus;
	s->view_free[counted_as(r->gpus)]++;
	r->slots -= (uint32_t)sign * g->ranks * g->cpus_per_rank;
	r->memory -= (uint64_t)sign * j->shape->memory;
	r->disk -= (uint64_t)sign * j->shape->disk;
	r->holders += (uint32_t)sign;
	if (j->shape->exclusive)
		r->exclusive = sign > 0 ? j->id : 0;
}

void view_take(struct sched *s, const struct job *j, const int32_t *assign, int sign)
{
	for (size_t i = 0; i < s->n_sorted; i++)
		if (assign[i] >= 0)
			view_take_one(s, j, i, (uint32_t)assign[i], sign);
}

void view_spots(struct sched *s, const struct job *j, const struct spot *spots, int sign)
{
	for (uint32_t i = 0; i < j->shape->instances; i++)
		view_take_one(s, j, spots[i].at, spots[i].group, sign);
}

void view_gave(struct sched *s, const struct job *j, const struct hold *h)
{
	if (!s->kept || s->kept_nodes != s->nodes_gen)
		return;
	if (h->node->known && j->end_s > s->shadow_s)
		room_change(s, &s->view[h->node->at], h, j->id, 1);
	if (!j->n_holds)
		s->kept_ends++;
}
