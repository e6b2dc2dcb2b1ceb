/*
 * lease: beats, and when a node counts as lost.
 *
 * A beat is answered at once, without waiting for the store: the answer renews the agent's lease and claims
 * nothing else. A closed connection is not failure. A node is lost when no beat came for lease + margin: by
 * then its agent has asked its peers and, if it was cut off from those who still have a controller, killed
 * its ranks.
 *
 * Nobody is declared lost in the first lease after the start (agents need time to connect), nor while more
 * than half of the nodes that are up are silent: then it is more likely that this controller is the one that
 * is cut off, and a majority of agents that reach each other carries on without a controller. With exactly
 * half silent the agents of either half have no majority and kill, so declaring is safe.
 */
#include "common/json.h"
#include "common/log.h"
#include "controller/core_int.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PEERS_MAX                                                                                            \
	64 /* told to one agent: a sample is enough for a majority, and it must fit in a message                 \
	    */
#define PEERS_PAUSE_US 2000000 /* between two changes told to the same agent */
#define CHECK_EVERY_US 250000

static int by_id(const void *pa, const void *pb)
{
	const struct cnode *const *a = pa, *const *b = pb;

	return (*a)->id < (*b)->id ? -1 : (*a)->id > (*b)->id;
}

/* The nodes after this one by id, round to the first: every node is a peer of others equally often. */
static void add_peers(const struct core *c, const struct cnode *self, struct wire_strv *out)
{
	size_t n = 0, total = HASH_COUNT(c->nodes), at = 0;
	struct cnode **all = xcalloc(total + 1, sizeof *all);

	for (struct cnode *x = c->nodes; x; x = x->hh.next)
		if (x->state != NODE_REMOVED && x->inv.known && x->inv.peer_port && *x->inv.address)
			all[n++] = x;
	qsort(all, n, sizeof *all, by_id);
	while (at < n && all[at]->id <= self->id)
		at++;
	for (size_t i = 0; i < n && i < PEERS_MAX; i++) {
		const struct cnode *x = all[(at + i) % n];
		char *text;

		if (x == self)
			continue;
		text = xasprintf(strchr(x->inv.address, ':') ? "%s [%s]:%u" : "%s %s:%u", x->name, x->inv.address,
		                 x->inv.peer_port);
		wire_strv_add(out, text);
		free(text);
	}
	free(all);
}

static void answer_beat(struct core *c, struct cnode *n, uint64_t seq)
{
	struct wm_beat_ack m = {.seq = seq, .lease_ms = c->cfg.lease_ms, .real_us = now_real(c)};
	uint64_t now = now_boot(c);

	if (n->peers_sent_gen != c->peers_gen &&
	    (!n->peers_sent_us || now - n->peers_sent_us >= PEERS_PAUSE_US)) {
		add_peers(c, n, &m.peers);
		m.peers_changed = 1;
		n->peers_sent_gen = c->peers_gen;
		n->peers_sent_us = now;
	}
	c->io.send(n->name, n->session, WM_BEAT_ACK, &m, 0, c->io.arg);
	for (uint32_t i = 0; i < m.peers.n; i++)
		free(m.peers.v[i]);
	free(m.peers.v);
}

static double finite_or_0(double v)
{
	return isfinite(v) && v >= 0 ? v : 0;
}

void on_beat(struct core *c, struct cnode *n, const struct wm_beat *m)
{
	n->beat_us = now_boot(c);
	n->seen_us = now_real(c);
	n->load1 = finite_or_0(m->load1);
	n->cpu_used = finite_or_0(m->cpu_used);
	n->memory_used = m->memory_used;
	n->disk_free = m->disk_free;
	free(n->gpu_util.v);
	free(n->gpu_memory_used.v);
	n->gpu_util = (struct wire_f64v){xmemdup(m->gpu_util.v, m->gpu_util.n * sizeof(double)), m->gpu_util.n};
	n->gpu_memory_used = (struct wire_u64v){
	    xmemdup(m->gpu_memory_used.v, m->gpu_memory_used.n * sizeof(uint64_t)), m->gpu_memory_used.n};
	answer_beat(c, n, m->seq);
}

void node_is_lost(struct core *c, struct cnode *n, const char *why)
{
	uint64_t silent = n->beat_us ? now_real(c) - (now_boot(c) - n->beat_us) : n->seen_us;
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "node", n->name);
	json_add_str(d, "text", why);
	json_add_u64(d, "silent_us", silent);
	cluster_post(c, EV_GONE, d);
	c->n_lost_nodes++;
	log_warn("event=node_lost node=%s jobs=%u text=\"%s\"", n->name, n->n_jobs, why);
	if (n->state != NODE_REMOVED)
		node_state(c, n, NODE_LOST, why);
	if (n->connected)
		hold_close(c, n->name, n->session, "declared lost; connect anew and report");
	n->connected = n->synced = 0;
	while (n->n_jobs) { /* place_lost takes each off the list */
		struct cjob *j = n->jobs[n->n_jobs - 1];
		struct place_rec *p = rec_place_of(j->r.att, n->id);

		place_lost(c, j, place_index(j, p), silent, 0, why);
		node_job_del(n, j);
	}
	node_update_sched(c, n, 0);
}

static uint64_t last_sign(const struct core *c, const struct cnode *n)
{
	return n->beat_us > c->started_us ? n->beat_us : c->started_us;
}

void lease_check(struct core *c)
{
	uint64_t now = now_boot(c), lease = (uint64_t)c->cfg.lease_ms * 1000;
	unsigned known = 0, silent = 0;

	c->lease_check_us = now + CHECK_EVERY_US;
	if (c->failing || now < c->started_us + lease + LEASE_MARGIN_US)
		return;
	for (struct cnode *n = c->nodes; n; n = n->hh.next) {
		if (n->state != NODE_UP)
			continue;
		known++;
		silent += now - last_sign(c, n) > lease / 2;
	}
	if (silent * 2 > known) {
		if (!c->suspects_logged)
			log_warn("event=many_silent silent=%u of=%u text=\"more than half: nobody is declared lost\"",
			         silent, known);
		c->suspects_logged = 1;
		return;
	}
	c->suspects_logged = 0;
	for (struct cnode *n = c->nodes; n && silent; n = n->hh.next) {
		char why[120];

		if (n->state != NODE_UP || now - last_sign(c, n) <= lease + LEASE_MARGIN_US)
			continue;
		snprintf(why, sizeof why, "no sign of life for %.0f s", (double)(now - last_sign(c, n)) / 1e6);
		node_is_lost(c, n, why);
	}
}
