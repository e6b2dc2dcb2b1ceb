/*
 * agentkit: as much of an agent as its files need: a folder for RUN and DATA, a loop that nobody runs, the
 * data link to a controller that is not there; and an order to put into them.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_LAUNCH_AGENTKIT_H
#define HEARTH_TESTS_UNIT_AGENT_LAUNCH_AGENTKIT_H

#include "agent/agent_core.h"
#include "agent/command/plan.h"

/* RUN is DIR/run, DATA is DIR/data; both are made, and RUN/17.2. boot id "b0", node algo-2. */
struct agent *agentkit_open(const char *dir);
void agentkit_close(struct agent *a);
/* Its lease, on the files in RUN: nobody is asked, nothing is fenced. guard_destroy. */
struct guard *agentkit_guard(struct agent *a);
/* Launch 17.2: three nodes of two ranks, this one the second; metrics loss and step. */
struct plan *agentkit_plan(void);

#endif
