/* policykit: small clusters and gangs for the tests of the policy. */
#ifndef HEARTH_TESTS_UNIT_SCHEDULER_POLICY_POLICYKIT_H
#define HEARTH_TESTS_UNIT_SCHEDULER_POLICY_POLICYKIT_H

#include "scheduler/sched.h"

#define HOUR 3600u
#define DAY  86400u

void kit_node(struct sched *s, uint64_t id, uint32_t gpus, const char *on, uint32_t doubt, double price);
struct sched *kit_cluster(struct sched_policy p, uint32_t nodes, uint32_t gpus);
/* The group of the newest gang. */
extern struct sched_group kit_group;
struct sched_job kit_gang(uint64_t id, uint32_t instances, uint32_t gpus);
void kit_add(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus);
/* One decision, carried out. Returns its job, 0 without one; node may be NULL. */
uint64_t kit_step(struct sched *s, uint64_t *node);
/* Numbers below n, the same in each run; a test sets the state for a sequence of its own. */
extern uint64_t kit_rng;
uint32_t kit_rnd(uint32_t n);

#endif
