/*
 * sched_slow_pool: warm pools, for sched_slow.c: how warm a node is for a job, and which parts end. All is
 * worked out from what the pools and jobs have, each time.
 */
#include <string.h>

#include "tests/unit/scheduler/sched_slow_int.h"

int slow_owner(const struct slow_job *j)
{
	return (j->account - 4) % 2;
}

int slow_any_pools(const struct slow *w)
{
	unsigned n = 0;

	for (int i = 0; i < SLOW_POOLS; i++)
		n += w->pools[i].n_parts;
	return n > 0;
}

static const struct slow_part *part_on(const struct slow *w, int pool, int node)
{
	for (unsigned k = 0; k < w->pools[pool].n_parts; k++)
		if (w->pools[pool].parts[k].node == node)
			return &w->pools[pool].parts[k];
	return NULL;
}

/* Pools with a part there, the one that is idle longest first; how many. */
static int pools_on(const struct slow *w, int node, int out[SLOW_POOLS])
{
	int n = 0;

	for (int i = 0; i < SLOW_POOLS; i++) {
		int at = n;

		if (!part_on(w, i, node))
			continue;
		for (n++; at && w->pools[out[at - 1]].idle_s > w->pools[i].idle_s; at--)
			out[at] = out[at - 1];
		out[at] = i;
	}
	return n;
}

/* ---- which part it uses --------------------------------------------------------------------------- */

static void add(struct slow_room *to, const struct slow_part *p, int sign)
{
	to->gpus += sign * (int)slow_bits(p->gpu_mask);
	to->slots += sign * (int)slow_bits(p->slot_mask);
	to->memory += sign * (int)p->memory;
}

static int enough(const struct slow_look *l, const struct slow_room *have, unsigned group)
{
	const struct sched_group *g = &l->sh->g[group];

	return have->gpus >= (int)g->gpus && have->slots >= (int)(g->ranks * g->cpus_per_rank) &&
	       have->memory >= (int)l->sh->memory;
}

/* An instance of the group uses the part: 0 own with its environment, 1 own; 2 no. */
static int kind_of(const struct slow_look *l, int pool, const struct slow_part *part, unsigned group)
{
	const struct slow_pool *p = &l->w->pools[pool];
	const struct sched_group *g = &l->sh->g[group];
	int own = p->owner == slow_owner(l->job), fills;
	struct slow_room has = {0};

	add(&has, part, 1);
	if (!own || !enough(l, &has, group))
		return 2;
	if (l->sh->pool)
		return pool == l->sh->pool - 1 && (!p->exclusive || p->n_parts == l->sh->instances) ? 0 : 2;
	if (p->exclusive && !(l->open & 1u << pool))
		return 2;
	if (p->warm && p->warm == l->job->warm)
		return 0;
	fills = has.gpus ? has.gpus == (int)g->gpus : has.slots == (int)(g->ranks * g->cpus_per_rank);
	return fills || l->job->keeps ? 1 : 2;
}

/* How many of its parts suit some instance, on healthy nodes. */
static unsigned suiting(const struct slow_look *l, int pool)
{
	const struct slow_pool *p = &l->w->pools[pool];
	unsigned n = 0;

	for (unsigned k = 0; k < p->n_parts; k++) {
		const struct slow_node *at = &l->w->nodes[p->parts[k].node];
		int kind = 2;

		for (unsigned g = 0; g < l->sh->n_groups; g++)
			kind = kind_of(l, pool, &p->parts[k], g) < kind ? kind_of(l, pool, &p->parts[k], g) : kind;
		n += at->known && at->usable && !at->spare && !at->doubt && kind < 2;
	}
	return n;
}

static unsigned sum_of(const struct slow_pool *p, int slots)
{
	unsigned n = 0;

	for (unsigned k = 0; k < p->n_parts; k++)
		n += slow_bits(slots ? p->parts[k].slot_mask : p->parts[k].gpu_mask);
	return n;
}

/* Is the turn of a before that of b? */
static int before(const struct slow_look *l, int a, int b)
{
	const struct slow_pool *p = &l->w->pools[a], *q = &l->w->pools[b];
	unsigned p_suits = suiting(l, a), q_suits = suiting(l, b);
	int p_same = p_suits && p->warm && p->warm == l->job->warm,
	    q_same = q_suits && q->warm && q->warm == l->job->warm, p_enough = p_suits >= l->need,
	    q_enough = q_suits >= l->need;

	if (p_same != q_same)
		return p_same;
	if (p_enough != q_enough)
		return p_enough;
	if (!p_enough && p_suits != q_suits)
		return p_suits > q_suits;
	for (int what = 0; p_enough && what < 3; what++) {
		unsigned x = what ? sum_of(p, what == 2) : p->n_parts, y = what ? sum_of(q, what == 2) : q->n_parts;

		if (x != y)
			return x < y;
	}
	return p->idle_s != q->idle_s ? p->idle_s < q->idle_s : a < b;
}

int slow_pools_turns(struct slow_look *l)
{
	int own = 0, first = -1;

	for (int a = 0; a < SLOW_POOLS; a++) {
		int has = l->w->pools[a].n_parts && l->w->pools[a].owner == slow_owner(l->job);

		l->turn[a] = 0;
		own += has;
		for (int b = 0; b < SLOW_POOLS && has; b++)
			l->turn[a] += b != a && l->w->pools[b].n_parts && l->w->pools[b].owner == slow_owner(l->job) &&
			              before(l, b, a);
		if (has && !l->turn[a])
			first = a;
	}
	return own > 1 && suiting(l, first) >= l->need;
}

/* The pool whose part an instance uses there; -1 none. */
static int used_pool(const struct slow_look *l, int node, unsigned group, int *kind)
{
	int on[SLOW_POOLS], n = pools_on(l->w, node, on), best = -1;

	*kind = 2;
	for (int i = 0; i < n; i++) {
		int of = kind_of(l, on[i], part_on(l->w, on[i], node), group);

		if (of == 2 || of > *kind || (of == *kind && l->turn[best] < l->turn[on[i]]))
			continue;
		*kind = of;
		best = on[i];
	}
	return best;
}

/* ---- how warm a node is -------------------------------------------------------------------------- */

int slow_warmth(const struct slow_look *l, const struct slow_room *r, int node, unsigned group,
                uint64_t *order)
{
	struct slow_room have = {0}, cold = *r;
	int on[SLOW_POOLS], n = pools_on(l->w, node, on), kind, uses = used_pool(l, node, group, &kind),
	                    gives = 0;

	for (int i = 0; i < n; i++)
		add(&cold, part_on(l->w, on[i], node), -1);
	if (cold.memory < 0)
		cold.memory = 0;
	if (uses < 0)
		have = cold;
	else
		add(&have, part_on(l->w, uses, node), 1);
	*order = uses < 0 ? 0 : (uint64_t)l->turn[uses];
	for (int i = 0; i < n; i++) {
		if (on[i] == uses || (!l->sh->exclusive && !l->w->pools[on[i]].exclusive && enough(l, &have, group)))
			continue;
		add(&have, part_on(l->w, on[i], node), 1);
		*order = l->w->pools[on[i]].idle_s;
		gives = 1;
	}
	return gives ? 3 : kind;
}

int slow_pool_suffices(const struct slow_look *l, int node, unsigned group)
{
	const struct slow_part *p = part_on(l->w, l->sh->pool - 1, node);

	return p && kind_of(l, l->sh->pool - 1, p, group) == 0;
}

unsigned slow_pools_whole(const struct slow *w, const struct slow_job *j, unsigned instances)
{
	unsigned open = 0;

	for (int i = 0; i < SLOW_POOLS; i++)
		if (w->pools[i].exclusive && w->pools[i].n_parts && w->pools[i].n_parts <= instances &&
		    w->pools[i].owner == slow_owner(j))
			open |= 1u << i;
	return open;
}

/* Those too of which it uses nothing. */
unsigned slow_pools_open(const struct slow *w, const struct slow_job *j, const int place[SLOW_NODES],
                         unsigned of)
{
	const struct slow_look l = {.w = w, .job = j, .sh = slow_shape_of(w, j), .open = of};
	unsigned open = 0;

	for (int i = 0; i < SLOW_POOLS; i++) {
		unsigned used = 0;

		for (unsigned k = 0; k < w->pools[i].n_parts; k++) {
			int node = w->pools[i].parts[k].node;

			used += w->nodes[node].known && place[node] >= 0 &&
			        kind_of(&l, i, &w->pools[i].parts[k], (unsigned)place[node]) < 2;
		}
		if (of & 1u << i && (!used || used == w->pools[i].n_parts))
			open |= 1u << i;
	}
	return open;
}

/* From each source in turn all that is there, until it is enough. */
int slow_hold_is_right(const struct slow_look *l, const struct slow_hold *h)
{
	unsigned gpus = slow_bits(h->gpu_mask), slots = slow_bits(h->slot_mask), of_gpus = h->gpu_mask,
	         of_slots = h->slot_mask;
	int on[SLOW_POOLS], n = pools_on(l->w, h->node, on), kind, uses = used_pool(l, h->node, h->group, &kind);

	if (uses >= 0)
		return !(h->gpu_mask & ~part_on(l->w, uses, h->node)->gpu_mask) &&
		       !(h->slot_mask & ~part_on(l->w, uses, h->node)->slot_mask);
	for (int i = 0; i < n; i++) {
		of_gpus &= ~part_on(l->w, on[i], h->node)->gpu_mask;
		of_slots &= ~part_on(l->w, on[i], h->node)->slot_mask;
	}
	gpus -= slow_bits(of_gpus);
	slots -= slow_bits(of_slots);
	for (int i = 0; i < n; i++) {
		const struct slow_part *p = part_on(l->w, on[i], h->node);
		unsigned g = slow_bits(p->gpu_mask & h->gpu_mask), c = slow_bits(p->slot_mask & h->slot_mask);

		if (g != (gpus < slow_bits(p->gpu_mask) ? gpus : slow_bits(p->gpu_mask)) ||
		    c != (slots < slow_bits(p->slot_mask) ? slots : slow_bits(p->slot_mask)))
			return 0;
		gpus -= g;
		slots -= c;
	}
	return !gpus && !slots;
}

/* ---- which parts end ------------------------------------------------------------------------------ */

static void report(struct slow *w, int pool, int node, unsigned job, int taken)
{
	if (w->n_lost < SLOW_LOST)
		w->lost[w->n_lost++] = (struct slow_lost){pool, node, taken, job};
}

static void part_ends(struct slow *w, int pool, int node, unsigned job, int taken)
{
	struct slow_pool *p = &w->pools[pool];
	unsigned k = 0;

	report(w, pool, node, job, taken);
	while (p->parts[k].node != node)
		k++;
	for (p->n_parts--; k < p->n_parts; k++)
		p->parts[k] = p->parts[k + 1];
}

/* With that of an exclusive pool all its others. */
static void gives_way(struct slow *w, int pool, int node, unsigned job, int taken)
{
	part_ends(w, pool, node, job, taken);
	while (w->pools[pool].exclusive && !taken && w->pools[pool].n_parts) {
		int other = w->pools[pool].parts[0].node;

		part_ends(w, pool, other, job, 0);
		slow_node_gone(w, other);
	}
}

static unsigned used_memory(const struct slow *w, int node)
{
	unsigned used = 0;

	for (unsigned id = 1; id <= w->n_jobs; id++)
		for (unsigned k = 0; k < w->jobs[id].n_holds; k++)
			used += w->jobs[id].holds[k].node == node ? slow_shape_of(w, &w->jobs[id])->memory : 0;
	return used;
}

static int has_memory(const struct slow *w, int node)
{
	unsigned all = used_memory(w, node);

	for (int i = 0; i < SLOW_POOLS; i++)
		all += part_on(w, i, node) ? part_on(w, i, node)->memory : 0;
	return !w->nodes[node].known || all <= w->nodes[node].memory;
}

/* A job that holds one of these there; exclusive ones hold all. 0 nobody. Lowest GPU, then lowest slot. */
static unsigned holder_of(const struct slow *w, int node, unsigned gpus, unsigned slots)
{
	for (unsigned bit = 0; bit < 64; bit++)
		for (unsigned id = 1; id <= w->n_jobs; id++)
			for (unsigned k = 0; k < w->jobs[id].n_holds; k++) {
				const struct slow_hold *h = &w->jobs[id].holds[k];
				unsigned of = bit < 32 ? h->gpu_mask & gpus : h->slot_mask & slots;

				if (h->node == node && of & 1u << bit % 32)
					return id;
			}
	for (unsigned id = 1; id <= w->n_jobs; id++)
		for (unsigned k = 0; k < w->jobs[id].n_holds; k++)
			if (w->jobs[id].holds[k].node == node && slow_shape_of(w, &w->jobs[id])->exclusive)
				return id;
	return 0;
}

int slow_pools_give_way(struct slow *w, const struct slow_look *l, unsigned id, const struct slow_hold *h)
{
	int on[SLOW_POOLS], n = pools_on(w, h->node, on), kind, pool = used_pool(l, h->node, h->group, &kind),
	                    uses = -1;

	for (int i = 0; i < n; i++) {
		const struct slow_part *part = part_on(w, on[i], h->node);

		if (!(part->gpu_mask & h->gpu_mask) && !(part->slot_mask & h->slot_mask) && !l->sh->exclusive &&
		    !w->pools[on[i]].exclusive)
			continue;
		uses = on[i] == pool ? pool : uses;
		gives_way(w, on[i], h->node, id, on[i] == pool);
	}
	while (!has_memory(w, h->node)) {
		pools_on(w, h->node, on);
		gives_way(w, on[0], h->node, id, 0);
	}
	return uses;
}

void slow_pools_node(struct slow *w, int node)
{
	int on[SLOW_POOLS];

	while (pools_on(w, node, on) && (!w->nodes[node].known || !has_memory(w, node)))
		part_ends(w, on[0], node, 0, 0);
}

static int is_free(const struct slow *w, int pool, const struct slow_part *p, unsigned *job)
{
	const struct slow_node *n = &w->nodes[p->node];
	int exclusive = w->pools[pool].exclusive;

	*job = holder_of(w, p->node, exclusive ? ~0u : p->gpu_mask, exclusive ? ~0u : p->slot_mask);
	if (*job || (n->known && (p->gpu_mask >> n->gpus || p->slot_mask >> n->slots)))
		return 0;
	for (int i = 0; i < SLOW_POOLS; i++) {
		const struct slow_part *x = part_on(w, i, p->node);

		if (x && (i == pool || exclusive || w->pools[i].exclusive || x->gpu_mask & p->gpu_mask ||
		          x->slot_mask & p->slot_mask))
			return 0;
	}
	return 1;
}

void slow_pool_set(struct slow *w, int pool, const struct slow_pool *in)
{
	struct slow_pool *p = &w->pools[pool];
	unsigned job;

	slow_pool_remove(w, pool);
	*p = *in;
	p->n_parts = 0;
	for (unsigned k = 0; k < in->n_parts; k++) {
		int good = is_free(w, pool, &in->parts[k], &job);

		p->parts[p->n_parts++] = in->parts[k];
		if (good && has_memory(w, in->parts[k].node))
			continue;
		p->n_parts--;
		report(w, pool, in->parts[k].node, job, 0);
	}
	slow_freed(w);
}

void slow_pool_remove(struct slow *w, int pool)
{
	w->pools[pool].n_parts = 0;
	w->stale = 0;
	for (int n = 0; n < SLOW_NODES; n++)
		slow_node_gone(w, n);
}
