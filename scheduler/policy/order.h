/* order: would a pass that is made now look at one job before another? */
#ifndef HEARTH_SCHEDULER_POLICY_ORDER_H
#define HEARTH_SCHEDULER_POLICY_ORDER_H
#include "scheduler/sched.h"

struct job;
struct lane;

struct bid { /* a lane with what orders it */
	struct lane *lane;
	struct job *job;
	int due, borrows;
};

int order_before(const struct sched *s, const struct job *a, const struct job *b);
struct bid order_bid(const struct sched *s, const struct job *j); /* the same in two steps */
int order_bid_before(const struct sched *s, const struct bid *a, const struct bid *b);
int order_due(const struct sched *s, const struct job *j); /* it has waited long enough to go before others */

#endif
