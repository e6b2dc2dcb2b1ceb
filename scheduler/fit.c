/*
 * fit: does a gang fit, and where. One instance of a gang a node; best fit: healthy nodes first, of these the
 * one with the fewest free GPUs, then one that is warm for the job, then the cheapest, then the one with the
 * fewest free slots, then the one that joined first. All on one switch, where there is one that can take
 * them: the one with the fewest nodes that could.
 *
 * Groups of one gang may want different things, and a node may serve several of them: taking the first that
 * fits can then miss a placement that exists. So when a group lacks a node, the ones given to other groups
 * are moved along an augmenting path (Kuhn's matching with the groups as vertices that take several): a gang
 * is placed exactly when a placement exists.
 */
#include "scheduler/model.h"
#include <string.h>

static int listed(char *const *v, const char *s)
{
	for (; *v; v++)
		if (strcmp(*v, s) == 0)
			return 1;
	return 0;
}

static int gpu_ok(const struct gpu *g, const struct shape *sh, unsigned mode)
{
	return g->present && (!g->owner || mode & FIT_EMPTY) && g->g.memory_bytes >= sh->gpu_memory &&
	       (!sh->gpu_model || strcmp(g->g.model, sh->gpu_model) == 0);
}

static int gpus_fit(const struct node *n, const struct shape *sh, uint32_t want, unsigned mode)
{
	uint32_t have = 0;

	if (!sh->gpu_model && !sh->gpu_memory)
		return (mode & FIT_EMPTY ? n->has_gpus : n->free_gpus) >= want;
	for (uint32_t i = 0; i < n->n_gpus && have < want; i++)
		have += (uint32_t)gpu_ok(&n->gpus[i], sh, mode);
	return have >= want;
}

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

int fit_node(const struct sched *s, const struct node *n, const struct shape *sh, const struct sched_group *g,
             const char *type, unsigned mode)
{
	if (!n->usable && !(mode & FIT_ANY_STATE) && !(mode & FIT_DRAINED && n->drained == 1))
		return 0;
	if (!room_fits(s, n, sh, g, mode))
		return 0;
	/* Which GPUs will be free at the shadow time is not known: by what the node has. */
	if (g->gpus && !gpus_fit(n, sh, g->gpus, mode & FIT_VIEW ? FIT_EMPTY : mode))
		return 0;
	if (type && strcmp(type, n->type) != 0)
		return 0;
	for (char **r = sh->requires; *r; r++)
		if (!listed(n->labels, *r))
			return 0;
	if (!(mode & FIT_EMPTY) && n->n_bookings && !book_allows(s, n))
		return 0;
	return !*sh->avoid || !listed(sh->avoid, n->name);
}

struct matching {
	const struct sched *s;
	const struct shape *sh;
	const char *type;
	unsigned mode;
	int32_t *assign;
	uint8_t *seen;      /* groups on the present path */
	uint32_t switch_no; /* only there; 0 anywhere */
};

static int suits(const struct matching *m, const struct node *n, const struct sched_group *g)
{
	return (!m->switch_no || n->switch_no == m->switch_no) && fit_node(m->s, n, m->sh, g, m->type, m->mode);
}

/* One more node for group g, moving other groups' nodes where that helps. */
static int augment(struct matching *m, uint32_t g)
{
	const struct sched_group *want = &m->sh->groups[g];

	m->seen[g] = 1;
	for (size_t i = 0; i < m->s->n_sorted; i++) {
		if (m->assign[i] < 0 && suits(m, m->s->sorted[i], want)) {
			m->assign[i] = (int32_t)g;
			return 1;
		}
	}
	for (size_t i = 0; i < m->s->n_sorted; i++) {
		int32_t h = m->assign[i];

		if (h < 0 || m->seen[h] || !suits(m, m->s->sorted[i], want))
			continue;
		if (augment(m, (uint32_t)h)) {
			m->assign[i] = (int32_t)g;
			return 1;
		}
	}
	return 0;
}

struct choice {
	uint64_t rank;
	size_t at;
};

static int by_rank(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static uint64_t at_most(uint64_t v, unsigned bits)
{
	uint64_t most = ((uint64_t)1 << bits) - 1;

	return v < most ? v : most;
}

static uint64_t rank_of(const struct sched *s, const struct node *n)
{
	int warm = s->trying && s->trying->warm && n->warm && strcmp(n->warm, s->trying->warm) == 0;
	uint32_t gpus = s->planning ? s->view[n->at].gpus : n->free_gpus,
	         slots = s->planning ? s->view[n->at].slots : n->free_slots;

	return at_most(n->doubt, 8) << 56 | at_most(gpus, 12) << 44 | (uint64_t)!warm << 43 |
	       at_most((uint64_t)(n->price > 0 ? n->price * 100 : 0), 20) << 20 | at_most(slots, 20);
}

/* Is the best place wanted, or only whether there is one? */
static int ranks(const struct matching *m)
{
	return m->mode == FIT_NOW || (m->mode == FIT_VIEW && m->s->planning);
}

/* Best fit of one group; how many are still lacking. Which ones matters only when the gang starts now. */
static uint32_t best_fit(struct matching *m, uint32_t g)
{
	const struct sched_group *want = &m->sh->groups[g];
	uint32_t lack = want->instances;
	struct choice *c = NULL;
	size_t n = 0, cap = 0;
	int sorted = 1;

	for (size_t i = 0; i < m->s->n_sorted && (lack > n || ranks(m)); i++) {
		struct choice this = {0, i};

		if (m->assign[i] >= 0 || !suits(m, m->s->sorted[i], want))
			continue;
		if (ranks(m))
			this.rank = rank_of(m->s, m->s->sorted[i]);
		if (lack == 1 && n) { /* the most common case needs no list */
			c[0] = by_rank(&this, &c[0]) < 0 ? this : c[0];
			continue;
		}
		sorted = sorted && (!n || c[n - 1].rank <= this.rank);
		if (n == cap) {
			cap = cap ? cap * 4 : 4;
			c = mem_resize(c, cap, sizeof *c);
		}
		c[n++] = this;
	}
	if (!sorted)
		qsort(c, n, sizeof *c, by_rank);
	for (size_t i = 0; i < n && lack; i++, lack--)
		m->assign[c[i].at] = (int32_t)g;
	free(c);
	return lack;
}

static int fit_on(const struct sched *s, const struct shape *sh, const char *type, unsigned mode,
                  int32_t *assign, uint32_t *failed, uint32_t switch_no)
{
	uint8_t *seen = mem_alloc(sh->n_groups ? sh->n_groups : 1, 1);
	struct matching m = {s, sh, type, mode, assign, seen, switch_no};
	int fits = sh->instances <= s->n_sorted;

	*failed = 0;
	memset(assign, 0xff, s->n_sorted * sizeof *assign);
	for (uint32_t g = 0; fits && g < sh->n_groups; g++) {
		for (uint32_t lack = best_fit(&m, g); fits && lack; lack--) {
			/* With one group there is nobody to move. */
			memset(seen, 0, sh->n_groups);
			if (sh->n_groups == 1 || !augment(&m, g)) {
				*failed = g;
				fits = 0;
			}
		}
	}
	free(seen);
	return fits;
}

#define SWITCHES_TRIED 4

/* Switches by how many nodes could take the first group; those that can take the gang, fewest first. */
static uint32_t switches(const struct sched *s, const struct shape *sh, const char *type, unsigned mode,
                         uint32_t tried[SWITCHES_TRIED])
{
	uint32_t *count = mem_alloc(s->n_switches + 1, sizeof *count), n = 0;

	for (size_t i = 0; i < s->n_sorted; i++)
		count[s->sorted[i]->switch_no] +=
		    (uint32_t)(s->sorted[i]->switch_no && fit_node(s, s->sorted[i], sh, &sh->groups[0], type, mode));
	for (; n < SWITCHES_TRIED; n++) {
		uint32_t best = 0;

		for (uint32_t k = 1; k <= s->n_switches; k++)
			if (count[k] >= sh->groups[0].instances && (!best || count[k] < count[best]))
				best = k;
		if (!best)
			break;
		tried[n] = best;
		count[best] = 0;
	}
	free(count);
	return n;
}

static int fit_type(const struct sched *s, const struct shape *sh, const char *type, unsigned mode,
                    int32_t *assign, uint32_t *failed)
{
	uint32_t tried[SWITCHES_TRIED], n = 0;

	if (sh->instances > 1 && sh->n_groups &&
	    (sh->span == SCHED_SPAN_SWITCH || ((mode == FIT_NOW || s->planning) && s->n_switches > 1)) &&
	    sh->span != SCHED_SPAN_ANY)
		n = switches(s, sh, type, mode, tried);
	for (uint32_t i = 0; i < n; i++)
		if (fit_on(s, sh, type, mode, assign, failed, tried[i]))
			return 1;
	*failed = 0;
	return sh->span != SCHED_SPAN_SWITCH || sh->instances < 2 ? fit_on(s, sh, type, mode, assign, failed, 0)
	                                                          : 0;
}

static int fit_any(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign,
                   uint32_t *failed)
{
	if (!*sh->types)
		return fit_type(s, sh, NULL, mode, assign, failed);
	for (char **t = sh->types; *t; t++)
		if (fit_type(s, sh, *t, mode, assign, failed))
			return 1;
	return 0;
}

int fit_gang(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign)
{
	uint32_t failed;

	return fit_any(s, sh, mode, assign, &failed);
}

int fit_possible(const struct sched *s, const struct shape *sh, unsigned mode, uint32_t *failed)
{
	int32_t *assign = mem_alloc(s->n_sorted + 1, sizeof *assign);
	int fits = fit_any(s, sh, mode, assign, failed);

	free(assign);
	return fits;
}

uint32_t fit_count(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode)
{
	uint32_t best = 0;
	char **t = sh->types;

	/* A gang is of one type: the count that matters is that of the best type. */
	do {
		uint32_t n = 0;

		for (size_t i = 0; i < s->n_sorted; i++)
			n += (uint32_t)fit_node(s, s->sorted[i], sh, &sh->groups[group], *t, mode);
		if (n > best)
			best = n;
	} while (*t && *++t);
	return best;
}

/* GPUs that are linked with each other, when one link group has enough: the smallest such group, to leave
 * large ones whole. */
static uint32_t best_link_group(const struct node *n, const struct shape *sh, uint32_t want)
{
	uint32_t best = 0, best_free = UINT32_MAX;

	for (uint32_t i = 0; i < n->n_gpus; i++) {
		uint32_t group = n->gpus[i].g.link_group, have = 0;

		for (uint32_t k = 0; group && k < n->n_gpus; k++)
			have += (uint32_t)(n->gpus[k].g.link_group == group && gpu_ok(&n->gpus[k], sh, FIT_NOW));
		if (have >= want && have < best_free) {
			best = group;
			best_free = have;
		}
	}
	return best;
}

/* The socket that has enough free GPUs (of that link group), and the fewest of these; else the one with the
 * most. */
static uint32_t best_numa(const struct node *n, const struct shape *sh, uint32_t link, uint32_t want)
{
	uint32_t best = 0, best_free = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++) {
		uint32_t have = 0, numa = n->gpus[i].g.numa;

		for (uint32_t k = 0; k < n->n_gpus; k++)
			have += (uint32_t)(n->gpus[k].g.numa == numa && gpu_ok(&n->gpus[k], sh, FIT_NOW) &&
			                   (!link || n->gpus[k].g.link_group == link));
		if (!best_free || (best_free < want ? have > best_free : have >= want && have < best_free)) {
			best = numa;
			best_free = have;
		}
	}
	return best;
}

void fit_choose(const struct node *n, const struct shape *sh, uint32_t group, struct hold *out)
{
	const struct sched_group *g = &sh->groups[group];
	uint32_t slots = g->ranks * g->cpus_per_rank, link = g->gpus > 1 ? best_link_group(n, sh, g->gpus) : 0,
	         numa;

	memset(out, 0, sizeof *out);
	out->group = group;
	out->memory = sh->memory;
	out->disk = sh->disk;
	out->exclusive = sh->exclusive;
	out->gpus = mem_alloc(g->gpus + 1, sizeof *out->gpus);
	out->cpus = mem_alloc(slots + 1, sizeof *out->cpus);
	numa = best_numa(n, sh, link, g->gpus);
	for (int other = 0; other < 2; other++) /* neighbours first, then what is left */
		for (uint32_t i = 0; i < n->n_gpus && out->n_gpus < g->gpus; i++)
			if (gpu_ok(&n->gpus[i], sh, FIT_NOW) && (!link || n->gpus[i].g.link_group == link) &&
			    (n->gpus[i].g.numa == numa) != other)
				out->gpus[out->n_gpus++] = n->gpus[i].g.index;
	for (uint32_t i = 0; i < n->slots && out->n_cpus < slots; i++)
		if (!n->slot_owner[i])
			out->cpus[out->n_cpus++] = i;
}
