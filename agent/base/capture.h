/*
 * capture: runs a short program and returns its output, with a deadline and a bound. Blocks: for threads,
 * and for the start of the agent.
 */
#ifndef HEARTH_AGENT_BASE_CAPTURE_H
#define HEARTH_AGENT_BASE_CAPTURE_H

#include "agent/base/user.h"
#include "common/base/err.h"
#include <stddef.h>

struct capture {
	const char *const *argv; /* argv[0]: absolute path */
	char *const *envp;       /* NULL: PATH and LANG only */
	const char *cwd;
	const struct launch_user *user; /* NULL: as the agent */
	uint32_t timeout_ms;            /* then it is killed */
	size_t max;                     /* bytes of output kept; the rest is read and dropped */
	int with_stderr;
};
/* *out (malloc'ed, terminated) also when the program fails: then -1 with its exit status in e (ERR_IO),
 * ERR_TIMEOUT, or why it did not start. */
int capture_run(const struct capture *c, char **out, size_t *n, struct err *e);
/* Returns the program in PATH or in a standard directory, malloc'ed; NULL: not found. */
char *capture_find(const char *program);

#endif
