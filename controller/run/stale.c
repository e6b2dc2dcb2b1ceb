/*
 * stale: launches that a node has and must not have. The node gets no work until they have ended.
 */
#include "controller/run/stale.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/pool.h"
#include "controller/record/rec.h"
#include "controller/run/attempt.h"
#include "controller/share/node_feed.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

static struct stale *stale_find(const struct cnode *n, uint64_t job, uint32_t attempt)
{
	for (struct stale *s = n->stale; s; s = s->next)
		if (s->job == job && s->attempt == attempt)
			return s;
	return NULL;
}

static void note(struct core *c, struct cnode *n, uint64_t job, uint32_t attempt)
{
	struct stale *s = xcalloc(1, sizeof(*s));

	s->job = job;
	s->attempt = attempt;
	LL_PREPEND(n->stale, s);
	node_changed(c, n, 0);
}

static void send_collect(struct core *c, const struct cnode *n, uint64_t job, uint32_t attempt,
                         uint64_t epoch)
{
	struct wm_collect collect = {.job = job, .attempt = attempt, .epoch = epoch, .keep = 0};

	hold_send(c, n, WM_COLLECT, &collect);
}

void stale_add(struct core *c, struct cnode *n, const struct cjob *j, uint32_t attempt)
{
	if (!stale_find(n, j->r.id, attempt))
		note(c, n, j->r.id, attempt);
	/* The agent's report may have come before, and the order to kill may be lost with a connection. An agent
	 * answers COLLECT at any time with how far the launch is; stale_report goes on from there. */
	send_collect(c, n, j->r.id, attempt, j->r.epoch);
}

void stale_report(struct core *c, struct cnode *n, const struct wm_launch_report *m)
{
	const struct cjob *j = job_find(c, m->job);
	const struct pool_rec *p = cluster_pool(&c->records, m->job);
	/* An agent drops orders below the greatest epoch it knows of the job, or of the pool. */
	uint64_t known = j ? j->r.epoch : p ? p->park_epoch : 0, epoch = known > m->epoch ? known : m->epoch;
	struct stale *s = stale_find(n, m->job, m->attempt);

	if (m->state == LAUNCH_CLEANED) {
		if (s) {
			LL_DELETE(n->stale, s);
			free(s);
			node_changed(c, n, 0);
		}
		return;
	}
	if (!s) {
		log_warn("event=stale_launch job=%" PRIu64 " attempt=%u epoch=%" PRIu64 " node=%s state=%u", m->job,
		         m->attempt, m->epoch, n->name, m->state);
		note(c, n, m->job, m->attempt);
	}
	if (m->state == LAUNCH_ENDED || m->state == LAUNCH_FAILED) {
		send_collect(c, n, m->job, m->attempt, epoch);
	} else if (m->state != LAUNCH_STOPPING) {
		struct wm_kill kill = {.job = m->job,
		                       .attempt = m->attempt,
		                       .epoch = epoch,
		                       .grace_ms = c->cfg.default_grace_s * 1000,
		                       .reason = (char *)(uintptr_t) "this launch is not the job's present one"};

		hold_send(c, n, WM_KILL, &kill);
	}
}
