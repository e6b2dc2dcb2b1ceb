/*
 * io: the I/O threads and the connections of agents. This folder carries bytes and messages: calls and
 * agents' messages to the state thread, answers and orders back. It decides nothing about jobs.
 *
 * This header: the threads. Each has a loop, an HTTP server on the shared sockets, a reader of the store and
 * a bounded channel through which other threads run a function on it. What else lives on a thread (requests
 * in work, agents, the API's followers) is put there by io_ops. The last thread has the control connections
 * of agents and nothing else: no HTTP server, no reader, no requests.
 *
 * Channels between the threads:
 *
 * | from, to              | file         | full                                                        |
 * |-----------------------|--------------|-------------------------------------------------------------|
 * | I/O to state          | state_link   | requests are answered with 503, agents' connections pause   |
 * | state to I/O, answers | ask          | never: a thread has at most ASK_MAX requests in work         |
 * | any to I/O            | io           | the sender decides: io_post returns -1, io_post_wait waits   |
 * | I/O to files          | data_threads | uploads are answered with 503, agents' connections pause     |
 */
#ifndef HEARTH_CONTROLLER_IO_IO_H
#define HEARTH_CONTROLLER_IO_IO_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/os/chan.h"
#include "common/os/loop.h"
#include "controller/http/http.h"

#define IO_MAX    16u /* threads that serve HTTP */
#define IO_AGENTS 1u  /* threads of agents' control connections: they serve no HTTP */

struct agents;
struct api_thread;
struct asks;
struct io_set;
struct store_reader;
struct work_pool;

struct io {
	struct io_set *set;
	unsigned index;
	struct loop *loop;
	struct http *http; /* NULL, as are reader, asks and api: the thread of agents */
	struct http_counters count;
	struct store_reader *reader;
	/* put there by io_ops.begin */
	struct asks *asks;      /* requests to the state thread (ask.h) */
	struct agents *agents;  /* connections of agents (agents.h); NULL once the thread ends */
	struct api_thread *api; /* what handlers store on a thread; opaque here */
	/* io.c's own */
	pthread_t thread;
	int started;
	struct chan *in;
	struct loop_timer *end;
};

struct io_ops {
	void (*on_call)(struct call *c, void *io);
	/* Before the thread starts. */
	void (*begin)(struct io *io, void *arg);
	/* On the thread, when hearthd stops: it accepts no connection any more, and answers have a moment left.
	 */
	void (*stop)(struct io *io, void *arg);
	/* The thread has ended, its connections are still there. */
	void (*end)(struct io *io, void *arg);
	void *arg;
};

struct io_config {
	unsigned n; /* threads that serve HTTP; 0 = 2 */
	const char *db_path;
	int tcp_fd, unix_fd; /* listening, -1 none */
	SSL_CTX *ssl;        /* NULL plain */
	struct io_ops ops;
};

struct io_set {
	struct io io[IO_MAX + IO_AGENTS];
	unsigned n;   /* threads that serve HTTP; those of agents follow them */
	unsigned all; /* n + IO_AGENTS */
	/* Questions that may take long, and look-ups of accounts (work.h); set before the threads start. */
	struct work_pool *work, *names;
	_Atomic int stopping;
	struct io_config cfg;
	char *db_path;
};

/* Starts no thread yet: their number and their channels' owners are known from here on. */
struct io_set *io_set_create(const struct io_config *c);
int io_set_start(struct io_set *s, struct err *e);
void io_set_stop(struct io_set *s);    /* ends the threads that were started */
void io_set_destroy(struct io_set *s); /* after io_set_stop; NULL allowed */

static inline struct io *io_of_agents(struct io_set *s)
{
	return &s->io[s->n];
}

static inline int io_serves_http(const struct io *io)
{
	return io->index < io->set->n;
}

/* Runs fn(io, arg) on that I/O thread. -1: its channel is full, nothing was posted. drop frees arg when the
 * thread ends first. */
typedef void (*io_fn)(struct io *io, void *arg);
int io_post(struct io *io, io_fn fn, void *arg, void (*drop)(void *arg));
/* Waits for room; drops arg when hearthd ends. Not for I/O threads: two of them could wait for each other. */
void io_post_wait(struct io *io, io_fn fn, void *arg, void (*drop)(void *arg));

#endif
