/*
 * held: DATA/held, where nodes hold checkpoints beyond their launch: folders, removals, bounds.
 *
 * hearthd says which ones it no longer needs. If it forgets some, the agent removes what is older than
 * HELD_AGE_S, and those of ended launches when the disk is nearly full, or when they have more than
 * --held-limit: first those that have a copy elsewhere, the oldest first. Running launches share that limit
 * (keeper.h).
 */
#ifndef HEARTH_AGENT_KEEP_HELD_H
#define HEARTH_AGENT_KEEP_HELD_H

#include "agent/base/agent_env.h"
#include "agent/base/trash.h"
#include "agent/base/user.h"
#include "agent/link/data_link.h"

#define HELD_AGE_S (3u * 24 * 3600)

char *held_dir(const struct agent_env *env, const char *launch); /* DATA/held/J.A; malloc'ed */
struct held_use {
	unsigned accounts, own; /* with launches that hold checkpoints, with this one; its account's launches */
	uint64_t others;        /* bytes that other launches hold */
};
uint64_t held_limit(const struct agent_env *env); /* --held-limit; 0: none is known */
/* Bytes of the limit that a launch may hold: an equal part of its account's equal part, or what others leave.
 */
uint64_t held_part(uint64_t limit, const struct held_use *use);
/* Makes DATA/held/J.A (the agent's) and files in it (the account's). */
int held_make(const struct agent_env *env, const char *launch, const struct launch_user *user, struct err *e);

struct held_removal {
	struct agent_env *env;
	struct data_link *link;
	const char *launch;             /* "17.2" */
	const struct launch_user *user; /* NULL: the owner of the folder, if there is one */
	uint64_t seq;                   /* 0: the copy alone */
	const char *copy;               /* path of a copy outside of the node; NULL none */
};
/* On a thread, as the account; a failure is logged. The copy goes also where nothing is held. */
void held_remove(const struct held_removal *r);
/* The folder of an ended launch, or of all launches that in_use does not know and that are too old. */
void held_drop_launch(struct agent_env *env, struct trash *trash, const char *launch);
void held_sweep(struct agent_env *env, struct trash *trash, int (*in_use)(const char *launch, void *arg),
                void *arg);

#endif
