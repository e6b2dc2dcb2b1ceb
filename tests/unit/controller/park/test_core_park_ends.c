/* Launches of pools that end: what nodes and other jobs notice of that. */
#include "controller/park/park_int.h"
#include "tests/unit/controller/share/pool_kit.h"

static struct world *make(uint64_t seed)
{
	struct world *w = world_create(seed);

	w->warm_parked = 1;
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	return w;
}

/* A job leaves a pool on node a, and a launch is made ready there. */
static uint64_t leave(struct world *w)
{
	run_on(w, "a", submit(w, 600));
	return number(pool(w, "available", 0), "id");
}

static uint64_t leave_parked(struct world *w)
{
	uint64_t id = leave(w);

	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, NULL);
	return id;
}

static uint64_t sync_begins(struct world *w)
{
	uint64_t s = world_agent_connect(w, "a");

	world_agent_inventory(w, "a", s, 1, 4);
	world_msg(w, "a", s, WM_SYNC_BEGIN, &(struct wm_sync_begin){.instance = 1, .launches = 1});
	return s;
}

static void sync_ends(struct world *w, uint64_t s)
{
	world_msg(w, "a", s, WM_SYNC_END, &(struct wm_sync_end){.instance = 1});
	world_turn(w);
}

static void drop(struct world *w, uint64_t id)
{
	char ref[24];

	snprintf(ref, sizeof ref, "%llu", (unsigned long long)id);
	is_int(world_request(w, REQ_POOL_DROP, 0, ref, "{}"), 200, "the pool is dropped");
}

/* The grace time of the last KILL to node a; -1: it got none. */
static int grace(struct world *w)
{
	struct sent *s;
	int ms = -1;

	while ((s = world_sent(w, "a", WM_KILL))) {
		ms = (int)((const struct wm_kill *)s->msg)->grace_ms;
		sent_free(s);
	}
	return ms;
}

static int is_free_of_stale(struct world *w)
{
	return node_find(w->core, "a")->stale == NULL;
}

/* ---- hearthd was started again ------------------------------------------------------------------------ */

static void test_restart(void)
{
	static const uint8_t states[] = {LAUNCH_PREPARING, LAUNCH_READY, LAUNCH_PARKED, LAUNCH_FAILED};

	for (size_t i = 0; i < sizeof states; i++) {
		struct world *w = make(300 + i);
		uint64_t b, s, id = leave(w);

		world_restart(w);
		world_forget(w);
		s = sync_begins(w);
		world_launch(w, "a", id, 1, states[i], 0, NULL);
		sync_ends(w, s);
		ok(is_free_of_stale(w), "a launch in state %u that was made at the restart blocks no node",
		   states[i]);
		is_int(grace(w), states[i] == LAUNCH_FAILED ? -1 : 0, "it is killed at once");
		ok(world_count(w, "a", WM_COLLECT) > 0, "and removed");
		pass(w, 2);
		is_int((int)world_count(w, "a", WM_PREPARE), 0, "the next one waits until it is gone");
		b = submit_as(w, "bob", SHORT);
		is_str(placed_on(w, b), "a", "another job gets the node");
		world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
		ok(w->core->parks.all == NULL, "then hearthd knows nothing of it");
		world_end_well(w);
	}
}

/* Its pool has ended meanwhile. */
static void test_restart_ended(void)
{
	struct world *w = make(310);
	uint64_t s, id = leave_parked(w);

	drop(w, id);
	world_restart(w);
	world_forget(w);
	s = sync_begins(w);
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, NULL);
	sync_ends(w, s);
	ok(is_free_of_stale(w), "a launch of an ended pool blocks no node");
	is_int(grace(w), 0, "it is killed at once");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	ok(w->core->parks.all == NULL, "then hearthd knows nothing of it");
	world_end_well(w);
}

/* A launch of a job that nobody knows blocks its node as before. */
static void test_unknown(void)
{
	struct world *w = make(311);

	world_launch(w, "a", 4711, 1, LAUNCH_RUNNING, 0, NULL);
	ok(!is_free_of_stale(w), "a launch of an unknown job keeps the node from work");
	world_launch(w, "a", 4711, 1, LAUNCH_CLEANED, 0, NULL);
	ok(is_free_of_stale(w), "until it is gone");
	world_end_well(w);
}

/* The order was sent, the connection broke, and the pool ended before the agent said what it has. */
static void test_dropped_between(void)
{
	struct world *w = make(312);
	uint64_t s, id = leave(w);

	world_forget(w);
	s = sync_begins(w);
	drop(w, id);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	sync_ends(w, s);
	ok(is_free_of_stale(w), "what was ordered in the last session blocks no node");
	is_int(grace(w), 0, "it is killed at once");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	ok(w->core->parks.all == NULL, "then hearthd knows nothing of it");
	world_end_well(w);
}

/* ---- GPUs that a parked launch still has ----------------------------------------------------------------
 */

static int goes(struct world *w)
{
	return (int)world_count(w, "a", WM_LAUNCH_GO);
}

/* Another user's job gets the GPU of a parked launch, and is ready. */
static uint64_t ready_beside(struct world *w, uint64_t *pool_id)
{
	uint64_t b;

	*pool_id = leave_parked(w);
	world_forget(w);
	b = submit_as(w, "bob", SHORT);
	is_str(placed_on(w, b), "a", "another user's job gets the node");
	is_int((int)world_count(w, "a", WM_PREPARE), 1, "it is prepared at once");
	world_launch(w, "a", b, 1, LAUNCH_READY, 0, NULL);
	is_int(goes(w), 0, "its ranks wait while processes of the parked launch may use the GPU");
	return b;
}

static void test_go_when_ended(void)
{
	static const uint8_t ends[] = {LAUNCH_ENDED, LAUNCH_CLEANED};

	for (size_t i = 0; i < sizeof ends; i++) {
		struct world *w = make(320 + i);
		uint64_t b, id;

		b = ready_beside(w, &id);
		world_launch(w, "a", id, 1, LAUNCH_STOPPING, 0, NULL);
		is_int(goes(w), 0, "also while these are being killed");
		world_launch(w, "a", id, 1, ends[i], 0, NULL);
		is_int(goes(w), 1, "they start as soon as these have ended");
		world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
		pass(w, 2);
		is_int(goes(w), 1, "and once");
		run_on(w, "a", b);
		is_str(world_status(w, b), "completed", "the job completes");
		world_end_well(w);
	}
}

static void test_go_after_a_second(void)
{
	struct world *w = make(323);
	uint64_t b, id;

	b = ready_beside(w, &id);
	world_advance(w, SECOND * 9 / 10);
	is_int(goes(w), 0, "0.9 s later they still wait");
	world_advance(w, SECOND * 2 / 10);
	is_int(goes(w), 1, "after a second they start");
	run_on(w, "a", b);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

/* Nobody waits for a launch that shares no GPU with the job. */
static void test_go_other_gpus(void)
{
	struct world *w = make(324);
	uint64_t b, id = leave_parked(w);

	drop(w, id);
	world_forget(w);
	b = submit_as(w, "bob", "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\"}");
	is_str(placed_on(w, b), "a", "a job without GPUs gets the node");
	world_launch(w, "a", b, 1, LAUNCH_READY, 0, NULL);
	is_int(goes(w), 1, "its ranks start at once");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	run_on(w, "a", b);
	world_end_well(w);
}

/* The processes that wait use no master port; the job that takes them has its own. */
static void test_ports(void)
{
	struct world *w = make(325);
	uint64_t id = leave_parked(w);
	unsigned used = 0;

	for (size_t i = 0; i < sizeof w->core->ports.used / sizeof w->core->ports.used[0]; i++)
		used += w->core->ports.used[i];
	is_int((int)used, 0, "a parked launch occupies no port");
	drop(w, id);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

/* A take-over failed, hearthd was started again, and what waited is still there. */
static void test_spoiled_restart(void)
{
	struct world *w = make(326);
	uint64_t s, b, id = leave_parked(w);
	const struct cjob *j;

	b = submit(w, 600);
	is_str(of_attempt(w, b, "level"), "launch", "a job takes the launch");
	world_launch(w, "a", b, 1, LAUNCH_FAILED, RC_AGENT, "mpirun is not running");
	world_restart(w);
	world_forget(w);
	s = sync_begins(w);
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, NULL);
	world_launch(w, "a", b, 1, LAUNCH_FAILED, RC_AGENT, "mpirun is not running");
	sync_ends(w, s);
	ok(is_free_of_stale(w), "what waited blocks no node");
	is_int(grace(w), 0, "it is killed at once");
	world_launch(w, "a", b, 1, LAUNCH_CLEANED, 0, NULL);
	j = job_find(w->core, b);
	is_int(j ? (int)j->r.attempts : 0, 2, "the job starts again meanwhile");
	is_str(placed_on(w, b), "a", "on the same node");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

/* Switched off, nothing waits any more: no job could take it. */
static void test_off_later(void)
{
	struct world *w = make(382);
	uint64_t id, s;

	id = leave_parked(w);
	w->warm_parked = 0;
	world_restart(w);
	world_forget(w);
	s = sync_begins(w);
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, NULL);
	sync_ends(w, s);
	ok(world_count(w, "a", WM_KILL) > 0, "a launch that waits ends when the setting is off");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	ok(w->core->parks.all == NULL, "and is forgotten");
	world_end_well(w);
}

int main(void)
{
	test_off_later();
	test_restart();
	test_restart_ended();
	test_unknown();
	test_dropped_between();
	test_go_when_ended();
	test_go_after_a_second();
	test_go_other_gpus();
	test_ports();
	test_spoiled_restart();
	return tap_done();
}
