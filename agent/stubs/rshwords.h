/*
 * The room stubs: small programs that a launch needs on its node: hearth-rank, hearth-rsh, hearth-hold.
 * They share no state with the agent.
 *
 * rshwords: the command line that mpirun gives to a remote shell, as words.
 *
 * Open MPI writes it for a shell: values in double quotes and, with an absolute mpirun or --prefix,
 * assignments and exports in front: "PATH=/usr/bin:$PATH ; export PATH ; ... /usr/bin/orted". Their form
 * follows the login shell of the account: for sh the whole is "( test ! -r ./.profile || . ./.profile; ...
 * )", for csh it has "set path = ( ... ) ; if ( ... ) setenv ... ;". This parser needs no shell: it
 * understands quotes and backslashes, leaves all of that out (the agent makes orted's environment), and
 * refuses anything else that would need a shell.
 */
#ifndef HEARTH_AGENT_STUBS_RSHWORDS_H
#define HEARTH_AGENT_STUBS_RSHWORDS_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

/* Joins args with blanks and splits the whole. *out must be empty; its strings are the caller's. */
int rshwords_split(char *const *args, size_t n, struct strv *out, struct err *e);

#endif
