/*
 * asuser: one thread touches files as the job's account, so that the kernel decides what the job may read and
 * write.
 *
 * Only the file system identity of the calling thread changes (setfsuid, setfsgid, groups); the process and
 * its other threads stay as they are. Nothing happens where the agent is not root, or the account is root.
 */
#ifndef HEARTH_AGENT_BASE_ASUSER_H
#define HEARTH_AGENT_BASE_ASUSER_H

#include "agent/base/user.h"

struct asuser {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* of the account */
	uint32_t n_groups;
	int inside;
	int needed;
};
/* Copies the groups of u; none: gid only. */
void asuser_init(struct asuser *a, int is_root, const struct launch_user *u);
void asuser_fini(struct asuser *a);
int asuser_enter(struct asuser *a, struct err *e); /* on the thread; not nested */
void asuser_leave(struct asuser *a);

#endif
