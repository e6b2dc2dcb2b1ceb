/*
 * This folder wraps the operating system: files, processes, the event loop, channels between threads.
 *
 * loop: one event loop of one thread (the only file that includes libevent for timers, descriptors
 * and signals; HTTP and TLS streams have their own files and take the base from loop_base).
 *
 * Callbacks run on the thread in loop_run and must not block. Handles may be destroyed in any
 * callback, their own included: memory is released at the end of the turn.
 */
#ifndef HEARTH_COMMON_OS_LOOP_H
#define HEARTH_COMMON_OS_LOOP_H

#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_fd;
struct loop_signal;
struct event_base;

struct loop *loop_create(void);
void loop_destroy(struct loop *l);
struct event_base *loop_base(struct loop *l);
void loop_run(struct loop *l);                           /* until loop_stop */
void loop_run_once(struct loop *l, int64_t max_wait_ms); /* one turn, for tests */
void loop_stop(struct loop *l);                          /* from a callback on this loop */

typedef void (*loop_cb)(void *arg);
/* Timer: created unarmed. arm: one-shot after delay_us; re-arming replaces. */
struct loop_timer *loop_timer_create(struct loop *l, loop_cb cb, void *arg);
void loop_timer_arm(struct loop_timer *t, uint64_t delay_us);
void loop_timer_cancel(struct loop_timer *t);
int loop_timer_armed(const struct loop_timer *t);
void loop_timer_destroy(struct loop_timer *t); /* NULL allowed, as for all below */

#define LOOP_READ  1
#define LOOP_WRITE 2
typedef void (*loop_fd_cb)(int fd, int what, void *arg);
/* Watches fd (not owned), persistent, level-triggered. */
struct loop_fd *loop_fd_create(struct loop *l, int fd, int what, loop_fd_cb cb, void *arg);
void loop_fd_set(struct loop_fd *f, int what); /* 0 pauses */
void loop_fd_destroy(struct loop_fd *f);

struct loop_signal *loop_signal_create(struct loop *l, int signo, void (*cb)(int, void *), void *arg);
void loop_signal_destroy(struct loop_signal *s);

/* Runs cb(arg) at the end of the present turn, once. */
void loop_defer(struct loop *l, loop_cb cb, void *arg);
/* Runs fn at the end of every turn (one hook a loop; NULL clears): batches are committed there. */
void loop_set_turn_hook(struct loop *l, loop_cb fn, void *arg);
/* Turns over warn_us are logged (0 = never). */
void loop_set_slow_warn(struct loop *l, uint64_t warn_us);
/* How long turns take, from their first callback to their end. The longest one is that of the present span of
 * LOOP_SPAN_US and the one before: whoever looks once a span misses none. The turn that asks is not in it
 * yet. */
#define LOOP_SPAN_US 5000000u
#define LOOP_LATE_US 5000u /* no turn should take longer */
struct loop_turns {
	uint64_t turns, late; /* since the start; of over LOOP_LATE_US */
	uint64_t longest_us;
};
void loop_turns(const struct loop *l, struct loop_turns *out);
/* For callbacks that libevent runs directly (HTTP, TLS streams), as their first call: their turn is measured
 * from there, and not from the first callback of this file. */
void loop_enter(struct loop *l);

#endif
