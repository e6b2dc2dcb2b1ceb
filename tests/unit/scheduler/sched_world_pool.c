/* sched_world_pool: the warm pools of a world: they are made and used, and what is reported is compared. */
#include <stdlib.h>

#include "tests/unit/scheduler/sched_world.h"

const char *world_warm(int warm)
{
	static const char *const keys[] = {NULL, "e1", "e2"};

	return keys[warm];
}

static uint32_t bits_of(unsigned mask, uint32_t *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; mask >> i; i++)
		if (mask >> i & 1)
			out[n++] = i;
	return n;
}

/* The library has it as it is in p. */
void world_pool_set(struct world *o, int pool, const struct slow_pool *p)
{
	static const char *const owners[] = {"@u", "@v"};
	struct sched_pool_part parts[SLOW_NODES];
	uint32_t gpus[SLOW_NODES][32], cpus[SLOW_NODES][32];

	for (unsigned k = 0; k < p->n_parts; k++)
		parts[k] = (struct sched_pool_part){.node = (uint64_t)p->parts[k].node + 1,
		                                    .n_gpus = bits_of(p->parts[k].gpu_mask, gpus[k]),
		                                    .gpus = gpus[k],
		                                    .n_cpus = bits_of(p->parts[k].slot_mask, cpus[k]),
		                                    .cpus = cpus[k],
		                                    .memory_bytes = p->parts[k].memory};
	sched_pool_set(o->s, &(struct sched_pool){.id = (uint64_t)(SLOW_POOL_ID + pool),
	                                          .owner = owners[p->owner],
	                                          .warm = world_warm(p->warm),
	                                          .exclusive = p->exclusive,
	                                          .idle_since_s = p->idle_s,
	                                          .parts = parts,
	                                          .n_parts = p->n_parts});
	slow_pool_set(&o->w, pool, p);
}

/* A pool with most of the nodes on which it is. */
struct slow_pool world_pool_of(const struct world *o, unsigned id, uint32_t (*rnd)(uint32_t))
{
	const struct slow_job *j = &o->w.jobs[id];
	struct slow_pool p = {.warm = j->warm, .idle_s = o->w.now_s};

	p.owner = slow_owner(j);
	p.exclusive = o->w.shapes[j->shape].exclusive;
	for (unsigned k = 0; k < j->n_holds; k++)
		if (rnd(8))
			p.parts[p.n_parts++] = (struct slow_part){j->holds[k].node, j->holds[k].gpu_mask,
			                                          j->holds[k].slot_mask, o->w.shapes[j->shape].memory};
	return p;
}

/* Whatever the nodes have; some of it is not free. */
static struct slow_pool any_pool(const struct world *o, uint32_t (*rnd)(uint32_t))
{
	struct slow_pool p = {.owner = (int)rnd(2), .warm = (int)rnd(3), .exclusive = !rnd(3)};

	p.idle_s = o->w.now_s - rnd(100);
	for (int n = 0; n < SLOW_NODES; n++)
		if (rnd(2))
			p.parts[p.n_parts++] = (struct slow_part){
			    n, rnd(1u << o->w.nodes[n].gpus), 1 + rnd((1u << o->w.nodes[n].slots) - 1), rnd(2) * rnd(20)};
	return p;
}

void world_pool_random(struct world *o, uint32_t (*rnd)(uint32_t))
{
	int pool = (int)rnd(SLOW_POOLS);
	struct slow_pool p = o->w.pools[pool];

	if (rnd(3) == 0) {
		sched_pool_remove(o->s, (uint64_t)(SLOW_POOL_ID + pool));
		slow_pool_remove(&o->w, pool);
		return;
	}
	if (p.n_parts && rnd(2))
		p.n_parts -= rnd(2);
	else
		p = any_pool(o, rnd);
	world_pool_set(o, pool, &p);
}

static int by_node(const void *a, const void *b)
{
	const struct slow_hold *x = a, *y = b;

	return x->node - y->node;
}

/* A job that replaces places gets the new ones by node. */
void world_pools_take(struct world *o, const struct sched_decision *d, unsigned first, const int *place)
{
	struct slow_job *j = &o->w.jobs[d->job];
	struct slow_look l = {.w = &o->w, .job = j, .sh = &o->w.shapes[j->shape], .need = j->n_holds - first};

	l.open = slow_pools_open(&o->w, j, place, slow_pools_whole(&o->w, j, l.sh->instances));
	(void)slow_pools_turns(&l);
	if (j->state == SLOW_REPLACES)
		qsort(j->holds + first, j->n_holds - first, sizeof(j->holds[0]), by_node);
	for (unsigned k = first; k < j->n_holds; k++) {
		const struct slow_hold *h = &j->holds[k];
		uint32_t i = 0;
		int uses;

		while (i + 1 < d->n && d->places[i].node != (uint64_t)h->node + 1)
			i++;
		if (!slow_hold_is_right(&l, h))
			world_wrong(o, "other GPUs or slots than by the rules for pools");
		uses = slow_pools_give_way(&o->w, &l, (unsigned)d->job, h);
		if (d->places[i].pool != (uses < 0 ? 0 : (uint64_t)(SLOW_POOL_ID + uses)))
			world_wrong(o, "it uses another pool");
		o->warm += uses >= 0;
	}
}

void world_pools_compare(struct world *o)
{
	struct sched_pool_lost got;
	unsigned n = 0;

	while (sched_pool_lost(o->s, &got)) {
		const struct slow_lost *l = &o->w.lost[n];

		if (n++ == o->w.n_lost || got.pool != (uint64_t)(SLOW_POOL_ID + l->pool) ||
		    got.node != (uint64_t)l->node + 1 || got.job != l->job || got.taken != l->taken) {
			world_wrong(o, "another part of a pool is lost");
			break;
		}
		o->gave_way += got.job && !got.taken;
	}
	if (n != o->w.n_lost)
		world_wrong(o, "not all parts of pools that are lost are reported");
	o->w.n_lost = 0;
}
