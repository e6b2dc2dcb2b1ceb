/* warmth: what a node is worth to a job because of warm pools. */
#ifndef HEARTH_SCHEDULER_POLICY_WARMTH_H
#define HEARTH_SCHEDULER_POLICY_WARMTH_H
#include "scheduler/sched.h"

struct job;
struct node;
struct pool_part;
struct shape;

enum warmth {               /* what an instance takes of the node; the first is the best */
	          WARMTH_SAME,  /* a part of its owner's pools, with the job's environment */
	          WARMTH_OWN,   /* a part of its owner's pools */
	          WARMTH_COLD,  /* what belongs to no pool */
	          WARMTH_OTHERS /* parts that are not for it, too: they would give way */
};
/* Where there is room for it. order: of nodes of equal warmth the least is best: the turn of the pool that it
 * uses; WARMTH_OTHERS: since when the pool waits that was left last of those that would give way. */
enum warmth warmth_of(const struct job *j, const struct shape *sh, const struct node *n,
                      const struct sched_group *g, uint64_t *order);
/* The part that it uses there; NULL none. */
const struct pool_part *warmth_part(const struct job *j, const struct shape *sh, const struct node *n,
                                    const struct sched_group *g);
/* Does a part of the one pool that the shape wants suffice there? j NULL: whosever it is. */
int warmth_suffices(const struct job *j, const struct shape *sh, const struct node *n,
                    const struct sched_group *g);

/* Gives the pools of the job's owner their turns, when so many instances are to be placed. 1: there are
 * several, and the first is enough. */
int warmth_order(const struct job *j, const struct shape *sh, uint32_t instances);

/* Exclusive pools of the job's owner, which are used as a whole: those that are not too large are open from
 * now on; 0 none. */
int warmth_open(const struct job *j, const struct shape *sh);
/* Closes the open ones of which assign uses some parts, but not all; how many. */
int warmth_close(const struct job *j, const int32_t *assign);
void warmth_close_all(const struct job *j);
/* Before places are chosen: opens those that assign uses as a whole, and gives turns. n: of assign. */
void warmth_settle(const struct job *j, const int32_t *assign, size_t n);

#endif
