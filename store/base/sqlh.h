/*
 * sqlh: the few helpers that every file with SQL needs. No state.
 */
#ifndef HEARTH_STORE_BASE_SQLH_H
#define HEARTH_STORE_BASE_SQLH_H

#include <sqlite3.h>
#include <stdint.h>

#include "common/base/err.h"

/* rc of SQLite -> err: full -> ERR_NOSPACE, busy -> ERR_BUSY, constraint -> ERR_INTERNAL, anything else
 * ERR_IO. Returns -1. */
int sqlh_err(sqlite3 *db, int rc, struct err *e, const char *what);
int sqlh_exec(sqlite3 *db, const char *sql, struct err *e);
sqlite3_stmt *sqlh_prepare(sqlite3 *db, const char *sql, struct err *e);
/* One row or none: 1, 0, -1. */
int sqlh_step(sqlite3_stmt *st, struct err *e);
/* Runs to its end and resets. */
int sqlh_run(sqlite3_stmt *st, struct err *e);
/* Reads the first column of the first row; without a row it returns 0 and leaves *out. */
int sqlh_number(sqlite3 *db, const char *sql, int64_t *out, struct err *e);

/* Columns. sqlh_dup: malloc'ed, NULL for NULL. sqlh_str: NULL for NULL, valid until the next step. */
char *sqlh_dup(sqlite3_stmt *st, int col);
const char *sqlh_str(sqlite3_stmt *st, int col);
uint64_t sqlh_u64(sqlite3_stmt *st, int col);
uint32_t sqlh_u32(sqlite3_stmt *st, int col);
void sqlh_bind_str(sqlite3_stmt *st, int ix, const char *s); /* not copied; NULL -> NULL */

#define SQLH_BUSY_MS 5000 /* another program (backup, rebuild) holds the lock: wait, but not for ever */
#define SQLH_READ    0    /* a connection that cannot change anything */
#define SQLH_WRITE   1
/* Opens an existing database (SQLH_WRITE: makes it when missing, mode 0600) with the settings of this
 * project. */
sqlite3 *sqlh_open(const char *path, int how, struct err *e);
void sqlh_close(sqlite3 *db); /* NULL allowed */

#endif
