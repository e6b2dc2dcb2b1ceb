/*
 * obstacle: what a gang needs, and what keeps it from the nodes.
 */
#ifndef HEARTH_SCHEDULER_EXPLAIN_OBSTACLE_H
#define HEARTH_SCHEDULER_EXPLAIN_OBSTACLE_H

#include "common/base/text.h"
#include "scheduler/model/job.h"
#include "scheduler/sched.h"

/* Adds the needs of one instance group: "2 instances, each with 1 GPU, 2 CPU slots and 8.0 GiB memory". */
void obstacle_need(struct text *o, const struct shape *sh, const struct sched_group *g);
/* Adds what jobs hold now on nodes that could hold an instance of the group when empty. Of these nodes it
 * names those of all, or of the switch or rack that comes nearest. */
void obstacle_busy(const struct sched *s, const struct shape *sh, uint32_t group, struct text *o);
/* 1: the nodes can hold the gang; 0: *r names the obstacle. mode: bits of policy/fit.h, for instance
 * FIT_EMPTY for nodes without jobs. */
int obstacle_judge(const struct sched *s, const struct shape *sh, unsigned mode, struct sched_reason *r);

#endif
