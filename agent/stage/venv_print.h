/*
 * venv_print: notices that an environment is no longer what pip made. A job that may write it could add
 * packages at run time, which must not reach the next job.
 *
 * KEY/print has a line for each entry of KEY/env: type, mode, size, times and inode. A changed file keeps
 * neither its ctime nor its inode, whatever a job sets its times to. Python may add to a __pycache__: the
 * check removes what is new there, because it may hold any code. What was compiled at the installation stays.
 * Blocks: for threads.
 */
#ifndef HEARTH_AGENT_STAGE_VENV_PRINT_H
#define HEARTH_AGENT_STAGE_VENV_PRINT_H

#include "common/base/err.h"

/* Records the environment of the cache's entry: before its commit. */
int venv_print_save(const char *entry_dir, struct err *e);
/* 1: as it was, or is again; 0: changed, *what names the first difference (malloc'ed), or it was never
 * recorded. */
int venv_print_check(const char *entry_dir, char **what);

#endif
