/*
 * looks: asks two agents to look at a suspect node at its peer port, again in each quarter of a lease. What
 * that node says of itself may prove that launches there are over, long before its lease is
 * (docs/spec/08-lease.md, "What is certain before the lease").
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_LOOKS_H
#define HEARTH_CONTROLLER_CLUSTER_LOOKS_H

#include "common/net/wire_msg.h"
#include "controller/state/node_table.h"

/* Asks, if it is time. Only while n is suspect. */
void looks_check(struct core *c, struct cnode *n);
/* When to check (boot); UINT64_MAX: n has no launch to ask about. */
uint64_t looks_next_us(const struct cnode *n);
/* The suspicion has ended: answers to its questions prove nothing from now on. */
void looks_end(struct cnode *n);

void on_node_seen(struct core *c, const struct cnode *from, const struct wm_node_seen *m);

#endif
