/*
 * agents: connections of agents on one I/O thread, from the HTTP upgrade to the end.
 *
 * A connection begins on the thread that accepted it. There it stays a stranger's until the agent has proved
 * which node it is. Then a control connection moves to the agents' thread (IO_AGENTS in io.h), which does
 * nothing else: no beat waits behind a user's request or behind logs and blobs. A bulk connection stays.
 *
 * Control messages and METRICS go to the state thread, the rest of the bulk connection to the data threads.
 * When the receiver has no room, the connection pauses: it is not read any more, what was already read waits
 * in a list, and a timer tries again. Nothing is dropped.
 */
#ifndef HEARTH_CONTROLLER_IO_AGENTS_H
#define HEARTH_CONTROLLER_IO_AGENTS_H

#include <stdatomic.h>
#include <stdint.h>

struct agents;
struct call;
struct data_threads;
struct io;
struct state_link;
struct tls_ca;

struct agents_shared { /* by the agents of all threads; set before the first of them */
	struct tls_ca *ca;
	const char *cluster;
	uint32_t lease_ms, beat_ms; /* for WELCOME */
	struct data_threads *data;
	struct state_link *link;
	_Atomic uint64_t next_session;
	_Atomic uint64_t pauses; /* connections that were paused because a channel was full */
};

/* Everything below is for the I/O thread itself, or for the agents' thread. */
struct agents *agents_create(struct io *io, struct agents_shared *shared);
void agents_destroy(struct agents *a);              /* NULL allowed */
void agents_upgrade(struct call *c, struct io *io); /* handler of GET /agent/v1 */
void agents_send(struct io *io, uint64_t session, uint16_t type, void *msg, uint64_t id); /* takes msg */
void agents_close(struct io *io, uint64_t session, const char *why);

#endif
