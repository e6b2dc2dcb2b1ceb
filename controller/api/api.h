/*
 * api: the HTTP API. One table of routes (route_table.c) and one file of handlers for each noun. Handlers
 * read the store on their I/O thread; changes and questions about live state go to the state thread
 * (controller/io/ask.h).
 *
 * This header: the table, and what handlers of several files use. The handlers' prototypes are in api_jobs.h
 * and api_cluster.h.
 */
#ifndef HEARTH_CONTROLLER_API_API_H
#define HEARTH_CONTROLLER_API_API_H

#include "controller/http/route.h"
#include "controller/state/request.h"

struct call;
struct io;

/* Bits of a route, with enum route_flags. */
enum api_flags {
	/* {id} is a job: it must exist; a job's token reaches its own job only; RF_WRITE needs its owner or an
	 * administrator. */
	RF_JOB = RF_OWN,
	RF_FINDS = RF_OWN * 2, /* the handler itself reports a missing job */
	RF_SPEC = RF_OWN * 4,  /* the body has a specification */
};

const struct route *route_table(size_t *n);
/* route_param_fn of the table. */
int api_check_param(const char *name, size_t n, const char *value, struct err *e);

#define QUEUE_OR_USER "QUEUE, or QUEUE/@USER"
/* Sends a change of what the body's "name" names to the state thread, with the rest of the body. what: that
 * noun in words. The body has no other keys than these; NULL: the state thread checks them. */
void named_change(struct call *c, struct io *io, enum request_op op, const char *what,
                  const char *const *keys);
/* Sends a request about what the address names. */
void named_request(struct call *c, struct io *io, enum request_op op);

#endif
