/*
 * child: runs a program that may take long (pip, tar), hands its output on as it comes, and ends it at a
 * deadline. Blocks: for threads.
 */
#ifndef HEARTH_AGENT_BASE_CHILD_H
#define HEARTH_AGENT_BASE_CHILD_H

#include "agent/base/last_line.h"
#include "agent/base/user.h"
#include <stddef.h>

struct child {
	const char *const *argv; /* argv[0] absolute */
	char *const *envp;
	const char *cwd;
	const struct launch_user *user;                     /* NULL: as the agent */
	int stdin_fd;                                       /* -1 none */
	uint64_t timeout_ms;                                /* 0 none: tick ends it */
	void (*output)(const char *p, size_t n, void *arg); /* stdout and stderr; may be NULL */
	int (*tick)(uint64_t silent_ms, void *arg); /* each second: how long it has said nothing; -1 kills it */
	void *arg;
	/* results */
	char last_line[LAST_LINE_MAX]; /* last one that is not empty; one that begins with ERROR stays */
};
/* 0 and it succeeded; else -1: ERR_IO with its exit status or signal, ERR_TIMEOUT, ERR_UNAVAILABLE (tick), or
 * why it did not start. Whatever it left running in its session is ended with it. */
int child_run(struct child *c, struct err *e);

#endif
