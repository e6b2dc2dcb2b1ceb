/*
 * suspect: nodes of which hearthd misses a sign of life, long before their lease is over.
 *
 * A node is suspect when its connection has ended and no other one came within CLOSED_US, or when two beats
 * are missing. A suspect node gets no work, and the jobs that run there are reviewed, so that what may be
 * needed elsewhere can be prepared. Two agents are asked to look at it (looks.c): what it answers may prove
 * that its launches are over. Else only the lease decides that a node is lost (lease.c). The event is posted
 * once for each silence, and once in a lease at most.
 */
#include "controller/cluster/suspect.h"

#include "common/base/json.h"
#include "common/base/lease_times.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "controller/cluster/lease.h"
#include "controller/cluster/looks.h"
#include "controller/cluster/prefetch.h"
#include "controller/record/event.h"
#include "controller/record/states.h"
#include "controller/share/node_feed.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

#define CLOSED_US 250000 /* an agent that is replaced, or dials again, is back sooner */
#define LATE_US   250000 /* that a beat may be late */

/* When the node becomes suspect, if nothing is heard of it. */
static uint64_t suspicion_us(const struct core *c, const struct cnode *n)
{
	uint64_t lease_us = c->cfg.lease_ms * 1000ull;
	uint64_t beats_us = 2ull * lease_beat_ms(c->cfg.lease_ms, c->cfg.beat_ms) * 1000 + LATE_US;
	uint64_t at = n->beat_us + beats_us;

	/* After the start of hearthd agents need time to connect. */
	if (!n->beat_us || n->beat_us < c->life.started_us)
		at = c->life.started_us + lease_us / 2;
	else if (n->gone_us && n->gone_us + CLOSED_US < at)
		at = n->gone_us + CLOSED_US;
	return at;
}

uint64_t suspect_next_us(const struct core *c, const struct cnode *n)
{
	return n->suspect_since_us ? looks_next_us(n) : suspicion_us(c, n);
}

/* The plan for a job may depend on whether its nodes are heard. */
static void suspicion_changed(struct core *c, struct cnode *n)
{
	node_changed(c, n, 0);
	for (uint32_t i = 0; i < n->n_jobs; i++)
		job_touch(c, n->jobs[i]);
}

static void post_suspicion(struct core *c, struct cnode *n)
{
	cJSON *d = cJSON_CreateObject();
	TEXT(why);

	if (n->gone_us)
		text_add(&why, "its connection ended %.1f s ago, and it has not come back; ",
		         (double)(now_boot(c) - n->gone_us) / 1e6);
	else
		text_add(&why, "no sign of life for %.1f s; ", (double)node_silent_us(c, n) / 1e6);
	text_add(&why, "it gets no new work, and its lease decides whether it is lost");
	json_add_str(d, "node", n->name);
	json_add_str(d, "text", why.at);
	cluster_post(c, EV_SUSPECT, d);
	log_warn("event=node_suspect node=%s jobs=%u text=\"%s\"", n->name, n->n_jobs, why.at);
}

/* The suspicion has effects at once; a connection that comes and goes makes one event in a lease. */
static void suspect_begin(struct core *c, struct cnode *n)
{
	uint64_t lease_us = c->cfg.lease_ms * 1000ull, now = now_boot(c);

	n->suspect_since_us = now_real(c);
	if (!n->suspect_said_us || now >= n->suspect_said_us + lease_us) {
		n->suspect_said_us = now;
		post_suspicion(c, n);
	}
	suspicion_changed(c, n);
	prefetch_suspect(c, n);
}

void suspect_check(struct core *c, struct cnode *n)
{
	if (now_boot(c) < suspect_next_us(c, n))
		return;
	if (!n->suspect_since_us)
		suspect_begin(c, n);
	looks_check(c, n);
}

void suspect_end(struct core *c, struct cnode *n)
{
	n->gone_us = 0;
	if (!n->suspect_since_us)
		return;
	n->suspect_since_us = 0;
	looks_end(n);
	suspicion_changed(c, n);
}
