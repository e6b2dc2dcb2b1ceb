/* lists of jobs: filters, pages, projections and their tail; retention; readers in other threads. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/read/retain.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static uint64_t next_event = 1;

static void put_job(struct store_txn *t, const struct job_row *r, const char *type)
{
	struct event_row ev = kit_event(next_event++, r->id, C(type));

	store_txn_event(t, &ev);
	store_txn_job(t, r);
}

static void commit(struct kit *k, struct store_txn *t)
{
	struct err e;

	if (kit_commit(k, t, &e) < 0)
		tap_bail("commit: %s", e.text);
}

/* 60 jobs: owner alice for odd ids, bob for even; every third failed; names run-1 ... run-60, job 7 and 8
 * "special"; experiment exp-N/10. */
static void fill(struct kit *k)
{
	for (uint64_t id = 1; id <= 60; id++) {
		struct store_txn *t = store_txn_new();
		struct job_row r = kit_job(id);
		char name[32], exp[32], spec[256];

		snprintf(name, sizeof(name), id == 7 || id == 8 ? "special" : "run-%d", (int)id);
		snprintf(exp, sizeof(exp), "exp-%d", (int)id / 10);
		snprintf(
		    spec, sizeof(spec),
		    "{\"command\":[\"x\"],\"tags\":{\"n\":\"%d\",\"parity\":\"%s\"},\"hyperparameters\":{\"lr\":%g}}",
		    (int)id, id % 2 ? "odd" : "even", (double)id / 100);
		r.name = name;
		r.experiment = id == 60 ? C("") : exp;
		r.spec = spec;
		r.owner = id % 2 ? C("alice") : C("bob");
		r.notes = id == 33 ? C("100% of_the \\budget") : C("");
		if (id % 3 == 0) {
			r.status = C("failed");
			r.ended_us = KIT_T0 + id;
		}
		put_job(t, &r, "submitted");
		commit(k, t);
	}
}

/* Ids of the answer as "60 58 ...", at most 200 characters. */
static const char *ids(struct store_reader *r, const struct job_filter *f)
{
	static char out[256];
	static struct err e;
	cJSON *j = store_jobs_json(r, f, &e);
	const cJSON *v;

	out[0] = '\0';
	if (!j)
		return e.text;
	cJSON_ArrayForEach (v, cJSON_GetObjectItem(j, "jobs")) {
		size_t n = strlen(out);

		snprintf(out + n, sizeof(out) - n, "%s%d", n ? " " : "", cJSON_GetObjectItem(v, "id")->valueint);
	}
	cJSON_Delete(j);
	return out;
}

static void check_filters(struct store_reader *r, const char *when)
{
	char what[80];

#define FILTER(want, ...)                                                                                    \
	do {                                                                                                     \
		struct job_filter f_ = {__VA_ARGS__};                                                                \
		snprintf(what, sizeof(what), "%s: %.60s", when, #__VA_ARGS__);                                       \
		is_str(ids(r, &f_), want, what);                                                                     \
	} while (0)
	FILTER("60 59 58", .limit = 3);
	FILTER("57 56", .limit = 2, .before_id = 58);
	FILTER("59 57 55", .owner = "alice", .limit = 3);
	FILTER("5 3 1", .owner = "alice", .before_id = 7);
	FILTER("", .owner = "nobody");
	FILTER("60 57 54", .status = "failed", .limit = 3);
	FILTER("59 58 56", .status = "active", .limit = 3);
	FILTER("59 55 53", .status = "active", .owner = "alice", .limit = 3);
	FILTER("8 7", .name = "special");
	FILTER("7", .name = "special", .owner = "alice");
	FILTER("59 58 57 56 55 54 53 52 51 50 5", .name = "run-5*");
	FILTER("", .name = "run-%*");
	FILTER("33", .text = "100% OF_THE \\");
	FILTER("", .text = "100%x");
	FILTER("39 38 37 36 35 34 33 32 31 30", .experiment = "exp-3");
	FILTER("60", .experiment = "");
	FILTER("42", .tag_key = "n", .tag_value = "42");
	FILTER("59 57", .tag_key = "parity", .tag_value = "odd", .limit = 2);
	FILTER("60 59", .tag_key = "n", .limit = 2);
	FILTER("", .tag_key = "n", .tag_value = "99");
#undef FILTER
}

static void test_filters(void)
{
	struct store_reader *r;
	struct store_txn *t;
	struct tag_row tag = {42, C("n"), C("forty-two")};
	struct job_row row;
	struct job_filter by_tag = {.tag_key = "n", .tag_value = "42"},
	                  by_new = {.tag_key = "n", .tag_value = "forty-two"};
	struct job_filter all = {.limit = 2}, with = {.limit = 2, .with_deleted = 1};
	struct event_row ev;
	uint64_t job;
	struct err e;
	struct kit k;

	kit_open(&k, "filters");
	fill(&k);
	r = kit_reader(&k);
	check_filters(r, "before projecting");
	kit_wait_projected(&k);
	check_filters(r, "projected");
	/* a change that is not projected yet */
	t = store_txn_new();
	ev = kit_event(next_event++, 42, C("tagged"));
	store_txn_event(t, &ev);
	store_txn_tag(t, &tag);
	commit(&k, t);
	is_str(ids(r, &by_tag), "", "a changed tag counts at once: the old value");
	is_str(ids(r, &by_new), "42", "and the new one");
	kit_wait_projected(&k);
	is_str(ids(r, &by_new), "42", "and afterwards");
	ok(store_job_by_name(r, "bob", "special", 0, &job, &e) == 0 && job == 8, "a name of mine");
	ok(store_job_by_name(r, "alice", "special", 0, &job, &e) == 0 && job == 7, "of another owner");
	ok(store_job_by_name(r, NULL, "special", 1, &job, &e) == 0 && job == 7, "the one before");
	ok(store_job_by_name(r, NULL, "special", 2, &job, &e) < 0 && e.code == ERR_NOT_FOUND, "no third");
	ok(store_job_by_name(r, NULL, "run-*", 0, &job, &e) < 0 && e.code == ERR_INVALID, "a pattern is no name");
	t = store_txn_new();
	row = kit_job(60);
	row.deleted = 1;
	put_job(t, &row, "removed");
	commit(&k, t);
	is_str(ids(r, &all), "59 58", "a removed job is not listed");
	is_str(ids(r, &with), "60 59", "but on demand");
	store_reader_close(r);
	kit_close(&k);
}

/* ---- retention
 * ------------------------------------------------------------------------------------------------ */

struct due {
	char text[256];
};

static int on_due(uint64_t job, unsigned what, void *arg)
{
	struct due *d = arg;
	size_t n = strlen(d->text);

	snprintf(d->text + n, sizeof(d->text) - n, "%s%d:%u", n ? " " : "", (int)job, what);
	return 0;
}

static const char *due(struct store_reader *r, const struct store_retention *p, uint64_t now, uint32_t limit)
{
	static struct due d;
	static struct err e;

	d.text[0] = '\0';
	return store_retention_due(r, p, now, limit, on_due, &d, &e) < 0 ? e.text : d.text;
}

static int on_digest(const char *digest, void *arg)
{
	strncat(arg, digest, 10);
	return 0;
}

static void end_job(struct kit *k, uint64_t id, uint64_t ended_us, int pinned)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct artifact_row a = {
	    .job = id, .attempt = 1, .kind = C("model"), .digest = id == 1 ? C("A1") : C("A2")};

	r.status = C("completed");
	r.ended_us = ended_us;
	r.pinned = (uint8_t)pinned;
	r.bundle = id == 1 ? C("B1") : C("B2");
	put_job(t, &r, "ended");
	store_txn_artifact(t, &a);
	commit(k, t);
}

/* The search tables know a job already when it gets another name. */
static void test_renamed(void)
{
	struct kit k;
	struct store_reader *r;
	struct store_txn *t = store_txn_new();
	struct job_row row = kit_job(7);
	uint64_t job = 0;
	sqlite3 *db;
	struct err e;

	kit_open(&k, "renamed");
	fill(&k);
	kit_wait_projected(&k);
	row.name = C("renamed");
	row.owner = C("alice");
	row.experiment = C("exp-0");
	put_job(t, &row, "changed");
	commit(&k, t);
	kit_wait_projected(&k);
	r = kit_reader(&k);
	is_str(ids(r, &(struct job_filter){.name = "renamed"}), "7", "found by its new name");
	is_str(ids(r, &(struct job_filter){.name = "special"}), "8", "not by the old one");
	is_str(ids(r, &(struct job_filter){.name = "ren*", .owner = "alice"}), "7", "by a pattern and its owner");
	ok(store_job_by_name(r, NULL, "renamed", 0, &job, &e) == 0 && job == 7, "by its name alone");
	ok(store_job_by_name(r, "alice", "special", 0, &job, &e) < 0, "the old one is nobody's");
	store_reader_close(r);
	kit_close(&k);
	/* As a store before migration 14 left it. */
	if (sqlite3_open(k.path, &db) != SQLITE_OK ||
	    sqlite3_exec(
	        db, "UPDATE job_ix SET name = 'special' WHERE job = 7; DELETE FROM migration WHERE number = 14",
	        NULL, NULL, NULL) != SQLITE_OK)
		tap_bail("%s", sqlite3_errmsg(db));
	sqlite3_close(db);
	kit_reopen(&k);
	r = kit_reader(&k);
	is_str(ids(r, &(struct job_filter){.name = "ren*"}), "7", "a migration mends an old entry");
	is_str(ids(r, &(struct job_filter){.name = "run-6*"}), "60 6", "others are as they were");
	store_reader_close(r);
	kit_close(&k);
}

static void test_retention(void)
{
	const uint64_t day = 86400ull * 1000000;
	struct store_retention p = STORE_RETENTION_DEFAULT;
	struct store_reader *r;
	struct store_txn *t;
	char digests[64] = "";
	struct job_row row;
	struct err e;
	struct kit k;
	cJSON *j;

	kit_open(&k, "retention");
	next_event = 1;
	end_job(&k, 1, KIT_T0, 0);
	end_job(&k, 2, KIT_T0 + 10 * day, 0);
	end_job(&k, 3, KIT_T0, 1);
	t = store_txn_new();
	row = kit_job(4);
	put_job(t, &row, "submitted");
	commit(&k, t);
	kit_wait_projected(&k);
	r = kit_reader(&k);
	is_str(due(r, &p, KIT_T0 + 80 * day, 10), "", "nothing is due after 80 days");
	is_str(due(r, &p, KIT_T0 + 95 * day, 10), "1:1",
	       "logs of the first after 95; not of the pinned one, nor of the one that goes on");
	is_str(due(r, &p, KIT_T0 + 185 * day, 10), "1:3 2:1", "its bundle after 185 days, oldest first");
	is_str(due(r, &p, KIT_T0 + 400 * day, 1), "1:7", "metrics after a year, artifacts stay; the limit holds");
	is_int(store_each_digest(r, on_digest, digests, &e), 0, "store_each_digest");
	is_str(digests, "A1A2B1B2", "what is referred to");
	t = store_txn_new();
	store_txn_drop(t, 1, STORE_LOGS | STORE_BUNDLE, KIT_T0 + 185 * day);
	commit(&k, t);
	is_str(due(r, &p, KIT_T0 + 400 * day, 10), "1:4 2:7", "what is gone is not due again");
	digests[0] = '\0';
	store_each_digest(r, on_digest, digests, &e);
	is_str(digests, "A1A2B2", "nor referred to");
	j = store_job_json(r, 1, &e);
	ok(cJSON_GetArraySize(cJSON_GetObjectItem(j, "dropped")) == 2, "and the job says so");
	cJSON_Delete(j);
	t = store_txn_new();
	store_txn_drop(t, 1, STORE_ALL, KIT_T0 + 185 * day);
	commit(&k, t);
	end_job(&k, 1, KIT_T0, 0); /* some later event */
	kit_wait_projected(&k);
	is_str(due(r, &p, KIT_T0 + 400 * day, 10), "2:7",
	       "a job that holds nothing is not due after later events, too");
	p = (struct store_retention){0, 0, 0, 0};
	is_str(due(r, &p, KIT_T0 + 9999 * day, 10), "", "all for ever");
	ok(store_job_get(r, 1, &row, &e) == 0 && strcmp(row.status, "completed") == 0, "the record stays");
	job_row_fini(&row);
	store_reader_close(r);
	kit_close(&k);
}

static uint64_t steps;

static int on_step(void *arg)
{
	(void)arg;
	steps++;
	return 0;
}

/* Counts what the next connections do. */
static int on_connection(sqlite3 *db, char **why, const void *api)
{
	(void)why;
	(void)api;
	sqlite3_progress_handler(db, 1, on_step, NULL);
	return SQLITE_OK;
}

static uint64_t steps_of(struct store_reader *r, const struct store_retention *p, uint64_t now,
                         const char *want, const char *what)
{
	steps = 0;
	is_str(due(r, p, now, 10), want, what);
	return steps;
}

#define MANY 3000

/* Ended jobs cost nothing before they are due, whatever others hold: a third has no logs any more, a third is
 * pinned, a third is young. */
static void test_retention_steps(void)
{
	void (*ext)(void) = (void (*)(void))on_connection;
	const uint64_t day = 86400ull * 1000000;
	struct store_retention p = STORE_RETENTION_DEFAULT;
	struct store_txn *t = store_txn_new(), *gone = store_txn_new();
	struct store_reader *r;
	uint64_t few, many;
	struct kit k;

	kit_open(&k, "steps");
	next_event = 1;
	for (uint64_t id = 1; id <= MANY; id++) {
		struct job_row row = kit_job(id);

		row.status = C("completed");
		row.pinned = id % 3 == 1;
		row.ended_us = KIT_T0 + (id % 3 == 2 ? 50 * day : 0) + id;
		put_job(t, &row, "ended");
		if (id % 3 == 0)
			store_txn_retire(gone, id, STORE_LOGS, KIT_T0);
	}
	commit(&k, t);
	kit_wait_projected(&k);
	commit(&k, gone);
	sqlite3_auto_extension(ext);
	r = kit_reader(&k);
	sqlite3_cancel_auto_extension(ext);
	few = steps_of(r, &p, KIT_T0 + 80 * day, "", "nobody is old enough");
	many = steps_of(r, &p, KIT_T0 + 100 * day, "", "some are old, and hold nothing that is due");
	ok(few < 400 && many < 400, "none due of %d: %d and %d steps", MANY, (int)few, (int)many);
	many = steps_of(r, &p, KIT_T0 + 150 * day, "2:1 5:1 8:1 11:1 14:1 17:1 20:1 23:1 26:1 29:1",
	                "the oldest of those that are due");
	ok(many < 1000, "ten due: %d steps", (int)many);
	store_reader_close(r);
	kit_close(&k);
}

/* A pin that is taken back makes a job due again. */
static void test_retention_unpinned(void)
{
	const uint64_t day = 86400ull * 1000000;
	struct store_retention p = STORE_RETENTION_DEFAULT;
	struct store_reader *r;
	struct kit k;

	kit_open(&k, "unpinned");
	next_event = 1;
	end_job(&k, 1, KIT_T0, 0);
	kit_wait_projected(&k);
	r = kit_reader(&k);
	is_str(due(r, &p, KIT_T0 + 95 * day, 10), "1:1", "a job that is due");
	end_job(&k, 1, KIT_T0, 1);
	kit_wait_projected(&k);
	is_str(due(r, &p, KIT_T0 + 95 * day, 10), "", "not while it is pinned");
	end_job(&k, 1, KIT_T0, 0);
	kit_wait_projected(&k);
	is_str(due(r, &p, KIT_T0 + 95 * day, 10), "1:1", "again when it is not");
	store_reader_close(r);
	kit_close(&k);
}

static const char *kept(struct store_reader *r, uint64_t job, enum store_keep what, const char *name)
{
	static struct err e;

	return store_check_kept(r, job, what, name, &e) < 0 ? e.text : "";
}

/* What is gone is told with its own day, and by whom it was taken. */
static void test_gone(void)
{
	const uint64_t day = 86400ull * 1000000;
	struct artifact_row a;
	struct store_reader *r;
	struct store_txn *t;
	struct job_row row = kit_job(2);
	struct err e;
	struct kit k;
	cJSON *j;

	kit_open(&k, "gone");
	next_event = 1;
	end_job(&k, 1, KIT_T0, 0);
	r = kit_reader(&k);
	is_str(kept(r, 1, STORE_LOGS, NULL), "", "all is there");
	is_int(store_dropped(r, 1, &e), 0, "nothing was taken");
	t = store_txn_new();
	store_txn_retire(t, 1, STORE_LOGS | STORE_BUNDLE, KIT_T0);
	commit(&k, t);
	t = store_txn_new();
	store_txn_retire(t, 1, STORE_LOGS | STORE_ARTIFACTS, KIT_T0 + 10 * day);
	commit(&k, t);
	is_int(store_dropped(r, 1, &e), STORE_LOGS | STORE_BUNDLE | STORE_ARTIFACTS, "taken in two steps");
	is_str(kept(r, 1, STORE_LOGS, NULL), "the logs of job 1 were removed by retention on 2026-09-21",
	       "the day of the first is not that of the second");
	is_str(kept(r, 1, STORE_ARTIFACTS, "model"), "the model of job 1 was removed by retention on 2026-10-01",
	       "one kind of artifact by its name");
	is_str(kept(r, 1, STORE_BUNDLE, NULL), "the code of job 1 was removed by retention on 2026-09-21",
	       "code");
	is_str(kept(r, 1, STORE_METRICS, NULL), "", "metrics are there");
	is_str(kept(r, 77, STORE_METRICS, NULL), "", "nothing was taken from a job that there is not");
	ok(store_artifact_get(r, 1, "model", &a, &e) < 0 && e.code == ERR_NOT_FOUND &&
	       strstr(e.text, "by retention on 2026-10-01"),
	   "the artifact is not given any more: %s", e.text);
	j = store_job_json(r, 1, &e);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(j, "dropped_at"), "bundle")),
	       "2026-09-21T14:13:20.000000Z", "the record says when");
	ok(cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(j, "artifacts"), 0),
	                                            "removed_at")) != NULL,
	   "and which artifact");
	cJSON_Delete(j);
	row.status = C("failed");
	row.deleted = 1;
	t = store_txn_new();
	put_job(t, &row, "removed");
	store_txn_drop(t, 2, STORE_ALL, KIT_T0);
	commit(&k, t);
	is_str(kept(r, 2, STORE_LOGS, NULL), "the logs of job 2 were removed", "rm is not retention");
	store_reader_close(r);
	kit_close(&k);
}

/* A pin that was given before the removal is written keeps the job, whatever was found due before. */
static void test_pin_first(void)
{
	struct store_reader *r;
	struct store_txn *pin, *t;
	struct job_row row = kit_job(1);
	struct err e;
	struct kit k;

	kit_open(&k, "pin");
	next_event = 1;
	end_job(&k, 1, KIT_T0, 0);
	end_job(&k, 2, KIT_T0, 0);
	r = kit_reader(&k);
	pin = store_txn_new();
	row.status = C("completed");
	row.ended_us = KIT_T0;
	row.pinned = 1;
	put_job(pin, &row, "changed");
	if (store_commit(k.store, pin, NULL, NULL, &e) < 0)
		tap_bail("%s", e.text);
	t = store_txn_new();
	store_txn_retire(t, 1, STORE_ALL, KIT_T0);
	store_txn_retire(t, 2, STORE_ALL, KIT_T0);
	commit(&k, t);
	is_int(store_dropped(r, 1, &e), 0, "pinned in the same group: passed over");
	is_int(store_dropped(r, 2, &e), STORE_ALL, "the other one is not");
	store_reader_close(r);
	kit_close(&k);
}

/* ---- readers beside the writer
 * ---------------------------------------------------------------------------------- */

struct reading {
	const char *path;
	atomic_int stop;
	int bad, rounds;
};

/* Two rows that are always written together must always be seen together. */
static void *reader(void *arg)
{
	struct reading *me = arg;
	struct err e;
	struct store_reader *r = store_reader_open(me->path, &e);

	if (!r) {
		me->bad++;
		return NULL;
	}
	while (!atomic_load(&me->stop)) {
		struct job_filter f = {.owner = "alice", .limit = 20};
		cJSON *list = store_jobs_json(r, &f, &e), *j = store_job_json(r, 1, &e), *att;

		att = cJSON_GetArrayItem(cJSON_GetObjectItem(j, "attempts"), 0);
		if (!list || !j)
			me->bad++;
		else if (att && cJSON_GetObjectItem(att, "epoch")->valuedouble !=
		                    cJSON_GetObjectItem(j, "epoch")->valuedouble)
			me->bad++;
		cJSON_Delete(list);
		cJSON_Delete(j);
		me->rounds++;
	}
	store_reader_close(r);
	return NULL;
}

static void test_readers(void)
{
	struct reading me[3];
	pthread_t t[3];
	struct kit k;
	struct err e;

	kit_open(&k, "readers");
	kit_submit(&k, 1, NULL);
	next_event = 2;
	for (int i = 0; i < 3; i++) {
		memset(&me[i], 0, sizeof(me[i]));
		me[i].path = k.path;
		pthread_create(&t[i], NULL, reader, &me[i]);
	}
	for (uint64_t i = 1; i <= 300; i++) {
		struct store_txn *txn = store_txn_new();
		struct attempt_row a = {.job = 1,
		                        .number = 1,
		                        .epoch = i,
		                        .state = C("running"),
		                        .resumed_from_step = -1,
		                        .exit_code = -1};
		struct job_row r = kit_job(1);

		r.epoch = i;
		r.attempts = 1;
		put_job(txn, &r, "changed");
		store_txn_attempt(txn, &a);
		if (kit_commit(&k, txn, &e) < 0)
			tap_bail("commit: %s", e.text);
	}
	for (int i = 0; i < 3; i++)
		atomic_store(&me[i].stop, 1);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		ok(me[i].bad == 0 && me[i].rounds > 0,
		   "reader %d always saw job and attempt of one transaction (%d rounds)", i, me[i].rounds);
	}
	kit_close(&k);
}

int main(void)
{
	test_filters();
	test_renamed();
	test_retention();
	test_retention_steps();
	test_retention_unpinned();
	test_gone();
	test_pin_first();
	test_readers();
	return tap_done();
}
