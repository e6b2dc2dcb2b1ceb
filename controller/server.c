/*
 * server: starts and ends the I/O threads and the bulk thread, and carries requests to the state thread and
 * their answers back.
 *
 * A request in work is a struct pending, in its I/O thread's list from the hand-over to the answer. The state
 * thread only ever sees its address (in request.io); after server_stop it finds there that nobody waits any
 * more and drops the answer.
 */
#include "controller/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/openapi.h"
#include "controller/files/data_threads.h"
#include "controller/io/server_int.h"

#define REQUEST_LIMIT_US 60000000ull /* for the state thread's answer, a commit on a slow disk included */
#define TICK_US          1000000u
#define SLOW_TURN_US     50000
#define STOP_GRACE_US    300000u /* for answers that are being written when hearthd ends */

struct pending {
	struct pending *prev, *next;
	struct io *io;     /* NULL: the I/O threads are gone */
	struct call *call; /* held */
	uint64_t since_us;
	answer_fn fn;
	int status;
	cJSON *body;
	struct err e;
};

/* ---- I/O thread: messages from others --------------------------------------------------------- */

struct io_msg {
	io_fn fn;
	void *arg;
	void (*drop)(void *arg);
};

int io_post(struct io *io, io_fn fn, void *arg, void (*drop)(void *arg))
{
	struct io_msg *m = xmalloc(sizeof(*m));

	m->fn = fn;
	m->arg = arg;
	m->drop = drop;
	if (chan_send(io->in, m) == 0)
		return 0;
	free(m);
	return -1;
}

static void on_io_msg(void *msg, void *arg)
{
	struct io_msg *m = msg;

	m->fn(arg, m->arg);
	free(m);
}

static void drop_io_msg(void *msg)
{
	struct io_msg *m = msg;

	if (m->drop)
		m->drop(m->arg);
	free(m);
}

/* ---- requests --------------------------------------------------------------------------------- */

/* State thread. */
static void on_reply(struct request *rq, int status, cJSON *body, const struct err *e)
{
	struct pending *p = rq->io;

	request_free(rq);
	p->status = status;
	p->body = body;
	if (e)
		p->e = *e;
	if (p->io && chan_send(p->io->answers, p) == 0)
		return;
	/* Nobody waits. (A full channel cannot be: it has room for all that a thread may have in work.) */
	cJSON_Delete(body);
	free(p);
}

static void answer_default(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	(void)io;
	if (!e) {
		call_json(c, status, body ? body : cJSON_CreateObject());
		return;
	}
	call_fail_with(c, status, e, body);
	cJSON_Delete(body);
}

static void on_answer(void *msg, void *arg)
{
	struct pending *p = msg;
	struct io *io = arg;

	DL_DELETE(io->pending, p);
	io->waiting--;
	if (p->call->status == 0) {
		p->fn(p->call, io, p->status, p->body, p->status >= 400 ? &p->e : NULL);
		p->body = NULL;
	}
	cJSON_Delete(p->body);
	call_drop(p->call);
	free(p);
}

/* An answer that came when its thread had ended. */
static void drop_answered(void *msg)
{
	struct pending *p = msg;

	DL_DELETE(p->io->pending, p);
	call_drop(p->call);
	cJSON_Delete(p->body);
	free(p);
}

struct request *server_request_new(struct call *c, enum request_op op, cJSON *body)
{
	struct request *rq = request_new(op);
	const char *key = call_header(c, "Idempotency-Key");
	struct hash_ctx *h;

	rq->user = xstrdup(c->who.user);
	rq->role = c->who.role;
	rq->token_job = c->who.token_job;
	if (c->route->flags & RF_JOB)
		rq->job = param_job(c);
	rq->body = body;
	if (key && (c->route->flags & RF_WRITE)) {
		rq->idem_key = xstrdup(key);
		h = hash_start();
		hash_add(h, c->who.user, strlen(c->who.user) + 1);
		hash_add(h, http_method_name(c->method), strlen(http_method_name(c->method)) + 1);
		hash_add(h, c->path, strlen(c->path) + 1);
		if (c->body_n)
			hash_add(h, c->body, c->body_n);
		hash_end_hex(h, rq->idem_digest);
	}
	return rq;
}

void server_request_cb(struct call *c, struct io *io, struct request *rq, answer_fn fn)
{
	struct to_state *m;
	struct pending *p;

	if (rq->idem_key && (strlen(rq->idem_key) > 128 || !*rq->idem_key || str_has_control(rq->idem_key))) {
		request_free(rq);
		call_problem(c, 400, NULL, "Idempotency-Key must have 1 to 128 printable characters");
		return;
	}
	if (io->waiting >= IO_WAITING_MAX || atomic_load(&io->s->stopping)) {
		request_free(rq);
		atomic_fetch_add(&io->s->state_full, 1);
		call_problem(c, 503, "try again", "hearthd has too much to do");
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->io = io;
	p->call = call_hold(c);
	p->since_us = c->started_us;
	p->fn = fn;
	rq->reply = on_reply;
	rq->io = p;
	m = xcalloc(1, sizeof(*m));
	m->kind = TS_REQUEST;
	m->rq = rq;
	DL_APPEND(io->pending, p);
	io->waiting++;
	if (server_to_state(io->s, m) == 0)
		return;
	DL_DELETE(io->pending, p);
	io->waiting--;
	to_state_free(m);
	free(p);
	atomic_fetch_add(&io->s->state_full, 1);
	call_problem(c, 503, "try again", "hearthd has too much to do");
	call_drop(c);
}

void server_request(struct call *c, struct io *io, struct request *rq)
{
	server_request_cb(c, io, rq, answer_default);
}

/* ---- towards the state thread ----------------------------------------------------------------- */

int server_to_state(struct server *s, struct to_state *m)
{
	return chan_send(s->to_state, m);
}

void to_state_free(struct to_state *m)
{
	if (m->rq)
		request_free(m->rq);
	if (m->msg)
		wire_free(m->type, m->msg);
	free(m->why);
	free(m);
}

static void drop_to_state(void *msg)
{
	to_state_free(msg);
}

static void on_to_state(void *msg, void *arg)
{
	struct to_state *m = msg;
	struct server *s = arg;

	switch (m->kind) {
	case TS_REQUEST:
		s->ops.request(m->rq, s->ops.arg);
		m->rq = NULL;
		break;
	case TS_AGENT_UP:
		server_agent_up(s, m);
		break;
	case TS_AGENT_MSG:
		server_agent_msg(s, m);
		break;
	case TS_AGENT_DOWN:
		server_agent_down(s, m);
		break;
	}
	to_state_free(m);
}

/* ---- notices ---------------------------------------------------------------------------------- */

static void drop_event(void *arg)
{
	event_row_fini(arg);
	free(arg);
}

static void take_notice(struct io *io, void *arg)
{
	struct event_row *ev = arg;

	follow_notice(io, ev);
	sse_notice(io, ev);
}

void server_notice(struct server *s, const struct event_row *ev)
{
	unsigned i;

	atomic_store(&s->notice_id, ev->id);
	data_notice(s->data, ev);
	for (i = 0; i < s->n_io; i++) {
		struct event_row *copy;

		/* A follower registers first and reads the store then: whoever is not seen here finds the event
		 * there. */
		if (!atomic_load(&s->io[i].listeners))
			continue;
		copy = xcalloc(1, sizeof(*copy));

		*copy = *ev;
		copy->type = xstrdup(ev->type);
		copy->data = xstrdup(ev->data);
		if (io_post(&s->io[i], take_notice, copy, drop_event) < 0) {
			atomic_fetch_add(&s->io[i].notices_lost, 1); /* its followers will read the store */
			drop_event(copy);
		}
	}
}

/* ---- sockets ---------------------------------------------------------------------------------- */

static int split_listen(const char *listen, char *host, size_t host_size, char *port, size_t port_size,
                        struct err *e)
{
	const char *colon = strrchr(listen, ':');
	size_t n = colon ? (size_t)(colon - listen) : 0;
	uint64_t v;

	if (!colon || n == 0 || n >= host_size || strlen(colon + 1) >= port_size ||
	    str_parse_u64(colon + 1, &v) < 0 || v > 65535)
		return err_set(e, ERR_INVALID, "listen address \"%s\": expected HOST:PORT", listen);
	memcpy(host, listen, n);
	host[n] = '\0';
	if (host[0] == '[' && host[n - 1] == ']') {
		memmove(host, host + 1, n);
		host[n - 2] = '\0';
	}
	snprintf(port, port_size, "%s", colon + 1);
	return 0;
}

static int is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
	return 0;
}

static unsigned port_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return 0;
	if (a.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)(void *)&a)->sin6_port);
	return ntohs(((struct sockaddr_in *)(void *)&a)->sin_port);
}

static int listen_tcp(struct server *s, const char *address, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
	char host[256], port[8];
	int rc, one = 1;

	if (split_listen(address, host, sizeof(host), port, sizeof(port), e) < 0)
		return -1;
	rc = getaddrinfo(host, port, &hints, &list);
	if (rc)
		return err_set(e, ERR_INVALID, "listen address \"%s\": %s", address, gai_strerror(rc));
	s->loopback = is_loopback(list->ai_addr);
	s->tcp_fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->tcp_fd >= 0)
		setsockopt(s->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (s->tcp_fd < 0 || bind(s->tcp_fd, list->ai_addr, list->ai_addrlen) < 0 || listen(s->tcp_fd, 1024) < 0)
		err_sys(e, errno, "listening on %s", address);
	else
		s->port = port_of(s->tcp_fd);
	freeaddrinfo(list);
	return s->port ? 0 : -1;
}

static int listen_unix(struct server *s, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (strlen(s->unix_path) >= sizeof(a.sun_path)) {
		/* Not fatal: a data folder deep in a tree is common in tests; TCP and the token remain. */
		log_warn("event=no_unix_socket reason=\"path longer than %zu bytes\" path=%s", sizeof(a.sun_path) - 1,
		         s->unix_path);
		return 0;
	}
	memcpy(a.sun_path, s->unix_path, strlen(s->unix_path) + 1);
	unlink(s->unix_path); /* left by a hearthd that was killed: the lock on DATA says that none runs */
	s->unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->unix_fd < 0 || bind(s->unix_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    chmod(s->unix_path, 0666) < 0 || listen(s->unix_fd, 1024) < 0)
		return err_sys(e, errno, "%s", s->unix_path);
	return 0;
}

static int make_tls(struct server *s, const struct server_config *c, struct err *e)
{
	const char *hosts[66] = {"localhost", "127.0.0.1"};
	cleanup_free char *names = xstrdup(c->server_names ? c->server_names : "");
	cleanup_free char *cert = xasprintf("%s/server.pem", s->data_dir),
	                  *key = xasprintf("%s/server.key", s->data_dir);
	char own[256], host[256], port[8], *p, *save = NULL;
	unsigned n = 2;

	if (!c->ca)
		return err_set(e, ERR_INVALID, "listening off loopback needs the certificate authority");
	if (split_listen(c->listen, host, sizeof(host), port, sizeof(port), e) < 0)
		return -1;
	if (strcmp(host, "0.0.0.0") && strcmp(host, "::"))
		hosts[n++] = host;
	if (gethostname(own, sizeof(own)) == 0) {
		own[sizeof(own) - 1] = '\0';
		hosts[n++] = own;
	}
	for (p = strtok_r(names, ", ", &save); p && n < 65; p = strtok_r(NULL, ", ", &save))
		hosts[n++] = p;
	if (tls_ca_server_cert(c->ca, s->data_dir, hosts, e) < 0)
		return -1;
	s->ssl = tls_server_ctx(cert, key, tls_ca_pem(c->ca), e);
	return s->ssl ? 0 : -1;
}

/* Connections that one I/O thread may have, from what the system allows. */
static unsigned max_conns(const struct server *s)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur > 65536)
		return 8192 / s->n_io;
	return r.rlim_cur > 512 ? (unsigned)(r.rlim_cur - 256) / 2 / s->n_io : 64;
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *io_main(void *arg)
{
	struct io *io = arg;

	loop_run(io->loop);
	return NULL;
}

/* Requests wait in order of time. One that got no answer stays pending until it does: the state thread has
 * its address. */
static void io_tick(void *arg)
{
	struct io *io = arg;
	uint64_t now = clock_boot_us(clock_real());
	struct pending *p;

	DL_FOREACH (io->pending, p) {
		if (now - p->since_us < REQUEST_LIMIT_US)
			break;
		if (p->call->status == 0)
			call_problem(p->call, 504, "ask for the state before you try again",
			             "hearthd did not answer within a minute; whether it was done is not known");
	}
	loop_timer_arm(io->tick, TICK_US);
}

static void io_end(void *arg)
{
	struct io *io = arg;

	loop_stop(io->loop);
}

static void io_stopping(struct io *io, void *arg)
{
	struct pending *p;

	(void)arg;
	http_stop_accepting(io->http);
	DL_FOREACH (io->pending, p) {
		if (p->call->status == 0)
			call_problem(p->call, 503, "try again", "hearthd is ending; whether this was done is not known");
	}
	agents_destroy(io->agents);
	io->agents = NULL;
	sse_destroy(io->sse);
	io->sse = NULL;
	follow_destroy(io->follow);
	io->follow = NULL;
	io->end = loop_timer_create(io->loop, io_end, io);
	loop_timer_arm(io->end, STOP_GRACE_US);
}

static int io_start(struct server *s, unsigned index, struct err *e)
{
	struct io *io = &s->io[index];
	struct http_config c = {.tcp_fd = s->tcp_fd,
	                        .unix_fd = s->unix_fd,
	                        .ssl = s->ssl,
	                        .max_conns = max_conns(s),
	                        .count = &io->count};
	sigset_t all, old;
	int rc;

	io->s = s;
	io->index = index;
	io->loop = loop_create();
	loop_set_slow_warn(io->loop, SLOW_TURN_US);
	io->in = chan_create(io->loop, IO_IN_MAX, 0, on_io_msg, io);
	io->answers = chan_create(io->loop, IO_WAITING_MAX, 0, on_answer, io);
	io->names = auth_names_create();
	io->reader = store_reader_open(s->db_path, e);
	if (!io->reader)
		return -1;
	c.loop = io->loop;
	io->http = http_create(&c, route_dispatch, io, e);
	if (!io->http)
		return -1;
	io->agents = agents_create(io);
	io->sse = sse_create(io);
	io->follow = follow_create(io);
	io->tick = loop_timer_create(io->loop, io_tick, io);
	loop_timer_arm(io->tick, TICK_US);
	/* Signals are the state thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&io->thread, NULL, io_main, io);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_sys(e, rc, "I/O thread");
	pthread_setname_np(io->thread, "hearthd-io");
	io->started = 1;
	return 0;
}

static void io_free(struct io *io)
{
	struct pending *p, *tmp;

	if (!io->loop)
		return;
	agents_destroy(io->agents);
	sse_destroy(io->sse);
	follow_destroy(io->follow);
	chan_destroy(io->answers, drop_answered);
	chan_destroy(io->in, drop_io_msg);
	http_destroy(io->http);
	manifests_free(io->manifests);
	/* Requests that the state thread still has: their answers find nobody. */
	DL_FOREACH_SAFE (io->pending, p, tmp) {
		DL_DELETE(io->pending, p);
		call_drop(p->call);
		p->call = NULL;
		p->io = NULL;
	}
	loop_run_once(io->loop, 0); /* what the above put off to the end of the turn */
	store_reader_close(io->reader);
	auth_names_destroy(io->names);
	loop_timer_destroy(io->end);
	loop_timer_destroy(io->tick);
	loop_destroy(io->loop);
}

static void server_free(struct server *s)
{
	unsigned i;

	for (i = 0; i < s->n_io; i++)
		io_free(&s->io[i]);
	server_agents_free(s);
	chan_destroy(s->to_state, drop_to_state);
	loop_timer_destroy(s->retry);
	if (s->tcp_fd >= 0)
		close(s->tcp_fd);
	if (s->unix_fd >= 0) {
		close(s->unix_fd);
		unlink(s->unix_path);
	}
	SSL_CTX_free(s->ssl);
	auth_destroy(s->auth);
	free(s->data_dir);
	free(s->db_path);
	free(s->cluster);
	free(s->admin_user);
	free(s->web_dir);
	free(s->unix_path);
	free(s->openapi);
	free(s);
}

void server_stop(struct server *s)
{
	unsigned i;

	if (!s)
		return;
	atomic_store(&s->stopping, 1);
	for (i = 0; i < s->n_io; i++) {
		struct io_msg *m;

		if (!s->io[i].started)
			continue;
		m = xcalloc(1, sizeof(*m));
		m->fn = io_stopping;
		chan_send_wait(s->io[i].in, m);
	}
	for (i = 0; i < s->n_io; i++)
		if (s->io[i].started)
			pthread_join(s->io[i].thread, NULL);
	data_threads_destroy(s->data);
	server_free(s);
}

static struct server *server_new(const struct server_config *c, struct loop *state_loop,
                                 const struct server_ops *ops)
{
	struct server *s = xcalloc(1, sizeof(*s));

	s->tcp_fd = s->unix_fd = -1;
	s->data_dir = xstrdup(c->data_dir);
	s->db_path = xasprintf("%s/hearth.db", c->data_dir);
	s->unix_path = xasprintf("%s/hearthd.sock", c->data_dir);
	s->cluster = xstrdup(c->cluster ? c->cluster : "");
	s->admin_user = xstrdup(c->admin_user ? c->admin_user : "root");
	s->web_dir = xstrdup(c->web_dir);
	s->ca = c->ca;
	s->disk = c->disk;
	s->lease_ms = c->lease_ms;
	s->max_runtime_default_s = c->max_runtime_default_s ? c->max_runtime_default_s : 86400;
	s->max_runtime_limit_s = c->max_runtime_limit_s ? c->max_runtime_limit_s : 30 * 86400;
	s->beat_ms = c->beat_ms;
	s->state_loop = state_loop;
	s->ops = *ops;
	s->n_io = c->io_threads ? c->io_threads : 2;
	if (s->n_io > IO_MAX)
		s->n_io = IO_MAX;
	/* Sessions rise across restarts too, so that an agent's newer one is always the greater. */
	atomic_init(&s->next_session, clock_real_us(clock_real()) / 1000);
	s->to_state = chan_create(state_loop, TO_STATE_MAX, 0, on_to_state, s);
	return s;
}

/* Id of the newest event in the store: followers that ask for nothing older begin there. By bisection, since
 * ids rise. */
static int find_newest_event(struct server *s, struct err *e)
{
	struct store_reader *r = store_reader_open(s->db_path, e);
	uint64_t lo = 0, hi = (uint64_t)1 << 53;

	if (!r)
		return -1;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		cJSON *page = store_events_json(r, 0, mid, 1, NULL);

		if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(page, "events")))
			lo = mid + 1;
		else
			hi = mid;
		cJSON_Delete(page);
	}
	store_reader_close(r);
	atomic_store(&s->notice_id, lo);
	return 0;
}

struct server *server_start(const struct server_config *c, struct loop *state_loop,
                            const struct server_ops *ops, struct err *e)
{
	struct server *s = server_new(c, state_loop, ops);
	unsigned i;

	signal(SIGPIPE, SIG_IGN);
	s->openapi = openapi_text();
	s->auth = auth_create(c->data_dir, c->admin_user, e);
	if (!s->auth || listen_tcp(s, c->listen, e) < 0 || listen_unix(s, e) < 0 ||
	    (!s->loopback && make_tls(s, c, e) < 0))
		goto fail;
	s->data = data_threads_create(s, e);
	if (!s->data || find_newest_event(s, e) < 0)
		goto fail;
	for (i = 0; i < s->n_io; i++)
		if (io_start(s, i, e) < 0)
			goto fail;
	log_info("event=http_started address=%s port=%u tls=%d socket=%s threads=%u", c->listen, s->port,
	         s->ssl != NULL, s->unix_fd >= 0 ? s->unix_path : "none", s->n_io);
	return s;
fail:
	server_stop(s);
	return NULL;
}

unsigned server_port(const struct server *s)
{
	return s->port;
}
