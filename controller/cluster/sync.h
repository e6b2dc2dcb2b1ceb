/*
 * sync: an agent connects and reports everything it has; differences are settled.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_SYNC_H
#define HEARTH_CONTROLLER_CLUSTER_SYNC_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void agent_connected(struct core *c, const char *node, uint64_t session, const struct wm_hello *hello);
void agent_gone(struct core *c, const char *node, uint64_t session, const char *why);
void on_sync_begin(struct core *c, struct cnode *n);
void on_sync_end(struct core *c, struct cnode *n);

#endif
