/*
 * child: the process that a shim owns: fork, everything between fork and exec, its end, and all that descends
 * from it.
 *
 * Descendants are found from the kernel's own lists (/proc/PID/task/TID/children), starting at the shim,
 * which is their subreaper: whatever sets up a session of its own or forks twice stays below it. That nothing
 * is left is not read from /proc: it is when waitid says that the shim has no child any more.
 */
#ifndef HEARTH_SHIM_CHILD_H
#define HEARTH_SHIM_CHILD_H

#include "shim/shim.h"
#include <stddef.h>
#include <stdint.h>

#define CHILD_TEXT_MAX 1000 /* below STATE_TEXT_MAX and PIPE_BUF */

struct child {
	struct proc_id id; /* pid 0: none was started */
	int hold_fd;       /* closing it lets the child go on to exec; -1 done */
	int report_fd;     /* end of file: exec has happened; bytes: why it has not. -1 settled */
	int at_exec;       /* it has said that it executes now */
	int running;       /* not reaped yet */
	int raw_status;    /* as of waitpid, once running is 0 */
};

struct child_io {
	int in_fd; /* -1: /dev/null */
	int out_fd, err_fd;
	int metrics_fd; /* -1 none */
	int park_fd;    /* becomes SHIM_PARK_FD, -1 none */
};

void child_init(struct child *c);
void child_fini(struct child *c);
/* Forks. The child waits before it does anything until child_release, so that who it is can be on record
 * first. */
int child_fork(struct child *c, const struct shim_launch *l, const struct child_io *io, struct err *e);
void child_release(struct child *c);
/* Reads report_fd, which is readable. 1: executed; 0: not yet; -1: it will not, text (CHILD_TEXT_MAX) says
 * why, "" when it ended without a word. */
int child_report(struct child *c, char *text);
/* For a child that will not execute: SIGKILL, and its zombie taken away. */
void child_await(struct child *c);

/* Reaps whatever has ended. Sets c->running to 0 when the process itself was among it. Returns 1 when the
 * shim has no child left at all. */
int child_reap(struct child *c);
/* Signal to the process group of the process, and to itself where it has left that group. Only while
 * c->running. */
int child_signal_group(struct child *c, int signo);
/* To the process and all its descendants; with only_if_caught to those that have a handler. How many were
 * reached. */
int child_signal_all(int signo, int only_if_caught);
/* Names and pids of what still lives below the shim, for a message. Returns how many. */
int child_list(char *text, size_t size);

#endif
