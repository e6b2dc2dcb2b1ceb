/*
 * points: metric points from agents to the store.
 *
 * A chunk holds points of one series. Chunks have transactions of their own and are acknowledged when they
 * are durable.
 */
#include "controller/run/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/run/array.h"
#include "controller/run/checkpoints.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/quota.h"
#include "controller/state/turn.h"

#define WAITING_MAX                                                                                          \
	20000 /* chunks that wait for a slow store; further ones are dropped, and agents send them again */
#define NAME_MAX_BYTES 128

struct point {
	uint32_t name, rank, at;
};

static int by_series(const void *pa, const void *pb)
{
	const struct point *a = pa, *b = pb;

	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int well_formed(const struct wm_metrics *m)
{
	uint32_t n = m->name_ix.n;

	if (m->ranks.n != n || m->steps.n != n || m->values.n != n || m->times.n != n)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (m->name_ix.v[i] >= m->names.n)
			return 0;
	for (uint32_t i = 0; i < m->names.n; i++)
		if (!*m->names.v[i] || strlen(m->names.v[i]) > NAME_MAX_BYTES)
			return 0;
	return 1;
}

/* Returns 1 for points of the job's newest attempt. Points have a connection of their own and may arrive
 * after the job's end. */
static int is_current(struct core *c, const struct wm_metrics *m)
{
	const struct cjob *j = job_find(c, m->job);
	struct job_row row = {0};
	struct err e;

	if (!m->attempt) /* what never ran, an array above all, has no points */
		return 0;
	if (j && j->collect && j->collect_attempt == m->attempt)
		return 1;
	if (j)
		return j->r.epoch == m->epoch && j->r.attempts == m->attempt;
	if (c->points.late_job != m->job) {
		if (!c->io.job_row || c->io.job_row(m->job, &row, c->io.arg, &e) < 0)
			return 0;
		c->points.late_job = m->job;
		c->points.late_epoch = row.epoch;
		c->points.late_attempt = row.attempts;
		job_row_fini(&row);
	}
	return c->points.late_epoch == m->epoch && c->points.late_attempt == m->attempt;
}

static void note_step(struct cjob *j, uint32_t rank, uint64_t at_us)
{
	uint32_t n = j->r.att->n_ranks;

	if (rank >= n)
		return;
	if (!j->act->step_us)
		j->act->step_us = xcalloc(n, sizeof(*j->act->step_us));
	if (at_us > j->act->step_us[rank])
		j->act->step_us[rank] = at_us;
}

static void keep_last(struct core *c, const struct wm_metrics *m)
{
	struct cjob *j = job_find(c, m->job);

	if (!j || !j->act)
		return;
	for (uint32_t i = 0; i < m->name_ix.n; i++) {
		const char *name = m->names.v[m->name_ix.v[i]];
		struct active *a = j->act;
		uint32_t k = 0;

		if (m->steps.v[i] >= 0 && (uint64_t)m->steps.v[i] >= a->steps)
			a->steps = (uint64_t)m->steps.v[i] + 1;
		if (m->steps.v[i] >= 0)
			note_step(j, m->ranks.v[i], m->times.v[i]);
		if (strcmp(name, "loss") == 0)
			checkpoint_loss(a, m->steps.v[i], m->values.v[i]);
		if (!isfinite(m->values.v[i]) || strlen(name) >= sizeof(a->last[0].name))
			continue;
		while (k < a->n_last && strcmp(a->last[k].name, name) != 0)
			k++;
		if (k == sizeof(a->last) / sizeof(*a->last))
			continue;
		if (k == a->n_last)
			snprintf(a->last[a->n_last++].name, sizeof(a->last[0].name), "%s", name);
		a->last[k].value = m->values.v[i];
	}
}

static void put_series(struct turn *t, const char *node, const struct wm_metrics *m, const struct point *p,
                       uint32_t n)
{
	struct metric_chunk ch = {.job = m->job,
	                          .attempt = m->attempt,
	                          .rank = p->rank,
	                          .name = m->names.v[p->name],
	                          .n = n,
	                          .steps = xcalloc(n, sizeof(*ch.steps)),
	                          .values = xcalloc(n, sizeof(*ch.values)),
	                          .times_us = xcalloc(n, sizeof(*ch.times_us)),
	                          .seq = m->seq,
	                          .node = (char *)(uintptr_t)node};

	for (uint32_t i = 0; i < n; i++) {
		ch.steps[i] = m->steps.v[p[i].at];
		ch.values[i] = m->values.v[p[i].at];
		ch.times_us[i] = m->times.v[p[i].at];
	}
	store_txn_metric(t->txn, &ch);
	t->n++;
	free(ch.steps);
	free(ch.values);
	free(ch.times_us);
}

int on_metrics(struct core *c, const char *node, const struct wm_metrics *m)
{
	struct cjob *j = job_find(c, m->job);
	uint32_t n = m->name_ix.n;
	struct point *p;

	if (c->life.failing || (c->turn.metrics && c->turn.metrics->n > WAITING_MAX))
		return 0;
	hold_metrics_ack(c, node, m->job, m->attempt, m->seq);
	if (!n || !well_formed(m) || !is_current(c, m)) {
		if (n)
			log_debug("event=points_dropped job=%" PRIu64 " attempt=%u node=%s", m->job, m->attempt, node);
		return 0;
	}
	p = xcalloc(n, sizeof(*p));
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct point){m->name_ix.v[i], m->ranks.v[i], i};
	qsort(p, n, sizeof(*p), by_series);
	for (uint32_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && p[k].name == p[i].name && p[k].rank == p[i].rank;)
			k++;
		if (!j || !j->act || quota_series(c, j, m->names.v[p[i].name], p[i].rank))
			put_series(c->turn.metrics, node, m, p + i, k - i);
	}
	free(p);
	if (j && j->r.attempts != m->attempt) /* late ones: what counts is where the job is now */
		return 0;
	keep_last(c, m);
	array_points(c, m);
	return 1;
}
