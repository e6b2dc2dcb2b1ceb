/*
 * apply: the operations of a transaction as SQL, and the writer's connection. One table line a record;
 * upserts are INSERT OR REPLACE of the whole row, as rows travel whole. The order of values is that of txn.c,
 * which for a job's rows is that of columns.h.
 */
#include "store/write/apply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "store/base/columns.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/write/project.h"
#include "store/write/series.h"
#include "store/write/txn_op.h"
#include "store/write/wdb.h"

static const char *const op_sql[OP_SQL] = {
    /* An event is written once: a second one with its id is a bug that must not pass. */
    [OP_EVENT] = "INSERT INTO event VALUES (?,?,?,?,?,?)",
    [OP_JOB] = "INSERT OR REPLACE INTO job (" JOB_TABLE(COLUMN_FIRST, COLUMN_NEXT) ") VALUES (" JOB_TABLE(
        COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    /* The state thread gives the specification again with each change of a job: compared here, written once.
     */
    [OP_JOB_SPEC] = ("INSERT INTO job_spec VALUES (?,?,?) ON CONFLICT (id) DO UPDATE SET spec = "
                     "excluded.spec, run = excluded.run "
                     "WHERE spec IS NOT excluded.spec OR run IS NOT excluded.run"),
    [OP_ATTEMPT] = "INSERT OR REPLACE INTO attempt (" ATTEMPT_COLUMNS
                   ") VALUES (" ATTEMPT_TABLE(COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    [OP_RANK] = "INSERT OR REPLACE INTO rank (" RANK_COLUMNS
                ") VALUES (" RANK_TABLE(COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    [OP_CHECKPOINT] = "INSERT OR REPLACE INTO checkpoint (" CHECKPOINT_COLUMNS
                      ") VALUES (" CHECKPOINT_TABLE(COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    [OP_CHECKPOINT_PART] = "INSERT OR REPLACE INTO checkpoint_part (" CHECKPOINT_PART_COLUMNS
                           ") VALUES (" CHECKPOINT_PART_TABLE(COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    [OP_POOL] = "INSERT OR REPLACE INTO pool (" POOL_COLUMNS
                ") VALUES (" POOL_TABLE(COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    [OP_POOL_JOB] = "INSERT OR REPLACE INTO pool_job (" POOL_JOB_COLUMNS
                    ") VALUES (" POOL_JOB_TABLE(COLUMN_MARK_FIRST, COLUMN_MARK_NEXT) ")",
    [OP_CHECKPOINT_DEL] = "DELETE FROM checkpoint WHERE job = ? AND number = ?",
    [OP_CHECKPOINT_PARTS_DEL] = "DELETE FROM checkpoint_part WHERE job = ? AND number = ?",
    [OP_WATCH] = "INSERT OR REPLACE INTO watch VALUES (?,?)",
    [OP_WATCH_DEL] = "DELETE FROM watch WHERE job = ?",
    [OP_NODE] = "INSERT OR REPLACE INTO node VALUES (?,?,?,?,?,?,?,?,?,?,?)",
    [OP_ARTIFACT] = "INSERT OR REPLACE INTO artifact VALUES (?,?,?,?,?,?,?,?,?)",
    [OP_TAG] = "INSERT OR REPLACE INTO tag VALUES (?,?,?)",
    [OP_TOKEN] =
        "INSERT OR REPLACE INTO token (id, kind, secret_hash, owner, job, created_us, expires_us, used_us, "
        "used_by, scope, account, note, made_with, seen_us, seen_from) VALUES "
        "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [OP_TOKEN_SEEN] = "UPDATE token SET seen_us = ?2, seen_from = ?3 WHERE id = ?1",
    [OP_TOKEN_DEL] = "DELETE FROM token WHERE id = ?",
    [OP_ANSWER] = "INSERT OR REPLACE INTO answer (key, digest, status, body, at_us) VALUES (?,?,?,?,?)",
    [OP_ANSWERS_OLD] = "DELETE FROM answer WHERE at_us < ?",
    [OP_SETTING] = "INSERT OR REPLACE INTO setting VALUES (?,?)",
    [OP_SETTING_DEL] = "DELETE FROM setting WHERE key = ?",
    [OP_QUEUE] = "INSERT OR REPLACE INTO queue VALUES (?,?,?,?,?,?,?)",
    [OP_QUEUE_DEL] = "DELETE FROM queue WHERE path = ?",
    [OP_USAGE] = "INSERT OR REPLACE INTO usage VALUES (?,?,?)",
    [OP_INSTANCE] = "INSERT OR REPLACE INTO instance VALUES (?,?)",
    [OP_INSTANCE_DEL] = "DELETE FROM instance WHERE name = ?",
    [OP_RESERVATION] = "INSERT OR REPLACE INTO reservation VALUES (?,?,?,?,?,?,?,?,?)",
    [OP_RESERVATION_DEL] = "DELETE FROM reservation WHERE name = ?",
    [OP_BUDGET] = "INSERT OR REPLACE INTO budget VALUES (?,?,?,?)",
    [OP_BUDGET_DEL] = "DELETE FROM budget WHERE path = ?",
    [OP_HISTORY_BEGIN] =
        "INSERT INTO history (part, at_us, bytes, text) SELECT coalesce(max(part), 0) + 1, ?1, "
        "length(CAST(?2 AS BLOB)), ?2 FROM history",
    [OP_HISTORY] = "INSERT INTO history (part, at_us, bytes, text) SELECT coalesce((SELECT part FROM history "
                   "ORDER BY id DESC LIMIT 1), 1), ?1, length(CAST(?2 AS BLOB)), ?2",
    /* Whole parts, the oldest first, but never the last. */
    [OP_HISTORY_OLD] = "DELETE FROM history WHERE part < (SELECT max(part) FROM history) AND part IN (SELECT "
                       "part FROM (SELECT "
                       "part, sum(sum(bytes)) OVER (ORDER BY part DESC) AS total FROM history GROUP BY part) "
                       "WHERE total > ?)",
    [OP_RUN_INFO] = "INSERT OR REPLACE INTO run_info VALUES (?,?,?,?,?)",
};

static int run_sql(struct wdb *w, const struct op *o, struct err *e)
{
	const struct param *p = op_params(o);
	sqlite3_stmt *st = w->st[o->kind];

	if (!st) {
		st = w->st[o->kind] = sqlh_prepare(w->db, op_sql[o->kind], e);
		if (!st)
			return -1;
	}
	for (int i = 1; i <= (int)o->n; i++, p = param_next(p)) {
		switch (p->type) {
		case PARAM_INT:
			sqlite3_bind_int64(st, i, p->i);
			break;
		case PARAM_TEXT:
			sqlite3_bind_text(st, i, param_text(p), (int)p->n, SQLITE_STATIC);
			break;
		default:
			assert(p->type == PARAM_NULL); /* points have a way of their own, by series_apply */
			sqlite3_bind_null(st, i);
			break;
		}
	}
	return sqlh_run(st, e);
}

/* Pinned, or gone altogether: nothing of it is retention's any more. */
static int may_retire(struct wdb *w, int64_t job, struct err *e)
{
	sqlite3_stmt *st =
	    sqlh_prepare(w->db, "SELECT 1 FROM job WHERE id = ? AND pinned = 0 AND deleted = 0", e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, job);
	rc = sqlh_step(st, e);
	sqlite3_finalize(st);
	return rc;
}

static int drop_metrics(struct wdb *w, int64_t job, struct err *e)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
	         "DELETE FROM metric_chunk WHERE series IN (SELECT id FROM metric_series WHERE job = %" PRId64
	         ");"
	         "DELETE FROM metric_series WHERE job = %" PRId64
	         "; DELETE FROM metric_dirty WHERE job = %" PRId64 ";",
	         job, job, job);
	/* The summary stays, so that the job is still found by it. The cache would bring the series back. */
	if (series_flush(w, e) < 0 || project_metrics(w, (uint64_t)job, e) < 0 || sqlh_exec(w->db, sql, e) < 0)
		return -1;
	series_forget(w);
	return 0;
}

/* What was taken away before keeps its time. */
static int note_drop(struct wdb *w, int64_t job, int64_t what, int64_t at_us, struct err *e)
{
	static const char sql[] =
	    "INSERT INTO dropped (job, what, at_us, logs_us, bundle_us, metrics_us, artifacts_us) VALUES (?1, "
	    "?2, ?3, iif(?2 & 1, ?3, 0), iif(?2 & 2, ?3, 0), iif(?2 & 4, ?3, 0), iif(?2 & 8, ?3, 0)) ON CONFLICT "
	    "(job) DO UPDATE SET what = what | ?2, at_us = ?3, "
	    "logs_us = iif(?2 & ~what & 1, ?3, logs_us), bundle_us = iif(?2 & ~what & 2, ?3, bundle_us), "
	    "metrics_us = iif(?2 & ~what & 4, ?3, metrics_us), "
	    "artifacts_us = iif(?2 & ~what & 8, ?3, artifacts_us)";
	sqlite3_stmt *st = sqlh_prepare(w->db, sql, e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, job);
	sqlite3_bind_int64(st, 2, what);
	sqlite3_bind_int64(st, 3, at_us);
	rc = sqlh_step(st, e);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

static int run_drop(struct wdb *w, const struct op *o, struct err *e)
{
	const struct param *job = op_params(o), *what = param_next(job), *at = param_next(what),
	                   *if_not_pinned = param_next(at);
	char sql[256];
	int rc = if_not_pinned->i ? may_retire(w, job->i, e) : 1;

	if (rc <= 0)
		return rc;
	if (what->i & STORE_METRICS && drop_metrics(w, job->i, e) < 0)
		return -1;
	if (note_drop(w, job->i, what->i, at->i, e) < 0)
		return -1;
	snprintf(sql, sizeof(sql),
	         "UPDATE holding SET what = what & ~%" PRId64 " WHERE job = %" PRId64 ";"
	         "DELETE FROM holding WHERE job = %" PRId64 " AND what = 0;",
	         what->i, job->i, job->i);
	return sqlh_exec(w->db, sql, e);
}

int wdb_apply(struct wdb *w, const struct store_txn *t, struct err *e)
{
	const struct op *o;
	size_t at = 0;
	int rc;

	while ((o = txn_next(t, &at))) {
		if (FAULT("store.write"))
			return err_set(e, ERR_IO, "database: write: injected");
		if (o->kind < OP_SQL)
			rc = run_sql(w, o, e);
		else if (o->kind == OP_METRIC)
			rc = series_apply(w, o, e);
		else
			rc = run_drop(w, o, e);
		if (rc < 0)
			return -1;
	}
	return 0;
}
