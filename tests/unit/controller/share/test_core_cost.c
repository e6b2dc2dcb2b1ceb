/* What jobs cost, the end of a job that has cost all that it may, budgets of queues and users; over restarts.
 */
#include "common/base/json.h"
#include "controller/share/budget.h"
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOUR 3600u

/* A node of 4 GPUs that costs 4 USD an hour: one a GPU. */
static void node(struct world *w, const char *name)
{
	w->price = 4;
	world_agent_up(w, name, 4, 8);
}

static uint64_t submit(struct world *w, const char *queue, unsigned gpus, const char *limits)
{
	char spec[400];

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"queue\": \"%s\", \"limits\": {%s}, "
	         "\"resources\": {\"gpus_per_instance\": %u, \"ranks_per_instance\": 1}}",
	         queue, limits, gpus);
	return world_submit(w, spec);
}

static int ask(struct world *w, enum request_op op, const char *name, const char *body)
{
	return world_request(w, op, 0, name, body);
}

static unsigned attempt(const struct world *w, uint64_t id)
{
	return job_find(w->core, id)->r.attempts;
}

static void begin(struct world *w, uint64_t id)
{
	world_launch(w, "a", id, attempt(w, id), LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, attempt(w, id), 0, PS_RUNNING, 0, 0, NULL);
}

static void end(struct world *w, uint64_t id, uint32_t signo)
{
	unsigned n = attempt(w, id);

	world_rank(w, "a", id, n, 0, PS_EXITED, 0, signo, NULL);
	world_launch(w, "a", id, n, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, n, LAUNCH_CLEANED, 0, NULL);
}

/* The agents beat all the while, each second as real ones: a node that misses two beats is suspect. */
static void run_for(struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		for (const struct cnode *n = node_first(w->core); n; n = node_next(n))
			world_beat(w, n->name);
		world_advance(w, 1000000);
	}
}

/* hearthd is back, and the agent with what runs there. */
static void again(struct world *w, uint64_t running)
{
	struct wm_sync_begin first = {0};
	struct wm_sync_end last = {0};
	uint64_t s = world_agent_connect(w, "a");

	world_msg(w, "a", s, WM_SYNC_BEGIN, &first);
	if (running)
		world_launch(w, "a", running, attempt(w, running), LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &last);
	world_turn(w);
}

static void reborn(struct world *w, uint64_t running)
{
	world_restart(w);
	again(w, running);
}

static cJSON *shown(struct world *w, uint64_t id)
{
	struct err e;

	return store_job_json(w->reader, id, &e);
}

static double member(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

static int near(double a, double b)
{
	return fabs(a - b) < 0.02;
}

static const char *status_of(struct world *w, uint64_t id)
{
	return world_status(w, id);
}

static int has_text(struct world *w, uint64_t id, const char *key, const char *text)
{
	cJSON *o = shown(w, id);
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
	int found = s && strstr(s, text);

	if (!found)
		tap_diag("%s is \"%s\"", key, s ? s : "null");
	cJSON_Delete(o);
	return found;
}

static double total(struct world *w, struct cost_filter f, int rows)
{
	struct err e;
	cJSON *o;
	double sum;

	f.now_us = clock_real_us(&w->clock);
	o = store_cost_json(w->reader, &f, &e);
	sum = member(o, "total_usd");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(o, "rows")), rows, "rows of the sum");
	cJSON_Delete(o);
	return sum;
}

static void test_cost(void)
{
	struct world *w = world_create(1);
	uint64_t a, b, t0;
	cJSON *o;

	node(w, "a");
	ask(w, REQ_QUEUE_SET, "night", "{}");
	t0 = clock_real_us(&w->clock);
	a = submit(w, "night", 2, "");
	b = submit(w, "default", 1, "");
	begin(w, a);
	begin(w, b);
	run_for(w, HOUR);
	end(w, a, 0);
	o = shown(w, a);
	ok(near(member(o, "cost_usd"), 2), "two of four GPUs for an hour: %f", member(o, "cost_usd"));
	ok(member(o, "price_per_hour_usd") == -1, "it costs nothing any more");
	cJSON_Delete(o);
	run_for(w, HOUR);
	ok(near(total(w, (struct cost_filter){.by = COST_BY_QUEUE}, 2), 4), "all that ran, one still");
	ok(near(total(w, (struct cost_filter){.by = COST_BY_JOB}, 2), 4), "by job");
	ok(near(total(w, (struct cost_filter){.by = COST_BY_USER}, 1), 4), "by user");
	ok(near(total(w, (struct cost_filter){.queue = "night"}, 1), 2), "of one queue");
	ok(near(total(w, (struct cost_filter){.queue = "nigh"}, 0), 0), "not of one that begins so");
	ok(near(total(w, (struct cost_filter){.owner = "nobody"}, 0), 0), "of a user who had nothing");
	ok(near(total(w, (struct cost_filter){.job = b}, 1), 2), "of one job");
	ok(near(total(w, (struct cost_filter){.from_us = t0 + 1800000000ull}, 2), 2.5), "since half an hour");
	ok(near(total(w, (struct cost_filter){.to_us = t0 + 1800000000ull}, 2), 1.5), "of the first half hour");
	end(w, b, 0);
	world_end_well(w);
}

/* A sweep has no attempt of its own: it costs what its members do. */
static void test_sweep(void)
{
	struct world *w = world_create(9);
	uint64_t other, sweep;
	cJSON *o;

	node(w, "a");
	sweep =
	    world_submit(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"sweep\": {\"lr\": [1, 2]}, "
	                    "\"resources\": {\"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}");
	other = submit(w, "default", 1, "");
	begin(w, sweep + 1);
	begin(w, sweep + 2);
	begin(w, other);
	run_for(w, HOUR);
	end(w, sweep + 1, 0);
	run_for(w, HOUR);
	end(w, sweep + 2, 0);
	end(w, other, 0);
	ok(near(total(w, (struct cost_filter){.by = COST_BY_JOB, .job = sweep}, 2), 3),
	   "its members, and no other job");
	ok(near(total(w, (struct cost_filter){.by = COST_BY_QUEUE, .job = sweep}, 1), 3), "by queue, too");
	ok(near(total(w, (struct cost_filter){.by = COST_BY_JOB, .job = sweep + 2}, 1), 2), "one member alone");
	o = shown(w, sweep);
	ok(near(member(o, "cost_usd"), 3), "show has the sum: %f", member(o, "cost_usd"));
	ok(member(o, "price_per_hour_usd") == -1, "nothing runs any more");
	cJSON_Delete(o);
	world_end_well(w);
}

static void test_no_price(void)
{
	struct world *w = world_create(2);
	uint64_t id;
	cJSON *o;

	w->price = 0;
	world_agent_up(w, "a", 4, 8);
	is_int((int)submit(w, "default", 1, "\"max_cost_usd\": 5"), 0, "a limit that nothing could reach");
	is_int(w->status, 409, "is refused");
	golden("hearthd/cost-no-node-has-a-price", w->err.text, "limits.max_cost_usd",
	       "jobctl instances set TYPE", "price_per_hour");
	id = submit(w, "default", 1, "");
	begin(w, id);
	run_for(w, 60);
	end(w, id, 0);
	o = shown(w, id);
	ok(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, "cost_usd")), "what it cost is not known");
	cJSON_Delete(o);
	is_int(ask(w, REQ_INSTANCE_SET, "box", "{\"price_per_hour\": 4}"), 200, "a price for its type");
	ok(submit(w, "default", 1, "\"max_cost_usd\": 5") > 0, "and a limit means something");
	world_destroy(w);
}

static void test_limit(void)
{
	struct world *w = world_create(3);
	uint64_t id;

	node(w, "a");
	id = submit(w, "default", 4, "\"max_cost_usd\": 6");
	begin(w, id);
	run_for(w, HOUR);
	is_str(status_of(w, id), "running", "under its limit it runs");
	reborn(w, id);
	is_str(status_of(w, id), "running", "hearthd died: it runs");
	run_for(w, HOUR / 2 - 60);
	is_str(status_of(w, id), "running", "a minute before it has cost $6");
	run_for(w, 90);
	is_str(status_of(w, id), "stopping", "then its end begins");
	ok(world_count(w, "a", WM_KILL) > 0, "by the usual kill, with grace");
	end(w, id, 15);
	ok(has_text(w, id, "status", "failed"), "it failed");
	ok(has_text(w, id, "reason", "cost limit of $6.00 reached (limits.max_cost_usd)"), "with that reason");
	world_end_well(w);
}

/* All attempts count together. */
static void test_attempts(void)
{
	struct world *w = world_create(4);
	uint64_t id;
	cJSON *o;

	node(w, "a");
	id = submit(w, "default", 4, "\"max_cost_usd\": 6");
	begin(w, id);
	run_for(w, HOUR);
	world_request(w, REQ_REQUEUE, id, NULL, "{}");
	end(w, id, 15);
	is_int(attempt(w, id), 2, "its second attempt");
	begin(w, id);
	reborn(w, id);
	run_for(w, HOUR / 2 - 60);
	is_str(status_of(w, id), "running", "it has some of its money left");
	run_for(w, 90);
	is_str(status_of(w, id), "stopping", "both together have cost it");
	end(w, id, 15);
	o = shown(w, id);
	ok(near(member(o, "cost_usd"), 6.03), "and that is what it cost: %f", member(o, "cost_usd"));
	is_str(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
	           cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(o, "attempts"), 1), "class")),
	       "cost", "the class of the last attempt");
	cJSON_Delete(o);
	id = submit(w, "default", 4, "\"max_cost_usd\": 2");
	begin(w, id);
	run_for(w, HOUR / 2 - 10);
	world_request(w, REQ_REQUEUE, id, NULL, "{}");
	run_for(w, 20);
	end(w, id, 15);
	ok(has_text(w, id, "status", "failed"), "one whose money is spent when it would be queued again ends");
	ok(has_text(w, id, "reason", "1 attempt cost $2.0"), "and says so");
	world_end_well(w);
}

static const cJSON *budget(struct world *w, const char *path)
{
	const cJSON *b;

	ask(w, REQ_BUDGETS, NULL, NULL);
	cJSON_ArrayForEach (b, cJSON_GetObjectItemCaseSensitive(w->body, "budgets"))
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(b, "name")), path) == 0)
			return b;
	return NULL;
}

static void test_budget_objects(void)
{
	struct world *w = world_create(5);

	node(w, "a");
	ask(w, REQ_QUEUE_SET, "night", "{}");
	is_int(ask(w, REQ_BUDGET_SET, "moon", "{\"usd\": 5}"), 404, "a queue that is not there");
	is_int(ask(w, REQ_BUDGET_SET, "a b", "{\"usd\": 5}"), 400, "a name that is none");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"usd\": -5}"), 400, "less than nothing");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"usd\": 5, \"period\": \"year\"}"), 400,
	       "a period that is none");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"period\": \"day\"}"), 400, "a period of no budget");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"usd\": 5}"), 200, "a budget");
	is_str(world_text(w, "period"), "month", "of a month, when nothing is said");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"period\": \"day\"}"), 200, "another period");
	ok(member(w->body, "usd") == 5, "the sum stays");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"usd\": 0}"), 400, "nothing is no budget");
	like(w->err.text, "jobctl budget rm", "what takes it off is named");
	is_int(ask(w, REQ_BUDGET_SET, "night/@ada", "{\"usd\": 2.5, \"period\": \"week\"}"), 200, "of a user");
	world_restart(w);
	node(w, "a");
	ok(member(budget(w, "night"), "usd") == 5, "it outlives a restart");
	ok(member(budget(w, "night/@ada"), "usd") == 2.5, "that of the user, too");
	is_int(ask(w, REQ_BUDGET_RM, "night/@ada", NULL), 200, "it is taken off");
	is_int(ask(w, REQ_BUDGET_RM, "night/@ada", NULL), 404, "once");
	ask(w, REQ_QUEUE_SET, "nights", "{}");
	ask(w, REQ_BUDGET_SET, "nights/@ada", "{\"usd\": 7}");
	ask(w, REQ_BUDGET_SET, "night/@bob", "{\"usd\": 1}");
	is_int(ask(w, REQ_QUEUE_RM, "night", NULL), 200, "a queue is removed");
	ok(!budget(w, "night"), "and with it its budget");
	ok(!budget(w, "night/@bob"), "and that of a user who has nothing else in it");
	ok(budget(w, "nights/@ada") != NULL, "not one in a queue of a longer name");
	world_restart(w);
	node(w, "a");
	ok(!budget(w, "night") && !budget(w, "night/@bob"), "for good");
	ask(w, REQ_QUEUE_SET, "night", "{}");
	ok(!budget(w, "night/@bob"), "also when the queue is made again");
	world_end_well(w);
}

static void test_budget(void)
{
	struct world *w = world_create(6);
	uint64_t runs, waits, other;

	node(w, "a");
	ask(w, REQ_QUEUE_SET, "night", "{}");
	runs = submit(w, "night", 2, "");
	begin(w, runs);
	run_for(w, HOUR);
	ask(w, REQ_BUDGET_SET, "night", "{\"usd\": 3, \"period\": \"month\"}");
	ok(near(member(budget(w, "night"), "spent_usd"), 2), "what was spent before counts");
	ok(near(member(budget(w, "night"), "usd_per_hour"), 2), "and what runs is known");
	run_for(w, HOUR / 2 - 60);
	ok(!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(budget(w, "night"), "used_up")), "not yet used up");
	run_for(w, 90);
	ok(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(budget(w, "night"), "used_up")), "used up, by itself");
	is_str(status_of(w, runs), "running", "what runs goes on");
	waits = submit(w, "night", 1, "");
	is_str(status_of(w, waits), "queued", "nothing more is started");
	other = submit(w, "default", 1, "");
	is_str(status_of(w, other), "starting", "but of other queues");
	world_request(w, REQ_WHY, waits, NULL, "{}");
	golden("hearthd/cost-the-budget-of-night-is-used-up", world_text(w, "text"), "3.0");
	begin(w, other);
	end(w, other, 0);
	reborn(w, runs);
	is_str(status_of(w, waits), "queued", "hearthd died: it is used up");
	ok(member(budget(w, "night"), "spent_usd") > 3, "and it knows what was spent");
	is_int(ask(w, REQ_BUDGET_SET, "night", "{\"usd\": 30}"), 200, "it is raised");
	is_str(status_of(w, waits), "starting", "and the job starts at once");
	begin(w, waits);
	end(w, waits, 0);
	ask(w, REQ_BUDGET_SET, "night", "{\"usd\": 1}");
	waits = submit(w, "night", 1, "");
	is_str(status_of(w, waits), "queued", "lowered under what was spent: used up");
	end(w, runs, 0);
	is_int(ask(w, REQ_BUDGET_RM, "night", NULL), 200, "taken off");
	is_str(status_of(w, waits), "starting", "the job starts");
	world_end_well(w);
}

/* With action=end what runs is ended, by the usual stop; also what ran over while hearthd was down. */
static void test_budget_ends(void)
{
	struct world *w = world_create(10);
	uint64_t runs, above, other, waits;

	node(w, "a");
	ask(w, REQ_QUEUE_SET, "lab", "{}");
	ask(w, REQ_QUEUE_SET, "lab/night", "{}");
	ask(w, REQ_QUEUE_SET, "labour", "{}");
	runs = submit(w, "lab/night", 1, "");
	above = submit(w, "lab", 1, "");
	other = submit(w, "labour", 1, "");
	begin(w, runs);
	begin(w, above);
	begin(w, other);
	is_int(ask(w, REQ_BUDGET_SET, "lab/night", "{\"usd\": 1, \"action\": \"stop\"}"), 400,
	       "an action that is none");
	golden("hearthd/cost-expected-hold-what-runs-goes-on-or", w->err.text);
	ask(w, REQ_BUDGET_SET, "lab/night", "{\"usd\": 1, \"action\": \"end\"}");
	is_str(world_text(w, "action"), "end", "the answer says what becomes of what runs");
	ask(w, REQ_BUDGET_SET, "lab", "{\"usd\": 4}");
	is_str(world_text(w, "action"), "hold", "a new budget only holds back");
	run_for(w, HOUR - 60);
	is_str(status_of(w, runs), "running", "a minute before it is used up");
	run_for(w, 90);
	is_str(status_of(w, runs), "stopping", "then the end of what runs begins");
	is_str(status_of(w, above), "running", "not of the queue above it");
	ok(world_count(w, "a", WM_KILL) > 0, "by the usual kill, with grace");
	end(w, runs, 15);
	ok(has_text(w, runs, "status", "failed"), "it failed");
	ok(has_text(w, runs, "reason", "the budget of lab/night is used up: $1.0"), "with that reason");
	ok(has_text(w, runs, "reason", "this month, and ends what runs (action=end)"), "and who decided so");
	waits = submit(w, "lab/night", 1, "");
	run_for(w, 5);
	is_str(status_of(w, waits), "queued", "what comes then waits");
	run_for(w, 3 * HOUR);
	ok(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(budget(w, "lab"), "used_up")),
	   "that above is used up, too");
	is_str(status_of(w, above), "running", "which holds only");
	ask(w, REQ_BUDGET_SET, "lab", "{\"usd\": 30}");
	ask(w, REQ_BUDGET_SET, "lab", "{\"action\": \"end\"}");
	is_str(status_of(w, above), "running", "raised, it may end what runs");
	ask(w, REQ_BUDGET_SET, "lab", "{\"usd\": 2}");
	is_str(status_of(w, above), "stopping", "lowered below what was spent it does");
	is_str(status_of(w, other), "running", "not in a queue whose name only begins so");
	world_end_well(w);
}

static void test_budget_ends_later(void)
{
	struct world *w = world_create(11);
	uint64_t runs, starts;

	node(w, "a");
	runs = submit(w, "default", 1, "");
	begin(w, runs);
	run_for(w, HOUR);
	starts = submit(w, "default", 1, "");
	is_str(status_of(w, starts), "starting", "one is being prepared");
	ask(w, REQ_BUDGET_SET, "default", "{\"usd\": 0.5}");
	is_str(status_of(w, runs), "running", "used up, and holds");
	reborn(w, runs);
	is_str(status_of(w, runs), "running", "also after a restart");
	ask(w, REQ_BUDGET_SET, "default", "{\"action\": \"end\"}");
	is_str(status_of(w, runs), "stopping", "told to end what runs when it is used up, it does so at once");
	is_str(status_of(w, starts), "stopping", "also what has not begun");
	world_destroy(w);

	w = world_create(12);
	node(w, "a");
	runs = submit(w, "default", 4, "");
	begin(w, runs);
	run_for(w, 60);
	ask(w, REQ_BUDGET_SET, "default", "{\"usd\": 4, \"action\": \"end\"}");
	world_stop(w, 0);
	clock_fake_advance(&w->clock, 2ull * HOUR * 1000000);
	world_start(w);
	again(w, runs);
	is_str(status_of(w, runs), "stopping", "what ran over while hearthd was down is ended when it is back");
	end(w, runs, 15);
	ok(has_text(w, runs, "reason", "the budget of default is used up: $8."), "and all of it counts");
	world_destroy(w);
}

/* A job on a node without a price costs nothing: no budget ends it. */
static void test_budget_spares(void)
{
	struct world *w = world_create(13);
	uint64_t dear, free_one;

	node(w, "a");
	dear = submit(w, "default", 4, "");
	begin(w, dear);
	w->price = 0;
	world_agent_up(w, "b", 4, 8);
	free_one = submit(w, "default", 4, "");
	world_launch(w, "b", free_one, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "b", free_one, 1, 0, PS_RUNNING, 0, 0, NULL);
	run_for(w, 300);
	ask(w, REQ_BUDGET_SET, "default", "{\"usd\": 0.2, \"action\": \"end\"}");
	is_str(status_of(w, dear), "stopping", "what costs is ended");
	world_rank(w, "b", free_one, 1, 0, PS_RUNNING, 0, 0, NULL);
	is_str(status_of(w, free_one), "running", "what costs nothing goes on");
	world_destroy(w);
}

/* The next day a budget of a day is whole again, and of a job that ran over midnight only the part since
 * counts. */
static void test_period(void)
{
	struct world *w = world_create(7);
	uint64_t start[3], now, runs, waits;

	node(w, "a");
	runs = submit(w, "default", 2, "");
	begin(w, runs);
	run_for(w, HOUR);
	ask(w, REQ_BUDGET_SET, "default/@ada", "{\"usd\": 1, \"period\": \"day\"}");
	waits = submit(w, "default", 1, "");
	is_str(status_of(w, waits), "queued", "used up");
	now = clock_real_us(&w->clock);
	budget_periods(now, start);
	run_for(w, (unsigned)((start[0] + 86400000000ull - now) / 1000000) - 60);
	is_str(status_of(w, waits), "queued", "until the end of the day");
	run_for(w, 90);
	is_str(status_of(w, waits), "starting", "then it starts");
	ok(member(budget(w, "default/@ada"), "spent_usd") < 0.2, "what is spent counts from midnight");
	world_destroy(w);
}

static void test_calendar(void)
{
	static const struct {
		const char *what;
		uint64_t now, day, week, month; /* days since 1970 */
	} t[] = {
	    {"1970-01-01, a Thursday", 0, 0, 0, 0},
	    {"1970-01-05, a Monday", 4, 4, 4, 0},
	    {"1970-02-01", 31, 31, 25, 31},
	    {"2000-02-29", 11016, 11016, 11015, 10988},
	    {"2000-03-01", 11017, 11017, 11015, 11017},
	    {"2024-02-29", 19782, 19782, 19779, 19754},
	    {"2026-11-22, a Sunday", 20779, 20779, 20773, 20758},
	    {"2026-12-31", 20818, 20818, 20815, 20788},
	    {"2027-01-01", 20819, 20819, 20815, 20819},
	    {"2100-03-01", 47541, 47541, 47541, 47541},
	};

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		uint64_t start[3];

		budget_periods(t[i].now * 86400000000ull + 86399999999ull, start);
		ok(start[0] == t[i].day * 86400000000ull && start[1] == t[i].week * 86400000000ull &&
		       start[2] == t[i].month * 86400000000ull,
		   "%s: day %llu, week from %llu, month from %llu", t[i].what,
		   (unsigned long long)(start[0] / 86400000000ull), (unsigned long long)(start[1] / 86400000000ull),
		   (unsigned long long)(start[2] / 86400000000ull));
	}
}

/* A dry run of many jobs: the price of one, and of all. */
static void test_dry_members(void)
{
	struct world *w = world_create(31);

	w->price = 4;
	world_agent_up(w, "a", 1, 4);
	world_submit_full(w,
	                  "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"array\": 10, \"limits\": "
	                  "{\"max_runtime_s\": 1800}, \"resources\": {\"gpus_per_instance\": 1}}",
	                  "{\"dry_run\": true}", NULL, NULL);
	is_int(w->status, 200, "a dry run of an array");
	golden("hearthd/cost-an-hour-each-at-most-all-at", world_text(w, "text"), "4.00", "2.00", "10", "20.00");
	is_int(json_whole(w->body, "max_price_usd", 0), 2, "of one");
	is_int(json_whole(w->body, "members_max_price_usd", 0), 20, "and of all");
	world_end_well(w);
}

int main(void)
{
	test_cost();
	test_sweep();
	test_no_price();
	test_limit();
	test_attempts();
	test_budget_objects();
	test_budget();
	test_budget_ends();
	test_budget_ends_later();
	test_budget_spares();
	test_period();
	test_calendar();
	test_dry_members();
	return tap_done();
}
