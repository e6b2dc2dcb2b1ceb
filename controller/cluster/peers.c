/*
 * peers: the list of peers that hearthd sends to each agent, and what a silent agent may do with it.
 *
 * An agent without a controller counts a majority of the last list that it got. hearthd therefore stores two
 * lists for each node: the list that the node has confirmed, and one that is on its way. The next list is
 * sent only after that one is confirmed, so a third list never exists. A list has all nodes that are up. If
 * these are more than PEERS_MAX, it has PEERS_MAX of them, spread evenly: a node must not know only the rack
 * that is lost with it. Lists are symmetric: who asks a peer is in that peer's list, and so has a known
 * address at its port (agent/control/places.c).
 *
 * The lists are not in the store. After a restart, until a node confirms a list, hearthd assumes the list
 * that it would send now.
 */
#include "controller/cluster/peers.h"

#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/lease_times.h"
#include "common/base/xalloc.h"
#include "common/net/wire.h"
#include "controller/cluster/lease.h"
#include "controller/record/cluster.h"
#include "controller/record/inventory.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define PEERS_PAUSE_US 2000000 /* between two lists for the same agent */

static int by_id(const void *pa, const void *pb)
{
	const struct cnode *const *a = pa, *const *b = pb;

	return (*a)->r.id < (*b)->r.id ? -1 : (*a)->r.id > (*b)->r.id;
}

static int can_be_asked(const struct cnode *x)
{
	return x->inv.known && x->inv.peer_port && *x->inv.address;
}

void peers_changed(struct core *c)
{
	c->peers.known = 0;
}

/* Gathers all nodes that can be peers, by id, once for many lists. */
static void know_askable(struct core *c)
{
	if (c->peers.known)
		return;
	c->peers.askable = xreallocarray(c->peers.askable, HASH_COUNT(c->records.all[CLUSTER_NODE]) + 1,
	                                 sizeof(*c->peers.askable));
	c->peers.n_askable = 0;
	for (struct cnode *x = node_first(c); x; x = node_next(x))
		if (x->r.state == NODE_UP && can_be_asked(x))
			c->peers.askable[c->peers.n_askable++] = x;
	qsort(c->peers.askable, c->peers.n_askable, sizeof(*c->peers.askable), by_id);
	c->peers.known = 1;
}

/* Counts the peers with a smaller id. */
static size_t count_before(const struct core *c, uint64_t id)
{
	size_t lo = 0, hi = c->peers.n_askable;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->peers.askable[mid]->r.id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t peers_spread(size_t at, size_t n, size_t *out)
{
	size_t others = n - 1, half = PEERS_MAX / 2, count = 0;

	if (others <= PEERS_MAX) {
		for (size_t i = 1; i <= others; i++)
			out[count++] = (at + i) % n;
		return count;
	}
	/* n / 65 is more than 1, and 32 n / 65 less than half: all steps differ, and none is its own way back. */
	for (size_t i = 1; i <= half; i++) {
		size_t step = i * n / (PEERS_MAX + 1);

		out[count++] = (at + step) % n;
		out[count++] = (at + n - step) % n;
	}
	return count;
}

/* A node that others do not ask has a place among them all the same, so that its list is as even. */
static struct told list_for(struct core *c, const struct cnode *self, uint64_t gen)
{
	size_t at, outside, n, places[PEERS_MAX];
	struct told t = {.gen = gen};

	know_askable(c);
	at = count_before(c, self->r.id);
	outside = at == c->peers.n_askable || c->peers.askable[at] != self;
	n = peers_spread(at, c->peers.n_askable + outside, places);
	t.ids = xcalloc(n + 1, sizeof(*t.ids));
	for (size_t i = 0; i < n; i++)
		t.ids[t.n++] = c->peers.askable[places[i] - (outside && places[i] > at)]->r.id;
	return t;
}

char *peers_text(const struct cnode *x)
{
	return xasprintf(strchr(x->inv.address, ':') ? "%s [%s]:%u" : "%s %s:%u", x->name, x->inv.address,
	                 x->inv.peer_port);
}

void peers_tell(struct core *c, struct cnode *n, struct wm_beat_ack *m)
{
	uint64_t now = now_boot(c);

	if (n->peers_sent_us &&
	    (now - n->peers_sent_us < PEERS_PAUSE_US || (!n->sent.gen && n->held.gen == c->peers.gen)))
		return;
	if (!n->sent.gen)
		n->sent = list_for(c, n, c->peers.gen);
	for (uint32_t i = 0; i < n->sent.n; i++) {
		const struct cnode *x = node_by_id(c, n->sent.ids[i]);
		char *text;

		if (!x || !can_be_asked(x))
			continue;
		text = peers_text(x);
		wire_strv_add(&m->peers, text);
		free(text);
	}
	m->peers_changed = 1;
	m->peers_gen = n->sent.gen;
	n->peers_sent_us = now;
}

static int by_seen(const void *pa, const void *pb)
{
	const struct cnode *const *a = pa, *const *b = pb;

	return ((*a)->r.seen_us < (*b)->r.seen_us) - ((*a)->r.seen_us > (*b)->r.seen_us);
}

void peers_tell_retired(struct core *c, struct cnode *n)
{
	struct wm_retired m = {0};
	struct cnode **gone;
	size_t n_gone = 0;

	if (n->retired_sent == c->peers.retired_gen + 1)
		return;
	gone = xcalloc(HASH_COUNT(c->records.all[CLUSTER_NODE]) + 1, sizeof(struct cnode *));
	for (struct cnode *x = node_first(c); x; x = node_next(x))
		if (x->r.state == NODE_REMOVED && x->r.fingerprint && *x->r.fingerprint)
			gone[n_gone++] = x;
	qsort(gone, n_gone, sizeof(struct cnode *), by_seen);
	for (size_t i = 0; i < n_gone && i < RETIRED_MAX; i++)
		wire_strv_add(&m.fingerprints, gone[i]->r.fingerprint);
	c->io.send(n->name, n->session, WM_RETIRED, &m, 0, c->io.arg);
	wire_fini(WM_RETIRED, &m);
	free(gone);
	n->retired_sent = c->peers.retired_gen + 1;
}

void peers_told(struct cnode *n, uint64_t gen)
{
	if (!n->sent.gen || gen != n->sent.gen)
		return;
	told_fini(&n->held);
	n->held = n->sent;
	n->sent = (struct told){0};
	n->list_unknown = 0;
}

/* Returns 1 when the node may be on the other side of a cut: it gave no recent sign of life. */
static int out_of_sight(const struct core *c, uint64_t id)
{
	const struct cnode *x = node_by_id(c, id);

	return !x || x->r.state != NODE_UP || node_is_dark(c, x) ||
	       (x->back_us && now_boot(c) < x->back_us + lease_back_us(c->cfg.lease_ms));
}

static int majority_out_of_sight(const struct core *c, const struct told *t)
{
	uint32_t out = 1; /* itself */

	for (uint32_t i = 0; i < t->n; i++)
		out += (uint32_t)out_of_sight(c, t->ids[i]);
	return (uint64_t)out * 2 > (uint64_t)t->n + 1;
}

int peers_may_carry_on(struct core *c, const struct cnode *n)
{
	struct told now = {0};
	int may;

	if (n->sent.gen && majority_out_of_sight(c, &n->sent))
		return 1;
	if (!n->list_unknown)
		return majority_out_of_sight(c, &n->held);
	now = list_for(c, n, 0);
	may = majority_out_of_sight(c, &now);
	told_fini(&now);
	return may;
}
