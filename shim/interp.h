/*
 * interp: the waiting interpreter of a parked process: its conversation (shim.h), and its end when it cannot
 * be used or is not wanted.
 *
 *   NONE -> STARTING -> WARMING -> READY -> TAKING -> NONE: it is the process now
 *              |           |         |        |
 *              +-----------+---------+--------+-> DYING -> NONE, and what comes next
 *
 * STARTING: forked, not yet executed. TAKING: it got the program and has not begun. DYING: it and all that it
 * started get SIGKILL until nothing is left. One that ends, stays silent or errs in TAKING is followed by a
 * start of the program without it.
 */
#ifndef HEARTH_SHIM_INTERP_H
#define HEARTH_SHIM_INTERP_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "shim/state.h"
#include <poll.h>
#include <stdint.h>

struct shim;

#define INTERP_LAST_MAX 256

enum interp_state { INTERP_NONE, INTERP_STARTING, INTERP_WARMING, INTERP_READY, INTERP_TAKING, INTERP_DYING };
/* What follows when it is gone; the greater one wins. */
enum interp_next { INTERP_THEN_PARK, INTERP_THEN_START, INTERP_THEN_FAIL };

struct interp {
	enum interp_state state;
	enum interp_next next;
	int fd;            /* our end of its socket, -1 none */
	struct buf in;     /* its line, while it is not whole */
	struct buf out;    /* rest of the program's frame */
	uint64_t until_us; /* boot time at which this state is over, 0 none */
	int printed;
	char last[INTERP_LAST_MAX]; /* what it printed last */
	int afresh;                 /* it did not run the program: text has the reason */
	char text[STATE_TEXT_MAX];  /* of the status while parked, and of one that runs afresh */
};

void interp_init(struct interp *t);
void interp_fini(struct interp *t);
/* Forks it; in_fd stays the caller's. One that cannot be started is bad like any other. */
void interp_begin(struct shim *s, int in_fd);
/* 0 when it can take a program now. */
int interp_check(struct shim *s, struct err *e);
/* Gives it the program of the order. */
void interp_take(struct shim *s);
/* Kills it, if there is one; next happens at once without one. */
void interp_drop(struct shim *s, enum interp_next next);

/* For the loop. */
struct pollfd interp_poll(const struct interp *t);
void interp_handle(struct shim *s, short revents);
void interp_reported(struct shim *s); /* executed, or will not be */
void interp_child(struct shim *s);    /* children were reaped */
int interp_owns_output(const struct interp *t);
void interp_output(struct shim *s); /* reads what it prints; nothing of that is the program's */
uint64_t interp_due(const struct shim *s);
void interp_step(struct shim *s);

#endif
