/*
 * user: the account that a job runs as. The accounts may be in a directory service on another machine, and
 * libc blocks until that machine answers. So the agent asks once a launch, on a thread, and stores the
 * answer in the launch's files (launch_life.c).
 *
 * At most USER_ASKS_MAX questions are open at a time, abandoned ones included; the next ones wait for their
 * turn. The caller sets the deadline.
 */
#ifndef HEARTH_AGENT_USER_H
#define HEARTH_AGENT_USER_H

#include "agent/base/agent_env.h"
#include "agent/base/worker.h"
#include "common/base/err.h"
#include <sys/types.h>

#define USER_ASKS_MAX   16
#define USER_GROUPS_MAX 4096 /* hearth-hold gets them in one argument, of 128 KiB at most */

struct launch_user { /* who a launch runs as */
	uid_t uid;
	gid_t gid;
	char *name, *home, *shell; /* name NULL: not known (yet) */
	gid_t *groups;             /* where the agent is root: gid and the supplementary ones */
	uint32_t n_groups;
};

/* Blocks: on a thread. Agent is root: the owner's account with its groups, ERR_NOT_FOUND with a clear text
 * when this machine has none, ERR_LIMIT when it is in more than USER_GROUPS_MAX. Else the agent's own
 * account, whoever the owner is. out: user_fini. */
int user_lookup(int is_root, const char *owner, struct launch_user *out, struct err *e);
void user_fini(struct launch_user *u);
void user_copy(struct launch_user *to, const struct launch_user *from);

struct user_ask;
/* found: on the loop, once, never before this returns; u (NULL: why) is the callee's, its strings to be
 * released by user_fini. The handle is void then. NULL: no thread was to be had. */
struct user_ask *user_ask(struct agent_env *env, struct workers *ws, const char *owner,
                          void (*found)(struct launch_user *u, const struct err *why, void *arg), void *arg,
                          struct err *e);
void user_ask_cancel(struct user_ask *q); /* NULL allowed; returns at once, the thread is left behind */

#endif
