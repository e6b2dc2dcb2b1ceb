/*
 * load: what the state thread reads once, at its start: the unfinished part of the world. The number of ended
 * jobs does not matter: an index holds the unfinished ones only, and ids are taken from the ends of their
 * tables.
 */
#include "store/read/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "store/base/columns.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/read/from_row.h"
#include "store/write/writer.h"

/* Each row of sql to one(); 0, or -1 with e (or not: the callback's own stop). */
static int each_row(sqlite3 *db, const char *sql, uint64_t bind,
                    int (*one)(sqlite3_stmt *, const struct store_load *), const struct store_load *l,
                    struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(db, sql, e);
	int rc, stopped = 0;

	if (!st)
		return -1;
	if (sqlite3_bind_parameter_count(st))
		sqlite3_bind_int64(st, 1, (int64_t)bind);
	while (!stopped && (rc = sqlh_step(st, e)) > 0)
		stopped = one(st, l) < 0;
	sqlite3_finalize(st);
	if (stopped)
		return err_set(e, ERR_INTERNAL, "loading was stopped");
	return rc;
}

static int on_job(sqlite3_stmt *st, const struct store_load *l)
{
	struct job_row r;
	int rc;

	job_from_row(st, &r, 1);
	rc = l->job(&r, l->arg);
	job_row_fini(&r);
	return rc;
}

static int on_attempt(sqlite3_stmt *st, const struct store_load *l)
{
	struct attempt_row r;
	int rc;

	attempt_from_row(st, &r);
	rc = l->attempt(&r, l->arg);
	attempt_row_fini(&r);
	return rc;
}

static int on_rank(sqlite3_stmt *st, const struct store_load *l)
{
	struct rank_row r;
	int rc;

	rank_from_row(st, &r);
	rc = l->rank(&r, l->arg);
	rank_row_fini(&r);
	return rc;
}

static int on_checkpoint(sqlite3_stmt *st, const struct store_load *l)
{
	struct checkpoint_row r;
	int rc;

	checkpoint_from_row(st, &r);
	rc = l->checkpoint(&r, l->arg);
	checkpoint_row_fini(&r);
	return rc;
}

static int on_checkpoint_part(sqlite3_stmt *st, const struct store_load *l)
{
	struct checkpoint_part_row r;
	int rc;

	checkpoint_part_from_row(st, &r);
	rc = l->checkpoint_part(&r, l->arg);
	checkpoint_part_row_fini(&r);
	return rc;
}

static int on_watch(sqlite3_stmt *st, const struct store_load *l)
{
	return l->watch(sqlh_u64(st, 0), sqlh_str(st, 1), l->arg);
}

static int on_event(sqlite3_stmt *st, const struct store_load *l)
{
	return l->event(sqlh_u64(st, 0), sqlh_u32(st, 1), sqlh_u64(st, 2), sqlh_str(st, 3), l->arg);
}

/* Only jobs that run have such events; the others may be a million. */
static int load_events(sqlite3 *db, const struct store_load *l, struct err *e)
{
	cleanup_free char *sql = xasprintf(
	    "SELECT e.job, e.attempt, e.at_us, e.data FROM job CROSS JOIN event e ON e.job = job.id WHERE "
	    "job.status IN ('starting', 'running', 'recovering', 'stopping') AND e.type = '%s' AND "
	    "e.attempt = job.attempts ORDER BY e.id",
	    l->event_type);

	return each_row(db, sql, 0, on_event, l, e);
}

static int on_node(sqlite3_stmt *st, const struct store_load *l)
{
	struct node_row r;
	int rc;

	node_from_row(st, &r);
	rc = l->node(&r, l->arg);
	node_row_fini(&r);
	return rc;
}

static int on_token(sqlite3_stmt *st, const struct store_load *l)
{
	struct token_row r;
	int rc;

	token_from_row(st, &r);
	rc = l->token(&r, l->arg);
	token_row_fini(&r);
	return rc;
}

static int on_member(sqlite3_stmt *st, const struct store_load *l)
{
	struct member_row r = {sqlh_u64(st, 0),          sqlh_u64(st, 1), sqlh_str(st, 2),
	                       (uint8_t)sqlh_u32(st, 3), sqlh_str(st, 4), sqlh_u64(st, 5)};

	return l->member(&r, l->arg);
}

static int on_ended(sqlite3_stmt *st, const struct store_load *l)
{
	return l->ended(sqlh_str(st, 0), sqlh_u64(st, 1), l->arg);
}

static int on_idem(sqlite3_stmt *st, const struct store_load *l)
{
	return l->idem(sqlh_str(st, 0), sqlh_str(st, 1) ? sqlh_str(st, 1) : "", sqlh_u64(st, 2), l->arg);
}

/* Jobs are created in the order of their ids: from the newest back to the first that is too old. */
static int load_idem(sqlite3 *db, uint64_t now_us, const struct store_load *l, struct err *e)
{
	static const char first_sql[] = "SELECT id, created_us FROM job ORDER BY id DESC";
	sqlite3_stmt *st = sqlh_prepare(db, first_sql, e);
	uint64_t first = 0;
	int rc;

	if (!st)
		return -1;
	while ((rc = sqlh_step(st, e)) > 0 && sqlh_u64(st, 1) + IDEM_KEPT_US >= now_us)
		first = sqlh_u64(st, 0);
	sqlite3_finalize(st);
	if (rc < 0)
		return -1;
	return first
	           ? each_row(db,
	                      "SELECT idem_key, idem_digest, id FROM job WHERE id >= ? AND idem_key IS NOT NULL "
	                      "ORDER BY id",
	                      first, on_idem, l, e)
	           : 0;
}

static int on_answer(sqlite3_stmt *st, const struct store_load *l)
{
	struct answer_row r = {sqlh_str(st, 0), sqlh_str(st, 1), sqlh_u32(st, 2), sqlh_str(st, 3),
	                       sqlh_u64(st, 4)};

	return l->answer(&r, l->arg);
}

static int on_queue(sqlite3_stmt *st, const struct store_load *l)
{
	struct queue_row r;

	queue_of_row(st, &r);
	return l->queue(&r, l->arg);
}

static int on_usage(sqlite3_stmt *st, const struct store_load *l)
{
	struct usage_row r = {sqlh_str(st, 0), sqlh_u64(st, 1), sqlh_u64(st, 2)};

	return l->usage(&r, l->arg);
}

static int on_took(sqlite3_stmt *st, const struct store_load *l)
{
	return l->took(sqlh_str(st, 0), sqlh_str(st, 1), sqlh_u64(st, 2), l->arg);
}

/* The index has the newest completed jobs at its end, so the number of all does not matter. */
#define TOOK                                                                                                 \
	"SELECT j.owner, j.name, a.ended_us - a.started_us FROM (SELECT id, owner, name, attempts FROM job "     \
	"INDEXED BY job_ended WHERE status = 'completed' ORDER BY id DESC LIMIT 10000) j CROSS JOIN attempt a "  \
	"ON a.job = j.id AND a.number = j.attempts WHERE a.ended_us > a.started_us ORDER BY j.id"

static int on_instance(sqlite3_stmt *st, const struct store_load *l)
{
	return l->instance(sqlh_str(st, 0), sqlh_str(st, 1), l->arg);
}

static int on_reservation(sqlite3_stmt *st, const struct store_load *l)
{
	struct reservation_row r;

	reservation_of_row(st, &r);
	return l->reservation(&r, l->arg);
}

static int on_budget(sqlite3_stmt *st, const struct store_load *l)
{
	struct budget_row r;

	budget_of_row(st, &r);
	return l->budget(&r, l->arg);
}

static int on_spent(sqlite3_stmt *st, const struct store_load *l)
{
	struct spent_row r = {sqlh_str(st, 0), sqlh_u64(st, 1), sqlh_u64(st, 2), sqlh_u64(st, 3)};

	return l->spent(&r, l->arg);
}

static int on_pool(sqlite3_stmt *st, const struct store_load *l)
{
	struct pool_row r;
	int rc;

	pool_from_row(st, &r);
	rc = l->pool(&r, l->arg);
	pool_row_fini(&r);
	return rc;
}

static int on_pool_job(sqlite3_stmt *st, const struct store_load *l)
{
	struct pool_job_row r;
	int rc;

	pool_job_from_row(st, &r);
	rc = l->pool_job(&r, l->arg);
	pool_job_row_fini(&r);
	return rc;
}

static int load_pools(sqlite3 *db, const struct store_load *l, struct err *e)
{
	int rc = 0;

	if (l->pool)
		rc = each_row(db, "SELECT " POOL_COLUMNS " FROM pool WHERE ended_us = 0 OR ended_us > ? ORDER BY id",
		              l->pools_us, on_pool, l, e);
	if (rc == 0 && l->pool_job)
		rc = each_row(db,
		              "SELECT " POOL_JOB_COLUMNS
		              " FROM pool_job WHERE until_us = 0 OR job IN (SELECT id FROM job WHERE " SQL_JOB_ACTIVE
		              ") ORDER BY job",
		              0, on_pool_job, l, e);
	return rc;
}

/* One pass over the index of priced attempts that ended since the earliest of the three times. */
static int load_spent(sqlite3 *db, const struct store_load *l, struct err *e)
{
	uint64_t since = l->week_us < l->month_us ? l->week_us : l->month_us;
	char sql[700];

	since = l->day_us < since ? l->day_us : since;
	snprintf(sql, sizeof(sql),
	         "SELECT account, CAST(total(price_uusd / 3.6e9 * max(0, ended_us - max(started_us, %" PRIu64
	         "))) AS "
	         "INTEGER), CAST(total(price_uusd / 3.6e9 * max(0, ended_us - max(started_us, %" PRIu64
	         "))) AS INTEGER), "
	         "CAST(total(price_uusd / 3.6e9 * max(0, ended_us - max(started_us, %" PRIu64
	         "))) AS INTEGER) FROM attempt "
	         "WHERE price_uusd > 0 AND ended_us > ? GROUP BY account",
	         l->day_us, l->week_us, l->month_us);
	return each_row(db, sql, since, on_spent, l, e);
}

/* What idle pools cost until the last change of each, spread evenly. */
static int load_idle(sqlite3 *db, const struct store_load *l, struct err *e)
{
#define PART                                                                                                 \
	"CAST(total(idle_uusd * 1.0 * max(0, since_us - max(left_us, %" PRIu64                                   \
	")) / max(1, since_us - left_us)) AS INTEGER)"
	uint64_t since = l->week_us < l->month_us ? l->week_us : l->month_us;
	char sql[700];

	snprintf(sql, sizeof(sql),
	         "SELECT account, " PART ", " PART ", " PART
	         " FROM pool_job WHERE idle_uusd > 0 AND since_us > ? GROUP BY account",
	         l->day_us, l->week_us, l->month_us);
#undef PART
	return each_row(db, sql, since, on_spent, l, e);
}

static int load_queues(sqlite3 *db, const struct store_load *l, struct err *e)
{
	int rc = 0;

	if (l->instance)
		rc = each_row(db, "SELECT name, own FROM instance ORDER BY name", 0, on_instance, l, e);
	if (rc == 0 && l->queue)
		rc = each_row(db, "SELECT " QUEUE_COLUMNS " FROM queue ORDER BY path", 0, on_queue, l, e);
	if (rc == 0 && l->usage)
		rc = each_row(db, "SELECT path, gpu_ms, at_us FROM usage ORDER BY path", 0, on_usage, l, e);
	if (rc == 0 && l->reservation)
		rc = each_row(db, "SELECT " RESERVATION_COLUMNS " FROM reservation ORDER BY name", 0, on_reservation,
		              l, e);
	if (rc == 0 && l->budget)
		rc = each_row(db, "SELECT " BUDGET_COLUMNS " FROM budget ORDER BY path", 0, on_budget, l, e);
	if (rc == 0 && l->spent)
		rc = load_spent(db, l, e);
	if (rc == 0 && l->spent)
		rc = load_idle(db, l, e);
	return rc;
}

#define OF_ACTIVE " WHERE job IN (SELECT id FROM job WHERE " SQL_JOB_ACTIVE ") ORDER BY job, number"

static int load_checkpoints(sqlite3 *db, const struct store_load *l, struct err *e)
{
	int rc = 0;

	if (l->checkpoint)
		rc = each_row(db, "SELECT " CHECKPOINT_COLUMNS " FROM checkpoint" OF_ACTIVE, 0, on_checkpoint, l, e);
	if (rc == 0 && l->checkpoint_part)
		rc = each_row(db, "SELECT " CHECKPOINT_PART_COLUMNS " FROM checkpoint_part" OF_ACTIVE ", part", 0,
		              on_checkpoint_part, l, e);
	if (rc == 0 && l->watch)
		rc = each_row(db, "SELECT job, state FROM watch ORDER BY job", 0, on_watch, l, e);
	return rc;
}

/* The attempt before the newest one may still be collected. One that is joined is found by its key; "(job,
 * attempt) IN" two SELECTs would read the ranks of all jobs. */
const char *load_ranks_statement(void)
{
	return "WITH newest (id, number) AS (SELECT a.job, max(a.number) FROM attempt a WHERE a.job IN (SELECT "
	       "id "
	       "FROM job WHERE " SQL_JOB_ACTIVE ") GROUP BY a.job) SELECT " RANK_COLUMNS
	       " FROM newest CROSS JOIN rank WHERE job = id AND attempt IN (number - 1, number) ORDER BY job, "
	       "attempt, rank";
}

int store_load(struct store *s, const struct store_load *l, struct err *e)
{
	uint64_t now_us = clock_real_us(s->clock);
	sqlite3 *db = s->read;
	int rc = load_queues(db, l, e);

	if (rc == 0 && l->took)
		rc = each_row(db, TOOK, 0, on_took, l, e);
	if (rc == 0 && l->job)
		rc = each_row(
		    db,
		    "SELECT " JOB_COLUMNS
		    ", js.spec, js.run FROM job LEFT JOIN job_spec js ON js.id = job.id WHERE " SQL_JOB_ACTIVE
		    " ORDER BY job.id",
		    0, on_job, l, e);
	if (rc == 0 && l->member)
		rc = each_row(
		    db,
		    "SELECT m.array, m.id, m.status, m.halved, m.rungs, m.started_us FROM job CROSS JOIN job m ON "
		    "m.id > job.id AND m.id <= job.id + job.members WHERE job.members > 0 AND " SQL_JOB_ACTIVE
		    " AND m.array = job.id AND (m.status = 'completed' OR m.status = 'failed' OR m.status = "
		    "'stopped') ORDER BY m.id",
		    0, on_member, l, e);
	if (rc == 0 && l->attempt)
		rc = each_row(db,
		              "SELECT " ATTEMPT_COLUMNS
		              " FROM attempt WHERE job IN (SELECT id FROM job WHERE " SQL_JOB_ACTIVE
		              ") ORDER BY job, number",
		              0, on_attempt, l, e);
	if (rc == 0 && l->rank)
		rc = each_row(db, load_ranks_statement(), 0, on_rank, l, e);
	if (rc == 0)
		rc = load_checkpoints(db, l, e);
	if (rc == 0 && l->event)
		rc = load_events(db, l, e);
	if (rc == 0 && l->node)
		rc = each_row(db, "SELECT " NODE_COLUMNS " FROM node WHERE state <> 'removed' ORDER BY id", 0,
		              on_node, l, e);
	if (rc == 0)
		rc = load_pools(db, l, e);
	if (rc == 0 && l->token)
		rc = each_row(db,
		              "SELECT " TOKEN_COLUMNS " FROM token "
		              "WHERE (expires_us = 0 OR expires_us > ? OR kind IN ('user', 'session')) AND NOT (kind "
		              "= 'join' AND used_us > 0) ORDER BY "
		              "created_us, id",
		              now_us, on_token, l, e);
	if (rc == 0 && l->idem)
		rc = load_idem(db, now_us, l, e);
	if (rc == 0 && l->ended)
		rc = each_row(
		    db,
		    "SELECT status, count(*) - (SELECT count(*) FROM job a WHERE a.members > 0 AND a.status = "
		    "job.status) FROM job WHERE " SQL_JOB_ENDED " GROUP BY status",
		    0, on_ended, l, e);
	if (rc == 0 && l->answer)
		rc = each_row(db, "SELECT key, digest, status, body, at_us FROM answer WHERE at_us >= ? ORDER BY id",
		              now_us > IDEM_KEPT_US ? now_us - IDEM_KEPT_US : 0, on_answer, l, e);
	return rc;
}

int store_max_ids(struct store *s, uint64_t *job, uint64_t *event, uint64_t *node, struct err *e)
{
	/* Numbers of members are given with their array's, also of those that were never made. */
	static const char job_sql[] = "SELECT max(ifnull((SELECT max(id) FROM job), 0), ifnull((SELECT max(id + "
	                              "members) FROM job WHERE members > 0), 0), ifnull((SELECT max(id) "
	                              "FROM pool), 0))";
	int64_t j = 0, ev = 0, n = 0;

	if (sqlh_number(s->read, job_sql, &j, e) < 0 ||
	    sqlh_number(s->read, "SELECT max(id) FROM event", &ev, e) < 0 ||
	    sqlh_number(s->read, "SELECT max(id) FROM node", &n, e) < 0)
		return -1;
	*job = (uint64_t)j;
	*event = (uint64_t)ev;
	*node = (uint64_t)n;
	return 0;
}

char *store_setting(struct store *s, const char *key)
{
	sqlite3_stmt *st = sqlh_prepare(s->read, "SELECT value FROM setting WHERE key = ?", NULL);
	char *value = NULL;

	if (!st)
		return NULL;
	sqlh_bind_str(st, 1, key);
	if (sqlh_step(st, NULL) > 0)
		value = sqlh_dup(st, 0);
	sqlite3_finalize(st);
	return value;
}

/* ---- the newest points of a series ------------------------------------------------------------------ */

static int find_series(sqlite3 *db, const struct series_key *k, uint64_t *id, uint64_t *seq, struct err *e)
{
	sqlite3_stmt *st =
	    sqlh_prepare(db,
	                 "SELECT id, seq FROM metric_series WHERE job = ? AND attempt = ? AND name = "
	                 "? AND rank = ? AND points > 0 ORDER BY points DESC LIMIT 1",
	                 e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)k->job);
	sqlite3_bind_int64(st, 2, k->attempt);
	sqlh_bind_str(st, 3, k->name);
	sqlite3_bind_int64(st, 4, k->rank);
	rc = sqlh_step(st, e);
	if (rc > 0) {
		*id = sqlh_u64(st, 0);
		*seq = sqlh_u64(st, 1);
	}
	sqlite3_finalize(st);
	return rc;
}

/* Appends the points of one chunk that are new. Returns 1 when older chunks may have more. */
static int add_chunk(sqlite3_stmt *st, uint64_t after_us, struct points *out, struct err *e)
{
	size_t from = out->n, to = from;

	if (codec_decode(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), out, e) < 0)
		return -1;
	for (size_t i = from; i < out->n; i++) {
		if (out->times_us[i] < after_us)
			continue;
		out->steps[to] = out->steps[i];
		out->values[to] = out->values[i];
		out->times_us[to++] = out->times_us[i];
	}
	from = out->n - from;
	out->n = to;
	return to > 0 && from > 0;
}

int store_series_tail(struct store *s, const struct series_key *k, uint64_t after_us, struct points *out,
                      uint64_t *seq, struct err *e)
{
	sqlite3_stmt *st;
	uint64_t id = 0;
	int rc;

	*seq = 0;
	rc = find_series(s->read, k, &id, seq, e);
	if (rc <= 0)
		return rc;
	st = sqlh_prepare(s->read, "SELECT data FROM metric_chunk WHERE series = ? ORDER BY first DESC LIMIT ?",
	                  e);
	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)id);
	sqlite3_bind_int64(st, 2, SERIES_TAIL_CHUNKS);
	while ((rc = sqlh_step(st, e)) > 0) {
		size_t before = out->n;

		rc = add_chunk(st, after_us, out, e);
		if (rc < 0 || out->n == before) /* all of it is older, and so are the chunks before it */
			break;
	}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}
