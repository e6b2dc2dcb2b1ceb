/* Whole lives of jobs, message by message: what is ordered when, what becomes of the job, what users are
 * told. */
#include "controller/cluster/lease.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"resources\": {\"instances\": 2, "                      \
	"\"gpus_per_instance\": 1}, \"retry\": {\"max_attempts\": 0, \"capacity\": 0}}"
#define ONE                                                                                                  \
	"{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": "                   \
	"{\"max_attempts\": 0}}"

/* A text of the newest attempt, as the API shows it. */
static const char *attempt_text(struct world *w, uint64_t job, const char *key)
{
	static char text[2000];
	cJSON *list = store_attempts_json(w->reader, job, NULL);
	const cJSON *all = cJSON_IsArray(list) ? list : cJSON_GetObjectItemCaseSensitive(list, "attempts");
	const cJSON *v =
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(all, cJSON_GetArraySize(all) - 1), key);
	char *printed = cJSON_IsString(v) ? xstrdup(v->valuestring) : v ? cJSON_PrintUnformatted(v) : NULL;

	snprintf(text, sizeof text, "%s", printed ? printed : "");
	free(printed);
	cJSON_Delete(list);
	return text;
}

static int64_t exit_code_of(struct world *w, uint64_t job)
{
	struct job_row row = {0};
	int64_t code;

	if (store_job_get(w->reader, job, &row, NULL) < 0)
		return -99;
	code = row.exit_code;
	job_row_fini(&row);
	return code;
}

/* The two-node job up to running ranks. */
static uint64_t run_two(struct world *w)
{
	uint64_t id = world_submit(w, TWO);

	world_launch(w, "a", id, 1, LAUNCH_PREPARING, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_PREPARING, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	return id;
}

static void both(struct world *w, uint64_t id, uint32_t attempt, uint8_t state)
{
	world_launch(w, "a", id, attempt, state, 0, NULL);
	world_launch(w, "b", id, attempt, state, 0, NULL);
}

static void test_success(void)
{
	struct world *w = world_create(1);
	struct wm_prepare *p;
	struct wm_gang *g;
	void *gang = NULL;
	struct sent *s;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	is_int(id, 1, "ids begin with 1");
	is_str(world_status(w, id), "starting", "placed at once");
	s = world_sent(w, "b", WM_PREPARE);
	ok(s != NULL, "both nodes are told to prepare");
	p = s->msg;
	is_int(p->node_rank, 1, "b is the second");
	is_int(wire_decode(WM_GANG, p->gang->data, p->gang->n, &gang, NULL), 0, "the gang's table is inside");
	g = gang;
	is_int(g->nodes.n, 2, "two nodes");
	is_str(g->nodes.v[1], "algo-2", "by their names in the gang");
	wire_free(WM_GANG, g);
	is_int(p->gpus.n, 1, "with one GPU");
	is_int(p->epoch, 1, "first epoch");
	ok(p->master_port >= 21000 && p->master_port <= 21999, "a port of the main node's range");
	ok(strlen(p->token) == 32 && strlen(p->job_token) == 40, "tokens");
	sent_free(s);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	is_int(world_count(w, NULL, WM_LAUNCH_GO), 0, "no start before all are ready");
	world_launch(w, "b", id, 1, LAUNCH_READY, 0, NULL);
	is_int(world_count(w, NULL, WM_LAUNCH_GO), 2, "then both go");
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	is_str(world_status(w, id), "running", "runs with the first rank");
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	is_str(world_status(w, id), "running", "until all have ended");
	world_rank(w, "b", id, 1, 1, PS_EXITED, 0, 0, NULL);
	is_str(world_status(w, id), "stopping", "then outputs are collected");
	is_int(world_count(w, NULL, WM_KILL), 0, "nobody is killed");
	is_int(world_count(w, NULL, WM_COLLECT), 0, "not before the launches have ended");
	both(w, id, 1, LAUNCH_ENDED);
	is_int(world_count(w, NULL, WM_COLLECT), 2, "then from both");
	s = world_sent(w, "a", WM_COLLECT);
	is_int(((struct wm_collect *)s->msg)->keep, 1, "and kept");
	sent_free(s);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "stopping", "one node is still at it");
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "the job has ended");
	is_int(exit_code_of(w, id), 0, "with 0");
	ok(world_count(w, "a", WM_ACK) == 5, "every report was acknowledged");
	world_request(w, REQ_STOP, id, NULL, NULL);
	is_int(w->status, 200, "stopping an ended job is no error");
	is_str(world_status(w, id), "completed", "and changes nothing");
	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	is_int(w->status, 409, "requeueing is refused");
	like(w->err.text, "jobctl clone 1", "with what to do instead");
	world_end_well(w);
}

static void test_first_failed(void)
{
	struct world *w = world_create(2);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	clock_fake_advance(&w->clock, 5000000);
	world_rank(w, "b", id, 1, 1, PS_EXITED, 3, 0, "Traceback\n  File x\nValueError: bad shape\n");
	is_str(world_status(w, id), "stopping", "a failed rank ends the job");
	is_int(world_count(w, "a", WM_KILL), 1, "the other node is told to kill");
	clock_fake_advance(&w->clock, 10000);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, "Terminated\n");
	both(w, id, 1, LAUNCH_ENDED);
	both(w, id, 1, LAUNCH_CLEANED);
	is_str(world_status(w, id), "failed", "failed");
	golden("hearthd/life-rank-algo-b-exited-with-code-valueerror", world_reason(w, id), "rank 1", "2",
	       "code 3");
	is_int(exit_code_of(w, id), 3, "its exit code is the job's");
	is_str(attempt_text(w, id, "class"), "unknown", "an exit code alone says nothing of its cause");
	like(attempt_text(w, id, "phases"),
	     "{\"name\":\"stopping\",\"started_at\":\"2027-01-15T08:00:05.000000Z\",\"ended_at\":\"2027-01-15T08:"
	     "00:05.010000Z\"}",
	     "the time of stopping is a phase");
	world_end_well(w);
}

static void test_first_failed_order(void)
{
	struct world *w = world_create(3);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	/* The victim's report comes first, its clock is even a little behind. */
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	clock_fake_advance(&w->clock, 20000);
	world_rank(w, "b", id, 1, 1, PS_EXITED, 0, SIGSEGV, NULL);
	both(w, id, 1, LAUNCH_ENDED);
	both(w, id, 1, LAUNCH_CLEANED);
	golden("hearthd/life-rank-algo-b-was-ended-by-signal", world_reason(w, id), "rank 1", "2", "11");
	is_int(exit_code_of(w, id), 128 + SIGSEGV, "exit code of a signal");
	is_str(attempt_text(w, id, "class"), "signal", "a signal is certain");
	world_end_well(w);
}

static void test_oom_and_start_failure(void)
{
	struct world *w = world_create(4);
	struct wm_proc_report m = {.kind = PROC_RANK,
	                           .state = PS_EXITED,
	                           .signal = SIGKILL,
	                           .oom = 1,
	                           .attempt = 1,
	                           .epoch = 1,
	                           .started_us = 1,
	                           .ended_us = 2};
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w,
	                  "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": {\"capacity\": 0}}");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	m.job = id;
	m.token = m.text = (char[]){""};
	world_msg(w, "a", 0, WM_PROC_REPORT, &m);
	world_turn(w);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	golden("hearthd/life-rank-algo-a-ran-out-of-memory", world_reason(w, id), "resources.memory", "rank 0");
	is_str(attempt_text(w, id, "class"), "oom", "as its class, too");
	id = world_submit(w, ONE);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_FAILED, 0, 0, "/bin/x: no such file");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "failed", "a command that is not there");
	golden("hearthd/life-rank-algo-a-could-not-start-bin", world_reason(w, id), "rank 0");
	is_str(attempt_text(w, id, "class"), "user_error", "and is its owner's");
	world_end_well(w);
}

static void test_stop(void)
{
	struct world *w = world_create(5);
	struct sent *s;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	world_request(w, REQ_STOP, id, NULL, "{\"grace_s\": 7}");
	is_int(w->status, 200, "stop is taken");
	s = world_sent(w, "a", WM_KILL);
	ok(s && ((struct wm_kill *)s->msg)->grace_ms == 7000, "with the grace that was asked for");
	like(((struct wm_kill *)s->msg)->reason, "stopped by ada", "and who asked");
	sent_free(s);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_EXITED, 0, SIGTERM, NULL);
	both(w, id, 1, LAUNCH_ENDED);
	s = world_sent(w, "a", WM_COLLECT);
	is_int(((struct wm_collect *)s->msg)->keep, 1, "outputs of a stopped job are kept");
	sent_free(s);
	both(w, id, 1, LAUNCH_CLEANED);
	is_str(world_status(w, id), "stopped", "stopped, not failed");
	is_str(world_reason(w, id), "stopped by ada", "by whom");
	id = world_submit(w, TWO);
	world_submit(w, TWO);
	world_request(w, REQ_STOP, id + 1, NULL, NULL);
	is_str(world_status(w, id + 1), "stopped", "a waiting job is stopped at once");
	world_end_well(w);
}

static void test_stop_unconfirmed(void)
{
	struct world *w = world_create(6);
	struct job_row row = {0};
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	world_request(w, REQ_STOP, id, NULL, "{\"grace_s\": 5}");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	for (int i = 0; i < 40; i++) {
		world_beat(w, "a");
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
	is_int(world_count(w, "a", WM_COLLECT), 1, "after grace and margin it goes on without b");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "stopped", "the job is stopped");
	store_job_get(w->reader, id, &row, NULL);
	golden("hearthd/life-node-b-has-not-confirmed-the-end", row.cleanup);
	job_row_fini(&row);
	world_submit(w, TWO);
	is_str(world_status(w, id + 1), "queued", "b gets no work while it may still have the old launch");
	world_forget(w);
	world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
	is_int(world_count(w, "b", WM_KILL), 1, "it is told to kill again");
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	is_int(world_count(w, "b", WM_COLLECT), 1, "then to remove it");
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id + 1), "starting", "then it gets work again");
	world_end_well(w);
}

static void pass_with_beats(struct world *w, unsigned seconds)
{
	while (seconds--) {
		world_beat(w, "a");
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
}

/* The connection to b breaks with the order to kill in it. b is back and has just reported that the launch
 * runs, but not yet all that it has, when the time to confirm the end is over: nothing comes by itself after
 * that. */
static void test_stop_unconfirmed_in_report(void)
{
	struct world *w = world_create(38);
	struct wm_sync_begin begin = {.instance = 1};
	struct wm_sync_end end = {.instance = 1};
	uint64_t id, session;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	world_request(w, REQ_STOP, id, NULL, "{\"grace_s\": 5}");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	pass_with_beats(w, 34);
	is_int(world_count(w, "a", WM_COLLECT), 0, "the time to confirm is not over");
	session = world_agent_connect(w, "b");
	world_agent_inventory(w, "b", session, 1, 4);
	world_msg(w, "b", session, WM_SYNC_BEGIN, &begin);
	world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_forget(w);
	pass_with_beats(w, 2);
	is_int(world_count(w, "a", WM_COLLECT), 1, "then it goes on without b");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_msg(w, "b", session, WM_SYNC_END, &end);
	is_int(world_count(w, "b", WM_COLLECT), 1, "b is asked how far its launch is");
	world_submit(w, TWO);
	is_str(world_status(w, id + 1), "queued", "and gets no work while it has it");
	world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
	is_int(world_count(w, "b", WM_KILL), 1, "it answers that it runs, so it has to kill it");
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id + 1), "starting", "then it gets work again");
	world_end_well(w);
}

static void test_replacement(void)
{
	struct world *w = world_create(7);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	world_agent_up(w, "b", 1, 4);
	world_launch(w, "a", id, 1, LAUNCH_PREPARING, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_FAILED, RC_DISK, "no space left on device");
	is_str(world_status(w, id), "recovering", "a full disk is not the job's fault");
	is_int(world_count(w, "a", WM_COLLECT), 1, "what was staged is removed");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, RC_DISK, "no space left on device");
	is_str(world_status(w, id), "starting", "it starts again");
	is_int(world_count(w, "b", WM_PREPARE), 1, "on the other node");
	world_launch(w, "b", id, 2, LAUNCH_FAILED, RC_STAGING, "x");
	world_launch(w, "b", id, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "recovering", "the second restart has a back-off");
	pass_with_beats(w, 11);
	is_str(world_status(w, id), "starting", "when every node has failed once, each may be tried again");
	world_launch(w, "a", id, 3, LAUNCH_FAILED, RC_DISK, "no space left on device");
	world_launch(w, "a", id, 3, LAUNCH_CLEANED, 0, NULL);
	pass_with_beats(w, 21);
	if (world_count(w, "b", WM_PREPARE) > 1)
		world_launch(w, "b", id, 4, LAUNCH_FAILED, RC_DISK, "full too");
	else
		world_launch(w, "a", id, 4, LAUNCH_FAILED, RC_DISK, "full too");
	world_launch(w, world_count(w, "b", WM_PREPARE) > 1 ? "b" : "a", id, 4, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "failed", "but not for ever");
	like(world_reason(w, id),
	     "did not get ready: full too; not retried: 3 attempts in a row could not start either",
	     "with the last cause, and why it ends");
	world_end_well(w);
}

/* A node that failed a job is avoided only while another one is there. */
static void test_avoided_node(void)
{
	static const char WHOLE[] = "{\"command\": [\"x\"], \"resources\": {\"exclusive\": true}}";
	struct world *w = world_create(23);
	uint64_t id, session;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, WHOLE);
	session = world_agent_up(w, "b", 1, 4);
	world_submit(w, WHOLE); /* holds b */
	is_int(world_count(w, "b", WM_PREPARE), 1, "another job holds the second node");
	world_launch(w, "a", id, 1, LAUNCH_FAILED, RC_DISK, "no space left on device");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, RC_DISK, "no space left on device");
	is_str(world_status(w, id), "recovering", "a job waits for the node that has not failed it");
	core_agent_down(w->core, "b", session, "reset by peer");
	core_end_turn(w->core);
	is_int(job_find(w->core, id)->r.status, JOB_STARTING,
	       "in the turn in which that node goes the job starts on the one that failed it");
	world_turn(w);
	is_int(world_count(w, "a", WM_PREPARE), 2, "the node gets the order");
	world_end_well(w);
}

static void test_user_error(void)
{
	struct world *w = world_create(8);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, ONE);
	world_launch(w, "a", id, 1, LAUNCH_FAILED, RC_USER_ERROR, "requirements.txt: no such package: nunpy");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "failed", "the job's own fault is not tried again");
	golden("hearthd/life-node-a-did-not-get-ready-requirements", world_reason(w, id), "requirements.txt");
	world_end_well(w);
}

static void test_prepare_timeout(void)
{
	struct world *w = world_create(9);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, ONE);
	world_launch(w, "a", id, 1, LAUNCH_PREPARING, 0, NULL);
	for (int i = 0; i < 62; i++) {
		world_beat(w, "a");
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "recovering", "no progress for a minute");
	is_int(world_count(w, "a", WM_KILL), 1, "the node is told to give up");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_int(world_count(w, "b", WM_PREPARE), 1, "and replaced");
	world_end_well(w);
}

/* Nothing was launched there, and nothing can be any more: a node that says nothing holds up nobody. */
static void test_prepare_silent(void)
{
	struct world *w = world_create(41);
	uint64_t id;

	world_agent_up(w, "a", 1, 4); /* its list of peers: nobody, so it may carry on when it falls silent */
	id = world_submit(w, ONE);
	world_agent_up(w, "b", 1, 4);
	world_launch(w, "a", id, 1, LAUNCH_PREPARING, 0, NULL);
	for (int i = 0; i < 75; i++) {
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
	is_int(world_count(w, "a", WM_KILL), 1, "the silent node is told to give up");
	is_str(world_status(w, id), "starting", "its word is not waited for");
	is_int(world_count(w, "b", WM_PREPARE), 1, "the other node takes the job");
	world_forget(w);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	is_int(world_count(w, "a", WM_LAUNCH_GO), 0, "it is ready too late");
	is_int(world_count(w, "a", WM_KILL), 1, "and told so");
	world_end_well(w);
}

static void test_time_limit(void)
{
	struct world *w = world_create(10);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(
	    w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"limits\": {\"max_runtime_s\": 60}}");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	for (int i = 0; i < 59; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "running", "within its time");
	world_beat(w, "a");
	world_advance(w, 2000000);
	is_str(world_status(w, id), "stopping", "then it is stopped");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "failed", "failed");
	is_str(world_reason(w, id), "time limit of 1m reached", "by its time limit");
	world_end_well(w);
}

/* The controller's machine boots, its wall clock says `real_us` more than before. What has run counts. */
static void boot_anew(struct world *w, int64_t real_us)
{
	world_stop(w, 0);
	clock_fake_init(&w->clock, w->clock.fake_real_us + (uint64_t)real_us, 60000000);
	world_start(w);
	world_turn(w);
}

static void test_time_limit_reboot(void)
{
	struct world *w = world_create(40);
	uint64_t id, at;

	clock_fake_advance(&w->clock, 86400000000);
	world_agent_up(w, "a", 1, 4);
	id = world_submit(
	    w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"limits\": {\"max_runtime_s\": 86400}}");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	at = w->clock.fake_real_us;
	boot_anew(w, 23 * 3600000000ll);
	is_str(world_status(w, id), "running", "a job of 24 h runs at 23 h, over a boot of the controller");
	is_int((int64_t)job_find(w->core, id)->deadline_us, 60000000 + 3600000000ll, "and has one hour left");
	boot_anew(w, -22 * 3600000000ll);
	is_str(world_status(w, id), "running", "its clock was set back: it runs");
	ok(job_find(w->core, id)->deadline_us <= 60000000 + 86400000000ull, "no longer than the whole limit");
	boot_anew(w, (int64_t)(at - w->clock.fake_real_us) - 7200000000ll);
	ok(job_find(w->core, id)->deadline_us <= 60000000 + 86400000000ull, "also when it is before the start");
	boot_anew(w, (int64_t)(at - w->clock.fake_real_us) + 25 * 3600000000ll);
	is_str(world_status(w, id), "stopping", "at 25 h it is stopped at once");
	is_int(world_verify(w), 0, "the store is consistent, replay gives the rows");
	world_destroy(w);
}

/* An agent ends what passes a limit; its words, not those of the signal, are why. */
static void test_limit_passed(void)
{
	static const char *const text = "disk limit passed: 2MiB used, 1MiB allowed";
	struct world *w = world_create(31);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	both(w, id, 1, LAUNCH_READY);
	both(w, id, 1, LAUNCH_RUNNING);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_STOPPING, RC_DISK, text);
	is_str(world_status(w, id), "stopping", "a limit that an agent enforces ends the attempt");
	is_int(world_count(w, "a", WM_KILL), 1, "on all nodes");
	world_rank(w, "b", id, 1, 1, PS_EXITED, 0, SIGTERM, "last words\n");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "b", id, 1, LAUNCH_ENDED, RC_DISK, text);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	both(w, id, 1, LAUNCH_CLEANED);
	is_str(world_status(w, id), "failed", "failed");
	golden("hearthd/life-node-b-disk-limit-passed-mib-used", world_reason(w, id), "2MiB", "1MiB");

	id = world_submit(w, TWO);
	both(w, id, 1, LAUNCH_READY);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_EXITED, 3, 0, "no space left\n");
	world_launch(w, "b", id, 1, LAUNCH_STOPPING, RC_DISK, text);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	both(w, id, 1, LAUNCH_ENDED);
	both(w, id, 1, LAUNCH_CLEANED);
	golden("hearthd/life-rank-algo-b-exited-with-code-no", world_reason(w, id), "rank 1", "2", "code 3");
	world_end_well(w);
}

static void test_mpirun_fails(void)
{
	struct world *w = world_create(11);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	both(w, id, 1, LAUNCH_READY);
	world_proc(w, "a", id, 1, PROC_MPIRUN, PS_EXITED, 213, "mpirun: bad option\n");
	is_str(world_status(w, id), "stopping", "mpirun's failure ends the attempt");
	both(w, id, 1, LAUNCH_ENDED);
	both(w, id, 1, LAUNCH_CLEANED);
	is_str(world_status(w, id), "failed", "failed");
	golden("hearthd/life-mpirun-on-a-exited-with-code-mpirun", world_reason(w, id), "code 213");
	world_end_well(w);
}

static void test_ready_timeout(void)
{
	struct world *w = world_create(12);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	both(w, id, 1, LAUNCH_READY);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	for (int i = 0; i < 31; i++) {
		world_beat(w, "a");
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "recovering", "no rank for 30 s; b has started nothing: it is replaced");
	world_end_well(w);
}

/* 201 nodes get 20 s more. */
static void test_ready_timeout_large(void)
{
	struct world *w = world_create(41);
	char name[16];
	uint64_t id;

	for (int i = 0; i < 201; i++) {
		snprintf(name, sizeof name, "n%d", i);
		world_agent_up(w, name, 1, 1);
	}
	id = world_submit(w, "{\"name\": \"big\", \"command\": [\"/bin/x\"], \"resources\": {\"instances\": 201, "
	                     "\"gpus_per_instance\": 1}}");
	for (int i = 0; i < 201; i++) {
		snprintf(name, sizeof name, "n%d", i);
		world_launch(w, name, id, 1, LAUNCH_READY, 0, NULL);
	}
	ok(job_find(w->core, id)->deadline_us == w->clock.fake_boot_us + 50000000, "the launch has 30 + 20 s");
	world_end_well(w);
}

/* Importing torch from a cold or shared disk takes minutes, and no rank runs before it is done. */
static void test_rendezvous_timeout(void)
{
	struct world *w = world_create(12);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, "{\"command\": [\"python3\", \"x.py\"], \"launcher\": \"torchrun\"}");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	for (int i = 0; i < 299; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "starting", "torchrun may take its time");
	for (int i = 0; i < 2; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "stopping", "but not more than 300 s");
	golden("hearthd/life-no-rank-started-within-s-of-the", world_reason(w, id), "300 s");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

static void test_requeue_and_hold(void)
{
	struct world *w = world_create(13);
	struct sent *s;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit_full(w, ONE, "{\"hold\": true}", NULL, NULL);
	is_str(world_status(w, id), "held", "held at submit");
	world_request(w, REQ_WHY, id, NULL, NULL);
	like(world_text(w, "text"), "jobctl release 1", "why says how to go on");
	world_request(w, REQ_RELEASE, id, NULL, NULL);
	is_str(world_status(w, id), "starting", "released");
	world_request(w, REQ_HOLD, id, NULL, NULL);
	is_int(w->status, 409, "too late to hold");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_request(w, REQ_REQUEUE, id, NULL, NULL);
	is_int(w->status, 200, "requeue is taken");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_forget(w);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	s = world_sent(w, "a", WM_PREPARE);
	ok(s && ((struct wm_prepare *)s->msg)->attempt == 2 && ((struct wm_prepare *)s->msg)->epoch == 2,
	   "the next attempt, with a new epoch");
	sent_free(s);
	is_str(job_find(w->core, id)->r.att->cause, "requeued by ada", "its cause");
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	s = world_sent(w, "a", WM_KILL);
	ok(s && ((struct wm_kill *)s->msg)->attempt == 1 && ((struct wm_kill *)s->msg)->epoch == 2,
	   "an old launch that shows up is killed");
	sent_free(s);
	world_end_well(w);
}

static void test_rsh(void)
{
	struct world *w = world_create(14);
	char id_text[] = "rsh-1", host[] = "algo-2", wrong[] = "algo-9";
	struct wm_rsh_request m = {.attempt = 1, .epoch = 1, .rsh_id = id_text, .host = host};
	struct sent *s;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	m.job = world_submit(w, TWO);
	wire_strv_add(&m.argv, "orted");
	both(w, m.job, 1, LAUNCH_READY);
	world_msg(w, "a", 0, WM_RSH_REQUEST, &m);
	world_turn(w);
	s = world_sent(w, "b", WM_ORTED_START);
	ok(s && strcmp(((struct wm_orted_start *)s->msg)->argv.v[0], "orted") == 0,
	   "the request goes to the node of that name");
	sent_free(s);
	world_proc(w, "b", m.job, 1, PROC_ORTED, PS_RUNNING, 0, NULL);
	s = world_sent(w, "a", WM_RSH_STATE);
	ok(s && ((struct wm_rsh_state *)s->msg)->state == PS_RUNNING, "its state comes back");
	sent_free(s);
	world_msg(w, "a", 0, WM_RSH_REQUEST, &m);
	world_turn(w);
	is_int(world_count(w, "b", WM_ORTED_START), 0, "asked twice, started once");
	is_int(world_count(w, "a", WM_RSH_STATE), 1, "and answered twice");
	world_forget(w);
	m.host = wrong;
	m.rsh_id = wrong;
	world_msg(w, "a", 0, WM_RSH_REQUEST, &m);
	world_turn(w);
	s = world_sent(w, "a", WM_RSH_STATE);
	ok(s && ((struct wm_rsh_state *)s->msg)->state == PS_FAILED, "a name that is not in the gang is refused");
	sent_free(s);
	free(m.argv.v[0]);
	free(m.argv.v);
	world_end_well(w);
}

static void test_upload_failed(void)
{
	struct world *w = world_create(15);
	char kind[] = "model", empty[] = "", text[] = "file:///results: no space left on device";
	struct wm_artifact_report m = {
	    .attempt = 1, .epoch = 1, .kind = kind, .digest = empty, .uri = empty, .text = text};

	world_agent_up(w, "a", 1, 4);
	m.job = world_submit(w, ONE);
	world_launch(w, "a", m.job, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", m.job, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "a", m.job, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, "a", m.job, 1, LAUNCH_ENDED, 0, NULL);
	world_msg(w, "a", 0, WM_ARTIFACT_REPORT, &m);
	world_launch(w, "a", m.job, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, m.job), "failed", "a model that is not saved is no success");
	golden("hearthd/life-the-ranks-succeeded-but-their-output-is", world_reason(w, m.job));
	world_end_well(w);
}

static void say_saved(struct world *w, const char *node, uint64_t job)
{
	char phase[] = LAUNCH_PHASE_SAVED, empty[] = "";
	struct wm_launch_report m = {
	    .job = job, .attempt = 1, .epoch = 1, .state = LAUNCH_ENDED, .phase = phase, .text = empty};

	world_msg(w, node, 0, WM_LAUNCH_REPORT, &m);
	world_turn(w);
}

/* Node b is lost while it cleans up: before it said that its output is saved (or not at all), after, and
 * after with a restart in between. */
static void lost_in_cleanup(int saved, int restarted, const char *status)
{
	struct world *w = world_create((uint64_t)(50 + saved + restarted));
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_EXITED, 0, 0, NULL);
	say_saved(w, "b", id);
	ok(!job_find(w->core, id)->r.att->places[1].saved, "nothing is saved before the outcome");
	both(w, id, 1, LAUNCH_ENDED);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	if (saved)
		say_saved(w, "b", id);
	if (restarted)
		world_restart(w);
	node_is_lost(w->core, node_find(w->core, "b"), "it was switched off", NULL);
	world_turn(w);
	ok(strcmp(world_status(w, id), status) == 0, "lost %s its output was saved%s: %s",
	   saved ? "after" : "before", restarted ? ", restarted meanwhile" : "", status);
	world_end_well(w);
}

int main(void)
{
	test_success();
	test_first_failed();
	test_first_failed_order();
	test_oom_and_start_failure();
	test_stop();
	test_stop_unconfirmed();
	test_stop_unconfirmed_in_report();
	test_replacement();
	test_avoided_node();
	test_user_error();
	test_prepare_timeout();
	test_prepare_silent();
	test_time_limit();
	test_time_limit_reboot();
	test_limit_passed();
	test_mpirun_fails();
	test_ready_timeout();
	test_ready_timeout_large();
	test_rendezvous_timeout();
	test_requeue_and_hold();
	test_rsh();
	test_upload_failed();
	lost_in_cleanup(0, 0, "failed");
	lost_in_cleanup(0, 1, "failed");
	lost_in_cleanup(1, 0, "completed");
	lost_in_cleanup(1, 1, "completed");
	return tap_done();
}
