/*
 * env_ahead: a node makes the environment of the requirements of a job, and downloads its http inputs, ahead
 * of a launch that may come (PREFETCH). The launch then finds both in the caches.
 *
 * pip runs code of the job's owner and of packages, so a build has what the build of a launch has: the job's
 * account, a container with the job's limits, a shim, a mark. It has no GPUs, and other jobs of the node go
 * before it. One order is carried out at a time, for AHEAD_MS at most, and AHEAD_QUEUE wait. A job is
 * prepared once.
 *
 * RUN/ahead-J.N and DATA/jobs/ahead-J.N are its folders. An agent that starts removes what an earlier one
 * left.
 */
#ifndef HEARTH_AGENT_LAUNCH_ENV_AHEAD_H
#define HEARTH_AGENT_LAUNCH_ENV_AHEAD_H

#include "agent/launch/launch_host.h"
#include "common/net/wire_msg.h"

#define AHEAD_QUEUE 8                  /* orders that wait: one more ends the last of them */
#define AHEAD_MS    (30u * 60u * 1000) /* for one order, with a wait for another job's build */

struct env_ahead_ops {
	void (*send)(uint16_t type, const void *msg, void *arg); /* to hearthd */
};
struct env_ahead;
struct env_ahead *env_ahead_create(struct launch_host *host, const struct env_ahead_ops *ops, void *arg);
/* NULL is allowed from here on: the agent is alone. */
void env_ahead_destroy(struct env_ahead *a); /* ends what runs, and waits for it a moment */
/* Without a spec: as env_ahead_cancel, when there are no trees either. */
void env_ahead_order(struct env_ahead *a, const struct wm_prefetch *m);
/* The job has a launch here. One that is being carried out goes on: the launch waits for the environment. */
void env_ahead_launched(struct env_ahead *a, uint64_t job);
void env_ahead_cancel(struct env_ahead *a, uint64_t job); /* nobody needs it */

#endif
