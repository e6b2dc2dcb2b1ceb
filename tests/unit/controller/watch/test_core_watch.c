/* Live watches: points of running jobs become alarms as events, once each, also after a restart of hearthd;
 * the checkpoint before the onset is pinned; the state goes with the job. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define JOB(keys)                                                                                            \
	"{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "               \
	"{\"gpus_per_instance\": 1}" keys "}"

struct lab {
	struct world *w;
	uint64_t job, seq;
	uint32_t attempt;
};

static void points(struct lab *l, int64_t step, double value, uint64_t seq)
{
	struct wm_metrics m = {.job = l->job, .attempt = l->attempt, .epoch = l->attempt, .seq = seq};
	uint64_t at = 1800000000000000u + (uint64_t)step * 1000000;

	wire_strv_add(&m.names, "loss");
	wire_u32v_add(&m.name_ix, 0);
	wire_u32v_add(&m.ranks, 0);
	m.steps.n = m.values.n = m.times.n = 1;
	m.steps.v = &step;
	m.values.v = &value;
	m.times.v = &at;
	core_agent_msg(l->w->core, "a", 0, WM_METRICS, 0, wire_copy(WM_METRICS, &m));
	world_turn(l->w);
	m.steps.v = NULL;
	m.values.v = NULL;
	m.times.v = NULL;
	wire_fini(WM_METRICS, &m);
}

static double noise(int64_t i)
{
	uint64_t s = (uint64_t)i * 6364136223846793005u + 1442695040888963407u;

	s ^= s >> 29;
	s *= 0xbf58476d1ce4e5b9u;
	return (double)(s >> 11) / 9007199254740992.0 - 0.5;
}

static void train(struct lab *l, int64_t from, int64_t to, double more)
{
	for (int64_t step = from; step <= to; step++)
		points(l, step, 3 + 0.02 * noise(step) + more, ++l->seq);
}

static void checkpoint(struct lab *l, int64_t step)
{
	char name[40], digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	char format[] = "plain", by[] = "name", uri[] = "blob:", empty[] = "";
	struct wm_checkpoint_report m = {.job = l->job,
	                                 .attempt = l->attempt,
	                                 .epoch = l->attempt,
	                                 .seq = (uint64_t)step,
	                                 .step = step,
	                                 .name = name,
	                                 .format = format,
	                                 .step_by = by,
	                                 .state = CKPT_VERIFIED,
	                                 .shards = 1,
	                                 .files = 1,
	                                 .digest = digest,
	                                 .uri = uri,
	                                 .at_us = 1800000000000000u,
	                                 .text = empty};

	snprintf(name, sizeof name, "step-%" PRId64, step);
	world_msg(l->w, "a", 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(l->w);
}

static void begin(struct lab *l, uint64_t seed, const char *spec)
{
	*l = (struct lab){.w = world_create(seed), .attempt = 1};
	world_agent_up(l->w, "a", 1, 4);
	l->job = world_submit(l->w, spec);
	world_begin(l->w, l->job);
}

static cJSON *events(struct lab *l, const char *type)
{
	struct err e;
	cJSON *all = store_events_json(l->w->reader, l->job, 0, 5000, &e), *found = cJSON_CreateArray();
	const cJSON *one;

	cJSON_ArrayForEach (one, cJSON_GetObjectItem(all, "events"))
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(one, "type")), type) == 0)
			cJSON_AddItemToArray(found, cJSON_Duplicate(cJSON_GetObjectItem(one, "data"), 1));
	cJSON_Delete(all);
	return found;
}

static int count_events(struct lab *l, const char *type)
{
	cJSON *found = events(l, type);
	int n = cJSON_GetArraySize(found);

	cJSON_Delete(found);
	return n;
}

static void is_alert(struct lab *l, int index, const char *kind, int64_t onset, const char *what)
{
	cJSON *found = events(l, "alert");
	const cJSON *d = cJSON_GetArrayItem(found, index);

	is_str(json_str_or(d, "kind", ""), kind, what);
	is_int((int64_t)json_whole(d, "onset", 0), onset, "and the onset");
	cJSON_Delete(found);
}

static void beats(struct lab *l, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		world_advance(l->w, 1000000);
		world_beat(l->w, "a");
	}
}

/* hearthd dies and another one comes; the agent reports that the job runs on. */
static void restart(struct lab *l)
{
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end end = {.instance = 1};
	uint64_t session;

	world_restart(l->w);
	session = world_agent_connect(l->w, "a");
	world_agent_inventory(l->w, "a", session, 1, 4);
	world_msg(l->w, "a", session, WM_SYNC_BEGIN, &b);
	world_launch(l->w, "a", l->job, l->attempt, LAUNCH_RUNNING, 0, NULL);
	world_rank(l->w, "a", l->job, l->attempt, 0, PS_RUNNING, 0, 0, NULL);
	world_msg(l->w, "a", session, WM_SYNC_END, &end);
	world_turn(l->w);
}

/* The spike's alarm, its pin, and what a restart changes: nothing. */
static void test_spike(int restarts)
{
	struct lab l;
	cJSON *found;

	begin(&l, 1, JOB(""));
	train(&l, 1, 150, 0);
	checkpoint(&l, 100);
	checkpoint(&l, 150);
	train(&l, 151, 300, 0);
	checkpoint(&l, 300);
	for (int64_t step = 301; step <= 330; step++) {
		if (restarts && step % 3 == 0) {
			if (restarts == 1)
				beats(&l, 11); /* the state is written; else the points are judged again */
			restart(&l);
		}
		train(&l, step, step, 1.5);
	}
	is_int(count_events(&l, "alert"), 1,
	       restarts ? "a spike has one event, with restarts of hearthd" : "a spike has one event");
	is_alert(&l, 0, "spike", 301, "it names the kind");
	found = events(&l, "checkpoint_changed");
	is_int(cJSON_GetArraySize(found), 1, "one checkpoint is pinned");
	is_int((int64_t)json_whole(cJSON_GetArrayItem(found, 0), "step", 0), 150,
	       "the newest one that is 100 steps before the onset");
	cJSON_Delete(found);
	train(&l, 331, 400, 0);
	is_int(count_events(&l, "alert"), 1, "the loss heals without another event");
	is_str(world_status(l.w, l.job), "running", "and the job runs on");
	world_end_well(l.w);
}

static void test_repeated(void)
{
	struct lab l;

	begin(&l, 2, JOB(""));
	train(&l, 1, 200, 0);
	points(&l, 201, (double)NAN, ++l.seq);
	points(&l, 201, (double)NAN, l.seq);
	is_int(count_events(&l, "alert"), 1, "a batch that comes twice has one event");
	is_alert(&l, 0, "nan", 201, "of a loss that is not finite");
	restart(&l);
	points(&l, 201, (double)NAN, l.seq);
	points(&l, 202, (double)NAN, ++l.seq);
	is_int(count_events(&l, "alert"), 1, "also when it comes once more after a restart");
	world_end_well(l.w);
}

static cJSON *show(struct lab *l)
{
	struct err e;

	return store_job_json(l->w->reader, l->job, &e);
}

static void test_shown(void)
{
	struct lab l;
	cJSON *o;

	begin(&l, 3, JOB(""));
	train(&l, 1, 200, 0);
	o = show(&l);
	is_int((int64_t)json_whole(o, "alerts", 9), 0, "a calm job has no alerts");
	ok(cJSON_IsNull(cJSON_GetObjectItem(o, "alert")), "and none is the newest");
	cJSON_Delete(o);
	points(&l, 201, (double)INFINITY, ++l.seq);
	o = show(&l);
	is_int((int64_t)json_whole(o, "alerts", 9), 1, "an alarm is counted");
	is_str(json_str_or(cJSON_GetObjectItem(o, "alert"), "kind", ""), "nan", "and shown");
	ok(strstr(json_str_or(cJSON_GetObjectItem(o, "alert"), "text", ""), "not finite since step 201") != NULL,
	   "in words");
	cJSON_Delete(o);
	world_end_well(l.w);
}

static void test_hang(void)
{
	struct lab l;

	begin(&l, 4, JOB(", \"watch\": {\"hang_s\": 5, \"stall_times\": 10}"));
	for (int64_t step = 1; step <= 100; step++) {
		train(&l, step, step, 0);
		beats(&l, 1);
	}
	is_int(count_events(&l, "alert"), 0, "steady steps have no alarm");
	beats(&l, 30);
	is_int(count_events(&l, "alert"), 1, "steps that stop have one");
	is_alert(&l, 0, "hang", 100, "it is a hang");
	world_end_well(l.w);
}

/* Steps of the attempt before say nothing of the present one, which may load for long before its first step.
 * restarts: hearthd, too, while it loads. */
static void test_hang_next(int restarts)
{
	struct lab l;

	begin(&l, 10, JOB(", \"watch\": {\"hang_s\": 5, \"stall_times\": 10, \"on_hang\": \"stop\"}"));
	for (int64_t step = 1; step <= 100; step++) {
		train(&l, step, step, 0);
		beats(&l, 1);
	}
	world_end_with(l.w, l.job, 3);
	beats(&l, 40);
	l.attempt = 2;
	world_launch(l.w, "a", l.job, 2, LAUNCH_READY, 0, NULL);
	world_rank(l.w, "a", l.job, 2, 0, PS_RUNNING, 0, 0, NULL);
	beats(&l, 40);
	if (restarts)
		restart(&l);
	beats(&l, 40);
	is_int(count_events(&l, "alert"), 0,
	       restarts ? "the next attempt loads without an alarm, over a restart of hearthd"
	                : "the next attempt loads without an alarm");
	is_str(world_status(l.w, l.job), "running", "and runs on");
	for (int64_t step = 1; step <= 100; step++) {
		train(&l, step, step, 0);
		beats(&l, 1);
	}
	beats(&l, 30);
	is_int(count_events(&l, "alert"), 1, "its own steps count");
	is_alert(&l, 0, "hang", 100, "it is a hang");
	world_end_well(l.w);
}

static const char *ending_of(struct lab *l, char out[200])
{
	cJSON *found = events(l, "ending");

	snprintf(out, 200, "%s", json_str_or(cJSON_GetArrayItem(found, 0), "reason", "none"));
	cJSON_Delete(found);
	return out;
}

static void test_rollback(void)
{
	char reason[200];
	struct lab l;

	begin(&l, 6, JOB(", \"watch\": {\"on_nan\": \"rollback\"}"));
	train(&l, 1, 100, 0);
	checkpoint(&l, 100);
	train(&l, 101, 200, 0);
	points(&l, 201, (double)NAN, ++l.seq);
	is_int(count_events(&l, "alert"), 1, "NaN has its alarm");
	is_str(ending_of(&l, reason), "the loss is not finite since step 201; rollback 1 of 3",
	       "and ends the attempt in the same turn");
	points(&l, 202, (double)NAN, ++l.seq);
	points(&l, 400, (double)NAN, ++l.seq);
	is_int(count_events(&l, "ending"), 1, "points that come late end nothing");
	is_int(count_events(&l, "alert"), 1, "and are no new alarm");
	world_end_well(l.w);
}

/* A spike that does not heal is acted on although hearthd died between the alarm and the action. */
static void test_patience(void)
{
	char reason[200];
	struct lab l;
	int64_t step = 300;

	begin(&l, 7, JOB(", \"watch\": {\"on_spike\": \"stop\"}"));
	train(&l, 1, 300, 0);
	while (count_events(&l, "alert") == 0 && step < 320)
		step++, train(&l, step, step, 1.5);
	restart(&l);
	is_int(count_events(&l, "ending"), 0, "an alarm ends nothing");
	while (count_events(&l, "ending") == 0 && step < 600)
		step++, train(&l, step, step, 1.5);
	ok(step >= 500 && step < 520, "the stop comes 200 steps after the onset (%lld)", (long long)step);
	is_str(ending_of(&l, reason), "the loss has not healed since step 301", "and says why");
	is_int(count_events(&l, "alert"), 1, "the spike has one alarm");
	world_end_well(l.w);
}

static void line_seen(struct lab *l, const char *rule, int64_t step)
{
	struct wm_metrics m = {.job = l->job, .attempt = l->attempt, .epoch = l->attempt, .seq = ++l->seq};
	uint64_t at = 1800000000000000u + (uint64_t)step * 1000000;
	double value = 1;
	char name[80];

	snprintf(name, sizeof name, "rule:%s", rule);
	wire_strv_add(&m.names, name);
	wire_u32v_add(&m.name_ix, 0);
	wire_u32v_add(&m.ranks, 0);
	m.steps.n = m.values.n = m.times.n = 1;
	m.steps.v = &step;
	m.values.v = &value;
	m.times.v = &at;
	core_agent_msg(l->w->core, "a", 0, WM_METRICS, 0, wire_copy(WM_METRICS, &m));
	world_turn(l->w);
	m.steps.v = NULL;
	m.values.v = NULL;
	m.times.v = NULL;
	wire_fini(WM_METRICS, &m);
}

static char *alert_text(struct lab *l, int index, char out[300])
{
	cJSON *found = events(l, "alert");

	snprintf(out, 300, "%s", json_str_or(cJSON_GetArrayItem(found, index), "text", "none"));
	cJSON_Delete(found);
	return out;
}

/* Rules on a metric and on lines: each is raised once while its condition lasts, also over a restart. */
static void test_rules(void)
{
	char text[300];
	struct lab l;

	begin(
	    &l, 8,
	    JOB(", \"rules\": [{\"name\": \"high\", \"metric\": \"loss\", \"above\": 10, \"for_steps\": 5}, "
	        "{\"name\": \"nccl\", \"pattern\": \"NCCL WARN\"}, {\"name\": \"quiet\", \"pattern\": \"step\", "
	        "\"absent_s\": 20}]"));
	train(&l, 1, 4, 10);
	is_int(count_events(&l, "alert"), 0, "four steps are less than for_steps");
	restart(&l);
	train(&l, 5, 12, 10);
	is_int(count_events(&l, "alert"), 1, "the fifth raises the rule, once, also after a restart of hearthd");
	is_str(alert_text(&l, 0, text), "rule high: loss is above 10 since step 1: 12.9963 at step 5",
	       "in words");
	train(&l, 13, 13, 0);
	train(&l, 14, 20, 10);
	is_int(count_events(&l, "alert"), 2, "a new onset raises it again");
	line_seen(&l, "nccl", 21);
	line_seen(&l, "nccl", 22);
	is_int(count_events(&l, "alert"), 3, "a line raises its rule once a minute");
	is_str(alert_text(&l, 2, text), "rule nccl: a line of rank 0 matches 'NCCL WARN'", "with its pattern");
	beats(&l, 25);
	is_int(count_events(&l, "alert"), 4, "a line that does not come raises its rule");
	is_str(alert_text(&l, 3, text), "rule quiet: no line matches 'step' for 20 s", "with the time");
	line_seen(&l, "quiet", 23);
	beats(&l, 15);
	is_int(count_events(&l, "alert"), 4, "and not again while lines come");
	world_end_well(l.w);
}

/* Steps that go back with each point raise a rule a few times only, and pin as often. */
static void test_rule_bound(void)
{
	struct lab l;

	begin(&l, 12,
	      JOB(", \"rules\": [{\"name\": \"any\", \"metric\": \"loss\", \"above\": 0, \"action\": \"pin\"}]"));
	for (int64_t i = 0; i < 400; i++)
		train(&l, 500 - i, 500 - i, 1);
	ok(count_events(&l, "alert") >= 1, "a rule is raised");
	ok(count_events(&l, "alert") <= RULE_BURST + 8,
	   "descending steps do not raise it with each point: %d alerts", (int)count_events(&l, "alert"));
	world_end_well(l.w);
}

/* One rule that is raised each minute leaves alerts for the loss watch. */
static void test_rule_share(void)
{
	struct lab l;

	begin(&l, 13, JOB(", \"rules\": [{\"name\": \"oops\", \"pattern\": \"x\"}]"));
	train(&l, 1, 60, 0);
	job_find(l.w->core, l.job)->r.alerts = 500; /* all of rules */
	line_seen(&l, "oops", 61);
	is_int(count_events(&l, "alert"), 0, "rules have used up their part");
	for (int64_t step = 62; step < 70; step++)
		points(&l, step, NAN, ++l.seq);
	is_int(count_events(&l, "alert"), 1, "a loss that is not finite has its alert");
	world_destroy(l.w);
}

static void test_rule_acts(void)
{
	char reason[200];
	struct lab l;

	begin(
	    &l, 9,
	    JOB(", \"rules\": [{\"name\": \"oops\", \"pattern\": \"x\", \"action\": \"stop\", \"budget\": 1}]"));
	line_seen(&l, "oops", 7);
	is_str(ending_of(&l, reason), "rule oops: a line of rank 0 matches 'x'", "a rule ends the attempt");
	is_int(count_events(&l, "alert"), 1, "with its alarm");
	world_end_with(l.w, l.job, 0);
	like(world_reason(l.w, l.job), "not retried: the action of rule oops is stop",
	     "the reason names who asked");
	world_end_well(l.w);
}

static void test_end(void)
{
	struct lab l;

	begin(&l, 5, JOB(""));
	train(&l, 1, 200, 0);
	points(&l, 201, (double)NAN, ++l.seq);
	world_end_with(l.w, l.job, 0);
	is_str(world_status(l.w, l.job), "completed", "the job ends");
	world_restart(l.w);
	ok(!l.w->core->watch.all, "and its state is not in the store any more");
	world_end_well(l.w);
}

int main(void)
{
	test_spike(0);
	test_spike(1);
	test_spike(2);
	test_repeated();
	test_shown();
	test_hang();
	test_hang_next(0);
	test_hang_next(1);
	test_rollback();
	test_patience();
	test_rules();
	test_rule_bound();
	test_rule_share();
	test_rule_acts();
	test_end();
	return tap_done();
}
