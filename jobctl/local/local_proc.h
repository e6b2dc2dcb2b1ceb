/*
 * local_proc: the programs of the local cluster: which of them run, start, end and logs.
 *
 * DIR/run/NAME has the identity (boot id, pid, start time) of each. Only a process with that very identity
 * gets a signal.
 */
#ifndef HEARTH_JOBCTL_LOCAL_LOCAL_PROC_H
#define HEARTH_JOBCTL_LOCAL_LOCAL_PROC_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

char *local_dir(void); /* $XDG_DATA_HOME/hearth/local, malloc'ed */
int local_make_dirs(const char *dir, struct err *e);
int local_lock(const char *dir,
               struct err *e); /* one `jobctl local` at a time; a descriptor to close, or -1 */

/* Returns whether the program runs and has no pending SIGKILL. */
int local_is_up(const char *dir, const char *name);
/* Returns the path of a program of the same build or installation. Malloc'ed. */
char *local_program(const char *build_path, const char *installed_path, struct err *e);
int local_log(const char *dir, const char *name, struct err *e); /* a descriptor to write to it, or -1 */
/* Returns whether a process holds the lock of DIR/NAME. */
int local_is_locked(const char *dir, const char *name);
/* Starts the program as soon as the lock of its data folder DIR/NAME is free. of > 1: it is number index of
 * so many programs that share the CPUs of this machine, if there are enough. */
int local_spawn(const char *dir, const char *name, const char *path, const struct strv *args, unsigned index,
                unsigned of, struct err *e);
/* Returns whether it runs on other CPUs than local_spawn would choose. */
int local_share_differs(const char *dir, const char *name, unsigned index, unsigned of);
/* Sends SIGTERM, and SIGKILL after 10 s. Removes its identity in any case. */
void local_end(const char *dir, const char *name);
/* Prints the end of its log on standard error. */
void local_show_log(const char *dir, const char *name);

#endif
