/*
 * setup: from a forked copy of the shim to the program of the launch.
 */
#ifndef HEARTH_SHIM_SETUP_H
#define HEARTH_SHIM_SETUP_H

#include "shim/child.h"

/* Written to report_fd right before exec: an end of file without it is the end of a child that never
 * executed. */
#define SETUP_AT_EXEC 1

/* Runs in the child and does not return: executes, or writes why not to report_fd (one write) and ends with
 * 127. shim: the pid of the parent. */
void setup_exec(const struct shim_launch *l, const struct child_io *io, pid_t shim, int report_fd)
    __attribute__((noreturn));

#endif
