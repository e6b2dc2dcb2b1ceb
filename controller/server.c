/*
 * server: what is joined to what.
 *
 * Made in this order, ended in the reverse: sockets, the channel to the state thread, the I/O threads'
 * places, the data threads and workers (which post to those), the API, the I/O threads themselves.
 */
#include "controller/server.h"

#include <signal.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/api/thread.h"
#include "controller/files/blobs/manifests.h"
#include "controller/files/data_threads.h"
#include "controller/io/agents.h"
#include "controller/io/ask.h"
#include "controller/io/io.h"
#include "controller/io/listen.h"
#include "controller/io/order.h"
#include "controller/io/sessions.h"
#include "controller/io/state_link.h"
#include "controller/io/work.h"

struct server {
	char *db_path, *cluster, *web_dir;
	struct server_ops ops;
	struct listeners listeners;
	struct state_link *link;
	struct io_set *ios;
	struct work_pool *work, *names;
	struct sessions *sessions;
	struct data_threads *data;
	struct manifests *manifests;
	struct agents_shared agents;
	struct api api;
};

/* ---- towards the state thread ----------------------------------------------------------------- */

static void on_to_state(struct to_state *m, void *arg)
{
	struct server *s = arg;

	switch (m->kind) {
	case TS_REQUEST:
		s->ops.request(m->rq, s->ops.arg);
		m->rq = NULL;
		break;
	case TS_AGENT_UP:
		sessions_up(s->sessions, m);
		break;
	case TS_AGENT_MSG:
		sessions_msg(s->sessions, m);
		break;
	case TS_AGENT_DOWN:
		sessions_down(s->sessions, m);
		break;
	case TS_OVER_QUOTA:
		if (s->ops.over_quota)
			s->ops.over_quota(m->job, m->attempt, m->why, s->ops.arg);
		break;
	}
}

/* ---- from the state thread -------------------------------------------------------------------- */

void server_send_agent(struct server *s, const char *node, uint64_t session, uint16_t type, const void *msg,
                       uint64_t id)
{
	sessions_send(s->sessions, node, session, type, msg, id);
}

void server_close_agent(struct server *s, const char *node, uint64_t session, const char *why)
{
	sessions_close(s->sessions, node, session, why);
}

void server_metrics_ack(struct server *s, const char *node, uint64_t job, uint32_t attempt, uint64_t seq)
{
	struct wm_metrics_ack ack = {.job = job, .attempt = attempt, .seq = seq};

	sessions_send_bulk(s->sessions, node, WM_METRICS_ACK, &ack);
}

void server_notice(struct server *s, const struct event_row *ev)
{
	data_notice(s->data, ev);
	api_notice(&s->api, ev);
}

void server_remove_data(struct server *s, uint64_t job)
{
	data_remove_job(s->data, job);
}

cJSON *server_stats(struct server *s)
{
	cJSON *o = api_numbers(&s->api);

	cJSON_AddNumberToObject(o, "agents_connected", sessions_count(s->sessions));
	return o;
}

/* ---- from the data threads -------------------------------------------------------------------- */

static void data_send(uint64_t session, uint16_t type, void *msg, uint64_t id, void *arg)
{
	order_send_wait(((struct server *)arg)->ios, session, type, msg, id);
}

static void data_hang_up(uint64_t session, const char *why, void *arg)
{
	order_close_wait(((struct server *)arg)->ios, session, why);
}

static void data_grown(unsigned watcher, struct log_grown *g, void *arg)
{
	api_log_grown(&((struct server *)arg)->api, watcher, g);
}

/* When the channel is full the job has no event; hearthd's log has the line. */
static void data_over_quota(uint64_t job, uint32_t attempt, const char *text, void *arg)
{
	struct to_state *m = xcalloc(1, sizeof(*m));

	m->kind = TS_OVER_QUOTA;
	m->job = job;
	m->attempt = attempt;
	m->why = xstrdup(text);
	if (state_link_send(((struct server *)arg)->link, m) < 0)
		to_state_free(m);
}

/* ---- on each I/O thread ----------------------------------------------------------------------- */

static void begin_thread(struct io *io, void *arg)
{
	struct server *s = arg;

	io->agents = agents_create(io, &s->agents);
	if (!io_serves_http(io))
		return;
	io->asks = asks_create(io, s->link);
	api_thread_begin(io, &s->api);
}

static void stop_thread(struct io *io, void *arg)
{
	(void)arg;
	agents_destroy(io->agents);
	io->agents = NULL;
	if (!io_serves_http(io))
		return;
	asks_refuse(io->asks);
	api_thread_stop(io);
}

static void end_thread(struct io *io, void *arg)
{
	(void)arg;
	agents_destroy(io->agents);
	io->agents = NULL;
	api_thread_end(io);
	asks_destroy(io->asks);
	io->asks = NULL;
}

/* ---- start and stop --------------------------------------------------------------------------- */

static void init_shared(struct server *s, const struct server_config *c)
{
	s->agents.ca = c->ca;
	s->agents.cluster = s->cluster;
	s->agents.lease_ms = c->lease_ms;
	s->agents.beat_ms = c->beat_ms;
	s->agents.link = s->link;
	/* Sessions rise across restarts too, so that an agent's newer one is always the greater. */
	atomic_init(&s->agents.next_session, clock_real_us(clock_real()) / 1000);
	s->api.disk = c->disk;
	s->api.link = s->link;
	s->api.agents = &s->agents;
	s->api.cluster = s->cluster;
	s->api.web_dir = s->web_dir;
	s->api.max_runtime_default_s = c->max_runtime_default_s ? c->max_runtime_default_s : 86400;
	s->api.max_runtime_limit_s = c->max_runtime_limit_s ? c->max_runtime_limit_s : 30 * 86400;
}

static struct server *new_server(const struct server_config *c, struct loop *state_loop,
                                 const struct server_ops *ops)
{
	struct server *s = xcalloc(1, sizeof(*s));

	listeners_init(&s->listeners);
	s->db_path = xasprintf("%s/hearth.db", c->data_dir);
	s->cluster = xstrdup(c->cluster ? c->cluster : "");
	s->web_dir = xstrdup(c->web_dir);
	s->ops = *ops;
	s->link = state_link_create(state_loop, on_to_state, s);
	init_shared(s, c);
	return s;
}

static int open_sockets(struct server *s, const struct server_config *c, struct err *e)
{
	struct listen_config lc = {
	    .address = c->listen, .data_dir = c->data_dir, .ca = c->ca, .names = c->server_names};

	if (listeners_open(&s->listeners, &lc, e) < 0)
		return -1;
	auth_set_port(s->api.auth, s->listeners.port);
	s->api.loopback = s->listeners.loopback;
	s->api.tls = s->listeners.ssl != NULL;
	return 0;
}

static int start_threads(struct server *s, const struct server_config *c, struct loop *state_loop,
                         struct err *e)
{
	struct io_config ic = {
	    .n = c->io_threads,
	    .db_path = s->db_path,
	    .tcp_fd = s->listeners.tcp_fd,
	    .unix_fd = s->listeners.unix_fd,
	    .ssl = s->listeners.ssl,
	    .ops = {
	        .on_call = api_call, .begin = begin_thread, .stop = stop_thread, .end = end_thread, .arg = s}};
	struct data_ops data_ops = {.send = data_send,
	                            .hang_up = data_hang_up,
	                            .grown = data_grown,
	                            .over_quota = data_over_quota,
	                            .arg = s,
	                            .limits = c->logs};
	struct sessions_ops so = {
	    .up = s->ops.agent_up, .msg = s->ops.agent_msg, .down = s->ops.agent_down, .arg = s->ops.arg};

	s->ios = s->api.ios = io_set_create(&ic);
	s->sessions = sessions_create(s->ios, state_loop, &so);
	s->data = data_threads_create(c->data_dir, &data_ops, e);
	s->agents.data = s->api.data = s->data;
	s->manifests = s->api.manifests = s->data ? manifests_create(data_blobs(s->data)) : NULL;
	s->work = s->ios->work = work_pool_create(s->db_path, e);
	s->names = s->ios->names = work_pool_create(s->db_path, e);
	if (!s->data || !s->work || !s->names || api_init(&s->api, s->db_path, e) < 0)
		return -1;
	return io_set_start(s->ios, e);
}

struct server *server_start(const struct server_config *c, struct loop *state_loop,
                            const struct server_ops *ops, struct err *e)
{
	struct server *s = new_server(c, state_loop, ops);

	signal(SIGPIPE, SIG_IGN);
	s->api.auth = auth_create(c->data_dir, c->admin_user, c->accounts, e);
	if (!s->api.auth || open_sockets(s, c, e) < 0 || start_threads(s, c, state_loop, e) < 0) {
		server_stop(s);
		return NULL;
	}
	log_info("event=http_started address=%s port=%u tls=%d socket=%s threads=%u", c->listen,
	         s->listeners.port, s->api.tls, s->listeners.unix_fd >= 0 ? s->listeners.unix_path : "none",
	         s->ios->n);
	return s;
}

void server_stop(struct server *s)
{
	if (!s)
		return;
	if (s->ios)
		io_set_stop(s->ios);
	work_pool_stop(s->work);
	work_pool_stop(s->names);
	data_threads_destroy(s->data);
	io_set_destroy(s->ios);
	work_pool_destroy(s->work);
	work_pool_destroy(s->names);
	manifests_destroy(s->manifests);
	sessions_destroy(s->sessions);
	state_link_destroy(s->link);
	listeners_fini(&s->listeners);
	api_fini(&s->api);
	auth_destroy(s->api.auth);
	free(s->db_path);
	free(s->cluster);
	free(s->web_dir);
	free(s);
}

unsigned server_port(const struct server *s)
{
	return s->listeners.port;
}
