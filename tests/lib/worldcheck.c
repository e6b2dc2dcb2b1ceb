/*
 * worldcheck: what must hold in a world at every instant: records against each other and against the
 * scheduler library, and the store against itself.
 */
#include <stdio.h>
#include <string.h>

#include "common/spec/spec.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/array.h"
#include "controller/share/pools.h"
#include "store/read/verify.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

/* What an array counts is what its members are. */
static const char *check_array(const struct core *c, const struct cjob *j)
{
	uint32_t n[N_JOB_STATUS] = {0}, admitted = 0, ended = 0;

	for (uint32_t i = 0; i < j->r.members; i++) {
		const struct cjob *m = job_find(c, j->r.id + 1 + i);

		if (!m || m->r.array != j->r.id || job_ended(m->r.status))
			continue;
		n[m->r.status]++;
		admitted += m->admitted;
		if (!m->admitted && m->act)
			return "a member that is not let go runs";
	}
	for (int s = 0; s < N_JOB_STATUS; s++) {
		if (job_ended((enum job_status)s))
			ended += j->arr->n[s];
		else if (n[s] != j->arr->n[s])
			return "an array's count of a status is wrong";
		else
			ended += n[s];
	}
	if (ended != j->arr->made)
		return "members are not counted";
	if (admitted != j->arr->admitted)
		return "the members that are let go are not counted";
	return j->arr->spec->max_parallel && admitted > j->arr->spec->max_parallel ? "too many members at once"
	                                                                           : NULL;
}

/* What a job holds by its record is what the scheduler library holds for it. */
static const char *check_holds(const struct world *w, const struct cjob *j)
{
	int busy = j->r.status >= JOB_STARTING && j->r.status <= JOB_STOPPING && j->r.att;
	uint64_t nodes[SPEC_MAX_NODES];
	size_t n = sched_job_nodes(w->core->sched, j->r.id, nodes, SPEC_MAX_NODES), known = 0;

	for (uint32_t i = 0; busy && i < j->r.att->n_places; i++) {
		const struct place_rec *p = &j->r.att->places[i];
		size_t k = 0;

		if (!rec_holds(&j->r, p))
			continue;
		while (k < n && nodes[k] != p->node_id)
			k++;
		if (k == n)
			return "a place that a job holds by its record is not held";
		known++;
	}
	return known == n ? NULL : "the library holds a place that its job does not hold by its record";
}

static int ids_meet(const struct wire_u32v *a, const struct wire_u32v *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		for (uint32_t k = 0; k < b->n; k++)
			if (a->v[i] == b->v[k])
				return 1;
	return 0;
}

/* An idle part belongs to one pool only, and no job holds anything of it. */
static const char *check_idle_part(const struct core *c, const struct pool_rec *p,
                                   const struct pool_part *part)
{
	for (const struct pool_rec *q = pool_first(c); q; q = pool_next(q)) {
		const struct pool_part *other = q != p && !q->ended_us ? pool_part_on(q, part->node_id) : NULL;

		if (other && !other->used_by &&
		    (ids_meet(&part->gpus, &other->gpus) || ids_meet(&part->cpus, &other->cpus)))
			return "two pools have the same GPU or slot";
	}
	for (const struct cjob *j = c->jobs.all; j; j = j->hh.next) {
		const struct place_rec *at =
		    j->r.att && !job_ended(j->r.status) ? rec_place_of(j->r.att, part->node_id) : NULL;

		if (at && rec_holds(&j->r, at) &&
		    (ids_meet(&part->gpus, &at->gpus) || ids_meet(&part->cpus, &at->cpus)))
			return "a job holds what an idle pool has";
	}
	return NULL;
}

static const char *check_pool(const struct core *c, const struct pool_rec *p)
{
	const struct cjob *user = job_find(c, pool_used_by(p));
	const char *bad = NULL;
	uint32_t idle = 0;

	if (!p->n_parts)
		return "a pool lives without a part";
	for (uint32_t i = 0; i < p->n_parts && !bad; i++) {
		idle += !p->parts[i].used_by;
		if (!p->parts[i].used_by)
			bad = check_idle_part(c, p, &p->parts[i]);
		else if (!user || job_ended(user->r.status) || p->parts[i].used_by != user->r.id)
			bad = "a part of a pool is used by a job that has ended";
		else if (strcmp(user->r.owner ? user->r.owner : "", p->owner ? p->owner : "") != 0)
			bad = "a job of another owner uses a pool";
	}
	if (!bad && sched_pool_parts(c->sched, p->id) != idle)
		bad = "the library has other parts of a pool than its record";
	return bad;
}

/* A job that has a pool is the one that uses it, or the last one that left something there. */
static const char *check_pools(const struct core *c)
{
	const char *bad = NULL;

	for (const struct pool_rec *p = pool_first(c); p && !bad; p = pool_next(p))
		if (!p->ended_us)
			bad = check_pool(c, p);
	for (const struct cjob *j = c->jobs.all; j && !bad; j = j->hh.next) {
		const struct pool_rec *p =
		    j->pool && !job_ended(j->r.status) ? cluster_pool(&c->records, j->pool) : NULL;

		if (p && !p->ended_us && pool_used_by(p) != j->r.id && p->last_job != j->r.id)
			bad = "two jobs have taken one pool";
	}
	return bad;
}

const char *world_check(struct world *w)
{
	const char *bad = sched_check(w->core->sched);
	uint64_t counts[N_JOB_STATUS] = {0};

	for (const struct cjob *j = w->core->jobs.all; j && !bad; j = j->hh.next) {
		bad = rec_check(&j->r);
		/* A test that loads a store twice has two records of a job. */
		if (!bad && !job_ended(j->r.status) && job_find(w->core, j->r.id) == j)
			bad = check_holds(w, j);
		if (!bad && j->arr)
			bad = check_array(w->core, j);
		if (!job_ended(j->r.status) && !j->r.members)
			counts[j->r.status]++;
		if (!bad && j->act && (!j->r.att || j->r.att->state == ATT_ENDED))
			bad = "an active job without an attempt";
		if (!bad && j->heap_at && w->core->jobs.heap[j->heap_at] != j)
			bad = "the heap of deadlines is broken";
	}
	if (!bad && w->core->life.loaded && !w->core->life.failing && !w->core->alloc.more)
		bad = check_pools(w->core);
	for (int i = 0; i < N_JOB_STATUS && !bad; i++)
		if (!job_ended((enum job_status)i) && counts[i] != w->core->jobs.counts[i])
			bad = "the count of a status is wrong";
	for (const struct cnode *n = node_first(w->core); n && !bad; n = node_next(n))
		for (uint32_t i = 0; i < n->n_jobs && !bad; i++)
			if (!n->jobs[i]->act || !rec_place_of(n->jobs[i]->r.att, n->r.id))
				bad = "a node lists a job that has nothing there";
	return bad;
}

static char findings[4096];

static void on_finding(const char *line, void *arg)
{
	size_t n = strlen(findings);

	(void)arg;
	if (strncmp(line, "skipped:", 8) == 0)
		return;
	tap_diag("verify: %s", line);
	snprintf(findings + n, sizeof findings - n, "%s\n", line);
}

const char *world_findings(const struct world *w)
{
	(void)w;
	return findings;
}

int world_verify(struct world *w)
{
	struct err e;
	int n;

	findings[0] = '\0';
	store_verify_set_reducer(event_reducer, NULL);
	store_verify_set_cluster(event_cluster_reducer);
	n = store_verify(w->path, on_finding, NULL, &e);
	if (n < 0)
		tap_diag("verify: %s", e.text);
	return n;
}
