/*
 * run_dir: the folder of volatile files. Sockets and plans of launches are in it, so nobody else may have
 * made it: not the folder, and not one above it that is not the system's.
 */
#ifndef HEARTH_AGENT_BASE_RUN_DIR_H
#define HEARTH_AGENT_BASE_RUN_DIR_H

#include "common/base/err.h"
#include <sys/types.h>

/* Makes the folder and the missing ones above it; it has that mode then. The folder must be this account's.
 * Below a folder that everybody may write to (/tmp), each one must be this account's or root's, and no link.
 */
int run_dir_make(const char *path, mode_t mode, struct err *e);

#endif
