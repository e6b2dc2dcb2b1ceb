/*
 * q_metric: series as JSON.
 *
 * A series with more points than asked for is cut into buckets of neighbours with equal counts (+-1), by
 * index: every spike is some bucket's min or max, and a bucket counts its NaN, which is neither.
 * Infinities are numbers.
 */
#include "store/read/q_metric.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/base/codec.h"
#include "store/base/metric_sum.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/read/json_part.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"
#include "store/read/retain.h"

#define POINTS_MAX 100000u

/* ---- summary ----------------------------------------------------------------------------------------- */

/* NaN as min or max = there was no number. */
static void add_bound(cJSON *o, const char *key, double v)
{
	cJSON_DeleteItemFromObjectCaseSensitive(o, key);
	cJSON_AddItemToObject(o, key, isnan(v) ? cJSON_CreateNull() : json_real(v));
}

static void add_step(cJSON *o, int64_t step)
{
	if (step < 0)
		cJSON_AddNullToObject(o, "step");
	else
		json_add_u64(o, "step", (uint64_t)step);
}

static int add_sum(const struct metric_sum *sum, void *arg)
{
	cJSON *o = cJSON_AddObjectToObject(arg, sum->name);

	cJSON_AddItemToObject(o, "last", json_real(sum->last));
	add_bound(o, "min", sum->min);
	add_bound(o, "max", sum->max);
	add_step(o, sum->step);
	json_add_time(o, "at", sum->last_us);
	json_add_u64(o, "count", sum->points);
	json_add_u64(o, "attempt", sum->attempt);
	json_add_u64(o, "rank", sum->rank);
	json_add_u64(o, "ranks", sum->ranks);
	return 0;
}

static int from_series(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt, cJSON *out,
                       struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT " METRIC_SUM_COLUMNS " FROM metric_series WHERE job = ?1 AND points > 0 "
	               "AND (?2 = 0 OR attempt = ?2) " METRIC_SUM_ORDER,
	               e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlite3_bind_int64(st, 2, attempt);
	rc = metric_sums(st, rank, add_sum, out, e);
	sqlite3_finalize(st);
	return rc;
}

static double real_or_nan(sqlite3_stmt *st, int col)
{
	return sqlite3_column_type(st, col) == SQLITE_NULL ? NAN : sqlite3_column_double(st, col);
}

static void add_known(cJSON *o, const char *key, sqlite3_stmt *st, int col)
{
	if (sqlite3_column_type(st, col) == SQLITE_NULL)
		cJSON_AddNullToObject(o, key);
	else
		json_add_u64(o, key, sqlh_u64(st, col));
}

/* What is left when retention has taken the series. */
static int from_projection(struct store_reader *r, uint64_t job, cJSON *out, struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT name, last, min, max, points, ifnull(step, -1), attempt, rank, ranks FROM "
	               "metric_sum WHERE job = ?",
	               e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		cJSON *o = cJSON_AddObjectToObject(out, sqlh_str(st, 0));

		cJSON_AddItemToObject(o, "last", json_real(real_or_nan(st, 1)));
		add_bound(o, "min", real_or_nan(st, 2));
		add_bound(o, "max", real_or_nan(st, 3));
		json_add_u64(o, "count", sqlh_u64(st, 4));
		add_step(o, sqlite3_column_int64(st, 5));
		add_known(o, "attempt", st, 6);
		add_known(o, "rank", st, 7);
		add_known(o, "ranks", st, 8);
	}
	sqlite3_finalize(st);
	return rc;
}

cJSON *metrics_summary(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt, struct err *e)
{
	cJSON *out = cJSON_CreateObject();
	int rc = from_series(r, job, rank, attempt, out, e);

	if (rc == 0 && !out->child && rank < 0 && attempt == 0)
		rc = from_projection(r, job, out, e);
	if (rc < 0) {
		cJSON_Delete(out);
		return NULL;
	}
	return out;
}

cJSON *store_metrics_json(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt, struct err *e)
{
	cJSON *out;

	if (reader_begin(r, e) < 0)
		return NULL;
	out = store_check_kept(r, job, STORE_METRICS, NULL, e) < 0 ? NULL
	                                                           : metrics_summary(r, job, rank, attempt, e);
	reader_end(r);
	return out;
}

/* ---- one series -------------------------------------------------------------------------------------- */

struct bucket {
	uint64_t n, nan; /* points, and how many of them are NaN */
	int64_t step;
	uint64_t time_us;
	long double sum; /* a sum of doubles does not overflow here */
	double min, max;
};

struct drawing {
	cJSON *points;
	uint64_t total, seen;
	uint32_t max;
	int raw;
	uint64_t index; /* of the bucket being filled */
	struct bucket b;
};

static cJSON *point_json(int64_t step, uint64_t time_us)
{
	cJSON *p = cJSON_CreateArray();

	cJSON_AddItemToArray(p, step < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)step));
	cJSON_AddItemToArray(p, cJSON_CreateNumber((double)time_us / 1e6));
	return p;
}

static void bucket_end(struct drawing *d)
{
	struct bucket *b = &d->b;
	cJSON *p;

	if (b->n == 0)
		return;
	p = point_json(b->step, b->time_us);
	cJSON_AddItemToArray(p, json_real(b->n > b->nan ? (double)(b->sum / (long double)(b->n - b->nan)) : NAN));
	cJSON_AddItemToArray(p, json_real(b->min));
	cJSON_AddItemToArray(p, json_real(b->max));
	cJSON_AddItemToArray(p, cJSON_CreateNumber((double)b->n));
	cJSON_AddItemToArray(p, cJSON_CreateNumber((double)b->nan));
	cJSON_AddItemToArray(d->points, p);
	b->n = 0;
}

static void draw_point(struct drawing *d, int64_t step, double value, uint64_t time_us)
{
	struct bucket *b = &d->b;
	uint64_t index;

	if (d->raw) {
		cJSON *p = point_json(step, time_us);

		cJSON_AddItemToArray(p, json_real(value));
		cJSON_AddItemToArray(d->points, p);
		return;
	}
	index = d->seen++ * d->max / d->total;
	if (index != d->index)
		bucket_end(d);
	d->index = index;
	if (b->n++ == 0)
		*b = (struct bucket){1, 0, step, time_us, 0, NAN, NAN};
	if (isnan(value)) {
		b->nan++;
		return;
	}
	b->sum += value;
	b->min = fmin(b->min, value);
	b->max = fmax(b->max, value);
}

static int draw_series(struct store_reader *r, uint64_t series, struct drawing *d, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT data FROM metric_chunk WHERE series = ? ORDER BY first", e);
	struct points p = {0};
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)series);
	while ((rc = sqlh_step(st, e)) > 0) {
		p.n = 0;
		rc = codec_decode(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), &p, e);
		if (rc < 0)
			break;
		for (size_t i = 0; i < p.n; i++)
			draw_point(d, p.steps[i], p.values[i], p.times_us[i]);
	}
	bucket_end(d);
	points_fini(&p);
	sqlite3_finalize(st);
	return rc;
}

struct choice {
	uint64_t id, points;
	uint32_t attempt, rank;
	char *node;
	double last, min, max;
	int64_t step;
};

static int choose_series(struct store_reader *r, uint64_t job, const char *name, int32_t rank,
                         uint32_t attempt, struct choice *c, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r,
	    "SELECT id, points, attempt, rank, node, last_bits, min_bits, max_bits, last_step FROM metric_series "
	    "WHERE job = ?1 AND name = ?2 AND (?3 = 0 "
	    "OR "
	    "attempt = ?3) AND (?4 < 0 OR rank = ?4) AND points > 0 ORDER BY attempt DESC, rank, node LIMIT 1",
	    e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlh_bind_str(st, 2, name);
	sqlite3_bind_int64(st, 3, attempt);
	sqlite3_bind_int64(st, 4, rank);
	rc = sqlh_step(st, e);
	if (rc > 0)
		*c = (struct choice){sqlh_u64(st, 0),    sqlh_u64(st, 1),    sqlh_u32(st, 2),
		                     sqlh_u32(st, 3),    sqlh_dup(st, 4),    metric_real(st, 5),
		                     metric_real(st, 6), metric_real(st, 7), sqlite3_column_int64(st, 8)};
	sqlite3_finalize(st);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND,
		               "job %" PRIu64 " has no metric \"%.100s\" here; jobctl metrics %" PRIu64 " lists them",
		               job, name, job);
	return rc < 0 ? -1 : 0;
}

/* The first column of each row as a list of numbers. */
static cJSON *read_numbers(struct store_reader *r, const char *sql, uint64_t job, const char *name,
                           uint32_t attempt, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, sql, e);
	cJSON *list;
	int rc;

	if (!st)
		return NULL;
	list = cJSON_CreateArray();
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlh_bind_str(st, 2, name);
	if (sqlite3_bind_parameter_count(st) > 2)
		sqlite3_bind_int64(st, 3, attempt);
	while ((rc = sqlh_step(st, e)) > 0)
		cJSON_AddItemToArray(list, cJSON_CreateNumber((double)sqlh_u64(st, 0)));
	sqlite3_finalize(st);
	if (rc < 0) {
		cJSON_Delete(list);
		return NULL;
	}
	return list;
}

static int add_others(struct store_reader *r, cJSON *o, uint64_t job, const char *name, uint32_t attempt,
                      struct err *e)
{
	cJSON *ranks =
	    read_numbers(r,
	                 "SELECT DISTINCT rank FROM metric_series WHERE job = ? AND name = ? AND attempt = "
	                 "? AND points > 0 ORDER BY 1",
	                 job, name, attempt, e);
	cJSON *attempts = read_numbers(
	    r, "SELECT DISTINCT attempt FROM metric_series WHERE job = ? AND name = ? AND points > 0 ORDER BY 1",
	    job, name, 0, e);

	if (!ranks || !attempts) {
		cJSON_Delete(ranks);
		cJSON_Delete(attempts);
		return -1;
	}
	cJSON_AddItemToObject(o, "ranks", ranks);
	cJSON_AddItemToObject(o, "attempts", attempts);
	return 0;
}

static cJSON *series_json(struct store_reader *r, uint64_t job, const char *name, const struct choice *c,
                          uint32_t max, struct err *e)
{
	struct drawing d = {.total = c->points, .max = max, .raw = c->points <= max};
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "name", name);
	json_add_u64(o, "attempt", c->attempt);
	json_add_u64(o, "rank", c->rank);
	json_add_str(o, "node", c->node);
	json_add_u64(o, "count", c->points);
	cJSON_AddItemToObject(o, "last", json_real(c->last));
	add_bound(o, "min", c->min);
	add_bound(o, "max", c->max);
	add_step(o, c->step);
	cJSON_AddBoolToObject(o, "raw", d.raw);

	d.points = cJSON_AddArrayToObject(o, "points");
	if (add_others(r, o, job, name, c->attempt, e) < 0 || draw_series(r, c->id, &d, e) < 0) {
		cJSON_Delete(o);
		return NULL;
	}
	return o;
}

cJSON *store_metric_json(struct store_reader *r, uint64_t job, const char *name, int32_t rank,
                         uint32_t attempt, uint32_t max_points, struct err *e)
{
	struct choice c = {0};
	cJSON *o = NULL;

	if (max_points == 0 || max_points > POINTS_MAX)
		max_points = POINTS_MAX;
	if (reader_begin(r, e) < 0)
		return NULL;
	if (store_check_kept(r, job, STORE_METRICS, NULL, e) == 0 &&
	    choose_series(r, job, name, rank, attempt, &c, e) == 0)
		o = series_json(r, job, name, &c, max_points, e);
	reader_end(r);
	free(c.node);
	return o;
}
