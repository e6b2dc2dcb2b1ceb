/*
 * node_feed: what the scheduler library knows of nodes. A changed node is marked; the library hears of all
 * marked ones at once, before it is asked or decides.
 */
#ifndef HEARTH_CONTROLLER_SHARE_NODE_FEED_H
#define HEARTH_CONTROLLER_SHARE_NODE_FEED_H

#include "controller/state/node_table.h"

/* Something of the node is new that the library may have to know; inventory_changed: also what it has. */
void node_changed(struct core *c, struct cnode *n, int inventory_changed);
/* Tells the library. */
void node_feed(struct core *c);

#endif
