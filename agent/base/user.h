/*
 * user: the account that a job runs as. The accounts may be in a directory service on another machine, and
 * libc blocks until that machine answers. So the agent asks once a launch, on a thread, and stores the
 * answer in the launch's files (launch_life.c).
 *
 * The pool of workers bounds how many questions are open at a time, abandoned ones included; the next ones
 * wait for their turn.
 */
#ifndef HEARTH_AGENT_BASE_USER_H
#define HEARTH_AGENT_BASE_USER_H

#include "agent/base/agent_env.h"
#include "agent/base/worker.h"
#include "common/base/err.h"
#include <sys/types.h>

#define USER_GROUPS_MAX 4096 /* hearth-hold gets them in one argument, of 128 KiB at most */

struct launch_user { /* the account of a launch */
	uid_t uid;
	gid_t gid;
	char *name, *home, *shell; /* name NULL: not known (yet) */
	gid_t *groups;             /* where the agent is root: gid and the supplementary ones */
	uint32_t n_groups;
};

struct user_rules { /* whose jobs this agent runs */
	int is_root;    /* 0: an ordinary user's agent; it runs everything as that user */
	int allow_root; /* --allow-root */
	uid_t min_uid;  /* --min-uid */
};

/* Finds the account that runs a job; blocks, so for a thread. A root agent gets that account with its groups:
 * ERR_NOT_FOUND when this machine lacks it, ERR_DENIED when the rules exclude it, ERR_LIMIT above
 * USER_GROUPS_MAX groups. Any other agent gets its own account. out: user_fini. */
int user_lookup(const struct user_rules *rules, const char *account, struct launch_user *out, struct err *e);
void user_fini(struct launch_user *u);
void user_copy(struct launch_user *to, const struct launch_user *from);

struct user_ask;
/* Asks on a thread. found is called once, on the loop, after this returns: u is the callee's (user_fini), or
 * NULL and why has the reason. The handle is void then. Returns NULL when too many wait. */
struct user_ask *user_ask(struct agent_env *env, struct workers *ws, const char *account,
                          void (*found)(struct launch_user *u, const struct err *why, void *arg), void *arg,
                          struct err *e);
void user_ask_cancel(struct user_ask *q); /* NULL allowed; returns at once and leaves the thread behind */

#endif
