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
