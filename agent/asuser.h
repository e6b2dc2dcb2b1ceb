/*
 * asuser: one thread touches files as the job's account, so that the kernel decides what the job may read and
 * write.
 *
 * Only the file system identity of the calling thread changes (setfsuid, setfsgid, groups); the process and
 * its other threads stay as they are. Nothing happens where the agent is not root, or the account is root.
 */
#ifndef HEARTH_AGENT_ASUSER_H
#define HEARTH_AGENT_ASUSER_H

#include "agent/agent.h"

struct asuser {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* of the account */
	int n_groups;
	int inside;
	int needed;
};
/* Looks the groups up. name may be NULL: gid only. */
int asuser_init(struct asuser *a, int is_root, uid_t uid, gid_t gid, const char *name, struct err *e);
void asuser_fini(struct asuser *a);
int asuser_enter(struct asuser *a, struct err *e); /* on the thread; not nested */
void asuser_leave(struct asuser *a);

#endif
