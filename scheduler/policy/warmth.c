/*
 * warmth: what a node is worth to a job because of warm pools. An instance takes parts of its owner's pools
 * first, then what belongs to no pool, then parts of others, those that were idle longest first. Where it
 * gets enough says how good the node is.
 */
#include "scheduler/policy/warmth.h"

#include "scheduler/model/model.h"
#include "scheduler/policy/gpu.h"

struct amount {
	uint64_t gpus, slots, memory, disk;
};

/* May the job use its pool there, as far as the pool's owner and wholeness count? */
static int is_open(const struct job *j, const struct shape *sh, const struct pool *of)
{
	if (sh->pool)
		return of->id == sh->pool && (!of->exclusive || of->n_parts == sh->instances) &&
		       (!j || of->owner == pool_owner_of(j));
	return of->owner == pool_owner_of(j) && (!of->exclusive || of->open);
}

enum warmth warmth_of_part(const struct job *j, const struct shape *sh, const struct pool_part *p)
{
	if (!is_open(j, sh, p->pool))
		return WARMTH_OTHERS;
	return sh->pool || pool_part_is_warm(p, j->warm) ? WARMTH_SAME : WARMTH_OWN;
}

static void add_part(struct amount *to, const struct shape *sh, const struct pool_part *p)
{
	for (uint32_t i = 0; i < p->n_gpus; i++) {
		const struct gpu *g = node_gpu(p->node, p->gpus[i]);

		to->gpus += (uint64_t)(g && gpu_fits(g, sh, 0));
	}
	to->slots += p->n_cpus;
	to->memory += p->memory;
	to->disk += p->disk;
}

static uint64_t at_least_0(uint64_t have, uint64_t minus)
{
	return have > minus ? have - minus : 0;
}

/* What is free there and belongs to no pool. */
static struct amount cold_room(const struct shape *sh, const struct node *n)
{
	struct amount parts = {0}, cold = {.slots = n->free_slots};

	for (const struct pool_part *p = n->parts; p; p = p->next_on_node)
		add_part(&parts, sh, p);
	for (uint32_t i = 0; i < n->n_gpus; i++)
		cold.gpus += (uint64_t)gpu_fits(&n->gpus[i], sh, 0);
	cold.gpus -= parts.gpus;
	cold.slots -= parts.slots;
	cold.memory = at_least_0(n->memory, n->memory_used + parts.memory);
	cold.disk = at_least_0(n->disk, n->disk_used + parts.disk);
	return cold;
}

static void add_amount(struct amount *to, const struct amount *more)
{
	to->gpus += more->gpus;
	to->slots += more->slots;
	to->memory += more->memory;
	to->disk += more->disk;
}

static int is_enough(const struct amount *have, const struct shape *sh, const struct sched_group *g)
{
	return have->gpus >= g->gpus && have->slots >= (uint64_t)g->ranks * g->cpus_per_rank &&
	       have->memory >= sh->memory && have->disk >= sh->disk;
}

/* Those of that kind, one by one, until it is enough. */
static int add_parts(struct amount *have, const struct job *j, const struct shape *sh, const struct node *n,
                     const struct sched_group *g, enum warmth of)
{
	for (const struct pool_part *p = n->parts; p; p = p->next_on_node) {
		if (warmth_of_part(j, sh, p) != of)
			continue;
		add_part(have, sh, p);
		if (is_enough(have, sh, g))
			return 1;
	}
	return 0;
}

/* The last that would give way: if the job wants the node for itself, or it belongs to a pool as a whole, or
 * even `have` is not enough. NULL: none. */
static const struct pool_part *find_last(struct amount have, const struct job *j, const struct shape *sh,
                                         const struct node *n, const struct sched_group *g)
{
	const struct pool_part *last = NULL;

	for (const struct pool_part *p = n->parts; p; p = p->next_on_node) {
		if (warmth_of_part(j, sh, p) != WARMTH_OTHERS)
			continue;
		if (!sh->exclusive && !p->pool->exclusive && is_enough(&have, sh, g))
			break;
		add_part(&have, sh, p);
		last = p;
	}
	return last;
}

static int has_own(const struct job *j, const struct shape *sh, const struct node *n)
{
	const struct pool_part *p = n->parts;

	while (p && warmth_of_part(j, sh, p) == WARMTH_OTHERS)
		p = p->next_on_node;
	return p != NULL;
}

/* Follows S-164 and S-165. */
enum warmth warmth_of(const struct job *j, const struct shape *sh, const struct node *n,
                      const struct sched_group *g, uint64_t *idle)
{
	struct amount have = {0}, all, cold;
	const struct pool_part *last;
	int same, own;

	*idle = 0;
	if (!n->parts)
		return WARMTH_COLD;
	same = add_parts(&have, j, sh, n, g, WARMTH_SAME);
	own = same || add_parts(&have, j, sh, n, g, WARMTH_OWN);
	cold = cold_room(sh, n);
	all = have;
	add_amount(&all, &cold);
	last = find_last(all, j, sh, n, g);
	if (last && (!own || sh->exclusive || last->pool->exclusive)) {
		*idle = last->pool->idle_since_s;
		return WARMTH_OTHERS;
	}
	return same ? WARMTH_SAME : own ? WARMTH_OWN : has_own(j, sh, n) ? WARMTH_PARTLY : WARMTH_COLD;
}

/* Follows S-169. */
int warmth_suffices(const struct job *j, const struct shape *sh, const struct node *n,
                    const struct sched_group *g)
{
	struct amount have = {0};

	return add_parts(&have, j, sh, n, g, WARMTH_SAME);
}

/* ---- exclusive pools ----------------------------------------------------------------------------- */

static struct pool *first_pool(const struct job *j)
{
	struct pool_owner *o = pool_owner_of(j);

	return o ? o->pools : NULL;
}

/* Follows S-167. */
int warmth_open(const struct job *j, const struct shape *sh)
{
	int open = 0;

	for (struct pool *p = first_pool(j); p; p = p->next_of_owner) {
		p->open = p->exclusive && p->n_parts <= sh->instances && (!sh->pool || sh->pool == p->id);
		open += p->open;
	}
	return open;
}

int warmth_close(const struct job *j, const int32_t *assign)
{
	int closed = 0;

	for (struct pool *p = first_pool(j); p; p = p->next_of_owner) {
		uint32_t used = 0;

		for (const struct pool_part *x = p->parts; x && p->open; x = x->next_of_pool)
			used += x->node->known && assign[x->node->at] >= 0;
		if (!p->open || !used || used == p->n_parts)
			continue;
		p->open = 0;
		closed++;
	}
	return closed;
}

void warmth_close_all(const struct job *j)
{
	for (struct pool *p = first_pool(j); p; p = p->next_of_owner)
		p->open = 0;
}

void warmth_settle(const struct job *j, const int32_t *assign)
{
	if (warmth_open(j, j->shape))
		warmth_close(j, assign);
}
