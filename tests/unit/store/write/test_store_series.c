/* series against plain arrays: batches by chance from two nodes, some sent twice, over restarts, merges and
 * the ends of jobs; each point, each bucket, each summary, and what stays when retention has taken the
 * series. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/read/verify.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define JOBS     3
#define ATTEMPTS 2
#define RANKS    3
#define NODES    2
#define NAMES    3
#define MAX      12000 /* points of one series */

struct series {
	size_t n;
	double *v; /* MAX each */
	int64_t *step;
	uint64_t *at;
};

static struct series all[JOBS][ATTEMPTS][RANKS][NODES][NAMES];
static const char *const names[NAMES] = {"loss", "acc", "a/b/c"};
static const char *const nodes[NODES] = {"n1", "n2"};
static uint64_t seq, clock_us = KIT_T0, next_event = 100;

static double any_value(void)
{
	static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 5e-324, 1e308};

	return kit_random(8) ? (double)kit_random(2000000) / 1e3 - 1000 : odd[kit_random(7)];
}

/* n points more of one series, as a chunk that points to them. */
static struct metric_chunk grow(uint64_t j, uint32_t a, uint32_t r, int node, int name, size_t n)
{
	struct series *s = &all[j][a][r][node][name];
	size_t from = s->n;

	if (!s->v) {
		s->v = calloc(MAX, sizeof(*s->v));
		s->step = calloc(MAX, sizeof(*s->step));
		s->at = calloc(MAX, sizeof(*s->at));
	}
	n = n < MAX - from ? n : MAX - from;
	for (; s->n < from + n; s->n++) {
		s->v[s->n] = any_value();
		s->step[s->n] = kit_random(9) ? (int64_t)s->n : -1;
		s->at[s->n] = ++clock_us;
	}
	return (struct metric_chunk){j + 1,       a + 1,        r,   C(names[name]), (uint32_t)n, s->step + from,
	                             s->v + from, s->at + from, seq, C(nodes[node])};
}

/* One batch of a node: a few series, some in two chunks; now and then all of it twice, at once or later. */
static void send_batch(struct kit *k)
{
	struct metric_chunk c[16];
	int node = (int)kit_random(NODES), n = 0, again = (int)kit_random(4);
	struct store_txn *t = store_txn_new();
	struct err e;

	seq++;
	for (int i = 0; i < 4; i++) {
		uint64_t j = kit_random(JOBS), size = kit_random(30) ? kit_random(40) : kit_random(6000);
		uint32_t a = (uint32_t)kit_random(ATTEMPTS), r = (uint32_t)kit_random(RANKS);
		int name = (int)kit_random(NAMES);

		/* of one node mostly: the other one was replaced before its start */
		c[n++] = grow(j, a, r, kit_random(9) ? (int)((j + r) % NODES) : node, name, size);
		if (kit_random(3) == 0)
			c[n++] = grow(j, a, r, node, name, kit_random(5));
	}
	for (int twice = 0; twice < 1 + (again == 0); twice++)
		for (int i = 0; i < n; i++)
			store_txn_metric(t, &c[i]);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("%s", e.text);
	if (again != 1)
		return;
	t = store_txn_new();
	for (int i = 0; i < n; i++)
		store_txn_metric(t, &c[i]);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("%s", e.text);
}

static void end_job(struct kit *k, uint64_t id, const char *status)
{
	struct event_row ev = kit_event(next_event++, id, C("changed"));
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct err e;

	r.status = C(status);
	r.ended_us = KIT_T0;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("%s", e.text);
}

/* ---- one series ---------------------------------------------------------------------------------------- */

static double real(const cJSON *v)
{
	if (cJSON_IsString(v))
		return strcmp(v->valuestring, "inf") == 0    ? INFINITY
		       : strcmp(v->valuestring, "-inf") == 0 ? -INFINITY
		                                             : NAN;
	return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static int same(double a, double b)
{
	return (isnan(a) && isnan(b)) || (a >= b && a <= b);
}

static int same_step(const cJSON *v, int64_t step)
{
	return step < 0 ? cJSON_IsNull(v) : cJSON_IsNumber(v) && v->valuedouble == (double)step;
}

static int same_raw(const cJSON *points, const struct series *s)
{
	const cJSON *p = points->child;

	for (size_t i = 0; i < s->n; i++, p = p->next)
		if (!p || !same_step(cJSON_GetArrayItem(p, 0), s->step[i]) ||
		    !same(real(cJSON_GetArrayItem(p, 1)), (double)s->at[i] / 1e6) ||
		    !same(real(cJSON_GetArrayItem(p, 2)), s->v[i]))
			return 0;
	return !p;
}

static int same_buckets(const cJSON *points, const struct series *s, size_t most)
{
	const cJSON *p = points->child;
	size_t i = 0;

	for (size_t b = 0; b < most; b++, p = p->next) {
		size_t first = i, nan = 0;
		long double sum = 0;
		double min = NAN, max = NAN;

		for (; i < s->n && i * most / s->n == b; i++) {
			nan += isnan(s->v[i]) != 0;
			sum += isnan(s->v[i]) ? 0 : s->v[i];
			min = fmin(min, s->v[i]);
			max = fmax(max, s->v[i]);
		}
		if (!p || !same_step(cJSON_GetArrayItem(p, 0), s->step[first]) ||
		    !same(real(cJSON_GetArrayItem(p, 2)),
		          i - first > nan ? (double)(sum / (long double)(i - first - nan)) : NAN) ||
		    !same(real(cJSON_GetArrayItem(p, 3)), min) || !same(real(cJSON_GetArrayItem(p, 4)), max) ||
		    !same(real(cJSON_GetArrayItem(p, 5)), (double)(i - first)) ||
		    !same(real(cJSON_GetArrayItem(p, 6)), (double)nan))
			return 0;
	}
	return !p;
}

static int bad_series(struct store_reader *r, uint64_t j, uint32_t a, uint32_t rank, int name)
{
	const struct series *s = &all[j][a][rank][0][name];
	uint32_t most = 1 + (uint32_t)kit_random(50);
	struct err e;
	cJSON *o = store_metric_json(r, j + 1, names[name], (int32_t)rank, a + 1, 0, &e), *few;
	int bad;

	if (!s->n) /* the first node that has it */
		s = &all[j][a][rank][1][name];
	if (!s->n)
		return o || e.code != ERR_NOT_FOUND;
	bad = kit_num(o, "count") != (double)s->n || !cJSON_IsTrue(kit_at(o, "raw")) ||
	      !same_raw(kit_at(o, "points"), s) || !same(real(kit_at(o, "last")), s->v[s->n - 1]) ||
	      !same_step(kit_at(o, "step"), s->step[s->n - 1]);
	cJSON_Delete(o);
	if (s->n <= most)
		return bad;
	few = store_metric_json(r, j + 1, names[name], (int32_t)rank, a + 1, most, &e);
	bad += !cJSON_IsFalse(kit_at(few, "raw")) || !same_buckets(kit_at(few, "points"), s, most);
	cJSON_Delete(few);
	return bad;
}

/* ---- the summary ------------------------------------------------------------------------------------------
 */

struct sum {
	size_t n;
	double last, min, max;
	int64_t step;
	uint64_t at, ranks;
};

static struct sum sum_of(uint64_t j, uint32_t a, uint32_t rank, int name)
{
	struct sum m = {.min = NAN, .max = NAN};

	for (int node = 0; node < NODES; node++) {
		const struct series *s = &all[j][a][rank][node][name];

		for (size_t i = 0; i < s->n; i++) {
			m.min = fmin(m.min, s->v[i]);
			m.max = fmax(m.max, s->v[i]);
		}
		if (s->n && s->at[s->n - 1] > m.at) {
			m.at = s->at[s->n - 1];
			m.last = s->v[s->n - 1];
			m.step = s->step[s->n - 1];
		}
		m.n += s->n;
	}
	for (uint32_t r = 0; r < RANKS; r++)
		m.ranks += all[j][a][r][0][name].n || all[j][a][r][1][name].n;
	return m;
}

/* The newest attempt, and there the lowest rank, or the one that is asked for; 0: none has it. */
static int pick(uint64_t j, int32_t rank, uint32_t attempt, int name, uint32_t *a, uint32_t *r)
{
	for (*a = ATTEMPTS; (*a)-- > 0;)
		for (*r = 0; *r < RANKS; ++*r)
			if ((!attempt || attempt == *a + 1) && (rank < 0 || (uint32_t)rank == *r) &&
			    sum_of(j, *a, *r, name).n)
				return 1;
	return 0;
}

static int same_sum(const cJSON *o, uint64_t j, int32_t rank, uint32_t attempt, int name)
{
	uint32_t a, r;
	struct sum m;

	if (!pick(j, rank, attempt, name, &a, &r))
		return o == NULL;
	m = sum_of(j, a, r, name);
	return kit_num(o, "count") == (double)m.n && same(real(kit_at(o, "last")), m.last) &&
	       same(real(kit_at(o, "min")), m.min) && same(real(kit_at(o, "max")), m.max) &&
	       same_step(kit_at(o, "step"), m.step) && kit_num(o, "attempt") == a + 1 &&
	       kit_num(o, "rank") == r && kit_num(o, "ranks") == (double)m.ranks;
}

static int bad_sums(struct store_reader *r, uint64_t j)
{
	struct err e;
	int bad = 0;

	for (int32_t rank = -1; rank <= RANKS; rank++)
		for (uint32_t a = 0; a <= ATTEMPTS + 1; a++) {
			cJSON *o = store_metrics_json(r, j + 1, rank, a, &e);

			for (int name = 0; name < NAMES; name++)
				bad += !o || !same_sum(cJSON_GetObjectItemCaseSensitive(o, names[name]), j, rank, a, name);
			cJSON_Delete(o);
		}
	return bad;
}

static void check(struct kit *k, const char *when)
{
	struct store_reader *r = kit_reader(k);
	int bad = 0, sums = 0;
	size_t points = 0;

	for (uint64_t j = 0; j < JOBS; j++) {
		for (uint32_t a = 0; a < ATTEMPTS; a++)
			for (uint32_t rank = 0; rank < RANKS; rank++)
				for (int name = 0; name < NAMES; name++) {
					bad += bad_series(r, j, a, rank, name) != 0;
					points += all[j][a][rank][0][name].n + all[j][a][rank][1][name].n;
				}
		sums += bad_sums(r, j);
	}
	ok(!bad, "%s: each series is its points, whole and in buckets (%zu points)", when, points);
	ok(!sums, "%s: each summary is that of the right rank of the right attempt", when);
	store_reader_close(r);
}

/* What the record says when the series are gone is what they said. */
static void check_dropped(struct kit *k, uint64_t j)
{
	struct store_txn *t = store_txn_new();
	struct store_reader *r = kit_reader(k);
	struct err e;
	cJSON *o;
	int bad = 0;

	store_txn_retire(t, j + 1, STORE_METRICS, KIT_T0);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("%s", e.text);
	o = store_job_json(r, j + 1, &e);
	for (int name = 0; name < NAMES; name++)
		bad += !same_sum(cJSON_GetObjectItemCaseSensitive(kit_at(o, "metrics"), names[name]), j, -1, 0, name);
	ok(o && !bad, "the record keeps the summary of series that retention took");
	cJSON_Delete(o);
	ok(!store_metrics_json(r, j + 1, -1, 0, &e) && strstr(e.text, "by retention"), "which it says");
	is_int(kit_number(k->path, "SELECT count(*) FROM metric_series WHERE job = 1"), 0, "no series is left");
	is_int(kit_number(k->path,
	                  "SELECT count(*) FROM metric_chunk WHERE series NOT IN (SELECT id FROM metric_series)"),
	       0, "no chunk without one");
	store_reader_close(r);
}

static void forget(void)
{
	struct series *s = &all[0][0][0][0][0];

	for (size_t i = 0; i < sizeof(all) / sizeof(*s); i++) {
		free(s[i].v);
		free(s[i].step);
		free(s[i].at);
	}
	memset(all, 0, sizeof(all));
}

static void on_finding(const char *line, void *arg)
{
	if (strncmp(line, "skipped", 7) != 0) {
		tap_diag("%s", line);
		++*(int *)arg;
	}
}

static int no_dirty(void *arg)
{
	return kit_number(((struct kit *)arg)->path, "SELECT count(*) FROM metric_dirty") == 0;
}

static void test_model(void)
{
	struct err e;
	int found = 0;
	struct kit k;

	kit_seed("series");
	kit_open(&k, "series");
	for (uint64_t id = 1; id <= JOBS; id++)
		kit_submit(&k, id, NULL);
	for (int round = 0; round < 300; round++) {
		send_batch(&k);
		if (round % 60 == 59) {
			kit_close(&k);
			kit_reopen(&k);
		}
		if (round % 40 == 20)
			end_job(&k, 2, "completed"); /* merged; then it goes on */
		if (round % 40 == 35)
			end_job(&k, 2, "queued");
	}
	check(&k, "under way");
	kit_wait_projected(&k);
	kit_wait(&k, no_dirty, &k, "summaries");
	check(&k, "settled");
	for (uint64_t id = 1; id <= JOBS; id++)
		end_job(&k, id, "failed");
	kit_wait_projected(&k);
	check(&k, "ended");
	is_int(kit_number(k.path, "SELECT max(open) FROM metric_series") <= 1, 1, "what was open is merged");
	ok(store_verify(k.path, on_finding, &found, &e) == 0, "and sound");
	check_dropped(&k, 0);
	kit_close(&k);
}

/* A chunk that is damaged is told, and stops neither what is written behind nor the other series. */
static void test_damaged(void)
{
	struct store_txn *t = store_txn_new();
	struct store_reader *r;
	struct err e;
	struct kit k;
	cJSON *o;

	forget();
	kit_open(&k, "damaged");
	next_event = 100;
	kit_submit(&k, 1, NULL);
	for (int i = 0; i < 3; i++) {
		struct metric_chunk a, b;

		seq++;
		a = grow(0, 0, 0, 0, 0, 20);
		b = grow(0, 0, 1, 0, 1, 20);
		store_txn_metric(t, &a);
		store_txn_metric(t, &b);
	}
	kit_commit(&k, t, &e);
	kit_wait(&k, no_dirty, &k, "summaries");
	kit_sql(k.path, "UPDATE metric_chunk SET data = x'01ff' WHERE first = 20 AND series = (SELECT id FROM "
	                "metric_series WHERE name = 'loss')");
	end_job(&k, 1, "completed");
	kit_wait_projected(&k);
	r = kit_reader(&k);
	ok(!store_metric_json(r, 1, "loss", 0, 1, 0, &e) && e.code == ERR_IO && strstr(e.text, "damaged"),
	   "no half of a series: %s", e.text);
	is_int(bad_series(r, 0, 0, 1, 1), 0, "the other one is whole");
	ok((o = store_metrics_json(r, 1, -1, 0, &e)) && kit_num(o, "loss.count") == 60,
	   "what was summed up is there");
	cJSON_Delete(o);
	is_int(kit_number(k.path, "SELECT open FROM metric_series WHERE name = 'loss'"), 3,
	       "the damaged one is left as it is");
	is_int(kit_number(k.path, "SELECT open FROM metric_series WHERE name = 'acc'"), 1,
	       "the other one is merged");
	store_reader_close(r);
	kit_close(&k);
}

int main(void)
{
	test_model();
	test_damaged();
	forget();
	return tap_done();
}
