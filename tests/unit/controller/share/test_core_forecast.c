/* When a waiting job is believed to start, where, and at what price; and jobs that pass one that waits for
 * more nodes only when their time limits say that it does not wait longer for them. */
#include "controller/share/alloc.h"
#include "controller/share/forecast.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

static uint64_t submit_as(struct world *w, const char *name, unsigned instances, unsigned limit_s,
                          const char *body)
{
	char spec[400];

	snprintf(spec, sizeof spec,
	         "{\"name\": \"%s\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"limits\": "
	         "{\"max_runtime_s\": "
	         "%u}, \"resources\": {\"instances\": %u, \"gpus_per_instance\": 2, \"ranks_per_instance\": 1}}",
	         name, limit_s, instances);
	return world_submit_full(w, spec, body, NULL, NULL);
}

static uint64_t submit(struct world *w, unsigned instances, unsigned limit_s)
{
	return submit_as(w, "x", instances, limit_s, NULL);
}

static const char *why(struct world *w, uint64_t job)
{
	world_request(w, REQ_WHY, job, NULL, "{}");
	return world_text(w, "text");
}

static void begin(struct world *w, const char *node, uint64_t id)
{
	world_launch(w, node, id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, node, id, 1, 0, PS_RUNNING, 0, 0, NULL);
}

static void end(struct world *w, const char *node, uint64_t id)
{
	world_rank(w, node, id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, node, id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, node, id, 1, LAUNCH_CLEANED, 0, NULL);
}

/* The agents beat every second: who misses two beats is suspect and gets no work. */
static void run_for(struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		world_beat(w, "a");
		world_beat(w, "b");
		world_advance(w, 1000000);
	}
}

static void test_backfill(void)
{
	struct world *w = world_create(1);
	uint64_t a, wide, late, soon;

	world_agent_up(w, "a", 2, 4);
	world_agent_up(w, "b", 2, 4);
	a = submit(w, 1, 600);
	wide = submit(w, 2, 600);
	late = submit(w, 1, 3600);
	soon = submit(w, 1, 60);
	is_str(world_status(w, a), "starting", "one runs");
	is_str(world_status(w, wide), "queued", "the wide one waits for its node");
	is_str(world_status(w, late), "queued", "a long one would hold it up");
	is_str(world_status(w, soon), "starting", "a short one does not");
	golden("hearthd/forecast-expected-to-start-in-about-m-s", why(w, wide), "2", "1", "0", "10m40s");
	ok(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(w->body, "expected_whole")),
	   "for certain, by the limits");
	ok(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(w->body, "expected_cut")), "no work was left undone");
	golden("hearthd/forecast-job-ahead-expected-to-start-in-about", why(w, late), "1", "2", "0", "21m20s");
	is_int((int)cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "next"), 0)->valuedouble,
	       (int)wide, "and says whom it waits behind");
	is_str(world_status(w, wide), "queued", "to ask changes nothing");
	is_str(world_status(w, late), "queued", "for nobody");
	world_end_well(w);
}

/* Who comes to the first place within the second in which a place was kept for another has it a second later.
 */
static void test_first_anew(void)
{
	struct world *w = world_create(6);
	uint64_t a, wide, small;

	world_agent_up(w, "a", 2, 4);
	world_agent_up(w, "b", 2, 4);
	a = submit(w, 2, 600);
	begin(w, "a", a);
	begin(w, "b", a);
	wide = submit(w, 2, 600);
	small = submit(w, 1, 600);
	world_request(w, REQ_SET, small, NULL, "{\"priority\": 20}");
	is_int(w->status, 200, "another gets a higher priority");
	run_for(w, 5);
	golden("hearthd/forecast-expected-to-start-in-about-m", why(w, small), "1", "2", "0", "10m35s");
	golden("hearthd/forecast-job-ahead-expected-to-start-in-about-2", why(w, wide), "2", "1", "0", "21m15s");
	world_end_well(w);
}

/* A place that is kept in time: when it comes there is a pass, though nothing else happens. */
static void test_kept(void)
{
	struct world *w = world_create(4);
	struct core *c = w->core;
	uint64_t a, b, at_us;

	sched_destroy(c->sched);
	c->cfg.backfill = BACKFILL_CONSERVATIVE;
	alloc_open(c);
	ok(alloc_next_us(c) == UINT64_MAX, "no place is kept: nothing is due");
	world_agent_up(w, "a", 2, 4);
	a = submit(w, 1, 600);
	is_str(world_status(w, a), "starting", "one runs");
	b = submit(w, 1, 600);
	at_us = (sched_kept(c->sched, b) - c->alloc.base_s) * 1000000;
	ok(alloc_next_us(c) == at_us && core_next_us(c) <= at_us, "another has its place when that ends");
	alloc_tick(c);
	ok(!c->alloc.dirty, "before that time nothing is due");
	clock_fake_advance(&w->clock, at_us - now_boot(c));
	alloc_tick(c);
	ok(c->alloc.dirty, "at that time there is a pass, though nothing else happened");
	ok(alloc_next_us(c) == UINT64_MAX, "one, not one after another");
	world_destroy(w);
}

/* Who has waited so long as hearth.conf says goes before fair share, and is told. */
static void test_due(void)
{
	struct world *w = world_create(5);
	uint64_t a, b;

	sched_destroy(w->core->sched);
	w->core->cfg.starve_s = 300;
	alloc_open(w->core);
	world_agent_up(w, "a", 2, 4);
	a = submit(w, 1, 3600);
	b = submit(w, 1, 3600);
	is_str(world_status(w, a), "starting", "one runs");
	ok(!strstr(why(w, b), "fair share") && !cJSON_GetObjectItemCaseSensitive(w->body, "due"),
	   "the next is not due");
	begin(w, "a", a);
	run_for(w, 300);
	golden("hearthd/forecast-it-has-waited-minutes-goes-before-fair", why(w, b), "1", "2", "0", "5");
	ok(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(w->body, "due")), "as data, too");
	world_end_well(w);
}

/* What ended before teaches how long the next one takes. */
static void test_learned(void)
{
	struct world *w = world_create(2);
	uint64_t a, b;

	world_agent_up(w, "a", 2, 4);
	a = submit_as(w, "train", 1, 36000, NULL);
	begin(w, "a", a);
	run_for(w, 100);
	end(w, "a", a);
	a = submit_as(w, "train", 1, 36000, NULL);
	begin(w, "a", a);
	run_for(w, 40);
	b = submit_as(w, "other", 1, 60, NULL);
	golden("hearthd/forecast-expected-to-start-in-about-m-2", why(w, b), "1", "2", "0", "1m");
	world_end_well(w);
}

static uint64_t submit_open(struct world *w, const char *name, unsigned instances)
{
	char spec[300];

	snprintf(spec, sizeof spec,
	         "{\"name\": \"%s\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	         "{\"instances\": %u, \"gpus_per_instance\": 2, \"ranks_per_instance\": 1}}",
	         name, instances);
	return world_submit_full(w, spec, NULL, NULL, NULL);
}

/* A job without a time limit passes a gang when three of its name were short, also after a restart; one whose
 * user gave a limit goes by that. */
static void test_believed(void)
{
	struct world *w = world_create(5);
	uint64_t id, gang;
	char owner[80] = "";

	world_agent_up(w, "a", 2, 4);
	world_agent_up(w, "b", 2, 4);
	for (int i = 0; i < 3; i++) {
		is_int((long)believed_s(w->core, owner, "short"), 0, "too little is known");
		id = submit_open(w, "short", 1);
		begin(w, "a", id);
		run_for(w, 20);
		snprintf(owner, sizeof owner, "%s", job_find(w->core, id)->r.owner);
		end(w, "a", id);
	}
	is_int((long)believed_s(w->core, owner, "short"), 60, "three of them took 20 s");
	world_restart(w);
	is_int((long)believed_s(w->core, owner, "short"), 60, "that is known after a restart, too");
	world_agent_up(w, "a", 2, 4);
	world_agent_up(w, "b", 2, 4);
	submit_as(w, "long", 1, 600, NULL);
	gang = submit_as(w, "gang", 2, 600, NULL);
	is_str(world_status(w, gang), "queued", "a gang waits");
	is_str(world_status(w, submit_open(w, "unknown", 1)), "queued",
	       "one of which nothing is known waits behind it");
	is_str(world_status(w, submit_as(w, "short", 1, 36000, NULL)), "queued", "so does one with a long limit");
	id = submit_open(w, "short", 1);
	is_str(world_status(w, id), "starting", "a short one passes, by what is on record");
	world_end_well(w);
}

static void test_round_up(void)
{
	uint64_t most = 0;

	for (uint64_t v = 1; v < 5000000; v += 1 + v / 1000) {
		uint64_t up = round_up_bits(v, 6);

		if (up < v || up > v + v / 32 || round_up_bits(up, 6) != up)
			most = v;
	}
	is_int((long)most, 0, "rounded up by at most a part in 32, and no further");
	is_int((long)round_up_bits(86430, 6), 88064, "a day and its grace");
	is_int((long)round_up_bits(1000, 4), 1024, "coarser");
}

static void test_dry(void)
{
	struct world *w = world_create(3);
	uint64_t a;

	world_agent_up(w, "a", 2, 4);
	node_find(w->core, "a")->inv.price_per_hour = 6;
	submit_as(w, "x", 1, 1800, "{\"dry_run\": true}");
	golden("hearthd/forecast-it-would-start-now-on-a", world_text(w, "text"), "1", "$6.00", "$3.00");
	is_str(cJSON_GetStringValue(
	           cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "expected_nodes"), 0)),
	       "a", "as data, too");
	is_int((int)cJSON_GetObjectItemCaseSensitive(w->body, "price_per_hour_usd")->valuedouble, 6,
	       "its price an hour");
	is_int((int)cJSON_GetObjectItemCaseSensitive(w->body, "max_price_usd")->valuedouble, 3, "and at most");
	a = submit(w, 1, 600);
	is_int((int)a, 1, "nothing was kept");
	is_str(world_status(w, a), "starting", "and nothing is held");
	submit_as(w, "x", 1, 60, "{\"dry_run\": true}");
	like(world_text(w, "text"), "it would wait: ", "the next would wait");
	golden("hearthd/forecast-expected-to-start-in-about-m-s-2", world_text(w, "text"), "1", "2", "0",
	       "10m40s");
	world_end_well(w);
}

/* One that waits for the start of another, after 0: for nobody. */
static uint64_t submit_after(struct world *w, unsigned instances, unsigned gpus, unsigned limit_s,
                             uint64_t after, int priority, const char *body)
{
	char spec[400], on[40] = "";

	if (after)
		snprintf(on, sizeof on, "\"after:%llu\"", (unsigned long long)after);
	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"priority\": %d, \"after\": [%s], "
	         "\"limits\": "
	         "{\"max_runtime_s\": %u}, \"resources\": {\"instances\": %u, \"gpus_per_instance\": %u, "
	         "\"ranks_per_instance\": 1}}",
	         priority, on, limit_s, instances, gpus);
	return world_submit_full(w, spec, body, NULL, NULL);
}

/* A question may put another before those that keep a job back; it does not start, so no start is told. */
static void test_dry_starts_nobody(void)
{
	struct world *w = world_create(4);
	uint64_t kept, waits;

	world_agent_up(w, "c", 4, 8);
	submit_after(w, 1, 4, 36000, 0, 0, NULL);
	world_agent_up(w, "a", 2, 4);
	submit_after(w, 1, 2, 600, 0, 0, NULL);
	world_agent_up(w, "b", 2, 4);
	submit_after(w, 2, 2, 600, 0, 0, NULL);
	kept = submit_after(w, 1, 2, 7200, 0, 0, NULL);
	waits = submit_after(w, 1, 0, 10, kept, 0, NULL);
	is_str(world_status(w, kept), "queued", "one is kept back for the wide one");
	is_str(world_status(w, waits), "queued", "and another waits for its start");
	world_beat(w, "a");
	world_beat(w, "b");
	world_beat(w, "c");
	world_advance(w, 2000000);
	submit_after(w, 1, 4, 600, 0, 10, "{\"dry_run\": true}");
	is_int(w->status, 200, "a question of a higher priority is answered");
	like(world_text(w, "text"), "it would wait: ", "it would wait, too");
	world_turn(w);
	is_str(world_status(w, kept), "queued", "the one that is kept back waits on");
	is_str(world_status(w, waits), "queued", "so does the one that waits for its start");
	golden("hearthd/forecast-waits-for-job-to-start", why(w, waits), "job 4");
	world_end_well(w);
}

int main(void)
{
	test_backfill();
	test_first_anew();
	test_kept();
	test_due();
	test_learned();
	test_believed();
	test_round_up();
	test_dry();
	test_dry_starts_nobody();
	return tap_done();
}
