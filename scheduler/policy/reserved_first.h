/* reserved_first: the jobs that a place was kept for keep it. */
#ifndef HEARTH_SCHEDULER_POLICY_RESERVED_FIRST_H
#define HEARTH_SCHEDULER_POLICY_RESERVED_FIRST_H
#include "scheduler/sched.h"

struct job;

void reserved_first_forget(struct sched *s, struct job *j);
void reserved_first_remember(struct sched *s, struct job *j);
void reserved_first_keep(struct sched *s, int32_t *assign); /* makes it the head again */

#endif
