/*
 * reader_int: statements of a reader.
 */
#ifndef HEARTH_STORE_READ_READER_INT_H
#define HEARTH_STORE_READ_READER_INT_H

#include <sqlite3.h>

#include "store/read/reader.h"

struct store_reader {
	sqlite3 *db;
};

/* Prepares a statement for one use; the caller finalizes it. */
sqlite3_stmt *reader_sql(struct store_reader *r, const char *sql, struct err *e);
/* Around a question of several statements that must see one state. */
int reader_begin(struct store_reader *r, struct err *e);
void reader_end(struct store_reader *r);

#endif
