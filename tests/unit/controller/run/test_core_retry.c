/* A retry of an ended job: the checkpoint that it begins with, and what it refuses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include "tests/unit/controller/run/ckptkit.h"

static const char digest[] = DIGEST;

/* Asks for a retry, as api_jobs.c does: the specification begins with the job. Returns the new job; 0: it was
 * refused. */
static uint64_t retry(struct world *w, uint64_t id, int64_t step)
{
	struct request *rq = world_rq(w, REQ_RETRY, id);
	char from[40] = "";
	cJSON *v;

	if (step >= 0)
		snprintf(from, sizeof from, "@%lld", (long long)step);
	rq->text = xasprintf("{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                     "{\"instances\": 2, \"gpus_per_instance\": 1}, \"resume_from\": \"job:%llu%s\"}",
	                     (unsigned long long)id, from);
	rq->spec = spec_parse(rq->text, strlen(rq->text), NULL);
	core_request(w->core, rq);
	world_turn(w);
	v = cJSON_GetObjectItem(w->body, "id");
	return w->status == 201 && cJSON_IsNumber(v) ? (uint64_t)v->valuedouble : 0;
}

static void test_retry(void)
{
	uint64_t id, next;
	struct world *w = ck_make(9, &id);
	char *before, *after;

	ck_verified(w, id, "a", 1, 1, 10, "file:///s/a10");
	ck_verified(w, id, "b", 1, 1, 10, "file:///s/b10");
	ck_verified(w, id, "a", 1, 2, 20, "file:///s/a20");
	ck_verified(w, id, "b", 1, 2, 20, "file:///s/b20");
	is_int((int)retry(w, id, -1), 0, "a job that runs is not retried");
	like(w->err.text, "jobctl requeue 1", "the sentence has the command");
	world_request(w, REQ_STOP, id, NULL, "{}");
	ck_finish(w, id, 1);
	is_str(world_status(w, id), "stopped", "it has ended");
	before = ck_json(w, id);
	world_forget(w);
	next = retry(w, id, -1);
	ok(next > id, "a retry is a new job");
	is_int((int)cJSON_GetNumberValue(cJSON_GetObjectItem(w->body, "resume_from_step")), 20,
	       "the answer names the step");
	ck_begins(w, "a", "20 step-20 1.1 file:///s/a20", "it begins with the newest checkpoint");
	world_request(w, REQ_STOP, next, NULL, "{}");
	for (int i = 0; i < 2; i++)
		world_launch(w, i ? "b" : "a", next, 1, LAUNCH_CLEANED, 0, NULL);
	is_int((int)retry(w, id, 15), 0, "a step that the job has not");
	like(w->err.text, "there are 10, 20", "the sentence has the steps that exist");
	world_forget(w);
	next = retry(w, id, 10);
	ok(next != 0, "a step that it has");
	ck_begins(w, "b", "10 step-10 1.1 file:///s/b10", "it begins there");
	is_int((int)retry(w, next, -1), 0, "the new job runs");
	after = ck_json(w, id);
	is_str(after, before, "the old job has not changed");
	is_str(world_status(w, id), "stopped", "nor its end");
	free(before);
	free(after);
	world_end_well(w);
}

/* An ended job is retried from the line in which it ended; a damaged copy is passed over from then on. */
static void test_retry_line(void)
{
	uint64_t id, next;
	struct world *w = ck_make(11, &id);

	for (int64_t step = 10; step <= 30; step += 10) {
		ck_verified(w, id, "a", 1, (uint64_t)step, step, "file:///s/a");
		ck_verified(w, id, "b", 1, (uint64_t)step, step, "file:///s/b");
	}
	ck_requeue(w, id, 1, "{\"from_step\": 20}");
	ck_start(w, id, 2);
	world_request(w, REQ_STOP, id, NULL, "{}");
	ck_finish(w, id, 2);
	is_str(world_status(w, id), "stopped", "a job ends that went back to step 20");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_forget(w);
	next = retry(w, id, -1);
	ck_begins(w, "a", "20 step-20 1.1 file:///s/a",
	          "its retry begins there, also after a restart of hearthd");
	world_forget(w);
	world_msg(w, "b", 0, WM_LAUNCH_REPORT,
	          &(struct wm_launch_report){.job = next,
	                                     .attempt = 1,
	                                     .epoch = 1,
	                                     .state = LAUNCH_FAILED,
	                                     .cls = RC_STAGING,
	                                     .phase = (char *)(uintptr_t)LAUNCH_PHASE_RESTORE,
	                                     .text = (char *)(uintptr_t) "the copy differs"});
	world_turn(w);
	for (int i = 0; i < 2; i++)
		world_launch(w, i ? "b" : "a", next, 1, LAUNCH_CLEANED, 0, NULL);
	ck_begins(w, "b", "10 step-10 1.1 file:///s/b", "an older one follows when it cannot be restored");
	world_end_well(w);
}

/* The beginning that was chosen before a stop is the line of a retry, also when no attempt has begun there.
 */
static void test_stopped_line(void)
{
	uint64_t id;
	struct world *w = ck_make(13, &id);

	for (int64_t step = 10; step <= 30; step += 10) {
		ck_verified(w, id, "a", 1, (uint64_t)step, step, "file:///s/a");
		ck_verified(w, id, "b", 1, (uint64_t)step, step, "file:///s/b");
	}
	world_request(w, REQ_DRAIN, 0, "b", "{}");
	ck_requeue(w, id, 1, "{\"from_step\": 20}");
	is_str(world_status(w, id), "queued", "a job waits that is to go back to step 20");
	world_request(w, REQ_STOP, id, NULL, "{}");
	is_str(world_status(w, id), "stopped", "its owner stops it");
	world_request(w, REQ_RESUME, 0, "b", "{}");
	world_forget(w);
	ok(retry(w, id, -1) > id, "a retry");
	ck_begins(w, "a", "20 step-20 1.1 file:///s/a", "begins there, not with what was given up");
	world_end_well(w);

	w = ck_make(14, &id);
	ck_verified(w, id, "a", 1, 1, 10, "file:///s/a");
	ck_verified(w, id, "b", 1, 1, 10, "file:///s/b");
	world_request(w, REQ_DRAIN, 0, "b", "{}");
	ck_requeue(w, id, 1, "{\"from_start\": true}");
	world_request(w, REQ_STOP, id, NULL, "{}");
	world_request(w, REQ_RESUME, 0, "b", "{}");
	is_int((int)retry(w, id, -1), 0,
	       "a job that was to begin from the start has no checkpoint to go on with");
	like(w->err.text, "it was to begin from the start; job:1@STEP", "the sentence says so, and the way out");
	ok(retry(w, id, 10) > id, "a step of it can be named");
	world_end_well(w);
}

/* A node's folder, as the attempt's end uploads it. */
static void leave_folder(struct world *w, const char *node, uint64_t id)
{
	char kind[] = "checkpoint", empty[] = "", hex[sizeof digest];
	struct wm_artifact_report m = {.job = id,
	                               .attempt = 1,
	                               .epoch = 1,
	                               .kind = kind,
	                               .digest = hex,
	                               .uri = empty,
	                               .files = 1,
	                               .text = empty};

	memcpy(hex, digest, sizeof hex);
	world_msg(w, node, 0, WM_ARTIFACT_REPORT, &m);
	world_turn(w);
}

/* A job without a checkpoint of its own, whose folder holds what it began with, passes that on. */
static void test_passed_on(void)
{
	const struct attempt_rec *a;
	uint64_t first, next;
	struct world *w = ck_make(15, &first);

	ck_verified(w, first, "a", 1, 1, 10, "file:///s/a10");
	ck_verified(w, first, "b", 1, 1, 10, "file:///s/b10");
	world_request(w, REQ_STOP, first, NULL, "{}");
	ck_finish(w, first, 1);
	next = retry(w, first, -1);
	for (int i = 0; i < 2; i++) {
		ck_start(w, next, 1);
		world_request(w, REQ_STOP, next, NULL, "{}");
		leave_folder(w, "a", next);
		leave_folder(w, "b", next);
		ck_finish(w, next, 1);
		is_str(world_status(w, next), "stopped", "a retry ends without a checkpoint of its own");
		world_forget(w);
		next = retry(w, next, -1);
		ok(next != 0, "it is retried");
		is_int((int)cJSON_GetNumberValue(cJSON_GetObjectItem(w->body, "resume_from_step")), 10,
		       "the answer names the step");
		is_int((int)cJSON_GetNumberValue(cJSON_GetObjectItem(w->body, "resume_from_job")), (int)first,
		       "and the job that left it");
		ck_begins(w, "a", "10 step-10 1.1 file:///s/a10", "it begins there");
		a = job_find(w->core, next)->r.att;
		is_str(a->resumed_from, "job:1", "which is on record");
		is_int(a->resumed_from_step, 10, "with its step");
	}
	ck_start(w, next, 1);
	world_request(w, REQ_REQUEUE, next, NULL, NULL);
	leave_folder(w, "a", next);
	leave_folder(w, "b", next);
	world_forget(w);
	ck_finish(w, next, 1);
	ck_begins(w, "a", "10 step-10 1.1 file:///s/a10", "so does its second attempt");
	world_end_well(w);
}

/* The first warning of the answer; "" none. */
static const char *warning(struct world *w)
{
	const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "warnings"), 0));

	return text ? text : "";
}

/* A checkpoint from behind a fault is not refused, but named as such. */
static void test_doubtful(void)
{
	uint64_t id;
	struct world *w = ck_make(16, &id);

	for (int64_t step = 10; step <= 30; step += 10) {
		ck_loss(w, id, step, step < 20 ? 1.5 : (double)NAN);
		ck_verified(w, id, "a", 1, (uint64_t)step, step, "file:///s/a");
		ck_verified(w, id, "b", 1, (uint64_t)step, step, "file:///s/b");
	}
	world_request(w, REQ_STOP, id, NULL, "{}");
	ck_finish(w, id, 1);
	ok(retry(w, id, 10) != 0, "a retry from a sound step");
	is_str(warning(w), "", "has no warning");
	ok(retry(w, id, -1) != 0, "a retry from the newest one, whose loss is NaN");
	is_str(warning(w),
	       "job 1: the loss at step 30 is not finite; the newest sound one before it is step 10 (--from 10)",
	       "says so, and names the step before it");
	world_end_well(w);
}

/* A requeue from such a step is warned of like a retry, whether the job runs or waits. */
static void test_doubtful_requeue(void)
{
	uint64_t id;
	struct world *w = ck_make(17, &id);

	for (int64_t step = 10; step <= 30; step += 10) {
		ck_loss(w, id, step, step < 20 ? 1.5 : (double)NAN);
		ck_verified(w, id, "a", 1, (uint64_t)step, step, "file:///s/a");
		ck_verified(w, id, "b", 1, (uint64_t)step, step, "file:///s/b");
	}
	is_int(world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 30}"), 200, "a requeue from a step");
	is_str(warning(w),
	       "job 1: the loss at step 30 is not finite; the newest sound one before it is step 10 (--from 10)",
	       "whose loss is NaN has the warning");
	is_int(world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 10}"), 200, "one from a sound step");
	is_str(warning(w), "", "has none");
	world_end_well(w);
}

static void test_retry_refused(void)
{
	uint64_t id;
	struct world *w = ck_make(10, &id);

	ck_finish(w, id, 1);
	is_int((int)retry(w, id, -1), 0, "a job that has completed");
	like(w->err.text, "jobctl retry 1 --from STEP", "the sentence has what can be asked");
	is_int((int)retry(w, id, 10), 0, "a job without checkpoints");
	like(w->err.text, "jobctl clone 1 begins without it", "the sentence has the way out");
	is_int((int)retry(w, 99, -1), 0, "an unknown job");
	is_int(w->status, 404, "is reported as such");
	world_end_well(w);
}

/* A step that a user asked for, and that the nodes of the next attempt cannot get, holds the job. */
static void test_asked(void)
{
	uint64_t id;
	struct world *w = ck_make(17, &id);

	ck_verified(w, id, "a", 1, 1, 5, "file:///s/5");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 2, .step = 10, .state = CKPT_COPYING});
	ck_requeue(w, id, 1, "{\"from_step\": 10}");
	is_str(world_status(w, id), "held", "b cannot get the step that was asked for");
	is_str(world_reason(w, id),
	       "the checkpoint of step 10 cannot be used: only node a has its copy; jobctl requeue 1 --from STEP "
	       "takes another",
	       "which the reason says");
	is_int(world_count(w, "a", WM_PREPARE), 0, "nothing begins");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	is_str(world_status(w, id), "held", "also for a new hearthd");
	world_forget(w);
	world_request(w, REQ_RELEASE, id, NULL, "{}");
	ck_begins(w, "a", "5 step-5 1.1 file:///s/5", "a release goes on like a plain requeue");
	world_end_well(w);
}

/* The same while the job waits after a failure, and keeps its nodes. */
static void test_asked_between(void)
{
	static const char *const nodes[] = {"a", "b"};
	uint64_t id;
	struct world *w = ck_make(18, &id);

	ck_verified(w, id, "a", 1, 1, 5, "file:///s/5");
	ck_report(w, id, "a", &(struct ck_part){.attempt = 1, .seq = 2, .step = 10, .state = CKPT_COPYING});
	for (uint32_t attempt = 1; attempt <= 2; attempt++) {
		for (uint32_t i = 0; i < 2; i++)
			world_rank(w, nodes[i], id, attempt, i, PS_EXITED, i ? 0 : 3, i ? 9 : 0, "it broke\n");
		for (uint32_t i = 0; i < 2; i++)
			world_launch(w, nodes[i], id, attempt, LAUNCH_ENDED, 0, NULL);
		for (uint32_t i = 0; i < 2; i++)
			world_launch(w, nodes[i], id, attempt, LAUNCH_CLEANED, 0, NULL);
		if (attempt == 1)
			ck_start(w, id, 2);
	}
	is_str(world_status(w, id), "recovering", "the second failure has a back-off");
	world_request(w, REQ_REQUEUE, id, NULL, "{\"from_step\": 10}");
	is_str(world_status(w, id), "held", "a step that b cannot get is asked for: the job is held");
	like(world_reason(w, id), "only node a has its copy", "for the reason");
	for (int i = 0; i < 60; i++) {
		world_beat(w, "a");
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "held", "and stays held when the back-off would be over");
	world_request(w, REQ_RELEASE, id, NULL, "{}");
	is_str(world_status(w, id), "starting", "until it is released");
	world_end_well(w);
}

int main(void)
{
	test_asked();
	test_asked_between();
	test_retry();
	test_retry_line();
	test_stopped_line();
	test_passed_on();
	test_doubtful();
	test_doubtful_requeue();
	test_retry_refused();
	return tap_done();
}
