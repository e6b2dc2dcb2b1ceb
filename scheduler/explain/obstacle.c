/*
 * obstacle: see obstacle.h. The question may be about a job that is not submitted yet.
 */
#include "scheduler/explain/obstacle.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/replacing.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"

static const char *s_of(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void say_size(struct text *o, uint64_t bytes)
{
	if (bytes >= (uint64_t)1 << 40)
		text_add(o, "%.1f TiB", (double)bytes / (double)((uint64_t)1 << 40));
	else if (bytes >= (uint64_t)1 << 30)
		text_add(o, "%.1f GiB", (double)bytes / (double)((uint64_t)1 << 30));
	else
		text_add(o, "%.0f MiB", (double)bytes / (double)((uint64_t)1 << 20));
}

/* The usable nodes, or with FIT_ANY_STATE all but spares. */
static int may_count(const struct node *n, unsigned mode)
{
	return n->usable || (mode & FIT_ANY_STATE && !n->spare);
}

static uint64_t slots_of(const struct sched_group *g)
{
	return (uint64_t)g->ranks * g->cpus_per_rank;
}

/* The name of what must hold all of it: "switch", "rack"; NULL nothing. */
static const char *needed_of(const struct shape *sh)
{
	static const char *const names[] = {[LEVEL_SWITCH] = "switch", [LEVEL_RACK] = "rack", [LEVELS] = NULL};

	return sh->instances > 1 ? names[domain_needed(sh->span)] : NULL;
}

static const char *in_one(const struct shape *sh)
{
	return domain_needed(sh->span) == LEVEL_SWITCH ? "on one" : "in one";
}

/* "2 instances, each with 1 GPU, 2 CPU slots and 8.0 GiB memory" */
void obstacle_need(struct text *o, const struct shape *sh, const struct sched_group *g)
{
	uint64_t slots = slots_of(g);

	text_add(o, "%" PRIu32 " instance%s with ", g->instances, g->instances == 1 ? "" : "s, each");
	if (g->gpus)
		text_add(o, "%" PRIu32 " GPU%s%s%s%s", g->gpus, s_of(g->gpus), sh->gpu_model ? " (" : "",
		         sh->gpu_model ? sh->gpu_model : "", sh->gpu_model ? ")" : "");
	if (g->gpus)
		text_add(o, sh->memory || sh->disk ? ", " : " and ");
	text_add(o, "%" PRIu64 " CPU slot%s", slots, s_of(slots));
	if (sh->memory) {
		text_add(o, sh->disk ? ", " : " and ");
		say_size(o, sh->memory);
		text_add(o, " memory");
	}
	if (sh->disk) {
		text_add(o, " and ");
		say_size(o, sh->disk);
		text_add(o, " disk");
	}
	if (sh->exclusive)
		text_add(o, ", on nodes without other jobs");
	if (g->instances > 1)
		text_add(o, " (one instance per node)");
	if (needed_of(sh))
		text_add(o, ", all %s %s", in_one(sh), needed_of(sh));
}

/* What of this node is taken, for a node that would fit when empty. */
static void say_taken(struct text *o, const struct node *n, const struct shape *sh,
                      const struct sched_group *g)
{
	uint32_t matching = 0, free_matching = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++) {
		if (!n->gpus[i].present)
			continue;
		matching++;
		free_matching += !n->gpus[i].owner;
	}
	if (n->exclusive)
		text_add(o, "%s: held by job %" PRIu64 " for itself alone", n->name, n->exclusive);
	else if (sh->exclusive && n->holders)
		text_add(o, "%s: %" PRIu32 " job%s there", n->name, n->holders, s_of(n->holders));
	else if (free_matching < g->gpus)
		text_add(o, "%s: %" PRIu32 " of %" PRIu32 " GPUs free", n->name, free_matching, matching);
	else if (n->free_slots < slots_of(g))
		text_add(o, "%s: %" PRIu32 " of %" PRIu32 " CPU slots free", n->name, n->free_slots, n->slots);
	else if (n->memory_used + sh->memory > n->memory) {
		text_add(o, "%s: ", n->name);
		say_size(o, n->memory - n->memory_used);
		text_add(o, " memory free");
	} else if (n->disk_used + sh->disk > n->disk) {
		text_add(o, "%s: ", n->name);
		say_size(o, n->disk - n->disk_used);
		text_add(o, " disk free");
	} else {
		text_add(o, "%s: its free GPUs are of another kind", n->name);
	}
}

/* The nodes are all nodes, or those of the switch or rack that comes nearest. */
void obstacle_busy(const struct sched *s, const struct shape *sh, uint32_t group, struct text *o)
{
	const struct sched_group *g = &sh->groups[group];
	uint32_t free;
	const struct domain *d = needed_of(sh) ? fit_domain(s, sh, group, FIT_NOW, &free) : NULL;
	unsigned named = 0, more = 0;

	if (d)
		text_add(o, " on %s", d->name);
	for (size_t i = 0; i < (d ? d->n : s->n_sorted); i++) {
		const struct node *n = d ? d->nodes[i] : s->sorted[i];
		char **t = sh->types;
		int would = 0;

		do {
			would = fit_node(s, n, sh, g, *t, FIT_EMPTY) && !fit_node(s, n, sh, g, *t, FIT_NOW);
		} while (!would && *t && *++t);
		if (!would)
			continue;
		if (named == 3) {
			more++;
			continue;
		}
		text_add(o, named++ ? ", " : " (");
		say_taken(o, n, sh, g);
	}
	if (more)
		text_add(o, " and %u more", more);
	if (named)
		text_add(o, ")");
}

/* ---- what is in the way of a gang that the nodes could not hold even when empty -------------- */

enum test {
	T_NODES,
	T_TYPE,
	T_LABEL,
	T_GPU_MODEL,
	T_GPU_MEMORY,
	T_GPUS,
	T_SLOTS,
	T_MEMORY,
	T_DISK,
	T_AVOID,
	T_END
};

static int has_text(char *const *v, const char *s)
{
	for (; *v; v++)
		if (strcmp(*v, s) == 0)
			return 1;
	return 0;
}

static uint32_t gpus_of(const struct node *n, const char *model, uint64_t memory)
{
	uint32_t c = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++)
		c += n->gpus[i].present && (!model || strcmp(n->gpus[i].g.model, model) == 0) &&
		     n->gpus[i].g.memory_bytes >= memory;
	return c;
}

/* Of its largest GPU. */
static uint64_t gpu_memory_of(const struct node *n, const char *model)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++)
		if (n->gpus[i].present && (!model || strcmp(n->gpus[i].g.model, model) == 0) &&
		    n->gpus[i].g.memory_bytes > most)
			most = n->gpus[i].g.memory_bytes;
	return most;
}

/* Does this node pass the tests up to and including `t`? In the order in which a person would look for the
 * obstacle. Follows S-326. */
static int passes_test(const struct node *n, const struct shape *sh, const struct sched_group *g, enum test t)
{
	int ok = 1;

	if (t >= T_TYPE)
		ok = ok && (!*sh->types || has_text(sh->types, n->type));
	for (char **r = sh->requires; t >= T_LABEL && ok && *r; r++)
		ok = has_text(n->labels, *r);
	if (t >= T_GPU_MODEL && g->gpus && sh->gpu_model)
		ok = ok && gpus_of(n, sh->gpu_model, 0) > 0;
	if (t >= T_GPU_MEMORY && g->gpus && sh->gpu_memory)
		ok = ok && gpus_of(n, sh->gpu_model, sh->gpu_memory) > 0;
	if (t >= T_GPUS)
		ok = ok && gpus_of(n, sh->gpu_model, sh->gpu_memory) >= g->gpus;
	if (t >= T_SLOTS)
		ok = ok && n->slots >= slots_of(g);
	if (t >= T_MEMORY)
		ok = ok && n->memory >= sh->memory;
	if (t >= T_DISK)
		ok = ok && n->disk >= sh->disk;
	if (t >= T_AVOID)
		ok = ok && !has_text(sh->avoid, n->name);
	return ok;
}

/* ---- what there is instead ---- */

#define OTHERS_NAMED 4

struct others {
	const char *v[OTHERS_NAMED];
	uint32_t n, more;
};

static void other_name(struct others *o, const char *s)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (strcmp(o->v[i], s) == 0)
			return;
	if (o->n < OTHERS_NAMED)
		o->v[o->n++] = s;
	else
		o->more++;
}

/* Labels with the same key; of a feature the other features. */
static int same_key(const char *label, const char *asked)
{
	const char *eq = strchr(asked, '=');

	return eq ? strncmp(label, asked, (size_t)(eq - asked) + 1) == 0 : !strchr(label, '=');
}

static void others_of(const struct node *n, const struct shape *sh, enum test t, const char *label,
                      struct others *o)
{
	if (t == T_TYPE && *n->type && !has_text(sh->types, n->type))
		other_name(o, n->type);
	for (char **l = n->labels; t == T_LABEL && *l; l++)
		if (same_key(*l, label) && strcmp(*l, label) != 0)
			other_name(o, *l);
	for (uint32_t i = 0; t == T_GPU_MODEL && i < n->n_gpus; i++)
		if (n->gpus[i].present && strcmp(n->gpus[i].g.model, sh->gpu_model) != 0)
			other_name(o, n->gpus[i].g.model);
}

/* "; there is A100", of the nodes that have what comes before it in the order of the tests. */
static void say_others(const struct sched *s, const struct shape *sh, const struct sched_group *g,
                       enum test t, const char *label, unsigned mode, struct text *o)
{
	struct others there = {.n = 0};

	for (size_t i = 0; i < s->n_sorted; i++) {
		const struct node *x = s->sorted[i];

		if (may_count(x, mode) && passes_test(x, sh, g, t - 1))
			others_of(x, sh, t, label, &there);
	}
	if (!there.n && t == T_GPU_MODEL)
		text_add(o, "; none has a GPU");
	for (uint32_t i = 0; i < there.n; i++)
		text_add(o, "%s%s", i ? ", " : there.n > 1 ? "; there are " : "; there is ", there.v[i]);
	if (there.more)
		text_add(o, " and more");
}

/* The first required label that no node has which passes the tests before; else the first. */
static const char *lacks_most(const struct sched *s, const struct shape *sh, const struct sched_group *g,
                              unsigned mode)
{
	for (char **r = sh->requires; *r; r++) {
		uint32_t n = 0;

		for (size_t i = 0; i < s->n_sorted; i++)
			n += may_count(s->sorted[i], mode) && passes_test(s->sorted[i], sh, g, T_TYPE) &&
			     has_text(s->sorted[i]->labels, *r);
		if (!n)
			return *r;
	}
	return sh->requires[0];
}

static void say_first_lacking(const struct sched *s, const struct shape *sh, const struct sched_group *g,
                              enum test t, const struct node *best, unsigned mode, struct text *o)
{
	const char *label = t == T_LABEL ? lacks_most(s, sh, g, mode) : NULL;

	switch (t) {
	case T_TYPE:
		text_add(o, "of type %s%s", sh->types[0], sh->types[1] ? " or one of the others listed" : "");
		break;
	case T_LABEL:
		text_add(o, "with what is required (%s%s)", label, sh->requires[1] ? ", ..." : "");
		break;
	case T_GPU_MODEL:
		text_add(o, "with a GPU %s", sh->gpu_model);
		break;
	case T_GPU_MEMORY:
		text_add(o, "with a GPU of ");
		say_size(o, sh->gpu_memory);
		if (best) {
			text_add(o, " (the most is ");
			say_size(o, gpu_memory_of(best, sh->gpu_model));
			text_add(o, ", on %s)", best->name);
		}
		break;
	case T_GPUS:
		text_add(o, "with %" PRIu32 " such GPU%s", g->gpus, s_of(g->gpus));
		if (best)
			text_add(o, " (the most is %" PRIu32 ", on %s)", gpus_of(best, sh->gpu_model, sh->gpu_memory),
			         best->name);
		break;
	case T_SLOTS:
		text_add(o, "with %" PRIu64 " CPU slot%s", slots_of(g), s_of(slots_of(g)));
		if (best)
			text_add(o, " (the most is %" PRIu32 ", on %s)", best->slots, best->name);
		break;
	case T_MEMORY:
	case T_DISK:
		text_add(o, "with ");
		say_size(o, t == T_MEMORY ? sh->memory : sh->disk);
		text_add(o, t == T_MEMORY ? " memory" : " disk");
		if (best) {
			text_add(o, " (the most is ");
			say_size(o, t == T_MEMORY ? best->memory : best->disk);
			text_add(o, ", on %s)", best->name);
		}
		break;
	case T_AVOID:
		text_add(o, "that did not fail to start this job before");
		break;
	case T_NODES:
	case T_END:
		break;
	}
	if (t == T_TYPE || t == T_LABEL || t == T_GPU_MODEL)
		say_others(s, sh, g, t, label, mode, o);
}

static uint64_t measure_most(const struct node *n, const struct shape *sh, enum test t)
{
	switch (t) {
	case T_GPU_MEMORY:
		return gpu_memory_of(n, sh->gpu_model);
	case T_GPUS:
		return gpus_of(n, sh->gpu_model, sh->gpu_memory);
	case T_SLOTS:
		return n->slots;
	case T_MEMORY:
		return n->memory;
	case T_DISK:
		return n->disk;
	default:
		return 0;
	}
}

#define SLOTS_NAMED 4

/* "; CPU slots: a 8, b 4. A rank takes 2: at most 4 ranks_per_instance fit on a; more instances give as many"
 */
static void say_slots(const struct sched *s, const struct sched_group *g, unsigned mode,
                      const struct node *best, struct text *o)
{
	uint32_t named = 0, more = 0;

	for (size_t i = 0; i < s->n_sorted; i++) {
		const struct node *x = s->sorted[i];

		if (!may_count(x, mode))
			continue;
		if (named == SLOTS_NAMED)
			more++;
		else
			text_add(o, "%s%s %" PRIu32, named++ ? ", " : "; CPU slots: ", x->name, x->slots);
	}
	if (more)
		text_add(o, " and %" PRIu32 " more", more);
	if (g->cpus_per_rank > best->slots) {
		text_add(o, ". cpus_per_rank can be %" PRIu32 " at most", best->slots);
		return;
	}
	text_add(o, ". A rank takes %" PRIu32 ": ranks_per_instance can be %" PRIu32 " at most%s",
	         g->cpus_per_rank, best->slots / g->cpus_per_rank,
	         g->cpus_per_rank > 1 ? ", or more with fewer cpus_per_rank" : "");
	text_add(o, "; more instances give as many ranks");
}

/* "there are 2 usable nodes, 1 with 4 such GPUs (the most is 2, on node-1)" */
static void say_obstacle(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode,
                         struct text *o)
{
	const struct sched_group *g = &sh->groups[group];
	const char *kind = mode & FIT_ANY_STATE ? "known" : "usable";

	for (enum test t = T_NODES; t < T_END; t++) {
		const struct node *best = NULL;
		uint32_t n = 0;

		for (size_t i = 0; i < s->n_sorted; i++) {
			const struct node *x = s->sorted[i];

			if (!may_count(x, mode))
				continue;
			n += (uint32_t)passes_test(x, sh, g, t);
			if (t > T_NODES && passes_test(x, sh, g, t - 1) &&
			    (!best || measure_most(x, sh, t) > measure_most(best, sh, t)))
				best = x;
		}
		if (n >= g->instances)
			continue;
		if (!n)
			text_add(o, "no %s node ", kind);
		else
			text_add(o, "only %" PRIu32 " %s node%s ", n, kind, s_of(n));
		if (t == T_NODES)
			text_add(o, n == 1 ? "is there" : "are there");
		else
			say_first_lacking(s, sh, g, t, best, mode, o);
		if (t == T_SLOTS && best && best->slots)
			say_slots(s, g, mode, best, o);
		if (t == T_NODES && !n)
			text_clear(o), text_add(o, "no %s node is there", kind);
		return;
	}
	text_add(o, "the groups together need %" PRIu32 " different nodes that suit them", sh->instances);
}

/* Nodes enough would be there, but not in one switch or rack. */
static void say_apart(const struct sched *s, const struct shape *sh, unsigned mode, struct text *o)
{
	const char *kind = mode & FIT_ANY_STATE ? "known" : "usable", *what = needed_of(sh);
	uint32_t count = 0, usable = 0;
	const struct domain *d = fit_domain(s, sh, 0, mode, &count);

	for (uint32_t i = 0; d && i < d->n; i++)
		usable += (uint32_t)may_count(d->nodes[i], mode);
	if (!s->domains[domain_needed(sh->span)])
		text_add(o, "no node has a label %s=NAME (it is given to each agent: hearth-agent --labels %s=NAME)",
		         what, what);
	else if (!d || !count)
		text_add(o, "no %s node with a label %s=NAME could take one", kind, what);
	else if (sh->n_groups > 1)
		text_add(o,
		         "no %s could take all of them: nearest is %s, where %" PRIu32 " of %" PRIu32
		         " %s node%s could take an instance of the first group",
		         what, d->name, count, usable, kind, s_of(usable));
	else
		text_add(o,
		         "nearest is %s %s, where %" PRIu32 " of %" PRIu32 " %s node%s could take one: %" PRIu32
		         " instance%s at most",
		         what, d->name, count, usable, kind, s_of(usable), count, s_of(count));
}

/* Were it not for the switch or rack that must hold all of it, would it fit? *failed: the group that would
 * not. */
static int only_apart(const struct sched *s, const struct shape *sh, unsigned mode, uint32_t *failed)
{
	struct shape wide = *sh;

	wide.span = SCHED_SPAN_ANY;
	return fit_possible(s, &wide, mode, failed) && needed_of(sh);
}

int obstacle_judge(const struct sched *s, const struct shape *sh, unsigned mode, struct sched_reason *r)
{
	struct text o = text_on(r->text, sizeof(r->text));
	uint32_t failed = 0;

	memset(r, 0, sizeof(*r));
	if (fit_possible(s, sh, mode, &failed)) {
		r->why = SCHED_FITS;
		return 1;
	}
	r->why = s->n_sorted ? SCHED_IMPOSSIBLE : SCHED_NO_NODES;
	r->need_instances = sh->groups[failed].instances;
	r->possible_instances = fit_count(s, sh, failed, mode);
	if (!s->n_sorted) {
		text_add(&o, "no node has joined yet");
		return 0;
	}
	if (sh->instances > s->n_sorted && sh->n_groups > 1) {
		text_add(&o, "needs %" PRIu32 " instances, each on a node of its own; %zu node%s known",
		         sh->instances, s->n_sorted, s->n_sorted == 1 ? " is" : "s are");
		return 0;
	}
	text_add(&o, "needs ");
	obstacle_need(&o, sh, &sh->groups[failed]);
	text_add(&o, "; ");
	if (only_apart(s, sh, mode, &failed)) {
		say_apart(s, sh, mode, &o);
		replacing_say_spares(s, sh, &o);
		return 0;
	}
	struct text rest = text_on(o.at + o.len, o.size - o.len); /* of this alone something may be taken back */

	say_obstacle(s, sh, failed, mode, &rest);
	o.len += rest.len;
	replacing_say_spares(s, sh, &o);
	return 0;
}

static int judge_new(const struct sched *s, const struct sched_job *j, unsigned mode, struct sched_reason *r)
{
	/* The shape is only borrowed: the library's state is as before. */
	struct sched *mut = (struct sched *)(uintptr_t)s;
	struct shape *sh = shape_get(mut, j);
	int rc = obstacle_judge(s, sh, mode, r);

	shape_put(mut, sh);
	return rc;
}

/* Follows S-327. */
int sched_possible(const struct sched *s, const struct sched_job *j, struct sched_reason *r)
{
	return judge_new(s, j, FIT_EMPTY | FIT_ANY_STATE, r);
}

int sched_placeable(const struct sched *s, const struct sched_job *j, struct sched_reason *r)
{
	return judge_new(s, j, FIT_EMPTY, r);
}
