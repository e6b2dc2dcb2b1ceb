/*
 * warmth: what a node is worth to a job because of warm pools. An instance uses one part that holds all it
 * needs, if the part is for it; else it takes what belongs to no pool, then parts that give way, those that
 * were idle longest first. Which of these it is says how good the node is.
 */
#include "scheduler/policy/warmth.h"

#include <stdlib.h>

#include "scheduler/base/mem.h"
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

static uint64_t slots_of(const struct sched_group *g)
{
	return (uint64_t)g->ranks * g->cpus_per_rank;
}

static int is_enough(const struct amount *have, const struct shape *sh, const struct sched_group *g)
{
	return have->gpus >= g->gpus && have->slots >= slots_of(g) && have->memory >= sh->memory &&
	       have->disk >= sh->disk;
}

/* Nothing of it is lost to others: all its GPUs, or slots where it has no GPUs. */
static int is_filled(const struct pool_part *p, const struct sched_group *g)
{
	return p->n_gpus ? p->n_gpus == g->gpus : p->n_cpus == slots_of(g);
}

/* WARMTH_SAME or _OWN: it may use the part. Follows S-164. */
static enum warmth warmth_of_part(const struct job *j, const struct shape *sh, const struct pool_part *p,
                                  const struct sched_group *g)
{
	struct amount have = {0};

	if (!is_open(j, sh, p->pool))
		return WARMTH_OTHERS;
	add_part(&have, sh, p);
	if (!is_enough(&have, sh, g))
		return WARMTH_OTHERS;
	if (sh->pool || pool_part_is_warm(p, j->warm))
		return WARMTH_SAME;
	return j->keeps || is_filled(p, g) ? WARMTH_OWN : WARMTH_OTHERS;
}

static const struct pool_part *find_part(const struct job *j, const struct shape *sh, const struct node *n,
                                         const struct sched_group *g, enum warmth *warmth)
{
	const struct pool_part *best = NULL;

	*warmth = WARMTH_OTHERS;
	for (const struct pool_part *p = n->parts; p; p = p->next_on_node) {
		enum warmth of = warmth_of_part(j, sh, p, g);

		if (of == WARMTH_OTHERS || of > *warmth || (of == *warmth && best->pool->turn < p->pool->turn))
			continue;
		best = p;
		*warmth = of;
	}
	return best;
}

const struct pool_part *warmth_part(const struct job *j, const struct shape *sh, const struct node *n,
                                    const struct sched_group *g)
{
	enum warmth warmth;

	return find_part(j, sh, n, g, &warmth);
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

/* The last that would give way, besides the one that it uses: if the job wants the node for itself, or it
 * belongs to a pool as a whole, or even `have` is not enough. NULL: none. */
static const struct pool_part *find_last(struct amount have, const struct pool_part *uses,
                                         const struct shape *sh, const struct node *n,
                                         const struct sched_group *g)
{
	const struct pool_part *last = NULL;

	for (const struct pool_part *p = n->parts; p; p = p->next_on_node) {
		if (p == uses)
			continue;
		if (!sh->exclusive && !p->pool->exclusive && is_enough(&have, sh, g))
			break;
		add_part(&have, sh, p);
		last = p;
	}
	return last;
}

/* Follows S-164 and S-165. */
enum warmth warmth_of(const struct job *j, const struct shape *sh, const struct node *n,
                      const struct sched_group *g, uint64_t *order)
{
	const struct pool_part *uses, *last;
	struct amount have = {0};
	enum warmth warmth;

	*order = 0;
	if (!n->parts)
		return WARMTH_COLD;
	uses = find_part(j, sh, n, g, &warmth);
	if (uses)
		add_part(&have, sh, uses);
	else
		have = cold_room(sh, n);
	last = find_last(have, uses, sh, n, g);
	if (last) {
		*order = last->pool->idle_since_s;
		return WARMTH_OTHERS;
	}
	if (!uses)
		return WARMTH_COLD;
	*order = uses->pool->turn;
	return warmth;
}

/* Follows S-169. */
int warmth_suffices(const struct job *j, const struct shape *sh, const struct node *n,
                    const struct sched_group *g)
{
	for (const struct pool_part *p = n->parts; p; p = p->next_on_node)
		if (p->pool->id == sh->pool && warmth_of_part(j, sh, p, g) == WARMTH_SAME)
			return 1;
	return 0;
}

/* ---- several pools of one owner ------------------------------------------------------------------ */

static struct pool *first_pool(const struct job *j)
{
	struct pool_owner *o = pool_owner_of(j);

	return o ? o->pools : NULL;
}

/* Some instance of the job could use it, as far as the node's health is known. */
static int is_suitable(const struct job *j, const struct shape *sh, const struct pool_part *p)
{
	if (!p->node->usable || p->node->doubt)
		return 0;
	for (uint32_t g = 0; g < sh->n_groups; g++)
		if (warmth_of_part(j, sh, p, &sh->groups[g]) != WARMTH_OTHERS)
			return 1;
	return 0;
}

static void look_at_pool(const struct job *j, const struct shape *sh, struct pool *p, uint32_t instances)
{
	p->n_suit = 0;
	for (const struct pool_part *x = p->parts; x; x = x->next_of_pool)
		p->n_suit += (uint32_t)is_suitable(j, sh, x);
	p->is_same = p->n_suit && pool_part_is_warm(p->parts, j->warm);
	p->is_enough = p->n_suit >= instances;
}

static struct amount whole_of(const struct pool *p)
{
	struct amount all = {0};

	for (const struct pool_part *x = p->parts; x; x = x->next_of_pool) {
		all.gpus += x->n_gpus;
		all.slots += x->n_cpus;
	}
	return all;
}

/* Follows S-173. */
static int by_turn(const void *a, const void *b)
{
	const struct pool *x = *(struct pool *const *)a, *y = *(struct pool *const *)b;

	if (x->is_same != y->is_same)
		return x->is_same ? -1 : 1;
	if (x->is_enough != y->is_enough)
		return x->is_enough ? -1 : 1;
	if (!x->is_enough && x->n_suit != y->n_suit)
		return x->n_suit > y->n_suit ? -1 : 1;
	if (x->is_enough && x->n_parts != y->n_parts)
		return x->n_parts < y->n_parts ? -1 : 1;
	if (x->is_enough) {
		struct amount p = whole_of(x), q = whole_of(y);

		if (p.gpus != q.gpus)
			return p.gpus < q.gpus ? -1 : 1;
		if (p.slots != q.slots)
			return p.slots < q.slots ? -1 : 1;
	}
	return pool_idle_longer(x, y) ? -1 : 1;
}

int warmth_order(const struct job *j, const struct shape *sh, uint32_t instances)
{
	struct pool *first = first_pool(j), **v;
	uint32_t n = 0;
	int enough;

	if (!first || !first->next_of_owner) {
		if (first)
			first->turn = 0;
		return 0;
	}
	for (struct pool *p = first; p; p = p->next_of_owner, n++)
		look_at_pool(j, sh, p, instances);
	v = mem_alloc(n, sizeof(v[0]));
	n = 0;
	for (struct pool *p = first; p; p = p->next_of_owner)
		v[n++] = p;
	qsort(v, n, sizeof(v[0]), by_turn);
	for (uint32_t i = 0; i < n; i++)
		v[i]->turn = i;
	enough = v[0]->is_enough;
	free(v);
	return enough;
}

/* ---- exclusive pools ----------------------------------------------------------------------------- */

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

static int is_used(const struct job *j, const int32_t *assign, const struct pool_part *p)
{
	int32_t g = p->node->known ? assign[p->node->at] : -1;

	return g >= 0 && warmth_of_part(j, j->shape, p, &j->shape->groups[g]) != WARMTH_OTHERS;
}

int warmth_close(const struct job *j, const int32_t *assign)
{
	int closed = 0;

	for (struct pool *p = first_pool(j); p; p = p->next_of_owner) {
		uint32_t used = 0;

		for (const struct pool_part *x = p->parts; x && p->open; x = x->next_of_pool)
			used += (uint32_t)is_used(j, assign, x);
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

void warmth_settle(const struct job *j, const int32_t *assign, size_t n)
{
	uint32_t instances = 0;

	if (!first_pool(j))
		return;
	if (warmth_open(j, j->shape))
		warmth_close(j, assign);
	for (size_t i = 0; i < n; i++)
		instances += assign[i] >= 0;
	(void)warmth_order(j, j->shape, instances);
}
