/*
 * prefetch: trees of jobs that may soon have a launch here come into the node's cache ahead of it (PREFETCH).
 *
 * Nothing of a job is run or unpacked for it: the cache is the agent's alone. Orders wait, PREFETCH_QUEUE at
 * most, and one at a time is carried out, at low I/O priority. The launch of a job ends its order, because
 * staging fetches what is left.
 */
#ifndef HEARTH_AGENT_STAGE_PREFETCH_H
#define HEARTH_AGENT_STAGE_PREFETCH_H

#include "agent/link/data_link.h"
#include "common/net/wire_msg.h"

#define PREFETCH_QUEUE 8 /* orders that wait: one more ends the last of them */

struct prefetch_ops {
	void (*send)(uint16_t type, const void *msg, void *arg); /* to hearthd */
};
struct prefetch;
struct prefetch *prefetch_create(struct agent_env *env, struct data_link *link,
                                 const struct prefetch_ops *ops, void *arg);
/* NULL is allowed from here on: the agent is alone. */
void prefetch_destroy(struct prefetch *p);
/* Replaces a waiting order for that job. Without trees: as prefetch_cancel. */
void prefetch_order(struct prefetch *p, const struct wm_prefetch *m);
void prefetch_cancel(struct prefetch *p, uint64_t job);
unsigned prefetch_waiting(const struct prefetch *p); /* not NULL */

#endif
