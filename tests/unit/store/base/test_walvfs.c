/* walvfs: writes of the WAL are joined, readers see what was committed, a write that fails fails its
 * transaction. */
#include <stdio.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "store/base/sqlh.h"
#include "tests/lib/tap.h"

/* ---- a VFS below that counts and fails ---- */

static sqlite3_vfs counting;
static sqlite3_vfs *plain;
static const sqlite3_io_methods *plain_methods;
static sqlite3_io_methods wal_methods;
static int writes, fail_from; /* fail_from: so many go well; -1 all */

static int c_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	writes++;
	return fail_from >= 0 && writes > fail_from ? SQLITE_FULL : plain_methods->xWrite(f, p, n, at);
}

static int c_open(sqlite3_vfs *self, const char *path, sqlite3_file *f, int flags, int *out)
{
	int rc = plain->xOpen(plain, path, f, flags, out);

	(void)self;
	if (rc == SQLITE_OK && (flags & SQLITE_OPEN_WAL)) {
		plain_methods = f->pMethods;
		wal_methods = *plain_methods;
		wal_methods.xWrite = c_write;
		f->pMethods = &wal_methods;
	}
	return rc;
}

static void count_writes(void)
{
	plain = sqlite3_vfs_find(NULL);
	counting = *plain;
	counting.pNext = NULL;
	counting.zName = "counting";
	counting.xOpen = c_open;
	if (sqlite3_vfs_register(&counting, 1) != SQLITE_OK)
		tap_bail("no VFS");
	fail_from = -1;
}

/* ---- tests ---- */

static int64_t rows(sqlite3 *db)
{
	struct err e;
	int64_t n = -1;

	sqlh_number(db, "SELECT COUNT(*) FROM t", &n, &e);
	return n;
}

/* 0 or -1, the transaction ended either way. */
static int insert(sqlite3 *db, int n)
{
	char sql[300];
	struct err e;
	int rc;

	snprintf(sql, sizeof(sql),
	         "BEGIN IMMEDIATE; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<%d) "
	         "INSERT INTO t SELECT NULL, randomblob(1000) FROM c; COMMIT",
	         n);
	rc = sqlh_exec(db, sql, &e);
	if (rc < 0 && !sqlite3_get_autocommit(db))
		sqlh_exec(db, "ROLLBACK", &e);
	return rc;
}

static void is_whole(sqlite3 *db, const char *when)
{
	sqlite3_stmt *st;
	struct err e;

	st = sqlh_prepare(db, "PRAGMA integrity_check", &e);
	ok(st && sqlh_step(st, &e) == 1 && strcmp(sqlh_str(st, 0), "ok") == 0, "the database is whole %s", when);
	sqlite3_finalize(st);
}

int main(void)
{
	cleanup_free char *path = xasprintf("%s/db", tap_tmpdir());
	sqlite3 *db, *reader;
	struct err e;
	int64_t before;
	int n, failed = 0, bad = 0;

	count_writes();
	db = sqlh_open(path, SQLH_WRITE, &e);
	if (!db || sqlh_exec(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)", &e) < 0)
		tap_bail("%s", e.text);
	reader = sqlh_open(path, SQLH_READ, &e);

	writes = 0;
	is_int(insert(db, 100), 0, "a hundred rows");
	ok(writes >= 1 && writes <= 3, "some 35 pages in a write or two (%d)", writes);
	is_int(rows(reader), 100, "a reader sees them");
	writes = 0;
	is_int(insert(db, 2000), 0, "two megabytes");
	ok(writes >= 16 && writes < 40, "in pieces of the buffer's size (%d)", writes);
	is_int(rows(reader), 2100, "seen");

	/* With a small cache pages are written before the commit, and read again. */
	sqlh_exec(db, "PRAGMA cache_size=10", &e);
	is_int(insert(db, 2000), 0, "more than the cache holds");
	is_int(sqlh_exec(db, "UPDATE t SET b = randomblob(900)", &e), 0, "changed all over");
	is_int(rows(reader), 4100, "seen, too");
	is_whole(db, "after that");

	before = rows(db);
	for (n = 0; n < 100 && (n == 0 || failed); n++) {
		fail_from = n;
		writes = 0;
		failed = insert(db, 500) < 0;
		fail_from = -1;
		bad += rows(db) != before + (failed ? 0 : 500) || rows(reader) != rows(db);
	}
	ok(n > 2 && n < 100 && !bad,
	   "the n-th write fails, n = 1 to %d: nothing of it is there, and then it works", n - 1);
	is_whole(db, "after all of them");
	is_int(insert(db, 10), 0, "and goes on");
	sqlh_close(reader);
	sqlh_close(db);
	db = sqlh_open(path, SQLH_WRITE, &e);
	is_int(rows(db), before + 510, "everything is there when it is opened again");
	sqlh_close(db);
	return tap_done();
}
