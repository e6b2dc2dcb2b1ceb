/*
 * held: DATA/held, where nodes hold checkpoints beyond their launch: folders and bounds.
 * Running launches share --held-limit (keeper.h); held_sweep.h bounds what ended ones hold.
 */
#ifndef HEARTH_AGENT_KEEP_HELD_H
#define HEARTH_AGENT_KEEP_HELD_H

#include "agent/base/agent_env.h"
#include "agent/base/trash.h"
#include "agent/base/user.h"

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

/* Removes the folder of an ended launch. */
void held_drop_launch(struct agent_env *env, struct trash *trash, const char *launch);

#endif
