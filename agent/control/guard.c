/*
 * guard: see guard.h. One round of questions at a time. The guard asks all known agents, at most ASK_MAX at
 * once, until the time of the round is over or an agent says that it hears hearthd.
 */
#include "agent/control/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/control/lease.h"
#include "agent/control/peerport.h"
#include "agent/launch/launches.h"
#include "common/base/fault.h"
#include "common/base/lease_times.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"
#include "common/os/lease_file.h"
#include "common/os/proc.h"

#define ASK_MAX      256u
#define PEERS_MAX    100000u
#define FILE_MAX     (16u * 1024 * 1024)
#define RETIRED_SIZE 32 /* digits of a fingerprint */

struct guard;
struct ask {
	struct guard *g;
	struct peer_question *q; /* NULL: not asked or answered */
};

struct guard {
	struct guard_parts parts;
	const struct guard_ops *ops;
	void *arg;
	struct lease lease;
	struct loop_timer *timer; /* the lease's end, then a round's end */
	struct strv peers;        /* without this one */
	struct ask *asks;         /* of the round, one for each peer */
	uint32_t n_asked, next, open, reached, silent, hearing;
	uint64_t peers_gen;
};

static void start_questions(struct guard *g);
static void save_lease(struct guard *g, uint64_t from_us, int carry_on);

static uint64_t now_us(const struct guard *g)
{
	return clock_boot_us(g->parts.env->clock);
}

/* Tests have no port. */
static void publish_lease(struct guard *g)
{
	if (g->parts.peerport)
		peerport_publish(g->parts.peerport, &g->lease);
}

static void publish_peers(struct guard *g)
{
	if (g->parts.peerport)
		peerport_know(g->parts.peerport, &g->peers);
}

/* Follows each change of the lease. */
static void lease_changed(struct guard *g)
{
	uint64_t next = lease_next_us(&g->lease), now = now_us(g);

	if (next == UINT64_MAX)
		loop_timer_cancel(g->timer);
	else
		loop_timer_arm(g->timer, next > now ? next - now : 0);
	publish_lease(g);
}

static void end_questions(struct guard *g)
{
	for (uint32_t i = 0; i < g->n_asked; i++)
		peer_question_cancel(g->asks[i].q);
	free(g->asks);
	g->asks = NULL;
	g->n_asked = g->next = g->open = 0;
}

static void round_over(struct guard *g)
{
	uint32_t known = (uint32_t)g->peers.n;
	enum lease_verdict v;

	if (g->lease.phase != LEASE_ASKING)
		return;
	v = lease_decide(&g->lease, now_us(g), known, g->reached, g->hearing);
	log_warn("event=lease_out known=%u reached=%u silent=%u hearing=%u final=%d verdict=\"%s\"", known,
	         g->reached, g->silent, g->hearing, v != LEASE_LATE && g->lease.phase != LEASE_UNCONFIRMED,
	         known ? lease_verdict_text(v) : "no other agent is known: the controller is down, carry on");
	end_questions(g);
	if (g->lease.phase == LEASE_LOST && !FAULT("mistake.no_fence")) {
		launches_fence(g->parts.launches, lease_verdict_text(v));
		g->ops->fenced(g->arg); /* one that was made meanwhile has said COLLECT already */
	} else if (g->lease.phase == LEASE_UNCONFIRMED)
		g->ops->dial_now(g->arg);
	else if (v == LEASE_CARRY_ON)
		save_lease(g, g->lease.asked_us, 1); /* the answers tell of no later time */
	lease_changed(g);
}

static void on_answer(const struct wm_peer_answer *m, enum peer_sight reach, void *arg)
{
	struct ask *ask = arg;
	struct guard *g = ask->g;

	ask->q = NULL;
	g->open--;
	g->silent += reach == SIGHT_SILENT;
	if (m) {
		g->reached++;
		g->hearing += lease_peer_hears(g->lease.lease_ms, m->has_controller, m->ack_age_ms) ? 1u : 0u;
	}
	if (g->hearing > 0 || (g->open == 0 && g->next >= g->n_asked))
		round_over(g);
	else
		start_questions(g);
}

/* Asks further ones while there is room. */
static void start_questions(struct guard *g)
{
	uint32_t timeout_ms = lease_ask_timeout_ms(&g->lease);

	while (g->next < g->n_asked && g->open < ASK_MAX) {
		struct ask *ask = &g->asks[g->next];

		ask->g = g;
		ask->q = peer_question_ask(g->parts.peerport, g->peers.v[g->next++], timeout_ms, on_answer, ask);
		if (ask->q)
			g->open++;
	}
}

static void on_timer(void *arg)
{
	struct guard *g = arg;

	if (g->lease.phase == LEASE_ASKING) {
		round_over(g);
		return;
	}
	if (!launches_alive(g->parts.launches)) {
		/* Nothing to fence; whoever is launched later was ordered by a controller that is heard. */
		lease_tick(&g->lease, now_us(g));
		lease_decide(&g->lease, now_us(g), 0, 0, 0);
		lease_changed(g);
		return;
	}
	if (!lease_tick(&g->lease, now_us(g))) {
		lease_changed(g);
		return;
	}
	g->reached = g->silent = g->hearing = g->next = g->open = 0;
	publish_lease(g);
	g->n_asked = (uint32_t)g->peers.n;
	g->asks = xcalloc(g->n_asked + 1, sizeof(g->asks[0]));
	/* The round ends a little after its questions: those that were not asked by then count as not reached.
	 * The other half of LEASE_ROUND_MS is for this timer's own lateness. */
	loop_timer_arm(g->timer, (lease_ask_timeout_ms(&g->lease) + LEASE_ROUND_MS / 2) * 1000ull);
	start_questions(g);
	if (g->open == 0 && g->next >= g->n_asked)
		round_over(g);
}

/* ---- files ----------------------------------------------------------------------------------------------
 */

static char *file_of(const struct guard *g, const char *name)
{
	return xasprintf("%s/%s", g->parts.env->cfg.run_dir, name);
}

/* For the next agent, and for the shims: without a later record ranks end a lease after from_us. */
static void save_lease(struct guard *g, uint64_t from_us, int carry_on)
{
	cleanup_free char *path = file_of(g, "lease");
	struct lease_record r = {.last_ack_us = g->lease.last_ack_us,
	                         .lease_ms = g->lease.lease_ms,
	                         .until_us = lease_until_us(from_us, g->lease.lease_ms),
	                         .carry_on = carry_on};
	struct err e;

	snprintf(r.boot_id, sizeof(r.boot_id), "%s", g->parts.boot_id);
	if (lease_file_write(path, &r, &e) < 0)
		log_error("event=lease_not_saved text=\"ranks end when it is over\" reason=\"%s\"", e.text);
}

static void load_lease(struct guard *g)
{
	cleanup_free char *path = file_of(g, "lease");
	struct lease_record r;

	/* Without a file: a whole lease from now, in which the controller is heard or not. */
	lease_init(&g->lease, now_us(g), 0, 0);
	if (lease_file_read(path, &r, NULL) == 0 && strcmp(r.boot_id, g->parts.boot_id) == 0 &&
	    r.last_ack_us <= now_us(g))
		lease_init(&g->lease, r.last_ack_us, r.lease_ms, 1);
}

static void load_lines(struct guard *g, const char *name, struct strv *out)
{
	cleanup_free char *path = file_of(g, name);
	cleanup_free char *text = NULL;
	char *save = NULL;

	if (fs_read_file(path, FILE_MAX, &text, NULL, NULL) < 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		strv_add(out, line);
}

static void save_lines(struct guard *g, const char *name, const struct strv *lines)
{
	cleanup_free char *path = file_of(g, name);
	char *text = NULL;
	size_t n = 0;
	struct err e;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		abort();
	for (size_t i = 0; i < lines->n; i++)
		fprintf(f, "%s\n", lines->v[i]);
	if (fclose(f) != 0)
		abort();
	if (fs_replace(path, text, n, 0600, &e) < 0)
		log_warn("event=%s_not_saved reason=\"%s\"", name, e.text);
	free(text);
}

/* ---- outside ----------------------------------------------------------------------------------------------
 */

struct guard *guard_create(const struct guard_parts *parts, const struct guard_ops *ops, void *arg)
{
	struct guard *g = xcalloc(1, sizeof(*g));
	struct strv retired = {0};

	g->parts = *parts;
	g->ops = ops;
	g->arg = arg;
	g->timer = loop_timer_create(parts->env->loop, on_timer, g);
	load_lease(g);
	load_lines(g, "peers", &g->peers);
	publish_peers(g);
	load_lines(g, "retired", &retired);
	if (parts->peerport)
		peerport_retire(parts->peerport, &retired);
	strv_fini(&retired);
	lease_changed(g);
	return g;
}

void guard_destroy(struct guard *g)
{
	if (!g)
		return;
	end_questions(g);
	loop_timer_destroy(g->timer);
	strv_fini(&g->peers);
	free(g);
}

void guard_ack(struct guard *g, uint64_t sent_us, uint32_t lease_ms)
{
	if (sent_us < g->lease.last_ack_us && g->lease.heard)
		return; /* an answer that was long under way */
	if (g->lease.phase != LEASE_HELD)
		log_info("event=lease_renewed");
	if (g->lease.phase == LEASE_ASKING)
		end_questions(g);
	lease_ack(&g->lease, sent_us, lease_ms);
	save_lease(g, sent_us, 0); /* each: an older record would let the shims act before this agent */
	lease_changed(g);
}

void guard_peers(struct guard *g, const struct wire_strv *peers, uint64_t gen)
{
	size_t self = strlen(g->parts.env->cfg.node);

	if (g->lease.phase == LEASE_ASKING || peers->n > PEERS_MAX)
		return; /* asked by index: the list stays until the round is over; it comes again, as the next beat
		           still tells the number of the old one */
	strv_fini(&g->peers);
	g->peers = (struct strv){0};
	for (uint32_t i = 0; i < peers->n; i++)
		if (strncmp(peers->v[i], g->parts.env->cfg.node, self) != 0 || peers->v[i][self] != ' ')
			strv_add(&g->peers, peers->v[i]);
	save_lines(g, "peers", &g->peers);
	publish_peers(g);
	g->peers_gen = gen;
}

void guard_retired(struct guard *g, const struct wire_strv *fingerprints)
{
	struct strv retired = {0};

	for (uint32_t i = 0; i < fingerprints->n && i < RETIRED_MAX; i++)
		if (strlen(fingerprints->v[i]) == RETIRED_SIZE && !strpbrk(fingerprints->v[i], "\n"))
			strv_add(&retired, fingerprints->v[i]);
	save_lines(g, "retired", &retired);
	if (g->parts.peerport)
		peerport_retire(g->parts.peerport, &retired);
	strv_fini(&retired);
}

uint64_t guard_peers_gen(const struct guard *g)
{
	return g->peers_gen;
}
