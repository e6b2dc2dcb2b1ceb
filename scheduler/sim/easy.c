/*
 * easy: backfill with one reservation, for the first waiting job.
 *
 * When the head does not fit, running jobs are taken away by believed end until it would: the shadow time.
 * The view is the cluster at that time, less what was started past it. Jobs of one size all find the same
 * place now, and the question whether the head still fits beside them has one answer for all, so a pass asks
 * each size for its first job that may start (a tree over believed durations finds it) and takes the
 * earliest. While nothing starts or ends, jobs that could not start before cannot now (the shadow time only
 * comes nearer): then only the new ones are looked at.
 */
#include "scheduler/sim/sim_int.h"

#define NONE UINT32_MAX

static void easy_init(struct sim *s, const struct trace *t)
{
	(void)t;
	for (uint32_t i = 0; i < s->n_classes; i++) {
		struct sim_class *c = &s->classes[i];

		for (c->leaves = 1; c->leaves < c->n;)
			c->leaves *= 2;
		c->least = mem_alloc(2 * (size_t)c->leaves, sizeof(*c->least));
		memset(c->least, 0xff, 2 * (size_t)c->leaves * sizeof(*c->least));
	}
	s->view.free = mem_alloc(s->flat.nodes, 1);
	s->shadow_of = NONE;
}

static void easy_fini(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_classes; i++)
		free(s->classes[i].least);
	free(s->view.free);
	free(s->believed.v);
}

static void least_set(struct sim_class *c, uint32_t at, uint64_t value)
{
	uint32_t i = c->leaves + at;

	c->least[i] = value;
	for (i /= 2; i; i /= 2) {
		uint64_t l = c->least[2 * i], r = c->least[2 * i + 1], least = l < r ? l : r;

		if (c->least[i] == least)
			break;
		c->least[i] = least;
	}
}

static int may_start(const struct sim_class *c, uint32_t i, uint64_t limit)
{
	return c->least[i] <= limit && c->least[i] != SIM_NEVER;
}

/* The first waiting job of the class from job `from` on that is believed to take at most limit; NONE. */
static uint32_t class_first(const struct sim_class *c, uint32_t from, uint64_t limit)
{
	uint32_t i, lo = 0, hi = c->n;

	if (!may_start(c, 1, limit))
		return NONE;
	while (from && lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (c->jobs[mid] < from)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == c->n)
		return NONE;
	for (i = c->leaves + lo; !may_start(c, i, limit); i++) {
		while (i & 1) /* what lies to the right of it lies to the right of its parent */
			i /= 2;
		if (!i)
			return NONE;
	}
	while (i < c->leaves)
		i = 2 * i + !may_start(c, 2 * i, limit);
	return c->jobs[i - c->leaves];
}

static void easy_arrive(struct sim *s, uint32_t job)
{
	struct sim_class *c = &s->classes[s->live[job].class_id];

	c->waiting++;
	least_set(c, s->live[job].at, s->live[job].believed_s);
}

static size_t believed_at(const struct sim *s, const struct sim_key *k)
{
	size_t lo = 0, hi = s->believed.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (sim_heap_before(&s->believed.v[mid], k))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct sim_key believed_key(const struct sim *s, uint32_t job)
{
	return (struct sim_key){s->jobs[job].start_s + s->live[job].believed_s, job, job};
}

static void easy_started(struct sim *s, uint32_t job)
{
	struct sim_class *c = &s->classes[s->live[job].class_id];
	struct sim_key k = believed_key(s, job);
	size_t at = believed_at(s, &k);

	c->waiting--;
	least_set(c, s->live[job].at, SIM_NEVER);
	if (s->believed.n == s->believed.cap) {
		s->believed.cap = s->believed.cap ? s->believed.cap * 2 : 256;
		s->believed.v = mem_resize(s->believed.v, s->believed.cap, sizeof(*s->believed.v));
	}
	memmove(s->believed.v + at + 1, s->believed.v + at, (s->believed.n - at) * sizeof(k));
	s->believed.v[at] = k;
	s->believed.n++;
	s->changed = 1;
}

static void easy_ended(struct sim *s, uint32_t job, int well)
{
	struct sim_key k = believed_key(s, job);
	size_t at = believed_at(s, &k);

	(void)well;
	assert(at < s->believed.n && s->believed.v[at].job == job);
	s->believed.n--;
	memmove(s->believed.v + at, s->believed.v + at + 1, (s->believed.n - at) * sizeof(k));
	s->changed = 1;
}

/* All that is believed to have ended by then is gone, not only what makes the head fit. Follows S-414. */
static void look_ahead(struct sim *s, uint32_t head)
{
	uint64_t shadow = SIM_NEVER;

	flat_view_copy(&s->view, &s->flat);
	for (size_t i = 0; i < s->believed.n && (shadow == SIM_NEVER || s->believed.v[i].k <= shadow); i++) {
		const struct sim_job *j = &s->jobs[s->believed.v[i].job];

		flat_view_change(&s->view, j->gpus, j->nodes, 1);
		if (shadow == SIM_NEVER && flat_view_fits(&s->view, s->jobs[head].gpus))
			shadow = s->believed.v[i].k;
	}
	s->shadow = shadow;
	s->shadow_of = head;
}

/* Does the head still fit at the shadow time when a gang of that size runs on past it, from where it would be
 * put now? */
static int fits_beside(struct sim *s, uint32_t gpus)
{
	int fits;

	flat_find(&s->flat, gpus, s->spots);
	flat_view_change(&s->view, gpus, s->spots, -1);
	fits = flat_view_fits(&s->view, s->jobs[s->shadow_of].gpus);
	flat_view_change(&s->view, gpus, s->spots, 1);
	return fits;
}

static int in_time(const struct sim *s, uint32_t job)
{
	return s->shadow == SIM_NEVER || s->now + s->live[job].believed_s <= s->shadow;
}

static void backfill_job(struct sim *s, uint32_t job)
{
	sim_start(s, job);
	if (!in_time(s, job))
		flat_view_change(&s->view, s->jobs[job].gpus, s->jobs[job].nodes, -1);
}

static uint32_t find_candidate(struct sim *s, const struct sim_class *c, uint32_t from)
{
	if (!c->waiting || !flat_fits(&s->flat, c->gpus))
		return NONE;
	if (s->shadow == SIM_NEVER || fits_beside(s, c->gpus))
		return class_first(c, from, SIM_NEVER - 1);
	return s->shadow < s->now ? NONE : class_first(c, from, s->shadow - s->now);
}

/* One walk along the queue: where a start moves the place that others would get, what was passed over stays
 * so until the next pass. How many were started. */
static uint32_t backfill_all(struct sim *s, uint32_t from)
{
	for (uint32_t started = 0;; started++) {
		uint32_t best = NONE;

		for (uint32_t i = 0; i < s->n_classes; i++) {
			uint32_t j = find_candidate(s, &s->classes[i], from);

			if (j < best)
				best = j;
		}
		if (best == NONE)
			return started;
		backfill_job(s, best);
		from = best + 1;
	}
}

static uint32_t head_of(const struct sim *s)
{
	uint32_t head = NONE;

	for (uint32_t i = 0; i < s->n_classes; i++) {
		uint32_t j = class_first(&s->classes[i], 0, SIM_NEVER - 1);

		if (j < head)
			head = j;
	}
	return head;
}

static int any_fits(const struct sim *s)
{
	for (uint32_t i = 0; i < s->n_classes; i++)
		if (s->classes[i].waiting && flat_fits(&s->flat, s->classes[i].gpus))
			return 1;
	return 0;
}

/* Follows S-415. */
static void easy_pass(struct sim *s, uint32_t first_new)
{
	uint32_t head = s->changed || s->shadow_of == NONE ? head_of(s) : s->shadow_of;

	while (head != NONE && flat_fits(&s->flat, s->jobs[head].gpus)) {
		sim_start(s, head);
		head = head_of(s);
	}
	if (head == NONE) {
		s->shadow_of = NONE;
		return;
	}
	if (s->changed || s->shadow_of != head) {
		s->shadow_of = NONE;
		s->changed = 1; /* still to be looked at when something fits */
		if (!any_fits(s))
			return;
		look_ahead(s, head);
		first_new = head + 1;
	}
	s->changed = backfill_all(s, first_new) > 0;
}

const struct sim_rule easy_rule = {
    .init = easy_init,
    .fini = easy_fini,
    .arrive = easy_arrive,
    .started = easy_started,
    .ended = easy_ended,
    .pass = easy_pass,
};
