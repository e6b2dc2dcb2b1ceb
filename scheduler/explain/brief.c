/*
 * brief: for many waiting jobs at once, in a few words each, why they wait. One walk over lanes and nodes for
 * all of them, and one more for each of which enough is free in sum, as long as the effort lasts;
 * sched_explain, which looks at the nodes for each, knows more.
 */
#include "scheduler/explain/explain.h"
#include "scheduler/explain/replacing.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/text.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/order.h"

#define LOOKS 200000 /* at nodes, for all of a page: what is lacking beyond that is not named */

/* What a node must have, in the order in which it is looked for. */
enum lack {
	LACK_TYPE,
	LACK_LABEL,
	LACK_MODEL,
	LACK_GPUS,
	LACK_CPUS,
	LACK_MEMORY,
	LACK_DISK,
	LACK_ALONE,
	LACK_NONE
};

static int is_listed(char *const *v, const char *s)
{
	while (*v && strcmp(*v, s) != 0)
		v++;
	return *v != NULL;
}

static uint32_t free_gpus(const struct node *n, const struct shape *sh, int any_model)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++)
		have += n->gpus[i].present && (any_model || !n->gpus[i].owner) &&
		        n->gpus[i].g.memory_bytes >= sh->gpu_memory &&
		        (!sh->gpu_model || strcmp(n->gpus[i].g.model, sh->gpu_model) == 0);
	return have;
}

/* The first of these things that a node lacks now for an instance of g. */
static enum lack lacks_of(const struct node *n, const struct shape *sh, const struct sched_group *g)
{
	if (*sh->types && !is_listed(sh->types, n->type))
		return LACK_TYPE;
	for (char **r = sh->requires; *r; r++)
		if (!is_listed(n->labels, *r))
			return LACK_LABEL;
	if (g->gpus && (sh->gpu_model || sh->gpu_memory) && !free_gpus(n, sh, 1))
		return LACK_MODEL;
	if (g->gpus && free_gpus(n, sh, 0) < g->gpus)
		return LACK_GPUS;
	if (n->free_slots < (uint64_t)g->ranks * g->cpus_per_rank)
		return LACK_CPUS;
	if (n->memory_used + sh->memory > n->memory)
		return LACK_MEMORY;
	if (n->disk_used + sh->disk > n->disk)
		return LACK_DISK;
	return n->exclusive || (sh->exclusive && n->holders) ? LACK_ALONE : LACK_NONE;
}

/* What is free lies on nodes that it may not have: then these are what it lacks. */
static enum lack narrow_shape(const uint32_t *count, enum lack l)
{
	for (int t = LACK_TYPE; t <= LACK_MODEL && (l == LACK_GPUS || l == LACK_CPUS); t++)
		if (count[t])
			return (enum lack)t;
	return l;
}

/* What keeps the gang from starting although enough of it is free in sum: the first thing with which too few
 * nodes are left. Follows S-329. */
static enum lack what_lacks(const struct sched *s, const struct shape *sh)
{
	for (uint32_t k = 0; k < sh->n_groups; k++) {
		uint32_t count[LACK_NONE + 1] = {0}, left = 0;

		for (size_t i = 0; i < s->n_sorted; i++)
			if (s->sorted[i]->usable)
				left++, count[lacks_of(s->sorted[i], sh, &sh->groups[k])]++;
		if (left < sh->groups[k].instances)
			return LACK_GPUS; /* too few nodes, be they as they like: enough is free, but apart */
		for (int t = 0; t < LACK_NONE; t++)
			if ((left -= count[t]) < sh->groups[k].instances)
				return narrow_shape(count, (enum lack)t);
	}
	return LACK_NONE;
}

static void say_lack(const struct sched *s, const struct shape *sh, uint64_t *looks, struct text *o)
{
	static const char *const words[] = {[LACK_MODEL] = ", but of other kinds",
	                                    [LACK_GPUS] = ", but apart",
	                                    [LACK_CPUS] = ", but too few CPUs with them",
	                                    [LACK_MEMORY] = ", but too little memory there",
	                                    [LACK_DISK] = ", but too little disk there",
	                                    [LACK_ALONE] = ", but not on nodes of its own",
	                                    [LACK_NONE] = ", but apart"};
	uint64_t cost = (uint64_t)s->n_sorted * sh->n_groups;
	enum lack l;

	if (*looks < cost) {
		text_add(o, ", but not as it needs them");
		return;
	}
	*looks -= cost;
	l = what_lacks(s, sh);
	if (l == LACK_TYPE)
		text_add(o, ", but not on type %s%s", sh->types[0], sh->types[1] ? " ..." : "");
	else if (l == LACK_LABEL)
		text_add(o, ", but not with %s%s", sh->requires[0], sh -> requires[1] ? " ..." : "");
	else if (l == LACK_NONE && sh->instances > 1 && domain_needed(sh->span) < LEVELS)
		text_add(o, ", but not %s",
		         domain_needed(sh->span) == LEVEL_SWITCH ? "on one switch" : "in one rack");
	else if (l == LACK_NONE && s->n_reservations)
		text_add(o, ", but reserved");
	else
		text_add(o, "%s", l == LACK_CPUS && !sh->gpus ? words[LACK_NONE] : words[l]);
}

/* The one whose turn it is: the first of those that could start if there were room. */
static const struct job *whose_turn(const struct sched *s)
{
	const struct job *best = NULL;

	for (uint32_t i = 0; i < s->n_active; i++) {
		const struct lane *l = s->active[i];

		if (l->shape->hopeless_gen == s->nodes_gen || l->shape->pool ||
		    account_full(l->account, l->shape->gpus) == 2)
			continue;
		if (!best || order_before(s, l->first, best))
			best = l->first;
	}
	return best;
}

struct page { /* what is the same for all that are asked for */
	const struct job *first;
	uint64_t gpus_free, slots_free, looks;
	const struct shape *shape; /* the last of which it was found out how many drained nodes would help */
	uint32_t drained;
};

/* With them it would start, without it does not: how many drained nodes suit it. Members of a sweep are of
 * one shape, so it is found out once for them. Follows S-330. */
static uint32_t drained_help(const struct sched *s, const struct shape *sh, unsigned mode, struct page *p)
{
	uint64_t cost = 3 * (uint64_t)s->n_sorted * sh->n_groups;
	uint32_t failed;

	if (!s->n_drained || p->shape == sh)
		return s->n_drained ? p->drained : 0;
	if (p->looks < cost)
		return 0;
	p->looks -= cost;
	p->shape = sh;
	p->drained = 0;
	if (fit_possible(s, sh, mode, &failed) || !fit_possible(s, sh, mode | FIT_DRAINED, &failed))
		return 0;
	for (size_t i = 0; i < s->n_sorted; i++) {
		int would = 0;

		for (uint32_t g = 0; s->sorted[i]->drained && g < sh->n_groups && !would; g++)
			would = fit_node(s, s->sorted[i], sh, &sh->groups[g], NULL, mode | FIT_DRAINED);
		p->drained += (uint32_t)would;
	}
	return p->drained;
}

static void say_drained(uint32_t n, struct text *o)
{
	if (n)
		text_add(o, "; %" PRIu32 " node%s drained", n, n == 1 ? "" : "s");
}

/* Follows S-328. */
static void say_brief(const struct sched *s, const struct job *j, struct page *p, struct text *o)
{
	const struct shape *sh = j->shape;
	uint64_t slots = 0, gpus_free = p->gpus_free, slots_free = p->slots_free;
	int lacks = sh->nofit_gen == s->gen || sh->gpus > gpus_free, turn = p->first && p->first != j, enough;

	for (uint32_t i = 0; i < sh->n_groups; i++)
		slots += (uint64_t)sh->groups[i].instances * sh->groups[i].ranks * sh->groups[i].cpus_per_rank;
	if (sh->hopeless_gen == s->nodes_gen) {
		text_add(o, "waits for nodes");
		say_drained(drained_help(s, sh, FIT_EMPTY, p), o);
		return;
	}
	if (account_full(j->lane->account, sh->gpus) == 2) {
		text_add(o, "its quota or budget is used up");
		return;
	}
	if (sched_pool_parts(s, sh->pool) < sh->instances && sh->pool) {
		text_add(o, "waits for warm pool %" PRIu64, sh->pool);
		return;
	}
	enough = sh->gpus ? gpus_free >= sh->gpus : slots_free >= slots;
	if (turn && !lacks)
		text_add(o, "its turn: behind job %" PRIu64, p->first->id);
	else if (sh->gpus)
		text_add(o, "needs %" PRIu64 " GPU%s, %" PRIu64 " free", sh->gpus, sh->gpus == 1 ? "" : "s",
		         gpus_free);
	else
		text_add(o, "needs %" PRIu64 " CPUs, %" PRIu64 " free", slots, slots_free);
	if ((!turn || lacks) && enough)
		say_lack(s, sh, &p->looks, o);
	if (!turn || lacks)
		say_drained(drained_help(s, sh, FIT_NOW, p), o);
	if (turn && lacks)
		text_add(o, "; behind job %" PRIu64, p->first->id);
}

/* Follows S-331. */
void sched_brief(const struct sched *s, const uint64_t *ids, size_t n, struct sched_brief *out)
{
	struct page p = {.first = n ? whose_turn(s) : NULL, .looks = LOOKS};

	for (size_t i = 0; n && i < s->n_sorted; i++) {
		if (!s->sorted[i]->usable)
			continue;
		p.gpus_free += s->sorted[i]->free_gpus;
		p.slots_free += s->sorted[i]->free_slots;
	}
	for (size_t i = 0; i < n; i++) {
		struct text o = text_on(out[i].text, sizeof(out[i].text));
		const struct job *j;

		out[i].text[0] = '\0';
		HASH_FIND(hh, s->jobs, &ids[i], sizeof(ids[i]), j);
		if (j && j->is_waiting && !j->is_held)
			say_brief(s, j, &p, &o);
		else if (j && j->is_exchanging)
			replacing_say(s, j, &o);
	}
}
