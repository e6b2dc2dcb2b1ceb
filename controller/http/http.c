/*
 * http: connections.
 *
 * evhttp accepts a connection. At the end of that turn it is set up: address, limits, close callback. Then
 * it carries requests, one at a time, until evhttp or this file frees its evhttp_connection. A connection
 * that the guard refuses gets an answer written past evhttp, then a lingering close, so that a reset does
 * not destroy the answer.
 *
 * The only hook of evhttp at accept is the creation of the bufferevent. So the set-up comes one step later,
 * and a reference to the bufferevent is held meanwhile. evhttp's own errors (HTML pages, exit on states that
 * "cannot happen") are never reached: the guard refuses first.
 */
#include "controller/http/http.h"

#include <assert.h>
#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/http/http_int.h"

#define SWEEP_MS      500u
#define IDLE_MS       120000u
#define HEADER_MS     10000u
#define BODY_MS       30000u
#define LINGER_US     2000000ull
#define WRITE_STALL_S 60                     /* output waits, and the client reads nothing */
#define BODY_BUDGET   (256ull * 1024 * 1024) /* bodies in memory, per thread */
#define PIPELINE_MAX  (64u * 1024)           /* bytes behind a request that is still being answered */

/* Parts of a thread's connections: of the unix socket, of users over TCP, of strangers, and of strangers of
 * one source. What is neither the unix socket's nor the users' is kept for strangers: a quarter. */
#define LOCAL_SHARE     4
#define USERS_SHARE     2
#define STRANGERS_SHARE 2
#define SOURCE_SHARE    4
#define SOURCE_MIN      64
#define REFUSED_MAX     64 /* connections above the limit that still get an answer */

/* evhttp fills the listener's callback argument with its own, so the error callback finds us by its thread.
 * Set by the sweep. */
static _Thread_local struct http *of_thread;

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* ---- end -------------------------------------------------------------------------------------- */

static void free_later(void *arg)
{
	free(arg);
}

static void resume_listener(struct http *h, struct http_listener *ls)
{
	if (!ls->closed || h->stopping || ls->n >= ls->most)
		return;
	ls->closed = 0;
	if (ls->bound)
		evconnlistener_enable(evhttp_bound_socket_get_listener(ls->bound));
}

static void resume_accepting(void *arg)
{
	struct http *h = arg;

	resume_listener(h, &h->tcp);
	resume_listener(h, &h->local);
}

static void pause_listener(struct http *h, struct http_listener *ls)
{
	if (ls->closed)
		return;
	ls->closed = 1;
	if (ls->bound)
		evconnlistener_disable(evhttp_bound_socket_get_listener(ls->bound));
	loop_timer_arm(h->reopen, 200000);
}

static void charge_body(struct http_conn *conn, uint64_t bytes)
{
	conn->h->body_bytes += bytes - conn->charged;
	conn->charged = bytes;
}

static struct http_listener *listener_of(const struct http_conn *conn)
{
	return conn->is_unix ? &conn->h->local : &conn->h->tcp;
}

static void uncount_conn(struct http_conn *conn)
{
	struct http_listener *ls = listener_of(conn);

	if (conn->uncounted)
		return;
	conn->uncounted = 1;
	ls->n--;
	COUNT(conn->h, open, -1);
	resume_listener(conn->h, ls);
}

/* evhttp frees the connection, for whatever reason: the last moment at which bev and evcon are valid. */
static void on_close(struct evhttp_connection *evcon, void *arg)
{
	struct http_conn *conn = arg;
	struct http *h = conn->h;

	(void)evcon;
	if (conn->end == CONN_GONE)
		return;
	conn->end = CONN_GONE;
	http_conn_known(conn);
	http_share_leave(conn);
	if (conn->entry)
		evbuffer_remove_cb_entry(bufferevent_get_input(conn->bev), conn->entry);
	charge_body(conn, 0);
	if (conn->call)
		call_conn_gone(conn->call);
	uncount_conn(conn);
	HASH_DEL(h->conns, conn);
	loop_defer(h->cfg.loop, free_later, conn);
}

void http_conn_known(struct http_conn *conn)
{
	if (!conn->stranger)
		return;
	conn->stranger = 0;
	DL_DELETE(conn->h->strangers, conn);
	conn->h->n_strangers--;
}

static void conn_kill(struct http_conn *conn)
{
	if (conn->end != CONN_GONE && conn->evcon)
		evhttp_connection_free(conn->evcon);
}

void http_conn_free(struct http_conn *conn)
{
	if (conn->taken && conn->call)
		conn->call->on_gone = NULL;
	conn_kill(conn);
}

void http_conn_proved(struct http_conn *conn)
{
	http_conn_known(conn);
	http_share_leave(conn);
	uncount_conn(conn);
}

void http_conn_idle(struct http_conn *conn)
{
	conn->call = NULL;
	conn->since_us = now_us();
	charge_body(conn, 0);
}

/* ---- refusing --------------------------------------------------------------------------------- */

static void on_refusal_written(struct bufferevent *bev, void *arg)
{
	struct http_conn *conn = arg;

	if (evbuffer_get_length(bufferevent_get_output(bev)))
		return;
	if (conn->is_tls)
		conn_kill(conn);
	else
		shutdown(bufferevent_getfd(bev),
		         SHUT_WR); /* the client's last bytes are read and dropped until it closes, or the sweep */
}

static void on_refusal_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT))
		conn_kill(arg);
}

/* End of the turn in which the guard refused. */
static void send_refusal(void *arg)
{
	struct http_conn *conn = arg;
	cJSON *problem;
	char *text;

	if (conn->end != CONN_REFUSED || !conn->evcon)
		return;       /* gone meanwhile, or not set up yet: the set-up sends it */
	if (conn->call) { /* an answer is on its way: nothing can be put between */
		conn_kill(conn);
		return;
	}
	problem = http_problem(conn->status, conn->why, NULL);
	text = json_text(problem);
	evbuffer_add_printf(
	    bufferevent_get_output(conn->bev),
	    "HTTP/1.1 %d Refused\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
	    "%sConnection: close\r\n\r\n%s",
	    conn->status, strlen(text), conn->status == 429 || conn->status == 503 ? "Retry-After: 1\r\n" : "",
	    text);
	free(text);
	cJSON_Delete(problem);
	/* No read callback: evhttp must not see another byte, and the guard drops further input. */
	bufferevent_setcb(conn->bev, NULL, on_refusal_written, on_refusal_event, conn);
	bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
	conn->since_us = now_us();
}

static void refuse_conn(struct http_conn *conn, int status, const char *why)
{
	if (conn->end != CONN_GOES)
		return;
	conn->end = CONN_REFUSED;
	conn->status = status;
	conn->why = why;
	COUNT(conn->h, refused, 1);
	loop_defer(conn->h->cfg.loop, send_refusal, conn);
}

/* ---- guard ------------------------------------------------------------------------------------ */

static int feed_guard(struct http_conn *conn, struct evbuffer *b, size_t added)
{
	struct evbuffer_iovec v[8];
	struct evbuffer_ptr at;
	size_t left = added;
	int n, i;

	evbuffer_ptr_set(b, &at, evbuffer_get_length(b) - added, EVBUFFER_PTR_SET);
	while (left) {
		size_t done = 0;

		n = evbuffer_peek(b, (ev_ssize_t)left, &at, v, 8);
		for (i = 0; i < n && i < 8 && done < left; i++) {
			size_t k = v[i].iov_len < left - done ? v[i].iov_len : left - done;

			if (http_guard_feed(&conn->guard, v[i].iov_base, k) < 0)
				return -1;
			done += k;
		}
		left -= done;
		if (left && (done == 0 || evbuffer_ptr_set(b, &at, done, EVBUFFER_PTR_ADD) < 0))
			return -1;
	}
	return 0;
}

/* Runs when bytes have come, before evhttp's read callback. */
static void on_input(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg)
{
	struct http_conn *conn = arg;
	struct http *h = conn->h;

	if (info->n_added == 0)
		return;
	if (conn->end != CONN_GOES || conn->over) {
		evbuffer_drain(b, evbuffer_get_length(b));
		return;
	}
	if (feed_guard(conn, b, info->n_added) < 0) {
		if (conn->guard.phase == HTTP_REFUSED)
			refuse_conn(conn, conn->guard.status, conn->guard.why);
		else
			refuse_conn(conn, 500, "the input could not be read");
	} else if (conn->call && evbuffer_get_length(b) > PIPELINE_MAX) {
		refuse_conn(conn, 429, "too many bytes follow a request that has no answer yet");
	} else if (h->stopping) {
		refuse_conn(conn, 503, "hearthd is stopping");
	}
	if (conn->end != CONN_GOES) {
		evbuffer_drain(b, evbuffer_get_length(b));
		return;
	}
	if (conn->guard.phase != conn->phase) {
		conn->phase = conn->guard.phase;
		conn->since_us = now_us();
	}
	if (conn->phase == HTTP_BODY && conn->guard.length > conn->charged) {
		charge_body(conn, conn->guard.length);
		if (h->body_bytes > BODY_BUDGET) {
			refuse_conn(conn, 503, "too many large requests at once; try again");
			evbuffer_drain(b, evbuffer_get_length(b));
		}
	}
}

/* ---- sweep ------------------------------------------------------------------------------------ */

/* 1 when its time is over. */
static int is_overdue(const struct http_conn *conn, uint64_t now)
{
	uint64_t since = now - conn->since_us;

	if (conn->taken || conn->call)
		return 0;
	if (conn->end == CONN_REFUSED)
		return since > LINGER_US;
	switch (conn->phase) {
	case HTTP_HEADER:
		return since > conn->h->cfg.header_ms * 1000ull;
	case HTTP_BODY:
		return since > conn->h->cfg.body_ms * 1000ull + conn->guard.length / 65536 * 1000000;
	default:
		return since > conn->h->cfg.idle_ms * 1000ull;
	}
}

static void on_sweep(void *arg)
{
	struct http *h = arg;
	struct http_conn *conn, *next;
	uint64_t now = now_us();

	of_thread = h;
	HASH_ITER (hh, h->conns, conn, next) {
		if (!conn->evcon || !is_overdue(conn, now))
			continue;
		if (conn->end == CONN_REFUSED || conn->phase == HTTP_IDLE) {
			conn_kill(conn);
			continue;
		}
		COUNT(h, timeouts, 1);
		refuse_conn(conn, 408, "the request did not arrive in time");
	}
	loop_timer_arm(h->sweep, h->sweep_us);
}

/* ---- accepting -------------------------------------------------------------------------------- */

static void describe_peer(struct http_conn *conn)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);
	int fd = bufferevent_getfd(conn->bev), one = 1, idle_s = 60, every_s = 15;
	unsigned dead_ms = 90000; /* a peer whose machine is gone must not hold a connection for hours */
	char *address = NULL;
	ev_uint16_t port = 0;

	if (conn->is_unix) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0)
			conn->uid = cred.uid;
		else
			conn->uid = (uint32_t)-1; /* unknown: no account has this id */
		snprintf(conn->peer, sizeof(conn->peer), "unix:%u", conn->uid);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
	evhttp_connection_get_peer(conn->evcon, &address, &port);
	snprintf(conn->peer, sizeof(conn->peer), "%.45s:%u", address ? address : "?", port);
}

/* Length of the address in "ADDRESS:PORT". */
static size_t source_length(const char *peer)
{
	const char *colon = strrchr(peer, ':');

	return colon ? (size_t)(colon - peer) : strlen(peer);
}

/* Ends the oldest stranger but this one: one that waits for no answer, or else any. An agent in its handshake
 * waits for none. same: of its source. 1: one was ended. */
static int drop_stranger(struct http *h, const struct http_conn *but, int same)
{
	size_t n = source_length(but->peer) + 1;
	struct http_conn *conn, *waits = NULL;

	DL_FOREACH (h->strangers, conn) {
		if (conn == but || (same && strncmp(conn->peer, but->peer, n) != 0))
			continue;
		if (!conn->call || conn->taken)
			break;
		if (!waits)
			waits = conn;
	}
	conn = conn ? conn : waits;
	if (!conn)
		return 0;
	COUNT(h, refused, 1);
	conn_kill(conn);
	return 1;
}

static unsigned strangers_of(const struct http *h, const struct http_conn *source)
{
	size_t n = source_length(source->peer) + 1;
	const struct http_conn *conn;
	unsigned count = 0;

	DL_FOREACH (h->strangers, conn)
		count += strncmp(conn->peer, source->peer, n) == 0;
	return count;
}

/* A caller that says or proves nothing must not keep others out: a newer connection takes the place of the
 * oldest of its source, or of all. */
static void admit_stranger(struct http_conn *conn)
{
	struct http *h = conn->h;
	unsigned most = h->cfg.max_conns / SOURCE_SHARE;

	conn->stranger = 1;
	DL_APPEND(h->strangers, conn);
	h->n_strangers++;
	if (strangers_of(h, conn) > (most < SOURCE_MIN ? SOURCE_MIN : most))
		drop_stranger(h, conn, 1);
	else if (h->n_strangers > h->cfg.max_conns / STRANGERS_SHARE)
		drop_stranger(h, conn, 0);
	while (h->tcp.n > h->tcp.most && drop_stranger(h, conn, 0))
		;
	if (h->tcp.n <= h->tcp.most && (!conn->is_tls || bufferevent_openssl_get_ssl(conn->bev)))
		conn->over = 0;
	if (conn->over)
		refuse_conn(conn, 503, "too many connections; try again");
}

static void admit_account(struct http_conn *conn)
{
	struct http *h = conn->h;
	enum share_rc rc = http_share_add(&h->accounts, conn, conn->peer);

	conn->over = rc != SHARE_OK;
	if (rc == SHARE_OWNER_FULL)
		refuse_conn(
		    conn, 429,
		    "your account has too many connections to this socket that wait for an answer; end some of "
		    "them, for example followers of logs, then try again");
	else if (rc == SHARE_FULL)
		refuse_conn(conn, 503, "too many connections; try again");
	if (conn->over && h->local.n > h->local.most + REFUSED_MAX)
		conn_kill(conn);
}

/* End of the turn in which it was accepted: evhttp's connection object exists now. */
static void set_up(void *arg)
{
	struct http_conn *conn = arg;
	struct timeval stall = {WRITE_STALL_S, 0};
	bufferevent_data_cb read_cb, write_cb;
	bufferevent_event_cb event_cb;
	void *cbarg = NULL;
	int was_refused;

	bufferevent_getcb(conn->bev, &read_cb, &write_cb, &event_cb, &cbarg);
	if (!cbarg) { /* evhttp gave it up already */
		uncount_conn(conn);
		bufferevent_decref(conn->bev);
		HASH_DEL(conn->h->conns, conn);
		free(conn);
		return;
	}
	conn->evcon = cbarg;
	evhttp_connection_set_closecb(conn->evcon, on_close, conn);
	bufferevent_decref(conn->bev);
	bufferevent_set_timeouts(conn->bev, NULL, &stall);
	bufferevent_setwatermark(conn->bev, EV_READ, 0, HTTP_MAX_BODY + 2 * HTTP_MAX_HEADER);
	bufferevent_set_max_single_read(conn->bev, 128 * 1024);
	bufferevent_set_max_single_write(conn->bev, 256 * 1024);
	describe_peer(conn);
	was_refused = conn->end == CONN_REFUSED;
	if (conn->is_unix)
		admit_account(conn);
	else
		admit_stranger(conn);
	if (was_refused)
		send_refusal(conn);
}

/* evhttp asks for the bufferevent of a connection that was just accepted. Never NULL: evhttp would fall back
 * to a plain one. */
static struct bufferevent *on_bufferevent(struct event_base *base, void *arg)
{
	struct http_listener *ls = arg;
	struct http *h = ls->h;
	struct http_conn *conn = xcalloc(1, sizeof(*conn));
	SSL *ssl = ls->ssl ? SSL_new(ls->ssl) : NULL;

	if (ssl)
		conn->bev =
		    bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
	if (conn->bev)
		bufferevent_openssl_set_allow_dirty_shutdown(conn->bev, 1);
	else
		conn->bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!conn->bev) {
		log_error("event=out_of_memory what=bufferevent");
		abort();
	}
	conn->h = h;
	conn->is_unix = ls->is_unix;
	conn->is_tls = ls->ssl != NULL;
	conn->since_us = now_us();
	http_guard_init(&conn->guard);
	HASH_ADD_PTR(h->conns, bev, conn);
	COUNT(h, accepted, 1);
	COUNT(h, open, 1);
	if (++ls->n > ls->most || (ls->ssl && !ssl)) {
		conn->over = 1;
		COUNT(h, over_limit, 1);
		if (ls->n > ls->most + 2 * REFUSED_MAX)
			pause_listener(h, ls);
	}
	conn->entry = evbuffer_add_cb(bufferevent_get_input(conn->bev), on_input, conn);
	bufferevent_incref(conn->bev);
	loop_defer(h->cfg.loop, set_up, conn);
	return conn->bev;
}

static void on_accept_error(struct evconnlistener *l, void *arg)
{
	int error = EVUTIL_SOCKET_ERROR();

	(void)l;
	(void)arg;
	if (error == ECONNABORTED || error == EINTR || !of_thread)
		return;
	log_warn("event=accept_failed error=\"%s\"", strerror(error));
	pause_listener(of_thread, &of_thread->tcp); /* out of descriptors: the listeners would spin */
	pause_listener(of_thread, &of_thread->local);
}

/* ---- requests --------------------------------------------------------------------------------- */

static void on_request(struct evhttp_request *ev, void *arg)
{
	struct http_listener *ls = arg;
	struct http *h = ls->h;
	struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(ev));
	struct http_conn *conn;

	HASH_FIND_PTR(h->conns, &bev, conn);
	assert(conn && conn->evcon && !conn->call);
	conn->call = call_new(conn, ev);
	COUNT(h, requests, 1);
	h->on_call(conn->call, h->arg);
}

/* ---- create, destroy -------------------------------------------------------------------------- */

static int listen_on(struct http *h, struct http_listener *ls, int fd, struct err *e)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return err_sys(e, errno, "listening socket");
	ls->h = h;
	ls->ev = evhttp_new(loop_base(h->cfg.loop));
	if (!ls->ev) {
		close(copy);
		return err_set(e, ERR_INTERNAL, "evhttp_new failed");
	}
	/* All methods reach the dispatcher, whose answers have one shape; the guard lets pass only those it
	 * knows. */
	evhttp_set_allowed_methods(ls->ev, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
	                                       EVHTTP_REQ_PATCH | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS);
	evhttp_set_default_content_type(ls->ev, NULL);
	evhttp_set_max_headers_size(ls->ev, 2 * HTTP_MAX_HEADER);
	evhttp_set_max_body_size(ls->ev, HTTP_MAX_BODY);
	evhttp_set_bevcb(ls->ev, on_bufferevent, ls);
	evhttp_set_gencb(ls->ev, on_request, ls);
	ls->bound = evhttp_accept_socket_with_handle(ls->ev, copy);
	if (!ls->bound) {
		close(copy);
		return err_set(e, ERR_INTERNAL, "evhttp does not accept the listening socket");
	}
	evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(ls->bound), on_accept_error);
	return 0;
}

struct http *http_create(const struct http_config *c, void (*on_call)(struct call *c, void *arg), void *arg,
                         struct err *e)
{
	struct http *h = xcalloc(1, sizeof(*h));

	h->cfg = *c;
	h->cfg.idle_ms = c->idle_ms ? c->idle_ms : IDLE_MS;
	h->cfg.header_ms = c->header_ms ? c->header_ms : HEADER_MS;
	h->cfg.body_ms = c->body_ms ? c->body_ms : BODY_MS;
	h->sweep_us = (h->cfg.header_ms / 4 < SWEEP_MS ? h->cfg.header_ms / 4 : SWEEP_MS) * 1000u;
	h->on_call = on_call;
	h->arg = arg;
	h->tcp.ssl = c->ssl;
	h->local.is_unix = 1;
	h->local.most = c->max_conns / LOCAL_SHARE;
	h->tcp.most = c->max_conns - h->local.most;
	http_share_init(&h->accounts, h->local.most);
	http_share_init(&h->users, c->max_conns / USERS_SHARE);
	h->sweep = loop_timer_create(c->loop, on_sweep, h);
	h->reopen = loop_timer_create(c->loop, resume_accepting, h);
	if ((c->tcp_fd >= 0 && listen_on(h, &h->tcp, c->tcp_fd, e) < 0) ||
	    (c->unix_fd >= 0 && listen_on(h, &h->local, c->unix_fd, e) < 0)) {
		http_destroy(h);
		return NULL;
	}
	loop_timer_arm(h->sweep, 0);
	return h;
}

static void stop_listening(struct http_listener *ls)
{
	if (ls->bound)
		evhttp_del_accept_socket(ls->ev, ls->bound);
	ls->bound = NULL;
}

void http_stop_accepting(struct http *h)
{
	h->stopping = 1;
	stop_listening(&h->tcp);
	stop_listening(&h->local);
}

void http_destroy(struct http *h)
{
	struct http_conn *conn, *next;

	if (!h)
		return;
	http_stop_accepting(h);
	HASH_ITER (hh, h->conns, conn, next)
		conn_kill(conn);
	if (h->tcp.ev)
		evhttp_free(h->tcp.ev);
	if (h->local.ev)
		evhttp_free(h->local.ev);
	loop_timer_destroy(h->sweep);
	loop_timer_destroy(h->reopen);
	free(h);
}
