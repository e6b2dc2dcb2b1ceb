/*
 * backup: copies of a database, and its projections made new.
 */
#ifndef HEARTH_STORE_WRITE_BACKUP_H
#define HEARTH_STORE_WRITE_BACKUP_H

#include "common/base/err.h"

/* Copies the database by SQLite's backup API while hearthd may run, checks the copy and puts it at `to`.
 * Refuses an existing file. */
int store_backup(const char *path, const char *to, struct err *e);
/* Makes the projections new. hearthd must not run. */
int store_rebuild(const char *path, struct err *e);

#endif
