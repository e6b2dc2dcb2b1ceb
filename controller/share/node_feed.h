/*
 * node_feed: reports nodes to the scheduler library. A changed node is marked; the library gets all marked
 * nodes at once, before it answers or decides.
 */
#ifndef HEARTH_CONTROLLER_SHARE_NODE_FEED_H
#define HEARTH_CONTROLLER_SHARE_NODE_FEED_H

#include "controller/state/node_table.h"

/* Marks a node that changed for the library; inventory_changed: its resources changed, too. */
void node_changed(struct core *c, struct cnode *n, int inventory_changed);
/* Reports all marked nodes to the library. */
void node_feed(struct core *c);

#endif
