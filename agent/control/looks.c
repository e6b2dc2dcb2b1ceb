/*
 * looks: see looks.h.
 */
#include "agent/control/looks.h"

#include <string.h>
#include <utlist.h>

#include "agent/control/peerport.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#define LOOKS_MAX   32u
#define TIMEOUT_MAX 2000u /* ms */

struct look {
	struct looks *of;
	uint64_t ask;
	char *node;
	struct peer_question *q;
	struct look *prev, *next;
};

struct looks {
	struct peerport *peerport;
	const struct looks_ops *ops;
	void *arg;
	struct look *list;
	unsigned n;
};

struct looks *looks_create(struct peerport *peerport, const struct looks_ops *ops, void *arg)
{
	struct looks *t = xcalloc(1, sizeof(*t));

	*t = (struct looks){.peerport = peerport, .ops = ops, .arg = arg};
	return t;
}

static void look_end(struct look *k)
{
	DL_DELETE(k->of->list, k);
	k->of->n--;
	peer_question_cancel(k->q);
	free(k->node);
	free(k);
}

void looks_destroy(struct looks *t)
{
	while (t && t->list)
		look_end(t->list);
	free(t);
}

static void on_seen(const struct wm_peer_seen *m, enum peer_sight sight, void *arg)
{
	struct look *k = arg;
	char none[] = "";
	struct wm_node_seen seen = {.ask = k->ask, .node = k->node, .reach = (uint8_t)sight, .boot_id = none};

	k->q = NULL;
	if (m) {
		seen.boot_id = m->boot_id;
		seen.instance = m->instance;
		seen.missing = m->missing;
	}
	log_info("event=looked node=%s reach=%u", k->node, seen.reach);
	k->of->ops->send(WM_NODE_SEEN, &seen, k->of->arg);
	look_end(k);
}

void looks_order(struct looks *t, const struct wm_node_ask *m)
{
	struct wm_peer_look ask = {.jobs = m->jobs, .attempts = m->attempts};
	uint32_t timeout_ms = m->timeout_ms < TIMEOUT_MAX ? m->timeout_ms : TIMEOUT_MAX;
	char none[] = "";
	struct look *k;

	if (t->n >= LOOKS_MAX || m->jobs.n > NODE_ASK_LAUNCHES || m->attempts.n != m->jobs.n)
		return;
	ask.node = none; /* the certificate has the name */
	k = xcalloc(1, sizeof(*k));
	k->of = t;
	k->ask = m->ask;
	k->node = xstrndup(m->peer, strcspn(m->peer, " "));
	DL_APPEND(t->list, k);
	t->n++;
	k->q = peer_question_look(t->peerport, m->peer, timeout_ms, &ask, on_seen, k);
	if (!k->q)
		look_end(k);
}
