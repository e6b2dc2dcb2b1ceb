/*
 * sched: the public entry: jobs in, decisions out.
 *
 * A step looks at the first waiting job of each shape, takes the one that is first by order, and places it or
 * stops: a blocked job is not tried again until something changed (gen), a shape that the usable nodes could
 * not hold even when empty not until the set of nodes changed (nodes_gen). So a long queue costs nothing
 * while it waits.
 */
#include "scheduler/model.h"
#include <string.h>

struct sched *sched_create(void)
{
	struct sched *s = xcalloc(1, sizeof *s);

	s->gen = s->nodes_gen = 1;
	return s;
}

static struct job *find(const struct sched *s, uint64_t id)
{
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	return j;
}

static struct job *job_make(struct sched *s, uint64_t id)
{
	struct job *j = xcalloc(1, sizeof *j);

	j->id = id;
	HASH_ADD(hh, s->jobs, id, sizeof j->id, j);
	return j;
}

static void unqueue(struct sched *s, struct job *j)
{
	if (!j->is_waiting)
		return;
	queue_remove(j->shape, j);
	s->n_waiting--;
}

int sched_job_add(struct sched *s, const struct sched_job *in)
{
	struct job *j = find(s, in->id);
	struct shape *sh;

	if (j && j->n_holds)
		return -1;
	sh = shape_get(s, in);
	if (!j)
		j = job_make(s, in->id);
	unqueue(s, j);
	if (j->shape)
		shape_put(s, j->shape);
	j->shape = sh;
	j->priority = in->priority;
	j->order = in->order;
	queue_insert(sh, j);
	s->n_waiting++;
	return 0;
}

void sched_job_remove(struct sched *s, uint64_t id)
{
	struct job *j = find(s, id);

	if (!j)
		return;
	unqueue(s, j);
	while (j->n_holds)
		model_give_back(s, j, j->n_holds - 1);
	if (j->shape)
		shape_put(s, j->shape);
	free(j->holds);
	HASH_DELETE(hh, s->jobs, j);
	free(j);
}

void sched_job_release_place(struct sched *s, uint64_t id, uint64_t node)
{
	struct job *j = find(s, id);

	for (uint32_t i = 0; j && i < j->n_holds;) {
		if (j->holds[i].node->id == node)
			model_give_back(s, j, i);
		else
			i++;
	}
}

void sched_job_holds(struct sched *s, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                     uint64_t disk_bytes, int exclusive)
{
	struct job *j = find(s, id);

	if (!j)
		j = job_make(s, id);
	unqueue(s, j);
	for (uint32_t i = 0; i < d->n; i++) {
		const struct sched_place *p = &d->places[i];
		struct node *n = model_node(s, p->node);
		struct hold h = {.group = p->group,
		                 .n_gpus = p->n_gpus,
		                 .n_cpus = p->n_cpus,
		                 .gpus = p->gpus,
		                 .cpus = p->cpus,
		                 .memory = memory_bytes,
		                 .disk = disk_bytes,
		                 .exclusive = exclusive};

		h.node = n ? n : model_node_make(s, p->node);
		model_take(s, j, &h);
	}
	s->gen++;
}

/* ---- deciding -------------------------------------------------------------------------------- */

static int hopeless(const struct sched *s, const struct shape *sh)
{
	return sh->hopeless_gen == s->nodes_gen;
}

static struct job *head(const struct sched *s)
{
	struct job *best = NULL;

	for (const struct shape *sh = s->shapes; sh; sh = sh->hh.next) {
		struct job *j = hopeless(s, sh) ? NULL : queue_first(sh);

		if (j && (!best || queue_before(j, best)))
			best = j;
	}
	return best;
}

static void place_fill(struct sched_place *p, const struct hold *h)
{
	p->node = h->node->id;
	p->group = h->group;
	p->gpus = h->gpus;
	p->n_gpus = h->n_gpus;
	p->cpus = h->cpus;
	p->n_cpus = h->n_cpus;
}

static struct sched_decision *take(struct sched *s, struct job *j, const int32_t *assign)
{
	struct sched_decision *d = xcalloc(1, sizeof *d);

	d->job = j->id;
	d->places = xcalloc(j->shape->instances, sizeof *d->places);
	unqueue(s, j);
	for (uint32_t g = 0; g < j->shape->n_groups; g++) {
		for (size_t i = 0; i < s->n_sorted; i++) {
			struct hold h;

			if (assign[i] != (int32_t)g)
				continue;
			fit_choose(s->sorted[i], j->shape, g, &h);
			h.node = s->sorted[i];
			model_take(s, j, &h);
			place_fill(&d->places[d->n++], &h); /* h's vectors go to the decision */
		}
	}
	return d;
}

struct sched_decision *sched_step(struct sched *s)
{
	struct sched_decision *d = NULL;
	int32_t *assign = NULL;

	for (struct job *j = head(s); j && !d; j = head(s)) {
		if (s->blocked_job == j->id && s->blocked_gen == s->gen)
			break;
		if (!assign)
			assign = xcalloc(s->n_sorted + 1, sizeof *assign);
		if (fit_gang(s, j->shape, FIT_NOW, assign)) {
			d = take(s, j, assign);
		} else if (!fit_gang(s, j->shape, FIT_EMPTY, assign)) {
			j->shape->hopeless_gen = s->nodes_gen;
		} else {
			s->blocked_job = j->id;
			s->blocked_gen = s->gen;
			break;
		}
	}
	free(assign);
	return d;
}

void sched_decision_free(struct sched_decision *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->n; i++) {
		free(d->places[i].gpus);
		free(d->places[i].cpus);
	}
	free(d->places);
	free(d);
}

void sched_count(const struct sched *s, size_t *waiting, size_t *nodes, size_t *usable)
{
	if (waiting)
		*waiting = s->n_waiting;
	if (nodes)
		*nodes = s->n_sorted;
	if (usable) {
		*usable = 0;
		for (size_t i = 0; i < s->n_sorted; i++)
			*usable += (size_t)s->sorted[i]->usable;
	}
}

size_t sched_waiting(const struct sched *s, uint64_t *ids, size_t max)
{
	uint32_t *taken =
	    xcalloc(HASH_COUNT(s->shapes) + 1, sizeof *taken); /* of each shape, in the list's order */
	size_t n = 0;

	while (n < max) {
		const struct job *best = NULL;
		size_t k = 0, of = 0;

		for (const struct shape *sh = s->shapes; sh; sh = sh->hh.next, k++) {
			const struct job *j = queue_at(sh, taken[k]);

			if (j && (!best || queue_before(j, best))) {
				best = j;
				of = k;
			}
		}
		if (!best)
			break;
		taken[of]++;
		ids[n++] = best->id;
	}
	free(taken);
	return n;
}
