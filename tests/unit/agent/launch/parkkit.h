/*
 * parkkit: orders of launches that wait for a job, and of jobs that take them over.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_LAUNCH_PARKKIT_H
#define HEARTH_TESTS_UNIT_AGENT_LAUNCH_PARKKIT_H

#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 20000 /* ms; a deadline, not a time that is waited */

struct park_pool {
	struct ctl *c;
	struct ctl_agent *const *nodes; /* up to a NULL */
	const char *launcher;
	uint32_t ranks; /* of each node */
	uint64_t id;
	uint32_t parking; /* number of the present one */
	const char *spec; /* in place of the one made of the above; NULL: none */
};

int park_wait(struct ctl_agent *g, uint64_t job, enum launch_state state);
/* PREPARE and GO of parking p->parking; PARKED on all nodes. */
void park_all(struct park_pool *p);
/* Orders the take-over by attempt 1 of a job. */
void park_take(struct park_pool *p, uint64_t job, const char *shell);
void park_go(struct park_pool *p, uint64_t job);
int park_wait_all(struct park_pool *p, uint64_t job, enum launch_state state);
void park_clean(struct park_pool *p, uint64_t job, uint32_t attempt);
const struct wm_proc_report *park_rank(const struct ctl_agent *g, uint64_t job,
                                       uint32_t rank);                           /* NULL: unknown */
uint32_t park_exit_code(const struct ctl_agent *g, uint64_t job, uint32_t rank); /* 999: unknown */
/* Is there DIR/KIND/POOL.PARKING on that node? kind: "jobs". */
int park_has_folder(const struct park_pool *p, const struct ctl_agent *g);
int park_processes(const struct park_pool *p,
                   uint32_t node); /* of the launch, and what holds its container */

#endif
