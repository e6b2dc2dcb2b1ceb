/*
 * work: questions that may take long run on workers, so that no I/O thread waits for them.
 *
 * An I/O thread hands over a function, which runs on a worker with a reader of its own. Its result comes back
 * to the I/O thread of the call. Searches and names of jobs, large jobs, members of an array, metrics, sums
 * of cost, the scheduler's record and all that reads a manifest are such questions. A question ends when its
 * client leaves, WORK_LIMIT_MS after it was asked, or when hearthd stops: the reader is interrupted. Workers
 * yield the CPU to all other threads. Users have turns. A pool that has WORK_QUEUE questions answers the next
 * one with 503; a user who has WORK_USER_QUEUE of them gets 429.
 *
 * Accounts are looked up by workers of their own: the name service may be slow, and searches fill workers.
 */
#ifndef HEARTH_CONTROLLER_IO_WORK_H
#define HEARTH_CONTROLLER_IO_WORK_H

#include <cjson/cJSON.h>

#include "common/base/err.h"

#define WORK_THREADS      4u
#define WORK_USER_THREADS 2u   /* of them at most for one user */
#define WORK_QUEUE        256u /* questions that run or wait */
#define WORK_USER_QUEUE   32u  /* of them at most of one user */
#define WORK_LIMIT_MS     10000u

struct call;
struct io;
struct store_reader;
struct work_pool;

struct work_ask {
	/* On a worker. It may read strings of the call, which is held, and nothing else of it. */
	cJSON *(*ask)(struct store_reader *r, void *state, struct err *e);
	/* On the worker: 1 where what was found needs `answer` on the I/O thread, if the client still waits.
	 * Else, and where this is NULL, the worker writes the text of the answer, too. answer takes body. */
	int (*is_open)(const cJSON *body, void *state);
	void (*answer)(struct call *c, struct io *io, cJSON *body, void *state);
	void *state; /* taken */
	void (*free_state)(void *state);
	int is_name; /* for the workers of names */
};
/* Answers the call with 503 when the pool is full, with 429 when its user has too many. Uses on_gone and
 * state of the call. */
void work_ask(struct call *c, struct io *io, const struct work_ask *w);

struct work_pool *work_pool_create(const char *db_path, struct err *e);
/* Ends the workers. The I/O threads have ended, and are not freed yet. */
void work_pool_stop(struct work_pool *p);
void work_pool_destroy(struct work_pool *p); /* after the I/O threads were freed; NULL allowed */

#endif
