/*
 * peers: the list of peers that hearthd sends to each agent, and what a silent agent may do with it.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_PEERS_H
#define HEARTH_CONTROLLER_CLUSTER_PEERS_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

#define PEERS_MAX 64

/* Fills out with the places of the peers of place `at` in a ring of n > at nodes: all others, or PEERS_MAX of
 * them at even steps in both directions, so that everybody is a peer of its peers. Returns their count. */
size_t peers_spread(size_t at, size_t n, size_t *out);
/* "name address:port" of a node whose inventory is known, malloc'ed. */
char *peers_text(const struct cnode *n);
/* Adds the list to m->peers (wire_strv_add) when the node needs one. */
void peers_tell(struct core *c, struct cnode *n, struct wm_beat_ack *m);
/* Sends the certificates of removed nodes to a node that does not have them in this session. */
void peers_tell_retired(struct core *c, struct cnode *n);
void peers_told(struct cnode *n, uint64_t gen); /* the node confirms the list gen */
/* Call it when a node goes up or down, or its address changes: the next list is made again. */
void peers_changed(struct core *c);
int peers_may_carry_on(struct core *c, const struct cnode *n);

#endif
