/*
 * prefetch: spare nodes get the trees of running jobs before they need them (PREFETCH): source tree and
 * inputs while the jobs run, the newest checkpoint, too, when a node of the job is suspect.
 *
 * Once a second, while a spare is connected, each spare is compared with what it should have: the
 * PREFETCH_JOBS largest jobs that it could help, newer ones first. Nothing here is recorded; a spare that
 * connects again gets its orders again.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_PREFETCH_H
#define HEARTH_CONTROLLER_CLUSTER_PREFETCH_H

#include "controller/state/core_state.h"
#include "controller/state/node_table.h"

#define PREFETCH_JOBS 16 /* for one spare */

struct wm_prefetched;
void prefetch_due(struct core *c); /* a spare came, or a node became one: look in this second */
void prefetch_tick(struct core *c);
uint64_t prefetch_next_us(const struct core *c);
/* The node is suspect: for each of its jobs a spare that could replace it gets what the next attempt needs,
 * first. */
void prefetch_suspect(struct core *c, const struct cnode *n);
void on_prefetched(const struct cnode *n, const struct wm_prefetched *m);

#endif
