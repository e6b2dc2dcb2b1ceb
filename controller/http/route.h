/*
 * route: the way of a call to its handler, by a table that its owner gives (struct router).
 *
 * The table says for each route who may use it, which query parameters it knows and of which type, what goes
 * in and comes out. The dispatcher checks login, role, path and query against it, then calls the handler. A
 * parameter that the route does not know is an error that names the nearest one.
 */
#ifndef HEARTH_CONTROLLER_HTTP_ROUTE_H
#define HEARTH_CONTROLLER_HTTP_ROUTE_H

#include <stddef.h>
#include <stdint.h>

#include "controller/http/http.h"

struct io; /* the thread that serves the call, for its handler; opaque here */

enum route_flags {
	/* Changes something, or opens a way into a job: audited, Idempotency-Key, of a job its owner's only. */
	RF_WRITE = 1,
	RF_LATER = 2,   /* named by the contract, not built yet: 501 */
	RF_RAW = 4,     /* body is not JSON */
	RF_STREAM = 8,  /* may go on for ever */
	RF_SUBMIT = 16, /* belongs to a submit: a token that may only submit is enough */
	RF_OWN = 256,   /* the first of the bits that have a meaning for the table's owner only */
};

struct route {
	enum http_method method;
	const char *pattern; /* "/api/v1/jobs/{id}"; {rest*} matches the rest, with its slashes */
	enum user_role role; /* least one */
	unsigned flags;
	void (*handler)(struct call *c, struct io *io);
	const char *query;    /* "limit:u follow:b"; u unsigned, i signed, b boolean, s text; "" none */
	const char *request;  /* name of the body's schema; NULL none; "*" bytes */
	const char *response; /* name of the answer's schema; "*" bytes, "text", "events" server-sent events */
	const char *summary;
};

/* May a {name} of a pattern have this (decoded) value? n: length of name, which may end with '*'. */
typedef int (*route_param_fn)(const char *name, size_t n, const char *value, struct err *e);

struct router {
	const struct route *table;
	size_t n;
	size_t body_max; /* bytes of a body, but of RF_RAW routes */
	route_param_fn check_param;
	/* Fills c->who by the headers and the peer; -1: Host, Origin or token are refused. */
	int (*identify)(struct call *c, struct io *io, struct err *e);
	/* The hint that goes with 401; NULL none. */
	const char *(*login_hint)(struct io *io);
	/* The last check: does what the address names exist, and may the caller touch it? Fills c->target_id. */
	int (*check_target)(struct call *c, struct io *io, struct err *e);
};
void route_dispatch(const struct router *r, struct call *c, struct io *io);

/* What a call of the route does, and who makes this one, for access_check. */
enum access_action route_action(const struct route *r);
struct access_caller call_who(const struct call *c);

/* Read checked parameters. */
const char *query_str(const struct call *c, const char *name); /* NULL absent */
uint64_t query_u64(const struct call *c, const char *name, uint64_t otherwise);
int64_t query_i64(const struct call *c, const char *name, int64_t otherwise);
int query_bool(const struct call *c, const char *name);

/* Percent-decoding of n bytes, malloc'ed. Refuses bad escapes, NUL, control bytes, bytes that are not UTF-8.
 * plus: '+' is a blank. */
char *route_decode(const char *s, size_t n, int plus, struct err *e);
/* Does path fit pattern? Fills params (malloc'ed, decoded) on 1; 0 no; -1 it does, but a segment is malformed
 * (e). */
int route_match(const char *pattern, const char *path, route_param_fn check, char *params[CALL_MAX_PARAMS],
                struct err *e);

/* Body as JSON object; NULL: answered already. An absent body is an empty object. */
cJSON *route_body(struct call *c);

#endif
