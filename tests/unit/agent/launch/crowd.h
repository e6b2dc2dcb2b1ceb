/*
 * crowd: many launches of many processes on one real agent (programs/crowd.c), and when the last process has
 * ended.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_LAUNCH_CROWD_H
#define HEARTH_TESTS_UNIT_AGENT_LAUNCH_CROWD_H

#include "tests/unit/agent/launch/agent_ctl.h"

struct crowd {
	struct ctl_agent *a;
	const char *program;          /* tests/programs/crowd */
	uint64_t first_job;           /* numbers of its jobs, up to CTL_JOBS - 1 */
	unsigned launches, processes; /* processes: of each launch */
	char *lock, *ready;
	int fd;
};

/* Starts all and waits until all processes sleep. -1: they do not within timeout_ms. */
int crowd_start(struct crowd *w, uint32_t timeout_ms);
int crowd_is_gone(const struct crowd *w); /* 1: no process of it is left */
/* Turns the loop until then. Returns how long it took, in us; 0: some are left after timeout_ms. */
uint64_t crowd_wait_gone(const struct crowd *w, uint32_t timeout_ms);
int crowd_wait_states(const struct crowd *w, enum launch_state s, uint32_t timeout_ms); /* 1: all have it */
/* Removes the node and waits until its agent has cleaned all launches and ended: no shim stays. 1: it has. */
int crowd_end_agent(struct crowd *w, uint32_t timeout_ms);
void crowd_fini(struct crowd *w);

#endif
