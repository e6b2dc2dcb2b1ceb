/* running: jobs that hold something, and when they are believed to end. */
#ifndef HEARTH_SCHEDULER_MODEL_RUNNING_H
#define HEARTH_SCHEDULER_MODEL_RUNNING_H
#include "scheduler/sched.h"

struct job;

struct running {
	struct job *job;
	uint64_t end_s; /* its believed end, if that does not depend on other jobs; 0: ask running_end */
};

void running_add(struct sched *s, struct job *j);   /* it begins to hold something */
void running_again(struct sched *s, struct job *j); /* it holds something, and starts again now */
void running_remove(struct sched *s, struct job *j);
uint64_t running_end(const struct sched *s, const struct job *j);
uint64_t limit_end(const struct sched *s, const struct job *j); /* the same, at its limit if it has one */
void running_set_end(struct sched *s, const struct job *j);     /* it started, or its end is known better */
uint64_t running_end_of(struct sched *s, size_t i);             /* of runs[i], fast */
uint64_t believed_end(const struct sched *s, const struct job *j); /* of one that would start now */
/* How long it would take; by_limits: until its limit if it has one. */
uint64_t believed_time(const struct sched *s, const struct job *j, int by_limits);

#endif
