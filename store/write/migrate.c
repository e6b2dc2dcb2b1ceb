/*
 * migrate: numbered migrations, forward only. Each runs in a transaction of its own and is recorded with the
 * digest of its text, so that a file which was changed after it was applied is noticed. A database with a
 * number that this program does not know is refused: an older program would write rows that the newer schema
 * cannot trust.
 */
#include "store/write/migrate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "store/base/sqlh.h"

#define APPLICATION_ID 0x48525448 /* "HRTH" */
#define STRICT_SINCE   3037000    /* SQLite's version number */

struct migration {
	const char *name;
	const char *sql;
};
static const struct migration migrations[] = {
#include "store/migrations_gen.h"
};
#define N_MIGRATIONS (sizeof(migrations) / sizeof(migrations[0]))

/* Opens the comments around STRICT. A database made with it is refused by an older library, by SQLite itself.
 */
static char *open_strict(const char *sql)
{
	char *out = xstrdup(sql), *at;

	if (sqlite3_libversion_number() < STRICT_SINCE)
		return out;
	while ((at = strstr(out, "/*STRICT*/")))
		memcpy(at, "  STRICT  ", 10);
	while ((at = strstr(out, "/*, STRICT*/")))
		memcpy(at, "  , STRICT  ", 12);
	return out;
}

static int check_id(sqlite3 *db, struct err *e)
{
	int64_t id = 0, tables = 0;

	if (sqlh_number(db, "PRAGMA application_id", &id, e) < 0 ||
	    sqlh_number(db, "SELECT count(*) FROM sqlite_schema", &tables, e) < 0)
		return -1;
	if (id != APPLICATION_ID && (id != 0 || tables != 0))
		return err_set(e, ERR_INVALID, "this is a database of another program, not of hearthd");
	return 0;
}

/* 1 same, 0 not recorded, -1 recorded with another text. */
static int check_one(sqlite3 *db, size_t number, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(db, "SELECT checksum FROM migration WHERE number = ?", e);
	const struct migration *m = &migrations[number - 1];
	char want[HASH_HEX_SIZE];
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)number);
	rc = sqlh_step(st, e);
	hash_hex(m->sql, strlen(m->sql), want);
	if (rc > 0 && strcmp(sqlh_str(st, 0), want) != 0)
		rc = err_set(e, ERR_CONFLICT, "migration %s was applied with another text than this program has",
		             m->name);
	sqlite3_finalize(st);
	return rc;
}

static int check_newer(sqlite3 *db, struct err *e)
{
	int64_t last = 0;

	if (sqlh_number(db, "SELECT max(number) FROM migration", &last, e) < 0)
		return -1;
	if (last > (int64_t)N_MIGRATIONS)
		return err_set(e, ERR_CONFLICT,
		               "the database has schema %" PRId64
		               ", this program knows schemas up to %zu: use the newer hearthd that wrote it, "
		               "or restore a backup",
		               last, N_MIGRATIONS);
	return 0;
}

static int record_migration(sqlite3 *db, size_t number, const struct clock *clock, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(db, "INSERT INTO migration VALUES (?, ?, ?, ?)", e);
	const struct migration *m = &migrations[number - 1];
	char sum[HASH_HEX_SIZE];
	int rc;

	if (!st)
		return -1;
	hash_hex(m->sql, strlen(m->sql), sum);
	sqlite3_bind_int64(st, 1, (int64_t)number);
	sqlh_bind_str(st, 2, m->name);
	sqlh_bind_str(st, 3, sum);
	sqlite3_bind_int64(st, 4, (int64_t)clock_real_us(clock));
	rc = sqlh_run(st, e);
	sqlite3_finalize(st);
	return rc;
}

static int apply_migration(sqlite3 *db, size_t number, const struct clock *clock, struct err *e)
{
	const struct migration *m = &migrations[number - 1];
	char *sql = open_strict(m->sql);
	int rc = -1;

	if (sqlh_exec(db, "BEGIN IMMEDIATE", e) == 0) {
		rc = sqlh_exec(db, sql, e) < 0 || record_migration(db, number, clock, e) < 0 ||
		             sqlh_exec(db, "COMMIT", e) < 0
		         ? -1
		         : 0;
		if (rc < 0)
			sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	}
	free(sql);
	if (rc < 0)
		return err_wrap(e, "migration %s", m->name);
	log_info("event=store_migrated migration=%s", m->name);
	return 0;
}

/* In one transaction: a table without the id would be taken for another program's after a crash in between.
 */
static int mark_ours(sqlite3 *db, struct err *e)
{
	if (sqlh_exec(db,
	              "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, "
	              "name TEXT NOT NULL, checksum TEXT NOT NULL, at_us INTEGER NOT NULL); "
	              "PRAGMA application_id = 1213355080; COMMIT",
	              e) == 0)
		return 0;
	sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return -1;
}

int migrate_run(sqlite3 *db, const struct clock *clock, struct err *e)
{
	int rc;

	if (check_id(db, e) < 0 || mark_ours(db, e) < 0 || check_newer(db, e) < 0)
		return -1;
	for (size_t number = 1; number <= N_MIGRATIONS; number++) {
		rc = check_one(db, number, e);
		if (rc < 0 || (rc == 0 && apply_migration(db, number, clock, e) < 0))
			return -1;
	}
	return 0;
}

int migrate_check(sqlite3 *db, struct err *e)
{
	int rc;

	if (check_id(db, e) < 0 || check_newer(db, e) < 0)
		return -1;
	for (size_t number = 1; number <= N_MIGRATIONS; number++) {
		rc = check_one(db, number, e);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return err_set(e, ERR_CONFLICT,
			               "the database is of an older hearthd: migration %s is missing; start hearthd once",
			               migrations[number - 1].name);
	}
	return 0;
}
