/* Arrays and sweeps in the core: members and their order, how the whole stands, what is done to all of it,
 * and that a controller which dies at any point goes on where it was. */
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CMD                                                                                                  \
	"\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"name\": \"s\", \"retry\": {\"max_attempts\": "   \
	"0, \"capacity\": 0}"

static uint64_t submit(struct world *w, const char *members)
{
	char spec[1000];

	snprintf(spec, sizeof spec, "{" CMD ", %s}", members);
	return world_submit(w, spec);
}

static uint64_t at(uint64_t array, uint32_t index)
{
	return array + 1 + index;
}

static void run(struct world *w, uint64_t id)
{
	world_begin(w, id);
	world_end_with(w, id, 0);
}

static cJSON *record(struct world *w, uint64_t id)
{
	struct err e;
	cJSON *o = store_job_json(w->reader, id, &e);

	if (!o)
		tap_bail("job %llu: %s", (unsigned long long)id, e.text);
	return o;
}

/* A number of the record, or of an object in it. */
static int number(struct world *w, uint64_t id, const char *object, const char *key)
{
	cJSON *o = record(w, id);
	const cJSON *v = cJSON_GetObjectItem(object ? cJSON_GetObjectItem(o, object) : o, key);
	int n = cJSON_IsNumber(v) ? v->valueint : -1;

	cJSON_Delete(o);
	return n;
}

static void text_is(struct world *w, uint64_t id, const char *key, const char *wanted, const char *what)
{
	cJSON *o = record(w, id);
	const char *v = cJSON_GetStringValue(cJSON_GetObjectItem(o, key));

	is_str(v ? v : "", wanted, what);
	cJSON_Delete(o);
}

static const char *why(struct world *w, uint64_t job)
{
	world_request(w, REQ_WHY, job, NULL, "{}");
	return world_text(w, "text");
}

static void test_whole(void)
{
	struct world *w = world_create(1);
	uint64_t id, other;
	cJSON *o;

	id =
	    submit(w, "\"sweep\": {\"lr\": [0.1, 0.2], \"width\": [1, 2]}, \"hyperparameters\": {\"epochs\": 3}");
	is_int(w->status, 201, "a sweep is taken");
	is_int(cJSON_GetObjectItem(w->body, "members")->valueint, 4, "the answer says how many members it has");
	other = submit(w, "\"priority\": 0");
	is_int((int)(other - id), 5, "the numbers behind its own are theirs");
	is_str(world_status(w, id), "queued", "it waits");
	is_int(number(w, id, "members", "waiting"), 4, "with all its members");
	golden("hearthd/array-of-members-run-wait-have-ended-the", why(w, id), "0", "4");
	o = record(w, at(id, 2));
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(o, "ref")), "1.2", "a member is called 1.2");
	is_int(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "hyperparameters"), "epochs")->valueint, 3,
	       "has the hyperparameters of the whole");
	is_int(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "hyperparameters"), "width")->valueint, 1,
	       "and its own");
	is_int(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "array"), "index")->valueint, 2, "and its number");
	cJSON_Delete(o);
	world_agent_up(w, "a", 0, 8);
	for (uint32_t i = 0; i < 4; i++)
		is_str(world_status(w, at(id, i)), "starting", "with a node all of them start");
	is_str(world_status(w, id), "running", "and the whole runs");
	for (uint32_t i = 0; i < 3; i++)
		run(w, at(id, i));
	is_str(world_status(w, id), "running", "until the last");
	is_int(number(w, id, "members", "completed"), 3, "three have completed");
	run(w, at(id, 3));
	is_str(world_status(w, id), "completed", "has ended");
	text_is(w, id, "reason", "", "well");
	is_int(world_request(w, REQ_STOP, id, NULL, "{}"), 200, "to stop it then");
	like(world_text(w, "text"), "it has ended already", "is no error");
	world_end_well(w);
}

static void test_parallel(void)
{
	struct world *w = world_create(2);
	uint64_t id;

	world_agent_up(w, "a", 0, 8);
	id = submit(w, "\"array\": 5, \"max_parallel\": 2");
	is_str(world_status(w, at(id, 0)), "starting", "the first");
	is_str(world_status(w, at(id, 1)), "starting", "and the second go");
	is_str(world_status(w, at(id, 2)), "queued", "the third does not, although there is room");
	golden("hearthd/array-waits-for-its-turn-of-job-at", why(w, at(id, 4)), "max_parallel", "job 1");
	golden("hearthd/array-of-members-run-wait-have-ended-at", why(w, id), "max_parallel");
	run(w, at(id, 1));
	is_str(world_status(w, at(id, 2)), "starting", "when one has ended the next one goes");
	is_str(world_status(w, at(id, 3)), "queued", "and no other");
	world_request(w, REQ_HOLD, at(id, 3), NULL, "{}");
	run(w, at(id, 0));
	is_str(world_status(w, at(id, 4)), "starting", "one that is held is passed over");
	world_request(w, REQ_RELEASE, at(id, 3), NULL, "{}");
	is_str(world_status(w, at(id, 3)), "queued", "released it waits for its turn");
	run(w, at(id, 2));
	is_str(world_status(w, at(id, 3)), "starting", "which comes");
	run(w, at(id, 3));
	run(w, at(id, 4));
	is_str(world_status(w, id), "completed", "all have ended");
	world_end_well(w);
}

static void sync_agent(struct world *w, const uint64_t *running, size_t n)
{
	struct wm_sync_begin first = {0};
	struct wm_sync_end last = {0};
	uint64_t s = world_agent_connect(w, "a");

	world_msg(w, "a", s, WM_SYNC_BEGIN, &first);
	for (size_t i = 0; i < n; i++)
		world_launch(w, "a", running[i], 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &last);
	world_turn(w);
}

static void test_restart(void)
{
	struct world *w = world_create(3);
	uint64_t id, running[2];

	world_agent_up(w, "a", 0, 8);
	id = submit(w, "\"array\": 6, \"max_parallel\": 2");
	run(w, at(id, 0));
	world_begin(w, at(id, 1));
	world_end_with(w, at(id, 1), 3);
	world_begin(w, at(id, 2));
	world_begin(w, at(id, 3));
	running[0] = at(id, 2);
	running[1] = at(id, 3);
	world_restart(w);
	sync_agent(w, running, 2);
	is_str(world_status(w, id), "running", "hearthd was killed: it runs on");
	is_str(world_status(w, at(id, 4)), "queued", "what ran counts among those that may at once");
	world_end_with(w, at(id, 3), 0);
	is_str(world_status(w, at(id, 4)), "starting", "the next one goes");
	is_str(world_status(w, at(id, 5)), "queued", "one only");
	world_end_with(w, at(id, 2), 0);
	run(w, at(id, 4));
	run(w, at(id, 5));
	is_str(world_status(w, id), "failed", "one of them failed, before the restart");
	text_is(w, id, "reason", "1 of 6 members failed: 1.1", "which is named");
	is_int(number(w, id, "members", "failed"), 1, "and counted");
	world_end_well(w);
}

static void test_ops(void)
{
	struct world *w = world_create(4);
	uint64_t id, held;

	world_agent_up(w, "a", 0, 2);
	id = submit(w, "\"array\": 5");
	world_begin(w, at(id, 0));
	is_int(world_request(w, REQ_HOLD, id, NULL, "{}"), 200, "the whole is held");
	is_str(world_status(w, id), "held", "and says so");
	world_end_with(w, at(id, 0), 0);
	run(w, at(id, 1));
	is_str(world_status(w, at(id, 2)), "queued", "no further member starts");
	golden("hearthd/array-job-is-held-so-none-of-its", why(w, at(id, 2)), "job 1");
	world_restart(w);
	sync_agent(w, NULL, 0);
	is_str(world_status(w, at(id, 2)), "queued", "nor after a restart");
	is_int(world_request(w, REQ_RELEASE, id, NULL, "{}"), 200, "released");
	is_str(world_status(w, id), "running", "it goes on");
	is_str(world_status(w, at(id, 2)), "starting", "with the next members");
	is_int(world_request(w, REQ_REQUEUE, id, NULL, "{}"), 409, "the whole has no attempt to be requeued");
	is_int(world_request(w, REQ_QUEUE_SET, 0, "night", "{}"), 200, "another queue");
	is_int(world_request(w, REQ_SET, id, NULL, "{\"priority\": 2, \"time\": 60, \"queue\": \"night\"}"), 200,
	       "what the members are run by is changed for all of them");
	is_int(number(w, at(id, 4), NULL, "priority"), 2, "those that wait");
	text_is(w, at(id, 4), "queue", "night", "go to the other queue");
	is_int(number(w, at(id, 3), NULL, "priority"), 2, "those that have nodes, too");
	text_is(w, at(id, 3), "queue", "default", "but they stay in theirs");
	is_int((int)(job_find(w->core, at(id, 3))->act->max_runtime_us / 1000000), 60, "and have the new limit");
	is_int(number(w, at(id, 0), NULL, "priority"), 0, "one that has ended stays as it was");
	is_int(world_request(w, REQ_SET, id, NULL, "{\"notes\": \"x\"}"), 200, "a note it can have");
	is_int(world_request(w, REQ_SET, at(id, 4), NULL, "{\"priority\": 3}"), 200, "and a member a priority");
	world_begin(w, at(id, 2));
	is_int(world_request(w, REQ_STOP, id, NULL, "{}"), 200, "stopped");
	like(world_text(w, "text"), "stopping: its members (5)", "which takes a while");
	is_str(world_status(w, at(id, 4)), "stopped", "what had not begun ends at once");
	is_str(world_status(w, at(id, 2)), "stopping", "what runs is told");
	is_str(world_status(w, id), "running", "and waited for");
	world_end_with(w, at(id, 2), 0);
	world_end_with(w, at(id, 3), 0);
	is_str(world_status(w, id), "stopped", "then the whole is stopped");
	held = world_submit_full(w, "{" CMD ", \"array\": 3}", "{\"hold\": true}", NULL, NULL);
	is_str(world_status(w, held), "held", "submitted as held");
	is_str(world_status(w, at(held, 0)), "queued", "its members are there and wait");
	world_request(w, REQ_STOP, held, NULL, "{}");
	is_str(world_status(w, held), "stopped", "it can be stopped");
	is_int(world_request(w, REQ_RM, held, NULL, "{}"), 200, "and removed");
	world_turn(w);
	{
		cJSON *o = record(w, at(held, 2));

		ok(cJSON_IsTrue(cJSON_GetObjectItem(o, "deleted")), "with its members");
		cJSON_Delete(o);
		o = record(w, held);
		ok(cJSON_IsTrue(cJSON_GetObjectItem(o, "deleted")), "and itself");
		cJSON_Delete(o);
	}
	world_end_well(w);
}

/* More than fit into a turn; the controller dies when only some of its transactions are durable. */
static void test_many(void)
{
	for (unsigned durable = 0; durable < 5; durable++) {
		struct world *w = world_create(10 + durable);
		uint64_t id;

		w->hold_commits = 1;
		id = submit(w, "\"array\": 300, \"max_parallel\": 7");
		for (unsigned i = 0; i < 3 && durable; i++) {
			world_commit_now(w);
			world_turn(w);
		}
		world_stop(w, durable > 1);
		w->hold_commits = 0;
		world_start(w);
		world_turn(w);
		if (!durable) {
			struct err e;
			cJSON *o = store_job_json(w->reader, 1, &e);

			ok(!o, "what was not durable was never there");
			cJSON_Delete(o);
			world_end_well(w);
			continue;
		}
		id = 1;
		is_int(number(w, id, "members", "waiting"), 300, "all members are made, whenever hearthd died");
		is_str(world_status(w, at(id, 299)), "queued", "the last one, too");
		ok(submit(w, "\"priority\": 0") > at(id, 299), "their numbers are given to nobody else");
		world_request(w, REQ_STOP, id, NULL, "{}");
		for (int i = 0; i < 20; i++)
			world_turn(w);
		is_str(world_status(w, id), "stopped", "all of them are stopped");
		is_int(number(w, id, "members", "stopped"), 300, "every one");
		world_end_well(w);
	}
}

static void test_after(void)
{
	struct world *w = world_create(20);
	uint64_t id, last;

	world_agent_up(w, "a", 0, 8);
	id = submit(w, "\"array\": 2");
	last = submit(w, "\"after\": [1]");
	is_str(world_status(w, last), "queued", "a job waits for the whole");
	run(w, at(id, 0));
	is_str(world_status(w, last), "queued", "not for a member");
	run(w, at(id, 1));
	is_str(world_status(w, last), "starting", "and goes when all have ended well");
	submit(w, "\"sweep\": {\"x\": {\"from\": 1, \"to\": 10000}}, \"environment\": {\"A\": \"1\"}");
	is_int(w->status, 201, "ten thousand members are possible");
	world_end_well(w);
}

/* The agent beats each second, as a real one: a node that misses two beats is suspect. */
static void pass(struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
}

/* Members of a whole that is held do not wait, however it came to be held; what they may wait begins with its
 * release, a restart of the controller later, too. */
static void test_held_wait(void)
{
	struct world *w = world_create(21);
	uint64_t id, held;

	world_agent_up(w, "a", 0, 2);
	id = submit(w, "\"array\": 4, \"limits\": {\"max_wait_s\": 600}");
	held = world_submit_full(w, "{" CMD ", \"array\": 3, \"limits\": {\"max_wait_s\": 600}}",
	                         "{\"hold\": true}", NULL, NULL);
	world_begin(w, at(id, 0));
	world_begin(w, at(id, 1));
	pass(w, 100);
	world_request(w, REQ_HOLD, id, NULL, "{}");
	pass(w, 3600);
	is_str(world_status(w, at(id, 3)), "queued", "a member of what was held waits on, far beyond its limit");
	is_str(world_status(w, at(held, 2)), "queued", "and one of what was submitted as held");
	world_request(w, REQ_RELEASE, id, NULL, "{}");
	world_request(w, REQ_RELEASE, held, NULL, "{}");
	pass(w, 300);
	is_str(world_status(w, at(id, 3)), "queued", "released, its time begins anew");
	is_str(world_status(w, at(held, 2)), "queued", "for both");
	world_restart(w);
	sync_agent(w, (uint64_t[]){at(id, 0), at(id, 1)}, 2);
	pass(w, 200);
	is_str(world_status(w, at(id, 3)), "queued", "a restart takes nothing of it");
	is_str(world_status(w, at(held, 0)), "queued", "from neither");
	pass(w, 150);
	is_str(world_status(w, at(id, 3)), "failed", "then it is over");
	is_str(world_status(w, at(held, 0)), "failed", "for both");
	world_end_well(w);
}

int main(void)
{
	test_whole();
	test_parallel();
	test_restart();
	test_ops();
	test_many();
	test_after();
	test_held_wait();
	return tap_done();
}
