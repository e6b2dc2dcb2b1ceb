/*
 * lease: beats, and the decision that a node is lost.
 *
 * hearthd answers a beat at once, without waiting for the store: the answer renews the agent's lease and
 * claims nothing else. A closed connection is not a failure. A node is lost when no beat arrived for lease +
 * margin: by then its agent has asked its peers. If it was cut off from nodes that still have a controller,
 * it has killed its ranks.
 *
 * One exception exists. An agent that reaches a strict majority of its known peers (itself included), none of
 * which hears a controller, assumes that the controller is down and continues. A silent node is therefore
 * lost only when the nodes that are silent with it are no majority of its list, and have not been one for as
 * long as the agent may need to ask again and to kill. docs/spec/08-lease.md has the argument. An
 * administrator decides the remaining cases (req_node_lost).
 *
 * No node is declared lost in the first lease after the start: agents need time to connect.
 */
#include "controller/cluster/lease.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/lease_times.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/cluster/nodes.h"
#include "controller/cluster/peers.h"
#include "controller/cluster/rules.h"
#include "controller/cluster/suspect.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/attempt.h"
#include "controller/run/collect.h"
#include "controller/share/node_feed.h"
#include "controller/share/node_health.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define SOON_US      20000 /* many nodes that come back at once are looked at together */
#define SKEW_MOST_US (100ll * 365 * 86400 * 1000000)

static void answer_beat(struct core *c, struct cnode *n, uint64_t seq)
{
	struct wm_beat_ack m = {.seq = seq, .lease_ms = c->cfg.lease_ms, .real_us = now_real(c)};

	peers_tell(c, n, &m);
	c->io.send(n->name, n->session, WM_BEAT_ACK, &m, 0, c->io.arg);
	for (uint32_t i = 0; i < m.peers.n; i++)
		free(m.peers.v[i]);
	free(m.peers.v);
	peers_tell_retired(c, n); /* after the answer, which renews the lease */
	rules_tell(c, n);
}

static double finite_or_0(double v)
{
	return isfinite(v) && v >= 0 ? v : 0;
}

static void take_skew(struct cnode *n, const struct wm_beat *m)
{
	int unsound = m->ahead_us > SKEW_MOST_US || m->ahead_us < -SKEW_MOST_US;

	n->ahead_us = unsound ? 0 : m->ahead_us;
	n->ahead_error_us = unsound ? 0 : m->ahead_error_us;
	if (node_skewed(n) && !n->skewed)
		log_warn("event=clock_skew node=%s ahead_ms=%" PRId64 " error_ms=%" PRIu64
		         " text=\"run NTP or chrony\"",
		         n->name, n->ahead_us / 1000, n->ahead_error_us / 1000);
	n->skewed = (uint8_t)node_skewed(n);
}

void on_beat(struct core *c, struct cnode *n, const struct wm_beat *m)
{
	node_heard(c, n);
	n->load1 = finite_or_0(m->load1);
	n->cpu_used = finite_or_0(m->cpu_used);
	n->memory_used = m->memory_used;
	n->disk_free = m->disk_free;
	free(n->gpu_util.v);
	free(n->gpu_memory_used.v);
	n->gpu_util = (struct wire_f64v){xmemdup(m->gpu_util.v, m->gpu_util.n * sizeof(double)), m->gpu_util.n};
	n->gpu_memory_used = (struct wire_u64v){
	    xmemdup(m->gpu_memory_used.v, m->gpu_memory_used.n * sizeof(uint64_t)), m->gpu_memory_used.n};
	take_skew(n, m);
	peers_told(n, m->peers_gen);
	/* Its jobs may run elsewhere, and it understands no order to end its ranks. Without an answer its lease
	 * runs out, its peers hear this controller, and it ends them by itself. */
	if (n->r.state == NODE_LOST && node_outdated(n))
		return;
	answer_beat(c, n, m->seq);
}

uint64_t node_heard_at(const struct core *c, const struct cnode *n)
{
	return n->beat_us ? now_real(c) - (now_boot(c) - n->beat_us) : n->r.seen_us;
}

void node_is_lost(struct core *c, struct cnode *n, const char *why, const char *by)
{
	uint64_t silent = node_heard_at(c, n);
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "node", n->name);
	json_add_str(d, "text", why);
	json_add_u64(d, "silent_us", silent);
	if (by)
		json_add_str(d, "by", by);
	cluster_post(c, EV_GONE, d);
	c->peers.gen++; /* other nodes count their majority without it from now on */
	n->may_run_alone_until_us = 0;
	n->alone = n->silence_said = 0;
	suspect_end(c, n);
	lease_look_at(c, now_boot(c)); /* the others may reach it still */
	c->nodes.n_lost++;
	log_warn("event=node_lost node=%s jobs=%u text=\"%s\"", n->name, n->n_jobs, why);
	peers_changed(c);
	if (n->r.state == NODE_JOINING) /* a node that never was up cannot be lost */
		log_error("event=refused node=%s from=joining to=lost", n->name);
	if (n->connected)
		hold_close(c, n->name, n->session, "declared lost; connect again and report");
	n->connected = n->synced = 0;
	while (n->n_jobs) { /* place_lost takes each off the list */
		struct cjob *j = n->jobs[n->n_jobs - 1];
		struct place_rec *p = rec_place_of(j->r.att, n->r.id);

		place_lost(c, j, place_index(j, p), silent, 0, why);
		node_job_del(n, j);
	}
	collect_node_lost(c, n, silent, why);
	node_changed(c, n, 0);
	node_health_note(c, n, HEALTH_LOST, why);
}

static uint64_t silent_from(const struct core *c, const struct cnode *n)
{
	return n->beat_us > c->life.started_us ? n->beat_us : c->life.started_us;
}

uint64_t node_silent_us(const struct core *c, const struct cnode *n)
{
	return now_boot(c) - silent_from(c, n);
}

int node_is_dark(const struct core *c, const struct cnode *n)
{
	return !n->beat_us || n->beat_us < c->life.started_us ||
	       now_boot(c) - n->beat_us >= lease_sight_us(c->cfg.lease_ms);
}

static uint64_t patience_us(const struct core *c)
{
	uint64_t ms = (uint64_t)c->cfg.lease_ms + lease_margin_ms(c->cfg.lease_ms);

	return ms * 1000 / (FAULT("mistake.short_lease") ? 4 : 1);
}

int node_may_run_alone(const struct core *c, const struct cnode *n)
{
	return n->r.state == NODE_UP && n->may_run_alone_until_us && node_silent_us(c, n) >= patience_us(c);
}

/* Reports a silent node, once for each silence. */
static void report_silence(struct core *c, struct cnode *n)
{
	cJSON *d;

	if (n->silence_said)
		return;
	n->silence_said = 1;
	d = cJSON_CreateObject();
	json_add_str(d, "node", n->name);
	json_add_str(d, "text",
	             "silent, but not declared lost: it may reach a majority of its peers, all without this "
	             "controller, and carry on with them. If it is certain that it is down: jobctl node lost");
	cluster_post(c, EV_SILENT, d);
	log_warn("event=node_silent node=%s jobs=%u text=\"it may carry on without a controller\"", n->name,
	         n->n_jobs);
}

/* ---- who may run alone -------------------------------------------------------------------------------- */

/* hearthd itself was stopped, suspended or starved, and agents that heard nobody for so long may run alone.
 * The count starts again, as after a start. */
static void watch_self(struct core *c, uint64_t now)
{
	uint64_t lease_us = c->cfg.lease_ms * 1000ull;

	if (c->lease.watch_us && now > c->lease.watch_us + lease_us / 5) {
		log_warn("event=stood_still for_ms=%" PRIu64 " text=\"nobody is declared lost for a lease\"",
		         (now - c->lease.watch_us) / 1000);
		c->life.started_us = now;
	}
	c->lease.watch_us = now + lease_us / 16;
}

/* Marks the nodes that may run alone by the present silence of all nodes. One that might at the last look
 * counts as if it had been so until now. */
static void find_loners(struct core *c, uint64_t now)
{
	for (struct cnode *n = node_first(c); n; n = node_next(n)) {
		int was = n->alone;

		n->alone = n->r.state == NODE_UP && node_is_dark(c, n) && peers_may_carry_on(c, n);
		if (n->r.state == NODE_UP && (was || n->alone))
			n->may_run_alone_until_us = now + patience_us(c);
	}
}

void lease_look_at(struct core *c, uint64_t at_us)
{
	if (at_us < c->lease.check_us)
		c->lease.check_us = at_us;
}

void node_heard(struct core *c, struct cnode *n)
{
	uint64_t now = now_boot(c);

	if (node_is_dark(c, n)) {
		/* With it others may have run alone until now; the last look was before that if one is due. */
		if (now >= silence_next_us(c)) {
			watch_self(c, now);
			find_loners(c, now);
		}
		n->back_us = now;
		lease_look_at(c, now + SOON_US);
	}
	n->beat_us = now;
	n->r.seen_us = now_real(c);
	n->may_run_alone_until_us = 0;
	n->alone = n->silence_said = 0;
	suspect_end(c, n);
}

/* ---- the instants --------------------------------------------------------------------------------------
 */

static void settle_node(struct core *c, struct cnode *n, uint64_t now)
{
	uint64_t silent = node_silent_us(c, n);
	TEXT(why);

	if (n->r.state != NODE_UP)
		return;
	suspect_check(c, n);
	if (silent < patience_us(c))
		return;
	if (now < n->may_run_alone_until_us) {
		report_silence(c, n);
		return;
	}
	text_add(&why, "no sign of life for %.*f s", silent < 10000000 ? 2 : 0, (double)silent / 1e6);
	node_is_lost(c, n, why.at, NULL);
}

static void take_sooner(uint64_t *next, uint64_t now, uint64_t at)
{
	if (at > now && at < *next)
		*next = at;
}

/* Beats only delay a node's instants: what is found here is never too late. */
static uint64_t find_next(const struct core *c, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (const struct cnode *n = node_first(c); n; n = node_next(n)) {
		uint64_t from = silent_from(c, n);

		if (n->r.state != NODE_UP)
			continue;
		take_sooner(&next, now, from + lease_sight_us(c->cfg.lease_ms));
		take_sooner(&next, now, from + patience_us(c));
		take_sooner(&next, now, suspect_next_us(c, n));
		take_sooner(&next, now, n->may_run_alone_until_us);
		take_sooner(&next, now, n->back_us + lease_back_us(c->cfg.lease_ms));
	}
	return next;
}

uint64_t silence_next_us(const struct core *c)
{
	return c->lease.check_us < c->lease.watch_us ? c->lease.check_us : c->lease.watch_us;
}

void lease_check(struct core *c)
{
	uint64_t now = now_boot(c);

	watch_self(c, now);
	if (now < c->lease.check_us || c->life.failing)
		return;
	/* First find the nodes that may run alone, by the present silence of all nodes: a node that is declared
	 * lost below no longer counts as a peer of others. */
	c->lease.check_us = UINT64_MAX;
	find_loners(c, now);
	for (struct cnode *n = node_first(c); n; n = node_next(n))
		settle_node(c, n, now);
	lease_look_at(c, find_next(c, now));
}
