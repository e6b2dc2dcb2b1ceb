/*
 * tree: walking the processes below this one.
 */
#ifndef HEARTH_SHIM_TREE_H
#define HEARTH_SHIM_TREE_H

#include <sys/types.h>

/* Calls fn for each descendant, parents first; pidfd is open and checked to be that descendant (-1 where the
 * system has no pidfds: then the number was checked just before). fn's return values are summed up. What is
 * forked during the walk may be missed: who must reach all walks again. */
int tree_walk(int (*fn)(pid_t pid, int pidfd, void *arg), void *arg);
/* /proc/PID/status "SigCgt": does the process catch signo? 0 also when it cannot be read. */
int tree_catches(pid_t pid, int signo);

#endif
