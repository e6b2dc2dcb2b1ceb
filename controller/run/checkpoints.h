/* checkpoints: what the nodes report of a job's checkpoints. */
#ifndef HEARTH_CONTROLLER_RUN_CHECKPOINTS_H
#define HEARTH_CONTROLLER_RUN_CHECKPOINTS_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void on_checkpoint(struct core *c, struct cnode *n, uint64_t id, const struct wm_checkpoint_report *m);

#endif
