/* Successive halving: the rule, and members that are stopped by it. */
#include "controller/halving.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CMD "\"command\": [\"/bin/x\"], \"launcher\": \"direct\""

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

static void test_waves(void)
{
	struct world *w = world_create(9);
	uint64_t id;

	world_agent_up(w, "a", 0, 8);
	id = submit(w, "\"sweep\": {\"x\": {\"from\": 1, \"to\": 5}}, \"max_parallel\": 2",
	            "\"goal\": \"max\", \"halving\": {\"eta\": 2, \"min_step\": 5}");
	world_begin(w, at(id, 0));
	world_begin(w, at(id, 1));
	point(w, at(id, 0), "loss", 5, 1);
	point(w, at(id, 1), "loss", 7, 3);
	is_str(world_status(w, at(id, 0)), "stopping", "of the first two the worse one is stopped");
	world_end_with(w, at(id, 0), 1);
	is_str(world_status(w, at(id, 2)), "starting", "which makes room for the next");
	world_begin(w, at(id, 2));
	world_end_with(w, at(id, 1), 0);
	world_begin(w, at(id, 3));
	world_end_with(w, at(id, 3), 4);
	world_begin(w, at(id, 4));
	point(w, at(id, 2), "loss", 5, NAN);
	is_str(world_status(w, at(id, 2)), "stopping", "what is no number is the worst");
	point(w, at(id, 4), "loss", 9, 2);
	is_str(world_status(w, at(id, 4)), "running", "two of four that started may stay");
	point(w, at(id, 1), "loss", 60, 9); /* late, after its end */
	world_end_with(w, at(id, 2), 1);
	world_end_with(w, at(id, 4), 0);
	is_str(world_status(w, id), "failed", "one has failed on its own");
	world_end_well(w);
}

int main(void)
{
	test_rule();
	test_order();
	test_waves();
	return tap_done();
}
