/*
 * peers: which agents each agent is told of, and what follows for one that is silent.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_PEERS_H
#define HEARTH_CONTROLLER_CLUSTER_PEERS_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void peers_tell(struct core *c, struct cnode *n, struct wm_beat_ack *m); /* m->peers is wire_strv_add'ed */
void peers_told(struct cnode *n, uint64_t gen); /* it says that it goes by that one */
/* After each change of who is up and where: the next list is made anew. */
void peers_changed(struct core *c);
int peers_may_carry_on(struct core *c, const struct cnode *n);

#endif
