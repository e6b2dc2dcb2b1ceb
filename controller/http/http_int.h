/*
 * http_int: what http.c (connections), http_call.c (calls and answers) and http_share.c (their owners) share.
 * No other file includes it.
 */
#ifndef HEARTH_CONTROLLER_HTTP_HTTP_INT_H
#define HEARTH_CONTROLLER_HTTP_HTTP_INT_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <uthash.h>

#include "common/os/loop.h"
#include "controller/http/http.h"
#include "controller/http/http_guard.h"
#include "controller/http/http_share.h"

#define COUNT(h, field, n) atomic_fetch_add_explicit(&(h)->cfg.count->field, (n), memory_order_relaxed)

struct http_listener { /* evhttp's arguments for one of the two sockets */
	struct http *h;
	struct evhttp *ev;
	struct evhttp_bound_socket *bound;
	SSL_CTX *ssl;
	int is_unix;
	unsigned n, most; /* connections, without those whose new owner knows the other side */
	int closed;       /* paused: too many connections or no descriptors */
};

enum conn_end { CONN_GOES, CONN_REFUSED, CONN_GONE };

struct http_conn {
	struct http *h;
	UT_hash_handle hh;               /* by bev */
	struct bufferevent *bev;         /* evhttp's; ours only while it is set up */
	struct evhttp_connection *evcon; /* NULL until set up */
	struct evbuffer_cb_entry *entry; /* the guard's place on the input */
	struct call *call;               /* the request in work */
	struct http_guard guard;
	enum http_phase phase; /* since since_us */
	enum conn_end end;
	uint64_t since_us;
	uint64_t charged; /* body bytes counted in h->body_bytes */
	int status;       /* CONN_REFUSED: the answer */
	const char *why;
	int is_unix, is_tls, taken, over;
	int uncounted;                 /* taken over, and the other side has proved who it is */
	int stranger;                  /* in h->strangers */
	struct http_conn *prev, *next; /* there */
	struct http_share *share;      /* that counts it */
	struct share_owner *owner;     /* there; NULL: not counted */
	struct http_conn *owner_prev, *owner_next;
	uint32_t uid;
	char peer[64];
};

struct http {
	struct http_config cfg;
	void (*on_call)(struct call *c, void *arg);
	void *arg;
	struct http_listener tcp, local;
	struct http_conn *conns;
	/* Connections over TCP on which nobody has proved who calls, oldest first. */
	struct http_conn *strangers;
	unsigned n_strangers;
	struct http_share accounts; /* connections of the unix socket, by the caller's account */
	struct http_share users;    /* connections over TCP, by the user who has proved who he is */
	uint64_t body_bytes;        /* bodies being read or worked on */
	struct loop_timer *sweep, *reopen;
	uint64_t sweep_us;
	int stopping;
};

/* http_call.c */
struct call *call_new(struct http_conn *conn, struct evhttp_request *ev);
void call_conn_gone(struct call *c);
/* http.c */
void http_conn_idle(struct http_conn *conn);  /* its call is over */
void http_conn_known(struct http_conn *conn); /* no stranger any more */

#endif
