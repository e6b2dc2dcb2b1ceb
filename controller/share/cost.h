/*
 * cost: what an attempt costs, and when a job has cost all that it may.
 */
#ifndef HEARTH_CONTROLLER_SHARE_COST_H
#define HEARTH_CONTROLLER_SHARE_COST_H

#include "controller/record/verdict.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

int cost_check(const struct core *c, const struct job_spec *s, struct err *e); /* at submit: -1 refused */
/* Into the event: who pays for what is decided, and its price. */
void cost_placed(struct core *c, const struct cjob *j, const struct sched_decision *dec, cJSON *d);
void cost_begins(struct core *c, struct cjob *j,
                 uint64_t held_us);             /* it has its nodes, for so long already */
void cost_ends(struct core *c, struct cjob *j); /* of an attempt that ended */
uint64_t cost_end_at(const struct cjob *j);     /* boot: when its money is spent; UINT64_MAX never */
/* 1: the attempt has cost all that it may, or a budget of its account is used up; v says why. */
int cost_is_up(struct core *c, const struct cjob *j, struct verdict *v);
/* Has it nothing left for another attempt? Then text says so. */
int cost_used_up(const struct cjob *j, const struct job_spec *s, char *text, size_t n);

#endif
