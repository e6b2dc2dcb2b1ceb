/*
 * profile: see the header.
 */
#include "tests/world/profile.h"
#include <stdlib.h>
#include <unistd.h>

struct sim_options profile_of(uint64_t seed)
{
	uint64_t r = seed;
	struct sim_options o = {.seed = seed, .max_faults = UINT32_MAX};

	o.nodes = 1 + sim_rnd(&r, 5);
	o.jobs = 1 + sim_rnd(&r, 10);
	o.fault_us = sim_span(&r, 20000000, 120000000);
	for (int i = 0; i < SIM_N_FAULT; i++)
		o.faults |= (uint32_t)(sim_rnd(&r, 3) == 0) << i;
	if (sim_rnd(&r, 10) == 0)
		o.faults = 0;
	if (sim_rnd(&r, 10) == 0)
		o.faults = (1u << SIM_N_FAULT) - 1;
	o.rules = (int)sim_rnd(&r, 2);
	o.lease_ms = sim_rnd(&r, 2) ? 3000 : 10000;
	return o;
}

void profile_tmpdir(void)
{
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
}

const char *__asan_default_options(void);

/* The memory of an agent that dies in the middle of something is lost by intent. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
