/*
 * pool: see pool.h. The parts on a node hang at the node, those of a pool at the pool, the pools of an owner
 * at the owner. sched_pool_lost reports what left a pool, in order.
 */
#include "scheduler/model/pool.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"

struct pool *model_pool_find(const struct sched *s, uint64_t id)
{
	struct pool *p;

	HASH_FIND(hh, s->pools, &id, sizeof(id), p);
	return p;
}

struct pool_owner *pool_owner_get(struct sched *s, const char *name)
{
	struct pool_owner *o;

	HASH_FIND(hh, s->pool_owners, name, strlen(name), o);
	if (o)
		return o;
	o = mem_alloc(1, sizeof(*o));
	o->name = mem_copy(name);
	HASH_ADD_KEYPTR(hh, s->pool_owners, o->name, strlen(o->name), o);
	return o;
}

struct pool_owner *pool_owner_of(const struct job *j)
{
	return j && j->lane ? j->lane->account->pool_owner : NULL;
}

int pool_part_has(const struct pool_part *p, uint32_t gpu)
{
	for (uint32_t i = 0; i < p->n_gpus; i++)
		if (p->gpus[i] == gpu)
			return 1;
	return 0;
}

int pool_part_has_slot(const struct pool_part *p, uint32_t slot)
{
	for (uint32_t i = 0; i < p->n_cpus; i++)
		if (p->cpus[i] == slot)
			return 1;
	return 0;
}

int pool_part_is_warm(const struct pool_part *p, const char *warm)
{
	return warm && p->pool->warm && strcmp(warm, p->pool->warm) == 0;
}

/* ---- parts ------------------------------------------------------------------------------------- */

static void report_lost(struct sched *s, const struct sched_pool_lost *l)
{
	struct pool_lost *x = mem_alloc(1, sizeof(*x)),
	                 **at = s->pools_lost ? &s->last_lost->next : &s->pools_lost;

	x->lost = *l;
	*at = x;
	s->last_lost = x;
}

int sched_pool_lost(struct sched *s, struct sched_pool_lost *out)
{
	struct pool_lost *x = s->pools_lost;

	if (!x)
		return 0;
	*out = x->lost;
	s->pools_lost = x->next;
	free(x);
	return 1;
}

static void part_free(struct pool_part *p)
{
	free(p->gpus);
	free(p->cpus);
	free(p);
}

int pool_idle_longer(const struct pool *a, const struct pool *b)
{
	return a->idle_since_s != b->idle_since_s ? a->idle_since_s < b->idle_since_s : a->id < b->id;
}

static void part_link(struct sched *s, struct pool *to, struct pool_part *p)
{
	struct pool_part **at = &to->parts;

	p->pool = to;
	while (*at)
		at = &(*at)->next_of_pool;
	*at = p;
	for (at = &p->node->parts; *at && pool_idle_longer((*at)->pool, to);)
		at = &(*at)->next_on_node;
	p->next_on_node = *at;
	*at = p;
	to->n_parts++;
	to->owner->n_parts++;
	s->n_parts++;
}

static void part_unlink(struct sched *s, struct pool_part *p)
{
	struct pool_part **at = &p->pool->parts;

	while (*at != p)
		at = &(*at)->next_of_pool;
	*at = p->next_of_pool;
	for (at = &p->node->parts; *at != p;)
		at = &(*at)->next_on_node;
	*at = p->next_on_node;
	p->pool->n_parts--;
	p->pool->owner->n_parts--;
	s->n_parts--;
}

static void pool_free(struct sched *s, struct pool *p)
{
	struct pool **at = &p->owner->pools;

	while (*at != p)
		at = &(*at)->next_of_owner;
	*at = p->next_of_owner;
	HASH_DELETE(hh, s->pools, p);
	free(p->warm);
	free(p);
}

/* Reports the part as lost and frees it; with its last part the pool goes. */
static void part_lose(struct sched *s, struct pool_part *p, uint64_t job, int taken)
{
	struct pool *of = p->pool;

	report_lost(s, &(struct sched_pool_lost){of->id, p->node->id, job, taken});
	part_unlink(s, p);
	part_free(p);
	if (!of->n_parts)
		pool_free(s, of);
}

/* Nothing remains of an exclusive pool that is not used as a whole. */
static void parts_lose(struct sched *s, struct pool_part *p, uint64_t job, int taken)
{
	struct pool *of = p->pool;
	uint32_t more = of->exclusive && !taken ? of->n_parts - 1 : 0;

	part_lose(s, p, job, taken);
	while (more--) {
		struct node *n = of->parts->node;

		part_lose(s, of->parts, job, 0);
		node_drop_unused(s, n);
	}
}

/* ---- what is no longer free ---------------------------------------------------------------------- */

/* Has a job some of it? Returns which; 0 none. */
static uint64_t part_holder(const struct pool_part *p)
{
	const struct node *n = p->node;

	for (uint32_t i = 0; i < p->n_gpus; i++) {
		const struct gpu *g = node_gpu(n, p->gpus[i]);

		if (g && g->owner)
			return g->owner;
	}
	for (uint32_t i = 0; i < p->n_cpus; i++)
		if (p->cpus[i] < n->n_owners && n->slot_owner[p->cpus[i]])
			return n->slot_owner[p->cpus[i]];
	return n->exclusive;
}

/* Any job that is there; 0 nobody. */
static uint64_t any_holder(const struct node *n)
{
	for (uint32_t i = 0; i < n->n_gpus; i++)
		if (n->gpus[i].owner)
			return n->gpus[i].owner;
	for (uint32_t i = 0; i < n->n_owners; i++)
		if (n->slot_owner[i])
			return n->slot_owner[i];
	return n->exclusive;
}

/* The node has these GPUs and slots, held or not. */
static int node_has_part(const struct node *n, const struct pool_part *p)
{
	for (uint32_t i = 0; i < p->n_gpus; i++) {
		const struct gpu *g = node_gpu(n, p->gpus[i]);

		if (!g || !g->present)
			return 0;
	}
	for (uint32_t i = 0; i < p->n_cpus; i++)
		if (p->cpus[i] >= n->slots)
			return 0;
	return 1;
}

/* Memory and disk of all parts are free there. */
static int parts_have_room(const struct node *n)
{
	uint64_t memory = n->memory_used, disk = n->disk_used;

	for (const struct pool_part *p = n->parts; p; p = p->next_on_node) {
		memory += p->memory;
		disk += p->disk;
	}
	return !n->parts || !n->known || (memory <= n->memory && disk <= n->disk);
}

/* Follows S-162 and S-167. */
uint64_t pools_give_way(struct sched *s, const struct job *j, const struct hold *h)
{
	struct node *n = h->node;
	uint64_t uses = 0;

	for (struct pool_part *p = n->parts, *next; p; p = next) {
		const struct pool *of = p->pool;
		int used = of->id == h->pool;

		next = p->next_on_node;
		if (!part_holder(p) && !of->exclusive)
			continue;
		uses = used ? of->id : uses;
		parts_lose(s, p, j->id, used);
	}
	while (!parts_have_room(n))
		parts_lose(s, n->parts, j->id, 0);
	return uses;
}

/* Follows S-163. */
void pools_node_changed(struct sched *s, struct node *n)
{
	for (struct pool_part *p = n->parts, *next; p; p = next) {
		next = p->next_on_node;
		if (!node_has_part(n, p))
			part_lose(s, p, 0, 0);
	}
	while (!parts_have_room(n))
		part_lose(s, n->parts, 0, 0);
}

void pools_node_gone(struct sched *s, struct node *n)
{
	while (n->parts)
		part_lose(s, n->parts, 0, 0);
}

/* ---- the caller's ------------------------------------------------------------------------------- */

static uint32_t *ids_copy(const uint32_t *v, uint32_t n)
{
	uint32_t *out = mem_alloc((size_t)n + 1, sizeof(*out));

	if (n)
		memcpy(out, v, n * sizeof(*out));
	return out;
}

static int overlaps(const struct pool_part *a, const struct pool_part *b)
{
	for (uint32_t i = 0; i < a->n_gpus; i++)
		if (pool_part_has(b, a->gpus[i]))
			return 1;
	for (uint32_t i = 0; i < a->n_cpus; i++)
		if (pool_part_has_slot(b, a->cpus[i]))
			return 1;
	return a->pool->exclusive || b->pool->exclusive || a->pool == b->pool;
}

/* It names no GPU and no slot twice. */
static int is_plain(const struct pool_part *p)
{
	for (uint32_t i = 0; i < p->n_gpus; i++)
		for (uint32_t k = 0; k < i; k++)
			if (p->gpus[k] == p->gpus[i])
				return 0;
	for (uint32_t i = 0; i < p->n_cpus; i++)
		for (uint32_t k = 0; k < i; k++)
			if (p->cpus[k] == p->cpus[i])
				return 0;
	return 1;
}

/* Nobody has it, and nobody is on the node of an exclusive one. *job: who is in its way; 0 no job. */
static int part_is_free(const struct pool_part *p, uint64_t *job)
{
	const struct node *n = p->node;

	*job = p->pool->exclusive ? any_holder(n) : part_holder(p);
	if (*job || !is_plain(p) || (n->known && !node_has_part(n, p)))
		return 0;
	for (const struct pool_part *x = n->parts; x; x = x->next_on_node)
		if (x != p && overlaps(p, x))
			return 0;
	return 1;
}

static void part_add(struct sched *s, struct pool *to, const struct sched_pool_part *in)
{
	struct pool_part *p = mem_alloc(1, sizeof(*p));
	struct node *n = model_node_find(s, in->node);
	uint64_t job;

	*p = (struct pool_part){.n_gpus = in->n_gpus,
	                        .n_cpus = in->n_cpus,
	                        .gpus = ids_copy(in->gpus, in->n_gpus),
	                        .cpus = ids_copy(in->cpus, in->n_cpus),
	                        .memory = in->memory_bytes,
	                        .disk = in->disk_bytes};
	p->node = n ? n : model_node_make(s, in->node);
	part_link(s, to, p);
	if (part_is_free(p, &job) && parts_have_room(p->node))
		return;
	report_lost(s, &(struct sched_pool_lost){to->id, in->node, job, 0});
	part_unlink(s, p);
	node_drop_unused(s, p->node);
	part_free(p);
}

static void pool_remove(struct sched *s, uint64_t id)
{
	struct pool *p = model_pool_find(s, id);

	while (p && p->parts) {
		struct pool_part *x = p->parts;

		part_unlink(s, x);
		node_drop_unused(s, x->node);
		part_free(x);
	}
	if (p)
		pool_free(s, p);
}

/* A job that waits for the pool may fit. */
static void pools_changed(struct sched *s)
{
	s->input++;
	s->gen++;
}

void sched_pool_set(struct sched *s, const struct sched_pool *in)
{
	struct pool *p;

	record_pool(s->recorder, in);
	pool_remove(s, in->id);
	p = mem_alloc(1, sizeof(*p));
	p->id = in->id;
	p->idle_since_s = in->idle_since_s;
	p->owner = pool_owner_get(s, in->owner ? in->owner : "");
	p->warm = mem_copy(in->warm);
	p->exclusive = !!in->exclusive;
	p->next_of_owner = p->owner->pools;
	p->owner->pools = p;
	HASH_ADD(hh, s->pools, id, sizeof(p->id), p);
	for (uint32_t i = 0; i < in->n_parts; i++)
		part_add(s, p, &in->parts[i]);
	if (!p->n_parts)
		pool_free(s, p);
	pools_changed(s);
}

void sched_pool_remove(struct sched *s, uint64_t id)
{
	record_id(s->recorder, "pool-remove", id);
	pool_remove(s, id);
	s->input++;
}

int pool_is_short(const struct sched *s, const struct job *j)
{
	const struct pool *p = model_pool_find(s, j->shape->pool);

	return j->shape->pool && (!p || p->owner != pool_owner_of(j) || p->n_parts < j->shape->instances);
}

uint32_t sched_pool_parts(const struct sched *s, uint64_t id)
{
	const struct pool *p = model_pool_find(s, id);

	return p ? p->n_parts : 0;
}

/* ---- check -------------------------------------------------------------------------------------- */

static const char *check_node(const struct node *n, size_t *parts)
{
	uint64_t job;

	for (const struct pool_part *p = n->parts; p; p = p->next_on_node, ++*parts) {
		if (p->node != n)
			return "pool: a part hangs at another node";
		if (!part_is_free(p, &job))
			return "pool: a part is not free";
		if (p->next_on_node && !pool_idle_longer(p->pool, p->next_on_node->pool))
			return "pool: parts of a node are out of order";
	}
	return parts_have_room(n) ? NULL : "pool: parts of a node have more memory than is free";
}

const char *pools_check(const struct sched *s)
{
	size_t on_nodes = 0, of_pools = 0, of_owners = 0;
	const char *bad = NULL;

	for (const struct node *n = s->nodes; n && !bad; n = n->hh.next)
		bad = check_node(n, &on_nodes);
	for (const struct pool *p = s->pools; p && !bad; p = p->hh.next) {
		uint32_t n = 0;

		for (const struct pool_part *x = p->parts; x; x = x->next_of_pool, n++)
			if (x->pool != p)
				bad = "pool: a part hangs at another pool";
		if (n != p->n_parts || !n)
			bad = "pool: wrong number of parts";
		of_pools += n;
	}
	for (const struct pool_owner *o = s->pool_owners; o; o = o->hh.next)
		of_owners += o->n_parts;
	if (!bad && (on_nodes != of_pools || of_pools != of_owners || of_owners != s->n_parts))
		bad = "pool: parts were counted wrongly";
	return bad;
}

void pools_fini(struct sched *s)
{
	struct pool_owner *o, *otmp;
	struct sched_pool_lost lost;

	while (s->pools)
		pool_remove(s, s->pools->id);
	HASH_ITER (hh, s->pool_owners, o, otmp) {
		HASH_DELETE(hh, s->pool_owners, o);
		free(o->name);
		free(o);
	}
	while (sched_pool_lost(s, &lost))
		;
}
