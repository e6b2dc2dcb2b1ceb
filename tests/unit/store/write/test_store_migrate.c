/* migrations: a store of each older schema, full of rows, becomes what it would be today; what is newer,
 * foreign or changed is refused and stays as it is. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "store/read/verify.h"
#include "store/write/backup.h"
#include "store/write/project.h"
#include "store/write/wdb.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static const struct {
	const char *name, *sql;
} migrations[] = {
#include "store/migrations_gen.h"
};
#define N ((int)(sizeof(migrations) / sizeof(migrations[0])))

static sqlite3 *db; /* the one under work */

static void run(const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		tap_bail("%.200s: %s", sql, why ? why : "?");
}

static void open_db(const char *path, int fresh)
{
	if (fresh)
		unlink(path);
	if (sqlite3_open(path, &db) != SQLITE_OK)
		tap_bail("%s", sqlite3_errmsg(db));
}

/* An older hearthd's empty store. */
static void make_old(const char *path, int version)
{
	open_db(path, 1);
	run("PRAGMA application_id = 1213355080; CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT "
	    "NOT NULL, checksum TEXT NOT NULL, at_us "
	    "INTEGER NOT NULL)");
	for (int i = 0; i < version; i++) {
		char sum[HASH_HEX_SIZE], *sql;

		run(migrations[i].sql);
		hash_hex(migrations[i].sql, strlen(migrations[i].sql), sum);
		sql = sqlite3_mprintf("INSERT INTO migration VALUES (%d, %Q, %Q, 5)", i + 1, migrations[i].name, sum);
		run(sql);
		sqlite3_free(sql);
	}
}

/* fn for each name that the statement gives. */
static void each(const char *sql, void (*fn)(const char *name, void *arg), void *arg)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW)
		fn((const char *)sqlite3_column_text(st, 0), arg);
	sqlite3_finalize(st);
}

static void add_name(const char *name, void *arg)
{
	size_t n = strlen(arg);

	snprintf((char *)arg + n, 1024 - n, "%s\"%s\"", n ? ", " : "", name);
}

/* The columns that a table has in the schema "main" as a list. */
static char *columns(const char *table)
{
	char sql[160], *out = xcalloc(1, 1024);

	snprintf(sql, sizeof(sql), "SELECT name FROM pragma_table_info('%.60s')", table);
	each(sql, add_name, out);
	return out;
}

static void copy_table(const char *table, void *arg)
{
	char *cols = columns(table),
	     *sql = sqlite3_mprintf("DELETE FROM main.%s; INSERT INTO main.%s (%s) SELECT %s FROM today.%s",
	                            table, table, cols, cols, table);

	(void)arg;
	run(sql);
	sqlite3_free(sql);
	free(cols);
}

#define OLD_TABLES                                                                                           \
	"SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT IN ('migration', "                \
	"'sqlite_sequence')"

/* All that fits of the rows of today. */
static void fill_old(const char *today)
{
	char *sql = sqlite3_mprintf("ATTACH %Q AS today", today);

	run(sql);
	sqlite3_free(sql);
	each(OLD_TABLES, copy_table, NULL);
	run("DETACH today");
}

struct differ {
	int tables, n;
	const char *but;
};

/* The columns of old (attached) in main and in today: equal rows. */
static void compare_table(const char *table, void *arg)
{
	struct differ *d = arg;
	char *cols, *sql;
	char name[80];

	snprintf(name, sizeof(name), " %.70s ", table);
	d->tables++;
	if (strstr(d->but, name))
		return;
	cols = columns(table);
	sql = sqlite3_mprintf(
	    "SELECT '%s' FROM (SELECT * FROM (SELECT %s FROM main.%s EXCEPT SELECT %s FROM today.%s) UNION ALL "
	    "SELECT * FROM (SELECT %s FROM today.%s EXCEPT SELECT %s FROM main.%s))",
	    table, cols, table, cols, table, cols, table, cols, table);
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW) {
		tap_diag("a row of %s differs", table);
		d->n++;
	}
	sqlite3_finalize(st);
	sqlite3_free(sql);
	free(cols);
}

static int differences(const char *path, const char *today, const char *but, int *tables)
{
	struct differ d = {.but = but};
	char *sql = sqlite3_mprintf("ATTACH %Q AS today", today);

	open_db(path, 0);
	run(sql);
	sqlite3_free(sql);
	each(OLD_TABLES, compare_table, &d);
	sqlite3_close(db);
	*tables = d.tables;
	return d.n;
}

static void on_finding(const char *line, void *arg)
{
	if (strncmp(line, "skipped", 7) != 0)
		tap_diag("%s", line);
	(void)arg;
}

/* What there was no column for when the rows were written. */
static const struct {
	int since; /* the migration that brought the columns */
	const char *tables;
	const char *check; /* 1 when the new columns say what they should of old rows */
} news[] = {
    {3, " rank ", "SELECT count(*) = 0 FROM rank WHERE ended_by IS NOT NULL"},
    {4, " answer ", "SELECT count(*) = 0 FROM answer"},
    {5, " dropped ",
     "SELECT group_concat(job || ':' || logs_us || ':' || bundle_us || ':' || metrics_us || ':' || "
     "artifacts_us) = "
     "'3:' || d.t3 || ':' || d.t3 || ':0:0,4:' || d.t4 || ':' || d.t4 || ':' || d.t4 || ':' || d.t4 FROM "
     "dropped, (SELECT "
     "(SELECT at_us FROM dropped WHERE job = 3) AS t3, (SELECT at_us FROM dropped WHERE job = 4) AS t4) d"},
    {8, " queue usage ", "SELECT count(*) = 0 FROM queue, usage"},
    {9, " instance ", "SELECT count(*) = 0 FROM instance"},
    {10, " reservation ", "SELECT count(*) = 0 FROM reservation"},
    {11, " job ",
     "SELECT count(*) = 0 FROM job WHERE array <> 0 OR members <> 0 OR halved <> 0 OR rungs IS NOT NULL"},
    {12, " attempt budget ",
     "SELECT (SELECT count(*) FROM budget) + count(*) = 0 FROM attempt WHERE price_uusd <> 0 OR account <> "
     "''"},
    {13, " history ", "SELECT count(*) = 0 FROM history"},
    {15, " job ", "SELECT count(*) = 0 FROM job WHERE begins IS NOT NULL"},
    {16, " job ", "SELECT count(*) = 0 FROM job WHERE ran_us <> 0 OR runs_since_us <> 0"},
    {17, " budget ", "SELECT count(*) = 0 FROM budget WHERE action <> 'hold'"},
    {23, " job attempt ",
     "SELECT (SELECT count(*) FROM attempt WHERE plan <> '' OR evidence <> '') + "
     "count(*) = "
     "0 FROM job WHERE plan_attempts + plan_capacity + plan_rollbacks + plan_stuck + plan_unstarted <> 0 OR "
     "held_us <> (SELECT coalesce(sum(max(0, ended_us - started_us)), 0) FROM attempt WHERE attempt.job = "
     "job.id AND ended_us > 0)"},
    {24, " job watch ",
     "SELECT (SELECT count(*) FROM watch) + count(*) = 0 FROM job WHERE alerts <> 0 OR alert <> ''"},
};

static void settle(const char *path)
{
	struct wdb w;
	struct err e;

	if (wdb_init(&w, path, clock_real(), &e) < 0)
		tap_bail("%s", e.text);
	while (project_step(&w, 1000, &e) > 0)
		continue;
	wdb_fini(&w);
}

static void test_version(const char *today, int version)
{
	char path[600], but[200] = " ";
	struct err e;
	int n, tables, bad = 0;

	snprintf(path, sizeof(path), "%s/v%d.db", tap_tmpdir(), version);
	make_old(path, version);
	fill_old(today);
	sqlite3_close(db);
	if (version < N) {
		ok(store_verify(path, on_finding, NULL, &e) < 0 && e.code == ERR_CONFLICT &&
		       strstr(e.text, migrations[version].name),
		   "version %d is not verified: %.110s", version, e.text);
		snprintf(but, sizeof(but), "%s/copy%d.db", tap_tmpdir(), version);
		ok(store_backup(path, but, &e) < 0 && strstr(e.text, "start hearthd once") && access(but, F_OK) < 0,
		   "nor copied");
	}
	settle(path);
	snprintf(but, sizeof(but), " ");
	for (size_t i = 0; i < sizeof(news) / sizeof(news[0]); i++)
		if (version < news[i].since) {
			size_t len = strlen(but);

			bad += kit_number(path, news[i].check) != 1;
			snprintf(but + len, sizeof(but) - len, "%s", news[i].tables);
		}
	ok(!bad, "version %d: new columns and tables say of old rows what they should", version);
	n = differences(path, today, but, &tables);
	ok(n == 0 && tables > 15, "what was there is as it was (%d tables)", tables);
	is_int(kit_number(path, "SELECT count(*) FROM migration"), N, "all migrations are recorded");
	is_int(store_verify(path, on_finding, NULL, &e), 0, "the store is sound");
	settle(path);
	is_int(kit_number(path, "SELECT count(*) FROM migration WHERE at_us = 5"), version,
	       "none was applied twice");
}

/* An entry of the search tables that an older hearthd did not write anew (0014), a list that 0002 replaced.
 */
static void test_mended(const char *today)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/mended.db", tap_tmpdir());
	make_old(path, 1);
	fill_old(today);
	run("UPDATE job_ix SET name = 'old' WHERE job = 2; DELETE FROM metric_dirty; UPDATE metric_sum SET "
	    "points = 99");
	sqlite3_close(db);
	settle(path);
	is_int(kit_number(path, "SELECT name = 'digits' FROM job_ix WHERE job = 2"), 1,
	       "a job is found by the name that it has");
	is_int(kit_number(path, "SELECT count(*) FROM metric_sum WHERE attempt IS NULL OR points = 99"), 0,
	       "summaries are of one rank and attempt");
	is_int(kit_number(path, "SELECT sql LIKE '%status <> %' FROM sqlite_schema WHERE name = 'job_active'"), 1,
	       "the index of unfinished jobs is the new one");
}

/* How long a job ran is read out of what its attempts have (0016): one that ended, one that goes on, one that
 * never ran, one that a clock took back, and texts that are no phases. */
static void test_ran(const char *today)
{
	static const struct {
		int job, number;
		const char *phases;
	} old[] = {
	    {1, 1,
	     "[{\"name\":\"queued\",\"started_us\":1790000000000000,\"ended_us\":1790000000000001},"
	     "{\"name\":\"running\",\"started_us\":1790000000000010,\"ended_us\":1790000000000020},"
	     "{\"name\":\"stopping\",\"started_us\":1790000000000020,\"ended_us\":1790000000000035},"
	     "{\"name\":\"uploading\",\"started_us\":1790000000000035,\"ended_us\":1790000000000099}]"},
	    {1, 2,
	     "[{\"name\":\"launching\",\"started_us\":1790000000000100,\"ended_us\":1790000000000110},"
	     "{\"name\":\"uploading\",\"started_us\":1790000000000115,\"ended_us\":0}]"},
	    {1, 3,
	     "[{\"name\":\"running\",\"started_us\":1790000000000200,\"ended_us\":1790000000000250},"
	     "{\"name\":\"uploading\",\"started_us\":1790000000000250,\"ended_us\":0}]"},
	    {1, 4, "[{\"name\":\"running\",\"started_us\":1790000000000300,\"ended_us\":0}]"},
	    {2, 1,
	     "[{\"name\":\"running\",\"started_us\":1790000000000400,\"ended_us\":1790000000000300},"
	     "{\"name\":\"uploading\",\"started_us\":1790000000000300,\"ended_us\":1790000000000500}]"},
	    {3, 1, "no list"},
	    {3, 2, "[{\"name\":\"running\",\"started_us\":"},
	    {3, 3, ""},
	};
	char path[600], sql[700];

	snprintf(path, sizeof(path), "%s/ran.db", tap_tmpdir());
	make_old(path, 15);
	fill_old(today);
	run("DELETE FROM attempt");
	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
		snprintf(sql, sizeof(sql),
		         "INSERT INTO attempt (job, number, epoch, state, resumed_from_step, exit_code, signal, "
		         "started_us, ended_us, master_port, phases) VALUES (%d, %d, 1, 'ended', -1, -1, -1, 1, 1, "
		         "1, '%s')",
		         old[i].job, old[i].number, old[i].phases);
		run(sql);
	}
	sqlite3_close(db);
	settle(path);
	is_int(kit_number(path, "SELECT ran_us FROM job WHERE id = 1"), 75,
	       "two attempts that ended ran 25 and 50 us");
	is_int(kit_number(path, "SELECT runs_since_us - 1790000000000000 FROM job WHERE id = 1"), 300,
	       "one goes on");
	is_int(kit_number(path, "SELECT count(*) FROM job WHERE id > 1 AND (ran_us <> 0 OR runs_since_us <> 0)"),
	       0, "others did not run");
}

/* ---- refusals
 * -------------------------------------------------------------------------------------------------------- */

static void refused(const char *path, const char *want, const char *what)
{
	char *before = kit_digest(path, NULL), *after;
	struct wdb w;
	struct err e;

	ok(wdb_init(&w, path, clock_real(), &e) < 0 && e.code == ERR_CONFLICT && strstr(e.text, want), "%s: %s",
	   what, e.text);
	after = kit_digest(path, NULL);
	is_str(after, before, "and left as it is");
	ok(store_verify(path, on_finding, NULL, &e) < 0 && strstr(e.text, want), "verify says so too");
	free(before);
	free(after);
}

static void test_refused(const char *today)
{
	char path[600], sql[200];
	struct err e;
	struct wdb w;

	for (int i = 0; i <= N; i++) {
		snprintf(path, sizeof(path), "%s/refused%d.db", tap_tmpdir(), i);
		if (store_backup(today, path, &e) < 0)
			tap_bail("%s", e.text);
		if (i == N) {
			snprintf(sql, sizeof(sql), "INSERT INTO migration VALUES (%d, 'x', 'x', 0)", N + 1);
			kit_sql(path, sql);
			snprintf(sql, sizeof(sql), "has schema %d, this program knows schemas up to %d", N + 1, N);
			refused(path, sql, "the next schema");
			continue;
		}
		snprintf(sql, sizeof(sql), "UPDATE migration SET checksum = 'other' WHERE number = %d", i + 1);
		kit_sql(path, sql);
		refused(path, migrations[i].name, "a migration with another text");
	}
	/* One whose record is gone: it cannot be applied again, and nothing of it stays. */
	snprintf(path, sizeof(path), "%s/gap.db", tap_tmpdir());
	if (store_backup(today, path, &e) < 0)
		tap_bail("%s", e.text);
	kit_sql(path, "DELETE FROM migration WHERE number = 12");
	ok(wdb_init(&w, path, clock_real(), &e) < 0 && strstr(e.text, migrations[11].name),
	   "a migration cannot be applied twice: %s", e.text);
	is_int(kit_number(path, "SELECT count(*) FROM migration WHERE number = 12"), 0,
	       "it is not recorded then");
}

static void test_foreign(void)
{
	static const char *const others[] = {"CREATE TABLE things (a)", "PRAGMA application_id = 5",
	                                     "PRAGMA application_id = 5; CREATE TABLE job (id)"};
	char path[600];
	struct err e;
	struct wdb w;

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/foreign%d.db", tap_tmpdir(), i);
		kit_sql(path, others[i]);
		ok(wdb_init(&w, path, clock_real(), &e) < 0 && e.code == ERR_INVALID &&
		       strstr(e.text, "another program"),
		   "%s: %s", others[i], e.text);
		ok(store_verify(path, on_finding, NULL, &e) < 0 && store_rebuild(path, &e) < 0 &&
		       strstr(e.text, "another program"),
		   "nor verified nor rebuilt");
		is_int(kit_number(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'migration'"), 0,
		       "nothing was made in it");
	}
	snprintf(path, sizeof(path), "%s/empty.db", tap_tmpdir());
	if (fs_write_atomic(path, "", 0, 0600, &e) < 0)
		tap_bail("%s", e.text);
	ok(wdb_init(&w, path, clock_real(), &e) == 0, "an empty file becomes a store");
	wdb_fini(&w);
}

int main(void)
{
	struct kit k;

	kit_open(&k, "today");
	kit_fill(&k);
	kit_close(&k);
	/* a kind of end that older rows do not have would hide one that was lost */
	kit_sql(k.path, "UPDATE rank SET ended_by = 'order' WHERE rank = 1");
	for (int version = 1; version <= N; version++)
		test_version(k.path, version);
	test_mended(k.path);
	test_ran(k.path);
	test_refused(k.path);
	test_foreign();
	return tap_done();
}
