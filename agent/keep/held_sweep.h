/*
 * held_sweep: the bounds of what ended launches hold. hearthd says which checkpoints it no longer needs. If
 * it forgets some, the agent removes what is older than HELD_AGE_S, and single checkpoints when the disk is
 * nearly full, or when they have more than --held-limit: first those that have a copy elsewhere, the oldest
 * first.
 *
 * A launch whose index cannot be read stays until it is too old; nothing of it is known.
 *
 * A thread reads the indexes, at most once in SWEEP_US. hearthd hears of each checkpoint that goes without a
 * copy. Removals that an earlier agent left go on.
 */
#ifndef HEARTH_AGENT_KEEP_HELD_SWEEP_H
#define HEARTH_AGENT_KEEP_HELD_SWEEP_H

#include "agent/base/agent_env.h"
#include "agent/base/trash.h"
#include "agent/keep/removals.h"
#include "agent/link/data_link.h"
#include "agent/link/outbox.h"

#define HELD_AGE_S (3u * 24 * 3600)
#define SWEEP_US   60000000u
#define SWEEP_MOST 16 /* checkpoints that one sweep removes; the next one follows */

struct held_sweep;
struct held_sweep_params {
	struct agent_env *env;
	struct data_link *link;
	struct trash *trash;
	struct outbox *outbox;
	struct removals *removals;
	int (*in_use)(const char *launch, void *arg); /* 1: its keeper bounds it */
	void *arg;
};
struct held_sweep *held_sweep_create(const struct held_sweep_params *p);
void held_sweep_destroy(struct held_sweep *s); /* NULL allowed */
void held_sweep_ask(struct held_sweep *s);     /* as soon as one may begin */

#endif
