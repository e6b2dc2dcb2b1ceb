/*
 * user: the account that a job runs as.
 */
#ifndef HEARTH_AGENT_USER_H
#define HEARTH_AGENT_USER_H

#include "agent/agent.h"

/* Agent is root: the owner's account, ERR_NOT_FOUND with a clear text when this machine has none. Else the
 * agent's own account, whoever the owner is. out's strings: user_fini. */
int user_lookup(int is_root, const char *owner, struct launch_user *out, struct err *e);
void user_fini(struct launch_user *u);
char *user_self(void); /* account name of this process, malloc'ed */

#endif
