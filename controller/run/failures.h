/* failures: lines of logs that name a failure, as agents report them. */
#ifndef HEARTH_CONTROLLER_RUN_FAILURES_H
#define HEARTH_CONTROLLER_RUN_FAILURES_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void on_failure_line(struct core *c, struct cnode *n, uint64_t id, const struct wm_failure_line *m);

#endif
