/*
 * bench_retain: what a look of retention costs among many ended jobs of which none is due. JSON lines.
 *
 *   bench_retain [DIR [JOBS]]
 *
 * All jobs ended 100 days ago. Their logs are gone already, and what else they hold is not due before 180
 * days. The store makes one job; SQL copies it.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "store/read/reader.h"
#include "store/read/retain.h"
#include "store/store.h"
#include "tests/bench/lib.h"

#define C(s)   ((char *)(uintptr_t)(s))
#define END_US 1790000000000000ull
#define DAY_US 86400000000ull
#define LOOKS  9

static void on_done(int rc, const struct err *e, void *arg)
{
	if (rc < 0)
		bench_die("commit: %s", e->text);
	*(int *)arg = 1;
}

static void make_store(const char *path)
{
	struct store_config c = {.path = path, .clock = clock_real()};
	struct job_row r = {.id = 1,
	                    .name = C("digits"),
	                    .owner = C("alice"),
	                    .experiment = C(""),
	                    .notes = C(""),
	                    .status = C("completed"),
	                    .queue = C("default"),
	                    .created_us = END_US - 1000,
	                    .ended_us = END_US,
	                    .reason = C(""),
	                    .wanted = C(""),
	                    .cleanup = C("")};
	struct store_txn *t = store_txn_new();
	struct loop *loop = loop_create();
	struct store *s;
	struct err e;
	int done = 0;

	s = store_open(&c, loop, &e);
	store_txn_job(t, &r);
	if (!s || store_commit(s, t, on_done, &done, &e) < 0)
		bench_die("%s", e.text);
	while (!done)
		loop_run_once(loop, 1000);
	store_close(s);
	loop_destroy(loop);
}

static void run_sql(sqlite3 *db, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		bench_die("%s: %s", sql, why);
}

static char *columns(sqlite3 *db)
{
	sqlite3_stmt *st;
	char *text;

	if (sqlite3_prepare_v2(db,
	                       "SELECT group_concat(iif(name = 'id', 'n.i', 'j.' || name)) FROM "
	                       "pragma_table_info('job')",
	                       -1, &st, NULL) != SQLITE_OK ||
	    sqlite3_step(st) != SQLITE_ROW)
		bench_die("%s", sqlite3_errmsg(db));
	text = xstrdup((const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	return text;
}

static void copy_job(const char *path, uint64_t jobs)
{
	cleanup_free char *names = NULL, *sql = NULL;
	sqlite3 *db;

	if (sqlite3_open(path, &db) != SQLITE_OK)
		bench_die("%s", path);
	names = columns(db);
	sql =
	    xasprintf("PRAGMA synchronous = OFF; BEGIN; WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 "
	              "FROM n WHERE i < %llu) INSERT INTO job SELECT %s FROM n, (SELECT * FROM job WHERE id = 1) "
	              "j; DELETE FROM holding; INSERT INTO holding SELECT id, 14, ended_us FROM job; COMMIT; "
	              "PRAGMA wal_checkpoint(TRUNCATE)",
	              (unsigned long long)jobs, names);
	run_sql(db, sql);
	sqlite3_close(db);
}

static int on_due(uint64_t job, unsigned what, void *arg)
{
	(void)what;
	(void)arg;
	bench_die("job %llu is due", (unsigned long long)job);
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "/tmp";
	uint64_t jobs = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	cleanup_free char *own = xasprintf("%s/bench-retain-XXXXXX", dir), *path = NULL;
	struct store_retention p = STORE_RETENTION_DEFAULT;
	struct store_reader *r;
	struct samples s = {0};
	struct err e;

	log_init("bench_retain", LOG_LVL_WARN);
	if (!mkdtemp(own))
		bench_die("%s", own);
	path = xasprintf("%s/hearth.db", own);
	make_store(path);
	copy_job(path, jobs);
	r = store_reader_open(path, &e);
	if (!r)
		bench_die("%s", e.text);
	for (int i = 0; i < LOOKS; i++) {
		uint64_t start = bench_now_us();

		if (store_retention_due(r, &p, END_US + 100 * DAY_US, 50, on_due, NULL, &e) < 0)
			bench_die("%s", e.text);
		samples_add(&s, bench_now_us() - start);
	}
	printf("{\"bench\":\"retention_none_due\",\"jobs\":%llu,\"median_us\":%u,\"longest_us\":%u}\n",
	       (unsigned long long)jobs, samples_at(&s, 0.5), samples_at(&s, 1));
	samples_fini(&s);
	store_reader_close(r);
	fs_rm_rf(own, NULL);
	return 0;
}
