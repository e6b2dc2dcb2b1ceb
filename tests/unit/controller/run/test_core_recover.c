/* What follows a failure: restarts, their back-off, and what ends them, over restarts of the controller. */
#include "controller/run/recover.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define ONE                                                                                                  \
	"{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"limits\": "                  \
	"{\"max_runtime_s\": 60}}"
#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "               \
	"{\"instances\": 2, "                                                                                    \
	"\"gpus_per_instance\": 1}}"
#define SECOND 1000000ull

static void pass(struct world *w, unsigned seconds)
{
	while (seconds--) {
		world_beat(w, "a");
		world_advance(w, SECOND);
	}
}

static void begin(struct world *w, uint64_t id, uint32_t attempt)
{
	world_launch(w, "a", id, attempt, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, attempt, 0, PS_RUNNING, 0, 0, NULL);
}

static void fail(struct world *w, uint64_t id, uint32_t attempt, uint32_t code)
{
	world_rank(w, "a", id, attempt, 0, PS_EXITED, code, 0, "Traceback\nit broke\n");
	world_launch(w, "a", id, attempt, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, attempt, LAUNCH_CLEANED, 0, NULL);
}

/* A text of an attempt's plan or evidence, as the API shows it. */
static const char *attempt_text(struct world *w, uint64_t id, uint32_t number, const char *object,
                                const char *key)
{
	static char text[600];
	cJSON *list = store_attempts_json(w->reader, id, NULL), *a;

	text[0] = '\0';
	cJSON_ArrayForEach (a, list) {
		const cJSON *n = cJSON_GetObjectItemCaseSensitive(a, "number"),
		            *o = cJSON_GetObjectItemCaseSensitive(a, object);
		const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

		if (cJSON_IsNumber(n) && n->valueint == (int)number && v)
			snprintf(text, sizeof text, "%s", v);
	}
	cJSON_Delete(list);
	return text;
}

static void test_unknown(void)
{
	struct world *w = world_create(31);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	fail(w, id, 1, 3);
	is_str(world_status(w, id), "starting", "an unknown end: the first restart comes at once");
	is_str(attempt_text(w, id, 1, "plan", "action"), "in_place", "the plan is on record");
	is_str(attempt_text(w, id, 1, "plan", "budget"), "max_attempts", "with what it is counted in");
	is_str(attempt_text(w, id, 1, "evidence", "line"), "it broke", "the evidence has the last line");
	begin(w, id, 2);
	fail(w, id, 2, 3);
	is_str(world_status(w, id), "recovering", "the second one has a back-off");
	like(world_reason(w, id), "exited with code 3", "the reason is that of the attempt");
	is_str(attempt_text(w, id, 2, "plan", "action"), "elsewhere", "the second one goes elsewhere");
	pass(w, 9);
	is_str(world_status(w, id), "recovering", "for 10 s");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	is_str(world_status(w, id), "recovering", "also over a restart of hearthd");
	pass(w, 1);
	is_str(world_status(w, id), "starting", "then it starts, where it can");
	begin(w, id, 3);
	fail(w, id, 3, 3);
	pass(w, 21);
	begin(w, id, 4);
	fail(w, id, 4, 3);
	is_str(world_status(w, id), "failed", "the third restart was the last one");
	like(world_reason(w, id), "retry.max_attempts (3) is used up", "the reason names the key");
	world_end_well(w);
}

static void test_user(void)
{
	struct world *w = world_create(32);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	fail(w, id, 1, 3);
	begin(w, id, 2);
	fail(w, id, 2, 3);
	is_str(world_status(w, id), "recovering", "between two attempts");
	world_request(w, REQ_WHY, id, NULL, "{}");
	like(world_text(w, "text"), "exited with code 3", "why says what ended the attempt");
	like(world_text(w, "text"), "starts again elsewhere after 10s", "and what follows");
	world_request(w, REQ_REQUEUE, id, NULL, "{}");
	is_str(world_status(w, id), "starting", "a requeue ends the back-off");
	begin(w, id, 3);
	fail(w, id, 3, 3);
	is_str(world_status(w, id), "recovering", "the next one");
	world_request(w, REQ_STOP, id, NULL, "{}");
	is_str(world_status(w, id), "stopped", "a stop ends the job at once");
	world_end_well(w);
}

/* 60 s for all attempts; the waits between them do not count. */
static void test_time_limit(void)
{
	struct world *w = world_create(33);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	pass(w, 25);
	fail(w, id, 1, 3);
	begin(w, id, 2);
	pass(w, 25);
	fail(w, id, 2, 3);
	pass(w, 11);
	is_str(world_status(w, id), "starting", "the third attempt");
	begin(w, id, 3);
	pass(w, 7);
	is_str(world_status(w, id), "running", "58 s of 60");
	pass(w, 3);
	is_str(world_status(w, id), "stopping", "the sum of all attempts reached the time limit");
	like(world_reason(w, id), "time limit of 1m", "which the reason names");
	fail(w, id, 3, 3);
	is_str(world_status(w, id), "failed", "no restart follows");
	world_end_well(w);
}

static void test_node_lost(void)
{
	struct world *w = world_create(34);
	struct sent *s;
	uint64_t id, session;

	world_agent_up(w, "a", 1, 4);
	session = world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = world_submit(w, TWO);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	core_agent_down(w->core, "b", session, "reset by peer");
	world_turn(w);
	is_int(world_request(w, REQ_NODE_LOST, 0, "b", "{}"), 200, "a node is lost");
	s = world_sent(w, "a", WM_KILL);
	ok(s && !((struct wm_kill *)s->msg)->grace_ms, "a rank that lost a peer gets no grace");
	sent_free(s);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 9, "");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	is_str(world_status(w, id), "recovering", "a lost node: another attempt follows");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "starting", "it starts at once");
	is_int(world_count(w, "c", WM_PREPARE), 1, "on another node");
	is_str(attempt_text(w, id, 1, "plan", "budget"), "capacity", "counted as a fault of a node");
	world_end_well(w);
}

/* ---- rollbacks ------------------------------------------------------------------------------- */

static void checkpoint_file(struct world *w, uint64_t id, uint32_t attempt, int64_t step, const char *file)
{
	char name[40],
	    empty[] = "", format[] = "plain", by[] = "name",
	    store[] = "blob:", digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct wm_checkpoint_report m = {.job = id,
	                                 .attempt = attempt,
	                                 .epoch = attempt,
	                                 .seq = (uint64_t)step * 256 + (uint8_t)*file,
	                                 .step = step,
	                                 .name = name,
	                                 .format = format,
	                                 .step_by = by,
	                                 .state = CKPT_VERIFIED,
	                                 .size_bytes = 10,
	                                 .files = 1,
	                                 .digest = digest,
	                                 .uri = store,
	                                 .at_us = 1800000000000000u,
	                                 .text = empty};

	snprintf(name, sizeof name, "%s-%lld", file, (long long)step);
	world_msg(w, "a", 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(w);
}

static void checkpoint(struct world *w, uint64_t id, uint32_t attempt, int64_t step)
{
	checkpoint_file(w, id, attempt, step, "step");
}

static int ask(struct world *w, uint64_t id, int64_t onset, int64_t step)
{
	struct rollback_ask a = {.kind = "nan",
	                         .onset = onset,
	                         .step = step,
	                         .margin = 100,
	                         .max_rollbacks = 3,
	                         .action = PLAN_ROLLBACK,
	                         .sentence = "the loss is not finite since step 1000"};
	int rc = recover_rollback(w->core, job_find(w->core, id), &a);

	world_turn(w);
	return rc;
}

/* The rank is killed, and the node confirms it. */
static void killed(struct world *w, uint64_t id, uint32_t attempt)
{
	world_rank(w, "a", id, attempt, 0, PS_EXITED, 0, 9, "");
	world_launch(w, "a", id, attempt, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, attempt, LAUNCH_CLEANED, 0, NULL);
}

static size_t restored; /* files that the last order to prepare names */

static const char *prepare_of(struct world *w, char *out, size_t n)
{
	struct sent *s, *last = NULL;

	while ((s = world_sent(w, "a", WM_PREPARE))) {
		if (last)
			sent_free(last);
		last = s;
	}
	snprintf(out, n, "none");
	if (last) {
		const struct wm_prepare *m = last->msg;

		snprintf(out, n, "%s %lld %s", m->resume_name, (long long)m->resume_step, m->skip_steps);
		restored = m->resume_digests.n;
		sent_free(last);
	}
	return out;
}

static void test_rollback(void)
{
	static const char keeps[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", "
	                            "\"checkpoint\": {\"keep_last\": 9}}";
	struct world *w = world_create(35);
	char text[200];
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, keeps);
	is_int(ask(w, id, 5, 5), -1, "a rollback needs a rank that runs");
	begin(w, id, 1);
	for (int64_t step = 600; step <= 1000; step += 100)
		checkpoint(w, id, 1, step);
	is_int(ask(w, id, 1000, 1030), 0, "the watch asks for a rollback");
	is_int(ask(w, id, 1000, 1030), -1, "once");
	is_str(world_status(w, id), "stopping", "the attempt ends");
	like(world_reason(w, id), "not finite since step 1000", "for the reason of the watch");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	killed(w, id, 1);
	is_str(attempt_text(w, id, 1, "plan", "action"), "rollback", "also a new hearthd rolls it back");
	is_str(attempt_text(w, id, 1, "plan", "text"),
	       "goes back to step 900 and leaves out steps 901-1030 (rollback 1 of 3)",
	       "to the newest checkpoint 100 steps before the onset");
	is_str(prepare_of(w, text, sizeof text), "step-900 900 901-1030", "the next attempt begins there");
	begin(w, id, 2);
	checkpoint(w, id, 2, 1100);
	is_int(ask(w, id, 1110, 1120), 0, "a second rollback");
	killed(w, id, 2);
	is_str(prepare_of(w, text, sizeof text), "step-900 900 901-1120", "twice as far; steps are summed up");
	begin(w, id, 3);
	is_int(ask(w, id, 1130, 1140), 0, "a third rollback");
	killed(w, id, 3);
	is_str(prepare_of(w, text, sizeof text), "step-700 700 701-1140", "400 steps before the onset");
	begin(w, id, 4);
	fail(w, id, 4, 3);
	is_str(prepare_of(w, text, sizeof text), "step-700 700 701-1140",
	       "another restart never takes what is set aside, and still leaves the steps out");
	begin(w, id, 5);
	is_int(ask(w, id, 1150, 1160), 0, "a fourth rollback");
	killed(w, id, 5);
	is_str(world_status(w, id), "failed", "is one too many");
	like(world_reason(w, id), "not finite since step 1000; not retried: watch.max_rollbacks (3)",
	     "which the reason explains");
	world_end_well(w);
}

/* Submits a job that begins with that step of another one, and stops it again. Returns 1 when hearthd accepts
 * it, and warns. */
static int may_begin_with(struct world *w, uint64_t id, int64_t step)
{
	char spec[200];
	uint64_t next;
	int warned;

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resume_from\": \"job:%llu@%lld\"}",
	         (unsigned long long)id, (long long)step);
	next = world_submit(w, spec);
	warned = cJSON_GetArraySize(cJSON_GetObjectItem(w->body, "warnings"));
	if (next)
		world_request(w, REQ_STOP, next, NULL, "{}");
	return next && warned == 1;
}

/* A step that a rollback set aside counts again once a user asks for it, with all files of the step. */
static void test_take_back(void)
{
	static const char keeps[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", "
	                            "\"checkpoint\": {\"keep_last\": 9}}";
	struct world *w = world_create(47);
	const struct ckpt *k;
	char text[200];
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, keeps);
	begin(w, id, 1);
	for (int64_t step = 600; step <= 1000; step += 100) {
		checkpoint_file(w, id, 1, step, "model");
		checkpoint_file(w, id, 1, step, "optim");
	}
	is_int(ask(w, id, 1000, 1030), 0, "a rollback");
	killed(w, id, 1);
	is_str(prepare_of(w, text, sizeof text), "optim-900 900 901-1030", "leaves step 1000 behind");
	begin(w, id, 2);
	ok(may_begin_with(w, id, 1000), "another job may begin with that step, with a warning");
	is_int(world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 1000}"), 200,
	       "its owner asks for that step");
	killed(w, id, 2);
	is_str(prepare_of(w, text, sizeof text), "optim-1000 1000 901-1030", "the next attempt begins with it");
	k = job_find(w->core, id)->r.ckpts->v;
	ok(!k[8].set_aside && !k[9].set_aside, "both of its files count again");
	is_int((int64_t)restored, 2, "and the node gets both");
	world_end_well(w);
}

/* A run that saves each 50 steps keeps three copies. What a third rollback needs is left, too. */
static void test_rollback_far(void)
{
	struct world *w = world_create(40);
	char text[200];
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	for (int64_t step = 50; step <= 1000; step += 50)
		checkpoint(w, id, 1, step);
	is_int(ask(w, id, 1001, 1010), 0, "a rollback");
	killed(w, id, 1);
	is_str(prepare_of(w, text, sizeof text), "step-900 900 901-1010", "100 steps before the onset");
	begin(w, id, 2);
	for (int64_t step = 950; step <= 1100; step += 50)
		checkpoint(w, id, 2, step);
	is_int(ask(w, id, 1101, 1110), 0, "a second rollback");
	killed(w, id, 2);
	is_str(prepare_of(w, text, sizeof text), "step-900 900 901-1110", "200 steps before the onset");
	begin(w, id, 3);
	for (int64_t step = 950; step <= 1200; step += 50)
		checkpoint(w, id, 3, step);
	is_int(ask(w, id, 1201, 1210), 0, "a third rollback");
	killed(w, id, 3);
	is_str(prepare_of(w, text, sizeof text), "step-750 750 751-1210",
	       "at least 400 steps before the onset, and not the beginning");
	world_end_well(w);
}

/* All that a job has is nearer than the margin: the farthest serves, again and again. */
static void test_rollback_near(void)
{
	struct world *w = world_create(41);
	char text[200];
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	checkpoint(w, id, 1, 60);
	checkpoint(w, id, 1, 80);
	is_int(ask(w, id, 95, 99), 0, "a rollback");
	killed(w, id, 1);
	is_str(prepare_of(w, text, sizeof text), "step-60 60 61-99", "takes the oldest one before the onset");
	begin(w, id, 2);
	checkpoint(w, id, 2, 120);
	is_int(ask(w, id, 130, 135), 0, "a second rollback");
	killed(w, id, 2);
	is_str(prepare_of(w, text, sizeof text), "step-60 60 61-135",
	       "never the beginning while a checkpoint is left");
	world_end_well(w);
}

/* After a requeue from an earlier step, progress counts from that step. */
static void test_requeue_progress(void)
{
	static const char many[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", "
	                           "\"checkpoint\": {\"keep_last\": 9}, \"retry\": {\"max_attempts\": 50}}";
	struct world *w = world_create(42);
	uint32_t attempt = 2;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, many);
	begin(w, id, 1);
	checkpoint(w, id, 1, 2000);
	checkpoint(w, id, 1, 10000);
	fail(w, id, 1, 3);
	begin(w, id, attempt);
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 2000}");
	killed(w, id, attempt++);
	for (int64_t step = 3000; step <= 8000; step += 1000, attempt++) {
		begin(w, id, attempt);
		checkpoint(w, id, attempt, step);
		fail(w, id, attempt, 3);
		is_str(world_status(w, id), "starting", "a new checkpoint: no back-off, and no end");
	}
	for (int i = 0; i < 3; i++) {
		begin(w, id, attempt);
		fail(w, id, attempt++, 3);
		pass(w, 21);
	}
	is_str(world_status(w, id), "failed", "restarts without a new one end the job");
	like(world_reason(w, id), "3 restarts brought no new checkpoint", "which the reason says");
	world_end_well(w);
}

static void test_rollback_to_start(void)
{
	struct world *w = world_create(36);
	char text[200];
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	checkpoint(w, id, 1, 50);
	is_int(ask(w, id, 40, 60), 0, "no checkpoint is from before the onset");
	killed(w, id, 1);
	is_str(attempt_text(w, id, 1, "plan", "text"),
	       "goes back to its beginning and leaves out steps 0-60 (rollback 1 of 3)",
	       "so the job begins again");
	is_str(prepare_of(w, text, sizeof text), " -1 0-60", "without a checkpoint");
	begin(w, id, 2);
	world_request(w, REQ_STOP, id, NULL, "{}");
	is_int(ask(w, id, 40, 60), -1, "the stop of a user comes first");
	killed(w, id, 2);
	is_str(world_status(w, id), "stopped", "and is carried out");
	world_end_well(w);
}

static void test_numeric_exit(void)
{
	static const char text[] = "FloatingPointError: loss is nan, stopping training";
	struct wm_failure_line m = {.attempt = 1,
	                            .epoch = 1,
	                            .cls = RC_NUMERIC,
	                            .verdict = VERDICT_ROLLBACK,
	                            .line = (char *)(uintptr_t)text,
	                            .reason = (char *)(uintptr_t) "the loss is not finite",
	                            .stream = (char *)(uintptr_t) "rank-0"};
	struct world *w = world_create(37);
	char begins[200];

	world_agent_up(w, "a", 1, 4);
	m.job = world_submit(w, ONE);
	begin(w, m.job, 1);
	checkpoint(w, m.job, 1, 100);
	checkpoint(w, m.job, 1, 190);
	checkpoint(w, m.job, 1, 200);
	world_msg(w, "a", 0, WM_FAILURE_LINE, &m);
	world_turn(w);
	fail(w, m.job, 1, 1);
	is_str(attempt_text(w, m.job, 1, "plan", "action"), "rollback", "a rank that gives up at a NaN");
	is_str(attempt_text(w, m.job, 1, "evidence", "line"), text, "the evidence has the line");
	is_str(prepare_of(w, begins, sizeof begins), "step-100 100 101-200",
	       "goes back 100 steps before the newest step that is known");
	world_end_well(w);
}

/* One sentence names the rank, its node, its line and why no restart follows; nothing is said twice. */
static void test_user_line(void)
{
	static const char text[] = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB";
	struct wm_failure_line m = {.attempt = 1,
	                            .epoch = 1,
	                            .cls = RC_OOM,
	                            .verdict = VERDICT_USER,
	                            .line = (char *)(uintptr_t)text,
	                            .reason = (char *)(uintptr_t) "GPU memory ran out",
	                            .stream = (char *)(uintptr_t) "rank-0"};
	struct world *w = world_create(39);

	world_agent_up(w, "a", 1, 4);
	m.job = world_submit(w, ONE);
	begin(w, m.job, 1);
	world_msg(w, "a", 0, WM_FAILURE_LINE, &m);
	world_turn(w);
	world_rank(w, "a", m.job, 1, 0, PS_EXITED, 1, 0, text);
	world_launch(w, "a", m.job, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", m.job, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, m.job), "failed", "an error of the user ends the job");
	is_str(world_reason(w, m.job),
	       "rank 0 on a: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB (GPU memory ran "
	       "out); not retried: user error",
	       "for one reason, in one sentence");
	world_end_well(w);
}

/* ---- what a failure cost ---------------------------------------------------------------------- */

static void step_point(struct world *w, uint64_t id, uint32_t attempt, int64_t step)
{
	double value = 1;
	uint64_t at_us = now_real(w->core);
	struct wm_metrics m = {.job = id, .attempt = attempt, .epoch = attempt, .seq = (uint64_t)step};

	wire_strv_add(&m.names, "loss");
	wire_u32v_add(&m.name_ix, 0);
	wire_u32v_add(&m.ranks, 0);
	m.steps.n = m.values.n = m.times.n = 1;
	m.steps.v = &step;
	m.values.v = &value;
	m.times.v = &at_us;
	core_agent_msg(w->core, "a", 0, WM_METRICS, 0, wire_copy(WM_METRICS, &m));
	world_turn(w);
	m.steps.v = NULL;
	m.values.v = NULL;
	m.times.v = NULL;
	m.steps.n = m.values.n = m.times.n = 0;
	wire_fini(WM_METRICS, &m);
}

/* A member of an attempt as JSON text. */
static char *member_of(struct world *w, uint64_t id, int index, const char *key)
{
	cJSON *list = store_attempts_json(w->reader, id, NULL);
	char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(cJSON_GetArrayItem(list, index), key));

	cJSON_Delete(list);
	return text ? text : strdup("none");
}

static void is_member(struct world *w, uint64_t id, int index, const char *key, const char *want,
                      const char *what)
{
	char *got = member_of(w, id, index, key);

	is_str(got, want, what);
	free(got);
}

/* The phases of the recovery after an attempt: "noticed stopped ..."; all of them in order of time. */
static void is_recovery(struct world *w, uint64_t id, int index, const char *want, const char *what)
{
	cJSON *list = store_attempts_json(w->reader, id, NULL), *p;
	char got[200] = "", last[64] = "";
	int in_order = 1;

	cJSON_ArrayForEach (p, cJSON_GetObjectItem(cJSON_GetArrayItem(list, index), "recovery")) {
		const char *from = cJSON_GetStringValue(cJSON_GetObjectItem(p, "started_at")),
		           *to = cJSON_GetStringValue(cJSON_GetObjectItem(p, "ended_at"));

		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", *got ? " " : "",
		         cJSON_GetStringValue(cJSON_GetObjectItem(p, "phase")));
		in_order &= from && strcmp(last, from) <= 0 && (!to || strcmp(from, to) <= 0);
		snprintf(last, sizeof last, "%s", from ? from : "");
	}
	is_str(got, want, what);
	ok(in_order, "phases follow one another");
	cJSON_Delete(list);
}

static void test_cost_of_failure(void)
{
	struct world *w = world_create(38);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	begin(w, id, 1);
	pass(w, 2);
	step_point(w, id, 1, 90);
	checkpoint(w, id, 1, 90);
	pass(w, 3);
	step_point(w, id, 1, 97);
	is_member(w, id, 0, "lost_steps", "null", "while an attempt runs, nothing is lost");
	is_recovery(w, id, 0, "", "and nothing recovers");
	fail(w, id, 1, 3);
	is_member(w, id, 0, "lost_steps", "7", "steps after the checkpoint are lost");
	is_recovery(w, id, 0, "noticed stopped collected placed prepared", "the next attempt prepares");
	pass(w, 1);
	begin(w, id, 2);
	pass(w, 1);
	is_recovery(w, id, 0, "noticed stopped collected placed prepared launched", "it runs");
	step_point(w, id, 2, 91);
	is_recovery(w, id, 0, "noticed stopped collected placed prepared launched first_step",
	            "its first new step ends the recovery");
	fail(w, id, 2, 3);
	is_member(w, id, 1, "lost_steps", "null", "a next attempt is not placed yet");
	pass(w, 11);
	is_member(w, id, 1, "lost_steps", "1", "then the loss is known");
	is_recovery(w, id, 1, "noticed stopped collected back_off placed prepared", "a back-off is a phase");
	is_member(w, id, 0, "set_aside", "[]", "nothing is set aside");
	begin(w, id, 3);
	is_int(ask(w, id, 95, 99), 0, "a rollback");
	killed(w, id, 3);
	is_member(w, id, 0, "set_aside", "[]", "its target is not set aside");
	begin(w, id, 4);
	checkpoint(w, id, 4, 200);
	is_int(ask(w, id, 90, 210), 0, "one with no checkpoint before its onset");
	killed(w, id, 4);
	is_member(w, id, 0, "set_aside", "[90]", "leaves the first attempt's checkpoint behind");
	is_member(w, id, 3, "set_aside", "[200]", "and that of the fourth one");
	is_member(w, id, 4, "skip_steps", "\"0-210\"", "the next attempt leaves steps out");
	begin(w, id, 5);
	world_rank(w, "a", id, 5, 0, PS_EXITED, 0, 0, "");
	world_launch(w, "a", id, 5, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 5, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "completed", "the job completes");
	is_recovery(w, id, 4, "", "after the last attempt nothing recovers");
	world_end_well(w);
}

int main(void)
{
	test_unknown();
	test_user();
	test_time_limit();
	test_node_lost();
	test_rollback();
	test_take_back();
	test_rollback_far();
	test_rollback_near();
	test_requeue_progress();
	test_rollback_to_start();
	test_numeric_exit();
	test_user_line();
	test_cost_of_failure();
	return tap_done();
}
