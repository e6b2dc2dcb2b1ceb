/*
 * cost: what an attempt costs, and when a job has reached its cost limit.
 */
#ifndef HEARTH_CONTROLLER_SHARE_COST_H
#define HEARTH_CONTROLLER_SHARE_COST_H

#include "controller/record/verdict.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

int cost_check(const struct core *c, const struct job_spec *s, struct err *e); /* at submit: -1 refused */
/* Adds the account that pays, and the price, to the event of a placement. */
void cost_placed(struct core *c, const struct cjob *j, const struct sched_decision *dec, cJSON *d);
void cost_begins(struct core *c, struct cjob *j,
                 uint64_t held_us);             /* the attempt has held its nodes for held_us */
void cost_ends(struct core *c, struct cjob *j); /* the attempt ended */
uint64_t cost_end_at(const struct cjob *j);     /* boot: when it reaches its limit; UINT64_MAX never */
/* 1: the job reached its cost limit, or a budget of its account is used up; v says which. */
int cost_is_up(struct core *c, const struct cjob *j, struct verdict *v);
/* 1: the cost limit leaves nothing for another attempt; text says so. */
int cost_used_up(const struct cjob *j, const struct job_spec *s, char *text, size_t n);

#endif
