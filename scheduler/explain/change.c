/*
 * change: the least that a job could ask for otherwise to fit. Each kind of change is tried by itself, in the
 * order of what is lost by it: nothing (another queue, a shorter time, another type, another model of GPU,
 * another label), comfort (being close together, sharing the node, memory of GPUs, memory, disk, CPUs), work
 * (GPUs an instance, instances; where only a quota is in the way, whichever of the two leaves more GPUs).
 * What is named is allowed, too: by the quotas of the queue and owner, by reservations of nodes, and not
 * where a budget is used up. Of a kind the smallest change that helps is found by halving: what fits with
 * less of a thing fits with still less of it. So the effort is bounded: some two hundred looks at the nodes
 * at most, and eighty where no label is required; on more than a thousand nodes fewer (EFFORT), so that there
 * the least change may be missed, or that there is one.
 *
 * Beside it stands what an administrator could do: the drained nodes with which it would fit as it is.
 */
#include "scheduler/explain/explain.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"

#define TYPES_MAX  16 /* types, models and values of a label that are tried */
#define LABELS_MAX 4  /* required labels for which that is done */
#define DROPS_MAX  8
#define MIB        (1ull << 20) /* memory is looked for by this */
#define EFFORT     200000       /* nodes looked at, in all: then nothing more is tried */

struct ask {
	struct sched *s;
	struct sched_job job; /* as it is tried */
	struct sched_group *groups, *asked;
	const char **requires; /* a copy of those asked for; NULL none */
	const struct sched_job *from;
	unsigned mode;
	uint64_t effort; /* nodes looked at so far */
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

	reservation_try(a->s, booked ? &j : NULL, a->s->now_s);
	rc = fit_possible(a->s, sh, a->mode, &failed);
	reservation_try(a->s, NULL, 0);
	shape_put(a->s, sh);
	return rc;
}

/* Some day: no quota may be too small for it for ever. Follows S-333. */
static int quota_allows(const struct ask *a)
{
	const struct account *x = account_lowest(a->s, a->job.queue, a->job.owner);

	if (a->mode == FIT_NOW)
		return !x || account_full(x, gpus_of(&a->job)) != 2;
	return account_large_enough(x, gpus_of(&a->job));
}

/* Follows S-338. */
static int fits_changed(struct ask *a)
{
	if (a->effort > EFFORT || !quota_allows(a))
		return 0;
	a->effort += a->s->n_sorted;
	return has_room(a, a->mode == FIT_NOW && a->s->n_reservations);
}

static void undo_change(struct ask *a)
{
	a->job = *a->from;
	a->job.groups = a->groups;
	memcpy(a->groups, a->asked, a->from->n_groups * sizeof(*a->groups));
	for (size_t i = 0; a->requires && a->from->requires[i]; i++)
	a->requires[i] = a->from->requires[i];
	if (a->requires)
	a->job.requires = a->requires;
}

/* ---- what is given up, of v in 1..most ------------------------------------------------------- */

typedef void (*apply_fn)(struct ask *a, uint64_t v);

static void apply_memory(struct ask *a, uint64_t v)
{
	a->job.memory_bytes = v * MIB;
}

static void apply_disk(struct ask *a, uint64_t v)
{
	a->job.disk_bytes = v * MIB;
}

static void apply_gpu_memory(struct ask *a, uint64_t v)
{
	a->job.gpu_memory_bytes = v * MIB;
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

/* The greatest v below what was asked with which it fits; 0 none. Follows S-337. */
static uint64_t most_that_fits(struct ask *a, uint64_t asked, apply_fn apply)
{
	uint64_t lo = 0, hi = asked; /* fits at lo (or lo is 0), not at hi */

	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		undo_change(a);
		apply(a, mid);
		if (fits_changed(a))
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* The same of bytes, in MiB; rounded up, as what was asked does not fit and so that does not. */
static uint64_t most_bytes(struct ask *a, uint64_t asked, apply_fn apply)
{
	return most_that_fits(a, asked / MIB + (asked % MIB != 0), apply) * MIB;
}

static uint64_t find_greatest(const struct ask *a, int gpus)
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
	undo_change(a);
	if (a->mode != FIT_NOW || quota_allows(a))
		return 0;
	for (; queues && *queues; queues++) {
		a->job.queue = *queues;
		/* Only where nodes are reserved is the room another for another queue. */
		if (!quota_allows(a) || (a->s->n_reservations && !has_room(a, 1)))
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
		undo_change(a);
		one[0] = x->type;
		a->job.instance_types = one;
		if (!fits_changed(a))
			continue;
		out->name = x->type;
		best = x->price;
	}
	return out->name != NULL;
}

static int contains_word(const char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i], s) == 0)
			return 1;
	return 0;
}

static char lower_case(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Is `part` somewhere in `s`, be letters large or small? "h100" in "NVIDIA H100 80GB HBM3". */
static int is_within(const char *s, const char *part)
{
	for (; *s; s++) {
		size_t k = 0;

		while (part[k] && lower_case(s[k]) == lower_case(part[k]))
			k++;
		if (!part[k])
			return 1;
	}
	return 0;
}

/* Of the models that nodes have the one that is most likely meant (its name has what was asked in it), else
 * the one on the cheapest node. */
static int other_model(struct ask *a, struct sched_change *out)
{
	const char *seen[TYPES_MAX];
	double best = 0;
	size_t n = 0;
	int meant = 0;

	if (!a->from->gpu_model)
		return 0;
	for (size_t i = 0; i < a->s->n_sorted; i++) {
		const struct node *x = a->s->sorted[i];

		for (uint32_t k = 0; k < x->n_gpus && n < TYPES_MAX; k++) {
			const char *model = x->gpus[k].g.model;
			int alike = is_within(model, a->from->gpu_model);

			if (!x->gpus[k].present || strcmp(model, a->from->gpu_model) == 0 ||
			    contains_word(seen, n, model))
				continue;
			seen[n++] = model;
			undo_change(a);
			a->job.gpu_model = model;
			if ((out->name && (alike < meant || (alike == meant && x->price >= best))) || !fits_changed(a))
				continue;
			out->name = model;
			meant = alike;
			best = x->price;
		}
	}
	return out->name != NULL;
}

/* Another value of the required label `at` ("rack=1" for "rack=9"), the first with which it fits. */
static int other_value(struct ask *a, size_t at, struct sched_change *out)
{
	const char *asked = a->from->requires[at], *eq = strchr(asked, '='), *seen[TYPES_MAX];
	size_t n = 0;

	for (size_t i = 0; eq && i < a->s->n_sorted; i++)
		for (char **l = a->s->sorted[i]->labels; *l && n < TYPES_MAX; l++) {
			if (strncmp(*l, asked, (size_t)(eq - asked) + 1) != 0 || strcmp(*l, asked) == 0 ||
			    contains_word(seen, n, *l))
				continue;
			seen[n++] = *l;
			undo_change(a);
			a->requires[at] = *l;
			if (!fits_changed(a))
				continue;
			out->name = *l;
			out->value = at;
			return 1;
		}
	return 0;
}

static int drop_label(struct ask *a, size_t at)
{
	undo_change(a);
	for (size_t i = at; a->requires[i]; i++)
	a->requires[i] = a->from->requires[i + 1];
	return fits_changed(a);
}

/* One required label with another value; else one of them less. */
static int other_label(struct ask *a, struct sched_change *out)
{
	size_t n = 0;

	while (a->requires && n < LABELS_MAX && a->from->requires[n])
		n++;
	for (size_t i = 0; i < n; i++)
		if (other_value(a, i, out))
			return 1;
	for (size_t i = 0; i < n; i++)
		if (drop_label(a, i)) {
			out->value = i;
			return 1;
		}
	return 0;
}

#define MARGIN_S 120 /* until somebody has read it and submits */

/* The nodes have room, but it would be in the way of the one that a place is kept for, unless it ends before
 * that starts, or be there when nodes are reserved for others. A person comes later than now, so some of the
 * time until then is left. Follows S-334. */
static int shorter_time(struct ask *a, struct sched_change *out)
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
	undo_change(a);
	a->job.limit_s = most;
	if (s->n_reservations && !fits_changed(a))
		most = most_that_fits(a, most, apply_time);
	margin = most / 20 > MARGIN_S ? most / 20 : MARGIN_S;
	if (most <= 2 * margin || most == a->from->limit_s)
		return 0;
	out->value = most - margin;
	undo_change(a);
	a->job.limit_s = out->value;
	return fits_changed(a);
}

static int allow_spread(struct ask *a)
{
	undo_change(a);
	a->job.span = SCHED_SPAN_PREFER;
	return domain_needed(a->from->span) < LEVELS && fits_changed(a);
}

static int allow_share(struct ask *a)
{
	undo_change(a);
	a->job.exclusive = 0;
	return a->from->exclusive && fits_changed(a);
}

/* ---- all of them ------------------------------------------------------------------------------- */

static int try_kind(struct ask *a, enum sched_change_kind kind, const char *const *queues,
                    struct sched_change *out)
{
	switch (kind) {
	case SCHED_CHANGE_QUEUE:
		return other_queue(a, queues, out);
	case SCHED_CHANGE_TIME:
		return shorter_time(a, out);
	case SCHED_CHANGE_TYPE:
		return other_type(a, out);
	case SCHED_CHANGE_SPAN:
		return allow_spread(a);
	case SCHED_CHANGE_SHARE:
		return allow_share(a);
	case SCHED_CHANGE_MODEL:
		return other_model(a, out);
	case SCHED_CHANGE_LABEL:
		return other_label(a, out);
	case SCHED_CHANGE_GPU_MEMORY:
		out->value = most_bytes(a, a->from->gpu_memory_bytes, apply_gpu_memory);
		return out->value > 0;
	case SCHED_CHANGE_MEMORY:
		out->value = most_bytes(a, a->from->memory_bytes, apply_memory);
		return out->value > 0;
	case SCHED_CHANGE_DISK:
		out->value = most_bytes(a, a->from->disk_bytes, apply_disk);
		return out->value > 0;
	case SCHED_CHANGE_CPUS:
		out->value = most_that_fits(a, find_greatest(a, 0), apply_cpus);
		return out->value > 0;
	case SCHED_CHANGE_GPUS:
		out->value = most_that_fits(a, find_greatest(a, 1), apply_gpus);
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

/* The nodes have room and only a quota has none: fewer GPUs an instance or fewer instances, whichever leaves
 * more of them. Follows S-336. */
static int within_quota(struct ask *a, struct sched_change *out)
{
	struct sched_change one = {.kind = SCHED_CHANGE_GPUS}, other = {.kind = SCHED_CHANGE_INSTANCES};
	uint64_t left = 0;

	if (try_kind(a, one.kind, NULL, &one)) {
		undo_change(a);
		apply_gpus(a, one.value);
		left = gpus_of(&a->job);
		*out = one;
	}
	if (try_kind(a, other.kind, NULL, &other)) {
		undo_change(a);
		apply_instances(a, other.value);
		if (gpus_of(&a->job) > left)
			*out = other;
	}
	return out->value > 0;
}

static void ask_init(struct ask *a, const struct sched_job *j)
{
	size_t n = 0;

	while (j->requires && j->requires[n])
		n++;
	a->groups = mem_alloc(j->n_groups, sizeof(*a->groups));
	a->asked = mem_alloc(j->n_groups, sizeof(*a->asked));
	memcpy(a->asked, j->groups, j->n_groups * sizeof(*a->asked));
	a->requires = n ? mem_alloc(n + 1, sizeof(*a->requires)) : NULL;
	undo_change(a);
}

/* Follows S-332, S-335 and S-339. */
int sched_change(struct sched *s, const struct sched_job *j, const char *const *queues, int ever,
                 struct sched_change *out)
{
	struct ask a = {.s = s, .from = j, .mode = ever ? FIT_EMPTY | FIT_ANY_STATE : FIT_NOW};
	int found, as_it_is;

	memset(out, 0, sizeof(*out));
	/* A way around a budget that is used up is not offered: it is meant to hold. */
	if (!j->n_groups || (!ever && account_closed(s, j->queue, j->owner)))
		return 0;
	ask_init(&a, j);
	as_it_is = has_room(&a, 0);
	/* Where the nodes have room only its turn, a quota or a reservation is in the way. */
	found = as_it_is ? (try_kind(&a, out->kind = SCHED_CHANGE_QUEUE, queues, out) ||
	                    try_kind(&a, out->kind = SCHED_CHANGE_TIME, queues, out))
	                 : 0;
	undo_change(&a);
	if (as_it_is && !found && !quota_allows(&a)) {
		memset(out, 0, sizeof(*out));
		found = within_quota(&a, out);
	}
	undo_change(&a);
	as_it_is = as_it_is && !found && fits_changed(&a); /* of its turn: asking for less would not help */
	for (int k = SCHED_CHANGE_TYPE; !as_it_is && !found && k <= SCHED_CHANGE_INSTANCES; k++) {
		memset(out, 0, sizeof(*out));
		out->kind = (enum sched_change_kind)k;
		found = try_kind(&a, out->kind, queues, out);
	}
	if (!found)
		memset(out, 0, sizeof(*out));
	free(a.groups);
	free(a.asked);
	free(a.requires);
	return found;
}

/* ---- drained nodes ----------------------------------------------------------------------------- */

/* Those on which an instance of any group would fit; the others are put aside. Follows S-342. */
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
	return has_room(a, !(a->mode & FIT_EMPTY) && a->s->n_reservations);
}

/* As few as are found: the fewest from the first on, then without each of these that is not needed.
 * Follows S-343. */
static size_t find_fewest(struct ask *a, struct node **nodes, size_t all)
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
		if (!has_room(a, !(a->mode & FIT_EMPTY) && a->s->n_reservations))
			nodes[i]->drained = 1;
	}
	for (size_t i = 0; i < hi; i++)
		if (nodes[i]->drained == 1)
			nodes[kept++] = nodes[i];
	return kept;
}

/* Follows S-341. */
size_t sched_resume(struct sched *s, const struct sched_job *j, int empty, uint64_t *nodes, size_t max)
{
	struct ask a = {.s = s, .from = j, .job = *j, .mode = empty ? FIT_EMPTY : FIT_NOW};
	struct node **found;
	size_t n = 0, all;

	if (!s->n_drained || !j->n_groups || account_closed(s, j->queue, j->owner) || !quota_allows(&a) ||
	    has_room(&a, 0))
		return 0;
	found = mem_alloc(s->n_drained, sizeof(*found));
	a.mode |= FIT_DRAINED;
	all = drained_nodes(&a, found);
	if (all && fits_with(&a, found, all, all))
		n = find_fewest(&a, found, all);
	for (size_t i = 0; i < n && i < max; i++)
		nodes[i] = found[i]->id;
	for (size_t i = 0; i < s->n_sorted; i++)
		s->sorted[i]->drained = s->sorted[i]->drained != 0;
	free(found);
	return n;
}
