/* view: what will be free on each node at a later time. */
#ifndef HEARTH_SCHEDULER_MODEL_VIEW_H
#define HEARTH_SCHEDULER_MODEL_VIEW_H
#include "scheduler/sched.h"

struct hold;
struct job;
struct shape;

struct room { /* what is free on a node */
	uint64_t memory, disk, exclusive;
	uint32_t gpus, slots, holders;
};
struct spot {           /* one instance's place */
	uint32_t at, group; /* index of the node in sorted */
};

void view_now(struct sched *s); /* what is free now, into the view */
int view_too_full(const struct sched *s, const struct shape *sh);
void view_release(struct sched *s, const struct job *j);
void view_change(struct sched *s, const struct job *j, int sign); /* 1: it is gone, -1: it is there again */
/* A job that would start there (sign 1), or does not (-1). */
void view_take(struct sched *s, const struct job *j, const int32_t *assign, int sign);
void view_spots(struct sched *s, const struct job *j, const struct spot *spots, int sign);
void view_gave(struct sched *s, const struct job *j, const struct hold *h); /* any job that gives back */

#endif
