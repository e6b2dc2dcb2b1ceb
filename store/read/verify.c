/*
 * verify: looks at a whole database and says what does not fit together. It only reads; a hearthd may run
 * beside it: everything is asked inside one read transaction, and jobs whose projections are not due yet are
 * left out.
 */
#include "store/read/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/secret.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/tree/tree.h"
#include "store/base/codec.h"
#include "store/base/columns.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/base/tags.h"
#include "store/read/from_row.h"
#include "store/write/migrate.h"

struct verify {
	sqlite3 *db;
	char *blobdir;
	void (*report)(const char *line, void *arg);
	void *arg;
	int findings;
};

static struct {
	store_reducer_fn fn;
	void *arg;
} reducer;
static store_cluster_fn cluster;

void store_verify_set_cluster(store_cluster_fn fn)
{
	cluster = fn;
}

void store_verify_set_reducer(store_reducer_fn fn, void *arg)
{
	reducer.fn = fn;
	reducer.arg = arg;
}

static void report_line(struct verify *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void report_line(struct verify *v, const char *fmt, ...)
{
	TEXT(line);
	va_list ap;

	va_start(ap, fmt);
	text_vadd(&line, fmt, ap);
	va_end(ap);
	v->report(line.at, v->arg);
}
#define report_finding(v, ...) ((v)->findings++, report_line(v, __VA_ARGS__))

/* Runs sql and calls row for each result; a statement that fails is a finding, as a damaged file shows itself
 * that way too. */
static void each_row(struct verify *v, const char *sql, void (*row)(struct verify *v, sqlite3_stmt *st))
{
	struct err e;
	sqlite3_stmt *st = sqlh_prepare(v->db, sql, &e);
	int rc = -1;

	if (st)
		while ((rc = sqlh_step(st, &e)) > 0)
			row(v, st);
	if (rc < 0)
		report_finding(v, "cannot read: %s", e.text);
	sqlite3_finalize(st);
}

/* ---- the file ---------------------------------------------------------------------------------------- */

static void on_integrity(struct verify *v, sqlite3_stmt *st)
{
	if (strcmp(sqlh_str(st, 0), "ok") != 0)
		report_finding(v, "file: %s", sqlh_str(st, 0));
}

/* ---- records among themselves ---------------------------------------------------------------------------
 */

static void on_orphan(struct verify *v, sqlite3_stmt *st)
{
	report_finding(v, "%s of job %" PRIu64 ", which is not there", sqlh_str(st, 0), sqlh_u64(st, 1));
}

static void on_strange(struct verify *v, sqlite3_stmt *st)
{
	report_finding(v, "job %" PRIu64 ": %s", sqlh_u64(st, 0), sqlh_str(st, 1));
}

static void check_records(struct verify *v)
{
	static const char orphans[] =
	    "SELECT 'event', job FROM event WHERE job > 0 AND job NOT IN (SELECT id FROM job) UNION "
	    "SELECT 'specification', id FROM job_spec WHERE id NOT IN (SELECT id FROM job) UNION "
	    "SELECT 'attempt', job FROM attempt WHERE job NOT IN (SELECT id FROM job) UNION "
	    "SELECT 'rank', job FROM rank r WHERE NOT EXISTS (SELECT 1 FROM attempt a WHERE a.job = r.job AND "
	    "a.number = r.attempt) UNION "
	    "SELECT 'artifact', job FROM artifact WHERE job NOT IN (SELECT id FROM job) UNION "
	    "SELECT 'checkpoint', job FROM checkpoint WHERE job NOT IN (SELECT id FROM job) UNION "
	    "SELECT 'checkpoint part', job FROM checkpoint_part p WHERE NOT EXISTS (SELECT 1 FROM checkpoint c "
	    "WHERE c.job = p.job AND c.number = p.number) UNION "
	    "SELECT 'metric series', job FROM metric_series WHERE job NOT IN (SELECT id FROM job) ORDER BY 2, 1";
	static const char strange[] =
	    "SELECT id, 'has no specification' FROM job WHERE id NOT IN (SELECT id FROM job_spec) UNION "
	    "SELECT id, 'has no event' FROM job WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.job = job.id) "
	    "UNION "
	    "SELECT id, 'ended without a time of its end' FROM job WHERE ended_us = 0 AND status IN "
	    "('completed', 'failed', 'stopped') UNION "
	    "SELECT id, 'has a status that does not exist: ' || status FROM job WHERE status NOT IN ('held', "
	    "'queued', 'starting', "
	    "'running', 'recovering', 'stopping', 'completed', 'failed', 'stopped') UNION "
	    "SELECT id, 'says ' || attempts || ' attempts, has ' || (SELECT count(*) FROM attempt WHERE job = "
	    "job.id) FROM job WHERE attempts < "
	    "(SELECT count(*) FROM attempt a WHERE a.job = job.id) ORDER BY 1";

	each_row(v, orphans, on_orphan);
	each_row(v, strange, on_strange);
}

/* ---- replay ----------------------------------------------------------------------------------------------
 */

/* The statements that read one job's rows. */
struct job_reader {
	sqlite3_stmt *job, *attempts, *ranks, *checkpoints, *parts;
};

struct job_rows {
	struct job_row job;
	struct attempt_row *attempts;
	struct rank_row *ranks;
	struct checkpoint_row *checkpoints;
	struct checkpoint_part_row *parts;
	size_t n_attempts, n_ranks, n_checkpoints, n_parts;
};

static int job_reader_open(struct job_reader *r, sqlite3 *db, struct err *e)
{
	r->job =
	    sqlh_prepare(db,
	                 "SELECT " JOB_COLUMNS
	                 ", js.spec, js.run FROM job LEFT JOIN job_spec js ON js.id = job.id WHERE job.id = ?",
	                 e);
	r->attempts =
	    sqlh_prepare(db, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE job = ? ORDER BY number", e);
	r->ranks = sqlh_prepare(db, "SELECT " RANK_COLUMNS " FROM rank WHERE job = ? ORDER BY attempt, rank", e);
	r->checkpoints =
	    sqlh_prepare(db, "SELECT " CHECKPOINT_COLUMNS " FROM checkpoint WHERE job = ? ORDER BY number", e);
	r->parts = sqlh_prepare(
	    db, "SELECT " CHECKPOINT_PART_COLUMNS " FROM checkpoint_part WHERE job = ? ORDER BY number, part", e);
	return r->job && r->attempts && r->ranks && r->checkpoints && r->parts ? 0 : -1;
}

static void job_reader_close(struct job_reader *r)
{
	sqlite3_finalize(r->job);
	sqlite3_finalize(r->attempts);
	sqlite3_finalize(r->ranks);
	sqlite3_finalize(r->checkpoints);
	sqlite3_finalize(r->parts);
}

static int checkpoints_read(struct job_reader *r, uint64_t job, struct job_rows *out, struct err *e)
{
	int rc;

	sqlite3_bind_int64(r->checkpoints, 1, (int64_t)job);
	sqlite3_bind_int64(r->parts, 1, (int64_t)job);
	while ((rc = sqlh_step(r->checkpoints, e)) > 0) {
		out->checkpoints = xrealloc(out->checkpoints, (out->n_checkpoints + 1) * sizeof(*out->checkpoints));
		checkpoint_from_row(r->checkpoints, &out->checkpoints[out->n_checkpoints++]);
	}
	while (rc == 0 && (rc = sqlh_step(r->parts, e)) > 0) {
		out->parts = xrealloc(out->parts, (out->n_parts + 1) * sizeof(*out->parts));
		checkpoint_part_from_row(r->parts, &out->parts[out->n_parts++]);
		rc = 0;
	}
	sqlite3_reset(r->checkpoints);
	sqlite3_reset(r->parts);
	return rc;
}

/* 1 read, 0 there is no such job, -1 error. */
static int job_rows_read(struct job_reader *r, uint64_t job, struct job_rows *out, struct err *e)
{
	int rc;

	sqlite3_bind_int64(r->job, 1, (int64_t)job);
	sqlite3_bind_int64(r->attempts, 1, (int64_t)job);
	sqlite3_bind_int64(r->ranks, 1, (int64_t)job);
	rc = sqlh_step(r->job, e);
	if (rc > 0) {
		job_from_row(r->job, &out->job, 1);
		while ((rc = sqlh_step(r->attempts, e)) > 0) {
			out->attempts = xrealloc(out->attempts, (out->n_attempts + 1) * sizeof(*out->attempts));
			attempt_from_row(r->attempts, &out->attempts[out->n_attempts++]);
		}
		while (rc == 0 && (rc = sqlh_step(r->ranks, e)) > 0) {
			out->ranks = xrealloc(out->ranks, (out->n_ranks + 1) * sizeof(*out->ranks));
			rank_from_row(r->ranks, &out->ranks[out->n_ranks++]);
			rc = 0;
		}
		if (rc == 0)
			rc = checkpoints_read(r, job, out, e);
		rc = rc < 0 ? -1 : 1;
	}
	sqlite3_reset(r->job);
	sqlite3_reset(r->attempts);
	sqlite3_reset(r->ranks);
	return rc;
}

static void job_rows_fini(struct job_rows *r)
{
	job_row_fini(&r->job);
	for (size_t i = 0; i < r->n_attempts; i++)
		attempt_row_fini(&r->attempts[i]);
	for (size_t i = 0; i < r->n_ranks; i++)
		rank_row_fini(&r->ranks[i]);
	for (size_t i = 0; i < r->n_checkpoints; i++)
		checkpoint_row_fini(&r->checkpoints[i]);
	for (size_t i = 0; i < r->n_parts; i++)
		checkpoint_part_row_fini(&r->parts[i]);
	free(r->attempts);
	free(r->ranks);
	free(r->checkpoints);
	free(r->parts);
}

static void job_end(struct verify *v, struct job_reader *reader, uint64_t job, void **state)
{
	struct job_rows r = {0};
	struct store_job_rows rows;
	char why[512] = "";
	struct err e;
	int rc = job_rows_read(reader, job, &r, &e);

	rows = (struct store_job_rows){&r.job,       r.attempts, r.ranks,         r.checkpoints, r.parts,
	                               r.n_attempts, r.n_ranks,  r.n_checkpoints, r.n_parts};
	/* Also without a row, which was reported with the orphans, and after an error: the state must be freed.
	 */
	if (reducer.fn(state, NULL, &rows, why, sizeof(why), reducer.arg) < 0 && rc > 0)
		report_finding(v, "job %" PRIu64 ": replay of its events differs: %s", job, why);
	if (rc < 0)
		report_finding(v, "job %" PRIu64 ": cannot be read: %s", job, e.text);
	job_rows_fini(&r);
	*state = NULL;
}

static void check_replay(struct verify *v)
{
	struct err e = {.text = ""};
	sqlite3_stmt *events = sqlh_prepare(
	    v->db, "SELECT id, job, attempt, at_us, type, data FROM event WHERE job > 0 ORDER BY job, id", &e);
	struct job_reader reader = {0};
	struct event_row ev;
	void *state = NULL;
	uint64_t job = 0;
	char why[512] = "";
	int rc = -1, bad = 0, ready = job_reader_open(&reader, v->db, &e) == 0;

	while (events && ready && (rc = sqlh_step(events, &e)) > 0) {
		ev = (struct event_row){sqlh_u64(events, 0), sqlh_u64(events, 1), sqlh_u32(events, 2),
		                        sqlh_u64(events, 3), sqlh_dup(events, 4), sqlh_dup(events, 5)};
		if (ev.job != job) {
			if (job)
				job_end(v, &reader, job, &state);
			bad = 0;
		}
		job = ev.job;
		if (!bad && reducer.fn(&state, &ev, NULL, why, sizeof(why), reducer.arg) < 0) {
			report_finding(v, "job %" PRIu64 ": event %" PRIu64 " (%s) cannot be replayed: %s", job, ev.id,
			               ev.type, why);
			bad = 1; /* one line a job says enough */
		}
		event_row_fini(&ev);
	}
	if (job)
		job_end(v, &reader, job, &state);
	if (rc < 0)
		report_finding(v, "cannot read: %s", e.text);
	sqlite3_finalize(events);
	job_reader_close(&reader);
}

static void replay_cluster(struct verify *v, void **state)
{
	static const char sql[] =
	    "SELECT id, job, attempt, at_us, type, data FROM event WHERE job = 0 ORDER BY id";
	struct err e = {.text = ""};
	sqlite3_stmt *events = sqlh_prepare(v->db, sql, &e);
	char why[512] = "";
	int rc = -1;

	while (events && (rc = sqlh_step(events, &e)) > 0) {
		struct event_row ev = {sqlh_u64(events, 0), 0, 0, sqlh_u64(events, 3), sqlh_dup(events, 4),
		                       sqlh_dup(events, 5)};

		if (cluster(state, &ev, NULL, why, sizeof(why)) < 0)
			report_finding(v, "event %" PRIu64 " (%s) cannot be replayed: %s", ev.id, ev.type, why);
		event_row_fini(&ev);
	}
	if (rc < 0)
		report_finding(v, "cannot read: %s", e.text);
	sqlite3_finalize(events);
}

union set_row {
	struct reservation_row reservation;
	struct queue_row queue;
	struct budget_row budget;
};

/* What the row is and is called, for the reducer and for a finding. */
static const char *take_set(sqlite3_stmt *st, int table, union set_row *r, struct store_cluster_row *row)
{
	*row = (struct store_cluster_row){0};
	if (table == 0) {
		reservation_of_row(st, &r->reservation);
		row->reservation = &r->reservation;
	} else if (table == 1) {
		queue_of_row(st, &r->queue);
		row->queue = &r->queue;
	} else if (table == 2) {
		budget_of_row(st, &r->budget);
		row->budget = &r->budget;
	} else {
		row->instance = sqlh_str(st, 0);
		row->own = sqlh_str(st, 1);
	}
	return sqlh_str(st, 0);
}

/* What administrators have set. */
static void check_sets(struct verify *v, void **state)
{
	static const struct {
		const char *what, *sql;
	} tables[] = {
	    {"reservation", "SELECT " RESERVATION_COLUMNS " FROM reservation ORDER BY name"},
	    {"queue", "SELECT " QUEUE_COLUMNS " FROM queue ORDER BY path"},
	    {"budget", "SELECT " BUDGET_COLUMNS " FROM budget ORDER BY path"},
	    {"instance type", "SELECT name, own FROM instance ORDER BY name"},
	};
	struct err e = {.text = ""};
	char why[512] = "";

	for (int i = 0; i < 4; i++) {
		sqlite3_stmt *st = sqlh_prepare(v->db, tables[i].sql, &e);
		struct store_cluster_row row;
		union set_row r;
		int rc = -1;

		while (st && (rc = sqlh_step(st, &e)) > 0) {
			const char *name = take_set(st, i, &r, &row);

			if (cluster(state, NULL, &row, why, sizeof(why)) < 0)
				report_finding(v, "%s %s: replay of the cluster's events differs: %s", tables[i].what, name,
				               why);
		}
		if (rc < 0)
			report_finding(v, "cannot read: %s", e.text);
		sqlite3_finalize(st);
	}
}

static int next_pool(sqlite3_stmt *st, struct pool_row *r, struct err *e)
{
	int rc = st ? sqlh_step(st, e) : -1;

	if (rc > 0)
		pool_from_row(st, r);
	return rc;
}

static int next_pool_job(sqlite3_stmt *st, struct pool_job_row *r, struct err *e)
{
	int rc = st ? sqlh_step(st, e) : -1;

	if (rc > 0)
		pool_job_from_row(st, r);
	return rc;
}

static void check_pools(struct verify *v, void **state)
{
	struct err e = {.text = ""};
	sqlite3_stmt *pools = sqlh_prepare(v->db, "SELECT " POOL_COLUMNS " FROM pool ORDER BY id", &e);
	sqlite3_stmt *lefts = sqlh_prepare(v->db, "SELECT " POOL_JOB_COLUMNS " FROM pool_job ORDER BY job", &e);
	char why[512] = "";
	struct pool_row pool;
	struct pool_job_row left;
	int rc, lrc;

	while ((rc = next_pool(pools, &pool, &e)) > 0) {
		if (cluster(state, NULL, &(struct store_cluster_row){.pool = &pool}, why, sizeof(why)) < 0)
			report_finding(v, "pool %" PRIu64 ": replay of the cluster's events differs: %s", pool.id, why);
		pool_row_fini(&pool);
	}
	while ((lrc = next_pool_job(lefts, &left, &e)) > 0) {
		if (cluster(state, NULL, &(struct store_cluster_row){.pool_job = &left}, why, sizeof(why)) < 0)
			report_finding(v, "job %" PRIu64 ": replay of what it left in a pool differs: %s", left.job, why);
		pool_job_row_fini(&left);
	}
	if (rc < 0 || lrc < 0)
		report_finding(v, "cannot read: %s", e.text);
	sqlite3_finalize(pools);
	sqlite3_finalize(lefts);
}

static void check_cluster(struct verify *v)
{
	struct err e = {.text = ""};
	sqlite3_stmt *nodes = sqlh_prepare(v->db, "SELECT " NODE_COLUMNS " FROM node ORDER BY id DESC", &e);
	sqlite3_stmt *tokens = sqlh_prepare(v->db, "SELECT " TOKEN_COLUMNS " FROM token ORDER BY id", &e);
	struct node_row node;
	struct token_row token;
	void *state = NULL;
	char why[512] = "";
	int rc = nodes && tokens ? 0 : -1;

	replay_cluster(v, &state);
	while (rc >= 0 && (rc = sqlh_step(nodes, &e)) > 0) {
		node_from_row(nodes, &node);
		if (cluster(&state, NULL, &(struct store_cluster_row){.node = &node}, why, sizeof(why)) < 0)
			report_finding(v, "node %s: replay of the cluster's events differs: %s", node.name, why);
		node_row_fini(&node);
	}
	while (rc >= 0 && (rc = sqlh_step(tokens, &e)) > 0) {
		token_from_row(tokens, &token);
		if (cluster(&state, NULL, &(struct store_cluster_row){.token = &token}, why, sizeof(why)) < 0)
			report_finding(v, "token %s: replay of the cluster's events differs: %s", token.id, why);
		token_row_fini(&token);
	}
	if (rc < 0)
		report_finding(v, "cannot read: %s", e.text);
	check_sets(v, &state);
	check_pools(v, &state);
	while (cluster(&state, NULL, NULL, why, sizeof(why)) < 0)
		report_finding(v, "%s", why);
	sqlite3_finalize(nodes);
	sqlite3_finalize(tokens);
}

/* ---- series
 * ------------------------------------------------------------------------------------------------ */

struct series_seen {
	uint64_t points, chunks, sealed_chunks;
	double min, max, last;
	char wrong[160];
};

static void read_series(struct verify *v, uint64_t id, uint64_t sealed, struct series_seen *s)
{
	struct err e = {.text = ""};
	sqlite3_stmt *st = sqlh_prepare(
	    v->db, "SELECT first, points, data FROM metric_chunk WHERE series = ? ORDER BY first", &e);
	struct points p = {0};
	int rc = -1;

	if (st)
		sqlite3_bind_int64(st, 1, (int64_t)id);
	while (st && !s->wrong[0] && (rc = sqlh_step(st, &e)) > 0) {
		p.n = 0;
		if (sqlh_u64(st, 0) != s->points) {
			snprintf(s->wrong, sizeof(s->wrong), "a chunk begins at point %" PRIu64 " instead of %" PRIu64,
			         sqlh_u64(st, 0), s->points);
		} else if (codec_decode(sqlite3_column_blob(st, 2), (size_t)sqlite3_column_bytes(st, 2), &p, &e) <
		               0 ||
		           p.n != sqlh_u64(st, 1)) {
			snprintf(s->wrong, sizeof(s->wrong), "the chunk at point %" PRIu64 " is damaged", s->points);
		} else {
			s->sealed_chunks += s->points < sealed;
			s->chunks++;
			s->points += p.n;
			for (size_t i = 0; i < p.n; i++) {
				s->min = fmin(s->min, p.values[i]);
				s->max = fmax(s->max, p.values[i]);
			}
			s->last = p.values[p.n - 1];
		}
	}
	if (rc < 0 && !s->wrong[0])
		snprintf(s->wrong, sizeof(s->wrong), "cannot be read: %.100s", e.text);
	points_fini(&p);
	sqlite3_finalize(st);
}

static int same_bits(int64_t bits, double v)
{
	double w;

	memcpy(&w, &bits, sizeof(w));
	return (isnan(w) && isnan(v)) || (w >= v && w <= v);
}

static void on_series(struct verify *v, sqlite3_stmt *st)
{
	struct series_seen s = {.min = NAN, .max = NAN, .last = NAN};

	read_series(v, sqlh_u64(st, 0), sqlh_u64(st, 4), &s);
	if (!s.wrong[0] && (s.points != sqlh_u64(st, 3) || s.chunks - s.sealed_chunks != sqlh_u64(st, 5)))
		snprintf(s.wrong, sizeof(s.wrong),
		         "has %" PRIu64 " points in %" PRIu64 " open chunks, its row says %" PRIu64 " in %" PRIu64,
		         s.points, s.chunks - s.sealed_chunks, sqlh_u64(st, 3), sqlh_u64(st, 5));
	if (!s.wrong[0] &&
	    (!same_bits(sqlite3_column_int64(st, 6), s.last) || !same_bits(sqlite3_column_int64(st, 7), s.min) ||
	     !same_bits(sqlite3_column_int64(st, 8), s.max)))
		snprintf(s.wrong, sizeof(s.wrong), "its last, min or max is not that of its points");
	if (s.wrong[0])
		report_finding(v, "job %" PRIu64 ": metric %s: %s", sqlh_u64(st, 1), sqlh_str(st, 2), s.wrong);
}

/* ---- projections
 * -------------------------------------------------------------------------------------------- */

#define SETTLED(col) " AND " col " NOT IN (SELECT job FROM event WHERE id > (SELECT event FROM projected))"

static int tags_differ(struct verify *v, uint64_t job, const cJSON *tags)
{
	struct err e;
	sqlite3_stmt *st = sqlh_prepare(v->db, "SELECT key, value FROM tag_ix WHERE job = ?", &e);
	int n = 0, rc = -1, differ = 0;

	if (!st)
		return 1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, &e)) > 0) {
		const cJSON *t = cJSON_GetObjectItemCaseSensitive(tags, sqlh_str(st, 0));

		differ |= !t || strcmp(t->valuestring, sqlh_str(st, 1)) != 0;
		n++;
	}
	sqlite3_finalize(st);
	return rc < 0 || differ || n != cJSON_GetArraySize(tags);
}

/* Those with a secret's name are in no index. */
static uint64_t hps_to_find(const cJSON *spec)
{
	const cJSON *hp;
	uint64_t n = 0;

	cJSON_ArrayForEach (hp, cJSON_GetObjectItemCaseSensitive(spec, "hyperparameters"))
		n += hp->string && !secret_name(hp->string);
	return n;
}

static void on_job(struct verify *v, sqlite3_stmt *st)
{
	uint64_t job = sqlh_u64(st, 0);
	const char *text = sqlh_str(st, 1);
	struct err e;
	cJSON *spec = text ? json_parse(text, strlen(text), NULL) : NULL;
	cJSON *tags = tags_of(v->db, job, spec, &e);

	if (!sqlh_u64(st, 2))
		report_finding(v, "job %" PRIu64 ": its search entry is missing or differs", job);
	if (sqlh_u64(st, 3) != hps_to_find(spec))
		report_finding(v, "job %" PRIu64 ": its hyperparameters are not indexed as they are", job);
	if (!tags || tags_differ(v, job, tags))
		report_finding(v, "job %" PRIu64 ": its tags are not indexed as they are", job);
	cJSON_Delete(tags);
	cJSON_Delete(spec);
}

static void on_extra(struct verify *v, sqlite3_stmt *st)
{
	report_finding(v, "job %" PRIu64 ": %s", sqlh_u64(st, 0), sqlh_str(st, 1));
}

static void check_projections(struct verify *v)
{
	static const char jobs[] = "SELECT id, (SELECT spec FROM job_spec s WHERE s.id = job.id), EXISTS (SELECT "
	                           "1 FROM job_ix x WHERE x.job = "
	                           "job.id AND x.owner IS job.owner AND x.name IS job.name AND x.experiment IS "
	                           "job.experiment), ifnull(h.n, 0) FROM job LEFT JOIN (SELECT "
	                           "job, count(*) AS n FROM (SELECT job FROM hp_num UNION ALL SELECT job FROM "
	                           "hp_text) GROUP BY job) h ON h.job = "
	                           "job.id WHERE 1" SETTLED("job.id");
	static const char extra[] =
	    "SELECT job, 'a search entry without a job' FROM job_ix WHERE job NOT IN (SELECT id FROM job) UNION "
	    "SELECT job, 'the summary of metric ' || name || ' has another number of points' FROM metric_sum m "
	    "WHERE job NOT IN (SELECT job "
	    "FROM metric_dirty) AND job IN (SELECT job FROM metric_series) AND points <> (SELECT "
	    "sum(s.points) FROM metric_series s WHERE s.job = m.job AND s.name = m.name AND s.attempt = "
	    "m.attempt "
	    "AND s.rank = m.rank) UNION "
	    "SELECT s.job, 'metric ' || s.name || ' has no summary' FROM metric_series s JOIN job ON job.id = "
	    "s.job AND job.deleted = 0 WHERE "
	    "s.job NOT IN (SELECT job FROM metric_dirty) AND s.points > 0 AND NOT EXISTS (SELECT 1 FROM "
	    "metric_sum m WHERE m.job = s.job AND "
	    "m.name = s.name) ORDER BY 1, 2";

	/* What is missing here is never removed; what is too much is removed while its job goes on. */
	static const char held[] =
	    "SELECT id, 'has ended, and retention does not know what it holds' FROM job WHERE (" SQL_JOB_ENDED
	    ") AND ifnull((SELECT what FROM holding h WHERE h.job = job.id AND h.ended_us = job.ended_us), 0) <> "
	    "CASE WHEN job.pinned THEN 0 ELSE 15 & ~ifnull((SELECT what FROM dropped d WHERE d.job = job.id), 0) "
	    "END" SETTLED(
	        "job.id") " UNION SELECT h.job, 'goes on, and retention takes it for ended' FROM holding h JOIN "
	                  "job ON job.id "
	                  "= h.job WHERE NOT (" SQL_JOB_ENDED
	                  ")" SETTLED("h.job") " UNION SELECT job, 'retention holds it, and it is not there' "
	                                       "FROM holding WHERE job NOT IN (SELECT "
	                                       "id FROM job) ORDER BY 1, 2";

	each_row(v, jobs, on_job);
	each_row(v, extra, on_extra);
	each_row(v, held, on_extra);
}

/* ---- blobs
 * --------------------------------------------------------------------------------------------------- */

static void check_chunks(struct verify *v, uint64_t job, const char *what, const char *digest)
{
	struct err e;
	char **chunks = NULL, *manifest;
	size_t n, count = 0, missing = 0;

	if (blob_get(v->blobdir, digest, TREE_MANIFEST_MAX, &manifest, &n, &e) < 0) {
		report_finding(v, "job %" PRIu64 ": %s %s: %s", job, what, digest, e.text);
		return;
	}
	if (tree_chunks(manifest, n, &chunks, &count, &e) < 0)
		report_finding(v, "job %" PRIu64 ": %s %s: %s", job, what, digest, e.text);
	for (size_t i = 0; i < count; i++) {
		missing += !blob_has(v->blobdir, chunks[i]);
		free(chunks[i]);
	}
	free(chunks);
	free(manifest);
	if (missing)
		report_finding(v, "job %" PRIu64 ": %s %s: %zu of its %zu chunks are missing", job, what, digest,
		               missing, count);
}

static void on_blob(struct verify *v, sqlite3_stmt *st)
{
	const char *digest = sqlh_str(st, 2);

	if (!hash_is_hex(digest))
		report_finding(v, "job %" PRIu64 ": %s has no proper digest: %.80s", sqlh_u64(st, 0), sqlh_str(st, 1),
		               digest);
	else
		check_chunks(v, sqlh_u64(st, 0), sqlh_str(st, 1), digest);
}

static void check_blobs(struct verify *v)
{
	each_row(
	    v,
	    "SELECT id, 'bundle', bundle FROM job WHERE bundle <> '' AND NOT EXISTS (SELECT 1 FROM dropped d "
	    "WHERE d.job = job.id AND d.what & 2) "
	    "UNION ALL SELECT job, kind, digest FROM artifact a WHERE digest <> '' AND NOT EXISTS (SELECT 1 "
	    "FROM dropped d WHERE d.job = a.job "
	    "AND d.what & 8) UNION ALL SELECT job, 'checkpoint', digest FROM checkpoint_part p "
	    "WHERE " SQL_PART_STORED " ORDER BY 1, 2, 3",
	    on_blob);
}

static char *blobdir_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? xasprintf("%.*s/blobs", (int)(slash - path), path) : xstrdup("blobs");
}

static void run_checks(struct verify *v)
{
	each_row(v, "PRAGMA integrity_check", on_integrity);
	/* What follows reads through the same pages: on a damaged file it would only say the same again, or
	 * worse. */
	if (v->findings)
		return;
	check_records(v);
	if (reducer.fn)
		check_replay(v);
	else
		report_line(v, "skipped: replay of the events (this program was built without the state machine)");
	if (cluster)
		check_cluster(v);
	else
		report_line(
		    v, "skipped: nodes, tokens and settings against events (this program was built without the state "
		       "machine)");
	each_row(
	    v,
	    "SELECT id, job, name, points, sealed, open, last_bits, min_bits, max_bits FROM metric_series ORDER "
	    "BY job, name",
	    on_series);
	check_projections(v);
	if (access(v->blobdir, F_OK) == 0)
		check_blobs(v);
	else
		report_line(v, "skipped: blobs (there is no %s)", v->blobdir);
}

int store_verify(const char *path, void (*report)(const char *line, void *arg), void *arg, struct err *e)
{
	struct verify v = {.report = report, .arg = arg};

	v.db = sqlh_open(path, SQLH_READ, e);
	if (!v.db)
		return -1;
	if (sqlh_exec(v.db, "BEGIN", e) < 0 || migrate_check(v.db, e) < 0) {
		sqlh_close(v.db);
		return -1;
	}
	v.blobdir = blobdir_of(path);
	run_checks(&v);
	free(v.blobdir);
	sqlh_close(v.db);
	return v.findings;
}
