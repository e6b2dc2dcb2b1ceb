/*
 * core_state: the clocks of the core.
 */
#include "controller/state/core_state.h"

uint64_t now_boot(const struct core *c)
{
	return clock_boot_us(c->io.clock);
}

uint64_t now_real(const struct core *c)
{
	return clock_real_us(c->io.clock);
}

uint64_t sched_time(const struct core *c)
{
	return c->alloc.base_s + now_boot(c) / 1000000;
}
