/*
 * fit: does a gang fit, and where. One instance of a gang a node; best fit: healthy nodes first, of these the
 * one with the fewest free GPUs, then one that is warm for the job, then the cheapest, then the one with the
 * fewest free slots, then the one that joined first. All on one switch, where there is one that can take
 * them, else in one rack: the one with the fewest nodes that could. A gang that must be in one is not placed
 * where none can take it.
 *
 * Groups of one gang may want different things, and a node may serve several of them: taking the first that
 * fits can then miss a placement that exists. So when a group lacks a node, the ones given to other groups
 * are moved along an augmenting path (Kuhn's matching with the groups as vertices that take several): a gang
 * is placed exactly when a placement exists.
 */
#include "scheduler/policy/fit.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/gpu.h"
#include "scheduler/policy/warmth.h"

static int is_listed(char *const *v, const char *s)
{
	for (; *v; v++)
		if (strcmp(*v, s) == 0)
			return 1;
	return 0;
}

static int gpus_fit(const struct node *n, const struct shape *sh, uint32_t want, unsigned mode)
{
	uint32_t have = 0;

	if (!sh->gpu_model && !sh->gpu_memory)
		return (mode & FIT_EMPTY ? n->has_gpus : n->free_gpus) >= want;
	for (uint32_t i = 0; i < n->n_gpus && have < want; i++)
		have += (uint32_t)gpu_fits(&n->gpus[i], sh, (mode & FIT_EMPTY) != 0);
	return have >= want;
}

/* Follows S-106 and S-108. */
static int room_fits(const struct sched *s, const struct node *n, const struct shape *sh,
                     const struct sched_group *g, unsigned mode)
{
	uint64_t slots = (uint64_t)g->ranks * g->cpus_per_rank;
	const struct room *v = mode & FIT_VIEW ? &s->view[n->at] : NULL;

	if (mode & FIT_EMPTY)
		return n->slots >= slots && n->memory >= sh->memory && n->disk >= sh->disk;
	if (v)
		return v->gpus >= g->gpus && v->slots >= slots && !v->exclusive && !(sh->exclusive && v->holders) &&
		       v->memory >= sh->memory && v->disk >= sh->disk;
	return n->free_gpus >= g->gpus && n->free_slots >= slots && !n->exclusive &&
	       !(sh->exclusive && n->holders) && n->memory_used + sh->memory <= n->memory &&
	       n->disk_used + sh->disk <= n->disk;
}

/* One that is not usable. */
static int is_allowed(const struct node *n, unsigned mode)
{
	if (n->spare)
		return mode & FIT_SPARE && (n->spare == SPARE_READY || mode & FIT_ANY_STATE);
	return mode & FIT_ANY_STATE || (mode & FIT_DRAINED && n->drained == 1);
}

/* Follows S-111. */
int fit_node(const struct sched *s, const struct node *n, const struct shape *sh, const struct sched_group *g,
             const char *type, unsigned mode)
{
	if (!n->usable && !is_allowed(n, mode))
		return 0;
	if (!room_fits(s, n, sh, g, mode))
		return 0;
	/* Which GPUs will be free at the shadow time is not known: by what the node has. */
	if (g->gpus && !gpus_fit(n, sh, g->gpus, mode & FIT_VIEW ? FIT_EMPTY : mode))
		return 0;
	if (type && strcmp(type, n->type) != 0)
		return 0;
	for (char **r = sh->requires; *r; r++)
		if (!is_listed(n->labels, *r))
			return 0;
	if (!(mode & FIT_EMPTY) && n->n_reservations && !reservation_allows(s, n))
		return 0;
	if (sh->pool && !(mode & FIT_EMPTY) && !warmth_suffices(s->trying, sh, n, g))
		return 0;
	return !*sh->avoid || !is_listed(sh->avoid, n->name);
}

struct matching {
	const struct sched *s;
	const struct shape *sh;
	const char *type;
	unsigned mode;
	int ranked;              /* the best place is wanted, not only whether there is one */
	const struct job *owner; /* the job whose pools count; NULL: pools do not count */
	enum {
		NODES_ALL,
		NODES_POOL, /* healthy ones on which the first of its owner's pools suffices */
		NODES_WARM, /* healthy ones on which its owner's pools suffice */
		NODES_COLD  /* healthy ones on which no other pool gives way */
	} only;
	int one_pool; /* the first of its owner's pools is enough for all */
	int32_t *assign;
	uint8_t *seen; /* groups on the present path */
	const struct domain
	    *near[LEVELS]; /* the best place is there, after spares: what kept places share; NULL */
	/* Only these: all, or those of one switch or rack; by ascending id. */
	struct node *const *nodes;
	size_t n;
};

/* Follows S-166. */
__attribute__((noinline)) static int is_warm_enough(const struct matching *m, const struct node *n,
                                                    const struct sched_group *g)
{
	enum warmth warmth;
	uint64_t order;

	if (n->doubt && !(n->spare && m->mode & FIT_SPARE))
		return 0;
	if (!n->parts)
		return m->only == NODES_COLD;
	warmth = warmth_of(m->owner, m->sh, n, g, &order);
	return warmth <= (m->only == NODES_COLD ? WARMTH_COLD : WARMTH_OWN) &&
	       (m->only != NODES_POOL || order == 0);
}

/* Inline: a decision asks it for each node and each waiting job. */
static inline int node_suits(const struct matching *m, const struct node *n, const struct sched_group *g)
{
	return fit_node(m->s, n, m->sh, g, m->type, m->mode) && (m->only == NODES_ALL || is_warm_enough(m, n, g));
}

/* One more node for group g, moving other groups' nodes where that helps. Follows S-114. */
static int augment_group(struct matching *m, uint32_t g)
{
	const struct sched_group *want = &m->sh->groups[g];

	m->seen[g] = 1;
	for (size_t i = 0; i < m->n; i++) {
		if (m->assign[m->nodes[i]->at] < 0 && node_suits(m, m->nodes[i], want)) {
			m->assign[m->nodes[i]->at] = (int32_t)g;
			return 1;
		}
	}
	for (size_t i = 0; i < m->n; i++) {
		int32_t h = m->assign[m->nodes[i]->at];

		if (h < 0 || m->seen[h] || !node_suits(m, m->nodes[i], want))
			continue;
		if (augment_group(m, (uint32_t)h)) {
			m->assign[m->nodes[i]->at] = (int32_t)g;
			return 1;
		}
	}
	return 0;
}

struct choice {
	uint64_t first, rank;
	uint32_t slots; /* free ones */
	size_t at;
};

static int by_rank(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->slots != y->slots)
		return x->slots < y->slots ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static uint64_t at_most(uint64_t v, unsigned bits)
{
	uint64_t most = ((uint64_t)1 << bits) - 1;

	return v < most ? v : most;
}

/* Of a price in cents, or watts. */
static uint64_t at_least_0(double v, unsigned bits)
{
	return v > 0 ? at_most(v < 1e15 ? (uint64_t)v : UINT64_MAX, bits) : 0;
}

/* Spares before all others; then on the switch of the kept places, then in their rack. Follows S-152. */
static uint64_t apart_of(const struct matching *m, const struct node *n)
{
	uint64_t level = LEVEL_SWITCH;

	if (!(m->mode & FIT_SPARE))
		return 0;
	while (level < LEVELS && (!m->near[level] || n->domain[level] != m->near[level]))
		level++;
	return level + (n->spare ? 0 : LEVELS + 1);
}

/* Health before warmth, then the turns of pools, or how long those are idle that give way. Follows S-165. */
static uint64_t first_of(const struct matching *m, const struct node *n, const struct sched_group *g)
{
	uint64_t order, first = apart_of(m, n) << 61 | at_most(n->doubt, 8) << 53;

	return m->owner ? first | (uint64_t)warmth_of(m->owner, m->sh, n, g, &order) << 50 | at_most(order, 50)
	                : first;
}

/* Follows S-113. */
static struct choice choice_of(const struct matching *m, const struct node *n, const struct sched_group *g)
{
	const struct sched *s = m->s;
	int warm = s->trying && s->trying->warm && n->warm && strcmp(n->warm, s->trying->warm) == 0;
	uint32_t gpus = s->planning ? s->view[n->at].gpus : n->free_gpus;

	return (struct choice){.first = first_of(m, n, g),
	                       .rank = at_most(gpus, 12) << 41 | (uint64_t)!warm << 40 |
	                               at_least_0(n->price * 100, 20) << 20 | at_least_0(n->power, 20),
	                       .slots = s->planning ? s->view[n->at].slots : n->free_slots,
	                       .at = n->at};
}

/* Best fit of one group; how many are still lacking. Which ones matters only when the gang starts now. */
static uint32_t best_fit(struct matching *m, uint32_t g)
{
	const struct sched_group *want = &m->sh->groups[g];
	uint32_t lack = want->instances;
	struct choice *c = NULL;
	size_t n = 0, cap = 0;
	int sorted = 1;

	for (size_t i = 0; i < m->n && (lack > n || m->ranked); i++) {
		const struct node *x = m->nodes[i];
		struct choice this = {.at = x->at};

		if (m->assign[x->at] >= 0 || !node_suits(m, x, want))
			continue;
		if (m->ranked)
			this = choice_of(m, x, want);
		if (lack == 1 && n) { /* the most common case needs no list */
			c[0] = by_rank(&this, &c[0]) < 0 ? this : c[0];
			continue;
		}
		sorted = sorted && (!n || by_rank(&c[n - 1], &this) < 0);
		if (n == cap) {
			cap = cap ? cap * 4 : 4;
			c = mem_resize(c, cap, sizeof(*c));
		}
		c[n++] = this;
	}
	if (!sorted)
		qsort(c, n, sizeof(*c), by_rank);
	for (size_t i = 0; i < n && lack; i++, lack--)
		m->assign[c[i].at] = (int32_t)g;
	free(c);
	return lack;
}

/* The best place is wanted, not only whether there is one. */
static int is_best(const struct matching *m)
{
	return (m->mode & ~(unsigned)FIT_SPARE) == FIT_NOW || (m->mode == FIT_VIEW && m->s->planning);
}

/* All of it on these nodes. *failed: the group that lacks one. Follows S-105. */
static int place_gang(struct matching *m, struct node *const *nodes, size_t n, uint32_t *failed)
{
	int fits = m->sh->instances <= n;

	*failed = 0;
	m->nodes = nodes;
	m->n = n;
	for (uint32_t g = 0; fits && g < m->sh->n_groups; g++) {
		for (uint32_t lack = best_fit(m, g); fits && lack; lack--) {
			/* With one group there is nobody to move. */
			memset(m->seen, 0, m->sh->n_groups);
			if (m->sh->n_groups == 1 || !augment_group(m, g)) {
				*failed = g;
				fits = 0;
			}
		}
	}
	return fits;
}

static int place_anywhere(struct matching *m, uint32_t *failed)
{
	memset(m->assign, 0xff, m->s->n_sorted * sizeof(*m->assign));
	return place_gang(m, m->s->sorted, m->s->n_sorted, failed);
}

/* ---- switches and racks ------------------------------------------------------------------------ */

/* The fewest nodes that could first; then the one whose first node joined first. Follows S-120. */
static int by_count(const void *a, const void *b)
{
	const struct domain *x = *(struct domain *const *)a, *y = *(struct domain *const *)b;

	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	return x->nodes[0]->id < y->nodes[0]->id ? -1 : x->nodes[0]->id > y->nodes[0]->id;
}

static int in_one_rack(const struct domain *d)
{
	const struct domain *rack = d->nodes[0]->domain[LEVEL_RACK];

	for (uint32_t i = 0; rack && i < d->n; i++)
		if (d->nodes[i]->domain[LEVEL_RACK] != rack)
			return 0;
	return rack != NULL;
}

/* How many nodes could take an instance of the first group, and in each switch and rack how many. */
static uint32_t count_takers(const struct matching *m)
{
	uint32_t n = 0;

	for (int level = 0; level < LEVELS; level++)
		for (struct domain *d = m->s->domains[level]; d; d = d->hh.next)
			d->count = 0;
	for (size_t i = 0; i < m->s->n_sorted; i++) {
		const struct node *x = m->s->sorted[i];

		if (!node_suits(m, x, &m->sh->groups[0]))
			continue;
		n++;
		for (int level = 0; level < LEVELS; level++)
			if (x->domain[level])
				x->domain[level]->count++;
	}
	return n;
}

/* Those in which it may fit, the best first; of a gang of one group, which fits wherever nodes enough could
 * take it, only the best. malloc'ed. Follows S-123. */
static struct domain **find_candidates(const struct matching *m, enum level level, size_t *n)
{
	struct domain **v = mem_alloc(m->sh->n_groups > 1 ? HASH_COUNT(m->s->domains[level]) : 1, sizeof(v[0]));

	*n = 0;
	for (struct domain *d = m->s->domains[level]; d; d = d->hh.next) {
		if (d->count < m->sh->groups[0].instances || d->n < m->sh->instances)
			continue;
		if (m->sh->n_groups == 1 && *n && by_count(&v[0], &d) < 0)
			continue;
		if (level == LEVEL_SWITCH && m->sh->span == SCHED_SPAN_RACK && !in_one_rack(d))
			continue;
		*n -= m->sh->n_groups == 1 && *n;
		v[(*n)++] = d;
	}
	qsort(v, *n, sizeof(v[0]), by_count);
	return v;
}

/* Follows S-121 and S-122. */
static int place_within(struct matching *m, enum level level)
{
	struct domain **v;
	uint32_t failed;
	size_t n;
	int fits = 0;

	if (m->sh->instances > m->s->largest[level])
		return 0;
	memset(m->assign, 0xff, m->s->n_sorted * sizeof(*m->assign));
	v = find_candidates(m, level, &n);
	for (size_t i = 0; i < n && !fits; i++) {
		fits = place_gang(m, v[i]->nodes, v[i]->n, &failed);
		for (uint32_t k = 0; !fits && k < v[i]->n; k++)
			m->assign[v[i]->nodes[k]->at] = -1;
	}
	free(v);
	return fits;
}

/* The best place is wanted, and whether all of it is near counts. */
static int looks_near(const struct matching *m)
{
	const struct shape *sh = m->sh;

	return is_best(m) && sh->instances > 1 && sh->span != SCHED_SPAN_ANY &&
	       (sh->instances <= m->s->largest[LEVEL_SWITCH] || sh->instances <= m->s->largest[LEVEL_RACK]);
}

static enum level level_needed(const struct shape *sh)
{
	return sh->instances > 1 ? domain_needed(sh->span) : LEVELS;
}

/* Follows S-119, S-124 and S-126. */
static int fit_type(struct matching *m, uint32_t *failed)
{
	const struct shape *sh = m->sh;
	int best = is_best(m), near = looks_near(m);
	enum level needed = level_needed(sh);

	m->ranked = best && !near && needed == LEVELS;
	*failed = 0;
	if (!near && needed == LEVELS)
		return place_anywhere(m, failed);
	/* Most gangs fit nowhere: that is seen first. */
	if (count_takers(m) < sh->groups[0].instances || (sh->n_groups > 1 && !place_anywhere(m, failed)))
		return 0;
	m->ranked = best;
	for (unsigned level = near ? LEVEL_SWITCH : needed; level < LEVELS && level <= needed; level++)
		if (place_within(m, (enum level)level))
			return 1;
	return needed == LEVELS && place_anywhere(m, failed);
}

/* Follows S-109, S-110 and S-125. */
static int fit_types(struct matching *m, uint32_t *failed)
{
	char **t = m->sh->types;
	int fits;

	do {
		m->type = *t;
		fits = fit_type(m, failed);
	} while (!fits && *t && *++t);
	return fits;
}

/* ---- warm pools --------------------------------------------------------------------------------- */

/* Best fit finds by its order alone what the narrower looks would find. */
static int order_suffices(const struct matching *m)
{
	const struct shape *sh = m->sh;

	return sh->n_groups == 1 && !(m->mode & FIT_SPARE) && !looks_near(m) && level_needed(sh) == LEVELS &&
	       (!*sh->types || !sh->types[1]);
}

/* Follows S-166. */
static int fit_looks(struct matching *m, uint32_t *failed)
{
	const struct pool_owner *o = pool_owner_of(m->owner);

	if (!order_suffices(m)) {
		m->only = NODES_POOL;
		if (m->one_pool && !(m->mode & FIT_SPARE) && fit_types(m, failed))
			return 1;
		m->only = NODES_WARM;
		if (o && o->n_parts >= m->sh->instances && !(m->mode & FIT_SPARE) && fit_types(m, failed))
			return 1;
		m->only = NODES_COLD;
		if (fit_types(m, failed))
			return 1;
	}
	m->only = NODES_ALL;
	return fit_types(m, failed);
}

/* Follows S-173. */
static int fit_ordered(struct matching *m, uint32_t *failed)
{
	m->one_pool = warmth_order(m->owner, m->sh, m->sh->instances);
	return fit_looks(m, failed);
}

/* Pools that are used as a whole are open only if they are. Follows S-167. */
static int fit_pools(struct matching *m, uint32_t *failed)
{
	int open = warmth_open(m->owner, m->sh), fits = fit_ordered(m, failed);

	if (!fits || !open || !warmth_close(m->owner, m->assign))
		return fits;
	fits = fit_ordered(m, failed);
	if (!warmth_close(m->owner, m->assign))
		return fits;
	warmth_close_all(m->owner);
	return fit_ordered(m, failed);
}

static int fit_any(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign,
                   uint32_t *failed)
{
	struct matching m = {.s = s, .sh = sh, .mode = mode & ~(unsigned)FIT_BLIND, .assign = assign};
	int fits;

	m.seen = mem_alloc(sh->n_groups ? sh->n_groups : 1, 1);
	/* A later time knows no pools: S-171. */
	if (s->pools && s->trying && !(mode & FIT_BLIND) && is_best(&m) && s->try_at_s == s->now_s)
		m.owner = s->trying;
	fits = m.owner ? fit_pools(&m, failed) : fit_types(&m, failed);
	free(m.seen);
	return fits;
}

/* Follows S-112. */
int fit_gang(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign)
{
	uint32_t failed;

	return fit_any(s, sh, mode, assign, &failed);
}

int fit_possible(const struct sched *s, const struct shape *sh, unsigned mode, uint32_t *failed)
{
	int32_t *assign = mem_alloc(s->n_sorted + 1, sizeof(*assign));
	int fits = fit_any(s, sh, mode, assign, failed);

	free(assign);
	return fits;
}

/* The switch or rack of all that it keeps; NULL they are in several, or it is not known. */
static const struct domain *shared_domain(const struct job *j, enum level level)
{
	const struct domain *d = j->holds[0].node->domain[level];

	for (uint32_t i = 1; i < j->n_holds; i++)
		if (j->holds[i].node->domain[level] != d)
			return NULL;
	return d;
}

/* The nodes that may take what it lacks: all but those where it is, in the switch or rack that must hold all.
 */
static size_t find_takers(const struct sched *s, const struct job *j, struct node **out)
{
	enum level needed = j->shape->instances > 1 ? domain_needed(j->shape->span) : LEVELS;
	const struct domain *in = needed < LEVELS ? shared_domain(j, needed) : NULL;
	size_t n = 0;

	for (size_t i = 0; i < s->n_sorted; i++) {
		uint32_t k = 0;

		while (k < j->n_holds && j->holds[k].node != s->sorted[i])
			k++;
		if (k == j->n_holds && (needed == LEVELS || (in && s->sorted[i]->domain[needed] == in)))
			out[n++] = s->sorted[i];
	}
	return n;
}

static int place_rest(struct matching *m, struct node *const *takers, size_t n)
{
	uint32_t failed;

	memset(m->assign, 0xff, m->s->n_sorted * sizeof(*m->assign));
	return place_gang(m, takers, n, &failed);
}

/* Follows S-152, S-153 and S-168. */
int fit_rest(const struct sched *s, const struct job *j, int32_t *assign)
{
	struct matching m = {.s = s, .mode = FIT_NOW | FIT_SPARE, .ranked = 1, .assign = assign};
	struct shape rest = *j->shape;
	struct node **takers;
	size_t n;
	int fits;

	if (!j->n_holds)
		return fit_gang(s, j->shape, FIT_NOW | FIT_SPARE, assign);
	rest.groups = mem_alloc(rest.n_groups, sizeof(*rest.groups));
	rest.instances = 0;
	for (uint32_t g = 0; g < rest.n_groups; g++) {
		rest.groups[g] = j->shape->groups[g];
		rest.groups[g].instances = exchange_lacks(j, g);
		rest.instances += rest.groups[g].instances;
	}
	for (int level = 0; level < LEVELS && rest.span != SCHED_SPAN_ANY; level++)
		m.near[level] = shared_domain(j, (enum level)level);
	m.sh = &rest;
	m.type = *rest.types ? j->holds[0].node->type : NULL;
	m.seen = mem_alloc(rest.n_groups, 1);
	takers = mem_alloc(s->n_sorted + 1, sizeof(*takers));
	n = find_takers(s, j, takers);
	m.owner = s->pools ? j : NULL;
	m.only = m.owner ? NODES_COLD : NODES_ALL;
	warmth_close_all(j);
	if (m.owner)
		(void)warmth_order(j, &rest, rest.instances);
	fits = place_rest(&m, takers, n);
	m.only = NODES_ALL;
	fits = fits || (m.owner && place_rest(&m, takers, n));
	free(takers);
	free(m.seen);
	free(rest.groups);
	return fits;
}

static uint32_t count_all(const struct matching *m, uint32_t group)
{
	uint32_t n = 0;

	for (size_t i = 0; i < m->s->n_sorted; i++)
		n += (uint32_t)node_suits(m, m->s->sorted[i], &m->sh->groups[group]);
	return n;
}

static uint32_t count_in(const struct matching *m, const struct domain *d, uint32_t group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->n; i++)
		n += (uint32_t)node_suits(m, d->nodes[i], &m->sh->groups[group]);
	return n;
}

/* The one of most, and how many there. */
static const struct domain *find_fullest(const struct matching *m, enum level level, uint32_t group,
                                         uint32_t *most)
{
	const struct domain *best = NULL;
	int enough = 0;

	*most = 0;
	for (const struct domain *d = m->s->domains[level]; d; d = d->hh.next) {
		struct matching empty = *m;
		uint32_t n = count_in(m, d, group);
		int would;

		empty.mode |= FIT_EMPTY;
		would = count_in(&empty, d, group) >= m->sh->groups[group].instances;
		if (would < enough || (would == enough && n < *most) ||
		    (best && would == enough && n == *most && d->nodes[0]->id > best->nodes[0]->id))
			continue;
		best = d;
		*most = n;
		enough = would;
	}
	return best;
}

const struct domain *fit_domain(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode,
                                uint32_t *count)
{
	struct matching m = {.s = s, .sh = sh, .mode = mode};
	enum level level = domain_needed(sh->span);
	const struct domain *best = NULL;
	char **t = sh->types;

	*count = 0;
	do {
		uint32_t n = 0;
		const struct domain *d;

		m.type = *t;
		d = level < LEVELS ? find_fullest(&m, level, group, &n) : NULL;
		if (d && (!best || n > *count)) {
			best = d;
			*count = n;
		}
	} while (*t && *++t);
	return best;
}

uint32_t fit_count(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode)
{
	struct matching m = {.s = s, .sh = sh, .mode = mode};
	uint32_t best = 0;
	char **t = sh->types;

	if (sh->instances > 1 && domain_needed(sh->span) < LEVELS) {
		(void)fit_domain(s, sh, group, mode, &best);
		return best;
	}
	/* A gang is of one type: the count that matters is that of the best type. */
	do {
		uint32_t n;

		m.type = *t;
		n = count_all(&m, group);
		if (n > best)
			best = n;
	} while (*t && *++t);
	return best;
}

/* Follows S-144. */
int fit_hopeless(struct sched *s, struct shape *sh, int32_t *assign)
{
	if (sh->possible_gen != s->nodes_gen && sh->hopeless_gen != s->nodes_gen) {
		if (fit_gang(s, sh, FIT_EMPTY, assign))
			sh->possible_gen = s->nodes_gen;
		else
			sh->hopeless_gen = s->nodes_gen;
	}
	return sh->hopeless_gen == s->nodes_gen;
}
