/*
 * worker: blocking work of the agent (copies, hashes, downloads, pip) on threads.
 *
 * One task has one thread, which owns no state of the agent. It asks the loop to run a function:
 * worker_post does not wait (a log line, progress), worker_call waits until the loop has an answer (a blob
 * of hearthd). The one mutex of the agent is in here, because a thread that waits has no loop to wake it.
 *
 * A cancel returns at once, and nothing of the task runs on the loop after it. The thread notices at its
 * next worker_cancelled, or at once when it waits in here. Its memory is released when it has ended.
 */
#ifndef HEARTH_AGENT_BASE_WORKER_H
#define HEARTH_AGENT_BASE_WORKER_H

#include "common/base/err.h"
#include "common/os/loop.h"
#include <stdint.h>

#define WORKERS_MAX                                                                                          \
	256 /* threads of an owner that sets no limits; one task more is refused with ERR_BUSY                   \
	     */

struct workers; /* all tasks of one owner */
struct worker;  /* one task */
struct worker_call;

struct workers_limits {
	unsigned threads;     /* tasks at work at a time */
	unsigned queue;       /* further ones that wait for a thread; one more is refused with ERR_BUSY */
	unsigned per_owner;   /* of the threads, for the tasks of one owner; 0: all */
	unsigned owner_queue; /* of the queue, likewise */
	uint32_t wait_ms;     /* a task that waited for so long is `late` instead of run; 0: no deadline here */
};
struct workers *workers_create(struct loop *l);
struct workers *workers_create_pool(struct loop *l, const struct workers_limits *limits);
/* Cancels all and waits for their threads at most wait_ms. -1: a thread hangs in the kernel and is left
 * behind with its memory. NULL allowed. */
int workers_destroy(struct workers *ws, uint32_t wait_ms);

struct worker_task {
	void (*run)(struct worker *w, void *arg); /* on the thread */
	void (*done)(void *arg);                  /* on the loop when run has returned; not after worker_cancel */
	void (*release)(void *arg);               /* on the loop, the last that happens, always: frees arg */
	void (*late)(void *arg);                  /* on the loop instead of run and done: wait_ms is over */
	void (*waits)(void *arg);                 /* on the loop, every 5 s while it waits for a thread */
	uint64_t owner; /* 0 none. The owner with fewest tasks at work has the next turn */
};
/* Takes arg when it succeeds. The task begins at once, or when a thread is free: the oldest task of an
 * owner first. */
struct worker *worker_start(struct workers *ws, const struct worker_task *task, void *arg, struct err *e);
void worker_cancel(struct worker *w); /* on the loop; the handle is void afterwards, as it is after done */

/* ---- on the thread ------------------------------------------------------------------------------- */

int worker_cancelled(struct worker *w);
/* Sleeps; -1 when cancelled meanwhile. */
int worker_pause(struct worker *w, uint32_t ms);
/* fn(arg of the task, data) on the loop, in order; takes data (release by fn's `drop`, also when it never ran
 * because of a cancel). Waits when 16 are under way. */
void worker_post(struct worker *w, void (*fn)(void *arg, void *data), void *data, void (*drop)(void *data));
/* start(call, data) on the loop; returns when worker_call_end was called for it. Takes data: drop(data) is
 * called when both sides are done with it, on either thread. take (may be NULL) copies the result out of data
 * on this thread before that. 0; -1 ERR_TIMEOUT or ERR_UNAVAILABLE (cancelled). */
int worker_call(struct worker *w, void (*start)(struct worker_call *c, void *data), void *data,
                void (*drop)(void *data), void (*take)(void *data, void *out), void *out, uint32_t timeout_ms,
                struct err *e);

/* ---- on the loop ------------------------------------------------------------------------------------ */

void worker_call_end(struct worker_call *c); /* once; c is void afterwards */

#endif
