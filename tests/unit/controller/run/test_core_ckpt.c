/* Checkpoints that nodes report: the record, its events and rows; reports that come twice, late or from
 * another epoch; the loss; a controller that starts again. */
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include "tests/unit/controller/run/ckptkit.h"

static unsigned count_events(struct world *w, uint64_t id, const char *type)
{
	struct err e;
	cJSON *all = store_events_json(w->reader, id, 0, 1000, &e);
	const cJSON *one;
	unsigned n = 0;

	cJSON_ArrayForEach (one, cJSON_GetObjectItem(all, "events"))
		n += strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(one, "type")), type) == 0;
	cJSON_Delete(all);
	return n;
}

#define OF_PART(rank) ",\"node_rank\":" rank ",\"name\":\"step-10\",\"digest\":\"" DIGEST "\""

static void test_record(void)
{
	uint64_t id;
	struct world *w = ck_make(1, &id);
	char *text;

	ck_loss(w, id, 9, 0.75);
	ck_loss(w, id, 11, 0.5);
	world_forget(w);
	ck_report(w, id, "a",
	          &(struct ck_part){
	              .attempt = 1, .seq = 1, .size = 100, .step = 10, .state = CKPT_COPYING, .shards = 2});
	is_int(world_count(w, "a", WM_ACK), 1, "a report is acknowledged");
	ck_report(w, id, "b",
	          &(struct ck_part){.attempt = 1, .seq = 1, .size = 50, .step = 10, .state = CKPT_COPYING});
	ck_report(w, id, "a",
	          &(struct ck_part){.attempt = 1,
	                            .seq = 1,
	                            .size = 100,
	                            .step = 10,
	                            .state = CKPT_VERIFIED,
	                            .uri = "file:///share/7"});
	text = ck_json(w, id);
	is_str(text,
	       "[{\"step\":10,\"at\":\"2027-01-15T08:00:00.000000Z\",\"attempt\":1,\"save_s\":1.5,\"loss\":0.75,"
	       "\"size_bytes\":150,\"digest\":"
	       "\"b320e85978db05134003a2914eebddd8d3b8726818f2e2c679e1898c721562a9\",\"shards\":2,\"places\":["
	       "{\"uri\":\"file:///share/7\",\"state\":\"verified\"" OF_PART(
	           "0") "},{\"node\":\"a\","
	                "\"state\":\"verified\"" OF_PART("0") "},{\"node\":\"b\",\"state\":\"copying\"" OF_PART(
	                    "1") "}],"
	                         "\"complete\":true,\"pinned\":false,\"set_aside\":false,"
	                         "\"step_by\":\"name\"}]",
	       "the list has the entry, with the last loss up to its step");
	free(text);
	is_int(count_events(w, id, "checkpoint"), 3, "each state of a part has an event");
	ck_report(w, id, "a",
	          &(struct ck_part){.attempt = 1,
	                            .seq = 1,
	                            .size = 100,
	                            .step = 10,
	                            .state = CKPT_VERIFIED,
	                            .uri = "file:///share/7"});
	is_int(count_events(w, id, "checkpoint"), 3, "the same report again has none");
	ck_report(w, id, "a",
	          &(struct ck_part){.attempt = 2, .seq = 2, .size = 1, .step = 11, .state = CKPT_COPYING});
	ck_report(w, id, "c",
	          &(struct ck_part){.attempt = 1, .seq = 2, .size = 1, .step = 11, .state = CKPT_COPYING});
	is_int(count_events(w, id, "checkpoint"), 3, "reports of another epoch or node change nothing");
	world_restart(w);
	is_int(job_find(w->core, id)->r.ckpts->n, 1, "a controller that starts again has the list");
	is_int(job_find(w->core, id)->r.ckpts->v[0].n_parts, 2, "with its parts");
	world_end_well(w);
}

static void test_refused(void)
{
	uint64_t id;
	struct world *w = ck_make(2, &id);
	const struct wm_checkpoint_keep *m;
	struct sent *s;

	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 1, .state = 9});
	ck_report(
	    w, id, "a",
	    &(struct ck_part){.attempt = 1, .seq = 1, .step = 1, .state = CKPT_VERIFIED, .uri = "http://x"});
	ck_report(w, id, "a",
	          &(struct ck_part){.attempt = 1, .seq = 1, .step = INT64_C(1) << 60, .state = CKPT_COPYING});
	is_int(count_events(w, id, "checkpoint"), 0, "unknown states, places and steps are refused");
	for (uint64_t i = 1; i <= 40; i++)
		ck_report(w, id, "a",
		          &(struct ck_part){.attempt = 1, .seq = i, .step = (int64_t)i, .state = CKPT_COPYING});
	is_int(count_events(w, id, "checkpoint"), 30, "a job that reports too many at once gets some left out");
	s = world_sent(w, "a", WM_CHECKPOINT_KEEP);
	m = s ? s->msg : NULL;
	ok(m && m->seqs.n == 1 && m->seqs.v[0] > 30 && m->attempts.v[0] == 1,
	   "its node may remove what was left out: nobody else ever would");
	sent_free(s);
	world_advance(w, 4000000);
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 50, .step = 50, .state = CKPT_COPYING});
	is_int(count_events(w, id, "checkpoint"), 31, "later ones count again");
	world_end_well(w);
}

static void test_bound(void)
{
	uint64_t id;
	struct world *w = ck_make(3, &id);
	cJSON *list;

	for (uint64_t i = 1; i <= CKPT_MAX + 6; i++) {
		ck_report(w, id, "a",
		          &(struct ck_part){.attempt = 1, .seq = i, .step = (int64_t)i, .state = CKPT_COPYING});
		world_advance(w, 3000000);
		world_beat(w, "a");
		world_beat(w, "b");
	}
	list = ck_list(w, id);
	is_int(cJSON_GetArraySize(list), CKPT_MAX, "the rows have the bound of the list");
	cJSON_Delete(list);
	world_end_well(w);
}

/* Reports a step that was saved as n files; returns how many events that made. */
static unsigned step_of(struct world *w, uint64_t id, uint64_t *seq, int64_t step, unsigned n, uint8_t state)
{
	unsigned before = count_events(w, id, "checkpoint");
	char name[24];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof name, "layer_%c%c", (char)('a' + i / 26), (char)('a' + i % 26));
		ck_report(w, id, "a",
		          &(struct ck_part){.attempt = 1,
		                            .seq = ++*seq,
		                            .step = step,
		                            .size = 1,
		                            .state = state,
		                            .uri = "file:///share/7",
		                            .file = name});
	}
	return count_events(w, id, "checkpoint") - before;
}

static void test_many_files(void)
{
	const struct wm_prepare *m;
	struct sent *s;
	uint64_t id, seq = 0;
	struct world *w = ck_make(11, &id);

	for (int64_t step = 10; step <= 30; step += 10)
		is_int(step_of(w, id, &seq, step, 30, CKPT_VERIFIED), 30,
		       "all files of a step count as one new checkpoint");
	is_int(count_events(w, id, "over_quota"), 0, "none is left out");
	ck_requeue(w, id, 1, "{}");
	s = world_sent(w, "a", WM_PREPARE);
	m = s ? s->msg : NULL;
	ok(m && m->resume_step == 30 && m->resume_uris.n == 30, "the next attempt begins with all of them");
	sent_free(s);
	world_end_well(w);
}

static void test_too_many_files(void)
{
	const struct wm_prepare *m;
	struct sent *s;
	uint64_t id, seq = 0;
	struct world *w = ck_make(12, &id);

	step_of(w, id, &seq, 10, 2, CKPT_VERIFIED);
	is_int(step_of(w, id, &seq, 20, 40, CKPT_VERIFIED), CKPT_STEP_FILES + 1, "files of a step have a bound");
	is_int(count_events(w, id, "over_quota"), 1, "an event says that a step has more");
	ck_requeue(w, id, 1, "{}");
	s = world_sent(w, "a", WM_PREPARE);
	m = s ? s->msg : NULL;
	ok(m && m->resume_step == 10, "no attempt begins with a part of it");
	sent_free(s);
	ok(count_events(w, id, "checkpoint_passed") > 0, "an event says why");
	world_end_well(w);
}

/* The bound of new ones is reached in the middle: no step is registered in part. */
static void test_step_left_out(void)
{
	uint64_t id, seq = 0;
	struct world *w = ck_make(13, &id);
	unsigned before;

	for (int64_t step = 1; step <= 30; step++)
		step_of(w, id, &seq, step, 1, CKPT_COPYING);
	before = count_events(w, id, "checkpoint");
	is_int(step_of(w, id, &seq, 31, 2, CKPT_COPYING), 0, "a step above the bound is left out");
	is_int(count_events(w, id, "over_quota"), 1, "an event says so");
	world_advance(w, 3000000);
	is_int(step_of(w, id, &seq, 31, 2, CKPT_COPYING), 0, "with all of its files, also the later ones");
	is_int(step_of(w, id, &seq, 32, 2, CKPT_COPYING), 2, "the next step counts again");
	is_int((int)(count_events(w, id, "checkpoint") - before), 2, "as a whole");
	world_end_well(w);
}

/* ---- what the next attempt begins with --------------------------------------------------------- */

static void test_begins(void)
{
	uint64_t id;
	struct world *w = ck_make(4, &id);

	ck_verified(w, id, "a", 1, 1, 10, "file:///s/a10");
	ck_verified(w, id, "b", 1, 1, 10, "blob:");
	ck_verified(w, id, "a", 1, 2, 20, "file:///s/a20");
	ck_requeue(w, id, 1, NULL);
	ck_begins(w, "a", "10 step-10 1.1 file:///s/a10",
	          "a node begins with its own part, of which it has a copy");
	ck_begins(w, "b", "10 step-10 1.1 blob:", "the other node with its own");
	is_int(count_events(w, id, "checkpoint_passed"), 1,
	       "the newest one, which is not complete, has an event");
	is_str(job_find(w->core, id)->r.att->resumed_from, "attempt:1", "the attempt is on record");
	is_int(job_find(w->core, id)->r.att->resumed_from_step, 10, "and the step");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	ck_begins(w, "a", "10 step-10 1.1 file:///s/a10", "a controller that starts again says the same");
	world_agent_up(w, "b", 1, 4);
	ck_start(w, id, 2);
	ck_requeue(w, id, 2, NULL);
	ck_begins(w, "b", "10 step-10 1.1 blob:", "an attempt that left none: the same again");
	ck_start(w, id, 3);
	ck_verified(w, id, "a", 3, 1, 12, "file:///s/a12");
	ck_verified(w, id, "b", 3, 1, 12, "file:///s/b12");
	ck_requeue(w, id, 3, "{\"from_step\": 10}");
	ck_begins(w, "a", "10 step-10 1.1 file:///s/a10", "a step that the user asks for");
	ck_start(w, id, 4);
	ck_requeue(w, id, 4, NULL);
	ck_begins(w, "a", "10 step-10 1.1 file:///s/a10", "the work of attempt 3 is left behind then");
	ck_start(w, id, 5);
	ck_requeue(w, id, 5, "{\"from_start\": true}");
	ck_begins(w, "a", "-1  -", "from the start: with nothing");
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 11}");
	is_int(w->status, 404, "a step that none has is refused");
	ck_start(w, id, 6);
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 11}");
	is_int(w->status, 404, "also while the attempt runs");
	like(w->err.text, "there are 10, 12, 20", "the sentence has the steps that exist");
	is_str(world_status(w, id), "running", "and nothing of it ends");
	world_end_well(w);
}

static void test_other_job(void)
{
	uint64_t id, next;
	struct world *w = ck_make(5, &id);
	char *spec;

	ck_verified(w, id, "a", 1, 1, 10, "file:///s/a10");
	ck_verified(w, id, "b", 1, 1, 10, "file:///s/b10");
	ck_verified(w, id, "a", 1, 2, 20, "file:///s/a20");
	ck_verified(w, id, "b", 1, 2, 20, "file:///s/b20");
	ck_finish(w, id, 1);
	is_str(world_status(w, id), "completed", "the first job has ended");
	world_forget(w);
	spec =
	    xasprintf("{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resume_from\": \"job:%llu@10\"}",
	              (unsigned long long)id);
	next = world_submit(w, spec);
	ok(next > 0, "another job names its step");
	ck_begins(w, "a", "10 step-10 1.1 file:///s/a10 file:///s/b10",
	          "one node in place of two gets all parts");
	free(spec);
	spec = xasprintf("{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resume_from\": \"job:%llu\"}",
	                 (unsigned long long)id);
	next = world_submit(w, spec);
	ck_begins(w, "a", "20 step-20 1.1 file:///s/a20 file:///s/b20", "without a step: the newest");
	free(spec);
	spec =
	    xasprintf("{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resume_from\": \"job:%llu@15\"}",
	              (unsigned long long)id);
	is_int(world_submit(w, spec), 0, "a step that it does not have is refused");
	is_int(w->err.code, ERR_NOT_FOUND, "as not found");
	like(w->err.text, "there are 10, 20", "the message has the steps that exist");
	free(spec);
	world_end_well(w);
}

static void pin(struct world *w, uint64_t id, const char *body, int status, const char *what)
{
	world_request(w, REQ_CHECKPOINT, id, NULL, body);
	ok(w->status == status, "%s: %d", what, w->status);
}

static void test_pins(void)
{
	uint64_t id;
	struct world *w = ck_make(6, &id);

	ck_verified(w, id, "a", 1, 1, 10, "file:///s/a10");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 2, .step = 20, .state = CKPT_TORN});
	pin(w, id, "{\"step\": 10, \"pinned\": true}", 200, "a pin");
	ok(job_find(w->core, id)->r.ckpts->v[0].pinned, "is on record");
	pin(w, id, "{\"step\": 10, \"pinned\": true}", 200, "the same again");
	is_int(count_events(w, id, "checkpoint_changed"), 1, "has no event of its own");
	pin(w, id, "{\"step\": 20, \"pinned\": true}", 404, "a torn one");
	like(w->err.text, "it has 10", "the message has the complete ones");
	pin(w, id, "{\"step\": 10}", 400, "a request without a choice");
	pin(w, id, "{\"step\": 10, \"pinned\": false}", 200, "the end of a pin");
	ok(!job_find(w->core, id)->r.ckpts->v[0].pinned, "is on record, too");
	pin(w, id, "{\"step\": 10, \"pinned\": true}", 200, "a pin again");
	ck_finish(w, id, 1);
	pin(w, id, "{\"step\": 10, \"pinned\": false}", 200, "the checkpoint of an ended job");
	world_end_well(w);
}

static unsigned count_pinned(struct world *w, uint64_t id)
{
	const struct ckpt_list *l = job_find(w->core, id)->r.ckpts;
	unsigned n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += l->v[i].pinned;
	return n;
}

/* A step of several files is pinned as one. */
static void test_pins_of_files(void)
{
	uint64_t id, seq = 0;
	struct world *w = ck_make(12, &id);

	for (int64_t step = 10; step <= 20; step += 10)
		for (int i = 0; i < 2; i++)
			ck_report(w, id, "a",
			          &(struct ck_part){.attempt = 1,
			                            .seq = ++seq,
			                            .size = 1,
			                            .step = step,
			                            .state = CKPT_VERIFIED,
			                            .file = i ? "optim" : "model"});
	pin(w, id, "{\"step\": 10, \"pinned\": true}", 200, "a pin of a step with two files");
	is_int((int)count_pinned(w, id), 2, "pins both");
	is_int(count_events(w, id, "checkpoint_changed"), 2, "each has an event");
	pin(w, id, "{\"step\": 10, \"pinned\": false}", 200, "the end of the pin");
	is_int((int)count_pinned(w, id), 0, "is the end of both");
	world_end_well(w);
}

static void test_retention(void)
{
	uint64_t id;
	uint64_t session;
	struct world *w = ck_make(7, &id);
	const struct wm_checkpoint_keep *m;
	struct sent *s;
	cJSON *list;

	for (uint64_t i = 1; i <= 3; i++) {
		ck_verified(w, id, "a", 1, i, (int64_t)i * 10, i == 1 ? "file:///s/1" : "blob:");
		ck_verified(w, id, "b", 1, i, (int64_t)i * 10, "file:///s/b");
	}
	world_forget(w);
	ck_verified(w, id, "a", 1, 4, 40, "blob:");
	ok(!world_sent(w, "a", WM_CHECKPOINT_KEEP), "while the newest is not complete all stay");
	ck_verified(w, id, "b", 1, 4, 40, "file:///s/b");
	s = world_sent(w, "a", WM_CHECKPOINT_KEEP);
	m = s ? s->msg : NULL;
	ok(m && m->seqs.n == 1 && m->seqs.v[0] == 1 && m->attempts.v[0] == 1,
	   "then node a may remove its oldest");
	is_str(m && m->uris.n ? m->uris.v[0] : "", "file:///s/1", "with its copy outside");
	is_str(m && m->names.n ? m->names.v[0] : "", "step-10", "under its name");
	sent_free(s);
	s = world_sent(w, "b", WM_CHECKPOINT_KEEP);
	ok(s != NULL, "and node b its own");
	sent_free(s);
	list = ck_list(w, id);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(
	           cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "places"), 0), "state")),
	       "gone", "the list says that it is gone");
	cJSON_Delete(list);
	ck_verified(w, id, "a", 1, 1, 10, "file:///s/1");
	is_int(job_find(w->core, id)->r.ckpts->v[0].parts[0].state, CKPT_GONE,
	       "a late report does not bring it back");
	world_forget(w);
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "cut");
	world_turn(w);
	session = world_agent_connect(w, "a");
	world_agent_inventory(w, "a", session, 1, 4);
	world_msg(w, "a", session, WM_SYNC_BEGIN, &(struct wm_sync_begin){.launches = 1});
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", session, WM_SYNC_END, &(struct wm_sync_end){0});
	world_turn(w);
	s = world_sent(w, "a", WM_CHECKPOINT_KEEP);
	ok(s != NULL, "a node that comes back gets the list again");
	sent_free(s);
	world_end_well(w);
}

/* A node had to make room: what it held of an earlier attempt has no copy elsewhere. */
static void test_gone_of_earlier(void)
{
	uint64_t id;
	struct world *w = ck_make(17, &id);
	const struct ckpt_list *l;

	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_COPYING});
	ck_report(w, id, "b", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_COPYING});
	ck_verified(w, id, "a", 1, 2, 20, "file:///s/a20");
	ck_requeue(w, id, 1, NULL);
	l = job_find(w->core, id)->r.ckpts;
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 9, .step = 10, .state = CKPT_GONE});
	is_int(l->v[0].parts[0].state, CKPT_COPYING, "another number is another checkpoint");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_VERIFIED});
	is_int(l->v[0].parts[0].state, CKPT_COPYING, "a late report of a copy does not count");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_GONE});
	is_int(l->v[0].parts[0].state, CKPT_GONE, "what its node has removed is gone");
	ok(!l->v[0].parts[0].held, "nobody begins with it");
	is_int(l->v[0].parts[1].state, CKPT_COPYING, "the part of the other node stays");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_GONE});
	is_int(count_events(w, id, "checkpoint_changed"), 1, "one event says so");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 2, .step = 20, .state = CKPT_GONE});
	is_int(l->v[1].parts[0].state, CKPT_VERIFIED, "a copy outside of the node counts on");
	world_end_well(w);
}

static int count_gone(struct world *w, uint64_t id)
{
	cleanup_free char *text = ck_json(w, id);
	int n = 0;

	for (const char *at = text; (at = strstr(at, "\"gone\"")); at++)
		n++;
	return n;
}

/* `retry` offers what an ended job left, which is in the store alone. */
static void test_gone_of_ended(void)
{
	uint64_t id;
	struct world *w = ck_make(18, &id);

	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_COPYING});
	ck_report(w, id, "b", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_COPYING});
	world_request(w, REQ_STOP, id, NULL, "{}");
	for (uint32_t i = 0; i < 2; i++) {
		world_rank(w, i ? "b" : "a", id, 1, i, PS_EXITED, 0, 15, NULL);
		world_launch(w, i ? "b" : "a", id, 1, LAUNCH_ENDED, 0, NULL);
	}
	for (int i = 0; i < 2; i++)
		world_launch(w, i ? "b" : "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_turn(w);
	is_str(world_status(w, id), "stopped", "the job has ended");
	ok(!job_find(w->core, id), "it is not in memory");
	is_int(count_gone(w, id), 0, "its nodes hold a checkpoint");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_GONE});
	ok(count_gone(w, id) >= 1, "its table says what a node has removed since");
	ok(!job_find(w->core, id), "and it leaves the memory again");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 1, .step = 10, .state = CKPT_GONE});
	is_int(count_events(w, id, "checkpoint_changed"), 1, "one event says so");
	world_end_well(w);
}

/* Numbers of parts count by node: what the lost node b had as number 1 is another checkpoint on a. */
static void test_drops_of_lost(void)
{
	const char *const nodes[] = {"a", "c"};
	struct world *w = world_create(29);
	uint64_t id, session;
	const struct wm_checkpoint_keep *m;
	struct sent *s;

	world_agent_up(w, "a", 1, 4);
	session = world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = world_submit(w, TWO);
	ck_start(w, id, 1);
	for (uint64_t i = 1; i <= 2; i++) {
		ck_verified(w, id, "a", 1, i + 1, (int64_t)i * 10, "blob:");
		ck_verified(w, id, "b", 1, i, (int64_t)i * 10, "file:///s/b1");
	}
	core_agent_down(w->core, "b", session, "reset by peer");
	world_turn(w);
	world_request(w, REQ_NODE_LOST, 0, "b", "{}");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 9, "");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	for (uint32_t i = 0; i < 2; i++)
		world_launch(w, nodes[i], id, 2, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < 2; i++)
		world_rank(w, nodes[i], id, 2, i, PS_RUNNING, 0, 0, NULL);
	world_forget(w);
	for (uint64_t i = 3; i <= 4; i++)
		for (int k = 0; k < 2; k++)
			ck_verified(w, id, nodes[k], 2, i, (int64_t)i * 10, "blob:");
	s = world_sent(w, "a", WM_CHECKPOINT_KEEP);
	m = s ? s->msg : NULL;
	ok(m && m->seqs.n == 2 && m->seqs.v[0] == 2, "a node removes its own part");
	is_str(m && m->uris.n == 2 ? m->uris.v[1] : "", "file:///s/b1", "and the copy of a lost node's part");
	is_int(m && m->seqs.n == 2 ? (int)m->seqs.v[1] : -1, 0, "but no part of its own with that number");
	sent_free(s);
	world_end_well(w);
}

int main(void)
{
	test_retention();
	test_drops_of_lost();
	test_gone_of_earlier();
	test_gone_of_ended();
	test_pins();
	test_pins_of_files();
	test_begins();
	test_other_job();
	test_record();
	test_refused();
	test_bound();
	test_many_files();
	test_too_many_files();
	test_step_left_out();
	return tap_done();
}
