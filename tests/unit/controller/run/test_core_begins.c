/* What an attempt begins with: where the one before stood, from the start or a step when a requeue says so,
 * and resume_from of another job; node by node. And what a requeue refuses, and a stop that follows one. */
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/tree/steps.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ONE "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"
#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "               \
	"{\"instances\": 2, \"gpus_per_instance\": 1}}"

/* A folder is called by its steps, "3 6": its digest is that of the text. */
static struct {
	char digest[HASH_HEX_SIZE], text[40];
} folders[40];
static size_t n_folders;
static int read_n;
static const char *hidden; /* a folder that cannot be read now; NULL none */

static const char *folder(const char *text)
{
	size_t i = 0;

	while (i < n_folders && strcmp(folders[i].text, text) != 0)
		i++;
	if (i == n_folders) {
		n_folders++;
		snprintf(folders[i].text, sizeof folders[i].text, "%s", text);
		hash_hex(text, strlen(text), folders[i].digest);
	}
	return folders[i].digest;
}

static int steps_in(const char *digest, struct steps *out, struct err *e)
{
	read_n++;
	if (strcmp(digest, folder("gone")) == 0 || (hidden && strcmp(digest, folder(hidden)) == 0))
		return err_set(e, ERR_NOT_FOUND, "no such manifest");
	for (size_t i = 0; i < n_folders; i++)
		for (const char *p = folders[i].text; !strcmp(folders[i].digest, digest) && *p;) {
			size_t n = strcspn(p, " ");

			steps_add(out, p, n);
			p += n + (p[n] == ' ');
		}
	steps_sort(out);
	return 0;
}

static struct world *make(uint64_t seed)
{
	struct world *w = world_create(seed);

	w->steps = steps_in;
	world_agent_up(w, "a", 1, 4);
	return w;
}

static void run(struct world *w, uint64_t id, uint32_t attempt)
{
	world_launch(w, "a", id, attempt, LAUNCH_READY, 0, NULL);
	world_launch(w, "a", id, attempt, LAUNCH_RUNNING, 0, NULL);
	world_rank(w, "a", id, attempt, 0, PS_RUNNING, 0, 0, NULL);
}

static void leave(struct world *w, const char *node, uint64_t id, uint32_t attempt, const char *digest)
{
	char kind[] = "checkpoint", empty[] = "";
	int uri = strstr(digest, "://") != NULL;
	char *what = xstrdup(digest);
	struct wm_artifact_report m = {.job = id,
	                               .attempt = attempt,
	                               .epoch = attempt,
	                               .kind = kind,
	                               .digest = uri ? empty : what,
	                               .uri = uri ? what : empty,
	                               .files = 1,
	                               .text = empty};

	world_msg(w, node, 0, WM_ARTIFACT_REPORT, &m);
	world_turn(w);
	free(what);
}

/* The attempt that was told to end does; steps: what it left, NULL nothing. */
static void finish(struct world *w, uint64_t id, uint32_t attempt, const char *steps)
{
	world_rank(w, "a", id, attempt, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", id, attempt, LAUNCH_ENDED, 0, NULL);
	if (steps)
		leave(w, "a", id, attempt, strstr(steps, "://") ? steps : folder(steps));
	world_forget(w);
	world_launch(w, "a", id, attempt, LAUNCH_CLEANED, 0, NULL);
}

static void again(struct world *w, uint64_t id, uint32_t attempt, const char *body, const char *steps)
{
	run(w, id, attempt);
	world_request(w, REQ_REQUEUE, id, NULL, body);
	ok(w->status == 200, "requeue of attempt %u", attempt);
	finish(w, id, attempt, steps);
}

/* The reason of the last event of that type. */
static const char *last_event(struct world *w, uint64_t id, const char *type)
{
	static char text[600];
	struct err e;
	cJSON *all = store_events_json(w->reader, id, 0, 1000, &e);
	const cJSON *one;

	text[0] = '\0';
	cJSON_ArrayForEach (one, cJSON_GetObjectItem(all, "events")) {
		const char *is = cJSON_GetStringValue(cJSON_GetObjectItem(one, "type"));
		const char *reason =
		    cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(one, "data"), "reason"));

		if (is && !strcmp(is, type))
			snprintf(text, sizeof text, "%s", reason ? reason : "");
	}
	cJSON_Delete(all);
	return text;
}

/* A requeue of a running attempt from a step that no attempt left: nothing ends. */
static void refuse_step(struct world *w, uint64_t id, uint32_t attempt, const char *body)
{
	run(w, id, attempt);
	world_request(w, REQ_REQUEUE, id, NULL, body);
	is_int(w->status, 404, "a step that no attempt left is refused, as for a held job");
	is_str(world_status(w, id), "running", "before anything ends");
	is_int(job_find(w->core, id)->r.wanted, WANT_NOTHING, "and nothing is wanted of it");
}

/* What a node is told to begin with. */
static void begins_with(struct world *w, const char *node, const char *what, int64_t step, const char *name)
{
	struct sent *s = world_sent(w, node, WM_PREPARE);
	const struct wm_prepare *m = s ? s->msg : NULL;

	ok(m && strcmp(m->resume_from, what) == 0 && m->resume_step == step, "%s: %.12s, step %lld", name,
	   m ? m->resume_from : "(none)", m ? (long long)m->resume_step : -9);
	sent_free(s);
}

static void test_goes_on(void)
{
	struct world *w = make(1);
	uint64_t id = world_submit(w, ONE);
	const struct attempt_rec *a;

	begins_with(w, "a", "", -1, "the first attempt begins with nothing");
	again(w, id, 1, NULL, "3 12 6");
	begins_with(w, "a", folder("3 12 6"), -1, "the second with the folder, and no step is named");
	a = job_find(w->core, id)->r.att;
	is_str(a->resumed_from, "attempt:1", "which is on record");
	is_int(a->resumed_from_step, -1, "without a step");
	golden("hearthd/begins-requeued-by-ada-goes-on-with-the", a->cause, "attempt 1");
	again(w, id, 2, NULL, NULL);
	begins_with(w, "a", folder("3 12 6"), -1, "one that follows an attempt without any goes on there, too");
	again(w, id, 3, NULL, "zero_to_fp32.py train_20261122.log");
	begins_with(w, "a", folder("zero_to_fp32.py train_20261122.log"), -1, "whatever the names in it");
	again(w, id, 4, NULL, "file:///results/1/checkpoint");
	begins_with(w, "a", "file:///results/1/checkpoint", -1, "at an output_uri: the folder there");
	golden("hearthd/begins-requeued-by-ada-goes-on-with-the-2", job_find(w->core, id)->r.att->cause,
	       "attempt 4");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	begins_with(w, "a", "file:///results/1/checkpoint", -1,
	            "a controller that starts meanwhile says the same");
	world_end_well(w);
}

static void test_otherwise(void)
{
	struct world *w = make(2);
	uint64_t id = world_submit(w, ONE);

	again(w, id, 1, NULL, "3 6 9");
	again(w, id, 2, "{\"from_start\": true}", NULL);
	begins_with(w, "a", "", -1, "from the start when that is asked for");
	golden("hearthd/begins-requeued-by-ada-begins-from-the-start", job_find(w->core, id)->r.att->cause);
	again(w, id, 3, NULL, NULL);
	begins_with(w, "a", "", -1, "what was before it is left behind");
	again(w, id, 4, NULL, "3");
	begins_with(w, "a", folder("3"), -1, "it goes on from what comes after");
	again(w, id, 5, "{\"from_step\": 6}", "5");
	begins_with(w, "a", folder("3 6 9"), 6, "a step is looked for in all attempts");
	is_str(job_find(w->core, id)->r.att->resumed_from, "attempt:1", "and its attempt named");
	again(w, id, 6, NULL, NULL);
	begins_with(w, "a", folder("3 6 9"), 6, "an attempt that left none: the same step again");
	again(w, id, 7, "{\"from_step\": 3}", NULL);
	begins_with(w, "a", folder("3"), 3, "of two that hold it the newer");
	refuse_step(w, id, 8, "{\"from_step\": 7}");
	golden("hearthd/begins-job-it-holds-no-step-there-are",
	       w->err.text[0] ? w->err.text : world_text(w, "detail"), "job 1", "step 7");
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 5}");
	is_int(w->status, 200, "one that is there is accepted");
	hidden = "5";
	finish(w, id, 8, NULL);
	hidden = NULL;
	is_str(world_status(w, id), "held", "it is lost before the attempt has ended: it waits for a choice");
	golden("hearthd/begins-job-lost-its-step", world_reason(w, id), "jobctl requeue 1", "job 1", "step 5");
	is_str(last_event(w, id, "requeued"), "requeued by ada", "and nothing of another place to begin");
	world_request(w, REQ_WHY, id, NULL, NULL);
	golden("hearthd/begins-jobctl-release-lets-it-go-it-then", world_text(w, "text"), "jobctl release 1",
	       "step 3");
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 8}");
	is_int(w->status, 404, "another that is not there is refused");
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 9}");
	is_int(w->status, 200, "one that is there is taken");
	golden("hearthd/begins-it-waits-already-it-goes-on-from", world_text(w, "text"), "step 9", "attempt 1");
	world_forget(w);
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	world_request(w, REQ_RELEASE, id, NULL, NULL);
	begins_with(w, "a", folder("3 6 9"), 9, "and outlives a restart of the controller");
	world_end_well(w);
}

static void test_refused(void)
{
	struct world *w = make(3);
	uint64_t id = world_submit_full(w, ONE, "{\"hold\": true}", NULL, NULL), runs, waits;

	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	is_int(w->status, 409, "a held job is not requeued");
	golden("hearthd/begins-job-is-held-jobctl-release-lets-it",
	       w->err.text[0] ? w->err.text : world_text(w, "detail"), "jobctl release 1", "job 1");
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_start\": true}");
	is_int(w->status, 409, "nor is one that never ran told where to begin");
	runs = world_submit(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                       "{\"gpus_per_instance\": 1}}");
	waits = world_submit(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                        "{\"gpus_per_instance\": 1}}");
	is_str(world_status(w, waits), "queued", "one waits");
	world_request(w, REQ_REQUEUE, waits, NULL, NULL);
	is_int(w->status, 200, "a requeue of it finds it done");
	world_request(w, REQ_REQUEUE, runs, NULL, "{\"from_start\": true, \"from_step\": 3}");
	is_int(w->status, 400, "only one place to begin");
	world_request(w, REQ_REQUEUE, runs, NULL, "{\"from_step\": -3}");
	is_int(w->status, 400, "a step is no negative number");
	world_end_well(w);
}

/* It changes its mind: the last word counts. */
static void test_asked_twice(void)
{
	struct world *w = make(4);
	uint64_t id = world_submit(w, ONE);

	again(w, id, 1, NULL, "3 6");
	run(w, id, 2);
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 3}");
	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_start\": true}");
	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	like(world_text(w, "text"), "begins from the start",
	     "one without a word is answered by what is on record");
	finish(w, id, 2, "9");
	begins_with(w, "a", "", -1, "what was asked last");
	again(w, id, 3, "{\"from_step\": 3}", NULL);
	begins_with(w, "a", folder("3 6"), 3, "and it is forgotten with the attempt");
	world_end_well(w);
}

static void test_stop_after(void)
{
	struct world *w = make(5);
	uint64_t id = world_submit(w, ONE), late = world_submit(w, ONE);

	run(w, id, 1);
	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	world_request(w, REQ_STOP, id, NULL, NULL);
	finish(w, id, 1, NULL);
	is_str(world_status(w, id), "stopped", "a stop after a requeue stops");
	is_str(world_reason(w, id), "stopped by ada", "and its reason is that of the stop");
	run(w, late, 1);
	world_request(w, REQ_REQUEUE, late, NULL, NULL);
	world_rank(w, "a", late, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", late, 1, LAUNCH_ENDED, 0, NULL);
	world_request(w, REQ_STOP, late, NULL, NULL);
	world_launch(w, "a", late, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_reason(w, late), "stopped by ada", "so it is when all had ended already");
	world_end_well(w);
}

/* Two nodes: each gets its own part back, and a step is one that both hold. */
static void test_nodes(void)
{
	struct world *w = make(6);
	uint64_t id, other;
	const char *nodes[] = {"a", "b"};
	char spec[300];

	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	for (int i = 0; i < 2; i++) {
		world_launch(w, nodes[i], id, 1, LAUNCH_READY, 0, NULL);
		world_launch(w, nodes[1 - i], id, 1, LAUNCH_READY, 0, NULL);
		world_rank(w, nodes[i], id, 1, (uint32_t)i, PS_RUNNING, 0, 0, NULL);
	}
	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		world_rank(w, nodes[i], id, 1, i, PS_EXITED, 0, SIGTERM, NULL);
		world_launch(w, nodes[i], id, 1, LAUNCH_ENDED, 0, NULL);
	}
	leave(w, "b", id, 1, folder("2 4"));
	leave(w, "a", id, 1, folder("2 4 6"));
	world_forget(w);
	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], id, 1, LAUNCH_CLEANED, 0, NULL);
	begins_with(w, "a", folder("2 4 6"), -1, "the first node has its own");
	begins_with(w, "b", folder("2 4"), -1, "and so has the second");
	world_request(w, REQ_STOP, id, NULL, NULL);
	for (int i = 0; i < 2; i++) {
		world_launch(w, nodes[i], id, 2, LAUNCH_FAILED, 0, NULL);
		world_launch(w, nodes[i], id, 2, LAUNCH_CLEANED, 0, NULL);
	}
	is_str(world_status(w, id), "stopped", "it ends");
	world_forget(w);
	snprintf(
	    spec, sizeof spec,
	    "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"gpus_per_instance\": 1}, "
	    "\"resume_from\": \"job:%llu@2\"}",
	    (unsigned long long)id);
	is_int((int64_t)world_submit(w, "{\"command\": [\"/bin/x\"], \"resume_from\": \"job:1@6\"}"), 0,
	       "a step that only one of them holds is none");
	golden("hearthd/begins-holds-no-step-there-are", w->err.text[0] ? w->err.text : world_text(w, "detail"),
	       "step 6");
	other = world_submit(w, spec);
	is_str(world_status(w, other), "starting", "a job of one node resumes from it");
	begins_with(w, job_find(w->core, other)->r.att->places[0].node, folder("2 4 6"), 2,
	            "with the part of the first node");
	world_end_well(w);
}

static void test_resume_from(void)
{
	struct world *w = make(7);
	uint64_t id = world_submit(w, ONE);

	again(w, id, 1, NULL, "3 6 9 100");
	again(w, id, 2, "{\"from_start\": true}", "3");
	world_forget(w);
	ok(world_submit(
	       w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resume_from\": \"job:1@6\"}") != 0,
	   "a step of an earlier attempt is found behind a later one");
	begins_with(w, "a", folder("3 6 9 100"), 6, "it begins there");
	ok(world_submit(
	       w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resume_from\": \"job:1@3\"}") != 0,
	   "one that both hold");
	begins_with(w, "a", folder("3"), 3, "is the newer attempt's");
	is_int((int64_t)world_submit(w, "{\"command\": [\"/bin/x\"], \"resume_from\": \"job:1@7\"}"), 0,
	       "one that none holds is refused");
	is_int(w->status, 404, "as not there");
	golden("hearthd/begins-holds-no-step-there-are-2", w->err.text[0] ? w->err.text : world_text(w, "detail"),
	       "step 7", "3", "6", "9", "100");
	world_end_well(w);
}

/* At an output_uri each attempt replaces what the one before left. */
static void test_output_uri(void)
{
	static const char uri[] = "file:///results/1/checkpoint";
	struct world *w = make(8);
	uint64_t id = world_submit(w, ONE);
	struct left l = {0};
	struct err e;

	again(w, id, 1, NULL, uri);
	again(w, id, 2, NULL, uri);
	is_int(store_left(w->reader, id, "checkpoint", 2, &l, &e), -1, "what was replaced is not offered");
	is_int(e.code, ERR_NOT_FOUND, "as not there");
	again(w, id, 3, "{\"from_step\": 9}", NULL);
	begins_with(w, "a", uri, 9, "a step there is for the node to find");
	golden("hearthd/begins-requeued-by-ada-goes-on-from-step", job_find(w->core, id)->r.att->cause, "step 9");
	world_end_well(w);
}

/* One manifest is gone: what is older is still found, and the cause is not hidden. */
static void test_gone(void)
{
	struct world *w = make(9);
	uint64_t id = world_submit(w, ONE);

	again(w, id, 1, NULL, "3 6");
	again(w, id, 2, NULL, "gone");
	again(w, id, 3, "{\"from_step\": 6}", NULL);
	begins_with(w, "a", folder("3 6"), 6, "a step behind one that cannot be read");
	refuse_step(w, id, 4, "{\"from_step\": 7}");
	golden("hearthd/begins-holds-no-step-there-are-what-attempt",
	       w->err.text[0] ? w->err.text : world_text(w, "detail"), "step 7", "3", "6", "attempt 2");
	world_end_well(w);
}

/* Reading is bounded, and says where it ended. */
static void test_far(void)
{
	struct world *w = make(10);
	uint64_t id = world_submit(w, ONE);
	char text[20];

	again(w, id, 1, NULL, "1");
	again(w, id, 2, NULL, "2");
	for (uint32_t i = 3; i <= 17; i++) {
		snprintf(text, sizeof text, "%u", i);
		again(w, id, i, NULL, text);
	}
	again(w, id, 18, "{\"from_step\": 2}", NULL);
	begins_with(w, "a", folder("2"), 2, "the sixteenth that is read");
	read_n = 0;
	refuse_step(w, id, 19, "{\"from_step\": 1}");
	is_int(read_n, 16, "no more are");
	golden("hearthd/begins-and-before-these-attempts-before-were-not",
	       w->err.text[0] ? w->err.text : world_text(w, "detail"), "16", "17");
	world_end_well(w);
}

/* A choice that cannot be met, and a node without a word: both are told, and neither is forgotten. */
static void test_both(void)
{
	struct world *w = make(11);
	uint64_t id = world_submit(w, ONE);

	again(w, id, 1, NULL, "3");
	run(w, id, 2);
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 3}");
	hidden = "3";
	for (int i = 0; i < 300 && strcmp(world_status(w, id), "held") != 0;
	     i++) { /* heard, but without a word of it */
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
	hidden = NULL;
	is_str(world_status(w, id), "held", "it waits for a person");
	golden("hearthd/begins-node-a-has-not-confirmed-that-attempt", world_reason(w, id), "attempt 2");
	golden("hearthd/begins-it-then-goes-on-with-the-checkpoints", world_reason(w, id), "jobctl requeue 1",
	       "attempt 1", "job 1", "step 3");
	is_str(last_event(w, id, "requeued"), "requeued by ada", "no other place is told");
	world_end_well(w);
}

int main(void)
{
	test_goes_on();
	test_otherwise();
	test_refused();
	test_asked_twice();
	test_stop_after();
	test_nodes();
	test_resume_from();
	test_output_uri();
	test_gone();
	test_far();
	test_both();
	return tap_done();
}
