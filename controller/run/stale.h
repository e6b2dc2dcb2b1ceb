/*
 * stale: launches that a node has and must not have, or has lost.
 */
#ifndef HEARTH_CONTROLLER_RUN_STALE_H
#define HEARTH_CONTROLLER_RUN_STALE_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* The agent lost a launch that was told to go: it is told to end what may be left, and keeps the GPUs until
 * it says that nothing is. text: static. */
void place_in_doubt(struct core *c, struct cjob *j, const struct place_rec *p, const char *text);
/* A launch that must not be there: kill, collect without keeping; the node gets no work until it is over. */
void stale_report(struct core *c, struct cnode *n, const struct wm_launch_report *m);
void stale_add(struct core *c, struct cnode *n, uint64_t job, uint32_t attempt, uint64_t epoch);

#endif
