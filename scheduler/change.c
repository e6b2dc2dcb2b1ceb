/*
 * change: the least that a job could ask for otherwise to fit. Each kind of change is tried by itself, in the
 * order of what is lost by it: nothing (another queue, another type, a shorter time), comfort (being close
 * together, sharing the node, memory, CPUs), work (GPUs an instance, instances). What is named is allowed,
 * too: by the quotas of the queue and owner, by reservations of nodes, and not where a budget is used up. Of
 * a kind the smallest change that helps is found by halving: what fits with less of a thing fits with still
 * less of it. So the effort is bounded: some eighty looks at the nodes at most.
 *
 * Beside it stands what an administrator could do: the drained nodes with which it would fit as it is.
 */
#include "scheduler/model.h"
#include <string.h>

#define TYPES_MAX 16
#define DROPS_MAX 8
#define MIB       (1ull << 20) /* memory is looked for by this */

struct ask {
	struct sched *s;
	struct sched_job job; /* as it is tried */
	struct sched_group *groups, *asked;
	const struct sched_job *from;
	unsigned mode;
};

static uint64_t gpus_of(const struct sched_job *j)
{
	uint64_t gpus = 0;

	for (uint32_t i = 0; i < j->n_groups; i++)
		gpus += (uint64_t)j->groups[i].instances * j->groups[i].gpus;
	return gpus;
}

/* Do the nodes have room, but for those that are reserved for others while it would be there (booked)? The
 * shape is only borrowed: the library's state is as before. */
static int has_room(struct ask *a, int booked)
{
	struct shape *sh = shape_get(a->s, &a->job);
	struct lane lane = {.shape = sh,
	                    .account =
	                        (struct account *)(uintptr_t)account_lowest(a->s, a->job.queue, a->job.owner)};
	struct job j = {.shape = sh, .lane = &lane, .limit_s = a->job.limit_s};
	uint32_t failed;
	int rc;

	book_try(a->s, booked ? &j : NULL, a->s->now_s);
	rc = fit_possible(a->s, sh, a->mode, &failed);
	book_try(a->s, NULL, 0);
	shape_put(a->s, sh);
	return rc;
}

/* Some day: no quota may be too small for it for ever. */
static int quota_allows(const struct ask *a)
{
	const struct account *x = account_lowest(a->s, a->job.queue, a->job.owner);

	if (a->mode == FIT_NOW)
		return !x || account_full(x, gpus_of(&a->job)) != 2;
	return account_large_enough(x, gpus_of(&a->job));
}

static int fits(struct ask *a)
{
	return quota_allows(a) && has_room(a, a->mode == FIT_NOW && a->s->n_books);
}

static void undo(struct ask *a)
{
	a->job = *a->from;
	a->job.groups = a->groups;
	memcpy(a->groups, a->asked, a->from->n_groups * sizeof *a->groups);
}

/* ---- what is given up, of v in 1..most ------------------------------------------------------- */

typedef void (*apply_fn)(struct ask *a, uint64_t v);

static void apply_memory(struct ask *a, uint64_t v)
{
	a->job.memory_bytes = v * MIB;
}

static void apply_cpus(struct ask *a, uint64_t v)
{
	for (uint32_t i = 0; i < a->job.n_groups; i++)
		if (a->groups[i].cpus_per_rank > v)
			a->groups[i].cpus_per_rank = (uint32_t)v;
}

/* Where each GPU has its rank that stays so. */
static void apply_gpus(struct ask *a, uint64_t v)
{
	for (uint32_t i = 0; i < a->job.n_groups; i++) {
		struct sched_group *g = &a->groups[i];

		if (g->gpus <= v)
			continue;
		if (g->ranks == g->gpus)
			g->ranks = (uint32_t)v;
		g->gpus = (uint32_t)v;
	}
}

static void apply_time(struct ask *a, uint64_t v)
{
	a->job.limit_s = v;
}

static void apply_instances(struct ask *a, uint64_t v)
{
	a->groups[0].instances = (uint32_t)v;
}

/* The greatest v below what was asked with which it fits; 0 none. */
static uint64_t most_that_fits(struct ask *a, uint64_t asked, apply_fn apply)
{
	uint64_t lo = 0, hi = asked; /* fits at lo (or lo is 0), not at hi */

	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		undo(a);
		apply(a, mid);
		if (fits(a))
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static uint64_t greatest(const struct ask *a, int gpus)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < a->from->n_groups; i++) {
		uint64_t v = gpus ? a->asked[i].gpus : a->asked[i].cpus_per_rank;

		if (v > most)
			most = v;
	}
	return most;
}

/* ---- what costs nothing ---------------------------------------------------------------------- */

static int other_queue(struct ask *a, const char *const *queues, struct sched_change *out)
{
	undo(a);
	if (a->mode != FIT_NOW || quota_allows(a))
		return 0;
	for (; queues && *queues; queues++) {
		a->job.queue = *queues;
		/* Only where nodes are reserved is the room another for another queue. */
		if (!quota_allows(a) || (a->s->n_books && !has_room(a, 1)))
			continue;
		out->name = *queues;
		return 1;
	}
	return 0;
}

/* Of the types that nodes are of and that were not asked for, the cheapest with which it fits. */
static int other_type(struct ask *a, struct sched_change *out)
{
	const char *seen[TYPES_MAX + 1], *one[2] = {NULL, NULL};
	double best = 0;
	size_t n = 0;

	for (size_t i = 0; a->from->instance_types && *a->from->instance_types && i < a->s->n_sorted; i++) {
		const struct node *x = a->s->sorted[i];
		size_t k = 0;

		while (k < n && strcmp(seen[k], x->type) != 0)
			k++;
		if (k < n || n == TYPES_MAX || !*x->type || (out->name && x->price >= best))
			continue;
		seen[n++] = x->type;
		undo(a);
		one[0] = x->type;
		a->job.instance_types = one;
		if (!fits(a))
			continue;
		out->name = x->type;
		best = x->price;
	}
	return out->name != NULL;
}

#define MARGIN_S 120 /* until somebody has read it and submits */

/* The nodes have room, but it would be in the way of the one that a place is kept for, unless it ends before
 * that starts, or be there when nodes are reserved for others. A person comes later than now, so some of the
 * time until then is left. */
static int shorter(struct ask *a, struct sched_change *out)
{
	const struct sched *s = a->s;
	uint64_t most = a->from->limit_s, margin;

	if (a->mode != FIT_NOW || !most)
		return 0;
	if (s->head && s->head->id != a->from->id && s->shadow_s != UINT64_MAX) {
		if (s->shadow_s <= s->now_s + 1)
			return 0;
		most = s->shadow_s - s->now_s < most ? s->shadow_s - s->now_s : most;
	}
	undo(a);
	a->job.limit_s = most;
	if (s->n_books && !fits(a))
		most = most_that_fits(a, most, apply_time);
	margin = most / 20 > MARGIN_S ? most / 20 : MARGIN_S;
	if (most <= 2 * margin || most == a->from->limit_s)
		return 0;
	out->value = most - margin;
	undo(a);
	a->job.limit_s = out->value;
	return fits(a);
}

static int spreading(struct ask *a)
{
	undo(a);
	a->job.span = SCHED_SPAN_PREFER;
	return domain_needed(a->from->span) < LEVELS && fits(a);
}

static int sharing(struct ask *a)
{
	undo(a);
	a->job.exclusive = 0;
	return a->from->exclusive && fits(a);
}

/* ---- all of them ------------------------------------------------------------------------------- */

static int try_kind(struct ask *a, enum sched_change_kind kind, const char *const *queues,
                    struct sched_change *out)
{
	switch (kind) {
	case SCHED_CHANGE_QUEUE:
		return other_queue(a, queues, out);
	case SCHED_CHANGE_TIME:
		return shorter(a, out);
	case SCHED_CHANGE_TYPE:
		return other_type(a, out);
	case SCHED_CHANGE_SPAN:
		return spreading(a);
	case SCHED_CHANGE_SHARE:
		return sharing(a);
	case SCHED_CHANGE_MEMORY:
		/* Rounded up: what was asked does not fit, so that does not. */
		out->value = most_that_fits(a, a->from->memory_bytes / MIB + (a->from->memory_bytes % MIB != 0),
		                            apply_memory) *
		             MIB;
		return out->value > 0;
	case SCHED_CHANGE_CPUS:
		out->value = most_that_fits(a, greatest(a, 0), apply_cpus);
		return out->value > 0;
	case SCHED_CHANGE_GPUS:
		out->value = most_that_fits(a, greatest(a, 1), apply_gpus);
		return out->value > 0;
	case SCHED_CHANGE_INSTANCES:
		if (a->from->n_groups == 1)
			out->value = most_that_fits(a, a->asked[0].instances, apply_instances);
		return out->value > 0;
	case SCHED_CHANGE_NONE:
		break;
	}
	return 0;
}

int sched_change(struct sched *s, const struct sched_job *j, const char *const *queues, int ever,
                 struct sched_change *out)
{
	struct ask a = {.s = s, .from = j, .mode = ever ? FIT_EMPTY | FIT_ANY_STATE : FIT_NOW};
	int found, as_it_is;

	memset(out, 0, sizeof *out);
	/* A way around a budget that is used up is not offered: it is meant to hold. */
	if (!j->n_groups || (!ever && account_closed(s, j->queue, j->owner)))
		return 0;
	a.groups = mem_alloc(j->n_groups, sizeof *a.groups);
	a.asked = mem_alloc(j->n_groups, sizeof *a.asked);
	memcpy(a.asked, j->groups, j->n_groups * sizeof *a.asked);
	undo(&a);
	as_it_is = has_room(&a, 0);
	/* Where the nodes have room only its turn, a quota or a reservation is in the way. */
	found = as_it_is ? (try_kind(&a, out->kind = SCHED_CHANGE_QUEUE, queues, out) ||
	                    try_kind(&a, out->kind = SCHED_CHANGE_TIME, queues, out))
	                 : 0;
	undo(&a);
	as_it_is = as_it_is && !found && fits(&a); /* of its turn: asking for less would not help */
	for (int k = SCHED_CHANGE_TYPE; !as_it_is && !found && k <= SCHED_CHANGE_INSTANCES; k++) {
		memset(out, 0, sizeof *out);
		out->kind = (enum sched_change_kind)k;
		found = try_kind(&a, out->kind, queues, out);
	}
	if (!found)
		memset(out, 0, sizeof *out);
	free(a.groups);
	free(a.asked);
	return found;
}

/* ---- drained nodes ----------------------------------------------------------------------------- */

void sched_node_drained(struct sched *s, uint64_t id, int drained)
{
	struct node *n = model_node(s, id);

	if (!n)
		return;
	s->n_drained -= n->drained;
	n->drained = drained && !n->usable && n->known;
	s->n_drained += n->drained;
}

/* Those on which an instance of any group would fit; the others are put aside. */
static size_t drained_nodes(struct ask *a, struct node **out)
{
	struct shape *sh = shape_get(a->s, &a->job);
	size_t k = 0;

	for (size_t i = 0; i < a->s->n_sorted; i++) {
		struct node *n = a->s->sorted[i];
		int would = 0;

		for (uint32_t g = 0; n->drained && g < sh->n_groups && !would; g++)
			would = fit_node(a->s, n, sh, &sh->groups[g], NULL, a->mode);
		if (would)
			out[k++] = n;
		else if (n->drained)
			n->drained = 2;
	}
	shape_put(a->s, sh);
	return k;
}

/* The first `n` of them count, the others do not. */
static int fits_with(struct ask *a, struct node **nodes, size_t n, size_t all)
{
	for (size_t i = 0; i < all; i++)
		nodes[i]->drained = i < n ? 1 : 2;
	return has_room(a, !(a->mode & FIT_EMPTY) && a->s->n_books);
}

/* As few as are found: the fewest from the first on, then without each of these that is not needed. */
static size_t fewest(struct ask *a, struct node **nodes, size_t all)
{
	size_t lo = 0, hi = all, kept = 0; /* not with lo, with hi */

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (fits_with(a, nodes, mid, all))
			hi = mid;
		else
			lo = mid;
	}
	fits_with(a, nodes, hi, all);
	for (size_t i = 0; i < hi && hi <= DROPS_MAX && hi > 1; i++) {
		nodes[i]->drained = 2;
		if (!has_room(a, !(a->mode & FIT_EMPTY) && a->s->n_books))
			nodes[i]->drained = 1;
	}
	for (size_t i = 0; i < hi; i++)
		if (nodes[i]->drained == 1)
			nodes[kept++] = nodes[i];
	return kept;
}

size_t sched_resume(struct sched *s, const struct sched_job *j, int empty, uint64_t *nodes, size_t max)
{
	struct ask a = {.s = s, .from = j, .job = *j, .mode = empty ? FIT_EMPTY : FIT_NOW};
	struct node **found;
	size_t n = 0, all;

	if (!s->n_drained || !j->n_groups || account_closed(s, j->queue, j->owner) || !quota_allows(&a) ||
	    has_room(&a, 0))
		return 0;
	found = mem_alloc(s->n_drained, sizeof *found);
	a.mode |= FIT_DRAINED;
	all = drained_nodes(&a, found);
	if (all && fits_with(&a, found, all, all))
		n = fewest(&a, found, all);
	for (size_t i = 0; i < n && i < max; i++)
		nodes[i] = found[i]->id;
	for (size_t i = 0; i < s->n_sorted; i++)
		s->sorted[i]->drained = s->sorted[i]->drained != 0;
	free(found);
	return n;
}
