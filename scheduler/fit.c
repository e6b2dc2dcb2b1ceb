/*
 * fit: does a gang fit, and where. First fit over nodes in the order in which they joined; one instance of a
 * gang a node.
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

	for (uint32_t i = 0; i < n->n_gpus && have < want; i++)
		have += (uint32_t)gpu_ok(&n->gpus[i], sh, mode);
	return have >= want;
}

int fit_node(const struct node *n, const struct shape *sh, const struct sched_group *g, const char *type,
             unsigned mode)
{
	uint64_t slots = (uint64_t)g->ranks * g->cpus_per_rank;

	if (!n->usable && !(mode & FIT_ANY_STATE))
		return 0;
	if (mode & FIT_EMPTY) {
		if (n->slots < slots || n->memory < sh->memory || n->disk < sh->disk)
			return 0;
	} else if (n->exclusive || (sh->exclusive && n->holders) || n->free_slots < slots ||
	           n->free_gpus < g->gpus || n->memory_used + sh->memory > n->memory ||
	           n->disk_used + sh->disk > n->disk) {
		return 0;
	}
	if (g->gpus && !gpus_fit(n, sh, g->gpus, mode))
		return 0;
	if (type && strcmp(type, n->type) != 0)
		return 0;
	for (char **r = sh->requires; *r; r++)
		if (!listed(n->labels, *r))
			return 0;
	return !listed(sh->avoid, n->name);
}

struct matching {
	const struct sched *s;
	const struct shape *sh;
	const char *type;
	unsigned mode;
	int32_t *assign;
	uint8_t *seen; /* groups on the present path */
};

/* One more node for group g, moving other groups' nodes where that helps. */
static int augment(struct matching *m, uint32_t g)
{
	const struct sched_group *want = &m->sh->groups[g];

	m->seen[g] = 1;
	for (size_t i = 0; i < m->s->n_sorted; i++) {
		if (m->assign[i] < 0 && fit_node(m->s->sorted[i], m->sh, want, m->type, m->mode)) {
			m->assign[i] = (int32_t)g;
			return 1;
		}
	}
	for (size_t i = 0; i < m->s->n_sorted; i++) {
		int32_t h = m->assign[i];

		if (h < 0 || m->seen[h] || !fit_node(m->s->sorted[i], m->sh, want, m->type, m->mode))
			continue;
		if (augment(m, (uint32_t)h)) {
			m->assign[i] = (int32_t)g;
			return 1;
		}
	}
	return 0;
}

/* First fit of one group; how many are still lacking. */
static uint32_t first_fit(struct matching *m, uint32_t g)
{
	uint32_t lack = m->sh->groups[g].instances;

	for (size_t i = 0; i < m->s->n_sorted && lack; i++) {
		if (m->assign[i] >= 0 || !fit_node(m->s->sorted[i], m->sh, &m->sh->groups[g], m->type, m->mode))
			continue;
		m->assign[i] = (int32_t)g;
		lack--;
	}
	return lack;
}

static int fit_type(const struct sched *s, const struct shape *sh, const char *type, unsigned mode,
                    int32_t *assign, uint32_t *failed)
{
	uint8_t *seen = xcalloc(sh->n_groups ? sh->n_groups : 1, 1);
	struct matching m = {s, sh, type, mode, assign, seen};
	int fits = sh->instances <= s->n_sorted;

	*failed = 0;
	memset(assign, 0xff, s->n_sorted * sizeof *assign);
	for (uint32_t g = 0; fits && g < sh->n_groups; g++) {
		for (uint32_t lack = first_fit(&m, g); fits && lack; lack--) {
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
	int32_t *assign = xcalloc(s->n_sorted + 1, sizeof *assign);
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
			n += (uint32_t)fit_node(s->sorted[i], sh, &sh->groups[group], *t, mode);
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

void fit_choose(const struct node *n, const struct shape *sh, uint32_t group, struct hold *out)
{
	const struct sched_group *g = &sh->groups[group];
	uint32_t slots = g->ranks * g->cpus_per_rank, link = g->gpus > 1 ? best_link_group(n, sh, g->gpus) : 0;

	memset(out, 0, sizeof *out);
	out->group = group;
	out->memory = sh->memory;
	out->disk = sh->disk;
	out->exclusive = sh->exclusive;
	out->gpus = xcalloc(g->gpus + 1, sizeof *out->gpus);
	out->cpus = xcalloc(slots + 1, sizeof *out->cpus);
	for (uint32_t i = 0; i < n->n_gpus && out->n_gpus < g->gpus; i++)
		if (gpu_ok(&n->gpus[i], sh, FIT_NOW) && (!link || n->gpus[i].g.link_group == link))
			out->gpus[out->n_gpus++] = n->gpus[i].g.index;
	for (uint32_t i = 0; i < n->slots && out->n_cpus < slots; i++)
		if (!n->slot_owner[i])
			out->cpus[out->n_cpus++] = i;
}
