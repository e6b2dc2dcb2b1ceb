/*
 * agents: the upgrade, the move to the agents' thread, pauses, and messages that wait for an agent.
 *
 * The bufferevent has two owners: evhttp's connection object, stored unseen until the end, and the peer. A
 * connection that has moved has a bufferevent of its own and no object of evhttp. The state thread hears of a
 * connection after its move, so no order comes before it.
 */
#include "controller/io/agents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <uthash.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/peer.h"
#include "controller/files/data_threads.h"
#include "controller/io/io.h"
#include "controller/io/state_link.h"
#include "store/read/find.h"

#define PROTOCOL      "hearth-agent/1"
#define AGENTS_MAX    32768u /* connections, of one thread */
#define HANDSHAKE_MS  10000u
#define CONTROL_LIMIT (16u * 1024 * 1024)
#define BULK_LIMIT    (32u * 1024 * 1024)
#define RETRY_US      3000u
#define OUT_MAX       (32u * 1024 * 1024) /* answers held for an agent; above, it is asked nothing more */

struct waiting { /* a message that found no room */
	struct waiting *prev, *next;
	uint16_t type;
	uint64_t id;
	void *msg;
};

struct agent {
	struct agents *a;
	struct agent *prev, *next; /* all */
	struct agent *paused_prev, *paused_next;
	UT_hash_handle hh; /* by session, once open */
	uint64_t session;
	char node[NODE_NAME_SIZE], from[64];
	uint8_t role;
	int open, paused, choked, up_reported;
	struct peer *peer;
	struct http_conn *conn;     /* NULL: the connection has moved */
	struct peer_parcel *parcel; /* while it moves */
	struct io *to;
	struct to_state *up; /* AGENT_UP that waits to be sent */
	struct waiting *waiting;
	struct waiting *out; /* bulk: answers that the connection has no room for yet */
	size_t out_bytes;
};

static const struct peer_ops ops;
static void on_drain(struct peer *p, void *arg);

struct agents {
	struct io *io;
	struct agents_shared *shared;
	struct agent *all, *by_session, *paused;
	unsigned n;
	struct loop_timer *retry;
	struct to_state *downs; /* singly linked through msg: AGENT_DOWN that found no room */
};

/* ---- towards the state thread ----------------------------------------------------------------- */

static void send_downs(struct agents *a)
{
	while (a->downs) {
		struct to_state *m = a->downs, *next = m->msg;

		m->msg = NULL;
		if (state_link_send(a->shared->link, m) < 0) {
			m->msg = next;
			loop_timer_arm(a->retry, RETRY_US);
			return;
		}
		a->downs = next;
	}
}

static void report_down(struct agent *g, const char *why)
{
	struct to_state *m = xcalloc(1, sizeof(*m));
	struct to_state **at = &g->a->downs;

	m->kind = TS_AGENT_DOWN;
	memcpy(m->node, g->node, sizeof(m->node));
	m->session = g->session;
	m->role = g->role;
	m->why = xstrdup(why);
	while (*at)
		at = (struct to_state **)&(*at)->msg;
	*at = m;
	send_downs(g->a);
}

/* 0 handed on, -1 no room (msg stays the caller's). */
static int deliver_msg(struct agent *g, uint16_t type, uint64_t id, void *msg)
{
	struct to_state *m;

	if (g->role == ROLE_BULK && type != WM_METRICS)
		return data_agent_msg(g->a->shared->data, g->session, g->node, type, id, msg);
	m = xcalloc(1, sizeof(*m));
	m->kind = TS_AGENT_MSG;
	memcpy(m->node, g->node, sizeof(m->node));
	m->session = g->session;
	m->role = g->role;
	m->type = type;
	m->id = id;
	m->msg = msg;
	if (state_link_send(g->a->shared->link, m) == 0)
		return 0;
	m->msg = NULL;
	to_state_free(m);
	return -1;
}

static int report_up(struct agent *g)
{
	if (!g->up)
		return 0;
	if (state_link_send(g->a->shared->link, g->up) < 0)
		return -1;
	g->up = NULL;
	g->up_reported = 1;
	return 0;
}

/* ---- pausing ---------------------------------------------------------------------------------- */

static void pause_agent(struct agent *g)
{
	if (g->paused)
		return;
	g->paused = 1;
	atomic_fetch_add(&g->a->shared->pauses, 1);
	peer_hold(g->peer, 1); /* choked or not */
	DL_APPEND2(g->a->paused, g, paused_prev, paused_next);
	loop_timer_arm(g->a->retry, RETRY_US);
}

static void unpause_agent(struct agent *g)
{
	if (!g->paused)
		return;
	g->paused = 0;
	DL_DELETE2(g->a->paused, g, paused_prev, paused_next);
}

static void keep_msg(struct agent *g, uint16_t type, uint64_t id, void *msg)
{
	struct waiting *w = xcalloc(1, sizeof(*w));

	w->type = type;
	w->id = id;
	w->msg = msg;
	DL_APPEND(g->waiting, w);
	pause_agent(g);
}

/* 1 when all that waited is gone. */
static int flush_waiting(struct agent *g)
{
	struct waiting *w, *tmp;

	if (report_up(g) < 0)
		return 0;
	DL_FOREACH_SAFE (g->waiting, w, tmp) {
		if (deliver_msg(g, w->type, w->id, w->msg) < 0)
			return 0;
		DL_DELETE(g->waiting, w);
		free(w);
	}
	return 1;
}

static void on_retry(void *arg)
{
	struct agents *a = arg;
	struct agent *g, *tmp;

	send_downs(a);
	DL_FOREACH_SAFE2(a->paused, g, tmp, paused_next)
	{
		if (!flush_waiting(g))
			continue;
		unpause_agent(g);
		peer_hold(g->peer, g->choked);
	}
	if (a->paused)
		loop_timer_arm(a->retry, RETRY_US);
}

/* ---- life ------------------------------------------------------------------------------------- */

/* The connection belongs to no thread from here on, or to another one. */
static void leave_thread(struct agent *g)
{
	if (g->a) {
		DL_DELETE(g->a->all, g);
		g->a->n--;
		g->a = NULL;
	}
	if (g->conn)
		http_conn_free(g->conn);
	g->conn = NULL;
}

static void agent_free(struct agent *g)
{
	struct waiting *w, *tmp;

	unpause_agent(g);
	DL_FOREACH_SAFE (g->waiting, w, tmp) {
		DL_DELETE(g->waiting, w);
		wire_free(w->type, w->msg);
		free(w);
	}
	DL_FOREACH_SAFE (g->out, w, tmp) {
		DL_DELETE(g->out, w);
		wire_free(w->type, w->msg);
		free(w);
	}
	if (g->up)
		to_state_free(g->up);
	if (g->open)
		HASH_DEL(g->a->by_session, g);
	leave_thread(g);
	peer_destroy(g->peer);
	peer_parcel_free(g->parcel);
	free(g);
}

static void end_agent(struct agent *g, const char *why)
{
	if (g->open) {
		log_info("event=agent_closed node=%s role=%s session=%" PRIu64 " from=%s reason=%s", g->node,
		         g->role == ROLE_BULK ? "bulk" : "control", g->session, g->from, why);
		flush_waiting(g); /* messages before the end still count */
		if (g->up_reported)
			report_down(g, why);
	}
	agent_free(g);
}

/* May this node connect? The certificate is good; but its node may have been removed since. */
static int node_allowed(struct io *io, const char *node, const struct wm_hello *hello, uint64_t *id,
                        struct err *e)
{
	struct node_row row;
	char fingerprint[33];
	int rc = 0, own;

	memset(&row, 0, sizeof(row));
	if (store_node_get(io->reader, node, &row, e) < 0)
		return e->code == ERR_NOT_FOUND
		           ? err_set(e, ERR_DENIED,
		                     "unknown node \"%s\"; join it with a new token (jobctl token create --join)",
		                     node)
		           : -1;
	*id = row.id;
	own = row.cert_fingerprint && *row.cert_fingerprint &&
	      tls_fingerprint(hello->cert_pem, fingerprint, e) == 0 &&
	      strcmp(fingerprint, row.cert_fingerprint) == 0;
	/* GONE makes the agent remove all that it has: only the agent that was removed itself gets it. */
	if (row.state && strcmp(row.state, "removed") == 0)
		rc =
		    err_set(e, own ? ERR_GONE : ERR_DENIED,
		            "node %s was removed; join it again with a new token (jobctl token create --join)", node);
	else if (row.cert_fingerprint && *row.cert_fingerprint && !own)
		rc = err_set(e, ERR_DENIED, "node %s has joined again with another certificate", node);
	node_row_fini(&row);
	return rc;
}

static int on_hello(struct peer *p, const struct wm_hello *hello, const char *node, struct wm_welcome *w,
                    struct err *e, void *arg)
{
	struct agent *g = arg;
	struct agents_shared *s = g->a->shared;

	(void)p;
	if (strlen(node) >= sizeof(g->node) || !*node)
		return err_set(e, ERR_DENIED, "invalid name of a node");
	if (hello->role != ROLE_CONTROL && hello->role != ROLE_BULK)
		return err_set(e, ERR_PROTOCOL, "unknown role %u", hello->role);
	if (node_allowed(g->a->io, node, hello, &w->node_id, e) < 0)
		return -1;
	snprintf(g->node, sizeof(g->node), "%s", node);
	g->role = hello->role;
	g->to = g->role == ROLE_CONTROL ? io_of_agents(g->a->io->set) : g->a->io;
	g->session = atomic_fetch_add(&s->next_session, 1) << 8 | g->to->index;
	w->session = g->session;
	w->lease_ms = s->lease_ms;
	w->beat_ms = s->beat_ms;
	w->real_us = clock_real_us(clock_real());
	g->up = xcalloc(1, sizeof(*g->up));
	g->up->kind = TS_AGENT_UP;
	memcpy(g->up->node, g->node, sizeof(g->node));
	g->up->session = g->session;
	g->up->role = g->role;
	g->up->type = WM_HELLO;
	g->up->msg = wire_copy(WM_HELLO, hello);
	return 0;
}

/* On the connection's own thread. */
static void open_agent(struct agent *g)
{
	g->open = 1;
	HASH_ADD(hh, g->a->by_session, session, sizeof(g->session), g);
	log_info("event=agent_connected node=%s role=%s session=%" PRIu64 " version=%u from=%s", g->node,
	         g->role == ROLE_BULK ? "bulk" : "control", g->session, peer_version(g->peer), g->from);
	if (report_up(g) < 0)
		pause_agent(g);
}

/* The move failed: the agent dials again. */
static void drop_move(void *arg)
{
	struct agent *g = arg;

	log_info("event=agent_closed node=%s role=control session=%" PRIu64
	         " from=%s reason=\"the agents' thread has no room, or hearthd stops\"",
	         g->node, g->session, g->from);
	agent_free(g);
}

/* On the agents' thread. */
static void on_moved(struct io *io, void *arg)
{
	struct agents *a = io->agents;
	struct agent *g = arg;

	if (!a || a->n >= AGENTS_MAX) {
		drop_move(g);
		return;
	}
	g->a = a;
	DL_APPEND(a->all, g);
	a->n++;
	g->peer = peer_unpack(io->loop, g->parcel, &ops, g);
	g->parcel = NULL;
	open_agent(g);
}

/* Nothing of the connection is left on the thread that accepted it. */
static void on_packed(struct peer_parcel *parcel, void *arg)
{
	struct agent *g = arg;

	g->parcel = parcel;
	if (atomic_load(&g->to->set->stopping) || io_post(g->to, on_moved, g, drop_move) < 0)
		drop_move(g);
}

static void move_agent(struct agent *g)
{
	struct err e;

	if (peer_pack(g->peer, on_packed, g, &e) < 0) {
		log_warn("event=agent_refused from=%s node=%s reason=%s", g->from, g->node, e.text);
		agent_free(g);
		return;
	}
	g->peer = NULL;
	leave_thread(g);
}

static void on_open(struct peer *p, const struct wm_welcome *welcome, void *arg)
{
	struct agent *g = arg;

	(void)p;
	(void)welcome;
	http_conn_proved(g->conn);
	if (g->to == g->a->io)
		open_agent(g);
	else
		move_agent(g);
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct agent *g = arg;

	(void)p;
	if (g->paused || deliver_msg(g, type, id, msg) < 0)
		keep_msg(g, type, id, msg);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct agent *g = arg;

	(void)p;
	if (!g->open) {
		log_info("event=agent_refused from=%s reason=%s", g->from, why->text);
	}
	end_agent(g, why->text);
}

/* A stranger that proves nothing gives its place to a newer one. */
static void on_place_lost(struct call *c)
{
	struct agent *g = c->state;

	g->conn = NULL;
	log_info("event=agent_refused from=%s reason=\"a newer connection needed the place of this one\"",
	         g->from);
	agent_free(g);
}

static const struct peer_ops ops = {
    .on_open = on_open, .on_msg = on_msg, .on_close = on_close, .on_hello = on_hello, .on_drain = on_drain};

static int has_token(const char *list, const char *token)
{
	size_t n = strlen(token);

	while (list && *list) {
		list += strspn(list, " ,\t");
		if (strncasecmp(list, token, n) == 0 && strchr(" ,\t", list[n]))
			return 1;
		list += strcspn(list, ",");
	}
	return 0;
}

void agents_upgrade(struct call *c, struct io *io)
{
	struct agents *a = io->agents;
	const char *upgrade = call_header(c, "Upgrade");
	struct peer_accept accept = {.timeout_ms = HANDSHAKE_MS, .out_limit = BULK_LIMIT};
	struct bufferevent *bev;
	struct agent *g;

	if (!upgrade || strcasecmp(upgrade, PROTOCOL) != 0 ||
	    !has_token(call_header(c, "Connection"), "upgrade")) {
		call_add_header(c, "Upgrade", PROTOCOL);
		call_problem(c, 426, NULL, "this address is for agents; expected \"Upgrade: %s\"", PROTOCOL);
		return;
	}
	if (!a || a->n >= AGENTS_MAX || !a->shared->ca) {
		call_problem(c, 503, NULL, "hearthd accepts no further agent now");
		return;
	}
	accept.ca = a->shared->ca;
	accept.cluster = a->shared->cluster;
	g = xcalloc(1, sizeof(*g));
	g->a = a;
	snprintf(g->from, sizeof(g->from), "%s", c->peer);
	bev = call_take_over(c, PROTOCOL, &g->conn);
	if (!bev) {
		free(g);
		return;
	}
	c->state = g;
	c->on_gone = on_place_lost;
	DL_APPEND(a->all, g);
	a->n++;
	g->peer = peer_accept(io->loop, bev, &accept, &ops, g);
}

/* ---- orders ----------------------------------------------------------------------------------- */

static struct agent *find_agent(struct io *io, uint64_t session)
{
	struct agent *g = NULL;

	if (io->agents)
		HASH_FIND(hh, io->agents->by_session, &session, sizeof(session), g);
	return g;
}

static size_t size_of(uint16_t type, const void *msg)
{
	return 256 + (type == WM_BLOB_DATA ? ((const struct wm_blob_data *)msg)->data.n : 0);
}

/* A bulk connection without room: the answer waits; too many of them, and the agent's questions wait too.
 * Takes msg. */
static void hold_answer(struct agent *g, uint16_t type, uint64_t id, void *msg)
{
	struct waiting *w = xcalloc(1, sizeof(*w));

	w->type = type;
	w->id = id;
	w->msg = msg;
	DL_APPEND(g->out, w);
	g->out_bytes += size_of(type, msg);
	if (g->out_bytes > OUT_MAX && !g->choked) {
		g->choked = 1;
		peer_hold(g->peer, 1);
	}
}

static void on_drain(struct peer *p, void *arg)
{
	struct agent *g = arg;
	struct waiting *w;

	while ((w = g->out) && peer_send(p, w->type, w->msg, w->id, NULL) == 0) {
		DL_DELETE(g->out, w);
		g->out_bytes -= size_of(w->type, w->msg);
		wire_free(w->type, w->msg);
		free(w);
	}
	if (g->choked && g->out_bytes < OUT_MAX / 2) {
		g->choked = 0;
		peer_hold(p, g->paused);
	}
}

void agents_send(struct io *io, uint64_t session, uint16_t type, void *msg, uint64_t id)
{
	struct agent *g = find_agent(io, session);
	struct err e = {.code = ERR_NONE};

	if (g && !peer_speaks(g->peer, type)) {
		/* Its agent does without, or gets no orders at all: what follows is said where it is decided. */
		log_debug("event=not_sent node=%s message=%s version=%u", g->node, wire_name(type),
		          peer_version(g->peer));
		wire_free(type, msg);
		return;
	}
	if (g && type == WM_PREPARE) /* before the agent can ask for what the order names */
		data_order(io->agents->shared->data, g->node, msg);
	if (g && type == WM_PREFETCH)
		data_order_ahead(io->agents->shared->data, g->node, msg);
	if (g && !g->out && peer_send(g->peer, type, msg, id, &e) == 0) {
		wire_free(type, msg);
		return;
	}
	if (g && g->role == ROLE_BULK && (g->out || e.code == ERR_BUSY)) {
		hold_answer(g, type, id, msg);
		return;
	}
	if (g) {
		/* hearthd sends its state again after the full report of the next connection. */
		log_warn("event=agent_slow node=%s queued=%zu error=\"%s\"", g->node, peer_queued(g->peer), e.text);
		end_agent(g, "the agent does not read what hearthd sends");
	}
	wire_free(type, msg);
}

void agents_close(struct io *io, uint64_t session, const char *why)
{
	struct agent *g = find_agent(io, session);

	if (g)
		end_agent(g, why);
}

struct agents *agents_create(struct io *io, struct agents_shared *shared)
{
	struct agents *a = xcalloc(1, sizeof(*a));

	a->io = io;
	a->shared = shared;
	a->retry = loop_timer_create(io->loop, on_retry, a);
	return a;
}

void agents_destroy(struct agents *a)
{
	struct agent *g, *tmp;

	if (!a)
		return;
	DL_FOREACH_SAFE (a->all, g, tmp)
		agent_free(g); /* no word to the state thread: it is the one that ends us */
	while (a->downs) {
		struct to_state *m = a->downs;

		a->downs = m->msg;
		m->msg = NULL;
		to_state_free(m);
	}
	loop_timer_destroy(a->retry);
	free(a);
}
