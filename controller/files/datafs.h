/*
 * datafs: which file system DATA is on. The records need locks that hold, memory shared by mapping, and
 * syncs that reach a disk. A network file system gives some of these only partly, or only with certain mount
 * options.
 */
#ifndef HEARTH_CONTROLLER_FILES_DATAFS_H
#define HEARTH_CONTROLLER_FILES_DATAFS_H

#include <stdint.h>

#include "common/base/err.h"

enum datafs_verdict { DATAFS_FINE, DATAFS_DOUBTFUL, DATAFS_NETWORK };

/* Judges statfs(2)'s f_type. *name: its usual name; unchanged when it is fine. */
enum datafs_verdict datafs_judge(uint64_t f_type, const char **name);
/* Checks the folder: -1 (ERR_UNSUPPORTED) on a network file system, unless allowed. A doubtful or allowed one
 * gets a line in the log. */
int datafs_check(const char *dir, int allowed, struct err *e);

#endif
