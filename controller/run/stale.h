/*
 * stale: launches that a node has and must not have.
 */
#ifndef HEARTH_CONTROLLER_RUN_STALE_H
#define HEARTH_CONTROLLER_RUN_STALE_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* A launch that must not be there: kill, collect without keeping; the node gets no work until it is over. */
void stale_report(struct core *c, struct cnode *n, const struct wm_launch_report *m);
void stale_add(struct core *c, struct cnode *n, uint64_t job, uint32_t attempt, uint64_t epoch);

#endif
