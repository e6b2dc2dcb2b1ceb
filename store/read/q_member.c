/*
 * q_member: arrays and sweeps: which job is member 3 of job 17, how the members stand, and a table of them
 * with the values that make each what it is and the metric that they are compared by.
 *
 * The ids of members follow that of their job, so nothing is searched for.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/secret.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"
#include "store/base/metric_sum.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/read/find.h"
#include "store/read/from_row.h"
#include "store/read/job_fields.h"
#include "store/read/json_part.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"

struct found { /* a member */
	uint32_t index;
	double last, min, max, best; /* NaN none */
	int64_t step;                /* -1 none */
	cJSON *json;
};

struct table {
	struct found *v;
	size_t n;
	uint64_t array;
	uint32_t members;
	int max; /* the greatest is the best */
};

static struct found *find_member(struct table *t, uint64_t job)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) { /* still in the order of their ids */
		size_t mid = (lo + hi) / 2;

		if (t->array + 1 + t->v[mid].index < job)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->n && t->array + 1 + t->v[lo].index == job ? &t->v[lo] : NULL;
}

static sqlite3_stmt *of_members(struct store_reader *r, const struct table *t, const char *sql, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, sql, e);

	if (st) {
		sqlite3_bind_int64(st, 1, (int64_t)t->array);
		sqlite3_bind_int64(st, 2, (int64_t)(t->array + t->members));
	}
	return st;
}

static cJSON *rungs_json(const char *text)
{
	cJSON *list = cJSON_CreateArray();
	char *end;

	while (text && *text) {
		double v = strtod(text, &end);

		if (end == text)
			break;
		cJSON_AddItemToArray(list, json_real(v));
		text = end;
	}
	return list;
}

static int read_members(struct store_reader *r, struct table *t, const struct job_spec *spec, struct err *e)
{
	sqlite3_stmt *st = of_members(
	    r, t, "SELECT " JOB_COLUMNS " FROM job WHERE id > ?1 AND id <= ?2 AND array = ?1 ORDER BY id", e);
	struct job_row row;
	int rc;

	if (!st)
		return -1;
	t->v = xcalloc(t->members + 1, sizeof(*t->v));
	while ((rc = sqlh_step(st, e)) > 0 && t->n < t->members) {
		struct found *f = &t->v[t->n++];
		cJSON *values;

		job_from_row(st, &row, 0);
		*f = (struct found){.index = (uint32_t)(row.id - t->array - 1),
		                    .last = NAN,
		                    .min = NAN,
		                    .max = NAN,
		                    .best = NAN,
		                    .step = -1,
		                    .json = cJSON_CreateObject()};
		job_fields_json(f->json, &row);
		values = spec && spec->sweep.n_axes ? sweep_values(&spec->sweep, f->index) : cJSON_CreateObject();
		secret_json(values, 1);
		cJSON_AddItemToObject(f->json, "values", values);
		cJSON_AddItemToObject(f->json, "rungs", rungs_json(row.rungs));
		job_row_fini(&row);
	}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* What stays when the series were removed. */
static int read_sums(struct store_reader *r, struct table *t, const char *metric, struct err *e)
{
	sqlite3_stmt *st =
	    of_members(r, t,
	               "SELECT job, last, min, max, step FROM metric_sum WHERE job > ?1 AND job <= "
	               "?2 AND name = ?3",
	               e);
	int rc;

	if (!st)
		return -1;
	sqlh_bind_str(st, 3, metric);
	while ((rc = sqlh_step(st, e)) > 0) {
		struct found *f = find_member(t, sqlh_u64(st, 0));

		if (!f)
			continue;
		f->last = sqlite3_column_type(st, 1) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 1);
		f->min = sqlite3_column_type(st, 2) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 2);
		f->max = sqlite3_column_type(st, 3) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 3);
		f->step = sqlite3_column_type(st, 4) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, 4);
	}
	sqlite3_finalize(st);
	return rc;
}

/* Reads the newest attempt of each member, and its lowest rank, as metric_sums does for one job. */
static int read_series(struct store_reader *r, struct table *t, const char *metric, struct err *e)
{
	sqlite3_stmt *st = of_members(
	    r, t,
	    "SELECT job, last_bits, min_bits, max_bits, last_step, attempt, rank FROM metric_series WHERE job > "
	    "?1 AND job <= ?2 AND name = ?3 AND points > 0 ORDER BY job, attempt DESC, rank, last_us DESC",
	    e);
	uint64_t before = 0;
	uint32_t attempt = 0, rank = 0;
	int rc;

	if (!st)
		return -1;
	sqlh_bind_str(st, 3, metric);
	while ((rc = sqlh_step(st, e)) > 0) {
		struct found *f = find_member(t, sqlh_u64(st, 0));

		if (!f)
			continue;
		if (sqlh_u64(st, 0) == before) {
			/* Two nodes of one rank and attempt: one that was replaced. */
			if (sqlh_u32(st, 5) == attempt && sqlh_u32(st, 6) == rank) {
				f->min = fmin(f->min, metric_real(st, 2));
				f->max = fmax(f->max, metric_real(st, 3));
			}
			continue;
		}
		before = sqlh_u64(st, 0);
		attempt = sqlh_u32(st, 5);
		rank = sqlh_u32(st, 6);
		f->last = metric_real(st, 1);
		f->min = metric_real(st, 2);
		f->max = metric_real(st, 3);
		f->step = sqlite3_column_int64(st, 4);
	}
	sqlite3_finalize(st);
	return rc;
}

static int best_first(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (isnan(x->best) != isnan(y->best))
		return isnan(x->best) ? 1 : -1;
	if (x->best < y->best || x->best > y->best)
		return x->best < y->best ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

static void rank_members(struct table *t)
{
	/* The sign turns the greatest into the least. */
	for (size_t i = 0; i < t->n; i++)
		t->v[i].best = t->max ? -t->v[i].max : t->v[i].min;
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), best_first);
}

static void add_metric(const struct table *t, const struct found *f)
{
	cJSON *o;

	if (f->step < 0 && isnan(f->last) && isnan(f->min)) {
		cJSON_AddNullToObject(f->json, "metric");
		return;
	}
	o = cJSON_AddObjectToObject(f->json, "metric");
	cJSON_AddItemToObject(o, "best", json_real(t->max ? f->max : f->min));
	cJSON_AddItemToObject(o, "last", json_real(f->last));
	cJSON_AddItemToObject(o, "min", json_real(f->min));
	cJSON_AddItemToObject(o, "max", json_real(f->max));
	if (f->step >= 0)
		json_add_u64(o, "step", (uint64_t)f->step);
	else
		cJSON_AddNullToObject(o, "step");
}

static cJSON *table_json(struct table *t, const char *metric, uint32_t limit)
{
	cJSON *out = cJSON_CreateObject(), *list;

	if (metric)
		rank_members(t);
	json_add_str(out, "metric", metric);
	json_add_str(out, "goal", metric ? (t->max ? "max" : "min") : NULL);
	json_add_u64(out, "made", t->n);
	list = cJSON_AddArrayToObject(out, "members");
	for (size_t i = 0; i < t->n && i < limit; i++) {
		if (metric)
			add_metric(t, &t->v[i]);
		cJSON_AddItemToArray(list, t->v[i].json);
		t->v[i].json = NULL;
	}
	return out;
}

static cJSON *read_table(struct store_reader *r, const struct job_row *row, const char *metric,
                         uint32_t limit, struct err *e)
{
	struct job_spec *spec = row->spec ? spec_parse(row->spec, strlen(row->spec), NULL) : NULL;
	struct table t = {.array = row->id, .members = row->members, .max = spec && spec->search.max};
	cJSON *out = NULL;

	if (!metric && spec)
		metric = spec->search.metric;
	if (read_members(r, &t, spec, e) == 0 &&
	    (!metric || (read_sums(r, &t, metric, e) == 0 && read_series(r, &t, metric, e) == 0)))
		out = table_json(&t, metric, limit ? limit : SWEEP_MAX_MEMBERS);
	for (size_t i = 0; i < t.n; i++)
		cJSON_Delete(t.v[i].json);
	free(t.v);
	spec_destroy(spec);
	return out;
}

cJSON *store_members_json(struct store_reader *r, uint64_t job, const char *metric, uint32_t limit,
                          struct err *e)
{
	struct job_row row = {0};
	cJSON *out = NULL;

	if (reader_begin(r, e) < 0)
		return NULL;
	if (store_job_get(r, job, &row, e) == 0) {
		if (row.members)
			out = read_table(r, &row, metric, limit, e);
		else
			err_set(e, ERR_CONFLICT, "job %" PRIu64 " has no members: it is one job", job);
	}
	job_row_fini(&row);
	reader_end(r);
	return out;
}
