/*
 * profile: what a seed alone decides of a run.
 */
#ifndef HEARTH_TESTS_WORLD_PROFILE_H
#define HEARTH_TESTS_WORLD_PROFILE_H

#include "tests/world/sim.h"

struct sim_options profile_of(uint64_t seed);
void profile_tmpdir(void); /* private folders on tmpfs where there is one */

#endif
