/* arrays and sweeps: members by number, how they stand, the table with the metric that they are compared by,
 * what they cost, against the same made slowly from what the test put in. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/find.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define MEMBERS 30
#define MADE    24 /* of them */
#define ARRAY   100ull
#define SPEC(goal)                                                                                           \
	"{\"name\":\"s\",\"command\":[\"x\"],\"sweep\":{\"lr\":[0,1,2,3,4,5],\"api_token\":[\"a\",\"b\",\"c\","  \
	"\"d\",\"e\"]},\"search\":{"                                                                             \
	"\"metric\":\"loss\",\"goal\":\"" goal "\"}}"

struct member {
	const char *status;
	int reported; /* it has a metric */
	double last, min, max, paid, hourly;
	int64_t step;
};

static struct member model[MADE];
static uint64_t next_event = 1;
static const char *const statuses[] = {"held",      "queued", "starting", "running",
                                       "completed", "failed", "stopped",  NULL};

static void put_job(struct store_txn *t, uint64_t id, uint64_t array, uint32_t members, const char *status,
                    const char *spec)
{
	struct event_row ev = kit_event(next_event++, id, C("x"));
	struct job_row r = kit_job(id);

	r.array = array;
	r.members = members;
	r.status = C(status);
	r.rungs = id % 3 ? C("0.5 inf 1e3") : id % 2 ? C("") : NULL;
	r.spec = C(spec);
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
}

static double any_value(void)
{
	return kit_random(6) ? (double)kit_random(7) - 3 : kit_random(2) ? NAN : INFINITY;
}

static void put_points(struct store_txn *t, uint64_t id, uint32_t attempt, uint32_t rank, const char *node,
                       struct member *m)
{
	double v[3];
	int64_t step[3];
	uint64_t at[3];
	static uint64_t seq, now = KIT_T0;
	struct metric_chunk c = {id,   attempt, rank, C("loss"), 1 + (uint32_t)kit_random(3),
	                         step, v,       at,   ++seq,     C(node)};

	for (uint32_t i = 0; i < c.n; i++) {
		v[i] = any_value();
		step[i] = kit_random(5) ? (int64_t)kit_random(100) : -1;
		at[i] = ++now;
		if (!m)
			continue;
		m->last = v[i];
		m->step = step[i];
		m->min = m->reported++ ? fmin(m->min, v[i]) : v[i];
		m->max = m->reported > 1 ? fmax(m->max, v[i]) : v[i];
	}
	store_txn_metric(t, &c);
}

static void put_attempt(struct store_txn *t, uint64_t id, uint32_t number, struct member *m)
{
	struct attempt_row a = {.job = id,
	                        .number = number,
	                        .state = C("x"),
	                        .price_uusd = kit_random(4) * 500000,
	                        .started_us = KIT_T0,
	                        .ended_us = KIT_T0 + kit_random(5) * 1800000000ull,
	                        .account = C("q/@alice")};

	store_txn_attempt(t, &a);
	m->paid += (double)a.price_uusd * (double)(a.ended_us - a.started_us) / 3.6e15;
}

static void fill(struct kit *k, const char *spec)
{
	struct store_txn *t = store_txn_new();
	struct err e;

	memset(model, 0, sizeof(model));
	put_job(t, ARRAY, 0, MEMBERS, "running", spec);
	for (uint64_t i = 0; i < MADE; i++) {
		struct member *m = &model[i];
		uint64_t id = ARRAY + 1 + i;

		m->status = kit_pick(statuses);
		put_job(t, id, ARRAY, 0, m->status, "{}");
		put_attempt(t, id, 1, m);
		if (kit_random(4) == 0)
			continue;
		put_points(t, id, 1, 0, "n1", NULL); /* an older attempt, a higher rank: none of what counts */
		put_points(t, id, 2, 1, "n1", NULL);
		put_points(t, id, 2, 0, "n2", m);
		if (kit_random(3) == 0)
			put_points(t, id, 2, 0, "n1", m); /* went on on another node */
		put_attempt(t, id, 2, m);
	}
	put_job(t, ARRAY + MEMBERS + 1, 0, 0, "running", "{}"); /* somebody else's */
	put_points(t, ARRAY + MEMBERS + 1, 1, 0, "n1", NULL);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("%s", e.text);
}

/* ---- the table -------------------------------------------------------------------------------------------
 */

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

static int is_before(size_t a, size_t b, int max)
{
	double x = !model[a].reported ? NAN
	           : max              ? model[a].max
	                              : model[a].min,
	       y = !model[b].reported ? NAN
	           : max              ? model[b].max
	                              : model[b].min;

	if (isnan(x) || isnan(y) || same(x, y))
		return isnan(x) == isnan(y) ? a < b : isnan(y);
	return max ? x > y : x < y;
}

/* The place of member i in the table. */
static int place_of(size_t i, int max)
{
	int place = 0;

	for (size_t k = 0; k < MADE; k++)
		place += k != i && is_before(k, i, max);
	return place;
}

static int same_metric(const cJSON *o, const struct member *m, int max)
{
	if (!m->reported || (m->step < 0 && isnan(m->last) && isnan(m->min)))
		return cJSON_IsNull(o);
	return same(real(kit_at(o, "best")), max ? m->max : m->min) && same(real(kit_at(o, "last")), m->last) &&
	       same(real(kit_at(o, "min")), m->min) && same(real(kit_at(o, "max")), m->max) &&
	       (m->step < 0 ? cJSON_IsNull(kit_at(o, "step")) : kit_num(o, "step") == (double)m->step);
}

static int bad_row(const cJSON *row, size_t i, int max, int compared)
{
	char ref[32];

	snprintf(ref, sizeof(ref), "100.%zu", i);
	return kit_num(row, "id") != (double)(ARRAY + 1 + i) || strcmp(kit_str(row, "ref"), ref) != 0 ||
	       kit_num(row, "array.index") != (double)i || strcmp(kit_str(row, "status"), model[i].status) != 0 ||
	       kit_num(row, "values.lr") != (double)(i / 5) ||
	       strcmp(kit_str(row, "values.api_token"), "***") != 0 ||
	       cJSON_GetArraySize(kit_at(row, "rungs")) != ((ARRAY + 1 + i) % 3 ? 3 : 0) ||
	       (compared && !same_metric(kit_at(row, "metric"), &model[i], max));
}

static void check_table(struct store_reader *r, int max, const char *when)
{
	struct err e;
	int bad = 0;

	for (uint32_t limit = 0; limit <= MADE + 1; limit += 5) {
		cJSON *j = store_members_json(r, ARRAY, NULL, limit, &e),
		      *plain = store_members_json(r, ARRAY, "nothing", limit, &e);
		uint32_t rows = limit && limit < MADE ? limit : MADE;

		bad += cJSON_GetArraySize(kit_at(j, "members")) != (int)rows || kit_num(j, "made") != MADE ||
		       strcmp(kit_str(j, "goal"), max ? "max" : "min") != 0 ||
		       strcmp(kit_str(j, "metric"), "loss") != 0;
		for (size_t i = 0; i < MADE; i++) {
			int place = place_of(i, max);

			if (place < (int)rows)
				bad += bad_row(cJSON_GetArrayItem(kit_at(j, "members"), place), i, max, 1);
			if (i < rows)
				bad += bad_row(cJSON_GetArrayItem(kit_at(plain, "members"), (int)i), i, max, 0);
		}
		cJSON_Delete(j);
		cJSON_Delete(plain);
	}
	ok(!bad, "%s: the best come first, each with its own numbers", when);
}

/* A member's own page says the same of the metric. */
static void check_pages(struct store_reader *r, int max)
{
	struct err e;
	int bad = 0;

	for (size_t i = 0; i < MADE; i++) {
		cJSON *j = store_metrics_json(r, ARRAY + 1 + i, -1, 0, &e);
		const cJSON *o = kit_at(j, "loss");

		bad += model[i].reported ? !same(real(kit_at(o, "last")), model[i].last) ||
		                               !same(real(kit_at(o, "min")), model[i].min) ||
		                               !same(real(kit_at(o, "max")), model[i].max)
		                         : o != NULL;
		cJSON_Delete(j);
	}
	ok(!bad, "pages of members agree (%s)", max ? "max" : "min");
}

static void check_counts(struct store_reader *r, const char *array_status)
{
	static const char *const keys[] = {"waiting", "running", "completed", "failed", "stopped"};
	int n[5] = {0}, bad = 0, over = strcmp(array_status, "stopped") == 0;
	double paid = 0;
	struct err e;
	cJSON *j = store_job_json(r, ARRAY, &e);

	for (size_t i = 0; i < MADE; i++) {
		const char *s = model[i].status;
		int key = strcmp(s, "held") == 0 || strcmp(s, "queued") == 0 ? 0 : 1;

		for (int c = 2; c < 5; c++)
			key = strcmp(s, keys[c]) == 0 ? c : key;
		n[key]++;
		paid += model[i].paid;
	}
	n[over ? 4 : 0] += MEMBERS - MADE;
	for (int i = 0; i < 5; i++) {
		char path[32];

		snprintf(path, sizeof(path), "members.%s", keys[i]);
		bad += kit_num(j, path) != n[i];
	}
	ok(!bad && kit_num(j, "members.count") == MEMBERS, "members as they stand; those that were not made %s",
	   over ? "were stopped" : "wait");
	ok(fabs(kit_num(j, "cost_usd") - paid) < 1e-5, "what they cost: %g, %g", kit_num(j, "cost_usd"), paid);
	cJSON_Delete(j);
}

static void test_tables(void)
{
	static const char *const specs[] = {SPEC("min"), SPEC("max")};

	kit_seed("members");
	for (int max = 0; max < 2; max++) {
		struct store_txn *t = store_txn_new();
		struct store_reader *r;
		struct err e;
		struct kit k;

		kit_open(&k, max ? "max" : "min");
		fill(&k, specs[max]);
		r = kit_reader(&k);
		check_table(r, max, max ? "the greatest" : "the least");
		check_pages(r, max);
		check_counts(r, "running");
		put_job(t, ARRAY, 0, MEMBERS, "stopped", specs[max]);
		for (uint64_t i = 0; i < MADE; i++)
			store_txn_drop(t, ARRAY + 1 + i, STORE_METRICS, KIT_T0);
		if (kit_commit(&k, t, &e) < 0)
			tap_bail("%s", e.text);
		check_table(r, max, "by what stays when the series are gone");
		check_counts(r, "stopped");
		store_reader_close(r);
		kit_close(&k);
	}
}

/* ---- numbers and refusals
 * ----------------------------------------------------------------------------------- */

static void test_numbers(void)
{
	static const struct {
		uint64_t array;
		uint32_t index;
		enum err_code code;
		const char *text;
	} bad[] = {{100, MADE, ERR_UNAVAILABLE, "about to be made"},
	           {100, MEMBERS - 1, ERR_UNAVAILABLE, "member 29 of job 100"},
	           {100, MEMBERS, ERR_NOT_FOUND, "30 members: 100.0 to 100.29"},
	           {100, UINT32_MAX, ERR_NOT_FOUND, "30 members"},
	           {101, 0, ERR_NOT_FOUND, "has no members"},
	           {131, 0, ERR_NOT_FOUND, "has no members"},
	           {99, 0, ERR_NOT_FOUND, "no job 99"},
	           {200, 1, ERR_NOT_FOUND, "never made"}};
	struct store_txn *t = store_txn_new();
	struct store_reader *r;
	uint64_t job = 0;
	struct err e;
	struct kit k;

	kit_open(&k, "numbers");
	fill(&k, "{}");
	put_job(t, 200, 0, 3, "stopped", "{}");
	put_job(t, 201, 200, 0, "stopped", "{}");
	put_job(t, 202, 0, 0, "running", "{}"); /* a job of its own where a member never was */
	kit_commit(&k, t, &e);
	r = kit_reader(&k);
	for (uint32_t i = 0; i < MADE; i++)
		if (store_member_id(r, ARRAY, i, &job, &e) < 0 || job != ARRAY + 1 + i)
			tap_bail("member %u: %s", i, e.text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(store_member_id(r, bad[i].array, bad[i].index, &job, &e) < 0 && e.code == bad[i].code &&
		       strstr(e.text, bad[i].text),
		   "member %u of %" PRIu64 ": %s", bad[i].index, bad[i].array, e.text);
	ok(!store_members_json(r, 101, NULL, 0, &e) && e.code == ERR_CONFLICT, "a table of one job: %s", e.text);
	ok(!store_members_json(r, 99, NULL, 0, &e) && e.code == ERR_NOT_FOUND, "of none: %s", e.text);
	store_reader_close(r);
	kit_close(&k);
}

/* What another job costs, whose number lies among those of members that were never made, is not the array's.
 */
static void test_foreign_cost(void)
{
	struct cost_filter f = {.by = COST_BY_JOB, .job = 200, .now_us = KIT_T0 + 7200000000ull};
	struct store_txn *t = store_txn_new();
	struct store_reader *r;
	struct err e;
	struct kit k;
	cJSON *j;

	kit_open(&k, "foreign");
	put_job(t, 200, 0, 3, "stopped", "{}");
	put_job(t, 201, 200, 0, "stopped", "{}");
	put_job(t, 202, 0, 0, "running", "{}");
	for (uint64_t id = 201; id <= 202; id++)
		store_txn_attempt(t, &(struct attempt_row){.job = id,
		                                           .number = 1,
		                                           .state = C("x"),
		                                           .price_uusd = 1000000,
		                                           .started_us = KIT_T0,
		                                           .ended_us = KIT_T0 + 3600000000ull,
		                                           .account = C("q/@a")});
	kit_commit(&k, t, &e);
	r = kit_reader(&k);
	j = store_cost_json(r, &f, &e);
	ok(kit_num(j, "total_usd") == 1 && cJSON_GetArraySize(kit_at(j, "rows")) == 1, "its member's only: %g",
	   kit_num(j, "total_usd"));
	cJSON_Delete(j);
	j = store_job_json(r, 200, &e);
	ok(kit_num(j, "cost_usd") == 1, "its page says the same: %g", kit_num(j, "cost_usd"));
	cJSON_Delete(j);
	store_reader_close(r);
	kit_close(&k);
}

int main(void)
{
	test_tables();
	test_numbers();
	test_foreign_cost();
	return tap_done();
}
