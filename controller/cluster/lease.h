/*
 * This folder knows which nodes are alive: beats, peers, inventories, and what a node reports when it
 * connects. It decides that a node is lost; what that means for an attempt is decided in controller/run.
 *
 * lease: beats, and the decision that a node is lost (docs/spec/08-lease.md).
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_LEASE_H
#define HEARTH_CONTROLLER_CLUSTER_LEASE_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void on_beat(struct core *c, struct cnode *n, const struct wm_beat *m);
void node_heard(struct core *c, struct cnode *n); /* a sign of life */
/* Decides what follows from silence; to be called at silence_next_us. */
void lease_check(struct core *c);
uint64_t silence_next_us(const struct core *c);
/* Has lease_check called at that time (boot), if it is not called before. */
void lease_look_at(struct core *c, uint64_t at_us);
/* Out of hearthd's sight: no sign of life for almost half a lease, or none since hearthd's start. */
int node_is_dark(const struct core *c, const struct cnode *n);
int node_may_run_alone(const struct core *c, const struct cnode *n);
uint64_t node_silent_us(const struct core *c, const struct cnode *n); /* since its last sign of life */
uint64_t node_heard_at(const struct core *c, const struct cnode *n);  /* real: its last sign of life */
void node_is_lost(struct core *c, struct cnode *n, const char *why, const char *by);

#endif
