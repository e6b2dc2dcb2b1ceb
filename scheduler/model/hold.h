/* hold: what a job has on one node. */
#ifndef HEARTH_SCHEDULER_MODEL_HOLD_H
#define HEARTH_SCHEDULER_MODEL_HOLD_H
#include "scheduler/sched.h"

struct job;
struct node;

struct hold {
	struct node *node;
	uint32_t group, n_gpus, n_cpus;
	uint32_t *gpus, *cpus;
	uint64_t memory, disk;
	int exclusive;
	uint64_t pool; /* whose part it uses there (before it is taken: is to use); 0 none */
};

/* h is copied, its vectors too. Warm pools give way; h->pool is the one that it uses. */
void hold_take(struct sched *s, struct job *j, struct hold *h);
void hold_give_back(struct sched *s, struct job *j, uint32_t i);
uint64_t hold_cpus(const struct job *j, const struct hold *h); /* its slots that count as use, next to GPUs */

#endif
