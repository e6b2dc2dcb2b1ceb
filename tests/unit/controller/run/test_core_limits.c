/* Limits of time that count from the placement: max_runtime_s, and prepare_limit against a slow drip. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "controller/state/jobs.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define MINUTES(n) ((n)*60u)

static uint64_t submit(struct world *w, unsigned limit_s)
{
	char spec[200];

	snprintf(spec, sizeof(spec),
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"limits\": {\"max_runtime_s\": %u}}",
	         limit_s);
	return world_submit(w, spec);
}

/* Seconds in which the node fetches one byte after the other; or until the job stops. The agent beats each
 * second, as a real one: a node that misses two beats is suspect. */
static unsigned drip(struct world *w, uint64_t job, unsigned seconds)
{
	char phase[] = "staging", text[] = "";
	struct wm_launch_report m = {
	    .job = job, .attempt = 1, .state = LAUNCH_PREPARING, .phase = phase, .text = text};

	for (unsigned s = 0; s < seconds; s++) {
		if (strcmp(world_status(w, job), "stopping") == 0)
			return s;
		m.epoch = job_find(w->core, job)->r.epoch;
		m.done_bytes++;
		world_beat(w, "a");
		if (s % 5 == 0)
			world_msg(w, "a", 0, WM_LAUNCH_REPORT, &m);
		world_turn(w);
		world_advance(w, 1000000);
	}
	return seconds;
}

static void end(struct world *w, uint64_t job)
{
	world_launch(w, "a", job, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", job, 1, LAUNCH_CLEANED, 0, NULL);
}

static void test_preparing_counts(void)
{
	struct world *w = world_create(10);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = submit(w, MINUTES(2));
	drip(w, id, 100);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	for (int i = 0; i < 17; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
	is_str(world_status(w, id), "running", "117 s after the placement");
	world_beat(w, "a");
	world_advance(w, 5000000);
	is_str(world_status(w, id), "stopping", "122 s after the placement");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	end(w, id);
	is_str(world_reason(w, id), "time limit of 2m reached", "by its time limit");
	world_end_well(w);
}

static void test_end_while_preparing(void)
{
	struct world *w = world_create(11);
	uint64_t id;
	unsigned took;

	world_agent_up(w, "a", 1, 4);
	id = submit(w, MINUTES(2));
	took = drip(w, id, MINUTES(10));
	ok(took >= 120 && took <= 130, "the time limit ends an attempt that prepares: %u s", took);
	end(w, id);
	is_str(world_status(w, id), "failed", "and the job");
	is_str(world_reason(w, id), "time limit of 2m reached", "by its time limit");
	world_end_well(w);
}

static void test_prepare_limit(void)
{
	struct world *w = world_create(12);
	uint64_t id;
	unsigned took;

	world_agent_up(w, "a", 1, 4);
	id = submit(w, MINUTES(60 * 24));
	took = drip(w, id, MINUTES(60 * 5));
	ok(took >= MINUTES(240) && took <= MINUTES(240) + 10, "a slow drip ends at prepare_limit: %u s", took);
	end(w, id);
	is_str(world_status(w, id), "failed", "the job fails");
	like(world_reason(w, id), "preparing took longer than 4h: node a is not ready, in staging",
	     "and its reason names limit, node and phase");
	is_int(job_find(w->core, id) ? job_find(w->core, id)->r.attempts : 1, 1, "no other node is tried");
	world_end_well(w);
}

/* The time before hearthd started counts, too. */
static void test_restart(void)
{
	struct world *w = world_create(13);
	uint64_t id;
	unsigned took;

	world_agent_up(w, "a", 1, 4);
	id = submit(w, MINUTES(10));
	took = drip(w, id, MINUTES(5));
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	took += drip(w, id, MINUTES(20));
	ok(took >= MINUTES(10) && took <= MINUTES(10) + 15, "over a restart of hearthd: %u s", took);
	end(w, id);
	is_str(world_reason(w, id), "time limit of 10m reached", "by its time limit");
	world_end_well(w);
}

int main(void)
{
	test_preparing_counts();
	test_end_while_preparing();
	test_prepare_limit();
	test_restart();
	return tap_done();
}
