/*
 * The plan that follows the end of an attempt: every class against the table of docs/spec/01-states.md, each
 * budget up to its end, back-off, progress, time limit, rollback.
 */
#include "controller/record/plan.h"
#include "tests/lib/tap.h"
#include <string.h>

#define DAY 86400000000ull

static struct plan_in usual(const char *cls)
{
	struct plan_in in = {.cls = (enum reason_class)state_find(STATE_CLASS, cls),
	                     .ran = 1,
	                     .newest = -1,
	                     .target = -1,
	                     .now_us = 100 * DAY,
	                     .left_s = UINT64_MAX,
	                     .max_rollbacks = 3,
	                     .keys = {.max_attempts = 3, .capacity = 30, .wait_s = 60, .no_progress = 3}};

	return in;
}

static const char *action_of(const struct plan_in *in)
{
	static struct retry_plan p;

	plan_make(in, &p);
	return plan_action_name(p.action);
}

/* The first reaction to each class, and to the class when the job's own limit was full. */
static const struct {
	const char *cls, *first, *second, *own, *budget;
} table[] = {
    {"", "stop", "stop", "stop", ""},
    {"unknown", "in_place", "elsewhere", "in_place", "max_attempts"},
    {"signal", "in_place", "elsewhere", "in_place", "max_attempts"},
    {"hang", "in_place", "elsewhere", "in_place", "max_attempts"},
    {"user_error", "stop", "stop", "stop", ""},
    {"timeout", "stop", "stop", "stop", ""},
    {"cost", "stop", "stop", "stop", ""},
    {"stopped", "stop", "stop", "stop", ""},
    {"oom", "elsewhere", "elsewhere", "stop", "capacity"},
    {"disk", "elsewhere", "elsewhere", "stop", "capacity"},
    {"node_lost", "elsewhere", "elsewhere", "elsewhere", "capacity"},
    {"staging", "elsewhere", "elsewhere", "stop", "capacity"},
    {"launch", "elsewhere", "elsewhere", "elsewhere", "capacity"},
    {"agent", "elsewhere", "elsewhere", "elsewhere", "capacity"},
    {"gpu", "elsewhere", "elsewhere", "elsewhere", "capacity"},
    {"network", "elsewhere", "elsewhere", "elsewhere", "capacity"},
    {"storage", "elsewhere", "elsewhere", "elsewhere", "capacity"},
    {"numeric", "rollback", "rollback", "rollback", "max_rollbacks"},
    {"preempted", "elsewhere", "elsewhere", "elsewhere", ""},
    {"reclaimed", "elsewhere", "elsewhere", "elsewhere", ""},
};

static void test_table(void)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct plan_in in = usual(table[i].cls);
		struct retry_plan p;

		if (state_find(STATE_CLASS, table[i].cls) < 0)
			continue;
		in.target = 100;
		plan_make(&in, &p);
		ok(strcmp(plan_action_name(p.action), table[i].first) == 0, "class \"%s\": the first reaction is %s",
		   table[i].cls, plan_action_name(p.action));
		is_str(plan_budget_name(p.budget), table[i].budget, "the budget that it is counted in");
		ok(plan_goes_on(p.action) == (strcmp(table[i].first, "stop") != 0), "which says whether it goes on");
		in.used.attempts = 1;
		ok(strcmp(action_of(&in), table[i].second) == 0, "class \"%s\": the next one is %s", table[i].cls,
		   action_of(&in));
		in.used.attempts = 0;
		in.own_limit = 1;
		ok(strcmp(action_of(&in), table[i].own) == 0, "class \"%s\": a full limit of the job gives %s",
		   table[i].cls, action_of(&in));
	}
	for (int i = 0; strcmp(state_name(STATE_CLASS, i), "?") != 0; i++) {
		size_t k = 0;

		while (k < sizeof table / sizeof *table && strcmp(table[k].cls, state_name(STATE_CLASS, i)) != 0)
			k++;
		ok(k < sizeof table / sizeof *table, "class \"%s\" has a reaction", state_name(STATE_CLASS, i));
	}
}

/* Restarts by plan until it stops; newest grows by `gain` at each. Returns the number of restarts. */
static unsigned restarts(struct plan_in *in, int64_t gain, unsigned most, struct retry_plan *last)
{
	for (unsigned n = 0; n < most; n++) {
		plan_make(in, last);
		if (!plan_goes_on(last->action))
			return n;
		plan_count(&in->used, last->budget, in->ran, last->budget == PLAN_ROLLBACKS ? in->target : in->newest,
		           in->now_us);
		in->newest += gain;
	}
	return most;
}

static void test_attempts(void)
{
	struct plan_in in = usual("unknown");
	struct retry_plan p;

	is_int(restarts(&in, 0, 99, &p), 3, "an unknown end is repeated max_attempts times");
	like(p.text, "retry.max_attempts (3)", "and the plan names the key");
	in = usual("signal");
	in.keys.max_attempts = 0;
	is_int(restarts(&in, 0, 99, &p), 0, "max_attempts 0: never");
	is_str(p.text, "", "which needs no explanation");
	in = usual("unknown");
	in.newest = 5;
	in.keys.max_attempts = 100;
	is_int(restarts(&in, 0, 99, &p), 3, "restarts that bring no new checkpoint end");
	like(p.text, "retry.no_progress", "by the key no_progress");
	in = usual("unknown");
	in.newest = 5;
	in.keys.max_attempts = 50;
	is_int(restarts(&in, 10, 99, &p), 50, "new checkpoints let it go on");
	in = usual("unknown");
	in.newest = 5;
	in.keys = (struct spec_retry){.max_attempts = 50, .wait_s = 60};
	is_int(restarts(&in, 0, 99, &p), 50, "no_progress 0: only the budget counts");
	in = usual("unknown");
	in.keys.max_attempts = 50;
	is_int(restarts(&in, 0, 99, &p), 50, "a job that never left a checkpoint: only the budget counts");
}

static void test_capacity(void)
{
	struct plan_in in = usual("node_lost");
	struct retry_plan p;

	is_int(restarts(&in, 0, 99, &p), 30, "node faults: 30 restarts in a day");
	like(p.text, "retry.capacity (30 a day)", "and the plan names the key");
	in.now_us += DAY - 1;
	is_int(restarts(&in, 0, 99, &p), 0, "none before the day is over");
	in.now_us += 1;
	is_int(restarts(&in, 0, 99, &p), 30, "30 on the next day");
	in = usual("agent");
	in.ran = 0;
	is_int(restarts(&in, 0, 99, &p), 3, "attempts that cannot start end after no_progress in a row");
	like(p.text, "could not start", "and the plan says so");
	in = usual("agent");
	in.ran = 0;
	restarts(&in, 0, 2, &p);
	in.ran = 1;
	restarts(&in, 0, 1, &p);
	in.ran = 0;
	is_int(restarts(&in, 0, 99, &p), 3, "one that ran makes the count begin again");
	in = usual("node_lost");
	restarts(&in, 0, 7, &p);
	in.cls = RC_UNKNOWN;
	is_int(restarts(&in, 0, 99, &p), 3, "the budgets are apart");
}

/* A program can print any line. Only hearthd itself knows that it preempted the job. */
static void test_claims(void)
{
	static const enum reason_class claimed[] = {RC_PREEMPTED, RC_RECLAIMED};
	struct retry_plan p;

	for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++) {
		struct plan_in in = usual(state_name(STATE_CLASS, (int)claimed[i]));

		in.verdict = VERDICT_REQUEUE;
		plan_make(&in, &p);
		is_str(plan_action_name(p.action), "elsewhere", "a line that claims a preemption: elsewhere");
		is_int(restarts(&in, 0, 99, &p), 30, "at most retry.capacity times a day");
		in = usual(state_name(STATE_CLASS, (int)claimed[i]));
		in.verdict = VERDICT_REQUEUE;
		in.newest = 5;
		is_int(restarts(&in, 0, 99, &p), 3, "and at most retry.no_progress times without progress");
		like(p.text, "retry.no_progress", "which the plan names");
		in.used.stuck = 2;
		plan_make(&in, &p);
		is_int(p.wait_s, 20, "with a back-off");
	}
	struct plan_in in = usual("timeout");
	in.verdict = VERDICT_REQUEUE;
	is_str(action_of(&in), "stop", "a line about a time limit: none, like the limit itself");
}

static void test_backoff(void)
{
	static const unsigned want[] = {0, 10, 20, 40, 80, 160, 320, 600, 600};
	struct plan_in in = usual("node_lost");
	struct retry_plan p;

	in.keys.wait_s = 3600;
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		restarts(&in, 0, 1, &p);
		ok(p.wait_s == want[i] && p.action == PLAN_ELSEWHERE, "restart %zu: the back-off is %u s", i + 1,
		   p.wait_s);
	}
	in.newest = 7;
	restarts(&in, 0, 1, &p);
	is_int(p.wait_s, 0, "a new checkpoint: no back-off");
	is_str(p.text, "goes on elsewhere from step 7", "the sentence names the step");
	restarts(&in, 0, 1, &p);
	is_str(p.text, "goes on elsewhere from step 7 after 10s", "and the back-off");
	in.anywhere = 1;
	plan_make(&in, &p);
	like(p.text, "goes on wherever nodes are free from step 7", "no node is to blame: it may be the same");
	in.anywhere = 0;
	in.torn = 1;
	restarts(&in, 0, 1, &p);
	is_int(p.wait_s, 0, "a damaged checkpoint: no back-off");
	in = usual("node_lost");
	restarts(&in, 0, 4, &p);
	is_str(plan_action_name(p.action), "elsewhere", "40 s are shorter than retry.wait_s");
	restarts(&in, 0, 1, &p);
	is_str(plan_action_name(p.action), "queue", "80 s are longer: the nodes are given back");
}

/* What a watch or a rule asks for is above the class. */
static void test_wish(void)
{
	struct plan_in in = usual("numeric");
	struct retry_plan p;

	in.newest = 300;
	in.target = 100;
	in.skip = "101-420";
	in.wish = PLAN_ROLLBACK;
	in.cls = RC_USER_ERROR;
	plan_make(&in, &p);
	is_str(p.text, "goes back to step 100 and leaves out steps 101-420 (rollback 1 of 3)", "a rollback");
	in.max_rollbacks = 0;
	plan_make(&in, &p);
	is_str(p.text, "not retried: watch.max_rollbacks (0) is used up", "no rollback is allowed");
	in.wish = PLAN_STOP;
	plan_make(&in, &p);
	is_str(p.text, "not retried: the watch or a rule of the job says stop", "a stop");
	in.because = "watch.on_nan is stop";
	plan_make(&in, &p);
	is_str(p.text, "not retried: watch.on_nan is stop", "a stop whose origin is known");
	in.wish = PLAN_IN_PLACE;
	plan_make(&in, &p);
	is_str(p.text, "goes on in place from step 300", "a restart");
}

static void test_rest(void)
{
	struct plan_in in = usual("unknown");
	struct retry_plan p;

	in.left_s = 0;
	plan_make(&in, &p);
	is_str(plan_action_name(p.action), "stop", "no time is left");
	like(p.text, "limits.max_runtime_s", "the plan names the limit");
	in = usual("oom");
	in.own_limit = 1;
	plan_make(&in, &p);
	is_str(p.text, "not retried: the job's own memory limit is full", "a limit of its own");
	in = usual("oom");
	in.verdict = VERDICT_USER;
	plan_make(&in, &p);
	is_str(p.text, "not retried: user error", "a line that says so");
	in = usual("unknown");
	in.verdict = VERDICT_DRAIN;
	is_str(action_of(&in), "elsewhere", "a line of broken hardware");
	in = usual("user_error");
	plan_make(&in, &p);
	is_str(p.text, "not retried: user error", "an error of the user");
	in = usual("numeric");
	if (state_find(STATE_CLASS, "numeric") >= 0) {
		plan_make(&in, &p);
		is_str(plan_action_name(p.action), "stop", "a rollback needs a checkpoint or steps to leave out");
		in.skip = "0-40";
		plan_make(&in, &p);
		is_str(p.text, "goes back to its beginning and leaves out steps 0-40 (rollback 1 of 3)",
		       "without a checkpoint a rollback goes to the beginning");
		in.skip = NULL;
		in.newest = 300;
		in.target = 100;
		is_int(restarts(&in, 50, 99, &p), 3, "rollbacks end after max_rollbacks");
		in = usual("numeric");
		in.newest = 300;
		in.target = 100;
		plan_make(&in, &p);
		is_str(p.text, "goes back to step 100 (rollback 1 of 3)", "the sentence");
		plan_count(&in.used, p.budget, 1, p.step, in.now_us);
		is_int(in.used.mark, 101, "checkpoints behind the target count as new again");
	}
	test_wish();
	for (int i = 0; i < N_PLAN_ACTION; i++)
		is_int(plan_action_find(plan_action_name((enum plan_action)i)), i, "an action by its name");
	for (int i = 0; i < N_PLAN_BUDGET; i++)
		is_int(plan_budget_find(plan_budget_name((enum plan_budget)i)), i, "a budget by its name");
	is_int(plan_action_find("odd"), PLAN_NONE, "no other action");
	is_int(plan_budget_find(NULL), PLAN_FREE, "no other budget");
}

int main(void)
{
	test_table();
	test_attempts();
	test_capacity();
	test_claims();
	test_backoff();
	test_rest();
	return tap_done();
}
