/*
 * priority: the agent's loop and its sweeper go before the jobs of the machine, because the lease leaves a
 * fence little time, and thousands of processes that die at once keep every CPU busy.
 */
#ifndef HEARTH_AGENT_BASE_PRIORITY_H
#define HEARTH_AGENT_BASE_PRIORITY_H

/* Raises the calling thread. What it starts, processes and threads, has the usual priority. Without the right
 * nothing changes. */
void priority_raise(void);
/* Real-time scheduling of the calling thread, for as long as a fence needs the loop; 0: as priority_raise. */
void priority_urgent(int on);

#endif
