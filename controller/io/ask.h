/*
 * ask: a call's request goes to the state thread, and its answer comes back to the I/O thread of the call.
 *
 * A request in work is a struct pending in its thread's list, from the hand-over to the answer. The state
 * thread only sees its address (in request.io). After asks_destroy that address still lives, and the state
 * thread drops an answer that nobody waits for.
 */
#ifndef HEARTH_CONTROLLER_IO_ASK_H
#define HEARTH_CONTROLLER_IO_ASK_H

#include <cjson/cJSON.h>

#include "controller/state/request.h"

#define ASK_MAX 4096u /* requests of one I/O thread that the state thread has not answered */

struct asks;
struct call;
struct io;
struct state_link;

struct asks *asks_create(struct io *io, struct state_link *link);
void asks_refuse(struct asks *a);  /* on the thread: hearthd ends, calls that wait are answered with 503 */
void asks_destroy(struct asks *a); /* the thread has ended; NULL allowed */

/* Makes a request with all that comes from the call: user, role, job, Idempotency-Key. Takes body. */
struct request *ask_new(struct call *c, enum request_op op, cJSON *body);
/* Sends the call's request to the state thread and answers the call with what comes back. Takes rq. */
void ask_send(struct call *c, struct io *io, struct request *rq);
/* As above, but fn gets the answer: takes body; e is NULL below 400. The call may be gone by then
 * (call_open). */
typedef void (*ask_fn)(struct call *c, struct io *io, int status, cJSON *body, const struct err *e);
void ask_send_cb(struct call *c, struct io *io, struct request *rq, ask_fn fn);
/* Sends a request of no call, whose answer nobody reads; a full channel drops it. Takes rq. */
void ask_tell(struct io *io, struct request *rq);

#endif
