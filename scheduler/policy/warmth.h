/* warmth: what a node is worth to a job because of warm pools. */
#ifndef HEARTH_SCHEDULER_POLICY_WARMTH_H
#define HEARTH_SCHEDULER_POLICY_WARMTH_H
#include "scheduler/sched.h"

struct job;
struct node;
struct pool_part;
struct shape;

enum warmth {                /* what an instance takes of the node; the first is the best */
	          WARMTH_SAME,   /* parts of its owner's pools, with the job's environment */
	          WARMTH_OWN,    /* parts of its owner's pools */
	          WARMTH_PARTLY, /* these, and what belongs to no pool */
	          WARMTH_COLD,   /* what belongs to no pool */
	          WARMTH_OTHERS  /* parts of others, too: they would give way */
};
/* Where there is room for it. idle: WARMTH_OTHERS: since when the pool waits that was left last of those that
 * would give way; else 0. */
enum warmth warmth_of(const struct job *j, const struct shape *sh, const struct node *n,
                      const struct sched_group *g, uint64_t *idle);
/* Do the parts of the one pool that the shape wants suffice there? j NULL: whosever it is. */
int warmth_suffices(const struct job *j, const struct shape *sh, const struct node *n,
                    const struct sched_group *g);
/* WARMTH_SAME, _OWN or _OTHERS. */
enum warmth warmth_of_part(const struct job *j, const struct shape *sh, const struct pool_part *p);

/* Exclusive pools of the job's owner, which are used as a whole: those that are not too large are open from
 * now on; 0 none. */
int warmth_open(const struct job *j, const struct shape *sh);
/* Closes the open ones of which assign uses some parts, but not all; how many. */
int warmth_close(const struct job *j, const int32_t *assign);
void warmth_close_all(const struct job *j);
void warmth_settle(const struct job *j, const int32_t *assign); /* open: those that assign uses as a whole */

#endif
