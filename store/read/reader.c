/*
 * reader: handles of readers and their statements.
 */
#include "store/read/reader.h"

#include <stdlib.h>

#include "common/base/xalloc.h"
#include "store/base/sqlh.h"
#include "store/read/reader_int.h"

#define WATCH_STEPS 4000 /* of SQLite's machine: well below a millisecond */

struct store_reader *store_reader_open(const char *path, struct err *e)
{
	sqlite3 *db = sqlh_open(path, SQLH_READ, e);
	struct store_reader *r;

	if (!db)
		return NULL;
	r = xcalloc(1, sizeof(*r));
	r->db = db;
	return r;
}

void store_reader_close(struct store_reader *r)
{
	if (!r)
		return;
	sqlh_close(r->db);
	free(r);
}

void store_reader_watch(struct store_reader *r, int (*stop)(void *arg), void *arg)
{
	sqlite3_progress_handler(r->db, WATCH_STEPS, stop, arg);
}

sqlite3_stmt *reader_sql(struct store_reader *r, const char *sql, struct err *e)
{
	return sqlh_prepare(r->db, sql, e);
}

int reader_begin(struct store_reader *r, struct err *e)
{
	return sqlh_exec(r->db, "BEGIN", e);
}

void reader_end(struct store_reader *r)
{
	sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
}
