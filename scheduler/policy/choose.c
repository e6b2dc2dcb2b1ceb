/*
 * choose: which GPUs and slots of a node an instance gets: those of the part of a warm pool that it uses.
 * Without one it gets what belongs to no pool, then parts that give way, the one that was idle longest first.
 * What is left over of the last of these is near each other.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/gpu.h"
#include "scheduler/policy/warmth.h"

struct source { /* where GPUs and slots are taken from */
	const struct node *n;
	const struct shape *sh;
	const struct pool_part *part; /* only from that; NULL: from what belongs to no part */
};

static inline int gpu_in(const struct source *of, const struct gpu *g)
{
	if (!gpu_fits(g, of->sh, 0))
		return 0;
	if (of->part)
		return pool_part_has(of->part, g->g.index);
	for (const struct pool_part *p = of->n->parts; p; p = p->next_on_node)
		if (pool_part_has(p, g->g.index))
			return 0;
	return 1;
}

static int slot_in(const struct source *of, uint32_t slot)
{
	if (of->n->slot_owner[slot])
		return 0;
	if (of->part)
		return pool_part_has_slot(of->part, slot);
	for (const struct pool_part *p = of->n->parts; p; p = p->next_on_node)
		if (pool_part_has_slot(p, slot))
			return 0;
	return 1;
}

/* GPUs that are linked with each other, when one link group has enough: the smallest such group, to leave
 * large ones whole. Follows S-115. */
static uint32_t best_link_group(const struct source *of, uint32_t want)
{
	const struct node *n = of->n;
	uint32_t best = 0, best_free = UINT32_MAX;

	for (uint32_t i = 0; i < n->n_gpus; i++) {
		uint32_t group = n->gpus[i].g.link_group, have = 0;

		for (uint32_t k = 0; group && k < n->n_gpus; k++)
			have += (uint32_t)(n->gpus[k].g.link_group == group && gpu_in(of, &n->gpus[k]));
		if (have >= want && have < best_free) {
			best = group;
			best_free = have;
		}
	}
	return best;
}

/* The socket that has enough free GPUs (of that link group), and the fewest of these; else the one with the
 * most. Follows S-116. */
static uint32_t best_numa(const struct source *of, uint32_t link, uint32_t want)
{
	const struct node *n = of->n;
	uint32_t best = 0, best_free = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++) {
		uint32_t have = 0, numa = n->gpus[i].g.numa;

		for (uint32_t k = 0; k < n->n_gpus; k++)
			have += (uint32_t)(n->gpus[k].g.numa == numa && gpu_in(of, &n->gpus[k]) &&
			                   (!link || n->gpus[k].g.link_group == link));
		if (!best_free || (best_free < want ? have > best_free : have >= want && have < best_free)) {
			best = numa;
			best_free = have;
		}
	}
	return best;
}

/* As many as are there of those that are lacking. Follows S-117. */
static void take_gpus(const struct source *of, uint32_t all, struct hold *out)
{
	const struct node *n = of->n;
	uint32_t want = n->parts ? 0 : all, link, numa, end;

	for (uint32_t i = 0; n->parts && i < n->n_gpus && out->n_gpus + want < all; i++)
		want += (uint32_t)gpu_in(of, &n->gpus[i]);
	if (!want)
		return;
	link = want > 1 ? best_link_group(of, want) : 0;
	numa = best_numa(of, link, want);
	end = out->n_gpus + want;
	for (int other = 0; other < 2; other++) /* neighbours first, then what is left */
		for (uint32_t i = 0; i < n->n_gpus && out->n_gpus < end; i++)
			if (gpu_in(of, &n->gpus[i]) && (!link || n->gpus[i].g.link_group == link) &&
			    (n->gpus[i].g.numa == numa) != other)
				out->gpus[out->n_gpus++] = n->gpus[i].g.index;
}

static void take_slots(const struct source *of, uint32_t all, struct hold *out)
{
	for (uint32_t i = 0; i < of->n->slots && out->n_cpus < all; i++)
		if (slot_in(of, i))
			out->cpus[out->n_cpus++] = i;
}

static void take_from(const struct source *of, const struct sched_group *g, struct hold *out)
{
	take_gpus(of, g->gpus, out);
	take_slots(of, g->ranks * g->cpus_per_rank, out);
}

/* From these that give way. */
static void take_parts(struct source *of, const struct sched_group *g, struct hold *out)
{
	for (const struct pool_part *p = of->n->parts; p; p = p->next_on_node) {
		of->part = p;
		take_from(of, g, out);
	}
}

/* Follows S-117 and S-164. */
void fit_choose(const struct node *n, const struct job *j, uint32_t group, struct hold *out)
{
	const struct shape *sh = j->shape;
	const struct sched_group *g = &sh->groups[group];
	struct source of = {.n = n, .sh = sh};

	memset(out, 0, sizeof(*out));
	out->group = group;
	out->memory = sh->memory;
	out->disk = sh->disk;
	out->exclusive = sh->exclusive;
	out->gpus = mem_alloc(g->gpus + 1, sizeof(*out->gpus));
	out->cpus = mem_alloc((size_t)g->ranks * g->cpus_per_rank + 1, sizeof(*out->cpus));
	of.part = n->parts ? warmth_part(j, sh, n, g) : NULL;
	out->pool = of.part ? of.part->pool->id : 0;
	take_from(&of, g, out);
	if (!of.part)
		take_parts(&of, g, out);
}
