/* exchange: jobs that keep some of their places and wait for others instead of the rest. */
#ifndef HEARTH_SCHEDULER_POLICY_EXCHANGE_H
#define HEARTH_SCHEDULER_POLICY_EXCHANGE_H
#include "scheduler/sched.h"

/* The first of them that can have what it lacks now, all its places, malloc'ed; NULL none. assign: memory. */
struct sched_decision *exchange_next(struct sched *s, int32_t *assign);

#endif
