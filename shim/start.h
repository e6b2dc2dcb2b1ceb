/*
 * start: the way from the order to the running program: go, the two keys of a parked process, fork, exec.
 */
#ifndef HEARTH_SHIM_START_H
#define HEARTH_SHIM_START_H

#include "shim/core.h"

/* The child executed, or will not: report_fd is readable. */
void start_reported(struct shim *s);
/* Sum of "oom_kill N" in the cgroup's event files. */
uint64_t start_oom_kills(const struct shim *s);
void start_fini(struct shim *s);

/* For interp. */
void start_park(struct shim *s);     /* the state becomes PARKED, or tells what has changed */
void start_process(struct shim *s);  /* with the stdin of the launcher's go */
void start_executed(struct shim *s); /* the program runs: tells everybody */
/* Forks with the shim's pipes; park_fd -1 none. */
int start_fork(struct shim *s, const struct shim_launch *l, int in_fd, int park_fd, struct err *e);
void start_abandon(struct shim *s, const char *text); /* FAILED, once the waiting interpreter is gone */

#endif
