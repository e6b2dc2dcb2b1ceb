/*
 * server_agents: the state thread's view of which node is connected where.
 *
 * I/O threads accept agents independently and may report in any order; sessions rise, so of two of the same
 * node and role the greater is the newer, and the older is closed. The core hears of a replaced control
 * connection as down, then up. METRICS come over the bulk connection but are handed up under the node's
 * control session, since the core knows no other.
 *
 * Orders that find an I/O thread's channel full must not vanish in silence: the session is doomed, its
 * connection is closed as soon as there is room for the message, and the next one starts with the agent's
 * full state.
 */
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "controller/files/data_threads.h"
#include "controller/files/disk_space.h"
#include "controller/io/server_int.h"

#define RETRY_US 20000u

struct node_session {
	char node[SERVER_NAME_MAX];
	uint64_t control, bulk; /* sessions, 0 none */
	uint64_t doomed[2];     /* sessions to close as soon as possible */
	UT_hash_handle hh;
};

struct order { /* state thread -> I/O thread */
	uint64_t session, id;
	uint16_t type;
	void *msg; /* NULL: close */
	char *why;
};

static void order_free(void *arg)
{
	struct order *o = arg;

	if (o->msg)
		wire_free(o->type, o->msg);
	free(o->why);
	free(o);
}

static void run_order(struct io *io, void *arg)
{
	struct order *o = arg;

	if (o->msg)
		agents_send(io, o->session, o->type, o->msg, o->id);
	else
		agents_close(io, o->session, o->why);
	o->msg = NULL;
	order_free(o);
}

static struct node_session *find(struct server *s, const char *node)
{
	struct node_session *n;

	HASH_FIND_STR(s->nodes, node, n);
	return n;
}

static int post(struct server *s, struct order *o)
{
	unsigned io = SESSION_IO(o->session);

	return io < s->n_io ? io_post(&s->io[io], run_order, o, order_free) : -1;
}

static int post_close(struct server *s, uint64_t session, const char *why)
{
	struct order *o = xcalloc(1, sizeof(*o));

	o->session = session;
	o->why = xstrdup(why);
	if (post(s, o) == 0)
		return 0;
	order_free(o);
	return -1;
}

static void on_retry(void *arg)
{
	struct server *s = arg;
	struct node_session *n, *tmp;
	int left = 0, i;

	HASH_ITER (hh, s->nodes, n, tmp)
		for (i = 0; i < 2; i++) {
			if (n->doomed[i] &&
			    post_close(s, n->doomed[i], "too many messages were waiting for this connection") == 0)
				n->doomed[i] = 0;
			left |= n->doomed[i] != 0;
		}
	if (left)
		loop_timer_arm(s->retry, RETRY_US);
}

static void doom(struct server *s, struct node_session *n, uint64_t session)
{
	int i = n->doomed[0] && n->doomed[0] != session;

	log_warn("event=agent_doomed node=%s reason=\"I/O thread %u has too much to do\"", n->node,
	         SESSION_IO(session));
	n->doomed[i] = session;
	if (!s->retry)
		s->retry = loop_timer_create(s->state_loop, on_retry, s);
	loop_timer_arm(s->retry, RETRY_US);
}

static void close_session(struct server *s, struct node_session *n, uint64_t session, const char *why)
{
	if (post_close(s, session, why) < 0)
		doom(s, n, session);
}

void server_agent_up(struct server *s, struct to_state *m)
{
	struct node_session *n = find(s, m->node);
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
			s->ops.agent_down(m->node, old, "replaced by a newer connection", s->ops.arg);
	}
	if (m->role == ROLE_CONTROL)
		s->ops.agent_up(m->node, m->session, m->msg, s->ops.arg);
}

void server_agent_down(struct server *s, struct to_state *m)
{
	struct node_session *n = find(s, m->node);

	if (!n)
		return;
	if (n->bulk == m->session)
		n->bulk = 0;
	if (n->control == m->session) {
		n->control = 0;
		s->ops.agent_down(m->node, m->session, m->why, s->ops.arg);
	}
}

void server_agent_msg(struct server *s, struct to_state *m)
{
	struct node_session *n = find(s, m->node);
	void *msg = m->msg;

	if (!n || (m->session != n->control && m->session != n->bulk))
		return; /* of a connection that was replaced: the newer one says it again */
	m->msg = NULL;
	s->ops.agent_msg(m->node, n->control ? n->control : m->session, m->type, m->id, msg, s->ops.arg);
}

static void send_to(struct server *s, struct node_session *n, uint64_t session, uint16_t type,
                    const void *msg, uint64_t id)
{
	struct order *o = xcalloc(1, sizeof(*o));

	o->session = session;
	o->type = type;
	o->id = id;
	o->msg = wire_copy(type, msg);
	if (post(s, o) == 0)
		return;
	order_free(o);
	doom(s, n, session);
}

void server_send_agent(struct server *s, const char *node, uint64_t session, uint16_t type, const void *msg,
                       uint64_t id)
{
	struct node_session *n = find(s, node);

	if (n && n->control == session && n->doomed[0] != session && n->doomed[1] != session)
		send_to(s, n, session, type, msg, id);
}

void server_metrics_ack(struct server *s, const char *node, uint64_t job, uint32_t attempt, uint64_t seq)
{
	struct node_session *n = find(s, node);
	struct wm_metrics_ack ack = {.job = job, .attempt = attempt, .seq = seq};

	if (n && n->bulk)
		send_to(s, n, n->bulk, WM_METRICS_ACK, &ack, 0);
}

void server_close_agent(struct server *s, const char *node, uint64_t session, const char *why)
{
	struct node_session *n = find(s, node);

	if (!n)
		return;
	if (n->control == session)
		close_session(s, n, session, why);
	if (n->control == session && n->bulk)
		close_session(s, n, n->bulk, why); /* an agent that may not speak may not send either */
}

void server_agents_free(struct server *s)
{
	struct node_session *n, *tmp;

	HASH_ITER (hh, s->nodes, n, tmp) {
		HASH_DEL(s->nodes, n);
		free(n);
	}
}

void server_remove_data(struct server *s, uint64_t job)
{
	data_remove_job(s->data, job);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static uint64_t sum(struct server *s, size_t offset)
{
	uint64_t total = 0;
	unsigned i;

	for (i = 0; i < s->n_io; i++)
		total += atomic_load_explicit((_Atomic uint64_t *)(void *)((char *)&s->io[i].count + offset),
		                              memory_order_relaxed);
	return total;
}

cJSON *server_io_stats(struct server *s)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
	    {"http_connections_total", offsetof(struct http_counters, accepted)},
	    {"http_connections_over_limit_total", offsetof(struct http_counters, over_limit)},
	    {"http_refused_total", offsetof(struct http_counters, refused)},
	    {"http_timeouts_total", offsetof(struct http_counters, timeouts)},
	    {"http_requests_total", offsetof(struct http_counters, requests)},
	    {"http_answers_2xx_total", offsetof(struct http_counters, by_class[2])},
	    {"http_answers_4xx_total", offsetof(struct http_counters, by_class[4])},
	    {"http_answers_5xx_total", offsetof(struct http_counters, by_class[5])},
	    {"http_streamed_bytes_total", offsetof(struct http_counters, bytes_streamed)},
	    {"http_open_connections", offsetof(struct http_counters, open)},
	    {"http_open_streams", offsetof(struct http_counters, streams)},
	};
	cJSON *o = cJSON_CreateObject();
	struct disk_state disk;
	unsigned i;
	uint64_t lost = 0;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		cJSON_AddNumberToObject(o, fields[i].name, (double)sum(s, fields[i].offset));
	for (i = 0; i < s->n_io; i++)
		lost += atomic_load(&s->io[i].notices_lost);
	cJSON_AddNumberToObject(o, "state_queue", (double)chan_length(s->to_state));
	cJSON_AddNumberToObject(o, "state_queue_full_total", (double)atomic_load(&s->state_full));
	cJSON_AddNumberToObject(o, "agent_pauses_total", (double)atomic_load(&s->agent_pauses));
	cJSON_AddNumberToObject(o, "notices_lost_total", (double)lost);
	data_stats(s->data, o);
	if (s->disk) {
		disk_space_last(s->disk, &disk);
		cJSON_AddNumberToObject(o, "disk_free_bytes", (double)disk.free_bytes);
		cJSON_AddNumberToObject(o, "disk_mark_bytes", (double)disk.mark_bytes);
		cJSON_AddNumberToObject(o, "disk_low", disk.low);
	}
	return o;
}

cJSON *server_stats(struct server *s)
{
	cJSON *o = server_io_stats(s);
	struct node_session *n, *tmp;
	unsigned agents = 0;

	HASH_ITER (hh, s->nodes, n, tmp)
		agents += n->control != 0;
	cJSON_AddNumberToObject(o, "agents_connected", agents);
	return o;
}
