/* Successive halving: the rule, and members that are stopped by it. */
#include "controller/record/halving.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CMD                                                                                                  \
	"\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": {\"max_attempts\": 0, \"capacity\": 0}"

/* ---- the rule ---- */

static void test_rule(void)
{
	struct halving h = {3, 0, 10};
	struct halving_value v[] = {{0, 0.5}, {1, NAN}, {2, 0.1}, {3, 0.5}, {4, -1}};

	is_int(halving_step(&h, 0), 10, "the first comparison");
	is_int(halving_step(&h, 3), 270, "each at three times the step before");
	ok(halving_step(&h, HALVING_RUNGS) == INT64_MAX, "not for ever");
	is_int(halving_keep(&h, 0, 27), 9, "a third stays");
	is_int(halving_keep(&h, 1, 27), 3, "then a third of these");
	is_int(halving_keep(&h, 0, 10), 4, "rounded up");
	is_int(halving_keep(&h, 1, 10), 2, "each time");
	is_int(halving_keep(&h, 9, 10), 1, "one always");
	is_int(halving_keep(&h, 0, 0), 1, "also when none is known to have started");
	halving_sort(&h, v, 5);
	ok(v[0].index == 4 && v[1].index == 2 && v[2].index == 0 && v[3].index == 3 && v[4].index == 1,
	   "the least first, the lower index first, what is no number last");
	h.max = 1;
	halving_sort(&h, v, 5);
	ok(v[0].index == 0 && v[1].index == 3 && v[2].index == 2 && v[3].index == 4 && v[4].index == 1,
	   "the greatest first, and still what is no number last");
}

/* ---- members ---- */

static uint64_t submit(struct world *w, const char *members, const char *search)
{
	char spec[1000];

	snprintf(spec, sizeof spec, "{" CMD ", %s, \"search\": {\"metric\": \"loss\", %s}}", members, search);
	return world_submit(w, spec);
}

static uint64_t at(uint64_t array, uint32_t index)
{
	return array + 1 + index;
}

static void point(struct world *w, uint64_t id, const char *name, int64_t step, double value)
{
	char *names[] = {(char *)(uintptr_t)name};
	uint32_t ix = 0, rank = 0;
	uint64_t time = 1;
	static uint64_t seq;
	struct wm_metrics m = {.job = id,
	                       .attempt = 1,
	                       .epoch = 1,
	                       .seq = ++seq,
	                       .names = {names, 1},
	                       .name_ix = {&ix, 1},
	                       .ranks = {&rank, 1},
	                       .steps = {&step, 1},
	                       .values = {&value, 1},
	                       .times = {&time, 1}};

	world_msg(w, "a", 0, WM_METRICS, &m);
	world_turn(w);
}

static const char *reason_of(struct world *w, uint64_t id)
{
	static char text[500];
	struct err e;
	cJSON *o = store_job_json(w->reader, id, &e);
	const char *r = cJSON_GetStringValue(cJSON_GetObjectItem(o, "reason"));

	snprintf(text, sizeof text, "%s", r ? r : "");
	cJSON_Delete(o);
	return text;
}

static void reborn(struct world *w, const uint64_t *running, size_t n)
{
	struct wm_sync_begin first = {0};
	struct wm_sync_end last = {0};
	uint64_t s;

	world_restart(w);
	s = world_agent_connect(w, "a");
	world_msg(w, "a", s, WM_SYNC_BEGIN, &first);
	for (size_t i = 0; i < n; i++)
		world_launch(w, "a", running[i], 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &last);
	world_turn(w);
}

/* Six members of which one third may stay; their values come in an order that the seed gives. Who is stopped
 * is always the same. */
static void test_order(void)
{
	static const double loss[6] = {0.6, 0.2, 0.5, 0.1, 0.9, 0.3};

	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct world *w = world_create(seed);
		uint32_t order[6] = {0, 1, 2, 3, 4, 5};
		uint64_t id, left[2];

		world_agent_up(w, "a", 0, 8);
		id = submit(w, "\"sweep\": {\"x\": {\"from\": 1, \"to\": 6}}",
		            "\"halving\": {\"eta\": 3, \"min_step\": 10}");
		is_int(w->status, 201, "taken");
		for (uint32_t i = 0; i < 6; i++)
			world_begin(w, at(id, i));
		for (uint32_t i = 0; i < 6; i++) {
			uint32_t k = i + world_rnd(w, 6 - i), t = order[i];

			order[i] = order[k];
			order[k] = t;
		}
		for (uint32_t i = 0; i < 6; i++) {
			point(w, at(id, order[i]), "loss", 9, 100);
			point(w, at(id, order[i]), "accuracy", 10, 100);
			is_str(world_status(w, at(id, order[i])), "running",
			       "not before the step, nor by another metric");
			point(w, at(id, order[i]), "loss", 10 + i, loss[order[i]]);
			if (i == 2) { /* what they came to outlives hearthd */
				uint64_t running[6];

				for (uint32_t k = 0; k < 6; k++)
					running[k] = at(id, k);
				reborn(w, running, 6);
			}
		}
		for (uint32_t i = 0; i < 6; i++)
			is_str(world_status(w, at(id, i)), i == 1 || i == 3 ? "running" : "stopping",
			       "the best two go on");
		for (uint32_t i = 0; i < 6; i++)
			if (i != 1 && i != 3)
				world_end_with(w, at(id, i), 1);
		like(reason_of(w, at(id, 4)), "stopped early (search.halving): at step 10 loss was 0.9, and ", "why");
		left[0] = at(id, 1);
		left[1] = at(id, 3);
		reborn(w, left, 2);
		point(w, at(id, 1), "loss", 30, 0.05);
		point(w, at(id, 3), "loss", 30, 0.07);
		is_str(world_status(w, at(id, 3)), "stopping", "of the two one goes on, after a restart, too");
		world_end_with(w, at(id, 3), 1);
		world_end_with(w, at(id, 1), 0);
		is_str(world_status(w, id), "completed", "the sweep is complete: being stopped early is no failure");
		world_end_well(w);
	}
}

/* ---- only some at once ---- */

#define MEMBERS_MAX 12

struct waves {
	uint32_t n, eta, parallel;
	int max;
	double value[MEMBERS_MAX];
	int fails[MEMBERS_MAX];     /* before it comes to anything */
	char went[MEMBERS_MAX + 1]; /* what became of each: '+' it went on to its end, '-' stopped early, 'f' */
	char status[16];
};

/* As many run as may. The one that `pick` says comes to the comparison, or to its end when it was there. */
static void run_waves(struct world *w, struct waves *v, int in_turn)
{
	char sweep[200], search[100];
	int state[MEMBERS_MAX] = {0}; /* 1 began, 2 was compared, 3 over */
	uint32_t over = 0;
	uint64_t id;

	snprintf(sweep, sizeof sweep, "\"sweep\": {\"x\": {\"from\": 1, \"to\": %u}}, \"max_parallel\": %u", v->n,
	         v->parallel);
	snprintf(search, sizeof search, "\"goal\": \"%s\", \"halving\": {\"eta\": %u, \"min_step\": 5}",
	         v->max ? "max" : "min", v->eta);
	memset(v->went, 0, sizeof v->went);
	id = submit(w, sweep, search);
	for (unsigned rounds = 0; over < v->n && rounds < 10000; rounds++) {
		uint32_t i = in_turn ? rounds % v->n : world_rnd(w, v->n);
		const char *now = world_status(w, at(id, i));

		if (state[i] == 0 && strcmp(now, "starting") == 0) {
			world_begin(w, at(id, i));
			state[i] = 1;
		} else if (strcmp(now, "stopping") == 0) {
			world_end_with(w, at(id, i), 1);
			v->went[i] = '-';
			over++;
			state[i] = 3;
		} else if (state[i] == 1 && !v->fails[i]) {
			point(w, at(id, i), "loss", 5, v->value[i]);
			state[i] = 2;
		} else if (state[i] == 1 || state[i] == 2) {
			world_end_with(w, at(id, i), v->fails[i] ? 4 : 0);
			v->went[i] = v->fails[i] ? 'f' : '+';
			over++;
			state[i] = 3;
		}
	}
	snprintf(v->status, sizeof v->status, "%s", world_status(w, id));
}

static const char *waves(struct waves *v)
{
	struct world *w = world_create(9);

	world_agent_up(w, "a", 0, 8);
	run_waves(w, v, 1);
	world_end_well(w);
	return v->went;
}

static void test_waves(void)
{
	struct waves up = {9, 3, 3, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {0}, "", ""}, down = up, equal = up,
	             broken = up, nan = up;

	is_str(waves(&up), "+++------", "a third of all may stay, and the first three are the best");
	is_str(up.status, "completed", "and that is no failure");
	up.max = 1;
	for (int i = 0; i < 9; i++)
		up.value[i] = -up.value[i];
	is_str(waves(&up), "+++------", "so it is with the greatest");
	for (int i = 0; i < 9; i++)
		down.value[i] = 9 - i;
	is_str(waves(&down), "+++++++++", "when each is better than all before nobody can be stopped in time");
	down.parallel = 8;
	is_str(waves(&down), "-----++++", "unless they are compared before they have ended");
	for (int i = 0; i < 9; i++)
		equal.value[i] = 7;
	is_str(waves(&equal), "+++------", "of equals the first");
	broken.fails[0] = broken.fails[1] = broken.fails[4] = 1;
	is_str(waves(&broken), "ff++f----", "of six that did not fail two may stay");
	is_str(broken.status, "failed", "the whole says that some failed");
	nan.value[0] = nan.value[1] = nan.value[3] = NAN;
	is_str(waves(&nan), "+++-++---",
	       "what is no number is the worst: two that came first, and the best three");
}

/* Whoever is among the best of all is never stopped, in whatever order and at whatever pace they come. */
static void test_best(void)
{
	unsigned lost = 0, stopped = 0, open = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct world *w = world_create(seed);
		struct waves v = {.n = 2 + world_rnd(w, MEMBERS_MAX - 1), .eta = 2 + world_rnd(w, 3)};
		uint32_t alive = 0;

		v.parallel = 1 + world_rnd(w, v.n);
		v.max = (int)world_rnd(w, 2);
		for (uint32_t i = 0; i < v.n; i++) {
			v.value[i] = world_rnd(w, 8);
			v.fails[i] = world_rnd(w, 6) == 0;
			alive += !v.fails[i];
		}
		world_agent_up(w, "a", 0, 4);
		run_waves(w, &v, 0);
		for (uint32_t i = 0; i < v.n; i++) {
			uint32_t better = 0;

			for (uint32_t k = 0; k < v.n; k++) {
				double ahead = v.max ? v.value[k] - v.value[i] : v.value[i] - v.value[k];

				better += !v.fails[k] && (ahead > 0 || (!(ahead < 0) && k < i));
			}
			lost += v.went[i] == '-' && better < (alive + v.eta - 1) / v.eta;
			stopped += v.went[i] == '-';
			open += !v.went[i];
		}
		world_end_well(w);
	}
	is_int(lost, 0, "nobody of the best was stopped");
	is_int(open, 0, "each came to an end");
	ok(stopped > 50, "%u were stopped", stopped);
}

int main(void)
{
	test_rule();
	test_order();
	test_waves();
	test_best();
	return tap_done();
}
