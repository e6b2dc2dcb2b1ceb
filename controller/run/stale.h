/*
 * stale: launches that a node has and must not have.
 */
#ifndef HEARTH_CONTROLLER_RUN_STALE_H
#define HEARTH_CONTROLLER_RUN_STALE_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Handles a launch that the node must not have: sends KILL, then COLLECT without keeping files. The node gets
 * no work until the launch has ended. */
void stale_report(struct core *c, struct cnode *n, const struct wm_launch_report *m);
/* The same for a launch of the job that was given up: asks the agent, if it is connected, how far it is. */
void stale_add(struct core *c, struct cnode *n, const struct cjob *j, uint32_t attempt);

#endif
