/*
 * sqlh: see sqlh.h. Connections are opened without SQLite's own mutexes: each belongs to one thread.
 */
#include "store/base/sqlh.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "store/base/walvfs.h"

static enum err_code code_of(sqlite3 *db, int rc)
{
	int sys;

	switch (rc & 0xff) {
	case SQLITE_FULL:
		return ERR_NOSPACE;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return ERR_BUSY;
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
	case SQLITE_MISUSE:
	case SQLITE_ERROR:
		return ERR_INTERNAL;
	case SQLITE_TOOBIG:
		return ERR_LIMIT;
	default:
		sys = db ? sqlite3_system_errno(db) : 0;
		return sys == ENOSPC || sys == EDQUOT ? ERR_NOSPACE : ERR_IO;
	}
}

int sqlh_err(sqlite3 *db, int rc, struct err *e, const char *what)
{
	const char *text = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);

	return err_set(e, code_of(db, rc), "%s: %s (%d)", what, text, rc);
}

int sqlh_exec(sqlite3 *db, const char *sql, struct err *e)
{
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : sqlh_err(db, rc, e, "database");
}

sqlite3_stmt *sqlh_prepare(sqlite3 *db, const char *sql, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL);

	if (rc != SQLITE_OK) {
		sqlh_err(db, rc, e, "database");
		return NULL;
	}
	return st;
}

int sqlh_step(sqlite3_stmt *st, struct err *e)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	return sqlh_err(sqlite3_db_handle(st), rc, e, "database");
}

int sqlh_run(sqlite3_stmt *st, struct err *e)
{
	int rc;

	while ((rc = sqlh_step(st, e)) > 0)
		continue;
	sqlite3_reset(st);
	return rc;
}

int sqlh_number(sqlite3 *db, const char *sql, int64_t *out, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(db, sql, e);
	int rc;

	if (!st)
		return -1;
	rc = sqlh_step(st, e);
	if (rc > 0 && sqlite3_column_type(st, 0) != SQLITE_NULL)
		*out = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

const char *sqlh_str(sqlite3_stmt *st, int col)
{
	return (const char *)sqlite3_column_text(st, col);
}

char *sqlh_dup(sqlite3_stmt *st, int col)
{
	return xstrdup(sqlh_str(st, col));
}

uint64_t sqlh_u64(sqlite3_stmt *st, int col)
{
	return (uint64_t)sqlite3_column_int64(st, col);
}

uint32_t sqlh_u32(sqlite3_stmt *st, int col)
{
	return (uint32_t)sqlite3_column_int64(st, col);
}

void sqlh_bind_str(sqlite3_stmt *st, int ix, const char *s)
{
	if (s)
		sqlite3_bind_text(st, ix, s, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(st, ix);
}

/* SQLite gives its WAL the mode of the database: made here, so that no umask opens it to others. */
static int make_file(const char *path, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	close(fd);
	return 0;
}

/* SQLite counts its memory under one mutex for all threads; nobody reads the count. Refused once SQLite is in
 * use, which does no harm. */
static void configure_sqlite(void)
{
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

sqlite3 *sqlh_open(const char *path, int how, struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	/* A reader opens read-write too: it may have to recover the WAL's index. query_only keeps it from
	 * changing rows. */
	static const char read_sql[] = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8192;"
	                               "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;";
	static const char write_sql[] =
	    "PRAGMA synchronous=FULL; PRAGMA journal_mode=WAL; PRAGMA temp_store=MEMORY;"
	    "PRAGMA cache_size=-65536; PRAGMA wal_autocheckpoint=0; PRAGMA trusted_schema=OFF;"
	    "PRAGMA cell_size_check=ON; PRAGMA journal_size_limit=67108864;";
	sqlite3 *db = NULL;
	int rc;

	if (FAULT("store.open")) {
		err_set(e, ERR_IO, "open %s: injected", path);
		return NULL;
	}
	pthread_once(&once, configure_sqlite);
	if (how == SQLH_WRITE && make_file(path, e) < 0)
		return NULL;
	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
	                     how == SQLH_WRITE ? walvfs() : NULL);
	if (rc != SQLITE_OK) {
		if (access(path, F_OK) < 0)
			err_sys(e, errno, "open %s", path);
		else
			sqlh_err(db, rc, e, path);
		sqlite3_close(db);
		return NULL;
	}
	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, SQLH_BUSY_MS);
	if (sqlh_exec(db, how == SQLH_WRITE ? write_sql : read_sql, e) < 0) {
		err_wrap(e, "%s", path);
		sqlite3_close(db);
		return NULL;
	}
	return db;
}

void sqlh_close(sqlite3 *db)
{
	sqlite3_stmt *st;

	if (!db)
		return;
	while ((st = sqlite3_next_stmt(db, NULL)))
		sqlite3_finalize(st);
	sqlite3_close(db);
}
