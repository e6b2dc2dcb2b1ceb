/*
 * The two halves of an attempt's end: the next attempt begins when the old one has stopped, and the old one
 * is collected behind it. Over restarts, lost nodes, stops, and ends of the job.
 */
#include <stdio.h>
#include <string.h>

#include "controller/record/rec.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define SECOND 1000000ull
#define ONE    "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"
#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "               \
	"{\"instances\": 2, \"gpus_per_instance\": 1}}"

static void pass(struct world *w, unsigned seconds)
{
	while (seconds--) {
		for (struct cnode *n = node_first(w->core); n; n = node_next(n))
			if (n->connected)
				world_beat(w, n->name);
		world_advance(w, SECOND);
	}
}

static void begin(struct world *w, uint64_t id, uint32_t attempt)
{
	world_launch(w, "a", id, attempt, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, attempt, 0, PS_RUNNING, 0, 0, NULL);
}

static void end(struct world *w, uint64_t id, uint32_t attempt, uint32_t code)
{
	world_rank(w, "a", id, attempt, 0, PS_EXITED, code, 0, "it broke\n");
	world_launch(w, "a", id, attempt, LAUNCH_ENDED, 0, NULL);
}

static void artifact(struct world *w, const char *node, uint64_t id, uint32_t attempt, const char *kind)
{
	const struct cjob *j = job_find(w->core, id);
	char empty[] = "", uri[] = "file:///out";
	struct wm_artifact_report m = {.job = id,
	                               .attempt = attempt,
	                               .epoch =
	                                   rec_attempt(&j->r, attempt) ? rec_attempt(&j->r, attempt)->epoch : 0,
	                               .kind = (char *)(uintptr_t)kind,
	                               .digest = empty,
	                               .uri = uri,
	                               .text = empty,
	                               .files = 1};

	world_msg(w, node, 0, WM_ARTIFACT_REPORT, &m);
	world_turn(w);
}

static unsigned artifacts_of(struct world *w, uint64_t id, uint32_t attempt)
{
	cJSON *list = store_artifacts_json(w->reader, id, NULL), *a;
	unsigned n = 0;

	cJSON_ArrayForEach (a, list)
		n += (uint32_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(a, "attempt")) == attempt;
	cJSON_Delete(list);
	return n;
}

static struct world *one_collecting(uint64_t seed, uint64_t *id)
{
	struct world *w = world_create(seed);

	w->over = OVER_SAVED;
	world_agent_up(w, "a", 1, 4);
	*id = world_submit(w, ONE);
	begin(w, *id, 1);
	end(w, *id, 1, 3);
	is_str(world_status(w, *id), "starting", "the next attempt is prepared when the old one has stopped");
	is_int(world_count(w, "a", WM_COLLECT), 1, "the old one is being collected");
	is_int(world_count(w, "a", WM_PREPARE), 2, "its node prepares the next one");
	return w;
}

static void test_behind(void)
{
	uint64_t id;
	struct world *w = one_collecting(51, &id);

	begin(w, id, 2);
	is_str(world_status(w, id), "running", "attempt 2 runs");
	artifact(w, "a", id, 1, "output");
	is_int(artifacts_of(w, id, 1), 1, "what attempt 1 uploads meanwhile is registered as its own");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "running", "attempt 1 is collected, and attempt 2 runs on");
	ok(!job_find(w->core, id)->collect, "the collection is over");
	end(w, id, 2, 0);
	world_launch(w, "a", id, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "the job completes");
	world_end_well(w);
}

/* An agent that does not say that a launch has stopped is collected first, as before. */
static void test_old_agent(void)
{
	struct world *w = world_create(52);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	end(w, id, 1, 3);
	is_str(world_status(w, id), "recovering", "nobody said that it has stopped");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "starting", "the next attempt follows the clean-up");
	world_end_well(w);
}

static void test_end_waits(void)
{
	uint64_t id;
	struct world *w = one_collecting(53, &id);

	begin(w, id, 2);
	end(w, id, 2, 0);
	world_launch(w, "a", id, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "stopping", "the job does not end before attempt 1 is collected");
	artifact(w, "a", id, 1, "model");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "then it does");
	is_int(artifacts_of(w, id, 1), 1, "nothing of attempt 1 is lost");
	world_end_well(w);
}

static void test_third_waits(void)
{
	uint64_t id;
	struct world *w = one_collecting(54, &id);

	begin(w, id, 2);
	end(w, id, 2, 3);
	pass(w, 15);
	is_str(world_status(w, id), "recovering", "a third attempt waits for the oldest collection");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	pass(w, 12);
	is_str(world_status(w, id), "starting", "then it starts, while attempt 2 is collected");
	ok(job_find(w->core, id)->collect_attempt == 2 && job_find(w->core, id)->collect, "attempt 2 is");
	world_launch(w, "a", id, 2, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

static void test_restart(void)
{
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end e = {.instance = 1};
	uint64_t id, session;
	struct world *w = one_collecting(55, &id);

	begin(w, id, 2);
	world_forget(w);
	world_restart(w);
	session = world_agent_connect(w, "a");
	world_agent_inventory(w, "a", session, 1, 4);
	world_msg(w, "a", session, WM_SYNC_BEGIN, &b);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 3, 0, "it broke\n");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_rank(w, "a", id, 2, 0, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "a", id, 2, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", session, WM_SYNC_END, &e);
	world_turn(w);
	is_str(world_status(w, id), "running", "hearthd was killed: attempt 2 runs");
	is_int(world_count(w, "a", WM_COLLECT), 1, "the next hearthd collects attempt 1");
	is_int(world_count(w, "a", WM_KILL), 0, "nothing is ended");
	artifact(w, "a", id, 1, "output");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_int(artifacts_of(w, id, 1), 1, "and registers its results");
	ok(!job_find(w->core, id)->collect, "the collection is over");
	end(w, id, 2, 0);
	world_launch(w, "a", id, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "the job completes");
	world_end_well(w);
}

/* A node that was away when its launch was to be collected keeps the results of attempt 1. */
static void test_restart_uncollected(void)
{
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end e = {.instance = 1};
	uint64_t id, session;
	struct world *w = one_collecting(59, &id);
	struct sent *s, *last = NULL;

	begin(w, id, 2);
	world_forget(w);
	world_restart(w);
	session = world_agent_connect(w, "a");
	world_agent_inventory(w, "a", session, 1, 4);
	world_msg(w, "a", session, WM_SYNC_BEGIN, &b);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_rank(w, "a", id, 2, 0, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "a", id, 2, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", session, WM_SYNC_END, &e);
	world_turn(w);
	while ((s = world_sent(w, "a", WM_COLLECT))) {
		if (last)
			sent_free(last);
		last = s;
	}
	ok(last && ((struct wm_collect *)last->msg)->attempt == 1, "the next hearthd collects attempt 1");
	ok(last && ((struct wm_collect *)last->msg)->keep, "whose ranks ran, so its results are kept");
	if (last)
		sent_free(last);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	end(w, id, 2, 0);
	world_launch(w, "a", id, 2, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

/* Between two attempts: in the back-off of the second restart. */
static void test_between(void)
{
	uint64_t id;
	struct world *w = one_collecting(56, &id);

	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	begin(w, id, 2);
	end(w, id, 2, 3);
	is_str(world_status(w, id), "recovering", "in its back-off");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	is_str(world_status(w, id), "recovering", "hearthd was killed; the agent has lost the launch");
	ok(!job_find(w->core, id)->collect, "nothing is left to collect");
	world_request(w, REQ_STOP, id, NULL, "{}");
	is_str(world_status(w, id), "stopped", "a stop ends the job at once");
	world_end_well(w);

	w = one_collecting(57, &id);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	begin(w, id, 2);
	end(w, id, 2, 3);
	world_request(w, REQ_STOP, id, NULL, "{}");
	is_str(world_status(w, id), "recovering", "a stop during the collection waits for the results");
	artifact(w, "a", id, 2, "output");
	world_launch(w, "a", id, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "stopped", "then the job is stopped");
	is_int(artifacts_of(w, id, 2), 1, "with its results");
	world_end_well(w);
}

static void both(struct world *w, uint64_t id, uint32_t attempt, uint8_t state)
{
	world_launch(w, "a", id, attempt, state, 0, NULL);
	world_launch(w, "b", id, attempt, state, 0, NULL);
}

static void two_fail(struct world *w, uint64_t id, uint32_t attempt)
{
	both(w, id, attempt, LAUNCH_READY);
	world_rank(w, "a", id, attempt, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, attempt, 1, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "a", id, attempt, 0, PS_EXITED, 3, 0, "it broke\n");
	world_rank(w, "b", id, attempt, 1, PS_EXITED, 0, 9, "");
	both(w, id, attempt, LAUNCH_ENDED);
}

static void holds(struct world *w, uint64_t id, unsigned n, const char *when)
{
	uint64_t nodes[2];
	const char *bad = world_check(w);

	is_int(sched_job_nodes(w->core->sched, id, nodes, 2), n, when);
	ok(!bad, "%s: its record says so, too%s%s", when, bad ? ": " : "", bad ? bad : "");
}

/* The job keeps node b while attempt 2 is collected. Then it has to stop, or to begin again. */
static void wants_between(uint64_t seed, enum request_op op, const char *end)
{
	struct world *w = world_create(seed);
	uint64_t id;

	w->over = OVER_SAVED;
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	two_fail(w, id, 1);
	both(w, id, 1, LAUNCH_CLEANED);
	two_fail(w, id, 2);
	is_str(world_status(w, id), "recovering", "in its back-off");
	holds(w, id, 1, "one node is kept");
	is_int(world_request(w, op, id, NULL, "{}"), 200, "a request while attempt 2 is collected");
	is_str(world_status(w, id), "recovering", "waits for the results");
	holds(w, id, op == REQ_REQUEUE, "only a job that goes on keeps its node meanwhile");
	both(w, id, 2, LAUNCH_CLEANED);
	is_str(world_status(w, id), end, "then it is done");
	holds(w, id, op == REQ_REQUEUE ? 2 : 0, "after that");
	world_end_well(w);
}

static void test_node_lost(void)
{
	struct world *w = world_create(58);
	uint64_t id;

	w->over = OVER_SAVED;
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = world_submit(w, TWO);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 3, 0, "it broke\n");
	world_rank(w, "b", id, 1, 1, PS_EXITED, 0, 9, "");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	is_int(world_count(w, "a", WM_PREPARE), 1, "one node has not stopped: nothing is prepared");
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	is_int(world_count(w, "a", WM_PREPARE), 2, "both have: the next attempt is prepared");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "reset by peer");
	world_turn(w);
	is_int(world_request(w, REQ_NODE_LOST, 0, "b", "{}"), 200, "a node is lost that has both attempts");
	ok(!job_find(w->core, id)->collect, "attempt 1 is collected as far as it can be");
	is_str(world_status(w, id), "recovering", "and attempt 2 ends");
	world_end_well(w);
}

/* A node that makes no progress with its uploads is given up, and its job goes on. */
static void test_no_progress(void)
{
	uint64_t id;
	struct world *w = one_collecting(59, &id);

	begin(w, id, 2);
	pass(w, 601);
	is_str(world_status(w, id), "running", "attempt 2 runs on");
	ok(!job_find(w->core, id)->collect, "attempt 1 was given up");
	like(job_find(w->core, id)->r.cleanup, "has not finished uploading", "and the job says so");
	world_end_well(w);
}

/* ---- what the next attempt begins with --------------------------------------------------------- */

/* Step 100 of attempt 1. shards 0: each node has a part of its own. */
static void checkpoint(struct world *w, const char *node, uint64_t id, uint32_t shards, uint8_t state)
{
	char name[] = "step-100", format[] = "plain", by[] = "name", store[] = "blob:", empty[] = "",
	     digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct wm_checkpoint_report m = {.job = id,
	                                 .attempt = 1,
	                                 .epoch = 1,
	                                 .seq = 1,
	                                 .step = 100,
	                                 .name = name,
	                                 .format = format,
	                                 .step_by = by,
	                                 .state = state,
	                                 .shards = shards,
	                                 .files = 1,
	                                 .digest = digest,
	                                 .uri = state == CKPT_VERIFIED ? store : empty,
	                                 .at_us = 1800000000000000u,
	                                 .text = empty};

	world_msg(w, node, 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(w);
}

static struct world *two_run(uint64_t seed, uint64_t *id)
{
	struct world *w = world_create(seed);

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	*id = world_submit(w, TWO);
	for (int i = 0; i < 2; i++)
		world_launch(w, i ? "b" : "a", *id, 1, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < 2; i++)
		world_rank(w, i ? "b" : "a", *id, 1, i, PS_RUNNING, 0, 0, NULL);
	world_forget(w);
	return w;
}

static void stop_both(struct world *w, uint64_t id, uint8_t over)
{
	w->over = over;
	world_rank(w, "b", id, 1, 1, PS_EXITED, 3, 0, "it broke\n");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 9, "");
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
}

static void begins_with(struct world *w, const char *node, const char *from, int64_t step, const char *what)
{
	struct sent *s = world_sent(w, node, WM_PREPARE);
	const struct wm_prepare *m = s ? s->msg : NULL;

	ok(m && strncmp(m->resume_from, from, strlen(from)) == 0 && m->resume_step == step,
	   "%s: %.20s, step %lld", what, m ? m->resume_from : "(none)", m ? (long long)m->resume_step : -9);
	if (s)
		sent_free(s);
}

/* Rank 0 alone saves, and its copy could not be made: a has it, b has not. */
static void test_not_copied(void)
{
	uint64_t id;
	struct world *w = two_run(70, &id);

	checkpoint(w, "a", id, 1, CKPT_COPYING);
	stop_both(w, id, OVER_COPIED);
	is_str(world_status(w, id), "recovering", "the only copy is on its way in the folder: no attempt begins");
	artifact(w, "a", id, 1, "checkpoint");
	w->over = OVER_SAVED;
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	is_str(world_status(w, id), "starting", "the folder is there");
	begins_with(w, "b", "file:///out", -1, "and b begins with it");
	world_end_well(w);
}

static void test_copied_later(void)
{
	uint64_t id;
	struct world *w = two_run(71, &id);

	checkpoint(w, "a", id, 1, CKPT_COPYING);
	stop_both(w, id, OVER_STOPPED);
	is_str(world_status(w, id), "recovering", "the only copy is on its way");
	checkpoint(w, "a", id, 1, CKPT_VERIFIED);
	is_str(world_status(w, id), "starting", "it has arrived");
	begins_with(w, "b", "0123", 100, "and b begins with it");
	world_end_well(w);
}

static void connect_again(struct world *w, const char *node, uint64_t id)
{
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end e = {.instance = 1};
	uint64_t session = world_agent_connect(w, node);

	world_agent_inventory(w, node, session, 1, 4);
	world_msg(w, node, session, WM_SYNC_BEGIN, &b);
	world_launch(w, node, id, 1, LAUNCH_ENDED, 0, NULL);
	world_msg(w, node, session, WM_SYNC_END, &e);
	world_turn(w);
}

/* Each node can restore its part, so the attempt is over. Then b gets no more work while it still copies its
 * part: the next attempt waits for that copy, and nobody gets what the job keeps. */
static void test_place_changed(void)
{
	static const char gpu[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                          "{\"gpus_per_instance\": 1}}";
	uint64_t id, other, nodes[4];
	struct world *w = two_run(72, &id);

	checkpoint(w, "a", id, 0, CKPT_COPYING);
	checkpoint(w, "b", id, 0, CKPT_COPYING);
	w->over = OVER_STOPPED;
	world_rank(w, "b", id, 1, 1, PS_EXITED, 3, 0, "it broke\n");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 9, "");
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "reset by peer");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	ok(job_find(w->core, id)->collect, "the attempt is over for nodes that restore what they hold");
	is_int(world_request(w, REQ_DRAIN, 0, "b", "{}"), 200, "b gets no more work");
	world_agent_up(w, "c", 1, 4);
	is_str(world_status(w, id), "recovering", "c has no copy of b's part: the job waits for it");
	is_int(world_count(w, "c", WM_PREPARE), 0, "and prepares nothing without it");
	is_int(sched_job_nodes(w->core->sched, id, nodes, 4), 1, "it holds the node that it keeps");
	is_str(world_status(w, world_submit(w, gpu)), "starting", "c is free for others");
	other = world_submit(w, gpu);
	is_str(world_status(w, other), "queued", "a is not");
	connect_again(w, "b", id);
	checkpoint(w, "a", id, 0, CKPT_VERIFIED);
	checkpoint(w, "b", id, 0, CKPT_VERIFIED);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	ok(!job_find(w->core, id)->collect, "all is copied");
	is_str(world_status(w, id), "recovering", "the job asks for a node at once");
	world_agent_up(w, "d", 1, 4);
	is_str(world_status(w, id), "starting", "and has it before others");
	begins_with(w, "d", "0123", 100, "d begins with b's part");
	is_str(world_status(w, other), "queued", "nobody had a");
	world_end_well(w);
}

int main(void)
{
	test_behind();
	test_old_agent();
	test_end_waits();
	test_third_waits();
	test_restart();
	test_restart_uncollected();
	test_between();
	wants_between(60, REQ_STOP, "stopped");
	wants_between(61, REQ_REQUEUE, "starting");
	test_node_lost();
	test_no_progress();
	test_not_copied();
	test_copied_later();
	test_place_changed();
	return tap_done();
}
