#include "tests/unit/store/storekit.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "store/read/reader.h"
#include "store/store.h"
#include "tests/lib/tap.h"

void kit_reopen(struct kit *k)
{
	struct store_config c = {.path = k->path, .clock = k->clock, .marks = k->marks};
	struct err e;

	if (!k->loop)
		k->loop = loop_create();
	k->store = store_open(&c, k->loop, &e);
	if (!k->store)
		tap_bail("store_open: %s", e.text);
}

void kit_open(struct kit *k, const char *name)
{
	memset(k, 0, sizeof(*k));
	snprintf(k->path, sizeof(k->path), "%s/%s.db", tap_tmpdir(), name);
	k->clock = clock_real();
	kit_reopen(k);
}

void kit_close(struct kit *k)
{
	store_close(k->store);
	k->store = NULL;
	if (k->loop)
		loop_destroy(k->loop);
	k->loop = NULL;
}

void kit_wait(struct kit *k, int (*done)(void *arg), void *arg, const char *what)
{
	uint64_t end = clock_boot_us(clock_real()) + 60000000;

	while (!done(arg)) {
		if (clock_boot_us(clock_real()) > end)
			tap_bail("waited 60 s for %s", what);
		loop_run_once(k->loop, 20);
	}
}

struct waited {
	int done, rc;
	struct err *e;
};

static void on_done(int rc, const struct err *e, void *arg)
{
	struct waited *w = arg;

	w->done = 1;
	w->rc = rc;
	if (rc < 0 && w->e)
		*w->e = *e;
}

static int is_done(void *arg)
{
	return ((struct waited *)arg)->done;
}

void kit_on_result(int rc, const struct err *e, void *result)
{
	struct kit_result *r = result;

	r->done = 1;
	r->rc = rc;
	r->code = e ? e->code : ERR_NONE;
}

int kit_commit(struct kit *k, struct store_txn *t, struct err *e)
{
	struct waited w = {.e = e};

	if (store_commit(k->store, t, on_done, &w, e) < 0) {
		store_txn_free(t);
		return -1;
	}
	kit_wait(k, is_done, &w, "a commit");
	return w.rc;
}

static int is_projected(void *arg)
{
	struct store_stats st;

	store_stats(((struct kit *)arg)->store, &st);
	return st.projected_event == st.last_event;
}

void kit_wait_projected(struct kit *k)
{
	kit_wait(k, is_projected, k, "the projections");
}

struct job_row kit_job(uint64_t id)
{
	return (struct job_row){
	    .id = id,
	    .name = (char *)"digits",
	    .owner = (char *)"alice",
	    .experiment = (char *)"exp",
	    .notes = (char *)"",
	    .status = (char *)"queued",
	    .queue = (char *)"default",
	    .spec = (char *)KIT_SPEC,
	    .run = (char *)"{\"git\":\"abc\"}",
	    .created_us = KIT_T0 + id,
	    .queued_us = KIT_T0 + id,
	    .exit_code = -1,
	    .reason = (char *)"",
	    .wanted = (char *)"",
	    .epoch = 1,
	    .nodes = 2,
	    .gpus = 2,
	    .cleanup = (char *)"",
	};
}

struct event_row kit_event(uint64_t id, uint64_t job, char *type)
{
	return (struct event_row){
	    .id = id, .job = job, .at_us = KIT_T0 + id, .type = type, .data = (char *)"{\"a\":1}"};
}

void kit_submit(struct kit *k, uint64_t id, const char *spec)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, (char *)"submitted");
	struct err e;

	if (spec)
		r.spec = (char *)(uintptr_t)spec;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("submit: %s", e.text);
}

struct store_reader *kit_reader(struct kit *k)
{
	struct err e;
	struct store_reader *r = store_reader_open(k->path, &e);

	if (!r)
		tap_bail("store_reader_open: %s", e.text);
	return r;
}

/* ---- JSON, the file ---------------------------------------------------------------------------------- */

const cJSON *kit_at(const cJSON *v, const char *path)
{
	char part[64];
	size_t n;

	while (v && *path) {
		n = strcspn(path, ".");
		snprintf(part, sizeof(part), "%.*s", (int)n, path);
		v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, atoi(part)) : cJSON_GetObjectItemCaseSensitive(v, part);
		path += n + (path[n] == '.');
	}
	return v;
}

const char *kit_str(const cJSON *v, const char *path)
{
	const cJSON *s = kit_at(v, path);

	return cJSON_IsString(s) ? s->valuestring : NULL;
}

double kit_num(const cJSON *v, const char *path)
{
	const cJSON *n = kit_at(v, path);

	return cJSON_IsNumber(n) ? n->valuedouble : -12345;
}

static sqlite3 *open_file(const char *path)
{
	sqlite3 *db;

	if (sqlite3_open(path, &db) != SQLITE_OK)
		tap_bail("open %s: %s", path, sqlite3_errmsg(db));
	sqlite3_busy_timeout(db, 30000);
	return db;
}

void kit_sql(const char *path, const char *sql)
{
	sqlite3 *db = open_file(path);
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		tap_bail("%s: %s", sql, why ? why : "?");
	sqlite3_close(db);
}

char *kit_plan(const char *path, const char *sql)
{
	char *explain = xasprintf("EXPLAIN QUERY PLAN %s", sql), *all = xstrdup("");
	sqlite3 *db = open_file(path);
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, explain, -1, &st, NULL) != SQLITE_OK)
		tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW) {
		char *longer = xasprintf("%s%s; ", all, (const char *)sqlite3_column_text(st, 3));

		free(all);
		all = longer;
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	free(explain);
	return all;
}

int64_t kit_number(const char *path, const char *sql)
{
	sqlite3 *db = open_file(path);
	sqlite3_stmt *st;
	int64_t n;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
		tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

/* ---- by chance --------------------------------------------------------------------------------------- */

static uint64_t rng;

void kit_seed(const char *what)
{
	const char *s = getenv("HEARTH_SEED");

	rng = 0x9e3779b97f4a7c15ull * (s ? strtoull(s, NULL, 10) : 1) + strlen(what);
	for (; *what; what++)
		rng = rng * 31 + (unsigned char)*what;
	rng |= 1;
}

uint64_t kit_random(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % below;
}

char *kit_word(void)
{
	static const char *const letters[] = {"a", "b",  "B",  "c", "9",        " ",  "%", "_",
	                                      "'", "\"", "\\", "*", "\xc3\xa4", "\n", "."};
	static char words[8][32];
	static unsigned next;
	char *w = words[next++ % 8];

	*w = '\0';
	for (uint64_t n = kit_random(12); n > 0; n--)
		strncat(w, letters[kit_random(sizeof(letters) / sizeof(letters[0]))], 2);
	return w;
}

char *kit_word_or_null(void)
{
	return kit_random(4) ? kit_word() : NULL;
}

char *kit_pick(const char *const *list)
{
	size_t n = 0;

	while (list[n])
		n++;
	return C(list[kit_random(n)]);
}

/* ---- SQLite says no ---------------------------------------------------------------------------------- */

static struct {
	int armed, hit;
	enum kit_fail what;
	unsigned left;
} failing;

static int fails(enum kit_fail what)
{
	if (!failing.armed || failing.what != what || --failing.left)
		return 0;
	failing.armed = 0;
	failing.hit = 1;
	return 1;
}

/* Only in the middle of a statement: what SQLite interrupts at its end (of BEGIN and COMMIT: always) has been
 * done already. And a ROLLBACK, which nothing can hinder, is let through. */
static int on_ops(void *db)
{
	sqlite3_stmt *st = sqlite3_next_stmt(db, NULL);

	while (st && !sqlite3_stmt_busy(st))
		st = sqlite3_next_stmt(db, st);
	if (!st || (sqlite3_sql(st) && strcmp(sqlite3_sql(st), "ROLLBACK") == 0))
		return 0;
	return fails(KIT_FAIL_STEP);
}

/* Asked while a statement is made, first of all for what kind it is. */
static int on_action(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
	(void)arg, (void)b, (void)c, (void)d;
	if (action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE)
		return SQLITE_OK;
	if (action == SQLITE_TRANSACTION && strcmp(a, "ROLLBACK") == 0)
		return SQLITE_OK;
	return fails(KIT_FAIL_STATEMENT) ? SQLITE_DENY : SQLITE_OK;
}

void kit_fail_on(sqlite3 *db)
{
	sqlite3_progress_handler(db, 1, on_ops, db);
	sqlite3_set_authorizer(db, on_action, NULL);
}

static int on_connection(sqlite3 *db, char **why, const void *api)
{
	(void)why, (void)api;
	kit_fail_on(db);
	return SQLITE_OK;
}

void kit_fail_everywhere(int on)
{
	void (*fn)(void) = (void (*)(void))on_connection;

	if (on)
		sqlite3_auto_extension(fn);
	else
		sqlite3_cancel_auto_extension(fn);
}

void kit_fail_arm(enum kit_fail what, unsigned nth)
{
	failing.what = what;
	failing.left = nth;
	failing.hit = 0;
	failing.armed = 1;
}

int kit_fail_hit(void)
{
	failing.armed = 0;
	return failing.hit;
}

/* ---- a bit of everything ------------------------------------------------------------------------------ */

static uint64_t fill_event;

static void put_job(struct store_txn *t, const struct job_row *r, const char *type)
{
	struct event_row ev = kit_event(++fill_event, r->id, C(type));

	store_txn_event(t, &ev);
	store_txn_job(t, r);
}

static void fill_jobs(struct store_txn *t)
{
	static const char *const status[] = {"running", "completed", "failed", "stopped", "queued", "stopped"};

	for (uint64_t id = 1; id <= 6; id++) {
		struct job_row r = kit_job(id);

		put_job(t, &r, "submitted");
		r.status = C(status[id - 1]);
		r.ended_us = id == 1 || id == 5 ? 0 : KIT_T0 + id * 1000;
		r.attempts = id == 2 ? 2 : id == 1;
		r.pinned = id == 6;
		r.deleted = id == 4;
		r.bundle = id == 2 ? C("bundle-2") : NULL;
		put_job(t, &r, "changed");
	}
	for (uint64_t id = 10; id <= 12; id++) {
		struct job_row r = kit_job(id);

		r.members = id == 10 ? 3 : 0;
		r.array = id == 10 ? 0 : 10;
		r.attempts = id == 11;
		r.status = id == 11 ? C("failed") : C("running");
		r.ended_us = id == 11 ? KIT_T0 + 11 : 0;
		r.rungs = C("0.5");
		put_job(t, &r, "submitted");
	}
	store_txn_tag(t, &(struct tag_row){1, C("team"), C("speech")});
	store_txn_tag(t, &(struct tag_row){1, C("kind"), NULL});
	store_txn_drop(t, 3, STORE_LOGS | STORE_BUNDLE, KIT_T0 + 5);
	store_txn_drop(t, 4, STORE_ALL, KIT_T0 + 6);
}

static void fill_attempts(struct store_txn *t)
{
	static const uint64_t job[] = {1, 2, 2, 11};
	double v[2] = {1.5, -2};
	int64_t step[2] = {7, 8};
	uint64_t at[2] = {KIT_T0, KIT_T0 + 1};

	for (int i = 0; i < 4; i++) {
		uint32_t number = i == 2 ? 2 : 1;

		store_txn_attempt(
		    t, &(struct attempt_row){.job = job[i],
		                             .number = number,
		                             .state = C(i ? "ended" : "running"),
		                             .placement = C("[{\"node\":\"n1\",\"ranks\":2}]"),
		                             .phases = C("[{\"name\":\"run\",\"started_us\":5,\"ended_us\":6}]"),
		                             .started_us = KIT_T0,
		                             .ended_us = KIT_T0 + 3600000000ull,
		                             .price_uusd = 1000000,
		                             .account = C("q/@alice")});
		for (uint32_t rank = 0; rank < 2; rank++) {
			store_txn_rank(
			    t,
			    &(struct rank_row){
			        .job = job[i], .attempt = number, .rank = rank, .node = C("n1"), .state = C("exited")});
			store_txn_metric(
			    t, &(struct metric_chunk){job[i], number, rank, C("loss"), 2, step, v, at, 1, C("n1")});
		}
	}
	store_txn_artifact(
	    t, &(struct artifact_row){
	           .job = 2, .attempt = 2, .kind = C("model"), .digest = C("model-2"), .at_us = KIT_T0});
	store_txn_artifact(
	    t, &(struct artifact_row){
	           .job = 2, .attempt = 2, .kind = C("output"), .uri = C("file:///x"), .at_us = KIT_T0});
	store_txn_run_info(t, 2, 1, "n1", "mpirun", "mpirun -x A_TOKEN=x prog");
	store_txn_run_info(t, 2, 1, "n1", "pip", "numpy==2");
}

static void fill_cluster(struct store_txn *t)
{
	struct event_row ev = kit_event(++fill_event, 0, C("node_joined"));

	store_txn_event(t, &ev);
	store_txn_node(t, &(struct node_row){.id = 1, .name = C("n1"), .state = C("up"), .inventory = C("{}")});
	store_txn_node(t, &(struct node_row){.id = 2, .name = C("n2"), .state = C("removed")});
	store_txn_token(t,
	                &(struct token_row){.id = C("t1"), .kind = C("job"), .secret_hash = C("h1"), .job = 1});
	store_txn_queue(t, &(struct queue_row){"q", 1, 1, 1000, 4, 0, 0});
	store_txn_usage(t, &(struct usage_row){"q", 5, KIT_T0});
	store_txn_instance(t, "own", "{\"gpus\":1}");
	store_txn_reservation(t, &(struct reservation_row){"r", "planned", "q", "n1", "why", "ann", 1, 2, 3});
	store_txn_budget(t, &(struct budget_row){"q", 5000000, "month", "end"});
	store_txn_setting(t, "cluster", "c-1");
	store_txn_answer(t, &(struct answer_row){"u:k", "d", 200, "{}", clock_real_us(clock_real())});
	store_txn_history(t, 1, KIT_T0, "one\n", 4);
	store_txn_history(t, 0, KIT_T0 + 1, "two\n", 4);
}

static int no_dirty(void *arg)
{
	return kit_number(((struct kit *)arg)->path, "SELECT count(*) FROM metric_dirty") == 0;
}

void kit_fill(struct kit *k)
{
	struct store_txn *t = store_txn_new();
	struct err e;

	fill_event = 0;
	fill_jobs(t);
	fill_attempts(t);
	fill_cluster(t);
	if (kit_commit(k, t, &e) < 0)
		tap_bail("fill: %s", e.text);
	kit_wait_projected(k);
	kit_wait(k, no_dirty, k, "summaries of metrics");
}

static void digest_table(sqlite3 *db, const char *table, struct hash_ctx *h)
{
	char sql[160];
	sqlite3_stmt *st;

	snprintf(sql, sizeof(sql), "SELECT * FROM \"%.60s\" ORDER BY 1, 2", table);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK) {
		snprintf(sql, sizeof(sql), "SELECT * FROM \"%.60s\" ORDER BY 1", table); /* of one column */
		if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
			tap_bail("%s: %s", sql, sqlite3_errmsg(db));
	}
	hash_add(h, table, strlen(table));
	while (sqlite3_step(st) == SQLITE_ROW)
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			int type = sqlite3_column_type(st, i);

			hash_add(h, &type, sizeof(type));
			hash_add(h, sqlite3_column_blob(st, i), (size_t)sqlite3_column_bytes(st, i));
		}
	sqlite3_finalize(st);
}

char *kit_digest(const char *path, const char *but)
{
	sqlite3 *db = open_file(path);
	struct hash_ctx *h = hash_start();
	char *out = calloc(1, HASH_HEX_SIZE), name[80];
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", -1, &st,
	                       NULL) != SQLITE_OK)
		tap_bail("%s", sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW) {
		snprintf(name, sizeof(name), " %.70s ", (const char *)sqlite3_column_text(st, 0));
		if (!but || !strstr(but, name))
			digest_table(db, (const char *)sqlite3_column_text(st, 0), h);
	}
	hash_end_hex(h, out);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return out;
}
