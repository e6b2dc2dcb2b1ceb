/* each statement of the store fails once, at each place where it can: no answer is half an answer, nothing of
 * a transaction that failed is kept, and the next try does what the first one should have done. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "store/base/rows.h"
#include "store/read/find.h"
#include "store/read/load.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/read/reader_int.h"
#include "store/read/retain.h"
#include "store/read/verify.h"
#include "store/write/apply.h"
#include "store/write/backup.h"
#include "store/write/project.h"
#include "store/write/txn.h"
#include "store/write/wdb.h"
#include "store/write/writer.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

/* The next place: each of them, or some where a try writes to the disk and there are thousands (statements:
 * of each hundred steps some two are made); HEARTH_SOAK=1: each. */
static unsigned next_place(unsigned place, enum kit_fail what, unsigned stride)
{
	stride = what == KIT_FAIL_STEP ? stride : 1 + stride / 50;
	return place + 1 + (getenv("HEARTH_SOAK") ? 0 : (unsigned)kit_random(stride));
}

static const char *const fail_names[KIT_FAILS] = {"interrupted", "refused"};

/* ---- questions
 * --------------------------------------------------------------------------------------------- */

/* The answer as text, NULL and an error when there is none. */
static char *text_of(cJSON *j)
{
	char *text = j ? json_text(j) : NULL;

	cJSON_Delete(j);
	return text;
}

static char *q_jobs(struct store_reader *r, struct err *e)
{
	return text_of(store_jobs_json(r, &(struct job_filter){.owner = "alice", .with_members = 1}, e));
}
static char *q_tagged(struct store_reader *r, struct err *e)
{
	return text_of(store_jobs_json(r, &(struct job_filter){.tag_key = "team", .limit = 2}, e));
}
static char *q_job(struct store_reader *r, struct err *e)
{
	return text_of(store_job_json(r, 3, e));
}
static char *q_job2(struct store_reader *r, struct err *e)
{
	return text_of(store_job_json(r, 2, e));
}
static char *q_array(struct store_reader *r, struct err *e)
{
	return text_of(store_job_json(r, 10, e));
}
static char *q_members(struct store_reader *r, struct err *e)
{
	return text_of(store_members_json(r, 10, "loss", 0, e));
}
static char *q_attempts(struct store_reader *r, struct err *e)
{
	return text_of(store_attempts_json(r, 2, e));
}
static char *q_placement(struct store_reader *r, struct err *e)
{
	return text_of(store_placement_json(r, 2, 1, e));
}
static char *q_ranks(struct store_reader *r, struct err *e)
{
	return text_of(store_ranks_json(r, 2, 0, e));
}
static char *q_events(struct store_reader *r, struct err *e)
{
	return text_of(store_events_json(r, 0, 0, 0, e));
}
static char *q_metrics(struct store_reader *r, struct err *e)
{
	return text_of(store_metrics_json(r, 2, -1, 0, e));
}
static char *q_metric(struct store_reader *r, struct err *e)
{
	return text_of(store_metric_json(r, 2, "loss", -1, 0, 1, e));
}
static char *q_artifacts(struct store_reader *r, struct err *e)
{
	return text_of(store_artifacts_json(r, 2, e));
}
static char *q_run_info(struct store_reader *r, struct err *e)
{
	return text_of(store_run_info_json(r, 2, e));
}
static char *q_cost(struct store_reader *r, struct err *e)
{
	return text_of(
	    store_cost_json(r, &(struct cost_filter){.by = COST_BY_JOB, .now_us = KIT_T0 + 7200000000ull}, e));
}
static char *q_parts(struct store_reader *r, struct err *e)
{
	return text_of(store_history_parts(r, e));
}
static char *q_lines(struct store_reader *r, struct err *e)
{
	return text_of(store_history_lines(r, 1, 0, 100, e));
}
static char *q_artifact(struct store_reader *r, struct err *e)
{
	struct artifact_row a;
	char *text = store_artifact_get(r, 2, "model", &a, e) < 0 ? NULL : xstrdup(a.digest);

	if (text)
		artifact_row_fini(&a);
	return text;
}
static char *q_by_name(struct store_reader *r, struct err *e)
{
	uint64_t job;

	return store_job_by_name(r, NULL, "digits", 1, &job, e) < 0 ? NULL : xasprintf("%" PRIu64, job);
}
static char *q_member(struct store_reader *r, struct err *e)
{
	uint64_t job;

	return store_member_id(r, 10, 1, &job, e) < 0 ? NULL : xasprintf("%" PRIu64, job);
}
static char *q_token(struct store_reader *r, struct err *e)
{
	struct token_row t;
	char *text = store_token_get(r, "h1", &t, e) < 0 ? NULL : xstrdup(t.id);

	if (text)
		token_row_fini(&t);
	return text;
}
static char *q_node(struct store_reader *r, struct err *e)
{
	struct node_row n;
	char *text = store_node_get(r, "n2", &n, e) < 0 ? NULL : xstrdup(n.state);

	if (text)
		node_row_fini(&n);
	return text;
}
static char *q_dropped(struct store_reader *r, struct err *e)
{
	int what = store_dropped(r, 3, e);

	return what < 0 ? NULL : xasprintf("%d", what);
}

static int add_text(const char *digest, void *arg)
{
	strncat(arg, digest, 20);
	return 0;
}
static char *q_digests(struct store_reader *r, struct err *e)
{
	char *text = xcalloc(1, 200);

	if (store_each_digest(r, add_text, text, e) == 0)
		return text;
	free(text);
	return NULL;
}

static int add_due(uint64_t job, unsigned what, void *arg)
{
	size_t n = strlen(arg);

	snprintf((char *)arg + n, 200 - n, "%d:%u ", (int)job, what);
	return 0;
}
static char *q_due(struct store_reader *r, struct err *e)
{
	const struct store_retention p = STORE_RETENTION_DEFAULT;
	char *text = xcalloc(1, 200);

	if (store_retention_due(r, &p, KIT_T0 + (1ull << 46), 100, add_due, text, e) >= 0)
		return text;
	free(text);
	return NULL;
}

#define Q(fn)                                                                                                \
	{                                                                                                        \
#fn, fn                                                                                              \
	}
static const struct {
	const char *name;
	char *(*ask)(struct store_reader *r, struct err *e);
} questions[] = {Q(q_jobs),    Q(q_tagged),   Q(q_job),       Q(q_job2),     Q(q_array),
                 Q(q_members), Q(q_attempts), Q(q_placement), Q(q_ranks),    Q(q_events),
                 Q(q_metrics), Q(q_metric),   Q(q_artifacts), Q(q_run_info), Q(q_cost),
                 Q(q_parts),   Q(q_lines),    Q(q_artifact),  Q(q_by_name),  Q(q_member),
                 Q(q_token),   Q(q_node),     Q(q_dropped),   Q(q_digests),  Q(q_due)};

/* The whole answer or none, and an error that is no "not found". */
static int bad_answer(const char *got, const char *want, const struct err *e)
{
	return got ? strcmp(got, want) != 0 : e->code == ERR_NONE || e->code == ERR_NOT_FOUND || !*e->text;
}

static void test_questions(struct kit *k)
{
	struct store_reader *r;
	struct err e;

	kit_fail_everywhere(1);
	r = kit_reader(k);
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		char *want = questions[i].ask(r, &e);

		if (!want)
			tap_bail("%s: %s", questions[i].name, e.text);
		for (int what = 0; what < KIT_FAILS; what++) {
			unsigned places = 0, tries = 0;
			int bad = 0, refused = 0, hit = 1;

			while (hit && tries < 5000) {
				char *got;

				e = (struct err){.code = ERR_NONE};
				tries++;
				kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 2));
				got = questions[i].ask(r, &e);
				hit = kit_fail_hit();
				bad += bad_answer(got, want, &e) || (!hit && !got);
				refused += !got;
				free(got);
			}
			ok(!bad && tries < 5000 && (refused || tries == 1),
			   "%s, %s at each of %u places: no answer rather than a part of one (%d)", questions[i].name,
			   fail_names[what], tries - 1, refused);
		}
		free(want);
	}
	store_reader_close(r);
	kit_fail_everywhere(0);
}

/* ---- loading
 * ------------------------------------------------------------------------------------------------- */

static int rows;
#define COUNTS(name, type)                                                                                   \
	static int name(type r, void *arg)                                                                       \
	{                                                                                                        \
		(void)r, (void)arg;                                                                                  \
		rows++;                                                                                              \
		return 0;                                                                                            \
	}
COUNTS(n_job, const struct job_row *)
COUNTS(n_attempt, const struct attempt_row *)
COUNTS(n_rank, const struct rank_row *)
COUNTS(n_node, const struct node_row *)
COUNTS(n_token, const struct token_row *)
COUNTS(n_answer, const struct answer_row *)
COUNTS(n_queue, const struct queue_row *)
COUNTS(n_usage, const struct usage_row *)
COUNTS(n_reservation, const struct reservation_row *)
COUNTS(n_budget, const struct budget_row *)
COUNTS(n_pool, const struct pool_row *)
COUNTS(n_pool_job, const struct pool_job_row *)
COUNTS(n_spent, const struct spent_row *)
COUNTS(n_member, const struct member_row *)
static int n_idem(const char *key, const char *digest, uint64_t job, void *arg)
{
	(void)digest, (void)job;
	return n_job((const void *)key, arg);
}
static int n_ended(const char *status, uint64_t n, void *arg)
{
	(void)n;
	return n_job((const void *)status, arg);
}
static int n_took(const char *owner, const char *name, uint64_t took_us, void *arg)
{
	(void)name, (void)took_us;
	return n_job((const void *)owner, arg);
}
static int n_instance(const char *name, const char *own, void *arg)
{
	(void)own;
	return n_job((const void *)name, arg);
}

static int n_event(uint64_t job, uint32_t attempt, uint64_t at_us, const char *data, void *arg)
{
	(void)job, (void)attempt, (void)at_us;
	return n_job((const void *)data, arg);
}

/* All of it, or an error. */
static void test_load(struct kit *k)
{
	const struct store_load l = {.job = n_job,
	                             .attempt = n_attempt,
	                             .rank = n_rank,
	                             .node = n_node,
	                             .token = n_token,
	                             .idem = n_idem,
	                             .answer = n_answer,
	                             .member = n_member,
	                             .ended = n_ended,
	                             .queue = n_queue,
	                             .usage = n_usage,
	                             .instance = n_instance,
	                             .reservation = n_reservation,
	                             .budget = n_budget,
	                             .pool = n_pool,
	                             .pool_job = n_pool_job,
	                             .took = n_took,
	                             .spent = n_spent,
	                             .day_us = 1,
	                             .week_us = 1,
	                             .month_us = 1,
	                             .event = n_event,
	                             .event_type = "submitted"};
	int bad = 0, whole;
	uint64_t id[3];
	struct err e;

	kit_fail_on(k->store->read);
	rows = 0;
	if (store_load(k->store, &l, &e) < 0)
		tap_bail("%s", e.text);
	whole = rows;
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int hit = 1;

		while (hit && tries < 5000) {
			int rc, max;

			rows = 0;
			e = (struct err){.code = ERR_NONE};
			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 4));
			rc = store_load(k->store, &l, &e);
			max = rc < 0 ? -1 : store_max_ids(k->store, &id[0], &id[1], &id[2], &e);
			hit = kit_fail_hit();
			bad += rc == 0 ? rows != whole : e.code == ERR_NONE || !hit;
			bad += max == 0 ? id[0] != 13 || id[2] != 2 : e.code == ERR_NONE || !hit;
		}
		ok(!bad && tries > 20 && tries < 5000, "loading, %s at each of %u places: all %d rows or an error",
		   fail_names[what], tries - 1, whole);
	}
}

/* ---- transactions
 * ---------------------------------------------------------------------------------------------- */

/* Something of each kind of operation, on top of what is there. */
static struct store_txn *one_of_each(void)
{
	struct store_txn *t = store_txn_new();
	struct event_row ev = kit_event(1000, 7, C("submitted"));
	struct job_row r = kit_job(7);
	double v[2] = {9, 8};
	int64_t step[2] = {9, 10};
	uint64_t at[2] = {KIT_T0 + 9, KIT_T0 + 10};

	r.status = C("completed");
	r.ended_us = KIT_T0 + 7;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	store_txn_tag(t, &(struct tag_row){7, C("team"), C("x")});
	store_txn_metric(t, &(struct metric_chunk){2, 2, 0, C("loss"), 2, step, v, at, 2, C("n1")});
	store_txn_metric(t, &(struct metric_chunk){7, 1, 0, C("new"), 2, step, v, at, 1, C("n1")});
	store_txn_metric(t, &(struct metric_chunk){7, 1, 0, C("new"), 2, step, v, at, 2, C("n1")});
	store_txn_drop(t, 11, STORE_METRICS, KIT_T0 + 5);
	store_txn_retire(t, 3, STORE_ALL, KIT_T0 + 6);
	store_txn_retire(t, 6, STORE_ALL, KIT_T0 + 7);
	store_txn_budget(t, &(struct budget_row){"q", 0, NULL, NULL});
	store_txn_instance(t, "own", NULL);
	store_txn_setting(t, "cluster", NULL);
	store_txn_history(t, 1, KIT_T0, "three\n", 6);
	store_txn_history_old(t, 6);
	return t;
}

static int write_txn(struct wdb *w, const struct store_txn *t, struct err *e)
{
	if (wdb_begin(w, e) < 0)
		return -1;
	if (wdb_apply(w, t, e) == 0 && wdb_commit(w, e) == 0)
		return 0;
	wdb_rollback(w);
	return -1;
}

/* Projections until nothing waits; 0, or -1 when one failed. */
static int settle(struct wdb *w, struct err *e)
{
	int rc;

	while ((rc = project_step(w, 4, e)) > 0)
		continue;
	return rc;
}

/* The row that says since when it is a copy. */
static void forget_mark(const char *copy)
{
	kit_sql(copy, "DELETE FROM setting WHERE key = 'backup'");
}

static void copy_db(const char *from, const char *to)
{
	struct err e;

	unlink(to);
	if (store_backup(from, to, &e) < 0)
		tap_bail("backup: %s", e.text);
	forget_mark(to);
}

static void open_copy(const char *from, const char *to, struct wdb *w)
{
	struct err e;

	copy_db(from, to);
	if (wdb_init(w, to, clock_real(), &e) < 0)
		tap_bail("%s", e.text);
	kit_fail_on(w->db);
}

/* The transaction fails at one place after the other, on the same connection; then it is written, once. */
static void test_transaction(const char *good)
{
	struct store_txn *t = one_of_each();
	char path[600], *before, *after, *now;
	struct err e;
	struct wdb w;

	snprintf(path, sizeof(path), "%s/txn.db", tap_tmpdir());
	open_copy(good, path, &w);
	before = kit_digest(path, NULL);
	if (write_txn(&w, t, &e) < 0 || settle(&w, &e) < 0)
		tap_bail("%s", e.text);
	wdb_fini(&w);
	after = kit_digest(path, NULL);
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int bad = 0, rc = -1;

		open_copy(good, path, &w);
		while (rc < 0 && tries < 3000) {
			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 30));
			rc = write_txn(&w, t, &e);
			bad += kit_fail_hit() != (rc < 0);
			now = kit_digest(path, NULL);
			bad += rc < 0 && strcmp(now, before) != 0;
			free(now);
		}
		ok(!bad && tries > 5, "a transaction, %s at each of %u places: nothing of it is kept",
		   fail_names[what], tries - 1);
		rc = settle(&w, &e);
		wdb_fini(&w);
		now = kit_digest(path, NULL);
		ok(rc == 0 && strcmp(now, after) == 0, "then it is written as if nothing had been");
		free(now);
	}
	free(before);
	free(after);
	store_txn_free(t);
}

/* What is written behind fails at one place after the other; the next step goes on from there. */
static void test_projections(const char *good)
{
	char path[600], *want, *now;
	struct err e;
	struct wdb w;

	snprintf(path, sizeof(path), "%s/proj.db", tap_tmpdir());
	open_copy(good, path, &w);
	if (project_reset(&w, &e) < 0 || settle(&w, &e) < 0)
		tap_bail("%s", e.text);
	wdb_fini(&w);
	want = kit_digest(path, NULL);
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int failed = 0, hit = 1;

		open_copy(good, path, &w);
		while (hit && tries < 3000) {
			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 120));
			/* the statements are made anew each time, or no making would ever fail */
			if (what == KIT_FAIL_STATEMENT) {
				wdb_fini(&w);
				if (wdb_init(&w, path, clock_real(), &e) < 0)
					tap_bail("%s", e.text);
				kit_fail_on(w.db);
				kit_fail_arm((enum kit_fail)what, places);
			}
			failed += project_reset(&w, &e) < 0 || settle(&w, &e) < 0;
			hit = kit_fail_hit();
		}
		kit_fail_hit();
		wdb_fini(&w);
		now = kit_digest(path, NULL);
		ok(failed > 10 && tries < 3000 && strcmp(now, want) == 0,
		   "projections, %s at each of %u places: the same in the end", fail_names[what], tries - 1);
		free(now);
	}
	free(want);
}

/* ---- whole programs: opening with migrations, verify, backup, rebuild
 * -------------------------------------------- */

static void test_open(void)
{
	char path[600], *want, *now;
	struct wdb w;
	struct err e;

	snprintf(path, sizeof(path), "%s/fresh.db", tap_tmpdir());
	if (wdb_init(&w, path, clock_real(), &e) < 0)
		tap_bail("%s", e.text);
	wdb_fini(&w);
	want = kit_digest(path, " migration "); /* it has times */
	kit_fail_everywhere(1);
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int failed = 0, bad = 0, rc = -1;

		snprintf(path, sizeof(path), "%s/open%d.db", tap_tmpdir(), what);
		while (rc < 0 && tries < 5000) {
			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 200));
			rc = wdb_init(&w, path, clock_real(), &e);
			bad += kit_fail_hit() && rc == 0 && what == KIT_FAIL_STATEMENT;
			if (rc < 0) { /* it begins anew for the next place; now and then it goes on from where it was */
				failed++;
				if (places % 3)
					unlink(path);
			}
		}
		wdb_fini(&w);
		now = kit_digest(path, " migration ");
		ok(!bad && failed > 10 && strcmp(now, want) == 0,
		   "opening a new store, %s at each of %u places: whole in the end", fail_names[what], tries - 1);
		free(now);
	}
	kit_fail_everywhere(0);
	free(want);
}

static void on_line(const char *line, void *show)
{
	if (show && strncmp(line, "skipped", 7) != 0)
		tap_diag("%s", line);
}

static int reduce(void **state, const struct event_row *ev, const struct store_job_rows *r, char *why,
                  size_t size, void *arg)
{
	(void)state, (void)ev, (void)r, (void)why, (void)size, (void)arg;
	return 0;
}

static int reduce_cluster(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                          char *why, size_t size)
{
	(void)state, (void)ev, (void)row, (void)why, (void)size;
	return 0;
}

/* A verify that could not read everything never says that all is well. */
static void test_verify(const char *good)
{
	struct err e;

	store_verify_set_reducer(reduce, NULL);
	store_verify_set_cluster(reduce_cluster);
	is_int(store_verify(good, on_line, &e, &e), 0, "a sound store");
	kit_fail_everywhere(1);
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int silent = 0, hit = 1;

		while (hit && tries < 5000) {
			int rc;

			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 60));
			rc = store_verify(good, on_line, NULL, &e);
			hit = kit_fail_hit();
			if (hit && rc == 0)
				tap_diag("silent at place %u", places);
			silent += hit && rc == 0;
		}
		ok(!silent && tries > 10 && tries < 5000, "verify, %s at each of %u places: it says so (%d silent)",
		   fail_names[what], tries - 1, silent);
	}
	kit_fail_everywhere(0);
	store_verify_set_reducer(NULL, NULL);
	store_verify_set_cluster(NULL);
}

/* A name that is there is a whole copy; of one that failed nothing is left. */
static void test_backup(const char *good)
{
	char dir[600], to[700], *want = kit_digest(good, NULL), *now;
	struct err e;

	snprintf(dir, sizeof(dir), "%s/copies", tap_tmpdir());
	snprintf(to, sizeof(to), "%s/copy.db", dir);
	if (fs_mkdir_p(dir, 0700, &e) < 0)
		tap_bail("%s", e.text);
	kit_fail_everywhere(1);
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int bad = 0, failed = 0, hit = 1;

		while (hit && tries < 5000) {
			int rc;

			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 20));
			rc = store_backup(good, to, &e);
			hit = kit_fail_hit();
			bad += (access(to, F_OK) == 0) != (rc == 0);
			failed += rc < 0;
			if (rc == 0) {
				forget_mark(to);
				now = kit_digest(to, NULL);
				bad += strcmp(now, want) != 0;
				free(now);
				unlink(to);
			}
			if (rmdir(dir) < 0 || fs_mkdir_p(dir, 0700, &e) < 0) /* nothing is left in it */
				tap_bail("something is left after place %u", places);
		}
		ok(!bad && failed > 0 && tries < 5000, "backup, %s at each of %u places: whole or not there",
		   fail_names[what], tries - 1);
	}
	kit_fail_everywhere(0);
	free(want);
}

static void test_rebuild(const char *good)
{
	char path[600], *want, *now;
	struct err e;

	snprintf(path, sizeof(path), "%s/rebuild.db", tap_tmpdir());
	copy_db(good, path);
	if (store_rebuild(path, &e) < 0)
		tap_bail("%s", e.text);
	want = kit_digest(path, NULL);
	kit_fail_everywhere(1);
	for (int what = 0; what < KIT_FAILS; what++) {
		unsigned places = 0, tries = 0;
		int failed = 0, bad = 0, rc = -1;

		while (rc < 0 && tries < 5000) {
			tries++;
			kit_fail_arm((enum kit_fail)what, places = next_place(places, (enum kit_fail)what, 120));
			rc = store_rebuild(path, &e);
			failed += rc < 0;
			bad += !kit_fail_hit() && rc < 0;
		}
		now = kit_digest(path, NULL);
		ok(!bad && failed > 10 && strcmp(now, want) == 0,
		   "rebuild, %s at each of %u places: the same in the end", fail_names[what], tries - 1);
		free(now);
	}
	kit_fail_everywhere(0);
	free(want);
}

int main(void)
{
	struct kit k;

	kit_seed("fails");
	kit_open(&k, "good");
	kit_fill(&k);
	test_load(&k);
	kit_close(&k);
	test_questions(&k);
	test_transaction(k.path);
	test_projections(k.path);
	test_open();
	test_verify(k.path);
	test_backup(k.path);
	test_rebuild(k.path);
	return tap_done();
}
