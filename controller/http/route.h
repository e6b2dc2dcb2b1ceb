/*
 * route: the one table of the HTTP API, and the way of a call from the table to its handler.
 *
 * The table says for each route who may use it, which query parameters it knows and of which type, what goes
 * in and comes out; /openapi.json is made from it. The dispatcher checks Host and Origin, login, role, path
 * and query against it, then ownership, then calls the handler. A parameter that the route does not know is
 * an error that names the nearest one.
 */
#ifndef HEARTH_CONTROLLER_ROUTE_H
#define HEARTH_CONTROLLER_ROUTE_H

#include "controller/http/http.h"
#include <stddef.h>
#include <stdint.h>

struct io;

enum route_flags {
	RF_WRITE = 1, /* changes something: audited, Idempotency-Key, cookies need an Origin */
	RF_JOB = 2,   /* {id} is a job: it must exist; a job's token reaches its own job only; RF_WRITE needs its
	                 owner or an administrator */
	RF_LATER = 4, /* named by the contract, not built yet: 501 */
	RF_RAW = 8,   /* body is not JSON */
	RF_SPEC = 16, /* body holds a specification: 1 MiB and a margin */
	RF_STREAM = 32, /* may go on for ever */
	RF_FINDS = 64,  /* the handler itself says when there is no such job */
};

struct route {
	enum http_method method;
	const char *pattern; /* "/api/v1/jobs/{id}"; {rest*} takes all that is left */
	enum user_role role; /* least one */
	unsigned flags;
	void (*handler)(struct call *c, struct io *io);
	const char *query;    /* "limit:u follow:b"; u unsigned, i signed, b boolean, s text; "" none */
	const char *request;  /* name of the body's schema; NULL none; "*" bytes */
	const char *response; /* name of the answer's schema; "*" bytes, "text", "events" server-sent events */
	const char *summary;
};

const struct route *route_table(size_t *n);
void route_dispatch(struct call *c, void *io);

/* Access to what was checked. Defaults when absent. */
const char *query_str(const struct call *c, const char *name); /* NULL absent */
uint64_t query_u64(const struct call *c, const char *name, uint64_t otherwise);
int64_t query_i64(const struct call *c, const char *name, int64_t otherwise);
int query_bool(const struct call *c, const char *name);
uint64_t param_job(const struct call *c); /* of RF_JOB routes */

/* Percent-decoding of n bytes, malloc'ed. Refuses bad escapes, NUL, control bytes, bytes that are not UTF-8.
 * plus: '+' is a blank. */
char *route_decode(const char *s, size_t n, int plus, struct err *e);
/* Does path fit pattern? Fills params (malloc'ed, decoded) on 1; 0 no; -1 it does, but a segment is malformed
 * (e). */
int route_match(const char *pattern, const char *path, char *params[CALL_MAX_PARAMS], struct err *e);

/* Body as JSON object; NULL: answered already. An absent body is an empty object. */
cJSON *route_body(struct call *c);

#endif
