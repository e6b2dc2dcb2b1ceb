/*
 * node_health: the recent failures of nodes; the scheduler prefers healthy nodes.
 */
#ifndef HEARTH_CONTROLLER_SHARE_NODE_HEALTH_H
#define HEARTH_CONTROLLER_SHARE_NODE_HEALTH_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

uint32_t node_health(const struct core *c, const struct cnode *n);
void node_health_note(struct core *c, struct cnode *n, enum health_event kind,
                      const char *text); /* n NULL: nothing */
void node_health_review(struct core *c);
void node_health_json(const struct core *c, const struct cnode *n, cJSON *o);

#endif
