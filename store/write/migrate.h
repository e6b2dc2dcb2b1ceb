/*
 * migrate: the schema of the file, brought up to date by numbered migrations that only go forward.
 */
#ifndef HEARTH_STORE_WRITE_MIGRATE_H
#define HEARTH_STORE_WRITE_MIGRATE_H

#include <sqlite3.h>

#include "common/base/err.h"

struct clock;

int migrate_run(sqlite3 *db, const struct clock *clock, struct err *e);
/* Fails unless the file is a store of the schema that this program knows. */
int migrate_check(sqlite3 *db, struct err *e);

#endif
