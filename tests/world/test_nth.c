/*
 * One fault, everywhere: two gangs of two nodes, one by mpirun, run well but for the n-th step of either
 * agent, or the n-th commit of hearthd, for n = 1, 2, ... until there is no n-th. Nobody but one process dies
 * and no shim does, so every job must complete. One seed, 20 with HEARTH_SOAK=1; HEARTH_SEED=N runs that
 * one.
 */
#include "tests/lib/tap.h"
#include "tests/world/profile.h"
#include <stdio.h>

static struct sim_options gentle(uint64_t seed)
{
	return (struct sim_options){
	    .seed = seed, .nodes = 2, .jobs = 2, .fault_us = 8000000, .max_faults = 0, .gentle = 1};
}

static int run(struct sim_options o, struct sim_result *r, const char *what, uint32_t n)
{
	if (sim_run(&o, r) == 0)
		return 0;
	tap_diag("%s %u: %s", what, n, r->bad);
	o.trace = 1;
	sim_run(&o, r);
	ok(0, "%s %u: %s", what, n, r->bad);
	return -1;
}

static void agent(uint64_t seed, uint32_t which, uint32_t again)
{
	struct sim_result r = {.agent_steps = 1};
	uint32_t n, bad = 0;

	for (n = 1; n <= r.agent_steps && bad < 3; n++) {
		struct sim_options o = gentle(seed);

		o.agent_dies_at = n;
		o.agent_that_dies = which;
		o.agent_dies_again = again;
		bad += run(o, &r, "the agent dies at its step", n) < 0;
	}
	ok(!bad && n > 50, "agent %u that dies at any of %u steps%s costs no job its success", which + 1, n - 1,
	   again ? ", and soon again," : "");
}

static void hearthd(uint64_t seed, int durable)
{
	struct sim_result r = {.commits = 1};
	uint32_t n, bad = 0;

	for (n = 1; n <= r.commits && bad < 3; n++) {
		struct sim_options o = gentle(seed);

		o.hearthd_dies_at = n;
		o.durable = durable;
		bad += run(o, &r, "hearthd dies at its commit", n) < 0;
	}
	ok(!bad && n > 20, "hearthd may die at any of %u commits, which %s", n - 1,
	   durable ? "is durable" : "is not durable");
}

static void store(uint64_t seed)
{
	struct sim_result r = {.commits = 1};
	uint32_t n, bad = 0;

	for (n = 1; n <= r.commits && bad < 3; n++) {
		struct sim_options o = gentle(seed);

		o.commit_fails_at = n;
		bad += run(o, &r, "a commit fails:", n) < 0;
	}
	ok(!bad && n > 20, "any of %u commits may fail", n - 1);
}

int main(void)
{
	const char *given = getenv("HEARTH_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
	uint64_t last = given ? seed : getenv("HEARTH_SOAK") ? 20 : 1;

	profile_tmpdir();
	for (; seed <= last; seed++) {
		for (uint32_t which = 0; which < 2; which++) {
			agent(seed, which, 0);
			agent(seed, which, 3);
			agent(seed, which, 8);
		}
		hearthd(seed, 0);
		hearthd(seed, 1);
		store(seed);
	}
	return tap_done();
}
