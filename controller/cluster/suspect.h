/*
 * suspect: nodes of which hearthd misses a sign of life, long before their lease is over.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_SUSPECT_H
#define HEARTH_CONTROLLER_CLUSTER_SUSPECT_H

#include "controller/state/node_table.h"

/* Suspects the node, if it is time. */
void suspect_check(struct core *c, struct cnode *n);
/* When to check (boot); UINT64_MAX: no need while nothing changes. */
uint64_t suspect_next_us(const struct core *c, const struct cnode *n);
/* The node gave a sign of life, or was declared lost. */
void suspect_end(struct core *c, struct cnode *n);

#endif
