/*
 * exec: the last steps before a program runs, and sentences for those that cannot run. For the forked copy of
 * the shim (setup.c), and for hearth-wait.
 */
#ifndef HEARTH_SHIM_EXEC_H
#define HEARTH_SHIM_EXEC_H

#include "common/base/xalloc.h"

#define EXEC_TEXT_MAX 1000 /* in one write */

/* Where a sentence goes, and what stands before it. */
void exec_report_to(int fd, const char *before);
/* Writes the sentence and ends with 127. */
void exec_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void exec_enter(const char *cwd); /* "" or NULL: / */
/* argv[0] without a slash is searched in PATH of env. ready is called right before; NULL allowed. */
void exec_program(const struct strv *argv, const struct strv *env, void (*ready)(int fd))
    __attribute__((noreturn));

#endif
