#include "tests/unit/store/write/powerkit.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "store/read/load.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/read/verify.h"
#include "store/store.h"
#include "store/write/backup.h"
#include "tests/lib/tap.h"

/* ---- the transactions ------------------------------------------------------------------------------- */

static size_t large = 200000; /* bytes of the second job's specification */

static void add_job(struct store_txn *t, unsigned step, uint64_t job, const char *status)
{
	struct job_row r = kit_job(job);
	char *big = NULL;

	r.status = C(status);
	r.attempts = strcmp(status, "queued") != 0;
	r.started_us = r.attempts ? KIT_T0 + step : 0;
	if (strcmp(status, "completed") == 0) {
		r.ended_us = KIT_T0 + step;
		r.exit_code = 0;
	}
	/* One specification that does not fit into a page, one that fills many. */
	if (job % 3 == 2) {
		size_t n = job == 2 ? large : 9000;

		big = xcalloc(1, n + 1);
		memset(big, 'x', n);
		r.notes = C("large");
		r.spec = xasprintf("{\"name\":\"digits\",\"command\":[\"/bin/true\"],\"environment\":{\"A\":\"%s\"}}",
		                   big);
	}
	store_txn_job(t, &r);
	if (big)
		free(r.spec);
	free(big);
}

static void add_attempt(struct store_txn *t, unsigned step, uint64_t job, int ended)
{
	struct attempt_row a = {.job = job,
	                        .number = 1,
	                        .epoch = step,
	                        .state = C(ended ? "ended" : "running"),
	                        .outcome = C(ended ? "succeeded" : ""),
	                        .cls = C(""),
	                        .reason = C(""),
	                        .cause = C("submitted"),
	                        .launch_id = C("L"),
	                        .token = C("T"),
	                        .placement = C("[]"),
	                        .resumed_from_step = -1,
	                        .phases = C("[]"),
	                        .started_us = KIT_T0 + step,
	                        .ended_us = ended ? KIT_T0 + step : 0};

	store_txn_attempt(t, &a);
}

static void add_ranks(struct store_txn *t, unsigned step, uint64_t job, const char *state)
{
	for (uint32_t rank = 0; rank < 3; rank++) {
		struct rank_row r = {.job = job,
		                     .attempt = 1,
		                     .rank = rank,
		                     .node = C("a"),
		                     .local_rank = rank,
		                     .state = C(state),
		                     .pid = step,
		                     .text = C("")};

		store_txn_rank(t, &r);
	}
}

static void add_points(struct store_txn *t, unsigned step, uint64_t job)
{
	int64_t steps[2] = {(int64_t)step, (int64_t)step + 1};
	double values[2] = {1.0 / step, -1.0 * step};
	uint64_t times[2] = {KIT_T0, KIT_T0 + step};
	struct metric_chunk c = {.job = job,
	                         .attempt = 1,
	                         .name = C("loss"),
	                         .n = 2,
	                         .steps = steps,
	                         .values = values,
	                         .times_us = times,
	                         .seq = step,
	                         .node = C("a")};

	store_txn_metric(t, &c);
}

static void add_files(struct store_txn *t, unsigned step, uint64_t job)
{
	struct artifact_row a = {.job = job,
	                         .attempt = 1,
	                         .kind = C("model"),
	                         .node = C("a"),
	                         .uri = C("s3://x/y"),
	                         .size_bytes = step,
	                         .files = 1,
	                         .at_us = KIT_T0 + step};
	char id[16];
	struct token_row k = {
	    .id = id, .kind = C("job"), .secret_hash = C("00"), .owner = C("alice"), .job = job};

	snprintf(id, sizeof(id), "t%u", step);
	store_txn_artifact(t, &a);
	store_txn_token(t, &k);
}

static void add_node(struct store_txn *t, unsigned step)
{
	struct node_row n = {.id = 1,
	                     .name = C("a"),
	                     .address = C("10.0.0.1"),
	                     .state = C("up"),
	                     .reason = C(""),
	                     .cert_fingerprint = C(""),
	                     .inventory = C("{}"),
	                     .joined_us = KIT_T0,
	                     .seen_us = KIT_T0 + step};
	struct tag_row g = {.job = (step - 1) / 6 + 1, .key = C("late"), .value = C("yes")};

	store_txn_node(t, &n);
	store_txn_tag(t, &g);
}

struct store_txn *life_txn(unsigned step)
{
	struct store_txn *t = store_txn_new();
	uint64_t job = (step - 1) / 6 + 1;
	struct event_row ev = kit_event(step, job, C("step"));
	char key[32], value[32];

	store_txn_event(t, &ev);
	switch ((step - 1) % 6) {
	case 0:
		add_job(t, step, job, "queued");
		break;
	case 1:
		add_job(t, step, job, "starting");
		add_attempt(t, step, job, 0);
		add_node(t, step);
		break;
	case 2:
		add_job(t, step, job, "running");
		add_ranks(t, step, job, "running");
		store_txn_run_info(t, job, 1, "a", "mpirun", "mpirun -np 3 x");
		break;
	case 3:
		add_points(t, step, job);
		break;
	case 4:
		add_files(t, step, job);
		add_points(t, step, job);
		break;
	default:
		add_job(t, step, job, "completed");
		add_attempt(t, step, job, 1);
		add_ranks(t, step, job, "exited");
		if (job == 4)
			store_txn_drop(t, job, STORE_METRICS, KIT_T0 + step);
		break;
	}
	snprintf(key, sizeof(key), "last-%" PRIu64, job);
	snprintf(value, sizeof(value), "%u", step);
	store_txn_setting(t, key, value);
	return t;
}

/* ---- what is there ------------------------------------------------------------------------------------ */

/* A long one by its length and a sum. */
static void dump_text(const char *text, FILE *out)
{
	size_t n = strlen(text);
	uint64_t sum = 14695981039346656037u;

	if (n < 1000) {
		fprintf(out, "|%s", text);
		return;
	}
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ (uint8_t)text[i]) * 1099511628211u;
	fprintf(out, "|%zu bytes, %016" PRIx64, n, sum);
}

static void dump_table(sqlite3 *db, const char *table, FILE *out)
{
	char *sql = xasprintf("SELECT * FROM %s ORDER BY 1, 2", table);
	sqlite3_stmt *st = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		tap_bail("%s: %s", table, sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW) {
		fputs(table, out);
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			const char *text = (const char *)sqlite3_column_text(st, i);

			dump_text(text ? text : "NULL", out);
		}
		fputc('\n', out);
	}
	sqlite3_finalize(st);
	free(sql);
}

static void dump_points(const char *path, FILE *out)
{
	struct err e;
	struct store_reader *r = store_reader_open(path, &e);

	if (!r)
		tap_bail("%s", e.text);
	for (uint64_t job = 1; job <= LIFE_STEPS / 6; job++) {
		cJSON *points = store_metric_json(r, job, "loss", 0, 1, 0, &e);
		char *text = points ? cJSON_PrintUnformatted(points) : NULL;

		fprintf(out, "points of job %" PRIu64 ": %s\n", job, text ? text : e.text);
		cJSON_free(text);
		cJSON_Delete(points);
	}
	store_reader_close(r);
}

char *life_dump(const char *path)
{
	static const char *const tables[] = {"event", "job",      "job_spec", "attempt", "rank",     "node",
	                                     "tag",   "artifact", "token",    "setting", "run_info", "dropped"};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	sqlite3 *db;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		tap_bail("%s: %s", path, sqlite3_errmsg(db));
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		dump_table(db, tables[i], out);
	sqlite3_close(db);
	dump_points(path, out);
	fclose(out);
	return text;
}

static char *dumps[LIFE_STEPS + 1];

void life_large(size_t bytes)
{
	large = bytes;
	for (unsigned step = 0; step <= LIFE_STEPS; step++) {
		free(dumps[step]);
		dumps[step] = NULL;
	}
}

const char *const *life_expected(void)
{
	struct kit k;
	struct err e;

	if (dumps[0])
		return (const char *const *)dumps;
	kit_open(&k, large > 1000000 ? "expected-large" : "expected");
	dumps[0] = life_dump(k.path);
	for (unsigned step = 1; step <= LIFE_STEPS; step++) {
		if (kit_commit(&k, life_txn(step), &e) < 0)
			tap_bail("step %u: %s", step, e.text);
		dumps[step] = life_dump(k.path);
	}
	kit_close(&k);
	return (const char *const *)dumps;
}

/* ---- the check ------------------------------------------------------------------------------------------
 */

struct found {
	char *why;
	size_t size;
};

static void on_finding(const char *line, void *arg)
{
	struct found *f = arg;

	if (strncmp(line, "skipped:", 8) != 0)
		snprintf(f->why, f->size, "verify: %s", line);
}

static int sound(const char *path, char *why, size_t size)
{
	struct found f = {why, size};
	struct err e;
	int n = store_verify(path, on_finding, &f, &e);

	if (n < 0)
		snprintf(why, size, "verify: %s", e.text);
	return n == 0 ? 0 : -1;
}

/* The line in which the two differ first. */
static void difference(const char *got, const char *want, char *why, size_t size)
{
	size_t line = 0;

	for (size_t i = 0; got[i] && got[i] == want[i]; i++)
		if (got[i] == '\n')
			line = i + 1;
	snprintf(why, size, "got \"%.60s\", want \"%.60s\"", got + line, want + line);
}

static int compare(const char *path, unsigned there, char *why, size_t size)
{
	char *got = life_dump(path);
	int same = strcmp(got, life_expected()[there]) == 0;

	if (!same)
		difference(got, life_expected()[there], why, size);
	free(got);
	return same ? 0 : -1;
}

int life_check(const char *path, unsigned acked, char *why, size_t size)
{
	struct kit k = {.clock = clock_real()};
	struct store_config c = {.path = k.path, .clock = k.clock};
	uint64_t job, there, node;
	struct err e;
	int rc = 0;

	snprintf(k.path, sizeof(k.path), "%s", path);
	k.loop = loop_create();
	k.store = store_open(&c, k.loop, &e);
	if (!k.store) {
		snprintf(why, size, "does not open: %s", e.text);
		loop_destroy(k.loop);
		return -1;
	}
	if (store_max_ids(k.store, &job, &there, &node, &e) < 0)
		tap_bail("%s", e.text);
	if (there < acked || there > LIFE_STEPS) {
		snprintf(why, size, "%u acknowledged, %u there", acked, (unsigned)there);
		rc = -1;
	}
	if (rc == 0)
		rc = compare(path, (unsigned)there, why, size);
	if (rc == 0)
		rc = sound(path, why, size);
	if (rc == 0 && there < LIFE_STEPS && kit_commit(&k, life_txn((unsigned)there + 1), &e) < 0) {
		snprintf(why, size, "the next transaction: %s", e.text);
		rc = -1;
	}
	kit_close(&k);
	if (rc == 0 && store_rebuild(path, &e) < 0) {
		snprintf(why, size, "rebuild: %s", e.text);
		rc = -1;
	}
	return rc == 0 ? sound(path, why, size) : rc;
}
