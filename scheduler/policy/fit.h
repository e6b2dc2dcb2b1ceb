/* fit: does a gang fit, and where? */
#ifndef HEARTH_SCHEDULER_POLICY_FIT_H
#define HEARTH_SCHEDULER_POLICY_FIT_H
#include "scheduler/sched.h"

struct domain;
struct hold;
struct job;
struct node;
struct shape;

enum fit_mode {
	FIT_NOW = 0,
	FIT_EMPTY = 1,     /* as if the nodes were empty */
	FIT_ANY_STATE = 2, /* usable or not */
	FIT_VIEW = 4,      /* at the shadow time */
	FIT_DRAINED = 8,   /* drained nodes, too */
	FIT_SPARE = 16,    /* spare nodes, too, and they first */
	FIT_BLIND = 32     /* warm pools do not count */
};
/* One instance of group g on this node? type NULL any. */
int fit_node(const struct sched *s, const struct node *n, const struct shape *sh, const struct sched_group *g,
             const char *type, unsigned mode);
/* The whole gang: 1, and assign[i] (one per sorted node) = group or -1. */
int fit_gang(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign);
/* What a job lacks that keeps some of its places: 1, and assign[i] = group of a new place or -1. */
int fit_rest(const struct sched *s, const struct job *j, int32_t *assign);
/* As fit_gang, but only says whether; *failed = group that lacks most (undefined when it fits). */
int fit_possible(const struct sched *s, const struct shape *sh, unsigned mode, uint32_t *failed);
/* Could the usable nodes, empty, not hold it? Worked out once for each set of nodes. */
int fit_hopeless(struct sched *s, struct shape *sh, int32_t *assign);
/* How many nodes could take an instance of it. For a gang that must be in one switch or rack: how many of
 * the one in which the most could. */
uint32_t fit_count(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode);
/* That switch or rack, and how many there. Those in which the gang had nodes enough if all were empty come
 * first. NULL: no node could. */
const struct domain *fit_domain(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode,
                                uint32_t *count);
/* choose.c: GPUs and slots for the job on a node that fits; the vectors are malloc'ed. */
void fit_choose(const struct node *n, const struct job *j, uint32_t group, struct hold *out);

#endif
