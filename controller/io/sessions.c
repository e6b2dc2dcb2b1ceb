/*
 * sessions: one entry for each node that was ever connected.
 */
#include "controller/io/sessions.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/os/loop.h"
#include "controller/io/order.h"
#include "controller/io/state_link.h"

#define RETRY_US 20000u

struct node_session {
	char node[NODE_NAME_SIZE];
	uint64_t control, bulk; /* sessions, 0 none */
	uint64_t doomed[2];     /* sessions to close as soon as possible */
	UT_hash_handle hh;
};

struct sessions {
	struct io_set *ios;
	struct loop *loop;
	struct sessions_ops ops;
	struct node_session *nodes;
	struct loop_timer *retry; /* closes that found a channel full */
};

static struct node_session *find_node(struct sessions *s, const char *node)
{
	struct node_session *n;

	HASH_FIND_STR(s->nodes, node, n);
	return n;
}

static void on_retry(void *arg)
{
	struct sessions *s = arg;
	struct node_session *n, *tmp;
	int left = 0, i;

	HASH_ITER (hh, s->nodes, n, tmp)
		for (i = 0; i < 2; i++) {
			if (n->doomed[i] &&
			    order_close(s->ios, n->doomed[i], "too many messages were waiting for this connection") == 0)
				n->doomed[i] = 0;
			left |= n->doomed[i] != 0;
		}
	if (left)
		loop_timer_arm(s->retry, RETRY_US);
}

static void doom_session(struct sessions *s, struct node_session *n, uint64_t session)
{
	int i = n->doomed[0] && n->doomed[0] != session;

	log_warn("event=agent_doomed node=%s reason=\"I/O thread %u has too much to do\"", n->node,
	         SESSION_IO(session));
	n->doomed[i] = session;
	if (!s->retry)
		s->retry = loop_timer_create(s->loop, on_retry, s);
	loop_timer_arm(s->retry, RETRY_US);
}

static void close_session(struct sessions *s, struct node_session *n, uint64_t session, const char *why)
{
	if (order_close(s->ios, session, why) < 0)
		doom_session(s, n, session);
}

/* ---- from agents ------------------------------------------------------------------------------ */

void sessions_up(struct sessions *s, struct to_state *m)
{
	struct node_session *n = find_node(s, m->node);
	uint64_t *slot, old;

	if (!n) {
		n = xcalloc(1, sizeof(*n));
		snprintf(n->node, sizeof(n->node), "%s", m->node);
		HASH_ADD_STR(s->nodes, node, n);
	}
	slot = m->role == ROLE_BULK ? &n->bulk : &n->control;
	old = *slot;
	if (old > m->session) {
		close_session(s, n, m->session, "a newer connection of this node is here");
		return;
	}
	*slot = m->session;
	if (old) {
		close_session(s, n, old, "replaced by a newer connection of this node");
		if (m->role == ROLE_CONTROL)
			s->ops.down(m->node, old, "replaced by a newer connection", s->ops.arg);
	}
	if (m->role == ROLE_CONTROL)
		s->ops.up(m->node, m->session, m->msg, s->ops.arg);
}

void sessions_down(struct sessions *s, struct to_state *m)
{
	struct node_session *n = find_node(s, m->node);

	if (!n)
		return;
	if (n->bulk == m->session)
		n->bulk = 0;
	if (n->control == m->session) {
		n->control = 0;
		s->ops.down(m->node, m->session, m->why, s->ops.arg);
	}
}

void sessions_msg(struct sessions *s, struct to_state *m)
{
	struct node_session *n = find_node(s, m->node);
	void *msg = m->msg;

	if (!n || (m->session != n->control && m->session != n->bulk))
		return; /* of a connection that was replaced: the newer one sends it again */
	m->msg = NULL;
	s->ops.msg(m->node, n->control ? n->control : m->session, m->type, m->id, msg, s->ops.arg);
}

/* ---- to agents -------------------------------------------------------------------------------- */

static void send_to(struct sessions *s, struct node_session *n, uint64_t session, uint16_t type,
                    const void *msg, uint64_t id)
{
	if (order_send(s->ios, session, type, msg, id) < 0)
		doom_session(s, n, session);
}

void sessions_send(struct sessions *s, const char *node, uint64_t session, uint16_t type, const void *msg,
                   uint64_t id)
{
	struct node_session *n = find_node(s, node);

	if (n && n->control == session && n->doomed[0] != session && n->doomed[1] != session)
		send_to(s, n, session, type, msg, id);
}

void sessions_send_bulk(struct sessions *s, const char *node, uint16_t type, const void *msg)
{
	struct node_session *n = find_node(s, node);

	if (n && n->bulk)
		send_to(s, n, n->bulk, type, msg, 0);
}

void sessions_close(struct sessions *s, const char *node, uint64_t session, const char *why)
{
	struct node_session *n = find_node(s, node);

	if (!n)
		return;
	if (n->control == session)
		close_session(s, n, session, why);
	if (n->control == session && n->bulk)
		close_session(s, n, n->bulk, why); /* an agent that may not speak may not send either */
}

/* ---- life ------------------------------------------------------------------------------------- */

struct sessions *sessions_create(struct io_set *ios, struct loop *state_loop, const struct sessions_ops *ops)
{
	struct sessions *s = xcalloc(1, sizeof(*s));

	s->ios = ios;
	s->loop = state_loop;
	s->ops = *ops;
	return s;
}

void sessions_destroy(struct sessions *s)
{
	struct node_session *n, *tmp;

	if (!s)
		return;
	HASH_ITER (hh, s->nodes, n, tmp) {
		HASH_DEL(s->nodes, n);
		free(n);
	}
	loop_timer_destroy(s->retry);
	free(s);
}

unsigned sessions_count(const struct sessions *s)
{
	struct node_session *n, *tmp;
	unsigned count = 0;

	HASH_ITER (hh, s->nodes, n, tmp)
		count += n->control != 0;
	return count;
}
