/* The core and its store: nothing leaves before it is durable, failed transactions, full queue, a restart
 * between any two commits, metric points. */
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <signal.h>
#include <sqlite3.h>
#include <string.h>

#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"resources\": {\"instances\": 2, "                      \
	"\"gpus_per_instance\": 1}}"
#define ONE "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"

static void finish_well(struct world *w)
{
	is_int(w->n_requests, w->n_replies, "every request was answered once");
	world_end_well(w);
}

static void test_held(void)
{
	struct world *w = world_create(1);

	world_agent_up(w, "a", 1, 4);
	world_forget(w);
	w->hold_commits = 1;
	world_submit(w, ONE);
	is_int(w->n_replies, 0, "no answer before the commit");
	is_int(world_count(w, "a", WM_PREPARE), 0, "no order either");
	world_request(w, REQ_TOP, 0, NULL, NULL);
	is_int(w->n_replies, 0, "a question waits, too: it would show what may yet not be");
	world_commit_now(w);
	is_int(world_count(w, "a", WM_PREPARE), 1, "then the order");
	is_int(w->n_replies, 2, "and the answers");
	w->hold_commits = 0;
	world_turn(w);
	finish_well(w);
}

/* The end while submits come in: what the store has is answered as it turns out, the rest is refused, and
 * nobody takes that for a failing store. */
static void test_stopped(void)
{
	struct world *w = world_create(9);
	uint64_t failed;

	w->hold_commits = 1;
	world_submit(w, ONE);
	is_int(w->n_replies, 0, "one is with the store");
	world_submit(w, ONE);
	world_request(w, REQ_TOP, 0, NULL, NULL);
	is_int(w->n_replies, 0, "two wait behind it");
	failed = w->core->turn.n_failed;
	core_stop(w->core);
	is_int(w->n_replies, 2, "the end answers these at once");
	is_int(w->status, 503, "with 503");
	is_str(w->err.text, "hearthd is stopping", "and why");
	ok(!core_stopped(w->core), "the first is still with the store");
	world_submit(w, ONE);
	is_int(w->n_replies, 3, "what comes now is refused, too");
	is_int(w->status, 503, "with 503");
	world_agent_up(w, "a", 0, 1);
	world_commit_now(w);
	is_int(w->n_replies, 4, "then the first");
	is_int(w->status, 201, "is acknowledged");
	ok(core_stopped(w->core), "that was all");
	ok(!w->core->life.failing && w->core->turn.n_failed == failed, "no failure of the store was seen");
	w->hold_commits = 0;
	world_turn(w);
	ok(core_stopped(w->core), "nothing new begins");
	world_restart(w);
	is_str(world_status(w, 1), "queued", "what was acknowledged is there");
	is_str(world_status(w, 2), "", "what was refused is not");
	finish_well(w);
}

/* The same when that last transaction is not taken: its callers hear of it, and the state is not read again.
 */
static void test_stopped_failing(void)
{
	struct world *w = world_create(10);

	w->hold_commits = 1;
	w->fail_next = 1;
	world_submit(w, ONE);
	core_stop(w->core);
	world_commit_now(w);
	is_int(w->n_replies, 1, "answered");
	is_int(w->status, 507, "with the store's error");
	ok(core_stopped(w->core) && !w->core->life.failing, "and the end comes");
	w->hold_commits = 0;
	world_restart(w);
	is_str(world_status(w, 1), "", "nothing of it is there");
	finish_well(w);
}

/* Nodes and tokens: what their events do not give is found. */
static void test_spoiled_cluster(void)
{
	static const struct {
		const char *spoil, *mend, *says;
	} cases[] = {
	    {"UPDATE node SET state = 'lost' WHERE name = 'a'", "UPDATE node SET state = 'up' WHERE name = 'a'",
	     "node a"},
	    {"UPDATE node SET drain = 0 WHERE name = 'b'", "UPDATE node SET drain = 1 WHERE name = 'b'", "drain"},
	    {"UPDATE node SET reason = 'x' WHERE name = 'b'", "UPDATE node SET reason = 'fan' WHERE name = 'b'",
	     "reason"},
	    {"UPDATE node SET joined_us = joined_us + 60000000",
	     "UPDATE node SET joined_us = joined_us - 60000000", "joined_us"},
	    {"UPDATE node SET cert_fingerprint = 'f' || cert_fingerprint",
	     "UPDATE node SET cert_fingerprint = substr(cert_fingerprint, 2)", "certificate"},
	    {"UPDATE node SET address = 'x' || address", "UPDATE node SET address = substr(address, 2)",
	     "address"},
	    {"UPDATE node SET inventory = replace(inventory, '\"slots\":4', '\"slots\":8')",
	     "UPDATE node SET inventory = replace(inventory, '\"slots\":8', '\"slots\":4')", "slots"},
	    {"UPDATE node SET name = 'z' WHERE name = 'a'", "UPDATE node SET name = 'a' WHERE name = 'z'",
	     "a has events and no row"},
	    {"INSERT INTO node SELECT id + 100, 'y', address, state, reason, cert_fingerprint, inventory, "
	     "joined_us, "
	     "seen_us, drain, spare FROM node WHERE name = 'a'",
	     "DELETE FROM node WHERE name = 'y'", "no event tells of it"},
	    {"UPDATE token SET owner = 'eve'", "UPDATE token SET owner = 'ada'", "by \"eve\""},
	    {"UPDATE token SET expires_us = expires_us + 3600000000",
	     "UPDATE token SET expires_us = expires_us - 3600000000", "token"},
	    {"UPDATE token SET used_us = 1000 + created_us WHERE used_us = 0",
	     "UPDATE token SET used_us = 0 WHERE used_us = 1000 + created_us", "used_us"},
	    {"UPDATE token SET used_by = 'x' || used_by WHERE used_us > 0",
	     "UPDATE token SET used_by = substr(used_by, 2) WHERE used_us > 0", "used it"},
	    {"UPDATE token SET id = 'x' || id", "UPDATE token SET id = substr(id, 2)", "has events and no row"},
	    {"UPDATE event SET data = '{\"node\": \"nobody\"}' || data WHERE type = 'connected'",
	     "UPDATE event SET data = substr(data, 19) WHERE type = 'connected'",
	     "cannot be replayed: its data cannot be read"},
	    {"UPDATE event SET data = replace(data, '\"a\"', '\"no\"') WHERE type = 'connected'",
	     "UPDATE event SET data = replace(data, '\"no\"', '\"a\"') WHERE type = 'connected'",
	     "there is no node \"no\""},
	};
	struct world *w = world_create(11);
	sqlite3 *db;

	is_int(world_join(w, "c"), 201, "a node joins with a token");
	world_request(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"join\", \"ttl_s\": 60}");
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_request(w, REQ_DRAIN, 0, "b", "{\"reason\": \"fan\"}");
	is_int(world_verify(w), 0, "nothing to find yet");
	if (sqlite3_open(w->path, &db) != SQLITE_OK)
		tap_bail("cannot open %s", w->path);
	sqlite3_busy_timeout(db, 30000);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		is_int(sqlite3_exec(db, cases[i].spoil, NULL, NULL, NULL), SQLITE_OK, "spoil a row");
		ok(sqlite3_changes(db) > 0, "it is another one now");
		ok(world_verify(w) > 0 && strstr(world_findings(w), cases[i].says), "found: %s", cases[i].spoil);
		is_int(sqlite3_exec(db, cases[i].mend, NULL, NULL, NULL), SQLITE_OK, "mend it");
		is_int(world_verify(w), 0, "all is well");
	}
	sqlite3_close(db);
	finish_well(w);
}

/* The same of what administrators set. */
static void test_spoiled_settings(void)
{
	static const struct {
		const char *spoil, *mend, *says;
	} cases[] = {
	    {"UPDATE queue SET weight_milli = 2501 WHERE path = 'night'",
	     "UPDATE queue SET weight_milli = 2500 WHERE path = 'night'", "queue night"},
	    {"UPDATE queue SET quota_gpus = 9 WHERE path = 'night/@ada'",
	     "UPDATE queue SET quota_gpus = 1 WHERE path = 'night/@ada'", "quota: events give 1 GPUs"},
	    {"UPDATE queue SET borrow = 0 WHERE path = 'night'",
	     "UPDATE queue SET borrow = 1 WHERE path = 'night'", "borrow"},
	    {"UPDATE queue SET is_queue = 1 WHERE path = 'night/@ada'",
	     "UPDATE queue SET is_queue = 0 WHERE path = 'night/@ada'", "is_queue"},
	    {"UPDATE queue SET quota_gpus = 0 WHERE path = 'default'",
	     "UPDATE queue SET quota_gpus = 4 WHERE path = 'default'", "queue default"},
	    {"INSERT INTO queue VALUES ('day', 1, 1000, 0, 0, 0, 0)", "DELETE FROM queue WHERE path = 'day'",
	     "events say that it was removed"},
	    {"INSERT INTO queue VALUES ('noon', 1, 1000, 0, 0, 0, 0)", "DELETE FROM queue WHERE path = 'noon'",
	     "no event tells of it"},
	    {"UPDATE queue SET path = 'x' WHERE path = 'night'",
	     "UPDATE queue SET path = 'night' WHERE path = 'x'", "queue night has events and no row"},
	    {"UPDATE budget SET uusd = uusd + 1 WHERE path = 'night'",
	     "UPDATE budget SET uusd = uusd - 1 WHERE path = 'night'", "budget night"},
	    {"UPDATE budget SET period = 'day' WHERE path = 'night'",
	     "UPDATE budget SET period = 'week' WHERE path = 'night'", "a week, the row"},
	    {"INSERT INTO budget VALUES ('night/@ada', 5, 'day', 'hold')",
	     "DELETE FROM budget WHERE path = 'night/@ada'", "events say that it was removed"},
	    {"UPDATE budget SET path = 'x'", "UPDATE budget SET path = 'night'", "has events and no row"},
	    {"UPDATE instance SET own = replace(own, '8', '7') WHERE name = 'big'",
	     "UPDATE instance SET own = replace(own, '7', '8') WHERE name = 'big'", "instance type big"},
	    {"UPDATE instance SET own = 'x' || own WHERE name = 'big'",
	     "UPDATE instance SET own = substr(own, 2) WHERE name = 'big'", "its facts"},
	    {"INSERT INTO instance VALUES ('small', '{}')", "DELETE FROM instance WHERE name = 'small'",
	     "events say that it was removed"},
	    {"UPDATE instance SET name = 'x'", "UPDATE instance SET name = 'big'", "big has events and no row"},
	    {"UPDATE reservation SET queue = 'default'", "UPDATE reservation SET queue = 'night'",
	     "reservation keep"},
	    {"UPDATE event SET data = replace(data, 'bob', 'nobody') WHERE type = 'quota_removed'",
	     "UPDATE event SET data = replace(data, 'nobody', 'bob') WHERE type = 'quota_removed'",
	     "there is no queue"},
	};
	struct world *w = world_create(14);
	sqlite3 *db;

	world_agent_up(w, "a", 1, 4);
	world_request(w, REQ_QUEUE_SET, 0, "night", "{\"weight\": 2.5}");
	world_request(w, REQ_QUEUE_SET, 0, "day", "{}");
	world_request(w, REQ_QUOTA_SET, 0, "day/@ada", "{\"gpus\": 3}");
	world_request(w, REQ_QUEUE_RM, 0, "day", NULL);
	world_request(w, REQ_QUOTA_SET, 0, "night", "{\"gpus\": 2, \"borrow\": true}");
	world_request(w, REQ_QUOTA_SET, 0, "night/@ada", "{\"gpus\": 1}");
	world_request(w, REQ_QUOTA_SET, 0, "night/@bob", "{\"gpus\": 1}");
	world_request(w, REQ_QUOTA_RM, 0, "night/@bob", NULL);
	world_request(w, REQ_QUOTA_SET, 0, "default", "{\"gpus\": 4}");
	world_request(w, REQ_BUDGET_SET, 0, "night", "{\"usd\": 10.123456, \"period\": \"week\"}");
	world_request(w, REQ_BUDGET_SET, 0, "night/@ada", "{\"usd\": 3}");
	world_request(w, REQ_BUDGET_RM, 0, "night/@ada", NULL);
	world_request(w, REQ_INSTANCE_SET, 0, "big", "{\"gpus\": 4, \"gpu_model\": \"H100\"}");
	world_request(w, REQ_INSTANCE_SET, 0, "big",
	              "{\"gpus\": 8, \"gpu_model\": null, \"formats\": [\"bf16\"]}");
	world_request(w, REQ_INSTANCE_SET, 0, "small", "{\"gpus\": 1}");
	world_request(w, REQ_INSTANCE_RM, 0, "small", NULL);
	world_request(w, REQ_RESERVE_ADD, 0, "keep", "{\"for_s\": 600, \"count\": 1, \"queue\": \"night\"}");
	is_int(w->status, 200, "all is set");
	is_int(world_verify(w), 0, "nothing to find yet");
	if (sqlite3_open(w->path, &db) != SQLITE_OK)
		tap_bail("cannot open %s", w->path);
	sqlite3_busy_timeout(db, 30000);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		is_int(sqlite3_exec(db, cases[i].spoil, NULL, NULL, NULL), SQLITE_OK, "spoil a row");
		ok(sqlite3_changes(db) > 0, "it is another one now");
		ok(world_verify(w) > 0 && strstr(world_findings(w), cases[i].says), "found: %s", cases[i].spoil);
		is_int(sqlite3_exec(db, cases[i].mend, NULL, NULL, NULL), SQLITE_OK, "mend it");
		is_int(world_verify(w), 0, "all is well");
	}
	sqlite3_close(db);
	world_restart(w);
	world_request(w, REQ_INSTANCE_SET, 0, "big", "{\"gpus\": null}");
	world_request(w, REQ_QUOTA_RM, 0, "default", NULL);
	is_int(world_verify(w), 0, "the queue that is always there has no quota any more, and is there");
	world_request(w, REQ_QUEUE_SET, 0, "default", "{\"weight\": 0.001}");
	is_int(w->status, 200, "and after a restart");
	finish_well(w);
}

/* The whole life of a node leaves rows that its events give; so does a name that comes back. */
static void test_cluster_life(void)
{
	struct world *w = world_create(12);

	world_agent_up(w, "a", 1, 4);
	is_int(world_verify(w), 0, "up");
	world_request(w, REQ_DRAIN, 0, "a", "{}");
	is_int(world_verify(w), 0, "drained");
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "reset");
	world_turn(w);
	world_request(w, REQ_NODE_LOST, 0, "a", "{}");
	is_int(world_verify(w), 0, "lost");
	world_agent_up(w, "a", 2, 4);
	is_int(world_verify(w), 0, "up again, with another inventory");
	world_request(w, REQ_RESUME, 0, "a", NULL);
	is_int(world_verify(w), 0, "resumed");
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "reset");
	world_turn(w);
	is_int(world_request(w, REQ_NODE_RM, 0, "a", "{\"force\": true}"), 200, "it is removed");
	is_int(world_verify(w), 0, "removed");
	is_int(world_join(w, "a"), 201, "it joins again");
	is_int(world_verify(w), 0, "joined again");
	is_int(world_request(w, REQ_NODE_RM, 0, "a", "{\"force\": true}"), 200, "removed again");
	world_restart(w);
	is_int(world_join(w, "a"), 201, "it joins again");
	is_int(world_verify(w), 0, "as another row after a restart");
	finish_well(w);
}

static void test_failed(void)
{
	struct world *w = world_create(2);
	uint64_t id, events;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_forget(w);
	events = w->n_events;
	w->fail_next = 1;
	is_int(world_submit(w, ONE), 0, "the disk is full");
	is_int(w->status, 507, "the submit is refused");
	is_int(w->n_events, events, "no event is shown");
	ok(!job_find(w->core, id + 1), "nothing of it is there");
	is_str(world_status(w, id), "running", "the running job is as before");
	is_int(world_submit(w, ONE), 0, "while it fails nothing is taken");
	is_int(w->status, 507, "with the reason");
	golden("hearthd/store-nothing-can-be-recorded-at-the-moment", w->err.text);
	is_int(world_request(w, REQ_WHY, id, NULL, NULL), 200, "questions are answered");
	world_beat(w, "a");
	is_int(world_count(w, "a", WM_BEAT_ACK), 1, "beats too");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	is_int(world_count(w, "a", WM_ACK), 0, "reports are not taken");
	w->fail_next = 3;
	world_advance(w, 3500000);
	is_int(w->core->life.failing, 1, "probes fail, too");
	world_request(w, REQ_TOP, 0, NULL, NULL);
	golden("hearthd/store-no-space-left-on-device", world_text(w, "problem"));
	world_request(w, REQ_STATS, 0, NULL, NULL);
	golden("hearthd/store-nothing-can-be-recorded-the-store-fails", world_text(w, "problem"), "jobctl top");
	world_advance(w, 2000000);
	is_int(w->core->life.failing, 0, "until one is durable");
	is_int(w->n_closed, 1, "then the agent is asked to report again");
	{
		uint64_t s = world_agent_connect(w, "a");
		struct wm_sync_begin begin = {.instance = 1};
		struct wm_sync_end end = {.instance = 1};

		world_msg(w, "a", s, WM_SYNC_BEGIN, &begin);
		world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
		world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
		world_msg(w, "a", s, WM_SYNC_END, &end);
		world_turn(w);
	}
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "nothing was lost");
	ok(world_submit(w, ONE) > id + 1, "a number that was given and refused is not given again");
	finish_well(w);
}

/* The disk is low: new work is refused before anything of it is written, all else goes on, and no agent is
 * asked to report again. */
static void test_no_room(void)
{
	struct world *w = world_create(12);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit_full(w, ONE, NULL, "key-1", "d1");
	world_begin(w, id);
	core_no_room(w->core, "1.0MiB left");
	is_int(world_submit(w, ONE), 0, "a submit");
	is_int(w->status, 507, "is refused");
	golden("hearthd/store-no-new-work-is-accepted-mib-left", w->err.text, "1.0MiB");
	is_int((int64_t)world_submit_full(w, ONE, NULL, "key-1", "d1"), (int64_t)id,
	       "one that was taken before is answered as before");
	is_int(world_submit_full(w, ONE, "{\"dry_run\": true}", NULL, NULL), 0, "a dry run makes no job");
	is_int(w->status, 200, "and is answered");
	is_int(world_request(w, REQ_TOP, 0, NULL, NULL), 200, "the overview");
	golden("hearthd/store-no-new-work-is-accepted-mib-left", world_text(w, "problem"), "1.0MiB");
	world_request(w, REQ_STATS, 0, NULL, NULL);
	golden("hearthd/store-no-new-work-is-accepted-mib-left", world_text(w, "problem"), "1.0MiB");
	is_int(world_request(w, REQ_DRAIN, 0, "a", "{\"reason\": \"disk\"}"), 200, "a node can be drained");
	world_end_with(w, id, 0);
	is_str(world_status(w, id), "completed", "the running job comes to its end and is on record");
	ok(!w->core->life.failing && !w->n_closed, "nothing failed, and no agent had to report again");
	core_no_room(w->core, "0.9MiB left");
	core_no_room(w->core, NULL);
	ok(world_submit(w, ONE) > 0, "there is room again");
	world_request(w, REQ_TOP, 0, NULL, NULL);
	ok(!cJSON_GetObjectItem(w->body, "problem"), "and nothing is said any more");
	finish_well(w);
}

static void test_failed_behind(void)
{
	struct world *w = world_create(3);

	w->hold_commits = 1;
	world_submit(w, ONE); /* given to the store */
	world_submit(w, ONE); /* gathers behind it */
	is_int(w->n_replies, 0, "both wait");
	w->fail_next = 1;
	world_commit_now(w);
	is_int(w->n_replies, 2, "both are refused: the second was built upon the first");
	is_int(w->status, 507, "507");
	is_int(w->core->jobs.unfinished, 0, "nothing is there");
	w->hold_commits = 0;
	world_advance(w, 1500000);
	is_int(world_submit(w, ONE) != 0, 1, "it goes on");
	finish_well(w);
}

static void test_busy(void)
{
	struct world *w = world_create(4);

	w->store_busy = 3;
	is_int(world_submit(w, ONE), 0, "the store's queue is full");
	is_int(w->n_replies, 0, "no answer yet");
	world_advance(w, 200000);
	is_int(w->n_replies, 1, "it is tried again");
	is_int(w->status, 201, "and taken");
	finish_well(w);
}

static void point_of(struct world *w, const char *node, uint64_t job, uint32_t attempt, uint64_t epoch,
                     uint64_t seq, double v)
{
	uint32_t ix[2] = {0, 0}, ranks[2] = {0, 1};
	int64_t steps[2] = {(int64_t)seq, (int64_t)seq};
	double values[2] = {v, v + 1};
	uint64_t times[2] = {1800000000000000u, 1800000000000001u};
	char name[] = "loss", *names[1] = {name};
	struct wm_metrics m = {.job = job,
	                       .attempt = attempt,
	                       .epoch = epoch,
	                       .seq = seq,
	                       .names = {names, 1},
	                       .name_ix = {ix, 2},
	                       .ranks = {ranks, 2},
	                       .steps = {steps, 2},
	                       .values = {values, 2},
	                       .times = {times, 2}};

	world_msg(w, node, 99, WM_METRICS, &m);
	world_turn(w);
}

static void point(struct world *w, const char *node, uint64_t job, uint64_t epoch, uint64_t seq, double v)
{
	point_of(w, node, job, 1, epoch, seq, v);
}

static uint64_t metric_count(struct world *w, uint64_t job)
{
	cJSON *m = store_metrics_json(w->reader, job, -1, 0, NULL);
	const cJSON *c = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "loss"), "count");
	uint64_t n = cJSON_IsNumber(c) ? (uint64_t)c->valuedouble : 0;

	cJSON_Delete(m);
	return n;
}

static void test_points(void)
{
	struct world *w = world_create(5);
	uint64_t id, sweep;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	point(w, "a", id, 1, 1, 0.5);
	point(w, "a", id, 1, 1, 0.5);
	is_int(metric_count(w, id), 1, "one point each of two ranks; the same batch twice counts once");
	point(w, "a", id, 7, 2, 0.5);
	is_int(metric_count(w, id), 1, "another epoch does not count");
	sweep = world_submit(w, "{\"name\": \"s\", \"command\": [\"/bin/x\"], \"array\": 2}");
	point_of(w, "a", sweep, 0, 0, 5, 0.5);
	is_int(metric_count(w, sweep), 0, "nor does an array, which never runs itself");
	world_request(w, REQ_TOP, 0, NULL, NULL);
	ok(cJSON_GetObjectItem(
	       cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "running"), 0), "metrics"),
	       "loss") != NULL,
	   "the overview shows the newest value");
	w->fail_next = 1;
	point(w, "a", id, 1, 3, 0.25);
	is_int(w->core->life.failing, 0, "points that are not stored do not stop the core");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "the job has ended");
	point(w, "a", id, 1, 4, 0.1);
	is_int(metric_count(w, id), 2, "points that come after the end are kept");
	finish_well(w);
}

static void one_attempt(struct world *w, uint64_t id, uint32_t number)
{
	world_launch(w, "a", id, number, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, number, 0, PS_RUNNING, 0, 0, NULL);
	if (number == 1)
		world_request(w, REQ_REQUEUE, id, NULL, NULL);
	world_rank(w, "a", id, number, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, "a", id, number, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, number, LAUNCH_CLEANED, 0, NULL);
}

/* Any field that is not what the events give is found, of the job, of an older attempt, of a rank. */
static void test_spoiled(void)
{
	static const struct {
		const char *spoil, *mend;
	} cases[] = {
	    {"UPDATE job SET reason = 'x' || reason", "UPDATE job SET reason = substr(reason, 2)"},
	    {"UPDATE attempt SET outcome = 'succeeded' WHERE number = 1",
	     "UPDATE attempt SET outcome = 'stopped' WHERE number = 1"},
	    {"UPDATE attempt SET placement = replace(placement, '\"node\":\"a\"', '\"node\":\"b\"') WHERE number "
	     "= 2",
	     "UPDATE attempt SET placement = replace(placement, '\"node\":\"b\"', '\"node\":\"a\"')"},
	    {"UPDATE attempt SET ended_us = ended_us + 1 WHERE number = 1",
	     "UPDATE attempt SET ended_us = ended_us - 1 WHERE number = 1"},
	    {"UPDATE rank SET exit_code = 7 WHERE attempt = 2",
	     "UPDATE rank SET exit_code = 0 WHERE attempt = 2"},
	    {"UPDATE rank SET rank = 1 WHERE attempt = 2", "UPDATE rank SET rank = 0 WHERE attempt = 2"},
	    {"UPDATE attempt SET number = 3 WHERE number = 2; UPDATE rank SET attempt = 3 WHERE attempt = 2",
	     "UPDATE attempt SET number = 2 WHERE number = 3; UPDATE rank SET attempt = 2 WHERE attempt = 3"},
	};
	struct world *w = world_create(6);
	sqlite3 *db;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	one_attempt(w, id, 1);
	one_attempt(w, id, 2);
	is_str(world_status(w, id), "completed", "two attempts");
	is_int(world_verify(w), 0, "nothing to find yet");
	if (sqlite3_open(w->path, &db) != SQLITE_OK)
		tap_bail("cannot open %s", w->path);
	sqlite3_busy_timeout(db, 30000); /* the writer may be at its search tables */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		is_int(sqlite3_exec(db, cases[i].spoil, NULL, NULL, NULL), SQLITE_OK, "spoil a row");
		is_int(sqlite3_changes(db), 1, "one");
		ok(world_verify(w) > 0, "found: %s", cases[i].spoil);
		is_int(sqlite3_exec(db, cases[i].mend, NULL, NULL, NULL), SQLITE_OK, "mend it");
		is_int(world_verify(w), 0, "all is well");
	}
	sqlite3_close(db);
	finish_well(w);
}

/* One life, restarted after the n-th commit, n = 1, 2, ...: the same end every time, nothing twice. */
static int life_with_restart(uint64_t at)
{
	struct world *w = world_create(100 + at);
	static const uint8_t states[] = {LAUNCH_PREPARING, LAUNCH_READY, LAUNCH_RUNNING, LAUNCH_ENDED,
	                                 LAUNCH_CLEANED};
	uint64_t id = 0;
	int done = 0, restarted = 0;

	for (unsigned step = 0; step < 40 && !done; step++) {
		if (!restarted && w->n_commits >= at) {
			restarted = 1;
			world_restart(w);
		}
		if (!node_find(w->core, "a") || !node_find(w->core, "a")->synced || !node_find(w->core, "b") ||
		    !node_find(w->core, "b")->synced) {
			/* Agents come (back) and report what they have so far. */
			for (const char *n = "ab"; *n; n++) {
				char name[2] = {*n, '\0'};
				uint64_t s = world_agent_connect(w, name);
				struct wm_sync_begin begin = {.instance = 1};
				struct wm_sync_end end = {.instance = 1};
				const struct cjob *j = id ? job_find(w->core, id) : NULL;

				world_agent_inventory(w, name, s, 1, 4);
				world_msg(w, name, s, WM_SYNC_BEGIN, &begin);
				if (j && j->r.att) {
					const struct place_rec *p = &j->r.att->places[*n - 'a'];

					if (p->state > PLACE_ORDERED && p->state < PLACE_CLEANED)
						world_launch(w, name, id, j->r.att->number, (uint8_t)p->state, 0, NULL);
				}
				world_msg(w, name, s, WM_SYNC_END, &end);
				world_turn(w);
			}
		} else if (!id) {
			id = world_submit_full(w, TWO, NULL, "key",
			                       "1111111111111111111111111111111111111111111111111111111111111111");
		} else {
			struct cjob *j = job_find(w->core, id);

			if (!j) {
				done = 1;
				break;
			}
			for (unsigned i = 0; i < 2; i++) {
				char name[2] = {(char)('a' + i), '\0'};
				enum place_state now = j->r.att->places[i].state;

				if (now == PLACE_RUNNING && j->r.att->ranks[i].state != RANK_EXITED) {
					world_rank(w, name, id, 1, i,
					           j->r.att->ranks[i].state == RANK_WAITING ? PS_RUNNING : PS_EXITED, 0, 0, NULL);
				} else if (now == PLACE_READY) {
					if (j->r.att->state != ATT_PREPARING)
						world_launch(w, name, id, 1, LAUNCH_RUNNING, 0, NULL);
				} else if (now < PLACE_CLEANED && (now != PLACE_ENDED || j->r.att->outcome != OUT_NONE)) {
					world_launch(w, name, id, 1,
					             states[now == PLACE_RUNNING ? 3
					                    : now == PLACE_ENDED ? 4
					                                         : (unsigned)now],
					             0, NULL);
				}
				j = job_find(w->core, id);
				if (!j)
					break;
			}
		}
	}
	is_str(world_status(w, id), "completed", "restart after a commit");
	if (world_check(w) || world_verify(w) != 0)
		ok(0, "consistent after a restart after commit %llu", (unsigned long long)at);
	world_destroy(w);
	return restarted;
}

int main(void)
{
	test_held();
	test_stopped();
	test_stopped_failing();
	test_spoiled_cluster();
	test_spoiled_settings();
	test_cluster_life();
	test_failed();
	test_no_room();
	test_failed_behind();
	test_busy();
	test_points();
	test_spoiled();
	for (uint64_t at = 1; life_with_restart(at); at++)
		;
	return tap_done();
}
