/* What goes wrong with a node makes others preferred to it, for a time, and is shown. */
#include "controller/share/node_health.h"
#include "controller/state/core_state.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOUR 3600000000u

/* ---- figures ------------------------------------------------------------------------------------ */

static void test_fades(void)
{
	struct health t = {0};
	uint64_t now = 5 * (uint64_t)HEALTH_DAY_US, next;
	char text[200];

	ok(!health_level(&t, now) && health_next_us(&t, now) == UINT64_MAX, "nothing was: no doubt");
	is_str(health_text(&t, now, text, sizeof text), "", "and nothing to say");
	health_add(&t, HEALTH_CONNECTION, "reset", now, 1);
	is_int((int)health_level(&t, now), 0, "one broken connection is no doubt");
	health_add(&t, HEALTH_CONNECTION, "reset", now, 1);
	is_int((int)health_level(&t, now), 1, "two are");
	next = health_next_us(&t, now);
	ok(next > now + 2 * (uint64_t)HOUR && next < now + 3 * (uint64_t)HOUR,
	   "from 1 to 3/4 takes two hours and a half");
	ok(health_level(&t, next) == 0 && health_level(&t, next - 120000000) == 1, "and then it is trusted");
	health_add(&t, HEALTH_LAUNCH, "no such disk", now, 2);
	is_int((int)health_level(&t, now), 2, "a launch that failed counts twice as much");
	health_add(&t, HEALTH_LOST, "silent", now, 3);
	health_add(&t, HEALTH_LAUNCH, "no such disk", now, 4);
	is_int((int)health_level(&t, now), 3, "more of it");
	golden("hearthd/trouble-it-was-lost-launches-failed-on-it", health_text(&t, now, text, sizeof text), "2");
	for (uint64_t at = now, was = 3; at < now + HEALTH_DAY_US; at += HOUR / 4) {
		uint32_t d = health_level(&t, at);

		if (d > was)
			ok(0, "it only fades");
		was = d;
	}
	is_int((int)health_level(&t, now + 23 * (uint64_t)HOUR), 0, "a day later nothing is left");
	is_str(health_text(&t, now + HEALTH_DAY_US, text, sizeof text), "", "nor said");
	for (int i = 0; i < 3 * HEALTH_KEPT; i++)
		health_add(&t, HEALTH_LAUNCH, "again", now, 5);
	is_int((int)t.n, HEALTH_KEPT, "only the newest are kept");
	is_int((int)health_level(&t, now), 3, "three is the most");
}

/* ---- at work ------------------------------------------------------------------------------------ */

static const cJSON *member(struct world *w, const char *node, const char *key)
{
	const cJSON *n;

	world_request(w, REQ_NODES, 0, NULL, NULL);
	cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(w->body, "nodes"))
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(n, "name")), node) == 0)
			return cJSON_GetObjectItemCaseSensitive(n, key);
	return NULL;
}

static int doubt(struct world *w, const char *node)
{
	return (int)member(w, node, "doubt")->valuedouble;
}

static uint64_t submit(struct world *w)
{
	return world_submit(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                       "{\"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}");
}

static const char *place(const struct world *w, uint64_t job)
{
	const struct cjob *j = job_find(w->core, job);

	return j && j->r.att && j->r.att->n_places ? j->r.att->places[0].node : "";
}

/* The job's launch could not be made ready there, and it goes on elsewhere. */
static void fail_on(struct world *w, const char *node, uint64_t job)
{
	world_launch(w, node, job, 1, LAUNCH_FAILED, RC_STAGING, "the disk is full");
	world_launch(w, node, job, 1, LAUNCH_CLEANED, 0, NULL);
}

static void test_preferred(void)
{
	struct world *w = world_create(1);
	uint64_t a, b;

	world_agent_up(w, "a", 4, 8);
	world_agent_up(w, "b", 4, 8);
	is_int(doubt(w, "a"), 0, "healthy");
	ok(cJSON_IsNull(member(w, "a", "trouble")), "without trouble");
	a = submit(w);
	is_str(place(w, a), "a", "the first takes the first job");
	fail_on(w, "a", a);
	is_int(doubt(w, "a"), 1, "a launch failed on it: it is doubted");
	is_int((int)cJSON_GetObjectItemCaseSensitive(member(w, "a", "trouble"), "launches")->valuedouble, 1,
	       "it is counted");
	is_str(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(member(w, "a", "trouble"), "last")),
	       "the disk is full", "with what it was");
	golden("hearthd/trouble-others-are-preferred-to-it-a-launch",
	       cJSON_GetStringValue(member(w, "a", "reason")));
	is_str(cJSON_GetStringValue(member(w, "a", "state")), "up", "of a node that is up");
	b = submit(w);
	is_str(place(w, b), "b", "the next goes to the other");
	world_end_well(w);
}

/* The scheduler is told when it places something, and then only. */
static void test_trusted(void)
{
	struct world *w = world_create(3);
	struct cnode *n;
	uint64_t job;

	world_agent_up(w, "a", 4, 8);
	world_agent_up(w, "b", 4, 8);
	n = node_find(w->core, "a");
	node_health_note(w->core, n, HEALTH_LAUNCH, "the disk is full");
	core_end_turn(w->core); /* the scheduler is told at its end */
	is_int((int)n->sched_health, 1, "doubted");
	for (int i = 0; i < 6 * 12; i++) { /* six hours */
		world_advance(w, 300000000);
		world_beat(w, "a"); /* heard again: not suspect when the job comes */
		world_beat(w, "b");
	}
	is_int(doubt(w, "a"), 0, "six hours later it is trusted");
	job = submit(w);
	is_int((int)n->sched_health, 0, "by the scheduler, too");
	is_str(place(w, job), "a", "as what is placed shows");
	world_end_well(w);
}

static void test_connections(void)
{
	struct world *w = world_create(2);

	world_agent_up(w, "a", 4, 8);
	for (int i = 0; i < 2; i++) {
		core_agent_down(w->core, "a", node_find(w->core, "a")->session, "reset by peer");
		world_turn(w);
		is_int(doubt(w, "a"), i, "one broken connection is no doubt, the second is");
		world_agent_up(w, "a", 4, 8);
	}
	is_int((int)node_find(w->core, "a")->sched_health, 1, "the scheduler knows");
	is_int((int)cJSON_GetObjectItemCaseSensitive(member(w, "a", "trouble"), "connections")->valuedouble, 2,
	       "two");
	world_restart(w);
	world_agent_up(w, "a", 4, 8);
	is_int(doubt(w, "a"), 0, "it begins anew with hearthd");
	world_end_well(w);
}

int main(void)
{
	test_fades();
	test_preferred();
	test_trusted();
	test_connections();
	return tap_done();
}
