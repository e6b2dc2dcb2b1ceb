/*
 * http: HTTP as RFC 9112 has it. This folder knows no job and no API: it reads requests, finds out who calls,
 * and hands calls to the owner of the route table.
 *
 * This header: the HTTP server of one I/O thread, over evhttp.
 *
 * One struct http per thread, on the thread's loop; several share the same listening sockets (duplicated
 * descriptors). It bounds connections, headers, bodies, waits and memory, sends every byte through the guard
 * (http_guard.h) before evhttp sees it, and hands complete requests to on_call as a struct call, which must
 * be answered exactly once: by one of the call_ functions here, at once or later on this thread.
 *
 * A call lives while its connection still works on it or someone holds it (call_hold). When the client goes,
 * on_gone runs once and later answers are dropped silently.
 */
#ifndef HEARTH_CONTROLLER_HTTP_HTTP_H
#define HEARTH_CONTROLLER_HTTP_HTTP_H

#include <cjson/cJSON.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/base/err.h"
#include "controller/http/auth.h"

struct http;
struct http_conn;
struct loop;
struct route;
struct evbuffer;
struct evhttp_request;
struct bufferevent;

#define CALL_MAX_PARAMS 4
#define CALL_MAX_QUERY  24

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE, HTTP_OTHER };
const char *http_method_name(enum http_method m);

struct http_counters { /* written by one thread, read by any */
	_Atomic uint64_t accepted, over_limit, refused, timeouts, requests, by_class[6], bytes_streamed;
	_Atomic int64_t open, streams;
};

struct http_config {
	struct loop *loop;
	int tcp_fd, unix_fd; /* listening, -1 none; duplicated, they stay the caller's */
	SSL_CTX *ssl;        /* for the TCP socket; NULL plain */
	unsigned max_conns;  /* of this thread */
	unsigned idle_ms;    /* between requests; 0 = 120,000 */
	unsigned header_ms;  /* from a request's first byte to the end of its header; 0 = 10,000 */
	unsigned body_ms;    /* and a second for each 64 KiB announced; 0 = 30,000 */
	struct http_counters *count;
};
struct call;
struct http *http_create(const struct http_config *c, void (*on_call)(struct call *c, void *arg), void *arg,
                         struct err *e);
void http_stop_accepting(struct http *h);
void http_destroy(struct http *h); /* closes every connection; on_gone of open calls runs */

struct call {
	enum http_method method;
	char *path;          /* without query, still percent-encoded */
	char *query_text;    /* NULL none */
	const uint8_t *body; /* the whole body, valid until answered; NULL when empty */
	size_t body_n;
	int is_unix; /* came over the unix socket: uid is the peer's */
	uint32_t uid;
	char peer[64]; /* address for the log */
	uint64_t started_us;

	/* filled by the dispatcher (route.h) */
	const struct route *route;
	char *params[CALL_MAX_PARAMS]; /* decoded, in order of the pattern */
	const char *query_name[CALL_MAX_QUERY];
	char *query_value[CALL_MAX_QUERY];
	unsigned n_query;
	struct identity who;
	uint64_t target_id; /* number of the record that the address names; 0 none */

	/* for a handler that answers later */
	void (*on_gone)(struct call *c);               /* client is gone: stop working for it */
	void (*on_drain)(struct call *c);              /* stream: all that was put is written */
	void (*on_answer)(struct call *c, int status); /* the dispatcher's: when the answer begins */
	void *state;                                   /* the handler's own */

	/* http's own */
	int status; /* 0: not answered yet */
	unsigned refs;
	struct http *http;
	struct http_conn *conn; /* NULL: gone */
	struct evhttp_request *ev;
	int streaming;
};

struct call *call_hold(struct call *c);
void call_drop(struct call *c);
int call_open(
    const struct call *c); /* the client is still there and waits for its answer, or for more of a stream */

/* The caller has proved who it is (who): its connection counts as this user's. -1: he has too many. */
int call_known(struct call *c, struct err *e);
int call_fd(const struct call *c); /* the connection's descriptor; -1: the client is gone */
const char *call_header(const struct call *c, const char *name);           /* of the request; NULL none */
void call_add_header(struct call *c, const char *name, const char *value); /* of the answer; before it */

/* Answers. */
void call_json(struct call *c, int status, cJSON *body);                        /* takes body */
void call_text(struct call *c, int status, const char *type, const char *text); /* copies */
void call_data(struct call *c, int status, const char *type, const void *static_data,
               size_t n); /* refers: must live for ever */
void call_copy(struct call *c, int status, const char *type, const void *data, size_t n);
void call_buffer(struct call *c, int status, const char *type, struct evbuffer *b); /* takes b */
void call_empty(struct call *c, int status);
/* application/problem+json. hint may be NULL; several lines in e's text become "errors". */
void call_fail(struct call *c, const struct err *e);
/* With this status, and with the members of extra (NULL none; stays the caller's) added to the usual ones. */
void call_fail_with(struct call *c, int status, const struct err *e, const cJSON *extra);
void call_problem(struct call *c, int status, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
cJSON *http_problem(int status, const char *detail, const char *hint);

/* A streamed answer: start, put any number of times, end. length -1: chunked. */
void call_stream_start(struct call *c, int status, const char *type, int64_t length);
void call_stream_put(struct call *c,
                     struct evbuffer *b); /* moves b's content; on_drain follows when all of it is written */
size_t call_stream_queued(const struct call *c);
void call_stream_end(struct call *c);
void call_stream_abort(struct call *c); /* closes the connection: the reader must see that it is not whole */

/* Upgrade: sends 101 and gives the connection's bufferevent (its own reference). http_conn_free when done
 * with it. The connection stays a stranger's, and may have to give up its place: then on_gone of the call
 * runs, and the new owner frees the bufferevent. */
struct bufferevent *call_take_over(struct call *c, const char *protocol, struct http_conn **conn);
void http_conn_proved(struct http_conn *conn); /* it counts no more: its new owner knows the other side */
void http_conn_free(struct http_conn *conn);   /* on_gone does not run */

#endif
