/* plan: conservative backfill: a place in time for every waiting job. */
#ifndef HEARTH_SCHEDULER_POLICY_PLAN_H
#define HEARTH_SCHEDULER_POLICY_PLAN_H
#include "scheduler/sched.h"

struct job;

/* The next that starts now, and where; NULL none. */
struct job *plan_next(struct sched *s, int32_t *assign);
int plan_none(const struct sched *s); /* 1: it is too large, no place is kept */
/* If a place is kept that is sooner than what out says, it goes there. */
void plan_forecast(const struct sched *s, const struct job *j, struct sched_forecast *out);
void plan_forget(struct sched *s, struct job *j);
void plan_forget_all(struct sched *s);
void plan_fini(struct sched *s);

#endif
