/*
 * follow_log: the log of a new job, for `submit --follow`.
 */
#ifndef HEARTH_JOBCTL_VERBS_FOLLOW_LOG_H
#define HEARTH_JOBCTL_VERBS_FOLLOW_LOG_H

#include <stdint.h>

struct ctx;

/* Shows the job's log to its end. Returns 0, -1 or EXIT_INTERRUPTED. */
int follow_log(struct ctx *c, uint64_t job);

#endif
