/* bids: the lanes that may be next, the first at the top. */
#ifndef HEARTH_SCHEDULER_POLICY_BIDS_H
#define HEARTH_SCHEDULER_POLICY_BIDS_H
#include "scheduler/policy/order.h"

void bids_look(struct sched *s);      /* a new look, if the time or the input changed */
struct bid bid_next(struct sched *s); /* its job NULL: none */
void bid_started(struct sched *s);    /* the job of the top started */
int may_head(const struct sched *s);  /* may a place be kept for a job that does not fit? */

#endif
