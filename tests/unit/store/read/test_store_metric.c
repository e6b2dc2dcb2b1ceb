/* series: chunks, repetition, merging, downsampling; NaN and infinities; the summary. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define MAX 300000

static double values[MAX];
static int64_t steps[MAX];
static uint64_t times[MAX];

static struct metric_chunk chunk(uint64_t job, uint32_t rank, const char *name, uint64_t seq, size_t from,
                                 size_t n)
{
	return (struct metric_chunk){.job = job,
	                             .attempt = 1,
	                             .rank = rank,
	                             .name = (char *)(uintptr_t)name,
	                             .n = (uint32_t)n,
	                             .steps = steps + from,
	                             .values = values + from,
	                             .times_us = times + from,
	                             .seq = seq,
	                             .node = (char *)(uintptr_t) "n1"};
}

static void put(struct kit *k, struct metric_chunk c)
{
	struct store_txn *t = store_txn_new();
	struct err e;

	store_txn_metric(t, &c);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("metric: %s", e.text);
}

static void fill(void)
{
	for (size_t i = 0; i < MAX; i++) {
		steps[i] = (int64_t)i * 2;
		times[i] = KIT_T0 + i * 100000;
		values[i] = 10.0 + sin((double)i / 1000.0);
	}
}

static int64_t rows(struct kit *k, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *st = NULL;
	int64_t n = -1;

	if (sqlite3_open(k->path, &db) == SQLITE_OK && sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	else
		tap_diag("%s", sqlite3_errmsg(db));
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

static cJSON *series(struct store_reader *r, uint64_t job, const char *name, int32_t rank, uint32_t max)
{
	struct err e;
	cJSON *j = store_metric_json(r, job, name, rank, 0, max, &e);

	if (!j)
		tap_bail("%s: %s", name, e.text);
	return j;
}

static double field(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (cJSON_IsString(v))
		return strcmp(v->valuestring, "nan") == 0   ? NAN
		       : strcmp(v->valuestring, "inf") == 0 ? INFINITY
		                                            : -INFINITY;
	return cJSON_IsNumber(v) ? v->valuedouble : -12345;
}

static double cell(const cJSON *point, int i)
{
	const cJSON *v = cJSON_GetArrayItem(point, i);

	if (cJSON_IsString(v))
		return strcmp(v->valuestring, "nan") == 0   ? NAN
		       : strcmp(v->valuestring, "inf") == 0 ? INFINITY
		                                            : -INFINITY;
	return cJSON_IsNumber(v) ? v->valuedouble : -12345;
}

static void test_repetition(struct kit *k, struct store_reader *r)
{
	struct metric_chunk c = chunk(1, 0, "loss", 1, 0, 3), d = chunk(1, 0, "loss", 1, 3, 2),
	                    other = chunk(1, 1, "loss", 1, 100, 2);
	struct store_txn *t = store_txn_new();
	struct err e;
	cJSON *j;

	/* one batch, its series in two parts, and the same frame once more in the same transaction */
	for (int i = 0; i < 2; i++) {
		store_txn_metric(t, &c);
		store_txn_metric(t, &d);
		store_txn_metric(t, &other);
	}
	is_int(kit_commit(k, t, &e), 0, "a batch");
	put(k, c); /* and again later */
	put(k, d);
	put(k, chunk(1, 0, "loss", 2, 5, 1));
	put(k, chunk(1, 0, "loss", 1, 3, 2)); /* an older one after a newer */
	j = series(r, 1, "loss", 0, 0);
	ok(field(j, "count") == 6 && cJSON_GetArraySize(cJSON_GetObjectItem(j, "points")) == 6,
	   "every point once: %g", field(j, "count"));
	ok(cell(cJSON_GetArrayItem(cJSON_GetObjectItem(j, "points"), 5), 0) == 10, "in order");
	ok(cell(cJSON_GetArrayItem(cJSON_GetObjectItem(j, "points"), 1), 1) == (double)times[1] / 1e6,
	   "time in seconds");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(j, "ranks")), 2, "ranks that have it");
	cJSON_Delete(j);
	ok(!store_metric_json(r, 1, "nope", -1, 0, 0, &e) && e.code == ERR_NOT_FOUND,
	   "a series that is not there");
	ok(!store_metric_json(r, 1, "loss", 0, 7, 0, &e) && e.code == ERR_NOT_FOUND, "an attempt that has none");
	/* after a restart the batch numbers are still known */
	kit_close(k);
	kit_reopen(k);
	put(k, chunk(1, 0, "loss", 2, 5, 1));
	put(k, chunk(1, 0, "loss", 3, 6, 1));
	j = series(r, 1, "loss", -1, 0);
	ok(field(j, "count") == 7 && field(j, "rank") == 0,
	   "the same after a restart; the lowest rank by default");
	cJSON_Delete(j);
}

static void test_strange(struct kit *k, struct store_reader *r)
{
	static const double odd[] = {1.0, NAN, INFINITY, -INFINITY, 2.0, -0.0, 5e-324, 1e308};
	struct err e;
	cJSON *j, *p, *loss;
	char *text;

	memcpy(values + 200000, odd, sizeof(odd));
	steps[200001] = -1;
	put(k, chunk(1, 0, "odd", 4, 200000, 8));
	j = series(r, 1, "odd", 0, 0);
	p = cJSON_GetObjectItem(j, "points");
	ok(isnan(cell(cJSON_GetArrayItem(p, 1), 2)) && isinf(cell(cJSON_GetArrayItem(p, 2), 2)) &&
	       cell(cJSON_GetArrayItem(p, 3), 2) < 0,
	   "NaN and infinities are told as words");
	ok(cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetArrayItem(p, 1), 0)), "no step is null");
	text = json_text(j);
	ok(strstr(text, "\"nan\"") && strstr(text, "\"inf\"") && strstr(text, "\"-inf\""), "valid JSON");
	free(text);
	cJSON_Delete(j);
	j = series(r, 1, "odd", 0, 2);
	p = cJSON_GetObjectItem(j, "points");
	is_int(cJSON_GetArraySize(p), 2, "two buckets");
	ok(isnan(cell(cJSON_GetArrayItem(p, 0), 2)) && isinf(cell(cJSON_GetArrayItem(p, 0), 4)) &&
	       isinf(cell(cJSON_GetArrayItem(p, 0), 3)),
	   "both infinities have no mean, but are min and max");
	ok(cell(cJSON_GetArrayItem(p, 0), 5) == 4 && cell(cJSON_GetArrayItem(p, 0), 6) == 1,
	   "a bucket says how many points it has, and how many are NaN");
	ok(cell(cJSON_GetArrayItem(p, 1), 4) == 1e308, "no overflow in the sum");
	cJSON_Delete(j);
	j = store_metrics_json(r, 1, -1, 0, &e);
	loss = cJSON_GetObjectItem(j, "odd");
	ok(field(loss, "last") == 1e308 && isinf(field(loss, "min")) && isinf(field(loss, "max")) &&
	       field(loss, "count") == 8,
	   "summary");
	cJSON_Delete(j);
	values[200000] = NAN;
	put(k, chunk(1, 0, "only_nan", 5, 200000, 1));
	j = store_metrics_json(r, 1, -1, 0, &e);
	loss = cJSON_GetObjectItem(j, "only_nan");
	ok(isnan(field(loss, "last")) && cJSON_IsNull(cJSON_GetObjectItem(loss, "min")),
	   "no number: min and max null, last NaN");
	cJSON_Delete(j);
	j = series(r, 1, "only_nan", 0, 0);
	ok(isnan(cell(cJSON_GetArrayItem(cJSON_GetObjectItem(j, "points"), 0), 2)), "a series of NaN alone");
	cJSON_Delete(j);
	fill();
}

static int no_dirty(void *arg)
{
	return rows(arg, "SELECT count(*) FROM metric_dirty") == 0;
}

/* Summaries are of one rank in one attempt. */
static void test_which(struct kit *k, struct store_reader *r)
{
	static const double v[] = {5, 1, 9, NAN, 2, 7};
	struct metric_chunk c;
	struct err e;
	cJSON *j, *m;

	memcpy(values + 210000, v, sizeof(v));
	put(k, chunk(3, 0, "loss", 1, 210000, 3)); /* attempt 1, rank 0: 5 1 9 */
	c = chunk(3, 1, "loss", 2, 210003, 2);     /* attempt 2, rank 1: NaN 2 */
	c.attempt = 2;
	put(k, c);
	c = chunk(3, 2, "loss", 3, 210005, 1); /* attempt 2, rank 2: 7 */
	c.attempt = 2;
	put(k, c);
	j = store_metrics_json(r, 3, 2, 0, &e);
	m = cJSON_GetObjectItem(j, "loss");
	ok(field(m, "rank") == 2 && field(m, "last") == 7 && field(m, "ranks") == 2, "a rank that is asked for");
	cJSON_Delete(j);
	j = store_metrics_json(r, 3, 0, 0, &e);
	m = cJSON_GetObjectItem(j, "loss");
	ok(field(m, "attempt") == 1 && field(m, "min") == 1 && field(m, "max") == 9 && field(m, "ranks") == 1,
	   "in the newest attempt that has it");
	cJSON_Delete(j);
	j = store_metrics_json(r, 3, -1, 3, &e);
	ok(j && !j->child, "an attempt that has none: nothing");
	cJSON_Delete(j);
	for (int dropped = 0; dropped < 2; dropped++) {
		struct store_txn *t;

		j = store_job_json(r, 3, &e);
		m = cJSON_GetObjectItem(cJSON_GetObjectItem(j, "metrics"), "loss");
		ok(field(m, "attempt") == 2 && field(m, "rank") == 1 && field(m, "ranks") == 2 &&
		       field(m, "count") == 2 && field(m, "last") == 2 && field(m, "min") == 2 &&
		       field(m, "max") == 2 && field(m, "step") == (double)steps[210004],
		   "the newest attempt's lowest rank, nothing of the others%s",
		   dropped ? ", also when the series is gone" : "");
		cJSON_Delete(j);
		if (dropped)
			break;
		kit_wait(k, no_dirty, k, "summaries");
		t = store_txn_new();
		store_txn_drop(t, 3, STORE_METRICS, KIT_T0);
		is_int(kit_commit(k, t, &e), 0, "the series is dropped");
	}
	fill();
}

struct merged {
	struct kit *k;
	int64_t want;
	const char *sql;
};

static int is_merged(void *arg)
{
	struct merged *m = arg;

	return rows(m->k, m->sql) <= m->want;
}

static void test_merge(struct kit *k, struct store_reader *r)
{
	struct merged m = {k, 64,
	                   "SELECT count(*) FROM metric_chunk WHERE series IN (SELECT id FROM metric_series "
	                   "WHERE name = 'slow')"};
	struct store_txn *t = store_txn_new();
	struct job_row end = kit_job(1);
	struct event_row ev = kit_event(900, 1, (char *)(uintptr_t) "ended");
	struct err e;
	cJSON *j, *p;
	int wrong = 0;

	for (size_t i = 0; i < 3000; i++) {
		struct metric_chunk c = chunk(1, 0, "slow", 10 + i, i, 1);

		store_txn_metric(t, &c);
		if (i % 50 == 49) {
			kit_commit(k, t, &e);
			t = store_txn_new();
		}
	}
	store_txn_free(t);
	kit_wait(k, is_merged, &m, "merging");
	j = series(r, 1, "slow", 0, 0);
	p = cJSON_GetObjectItem(j, "points")->child;
	for (size_t i = 0; i < 3000 && p; i++, p = p->next)
		wrong += cell(p, 0) != (double)steps[i] || cell(p, 2) != values[i];
	ok(field(j, "count") == 3000 && !wrong && !p,
	   "3,000 batches of one point: all there, in order, in at most 64 chunks");
	cJSON_Delete(j);
	/* The end of the job joins what is left. How many chunks were full before that depends on how often the
	 * projections came by. */
	t = store_txn_new();
	end.status = (char *)(uintptr_t) "completed";
	end.ended_us = KIT_T0 + 5;
	store_txn_job(t, &end);
	store_txn_event(t, &ev);
	kit_commit(k, t, &e);
	m.want = 1;
	m.sql = "SELECT open FROM metric_series WHERE name = 'slow'";
	kit_wait(k, is_merged, &m, "merging at the end");
	ok(rows(k, "SELECT count(*) FROM metric_chunk WHERE points < 512 AND series IN (SELECT id FROM "
	           "metric_series WHERE name = 'slow')") <= 1,
	   "at most one chunk that is not full after the job's end");
	put(k, chunk(1, 0, "slow", 5000, 3000, 2));
	j = series(r, 1, "slow", 0, 0);
	is_int((int64_t)field(j, "count"), 3002, "late points go behind it");
	cJSON_Delete(j);
}

/* 250,000 points with 7 spikes: buckets keep sums, extremes and NaN. */
static void test_downsample(struct kit *k, struct store_reader *r)
{
	static const size_t spikes[] = {0, 1, 77777, 123456, 200000, 249998, 249999};
	const size_t n = 250000, buckets = 1000;
	double mean = 0, want = 0, seen_max = 0;
	int found = 0, nan_buckets = 0;
	cJSON *j, *p;

	for (size_t i = 0; i < 7; i++)
		values[spikes[i]] = 1000.0 + (double)i;
	for (size_t i = 0; i < n; i++)
		want += values[i] / (double)n;
	put(k, chunk(2, 0, "big", 1, 0, 100000));
	put(k, chunk(2, 0, "big", 2, 100000, 100000));
	put(k, chunk(2, 0, "big", 3, 200000, 50000));
	j = series(r, 2, "big", 0, (uint32_t)buckets);
	p = cJSON_GetObjectItem(j, "points");
	is_int(cJSON_GetArraySize(p), (int64_t)buckets, "as many buckets as asked for");
	ok(cJSON_IsFalse(cJSON_GetObjectItem(j, "raw")), "said to be not raw");
	for (cJSON *b = p->child; b; b = b->next) {
		mean += cell(b, 2) / (double)buckets;
		for (size_t i = 0; i < 7; i++)
			found += cell(b, 4) == 1000.0 + (double)i;
		if (cell(b, 4) > seen_max)
			seen_max = cell(b, 4);
	}
	ok(fabs(mean - want) < 1e-9, "the mean of equal buckets is the mean of all (%g, %g)", mean, want);
	ok(found >= 5 && seen_max == 1006.0, "spikes are some bucket's max (two pairs share theirs)");
	ok(cell(p->child, 0) == 0 && cell(p->child, 3) < 11,
	   "first bucket begins with the first point, min is there");
	cJSON_Delete(j);
	j = series(r, 2, "big", 0, 0);
	p = cJSON_GetObjectItem(j, "points");
	ok(cJSON_GetArraySize(p) == 100000 && cJSON_IsFalse(cJSON_GetObjectItem(j, "raw")),
	   "raw is bounded by 100,000");
	cJSON_Delete(j);
	values[60000] = NAN;
	put(k, chunk(2, 0, "hole", 4, 0, 100000));
	j = series(r, 2, "hole", 0, 10);
	for (cJSON *b = cJSON_GetObjectItem(j, "points")->child; b; b = b->next)
		nan_buckets += cell(b, 6) == 1 && cell(b, 5) == 10000 && isfinite(cell(b, 2)) && isfinite(cell(b, 3));
	is_int(nan_buckets, 1, "one NaN of 100,000 points shows in exactly one bucket and hides nothing of it");
	cJSON_Delete(j);
	for (uint32_t max = 1; max < 40; max++) {
		j = series(r, 2, "hole", 0, max);
		found = cJSON_GetArraySize(cJSON_GetObjectItem(j, "points"));
		cJSON_Delete(j);
		if (found != (int)max)
			break;
	}
	is_int(found, 39, "any number of buckets");
	fill();
}

static void test_drop(struct kit *k, struct store_reader *r)
{
	struct store_txn *t = store_txn_new();
	struct err e;
	cJSON *j;

	kit_wait(k, no_dirty, k, "summaries");
	is_int(rows(k, "SELECT count(*) FROM metric_sum WHERE job = 2 AND name = 'big' AND points = 250000 AND "
	               "step = 499998"),
	       1, "the summary is projected");
	put(k, chunk(2, 0, "big", 9, 250000, 1));
	store_txn_drop(t, 2, STORE_METRICS | STORE_LOGS, KIT_T0);
	is_int(kit_commit(k, t, &e), 0, "metrics of a job are dropped");
	is_int(rows(k, "SELECT count(*) FROM metric_chunk WHERE series NOT IN (SELECT id FROM metric_series)"), 0,
	       "no chunk is left behind");
	ok(!store_metric_json(r, 2, "big", 0, 0, 0, &e) && e.code == ERR_NOT_FOUND, "the series is gone");
	is_str(e.text, "the metrics of job 2 were removed by retention on 2026-09-21",
	       "with who took it, and when");
	ok(!store_metrics_json(r, 2, -1, 0, &e) && e.code == ERR_NOT_FOUND, "so is the list");
	j = store_job_json(r, 2, &e);
	ok(field(cJSON_GetObjectItem(cJSON_GetObjectItem(j, "metrics"), "big"), "count") == 250001,
	   "the record keeps its summary, with the last points");
	cJSON_Delete(j);
}

/* A job with many series is a question for workers. */
static void test_large(struct kit *k, struct store_reader *r)
{
	struct store_txn *t = store_txn_new();
	struct err e;

	put(k, chunk(4, 0, "loss", 1, 0, 1));
	is_int(store_job_is_large(r, 4, &e), 0, "a job with one series is small");
	for (uint32_t rank = 0; rank < 600; rank++) {
		struct metric_chunk c = chunk(4, rank, "m", 2 + rank, 0, 1);

		store_txn_metric(t, &c);
	}
	is_int(kit_commit(k, t, &e), 0, "600 series");
	is_int(store_job_is_large(r, 4, &e), 1, "make it large");
	is_int(store_job_is_large(r, 99, &e), 0, "an unknown job is small");
}

int main(void)
{
	struct store_reader *r;
	struct kit k;

	fill();
	kit_open(&k, "metric");
	kit_submit(&k, 1, NULL);
	kit_submit(&k, 2, NULL);
	kit_submit(&k, 3, NULL);
	r = kit_reader(&k);
	test_repetition(&k, r);
	test_strange(&k, r);
	test_merge(&k, r);
	test_downsample(&k, r);
	test_drop(&k, r);
	test_which(&k, r);
	kit_submit(&k, 4, NULL);
	test_large(&k, r);
	store_reader_close(r);
	kit_close(&k);
	return tap_done();
}
