/*
 * sync: an agent connects and reports all its launches; hearthd settles the differences.
 *
 * - Both sides have the launch: the report counts as any other (report.c).
 * - Only the agent has it (an old epoch, an ended job, a launch given up): hearthd sends KILL, then COLLECT
 * without keeping files; the node gets no work until the launch is gone.
 * - Only hearthd has it, and the node was to prepare it: hearthd sends the order again.
 * - Only hearthd has it, and it was never launched: nothing was there.
 * - Only hearthd has it, and it was launched: the attempt ends. Its ranks there are lost when the agent
 * confirms, in answer to KILL, that nothing of the launch is left.
 */
#include "controller/cluster/sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/cluster/lease.h"
#include "controller/cluster/nodes.h"
#include "controller/cluster/peers.h"
#include "controller/cluster/prefetch.h"
#include "controller/cluster/suspect.h"
#include "controller/park/park.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/attempt.h"
#include "controller/run/collect.h"
#include "controller/run/report.h"
#include "controller/run/rsh.h"
#include "controller/run/stale.h"
#include "controller/share/node_feed.h"
#include "controller/share/node_health.h"
#include "controller/share/pools.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

/* Reports an agent without a common version: somebody must upgrade it. Once for each version that it comes
 * with, as it may connect often. */
static void post_outdated(struct core *c, struct cnode *n)
{
	TEXT(why);
	cJSON *d;

	log_warn("event=agent_outdated node=%s version=%u text=\"%s\"", n->name, n->version,
	         node_outdated_text(n, &why));
	if (n->outdated_said == n->version)
		return;
	n->outdated_said = n->version;
	d = cJSON_CreateObject();
	json_add_str(d, "node", n->name);
	json_add_str(d, "text", why.at);
	cluster_post(c, EV_OUTDATED, d);
}

static void take_boot_id(struct cnode *n, const char *boot_id)
{
	int known = *boot_id && strlen(boot_id) < sizeof(n->boot_id);

	if (known && *n->boot_id && strcmp(n->boot_id, boot_id) != 0)
		n->restarted = 1;
	snprintf(n->boot_id, sizeof(n->boot_id), "%s", known ? boot_id : "");
}

static void admit_session(struct core *c, struct cnode *n, uint64_t session, const struct wm_hello *hello)
{
	if (n->connected && n->session != session)
		hold_close(c, n->name, n->session, "another connection of this node");
	n->session = session;
	n->connected = 1;
	n->synced = n->syncing = 0;
	take_boot_id(n, hello ? hello->boot_id : "");
	n->instance = hello ? hello->instance : 0;
	n->version = hello ? hello->version : 0;
	snprintf(n->software, sizeof(n->software), "%s", hello && hello->software ? hello->software : "");
	node_heard(c, n);
	n->peers_sent_us = 0;
	n->retired_sent = 0;
	n->rules_sent = 0;
	node_changed(c, n, 0);
	log_info("event=agent_up node=%s session=%" PRIu64 " version=%u software=%s", n->name, session,
	         n->version, hello && hello->software ? hello->software : "?");
	if (node_outdated(n))
		post_outdated(c, n);
}

void agent_connected(struct core *c, const char *name, uint64_t session, const struct wm_hello *hello)
{
	struct cnode *n = node_find(c, name);
	char print[33] = "";
	struct err e;

	if (n && n->r.state == NODE_REMOVED) {
		hold_close(c, name, session, "this node was removed; join again with a new token");
		return;
	}
	if (c->io.fingerprint && c->io.fingerprint(hello->cert_pem, print, c->io.arg, &e) < 0) {
		hold_close(c, name, session, "its certificate cannot be read");
		return;
	}
	if (n && n->r.fingerprint && *print && strcmp(n->r.fingerprint, print) != 0) {
		hold_close(c, name, session, "another certificate was given out for this name since; join again");
		return;
	}
	if (!n) {
		/* hearthd signed the certificate, but no record has the name: records were restored from an older
		 * copy. */
		cJSON *d = cJSON_CreateObject();

		json_add_str(d, "node", name);
		json_add_str(d, "text", "known by its certificate alone");
		if (*print)
			json_add_str(d, "certificate", print);
		cluster_post(c, EV_JOINED, d);
		n = node_find(c, name);
		node_attach(c, n);
	}
	admit_session(c, n, session, hello);
}

void agent_gone(struct core *c, const char *name, uint64_t session, const char *why)
{
	struct cnode *n = node_find(c, name);

	if (!n || n->session != session || !n->connected)
		return;
	/* Not a failure: the agent connects again. Only an expired lease counts. */
	n->connected = n->synced = n->syncing = 0;
	n->gone_us = now_boot(c);
	lease_look_at(c, suspect_next_us(c, n));
	node_changed(c, n, 0);
	node_health_note(c, n, HEALTH_CONNECTION, why);
	log_info("event=agent_down node=%s text=\"%s\"", name, why ? why : "");
}

static struct place_rt *rt_on(const struct cjob *j, const struct cnode *n, struct place_rec **p)
{
	*p = rec_place_of(j->r.att, n->r.id);
	return place_rt(j, *p);
}

void on_sync_begin(struct core *c, struct cnode *n)
{
	struct place_rec *p;
	struct stale *s, *t;

	collect_sync_begin(n);
	park_sync_begin(c, n);
	n->syncing = 1;
	n->synced = 0;
	for (uint32_t i = 0; i < n->n_jobs; i++) {
		struct place_rt *rt = rt_on(n->jobs[i], n, &p);

		rt->reported = 0;
		rt->session = n->session;
		rt->sent = 0;
	}
	LL_FOREACH_SAFE (n->stale, s, t)
		free(s);
	n->stale = NULL;
}

/* Marks a recorded launch as cleaned: the node has nothing of it. */
static void gone_without_launch(struct core *c, struct cjob *j, struct cnode *n, const struct place_rec *p)
{
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "node_rank", place_index(j, p));
	json_add_str(d, "node", n->name);
	json_add_str(d, "text", "its agent has nothing of it");
	if (job_post(c, j, EV_NODE_CLEANED, d) < 0)
		return;
	place_cleaned(c, j, n);
}

static void launch_missing(struct core *c, struct cjob *j, struct cnode *n, struct place_rec *p)
{
	const struct attempt_rec *a = j->r.att;
	static const char text[] = "its agent knows nothing of the launch any more";
	cJSON *d;

	log_warn("event=launch_missing job=%" PRIu64 " attempt=%u node=%s", j->r.id, a->number, n->name);
	if (a->state == ATT_PREPARING) {
		if (p->state != PLACE_READY)
			return; /* send_orders sends it again */
		d = cJSON_CreateObject();
		json_add_u64(d, "node_rank", place_index(j, p));
		json_add_str(d, "node", n->name);
		json_add_str(d, "text", text);
		job_post(c, j, EV_NODE_PREPARING, d);
	} else if (a->state == ATT_ENDING && !rec_launched(a)) {
		gone_without_launch(c, j, n, p);
	} else if (p->state == PLACE_FAILED) {
		gone_without_launch(c, j, n, p);
	} else if (p->state == PLACE_ENDED) {
		place_lost(c, j, place_index(j, p), 0, 0, text);
	} else if (n->restarted) {
		/* What ran there ended with the boot in which it was started. */
		place_lost(c, j, place_index(j, p), 0, 0, "the machine was restarted");
	} else {
		place_vanished(c, j, p, text);
	}
}

void on_sync_end(struct core *c, struct cnode *n)
{
	uint32_t n_jobs = n->n_jobs;
	struct cjob **jobs;

	if (!n->syncing)
		return;
	jobs = xmemdup(n->jobs, n_jobs * sizeof(*jobs)); /* the list changes below */
	n->syncing = 0;
	n->synced = 1;
	for (uint32_t i = 0; i < n_jobs; i++) {
		struct place_rec *p;

		if (!rt_on(jobs[i], n, &p)->reported)
			launch_missing(c, jobs[i], n, p);
		job_touch(c, jobs[i]);
		if (jobs[i]->act)
			rsh_resend(c, jobs[i], place_index(jobs[i], p));
	}
	free(jobs);
	n->restarted = 0;
	collect_sync_end(c, n);
	park_sync_end(c, n);
	if (n->r.state != NODE_UP) {
		cJSON *d = cJSON_CreateObject();

		json_add_str(d, "node", n->name);
		cluster_post(c, EV_CONNECTED, d);
		peers_changed(c);
		c->peers.gen++;
		lease_look_at(c, now_boot(c));
	}
	node_changed(c, n, 0);
	pools_send(c, n);
	prefetch_due(c);
	log_info("event=synced node=%s launches=%u", n->name, n_jobs);
}
