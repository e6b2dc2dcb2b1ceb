/*
 * rshwords: the command line that mpirun gives to a remote shell, as words.
 *
 * Open MPI writes it for a shell: values in double quotes, and where mpirun was called by an absolute path or
 * with --prefix assignments and exports in front, "PATH=/usr/bin:$PATH ; export PATH ; ... /usr/bin/orted".
 * Here it is taken apart without a shell: quotes and backslashes are understood, assignments and exports are
 * left out (the agent makes orted's environment), anything else that would need a shell is an error.
 */
#ifndef HEARTH_AGENT_RSHWORDS_H
#define HEARTH_AGENT_RSHWORDS_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

/* Joins args with blanks and splits the whole. *out must be empty; its strings are the caller's. */
int rshwords_split(char *const *args, size_t n, struct strv *out, struct err *e);

#endif
