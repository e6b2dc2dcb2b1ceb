/*
 * park_reports: what agents say of parkings. Reports are states, as those about jobs.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/park/park_int.h"
#include "controller/record/rec.h"
#include "controller/share/pools.h"
#include "controller/state/turn.h"

/* 1: a job is about to take it over there, and the order is on its way. */
static int is_being_taken(const struct core *c, const struct wm_launch_report *m)
{
	const struct pool_rec *p = cluster_pool(&c->records, m->job);
	const struct cjob *j = p && p->park_epoch == m->epoch ? job_find(c, pool_used_by(p)) : NULL;

	return m->state == LAUNCH_PARKED && j && j->act && j->r.att && j->r.att->state == ATT_PREPARING &&
	       j->act->parked == m->attempt;
}

/* 1: the agent lost what it had, or cannot go on. */
static int is_over(const struct parking *k, const struct park_node *x, uint8_t state)
{
	if (state == LAUNCH_STOPPING || state == LAUNCH_ENDED || state == LAUNCH_FAILED ||
	    state == LAUNCH_CLEANED)
		return 1;
	if (k->state == PARK_PREPARING)
		return 0;
	return state == LAUNCH_PREPARING || (x->state == LAUNCH_PARKED && state != LAUNCH_PARKED);
}

static void node_failed(struct core *c, struct parking *k, const struct cnode *n,
                        const struct wm_launch_report *m)
{
	TEXT(text);

	text_add(&text, "node %.200s: %.600s", n->name,
	         *m->text ? m->text : "the launch that waited there has ended");
	parking_failed(c, k, text.at);
}

int park_report(struct core *c, const struct cnode *n, const struct wm_launch_report *m)
{
	struct parking *k = parking_find(c, m->job, m->attempt);
	struct park_node *x = k && k->epoch == m->epoch ? parking_node(k, n->r.id) : NULL;

	if (!x || x->gone)
		return is_being_taken(c, m);
	if (x->session != n->session)
		x->sent = 0;
	x->session = n->session;
	x->reported = 1;
	if (k->state == PARK_ENDING) {
		parking_ending(c, k, x, m->state);
		return 1;
	}
	if (is_over(k, x, m->state)) {
		x->state = m->state;
		x->gone = m->state == LAUNCH_CLEANED;
		node_failed(c, k, n, m);
		return 1;
	}
	if (m->state == LAUNCH_READY) /* ready again: the order to go did not arrive */
		x->sent &= (uint8_t)~SENT_GO;
	x->state = m->state;
	x->sent |= SENT_PREPARE;
	if (m->state == LAUNCH_PARKED && *m->text)
		parking_no_interpreter(c, k, m->text);
	parking_step(c, k);
	return 1;
}

void park_proc(struct core *c, const struct cnode *n, const struct wm_proc_report *m)
{
	struct parking *k = parking_find(c, m->job, m->attempt);
	const struct park_node *x = k && k->epoch == m->epoch ? parking_node(k, n->r.id) : NULL;
	struct orted_launch l;

	if (!x || k->state == PARK_ENDING || m->kind != PROC_ORTED)
		return;
	l = parking_orteds(k);
	orteds_report(c, &l, (uint32_t)(x - k->nodes), m);
}

void park_rsh(struct core *c, const struct cnode *n, const struct wm_rsh_request *m)
{
	struct parking *k = parking_find(c, m->job, m->attempt);
	struct orted_launch l;
	uint32_t place;

	if (!k || k->epoch != m->epoch || k->nodes[0].node_id != n->r.id)
		return;
	l = parking_orteds(k);
	if (orteds_place(&l, m->host, &place) < 0)
		orteds_refuse(c, &l, m->rsh_id, PS_FAILED, "no node of that name in this launch");
	else if (k->state != PARK_STARTING && k->state != PARK_PARKED)
		orteds_refuse(c, &l, m->rsh_id, PS_FAILED, "the launch has come to its end");
	else
		orteds_ask(c, &l, m, place, k->nodes[place].node_id);
}

void park_rsh_cancel(struct core *c, const struct wm_rsh_cancel *m)
{
	struct parking *k = parking_find(c, m->job, m->attempt);
	struct orted_launch l;

	if (!k || k->epoch != m->epoch)
		return;
	l = parking_orteds(k);
	orteds_cancel(&l, m->rsh_id);
}

void park_sync_begin(struct core *c, const struct cnode *n)
{
	for (struct parking *k = c->parks.all; k; k = k->hh.next) {
		struct park_node *x = parking_node(k, n->r.id);

		if (!x)
			continue;
		x->reported = 0;
		x->sent = 0;
		x->session = n->session;
	}
}

/* The agent knows nothing of it. */
static void missing(struct core *c, struct parking *k, struct park_node *x, const struct cnode *n)
{
	TEXT(text);

	if (k->state == PARK_PREPARING) { /* the order did not arrive */
		x->state = LAUNCH_UNKNOWN;
		park_send(c, k);
		return;
	}
	x->gone = 1;
	if (k->state == PARK_ENDING) {
		parking_settle(c, k);
		return;
	}
	text_add(&text, "node %.200s: its agent knows nothing of the launch any more", n->name);
	parking_failed(c, k, text.at);
}

void park_sync_end(struct core *c, const struct cnode *n)
{
	struct parking *k, *next;

	HASH_ITER (hh, c->parks.all, k, next) {
		struct park_node *x = parking_node(k, n->r.id);
		struct orted_launch l;

		if (!x || x->gone)
			continue;
		if (!x->reported) {
			missing(c, k, x, n);
			continue;
		}
		l = parking_orteds(k);
		orteds_resend(c, &l, (uint32_t)(x - k->nodes));
		park_send(c, k);
	}
	for (const struct pool_rec *p = pool_first(c); p; p = pool_next(p))
		if (pool_part_on(p, n->r.id))
			pool_touch(c, p->id);
}
