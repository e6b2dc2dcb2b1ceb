/*
 * accounts: which Unix account runs the jobs of a user. A user is who submits and owns a job; an account is
 * what its processes run as on the nodes. The setting run_as connects them.
 *
 * run_as holds one account, pairs USER=ACCOUNT, or both, with blanks or commas between. %u stands for the
 * user's own name. The rules, in this order:
 *
 * 1. A pair names the user: its account.
 * 2. The call came over the unix socket, and not from root: the account of the caller.
 * 3. The account without a user, if there is one.
 * 4. run_as is empty: the account with the user's name.
 * 5. In all other cases the user has no account and cannot submit.
 *
 * The agents have the last word: they refuse root and accounts of the system (agent/base/user.h).
 */
#ifndef HEARTH_CONTROLLER_HTTP_ACCOUNTS_H
#define HEARTH_CONTROLLER_HTTP_ACCOUNTS_H

#include "common/base/err.h"

#define ACCOUNT_NAME_SIZE 64
#define RUN_AS_MAX        4096 /* pairs */

struct accounts;

/* Reads the setting; NULL or "": no rules. NULL: ERR_INVALID says which word is wrong. */
struct accounts *accounts_parse(const char *run_as, struct err *e);
void accounts_destroy(struct accounts *a);

enum account_source {
	FROM_TCP,    /* a token, or a session */
	FROM_SOCKET, /* the unix socket, and the kernel named the account */
	FROM_ROOT,   /* the unix socket, by root */
};
/* Writes the account that runs jobs of this user; "": none. a NULL: no rules. */
void account_of_user(const struct accounts *a, const char *user, enum account_source from,
                     char out[ACCOUNT_NAME_SIZE]);

/* Refuses settings with which a root hearthd would let users of other machines run jobs as accounts that
 * nobody chose. */
int accounts_check_start(const char *run_as, int is_root, int loopback, const char *listen, struct err *e);

#endif
