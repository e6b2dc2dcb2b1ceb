/* Jobs that wait for other jobs, from submit to their end, over restarts of the controller. */
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

static uint64_t submit(struct world *w, const char *after)
{
	char spec[300];

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": {\"max_attempts\": 0, "
	         "\"capacity\": 0}, \"after\": [%s]}",
	         after);
	return world_submit(w, spec);
}

static const char *why(struct world *w, uint64_t job)
{
	world_request(w, REQ_WHY, job, NULL, "{}");
	return world_text(w, "text");
}

static void begin(struct world *w, uint64_t id)
{
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
}

static void end(struct world *w, uint64_t id, uint32_t attempt, uint32_t code)
{
	world_rank(w, "a", id, attempt, 0, PS_EXITED, code, 0, NULL);
	world_launch(w, "a", id, attempt, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, attempt, LAUNCH_CLEANED, 0, NULL);
}

static void test_refused(void)
{
	struct world *w = world_create(1);
	uint64_t a;

	world_agent_up(w, "a", 0, 4);
	submit(w, "5");
	is_int(w->status, 404, "a job that is not there");
	golden("hearthd/await-after-there-is-no-job", w->err.text, "0", "job 5");
	submit(w, "1");
	is_int(w->status, 404, "a job cannot wait for itself: its number is not there yet");
	a = submit(w, "");
	begin(w, a);
	end(w, a, 1, 3);
	is_str(world_status(w, a), "failed", "one that failed");
	submit(w, "1");
	is_int(w->status, 409, "can never end well");
	golden("hearthd/await-could-never-start-it-waited-for-job", w->err.text, "job 1");
	ok(submit(w, "\"afterany:1\", \"after:1\"") > 0, "but it has started and ended");
	is_str(world_status(w, 2), "starting", "so who waits for that does not wait");
	world_end_well(w);
}

static void test_kinds(void)
{
	struct world *w = world_create(2);
	uint64_t a, ok_, any, start, both;

	world_agent_up(w, "a", 0, 8);
	world_request(w, REQ_DRAIN, 0, "a", "{}");
	a = submit(w, "");
	ok_ = submit(w, "1");
	any = submit(w, "\"afterany:1\"");
	start = submit(w, "\"after:1\"");
	both = submit(w, "\"afterok:1\", \"afterany:3\"");
	golden("hearthd/await-waits-for-job-to-end-well-job", world_reason(w, both), "job 1", "job 3");
	golden("hearthd/await-waits-for-job-to-end-well-job", why(w, both), "job 1", "job 3");
	is_str(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "waits_for"), 0)->valuestring, "jobs",
	       "also as a word");
	world_restart(w);
	world_agent_up(w, "a", 0, 8);
	world_turn(w);
	golden("hearthd/await-waits-for-job-to-end-well-job", why(w, both), "job 1", "job 3");
	world_request(w, REQ_RESUME, 0, "a", "{}");
	is_str(world_status(w, a), "starting", "the first starts");
	is_str(world_status(w, start), "starting", "and who waits for a start");
	is_str(world_status(w, ok_), "queued", "the others wait");
	begin(w, a);
	world_request(w, REQ_REQUEUE, a, NULL, "{}");
	world_rank(w, "a", a, 1, 0, PS_EXITED, 0, 15, NULL);
	world_launch(w, "a", a, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", a, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, a), "starting", "sent back, it starts again");
	is_str(world_status(w, any), "queued", "and has not ended");
	world_restart(w);
	world_agent_up(w, "a", 0, 8);
	world_launch(w, "a", a, 2, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", a, 2, 0, PS_RUNNING, 0, 0, NULL);
	end(w, a, 2, 0);
	is_str(world_status(w, a), "completed", "its good end");
	is_str(world_status(w, ok_), "starting", "lets one go");
	is_str(world_status(w, any), "starting", "and the other");
	is_str(world_status(w, both), "queued", "not who waits for more");
	golden("hearthd/await-waits-for-job-to-end", world_reason(w, both), "job 3");
	begin(w, any);
	end(w, any, 1, 1);
	is_str(world_status(w, both), "starting", "any end will do there");
	world_end_well(w);
}

static void test_never(void)
{
	struct world *w = world_create(3);
	uint64_t a, b, c, d, e;

	world_agent_up(w, "a", 0, 1);
	a = submit(w, "");
	b = submit(w, "1");
	c = submit(w, "2");
	d = submit(w, "\"afterany:3\"");
	e = world_submit_full(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"after\": [1]}",
	                      "{\"hold\": true}", NULL, NULL);
	begin(w, a);
	end(w, a, 1, 7);
	is_str(world_status(w, b), "stopped", "it can never start");
	golden("hearthd/await-waited-for-job-to-end-well-and", world_reason(w, b), "job 1");
	is_str(world_status(w, c), "stopped", "nor can who waits for that");
	golden("hearthd/await-waited-for-job-to-end-well-and-2", world_reason(w, c), "job 2");
	is_str(world_status(w, d), "starting", "who waits for any end goes on");
	is_str(world_status(w, e), "held", "a held one stays");
	world_request(w, REQ_RELEASE, e, NULL, "{}");
	is_int(w->status, 200, "when it is released");
	is_str(world_text(w, "status"), "stopped", "it is stopped as well");
	golden("hearthd/await-waited-for-job-to-end-well-and", world_text(w, "text"), "job 1");
	world_end_well(w);
}

static void test_hold(void)
{
	struct world *w = world_create(4);
	uint64_t a, b;

	world_agent_up(w, "a", 0, 4);
	a = world_submit_full(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\"}", "{\"hold\": true}",
	                      NULL, NULL);
	b = submit(w, "\"afterany:1\"");
	world_request(w, REQ_HOLD, b, NULL, "{}");
	world_request(w, REQ_RELEASE, b, NULL, "{}");
	golden("hearthd/await-waits-for-job-to-end-2", world_text(w, "text"), "job 1");
	world_request(w, REQ_SET, b, NULL, "{\"priority\": 5}");
	world_restart(w);
	world_agent_up(w, "a", 0, 4);
	world_request(w, REQ_RELEASE, a, NULL, "{}");
	world_request(w, REQ_HOLD, a, NULL, "{}"); /* it runs: refused */
	is_str(world_status(w, b), "queued", "it waits all the same");
	begin(w, a);
	world_request(w, REQ_STOP, a, NULL, "{}");
	world_rank(w, "a", a, 1, 0, PS_EXITED, 0, 15, NULL);
	world_launch(w, "a", a, 1, LAUNCH_ENDED, 0, NULL);
	w->hold_commits = 1;
	world_launch(w, "a", a, 1, LAUNCH_CLEANED, 0, NULL);
	world_stop(w, 0); /* the end is not on record */
	w->hold_commits = 0;
	world_start(w);
	is_str(world_status(w, b), "queued", "an end that is not on record is none");
	world_agent_up(w, "a", 0, 4);
	world_launch(w, "a", a, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, a), "stopped", "now it is");
	is_str(world_status(w, b), "starting", "and the other starts");
	world_end_well(w);
}

static uint64_t submit_wait(struct world *w, unsigned seconds, const char *body)
{
	char spec[300];

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"limits\": {\"max_wait_s\": %u}, "
	         "\"resources\": "
	         "{\"gpus_per_instance\": 1}}",
	         seconds);
	return world_submit_full(w, spec, body, NULL, NULL);
}

/* The agent beats each second, as a real one: a node that misses two beats is suspect. */
static void run_for(struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
}

/* The longest wait ends a job, also when hearthd was away, and only one that waits. */
static void test_longest(void)
{
	struct world *w = world_create(7);
	uint64_t runs, short_, long_, held, requeued;

	world_agent_up(w, "a", 1, 8);
	runs = submit_wait(w, 30, NULL);
	begin(w, runs);
	world_request(w, REQ_DRAIN, 0, "a", "{}");
	short_ = submit_wait(w, 60, NULL);
	long_ = submit_wait(w, 600, NULL);
	held = submit_wait(w, 60, "{\"hold\": true}");
	run_for(w, 40);
	is_str(world_status(w, short_), "queued", "within its time");
	world_restart(w);
	world_agent_up(w, "a", 1, 8);
	end(w, runs, 1, 0);                           /* it was over meanwhile */
	world_request(w, REQ_STOP, runs, NULL, "{}"); /* else it waits for a node before all others */
	run_for(w, 30);
	is_str(world_status(w, short_), "failed", "a restart gives no more of it");
	golden("hearthd/await-waited-for-m-its-limit-limits-max-wait-s", world_reason(w, short_),
	       "limits.max_wait_s");
	is_str(world_status(w, long_), "queued", "one with more time waits on");
	is_str(world_status(w, held), "held", "a held one does not wait");
	world_request(w, REQ_RELEASE, held, NULL, "{}");
	run_for(w, 30);
	is_str(world_status(w, held), "queued", "released, its time begins");
	world_request(w, REQ_RESUME, 0, "a", "{}");
	requeued = !strcmp(world_status(w, long_), "starting") ? long_ : held;
	is_str(world_status(w, requeued), "starting", "one starts");
	begin(w, requeued);
	run_for(w, 700);
	is_str(world_status(w, requeued), "running", "and is not ended by what it waited");
	world_end_well(w);
}

#define DAY_US 86400000000u

/* A wall clock that is set while a job waits makes its wait neither longer nor shorter, also when the job is
 * put into its lane anew; only a start goes by it. */
static void test_clock_set(void)
{
	for (int back = 0; back < 2; back++) {
		struct world *w = world_create(8);
		uint64_t job, day;

		world_agent_up(w, "a", 1, 8);
		world_request(w, REQ_DRAIN, 0, "a", "{}");
		job = submit_wait(w, 600, NULL);
		day = submit_wait(w, 86400, NULL);
		run_for(w, 100);
		w->clock.fake_real_us += back ? -(uint64_t)DAY_US : DAY_US;
		run_for(w, 100);
		is_str(world_status(w, job), "queued",
		       back ? "the wall clock was set back: it waits on"
		            : "the wall clock was set forward: it waits on");
		world_request(w, REQ_SET, job, NULL, "{\"priority\": 3}");
		is_int(w->status, 200, "it gets another priority");
		world_request(w, REQ_SET, day, NULL, "{\"priority\": 3}");
		run_for(w, 380);
		is_str(world_status(w, job), "queued", "and waits on within its time");
		is_str(world_status(w, day), "queued", "so does one with a longer time");
		run_for(w, 40);
		is_str(world_status(w, job), "failed", "and ends when it is over");
		like(world_reason(w, job), "waited for 10m, its limit", "with that reason");
		is_str(world_status(w, day), "queued", "the other one goes on");
		world_request(w, REQ_HOLD, day, NULL, "{}");
		world_request(w, REQ_RELEASE, day, NULL, "{}");
		run_for(w, 20);
		is_str(world_status(w, day), "queued", "and begins anew when it was held");
		world_end_well(w);
	}
}

/* Also a dry run says so, and leaves nothing behind. */
static void test_dry(void)
{
	struct world *w = world_create(5);

	world_agent_up(w, "a", 0, 4);
	submit(w, "");
	world_submit_full(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"after\": [1]}",
	                  "{\"dry_run\": true}", NULL, NULL);
	is_int(w->status, 200, "a dry run is answered");
	golden("hearthd/await-it-would-wait-for-job-to-end", world_text(w, "text"), "job 1");
	world_end_well(w);
}

/* A thousand wait for one: all go, a bounded number in each turn. */
static void test_many(void)
{
	struct world *w = world_create(6);
	unsigned stopped = 0;
	uint64_t a;

	world_agent_up(w, "a", 0, 1);
	a = submit(w, "");
	for (int i = 0; i < 1200; i++)
		submit(w, "1");
	begin(w, a);
	end(w, a, 1, 1);
	for (int i = 0; i < 10; i++)
		world_turn(w);
	for (uint64_t id = 2; id <= 1201; id++)
		stopped += !strcmp(world_status(w, id), "stopped");
	is_int(stopped, 1200, "none is left waiting in vain");
	world_end_well(w);
}

int main(void)
{
	test_refused();
	test_kinds();
	test_never();
	test_hold();
	test_dry();
	test_longest();
	test_clock_set();
	test_many();
	return tap_done();
}
