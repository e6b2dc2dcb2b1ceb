/*
 * priority: see priority.h. SCHED_RESET_ON_FORK keeps shims, and so jobs, from inheriting it.
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
