/*
 * node_health: what went wrong with nodes lately, at work: the scheduler prefers healthy ones.
 */
#ifndef HEARTH_CONTROLLER_SHARE_NODE_HEALTH_H
#define HEARTH_CONTROLLER_SHARE_NODE_HEALTH_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

uint32_t node_doubt(const struct core *c, const struct cnode *n);
void node_trouble(struct core *c, struct cnode *n, enum trouble_kind kind,
                  const char *text); /* n NULL: nothing */
void troubles_review(struct core *c);
void node_trouble_json(const struct core *c, const struct cnode *n, cJSON *o);

#endif
