/*
 * removals: removes held checkpoints, and their copies outside of the node, on threads and as their account.
 *
 * A removal that fails is tried again, in longer and longer intervals. The index of the launch names it until
 * it is done (keep_index.h): the next agent goes on with it.
 */
#ifndef HEARTH_AGENT_KEEP_REMOVALS_H
#define HEARTH_AGENT_KEEP_REMOVALS_H

#include "agent/base/agent_env.h"
#include "agent/base/user.h"
#include "agent/link/data_link.h"

struct removals;
struct removals *removals_create(struct agent_env *env, struct data_link *link);
void removals_destroy(struct removals *all); /* NULL allowed; what is not removed stays in the indexes */

struct removal {
	const char *launch;             /* "17.2" */
	const struct launch_user *user; /* NULL: the owner of its folder, if there is one */
	uint64_t seq;                   /* 0: the copy alone */
	const char *copy; /* path of a copy outside of the node; NULL none. It goes also where nothing is held */
};
/* One that is under way already is not begun twice. */
void removals_add(struct removals *all, const struct removal *r);
unsigned removals_count(const struct removals *all); /* that are not done */

#endif
