/* store: commit, load and read back; order of completions; masking; the bounded queue; newer schemas. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/read/find.h"
#include "store/read/load.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

/* ---- everything in, everything out ------------------------------------------------------------------ */

static void put_attempt(struct store_txn *t)
{
	struct attempt_row a = {
	    .job = 1,
	    .number = 1,
	    .epoch = 3,
	    .state = C("ended"),
	    .outcome = C("failed"),
	    .cls = C("user_error"),
	    .reason = C("rank 1 exited with 3"),
	    .cause = C("first start"),
	    .launch_id = C("L1"),
	    .token = C("SECRET-TOKEN-XYZ"),
	    .placement = C("[{\"node\":\"n1\",\"address\":\"10.0.0.1\",\"gpus\":[0],\"ranks\":1},{\"node\":"
	                   "\"n2\",\"gpus\":[1]}]"),
	    .resumed_from_step = -1,
	    .exit_code = 3,
	    .signal = -1,
	    .started_us = KIT_T0 + 10,
	    .ended_us = KIT_T0 + 20,
	    .phases = C("[{\"name\":\"staging\",\"started_us\":1790000000000010,\"ended_us\":1790000000000015}]"),
	    .master_port = 29500,
	};

	store_txn_attempt(t, &a);
}

static void put_ranks(struct store_txn *t)
{
	struct rank_row r = {.job = 1,
	                     .attempt = 1,
	                     .rank = 0,
	                     .node = C("n1"),
	                     .state = C("exited"),
	                     .exit_code = 0,
	                     .signal = -1,
	                     .pid = 77,
	                     .started_us = KIT_T0 + 11};

	store_txn_rank(t, &r);
	r.rank = 1;
	r.node = C("n2");
	r.node_rank = 1;
	r.exit_code = 3;
	r.text = C("Traceback\n\xc3\xa4");
	store_txn_rank(t, &r);
}

static void put_rest(struct store_txn *t)
{
	struct node_row n = {.id = 5,
	                     .name = C("n1"),
	                     .address = C("10.0.0.1"),
	                     .state = C("up"),
	                     .inventory = C("{}"),
	                     .joined_us = 7};
	struct artifact_row a = {.job = 1,
	                         .attempt = 1,
	                         .kind = C("model"),
	                         .node = C("n1"),
	                         .digest = C("abc"),
	                         .size_bytes = 12,
	                         .files = 2,
	                         .at_us = KIT_T0};
	struct tag_row tag = {1, C("team"), C("speech")}, gone = {1, C("kind"), NULL};
	struct token_row k = {.id = C("tk"),
	                      .kind = C("join"),
	                      .secret_hash = C("h"),
	                      .created_us = KIT_T0,
	                      .expires_us = UINT64_MAX / 4};

	store_txn_queue(t, &(struct queue_row){"a/@ada", 0, 1, 1500, 7, 8, 4});
	store_txn_queue(t, &(struct queue_row){"b", 1, 0, 1000, 0, 0, 0});
	store_txn_queue_del(t, "b");
	store_txn_usage(t, &(struct usage_row){"a", 5, 6});
	store_txn_usage(t, &(struct usage_row){"a", 11, 13});
	store_txn_reservation(t,
	                      &(struct reservation_row){"talk", "planned", "vip", "a b", "demo", "ada", 1, 2, 3});
	store_txn_reservation(t, &(struct reservation_row){"fans", "active", "", "c", "", "ada", 4, 5, 6});
	store_txn_reservation_del(t, "fans");
	store_txn_node(t, &n);
	n.id = 6;
	n.name = C("old");
	n.state = C("removed");
	store_txn_node(t, &n);
	store_txn_artifact(t, &a);
	store_txn_artifact(t, &a); /* a report that comes twice is one row */
	a.digest = C("def");
	a.at_us++;
	store_txn_artifact(t, &a);
	a.kind = C("output");
	a.digest = NULL;
	a.uri = C("file:///results/1");
	store_txn_artifact(t, &a);
	store_txn_tag(t, &tag);
	store_txn_tag(t, &gone);
	store_txn_token(t, &k);
	k.id = C("used");
	k.used_us = 9;
	store_txn_token(t, &k);
	k.id = C("expired");
	k.used_us = 0;
	k.expires_us = 10;
	store_txn_token(t, &k);
	store_txn_setting(t, "cluster", "c-1");
	store_txn_setting(t, "gone", "x");
	store_txn_setting(t, "gone", NULL);
	store_txn_run_info(t, 1, 1, "n1", "pip", "tokenizers==0.15\nkeyring==24");
	store_txn_run_info(t, 1, 1, "n1", "mpirun", "mpirun -x MY_TOKEN=abc123 -x A=b prog");
}

static void fill(struct kit *k)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(1);
	struct event_row ev = kit_event(1, 1, C("submitted"));
	struct err e;

	r.idem_key = C("key-1");
	r.idem_digest = C("dig-1");
	r.created_us = clock_real_us(k->clock);
	r.status = C("running");
	r.attempts = 1;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	put_attempt(t);
	put_ranks(t);
	put_rest(t);
	is_int(kit_commit(k, t, &e), 0, "one transaction with every kind of record");
}

struct loaded {
	int jobs, attempts, ranks, nodes, tokens, idems, queues;
	char spec[1024], last[64];
};

static int on_job(const struct job_row *r, void *arg)
{
	struct loaded *l = arg;

	l->jobs++;
	snprintf(l->spec, sizeof(l->spec), "%s", r->spec ? r->spec : "NULL");
	return 0;
}
static int on_attempt(const struct attempt_row *r, void *arg)
{
	struct loaded *l = arg;

	l->attempts++;
	snprintf(l->last, sizeof(l->last), "%s %s", r->token, r->outcome);
	return 0;
}
static int on_rank(const struct rank_row *r, void *arg)
{
	((struct loaded *)arg)->ranks += r->attempt == 1;
	return 0;
}
static int on_node(const struct node_row *r, void *arg)
{
	((struct loaded *)arg)->nodes += r->id == 5 && strcmp(r->name, "n1") == 0;
	return 0;
}
static int on_token(const struct token_row *r, void *arg)
{
	((struct loaded *)arg)->tokens += strcmp(r->id, "tk") == 0 ? 1 : 100;
	return 0;
}
static int on_idem(const char *key, const char *digest, uint64_t job, void *arg)
{
	((struct loaded *)arg)->idems +=
	    strcmp(key, "key-1") == 0 && strcmp(digest, "dig-1") == 0 && job == 1 ? 1 : 100;
	return 0;
}

static int on_queue(const struct queue_row *r, void *arg)
{
	((struct loaded *)arg)->queues += strcmp(r->path, "a/@ada") == 0 && !r->is_queue &&
	                                          r->weight_milli == 1500 && r->quota_gpus == 7 && r->borrow &&
	                                          r->warm_gpus == 8 && r->warm_nodes == 4
	                                      ? 1
	                                      : 100;
	return 0;
}
static int on_reservation(const struct reservation_row *r, void *arg)
{
	((struct loaded *)arg)->queues +=
	    strcmp(r->name, "talk") == 0 && strcmp(r->state, "planned") == 0 && strcmp(r->queue, "vip") == 0 &&
	            strcmp(r->nodes, "a b") == 0 && strcmp(r->reason, "demo") == 0 &&
	            strcmp(r->owner, "ada") == 0 && r->from_us == 1 && r->to_us == 2 && r->created_us == 3
	        ? 1000
	        : 100;
	return 0;
}
static int on_usage(const struct usage_row *r, void *arg)
{
	((struct loaded *)arg)->queues +=
	    strcmp(r->path, "a") == 0 && r->gpu_ms == 11 && r->at_us == 13 ? 10 : 100;
	return 0;
}

static struct store_load all(struct loaded *l)
{
	return (struct store_load){.job = on_job,
	                           .attempt = on_attempt,
	                           .rank = on_rank,
	                           .node = on_node,
	                           .token = on_token,
	                           .idem = on_idem,
	                           .queue = on_queue,
	                           .usage = on_usage,
	                           .reservation = on_reservation,
	                           .arg = l};
}

static void check_load(struct kit *k, const char *when)
{
	struct loaded l = {0};
	struct store_load load = all(&l);
	uint64_t job = 0, event = 0, node = 0;
	struct err e;
	char *s;

	is_int(store_load(k->store, &load, &e), 0, "store_load");
	ok(l.jobs == 1 && l.attempts == 1 && l.ranks == 2 && l.nodes == 1 && l.tokens == 1 && l.idems == 1,
	   "%s: what is unfinished is loaded (%d %d %d %d %d %d)", when, l.jobs, l.attempts, l.ranks, l.nodes,
	   l.tokens, l.idems);
	is_int(l.queues, 1011,
	       "a quota, what was used and a reservation, not the queue and the one that were removed");
	is_str(l.spec, KIT_SPEC, "the specification is verbatim");
	is_str(l.last, "SECRET-TOKEN-XYZ failed", "fields of the attempt");
	is_int(store_max_ids(k->store, &job, &event, &node, &e), 0, "store_max_ids");
	ok(job == 1 && event == 1 && node == 6, "greatest ids, the removed node's too");
	s = store_setting(k->store, "cluster");
	is_str(s, "c-1", "a setting");
	free(s);
	ok(!store_setting(k->store, "gone"), "a removed setting is not there");
}

static void check_show(struct store_reader *r)
{
	struct err e;
	cJSON *j = store_job_json(r, 1, &e);
	char *text = j ? json_text(j) : NULL;

	ok(j, "store_job_json");
	is_str(kit_str(j, "name"), "digits", "name");
	ok(kit_num(j, "id") == 1 && cJSON_IsNull(kit_at(j, "exit_code")) && cJSON_IsNull(kit_at(j, "ended_at")),
	   "id, no exit code, no end");
	is_str(kit_str(j, "queued_at"), "2026-09-21T14:13:20.000001Z", "times are RFC 3339 with microseconds");
	is_str(kit_str(j, "spec.environment.WANDB_API_KEY"), "***", "a secret of the environment is masked");
	is_str(kit_str(j, "spec.environment.NCCL_DEBUG"), "WARN", "what is not secret is not");
	ok(text && !strstr(text, "hunter2") && !strstr(text, "SECRET-TOKEN"), "no secret anywhere in it");
	ok(kit_num(j, "hyperparameters.lr") > 0.09 && kit_num(j, "spec.hyperparameters.epochs") == 5,
	   "hyperparameters");
	is_str(kit_str(j, "tags.team"), "speech", "a tag that was changed");
	ok(!kit_at(j, "tags.kind"), "a tag that was removed");
	is_str(kit_str(j, "attempts.0.outcome"), "failed", "attempts");
	is_str(kit_str(j, "attempts.0.class"), "user_error", "class");
	is_str(kit_str(j, "attempts.0.nodes.1"), "n2", "names of the nodes in rank order");
	is_str(kit_str(j, "attempts.0.phases.0.ended_at"), "2026-09-21T14:13:20.000015Z", "phases");
	ok(cJSON_IsNull(kit_at(j, "attempts.0.resumed_from_step")) && cJSON_IsNull(kit_at(j, "attempts.0.pool")),
	   "null for none");
	is_int(cJSON_GetArraySize(kit_at(j, "artifacts")), 3, "artifacts: a repeated report is one");
	is_str(kit_str(j, "run.git"), "abc", "facts of the run");
	ok(cJSON_IsObject(kit_at(j, "metrics")), "metrics");
	free(text);
	cJSON_Delete(j);
	ok(!store_job_json(r, 99, &e) && e.code == ERR_NOT_FOUND, "a job that is not there");
	like(e.text, "no job 99", "the message names it");
}

static void check_lists(struct store_reader *r)
{
	struct artifact_row a;
	struct job_row row;
	struct err e;
	cJSON *j = store_ranks_json(r, 1, 0, &e);

	ok(cJSON_GetArraySize(j) == 2 && kit_num(j, "1.exit_code") == 3 && kit_num(j, "0.exit_code") == 0,
	   "ranks of the newest attempt");
	is_str(kit_str(j, "1.text"), "Traceback\n\xc3\xa4", "last lines");
	cJSON_Delete(j);
	j = store_events_json(r, 1, 0, 0, &e);
	ok(cJSON_GetArraySize(kit_at(j, "events")) == 1 && kit_num(j, "events.0.data.a") == 1 &&
	       cJSON_IsNull(kit_at(j, "next")),
	   "events");
	is_str(kit_str(j, "events.0.type"), "submitted", "type of the event");
	cJSON_Delete(j);
	j = store_run_info_json(r, 1, &e);
	is_int(cJSON_GetArraySize(j), 2, "facts");
	is_str(kit_str(j, "0.text"), "mpirun -x MY_TOKEN=*** -x A=b prog",
	       "a secret in a command line is masked");
	is_str(kit_str(j, "1.text"), "tokenizers==0.15\nkeyring==24", "a package list is not");
	cJSON_Delete(j);
	ok(store_artifact_get(r, 1, "model", &a, &e) == 0 && strcmp(a.digest, "def") == 0 && !a.uri,
	   "the newest model");
	artifact_row_fini(&a);
	ok(store_artifact_get(r, 1, "output", &a, &e) == 0 && !a.digest &&
	       strcmp(a.uri, "file:///results/1") == 0,
	   "an artifact at a URI");
	artifact_row_fini(&a);
	ok(store_artifact_get(r, 1, "checkpoint", &a, &e) < 0 && e.code == ERR_NOT_FOUND, "no checkpoint");
	ok(store_job_get(r, 1, &row, &e) == 0 && strcmp(row.idem_key, "key-1") == 0 &&
	       strcmp(row.run, "{\"git\":\"abc\"}") == 0,
	   "store_job_get");
	job_row_fini(&row);
}

static void test_everything(void)
{
	struct kit k;
	struct store_reader *r;
	struct store_txn *t;
	struct job_row row;
	struct err e;
	struct stat st;

	kit_open(&k, "all");
	fill(&k);
	ok(stat(k.path, &st) == 0 && (st.st_mode & 077) == 0, "the file is the owner's alone");
	check_load(&k, "same process");
	kit_close(&k);
	kit_reopen(&k);
	check_load(&k, "opened again");
	r = kit_reader(&k);
	check_show(r);
	check_lists(r);
	/* spec NULL leaves specification and run */
	t = store_txn_new();
	row = kit_job(1);
	row.spec = row.run = NULL;
	row.status = C("completed");
	row.ended_us = KIT_T0 + 99;
	row.exit_code = 0;
	store_txn_job(t, &row);
	is_int(kit_commit(&k, t, &e), 0, "a row without specification");
	ok(store_job_get(r, 1, &row, &e) == 0 && strcmp(row.spec, KIT_SPEC) == 0 &&
	       strcmp(row.status, "completed") == 0,
	   "keeps the one that is there");
	job_row_fini(&row);
	store_reader_close(r);
	struct loaded l = {0};
	struct store_load load = all(&l);

	is_int(store_load(k.store, &load, &e), 0, "store_load");
	ok(l.jobs == 0 && l.attempts == 0 && l.ranks == 0, "an ended job is not loaded");
	kit_close(&k);
}

/* ---- order, queue, close --------------------------------------------------------------------------- */

struct order {
	uint64_t next, wrong, failed;
};
struct ticket {
	struct order *o;
	uint64_t n;
};

static void on_ticket(int rc, const struct err *e, void *arg)
{
	struct ticket *t = arg;

	(void)e;
	t->o->wrong += t->n != t->o->next;
	t->o->next = t->n + 1;
	t->o->failed += rc < 0;
	free(t);
}

static struct store_txn *submit_txn(uint64_t id)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, C("submitted"));

	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	return t;
}

static int give(struct kit *k, struct order *o, uint64_t n)
{
	struct ticket *t = xmalloc(sizeof(*t));
	struct store_txn *txn = submit_txn(n + 1);
	struct err e;

	*t = (struct ticket){o, n};
	if (store_commit(k->store, txn, on_ticket, t, &e) == 0)
		return 0;
	free(t);
	store_txn_free(txn);
	return e.code == ERR_BUSY ? 1 : -1;
}

static int all_done(void *arg)
{
	return ((struct order *)arg)->next == 10000;
}

static void test_10000(void)
{
	struct store_reader *r;
	struct order o = {0};
	struct store_stats st;
	struct job_filter f = {.limit = 1000};
	uint64_t n = 0, seen = 0, job, before = 10001;
	struct err e;
	struct kit k;

	kit_open(&k, "many");
	while (n < 10000) {
		if (give(&k, &o, n) != 0)
			tap_bail("commit refused");
		n++;
		if (n % 500 == 0)
			loop_run_once(k.loop, 0);
	}
	kit_wait(&k, all_done, &o, "10,000 submits");
	ok(o.wrong == 0 && o.failed == 0, "10,000 completions, in order, none failed");
	is_int(store_queued(k.store), 0, "nothing is left in the queue");
	store_stats(k.store, &st);
	ok(st.transactions == 10000 && st.groups < 10000, "groups: %" PRIu64 " for 10,000", st.groups);
	r = kit_reader(&k);
	for (int page = 0; page < 20; page++) {
		cJSON *j = store_jobs_json(r, &f, &e);
		const cJSON *v;

		cJSON_ArrayForEach (v, kit_at(j, "jobs")) {
			if (kit_num(v, "id") != (double)--before)
				tap_bail("a job is missing in the pages");
			seen++;
		}
		f.before_id = cJSON_IsNull(kit_at(j, "next")) ? 0 : (uint64_t)kit_num(j, "next");
		cJSON_Delete(j);
		if (!f.before_id)
			break;
	}
	is_int((int64_t)seen, 10000, "keyset pages show each job once");
	ok(store_job_by_name(r, "alice", "digits", 1, &job, &e) == 0 && job == 9999,
	   "the one before the newest of a name");
	kit_wait_projected(&k);
	ok(store_job_by_name(r, "alice", "digits", 1, &job, &e) == 0 && job == 9999,
	   "the same from the projections");
	ok(store_job_last(r, "alice", 0, &job, &e) == 0 && job == 10000, "last");
	ok(store_job_last(r, "alice", 1, &job, &e) == 0 && job == 9999, "the one before the last");
	ok(store_job_last(r, "bob", 0, &job, &e) < 0 && e.code == ERR_NOT_FOUND, "bob has none");
	ok(store_job_by_name(r, NULL, "nope", 0, &job, &e) < 0 && e.code == ERR_NOT_FOUND, "no such name");
	store_reader_close(r);
	kit_close(&k);
}

static void test_queue_full(void)
{
	struct store_config c = {.clock = clock_real(), .queue_limit = 8};
	struct order o = {0};
	struct kit k;
	struct err e;
	uint64_t taken = 0;
	int rc;

	kit_open(&k, "full");
	store_close(k.store);
	c.path = k.path;
	k.store = store_open(&c, k.loop, &e);
	/* Nothing is delivered while the loop does not turn: the queue is full after exactly its limit, whatever
	 * the writer has done. */
	while ((rc = give(&k, &o, taken)) == 0)
		taken++;
	ok(rc == 1 && taken == 8, "the ninth transaction is refused with ERR_BUSY");
	is_int(store_queued(k.store), 8, "store_queued");
	store_close(k.store);
	ok(o.next == 8 && o.failed == 0 && o.wrong == 0, "store_close commits and completes what waits");
	k.store = NULL;
	kit_reopen(&k);
	is_int(store_max_ids(k.store, &taken, &taken, &taken, &e), 0, "opened again");
	kit_close(&k);
}

/* ---- bad transactions --------------------------------------------------------------------------------- */

static int three_done(void *arg)
{
	struct kit_result *r = arg;

	return r[0].done && r[1].done && r[2].done && r[3].done;
}

static void test_bad_one(void)
{
	struct kit_result res[4] = {{0}};
	struct store_txn *t[4];
	struct event_row again = kit_event(1, 2, C("other"));
	struct job_row two = kit_job(2);
	struct store_reader *r;
	struct job_row row;
	struct err e;
	struct kit k;

	kit_open(&k, "bad");
	kit_submit(&k, 1, NULL);
	t[0] = submit_txn(10);
	t[1] = store_txn_new(); /* an event id for the second time: refused by the table */
	store_txn_job(t[1], &two);
	store_txn_event(t[1], &again);
	t[2] = store_txn_new(); /* built upon the one before */
	two.status = C("running");
	store_txn_job(t[2], &two);
	t[3] = submit_txn(11);
	for (int i = 0; i < 4; i++)
		store_commit(k.store, t[i], kit_on_result, &res[i], &e);
	kit_wait(&k, three_done, res, "four transactions");
	ok(res[0].rc == 0 && res[3].rc == 0, "a bad transaction does not spoil the others of its group");
	ok(res[1].rc < 0 && res[1].code == ERR_INTERNAL, "the bad one fails");
	ok(res[2].rc < 0 && res[2].code == ERR_CONFLICT,
	   "so does one given before its failure was known, on the same job");
	r = kit_reader(&k);
	ok(store_job_get(r, 2, &row, &e) < 0 && e.code == ERR_NOT_FOUND, "nothing of them is kept");
	kit_submit(&k, 2, NULL);
	ok(store_job_get(r, 2, &row, &e) == 0, "a later one may succeed");
	job_row_fini(&row);
	store_reader_close(r);
	kit_close(&k);
}

/* ---- schemas --------------------------------------------------------------------------------------------
 */

static void refused(const char *path, const char *want, const char *what)
{
	struct store_config c = {.path = path, .clock = clock_real()};
	struct loop *l = loop_create();
	struct err e;
	struct store *s = store_open(&c, l, &e);

	ok(!s, "%s", what);
	like(e.text, want, "the message says why");
	store_close(s);
	loop_destroy(l);
}

static void test_schema(void)
{
	char path[512];
	struct kit k;
	FILE *f;

	kit_open(&k, "schema");
	kit_close(&k);
	kit_sql(k.path, "INSERT INTO migration VALUES (9999, '9999_future', 'x', 0)");
	refused(k.path, "schema 9999", "a newer schema is refused");
	kit_sql(
	    k.path,
	    "DELETE FROM migration WHERE number = 9999; UPDATE migration SET checksum = 'y' WHERE number = 1");
	refused(k.path, "another text", "a changed migration is refused");
	snprintf(path, sizeof(path), "%s/other.db", tap_tmpdir());
	kit_sql(path, "CREATE TABLE things (a)");
	refused(path, "another program", "a database of another program is refused");
	snprintf(path, sizeof(path), "%s/text.db", tap_tmpdir());
	f = fopen(path, "w");
	for (int i = 0; i < 100; i++)
		fputs("this is no database at all, but text\n", f);
	fclose(f);
	refused(path, "not a database", "a file that is no database is refused");
	snprintf(path, sizeof(path), "%s/no/such/dir/h.db", tap_tmpdir());
	refused(path, "No such file", "a folder that is not there");
}

int main(void)
{
	test_everything();
	test_10000();
	test_queue_full();
	test_bad_one();
	test_schema();
	return tap_done();
}
