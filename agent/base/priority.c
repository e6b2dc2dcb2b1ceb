/*
 * priority: see priority.h. SCHED_RESET_ON_FORK keeps shims, and so jobs, from inheriting it. By nice values
 * alone a thread among hundreds that run gets a third of a CPU.
 */
#include "agent/base/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICE (-20)

void priority_raise(void)
{
	static const struct sched_param usual;

	if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &usual) == 0)
		setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

void priority_urgent(int on)
{
	static const struct sched_param lowest = {.sched_priority = 1};

	if (!on || sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) < 0)
		priority_raise();
}
