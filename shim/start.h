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

#endif
