/*
 * looks: see looks.h.
 *
 * Each question has a number of its own, drawn by chance, and belongs to one suspicion. An answer counts only
 * while that suspicion lasts, from an agent that was asked, and for the launches of the question. During a
 * suspicion hearthd hears nothing of the node and gives it no order, so nothing that an answer says can have
 * become untrue before it arrives.
 */
#include "controller/cluster/looks.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/lease_times.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/cluster/lease.h"
#include "controller/cluster/peers.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/attempt.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

#define ASK_AGENTS   2
#define LOOK_FURTHER 256 /* nodes, for two that can be asked, when the list of n is not known */

struct look {
	uint64_t ask;     /* the question's number */
	uint64_t next_us; /* boot: when to ask again */
	uint64_t asked[ASK_AGENTS];
	uint32_t n_asked, round, n;
	struct {
		uint64_t job, epoch;
		uint32_t attempt;
	} at[NODE_ASK_LAUNCHES]; /* launches of the question */
};

uint64_t looks_next_us(const struct cnode *n)
{
	if (!n->n_jobs || !n->inv.known || !n->inv.peer_port || !*n->inv.address)
		return UINT64_MAX;
	return n->look ? n->look->next_us : 0;
}

void looks_end(struct cnode *n)
{
	free(n->look);
	n->look = NULL;
}

/* ---- asking ------------------------------------------------------------------------------------------- */

static int can_ask(const struct cnode *x, const struct cnode *n)
{
	return x && x != n && x->r.state == NODE_UP && x->connected && x->synced && !x->suspect_since_us &&
	       wire_speaks(x->version, WM_NODE_ASK);
}

static int is_running(const struct cjob *j, const struct place_rec *p)
{
	return p && j->act && j->r.att->state != ATT_ENDED && !place_over(p->state);
}

static void note_launches(const struct cnode *n, struct look *k, struct wm_node_ask *m)
{
	k->n = 0;
	for (uint32_t i = 0; i < n->n_jobs && k->n < NODE_ASK_LAUNCHES; i++) {
		const struct cjob *j = n->jobs[i];

		if (!is_running(j, rec_place_of(j->r.att, n->r.id)))
			continue;
		k->at[k->n].job = j->r.id;
		k->at[k->n].epoch = j->r.att->epoch;
		k->at[k->n++].attempt = j->r.att->number;
		wire_u64v_add(&m->jobs, j->r.id);
		wire_u32v_add(&m->attempts, j->r.att->number);
	}
}

static void ask_agent(struct core *c, struct look *k, const struct cnode *x, const struct wm_node_ask *m)
{
	k->asked[k->n_asked++] = x->r.id;
	c->io.send(x->name, x->session, WM_NODE_ASK, m, 0, c->io.arg);
}

/* The peers of a node know it, and come from addresses that its port prefers. Others are asked in turn. */
static void ask_agents(struct core *c, const struct cnode *n, struct look *k, const struct wm_node_ask *m)
{
	uint32_t steps = 0;

	k->n_asked = 0;
	for (uint32_t i = 0; i < n->held.n && k->n_asked < ASK_AGENTS; i++) {
		const struct cnode *x = node_by_id(c, n->held.ids[(i + k->round * ASK_AGENTS) % n->held.n]);

		if (can_ask(x, n))
			ask_agent(c, k, x, m);
	}
	if (n->held.n)
		return;
	for (const struct cnode *x = node_first(c); x && steps++ < LOOK_FURTHER && k->n_asked < ASK_AGENTS;
	     x = node_next(x))
		if (can_ask(x, n))
			ask_agent(c, k, x, m);
}

void looks_check(struct core *c, struct cnode *n)
{
	struct wm_node_ask m = {0};

	if (now_boot(c) < looks_next_us(n))
		return;
	if (!n->look)
		n->look = xcalloc(1, sizeof(*n->look));
	n->look->next_us = now_boot(c) + c->cfg.lease_ms * 1000ull / 4;
	c->io.random(&n->look->ask, sizeof(n->look->ask), c->io.arg);
	note_launches(n, n->look, &m);
	m.ask = n->look->ask;
	m.peer = peers_text(n);
	m.timeout_ms = lease_ask_ms(c->cfg.lease_ms);
	if (n->look->n)
		ask_agents(c, n, n->look, &m);
	n->look->round++;
	wire_fini(WM_NODE_ASK, &m);
}

/* ---- answers ------------------------------------------------------------------------------------------ */

static int was_asked(const struct look *k, uint64_t ask, const struct cnode *from)
{
	for (uint32_t i = 0; k && k->ask == ask && i < k->n_asked; i++)
		if (k->asked[i] == from->r.id)
			return 1;
	return 0;
}

/* The launch of that question ended, as at the end of the node's lease. */
static void launch_over(struct core *c, struct cnode *n, const struct look *k, uint32_t i, const char *why)
{
	struct cjob *j = job_find(c, k->at[i].job);
	struct place_rec *p;

	if (!j || !j->act || !j->r.att || j->r.att->number != k->at[i].attempt ||
	    j->r.att->epoch != k->at[i].epoch)
		return;
	p = rec_place_of(j->r.att, n->r.id);
	if (!is_running(j, p))
		return;
	log_warn("event=launch_over job=%" PRIu64 " attempt=%u node=%s text=\"%s\"", j->r.id, j->r.att->number,
	         n->name, why);
	place_lost(c, j, place_index(j, p), node_heard_at(c, n), 0, why);
}

void on_node_seen(struct core *c, const struct cnode *from, const struct wm_node_seen *m)
{
	struct cnode *n = node_find(c, m->node);
	const struct look *k = n ? n->look : NULL;
	TEXT(why);

	log_info("event=node_seen node=%s by=%s reach=%u", m->node, from->name, m->reach);
	if (!n || !n->suspect_since_us || !was_asked(k, m->ask, from) || m->reach != SIGHT_ANSWERED)
		return;
	if ((*n->boot_id && *m->boot_id && strcmp(n->boot_id, m->boot_id) != 0) || FAULT("mistake.any_answer")) {
		text_add(&why, "the machine was restarted, its agent said to %s", from->name);
		for (uint32_t i = 0; i < k->n; i++)
			launch_over(c, n, k, i, why.at);
		return;
	}
	/* The agent that hearthd knows has the launch, or has reported its end. */
	if (!n->instance || !m->instance || m->instance == n->instance)
		return;
	text_add(&why, "its agent was started again and has nothing of the launch, it said to %s", from->name);
	for (uint32_t i = 0; i < m->missing.n; i++)
		if (m->missing.v[i] < k->n)
			launch_over(c, n, k, m->missing.v[i], why.at);
}
