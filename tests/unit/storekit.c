#include "tests/unit/storekit.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/lib/tap.h"

void kit_reopen(struct kit *k)
{
	struct store_config c = {.path = k->path, .clock = k->clock};
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

/* A step is so many of SQLite's own operations: few enough that none of a statement's beginnings is passed
 * over. */
#define STEP_OPS 7

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

static int on_ops(void *arg)
{
	(void)arg;
	return fails(KIT_FAIL_STEP);
}

/* Asked while a statement is made, first of all for what kind it is. */
static int on_action(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
	(void)arg, (void)a, (void)b, (void)c, (void)d;
	if (action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE)
		return SQLITE_OK;
	return fails(KIT_FAIL_STATEMENT) ? SQLITE_DENY : SQLITE_OK;
}

static int on_connection(sqlite3 *db, char **why, const void *api)
{
	(void)why, (void)api;
	sqlite3_progress_handler(db, STEP_OPS, on_ops, NULL);
	sqlite3_set_authorizer(db, on_action, NULL);
	return SQLITE_OK;
}

void kit_fail_arm(enum kit_fail what, unsigned nth)
{
	static int installed;

	if (!installed)
		sqlite3_auto_extension((void (*)(void))(uintptr_t)on_connection);
	installed = 1;
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
