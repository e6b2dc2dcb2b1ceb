/*
 * series: metric points on their way into chunks.
 *
 * A batch becomes one row at the end of its series; that keeps writing cheap. Rows pile up, so a series with
 * more than MERGE_ROWS of them behind its sealed part is merged: all its open rows are read, joined and
 * written as chunks of at most CHUNK_POINTS; those of SEAL_POINTS or more are sealed, a shorter rest stays
 * open for the next time. So a point is rewritten a bounded number of times and a series has about points /
 * SEAL_POINTS + MERGE_ROWS rows.
 *
 * The agent's batch number makes repetition harmless: a chunk whose number is not above the series' is
 * dropped. Inside one commit the same number may bring several chunks of a series, told apart from a
 * repetition by their content.
 *
 * The cache of series is only a cache: it is written before COMMIT and forgotten after ROLLBACK.
 */
#include "store/write/series.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "store/base/codec.h"
#include "store/base/sqlh.h"
#include "store/write/txn_op.h"
#include "store/write/wdb.h"

#define MERGE_ROWS   64
#define SEAL_POINTS  512
#define CHUNK_POINTS 4096
#define OPEN_POINTS  65536 /* read at once at most, in a merge */
#define CACHE_MAX    65536 /* series */

struct series {
	char *key; /* "job/attempt/rank/node/name" */
	uint64_t id, job;
	int64_t seq, seq_before; /* of the last chunk; at the last commit */
	uint64_t points, sealed, open;
	double last, min, max; /* min and max NaN: no number yet */
	int64_t last_step;
	uint64_t last_us;
	int is_dirty;
	struct series *next_dirty;
	UT_hash_handle hh;
};

struct chunk_in { /* an OP_METRIC */
	uint64_t job;
	uint32_t attempt, rank;
	const char *name, *node;
	int64_t seq;
	size_t n;
	const int64_t *steps;
	const double *values;
	const uint64_t *times;
};

static void parse_chunk(const struct op *o, struct chunk_in *c)
{
	const struct param *p = op_params(o);

	c->job = (uint64_t)p->i;
	p = param_next(p);
	c->attempt = (uint32_t)p->i;
	p = param_next(p);
	c->rank = (uint32_t)p->i;
	p = param_next(p);
	c->name = param_text(p) ? param_text(p) : "";
	p = param_next(p);
	c->node = param_text(p);
	p = param_next(p);
	c->seq = p->i;
	p = param_next(p);
	c->steps = param_bytes(p);
	c->n = p->n / sizeof(*c->steps);
	p = param_next(p);
	c->values = param_bytes(p);
	p = param_next(p);
	c->times = param_bytes(p);
}

static int64_t bits_of(double v)
{
	int64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static double of_bits(int64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static sqlite3_stmt *prepare_once(struct wdb *w, sqlite3_stmt **st, const char *sql, struct err *e)
{
	if (!*st)
		*st = sqlh_prepare(w->db, sql, e);
	return *st;
}

static int read_series_row(struct wdb *w, struct series *s, const struct chunk_in *c, struct err *e)
{
	sqlite3_stmt *st = prepare_once(
	    w, &w->series_get,
	    "SELECT id, seq, points, sealed, open, last_bits, min_bits, max_bits, last_step, last_us FROM "
	    "metric_series WHERE job = ? AND attempt = ? AND name = ? AND rank = ? AND node = ?",
	    e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)c->job);
	sqlite3_bind_int64(st, 2, c->attempt);
	sqlh_bind_str(st, 3, c->name);
	sqlite3_bind_int64(st, 4, c->rank);
	sqlh_bind_str(st, 5, c->node);
	rc = sqlh_step(st, e);
	if (rc > 0) {
		s->id = sqlh_u64(st, 0);
		s->seq = sqlite3_column_int64(st, 1);
		s->points = sqlh_u64(st, 2);
		s->sealed = sqlh_u64(st, 3);
		s->open = sqlh_u64(st, 4);
		s->last = of_bits(sqlite3_column_int64(st, 5));
		s->min = of_bits(sqlite3_column_int64(st, 6));
		s->max = of_bits(sqlite3_column_int64(st, 7));
		s->last_step = sqlite3_column_int64(st, 8);
		s->last_us = sqlh_u64(st, 9);
	}
	sqlite3_reset(st);
	return rc;
}

/* A row of its own at once, for the id; its numbers follow in series_flush. */
static int insert_series(struct wdb *w, struct series *s, const struct chunk_in *c, struct err *e)
{
	sqlite3_stmt *st = prepare_once(
	    w, &w->series_new, "INSERT INTO metric_series VALUES (NULL,?,?,?,?,?,-1,0,0,0,0,?,?,-1,0)", e);

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)c->job);
	sqlite3_bind_int64(st, 2, c->attempt);
	sqlh_bind_str(st, 3, c->name);
	sqlite3_bind_int64(st, 4, c->rank);
	sqlh_bind_str(st, 5, c->node);
	sqlite3_bind_int64(st, 6, bits_of(NAN));
	sqlite3_bind_int64(st, 7, bits_of(NAN));
	if (sqlh_run(st, e) < 0)
		return -1;
	s->id = (uint64_t)sqlite3_last_insert_rowid(w->db);
	s->seq = -1;
	s->last = s->min = s->max = NAN;
	s->last_step = -1;
	return 0;
}

static void series_free(struct series *s)
{
	free(s->key);
	free(s);
}

static struct series *find_series(struct wdb *w, const struct chunk_in *c, struct err *e)
{
	char *key = xasprintf("%" PRIu64 "/%u/%u/%s/%s", c->job, c->attempt, c->rank, c->node, c->name);
	struct series *s;
	int rc;

	HASH_FIND_STR(w->series, key, s);
	if (s) {
		free(key);
		return s;
	}
	s = xcalloc(1, sizeof(*s));
	s->key = key;
	s->job = c->job;
	rc = read_series_row(w, s, c, e);
	if (rc < 0 || (rc == 0 && insert_series(w, s, c, e) < 0)) {
		series_free(s);
		return NULL;
	}
	s->seq_before = s->seq;
	HASH_ADD_KEYPTR(hh, w->series, s->key, strlen(s->key), s);
	return s;
}

/* Set of 64-bit digests, open addressing, 0 = free. 1 when v was in it. */
static int seen_add(struct wdb *w, uint64_t v)
{
	size_t i;

	if (w->n_seen * 2 >= w->cap_seen) {
		uint64_t *old = w->seen;
		size_t old_cap = w->cap_seen;

		w->cap_seen = old_cap ? old_cap * 2 : 256;
		w->seen = xcalloc(w->cap_seen, sizeof(*w->seen));
		w->n_seen = 0;
		for (i = 0; i < old_cap; i++)
			if (old[i])
				seen_add(w, old[i]);
		free(old);
	}
	v += v == 0;
	for (i = v & (w->cap_seen - 1); w->seen[i]; i = (i + 1) & (w->cap_seen - 1))
		if (w->seen[i] == v)
			return 1;
	w->seen[i] = v;
	w->n_seen++;
	return 0;
}

static void seen_clear(struct wdb *w)
{
	if (w->n_seen)
		memset(w->seen, 0, w->cap_seen * sizeof(*w->seen));
	w->n_seen = 0;
}

/* 1 when this very chunk came already since the last commit; notes it otherwise. */
static int chunk_repeated(struct wdb *w, const struct series *s, const struct chunk_in *c)
{
	uint64_t in[6] = {
	    s->id, (uint64_t)c->seq, (uint64_t)c->steps[0], c->times[0], (uint64_t)bits_of(c->values[0]), c->n};
	uint8_t digest[HASH_BYTES];
	uint64_t mark;

	hash_bytes(in, sizeof(in), digest);
	memcpy(&mark, digest, sizeof(mark));
	return seen_add(w, mark);
}

static int put_chunk(struct wdb *w, uint64_t series, uint64_t first, const int64_t *steps,
                     const double *values, const uint64_t *times, size_t n, struct err *e)
{
	sqlite3_stmt *st = prepare_once(w, &w->chunk_put, "INSERT INTO metric_chunk VALUES (?,?,?,?)", e);
	uint8_t *data;
	size_t data_n;
	int rc;

	if (!st)
		return -1;
	codec_encode(steps, values, times, n, &data, &data_n);
	sqlite3_bind_int64(st, 1, (int64_t)series);
	sqlite3_bind_int64(st, 2, (int64_t)first);
	sqlite3_bind_int64(st, 3, (int64_t)n);
	sqlite3_bind_blob(st, 4, data, (int)data_n, SQLITE_STATIC);
	rc = sqlh_run(st, e);
	sqlite3_clear_bindings(st);
	free(data);
	return rc;
}

static void add_totals(struct series *s, const struct chunk_in *c)
{
	for (size_t i = 0; i < c->n; i++) {
		/* fmin and fmax pass over NaN. */
		s->min = fmin(s->min, c->values[i]);
		s->max = fmax(s->max, c->values[i]);
	}
	s->last = c->values[c->n - 1];
	s->last_step = c->steps[c->n - 1];
	s->last_us = c->times[c->n - 1];
	s->points += c->n;
}

static void want_merge(struct wdb *w, uint64_t id)
{
	for (size_t i = 0; i < w->n_to_merge; i++)
		if (w->to_merge[i] == id)
			return;
	if (w->n_to_merge == w->cap_to_merge) {
		w->cap_to_merge = w->cap_to_merge ? w->cap_to_merge * 2 : 64;
		w->to_merge = xreallocarray(w->to_merge, w->cap_to_merge, sizeof(*w->to_merge));
	}
	w->to_merge[w->n_to_merge++] = id;
}

int series_apply(struct wdb *w, const struct op *o, struct err *e)
{
	struct chunk_in c;
	struct series *s;
	uint64_t first;

	parse_chunk(o, &c);
	s = find_series(w, &c, e);
	if (!s)
		return -1;
	/* A number that was there at the last commit is a repetition; a newer one may bring another part of its
	 * batch. */
	if (c.seq <= s->seq_before || chunk_repeated(w, s, &c))
		return 0;
	first = s->points;
	for (size_t i = 0; i < c.n; i += CHUNK_POINTS) {
		size_t n = c.n - i < CHUNK_POINTS ? c.n - i : CHUNK_POINTS;

		if (put_chunk(w, s->id, first + i, c.steps + i, c.values + i, c.times + i, n, e) < 0)
			return -1;
		s->open++;
	}
	add_totals(s, &c);
	if (c.seq > s->seq)
		s->seq = c.seq;
	if (!s->is_dirty) {
		s->is_dirty = 1;
		s->next_dirty = w->dirty;
		w->dirty = s;
	}
	if (s->open > MERGE_ROWS || s->points - s->sealed >= CHUNK_POINTS)
		want_merge(w, s->id);
	return 0;
}

static int put_series(struct wdb *w, const struct series *s, struct err *e)
{
	sqlite3_stmt *st = prepare_once(
	    w, &w->series_put,
	    "UPDATE metric_series SET seq = ?, points = ?, sealed = ?, open = ?, last_bits = ?, min_bits = ?, "
	    "max_bits = ?, last_step = ?, last_us = ? WHERE id = ?",
	    e);
	sqlite3_stmt *dirty = prepare_once(w, &w->dirty_put, "INSERT OR IGNORE INTO metric_dirty VALUES (?)", e);

	if (!st || !dirty)
		return -1;
	sqlite3_bind_int64(st, 1, s->seq);
	sqlite3_bind_int64(st, 2, (int64_t)s->points);
	sqlite3_bind_int64(st, 3, (int64_t)s->sealed);
	sqlite3_bind_int64(st, 4, (int64_t)s->open);
	sqlite3_bind_int64(st, 5, bits_of(s->last));
	sqlite3_bind_int64(st, 6, bits_of(s->min));
	sqlite3_bind_int64(st, 7, bits_of(s->max));
	sqlite3_bind_int64(st, 8, s->last_step);
	sqlite3_bind_int64(st, 9, (int64_t)s->last_us);
	sqlite3_bind_int64(st, 10, (int64_t)s->id);
	sqlite3_bind_int64(dirty, 1, (int64_t)s->job);
	w->metrics_dirty = 1;
	return sqlh_run(st, e) < 0 ? -1 : sqlh_run(dirty, e);
}

int series_flush(struct wdb *w, struct err *e)
{
	struct series *s;

	while ((s = w->dirty)) {
		if (put_series(w, s, e) < 0)
			return -1;
		s->is_dirty = 0;
		s->seq_before = s->seq;
		w->dirty = s->next_dirty;
	}
	seen_clear(w);
	if (HASH_COUNT(w->series) > CACHE_MAX)
		series_forget(w);
	return 0;
}

void series_forget(struct wdb *w)
{
	struct series *s, *tmp;

	HASH_ITER (hh, w->series, s, tmp) {
		HASH_DEL(w->series, s);
		series_free(s);
	}
	w->series = NULL;
	w->dirty = NULL;
	seen_clear(w);
}

/* ---- merging ----------------------------------------------------------------------------------- */

/* 1 when a chunk is damaged. */
static int read_open(struct wdb *w, uint64_t series, uint64_t sealed, struct points *p, uint64_t *rows,
                     struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(
	    w->db, "SELECT data FROM metric_chunk WHERE series = ? AND first >= ? ORDER BY first", e);
	int rc = 0;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)series);
	sqlite3_bind_int64(st, 2, (int64_t)sealed);
	while (p->n < OPEN_POINTS && (rc = sqlh_step(st, e)) > 0) {
		if (codec_decode(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), p, NULL) < 0) {
			sqlite3_finalize(st);
			return 1;
		}
		++*rows;
	}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* The rows that hold points sealed .. sealed + p->n go, chunks of p come. Moves *sealed; *rest = chunks left
 * open. */
static int rewrite_chunks(struct wdb *w, uint64_t series, const struct points *p, uint64_t *sealed,
                          uint64_t *rest, struct err *e)
{
	sqlite3_stmt *st =
	    sqlh_prepare(w->db, "DELETE FROM metric_chunk WHERE series = ? AND first >= ? AND first < ?", e);
	uint64_t first = *sealed;
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)series);
	sqlite3_bind_int64(st, 2, (int64_t)first);
	sqlite3_bind_int64(st, 3, (int64_t)(first + p->n));
	rc = sqlh_run(st, e);
	sqlite3_finalize(st);
	*rest = 0;
	for (size_t i = 0; rc == 0 && i < p->n; i += CHUNK_POINTS) {
		size_t n = p->n - i < CHUNK_POINTS ? p->n - i : CHUNK_POINTS;

		rc = put_chunk(w, series, first + i, p->steps + i, p->values + i, p->times_us + i, n, e);
		if (n >= SEAL_POINTS)
			*sealed += n;
		else
			*rest = 1;
	}
	return rc;
}

static int merge_chunks(struct wdb *w, uint64_t series, uint64_t sealed, uint64_t open, struct err *e)
{
	struct points p = {0};
	uint64_t rows = 0, rest = 0;
	char sql[160];
	int rc = read_open(w, series, sealed, &p, &rows, e);

	/* Left as it is, for whoever repairs it; verify finds it too. */
	if (rc > 0)
		log_error("event=metric_chunk_damaged series=%" PRIu64, series);
	if (rc == 0 && rows > 0)
		rc = rewrite_chunks(w, series, &p, &sealed, &rest, e);
	points_fini(&p);
	if (rc != 0 || rows == 0)
		return rc < 0 ? -1 : 0;
	snprintf(sql, sizeof(sql),
	         "UPDATE metric_series SET sealed = %" PRIu64 ", open = %" PRIu64 " WHERE id = %" PRIu64, sealed,
	         open - rows + rest, series);
	return sqlh_exec(w->db, sql, e);
}

static int merge_by(struct wdb *w, const char *sql, uint64_t key, struct err *e)
{
	sqlite3_stmt *st = sqlh_prepare(w->db, sql, e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)key);
	while ((rc = sqlh_step(st, e)) > 0)
		if (merge_chunks(w, sqlh_u64(st, 0), sqlh_u64(st, 1), sqlh_u64(st, 2), e) < 0) {
			rc = -1;
			break;
		}
	sqlite3_finalize(st);
	return rc;
}

/* The cache holds `sealed` and `open` of what is merged: it is forgotten, and filled again from the rows. */
int series_merge_job(struct wdb *w, uint64_t job, struct err *e)
{
	series_forget(w);
	return merge_by(w, "SELECT id, sealed, open FROM metric_series WHERE job = ? AND open > 1", job, e);
}

int series_merge_due(struct wdb *w, struct err *e)
{
	series_forget(w);
	for (size_t i = 0; i < w->n_to_merge; i++)
		if (merge_by(w, "SELECT id, sealed, open FROM metric_series WHERE id = ?", w->to_merge[i], e) < 0)
			return -1;
	w->n_to_merge = 0;
	return 0;
}
