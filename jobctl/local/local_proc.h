/*
 * local_proc: the programs of the local cluster: who runs, start, end, their logs.
 *
 * DIR/run/NAME holds the identity (boot id, pid, start time) of each. Nothing is signalled but a process with
 * that very identity.
 */
#ifndef HEARTH_JOBCTL_LOCAL_PROC_H
#define HEARTH_JOBCTL_LOCAL_PROC_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

char *local_dir(void); /* $XDG_DATA_HOME/hearth/local, malloc'ed */
int local_make_dirs(const char *dir, struct err *e);
int local_lock(const char *dir,
               struct err *e); /* one `jobctl local` at a time; a descriptor to close, or -1 */

/* Runs, and is not about to end: one that SIGKILL has been sent to is gone in a moment. */
int local_is_up(const char *dir, const char *name);
/* Program beside this one, in the build tree or where it is installed. Malloc'ed. */
char *local_program(const char *build_path, const char *installed_path, struct err *e);
int local_log(const char *dir, const char *name, struct err *e); /* a descriptor to write to it, or -1 */
/* A predecessor holds the lock of DIR/NAME. */
int local_is_locked(const char *dir, const char *name);
/* Starts it, once no predecessor holds the lock of its data folder DIR/NAME any more. of > 1: it is the
 * index-th of so many that share the CPUs of this machine, when there are enough. */
int local_spawn(const char *dir, const char *name, const char *path, const struct strv *args, unsigned index,
                unsigned of, struct err *e);
/* Runs on other CPUs than local_spawn would give it. */
int local_share_differs(const char *dir, const char *name, unsigned index, unsigned of);
/* SIGTERM, and SIGKILL when that does not help in 10 s. Forgets it in any case. */
void local_end(const char *dir, const char *name);
/* The last lines of its log, on standard error. */
void local_show_log(const char *dir, const char *name);

#endif
