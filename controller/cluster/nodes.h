/*
 * nodes: takes over the inventory that an agent reports.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_NODES_H
#define HEARTH_CONTROLLER_CLUSTER_NODES_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void on_inventory(struct core *c, struct cnode *n, const struct wm_inventory *m);

#endif
