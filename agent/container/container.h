/*
 * The room container: what a launch lives in, and how all of it is ended: control groups, namespaces, limits.
 *
 * container: one launch's. It survives the agent; the next agent adopts it.
 */
#ifndef HEARTH_AGENT_CONTAINER_CONTAINER_H
#define HEARTH_AGENT_CONTAINER_CONTAINER_H

#include "agent/base/agent_env.h"
#include "agent/base/paths.h"
#include "agent/base/user.h"
#include "common/base/err.h"
#include "common/base/xalloc.h"
#include <stdint.h>

struct cgroup;
struct container;
struct container_params {
	const char *name;  /* launch id */
	const char *token; /* HEARTH_TOKEN_LAUNCH value: the sweep's mark */
	const struct launch_paths *paths;
	const struct launch_user *user;
	uint64_t memory_bytes, disk_bytes; /* 0 none */
	const char *cache;                 /* folder of its warm pool; NULL none */
	uint64_t cache_bytes;              /* its limit, 0 none */
	const uint32_t *cpus;              /* real CPU numbers; NULL none */
	uint32_t n_cpus;
	double cpu_quota; /* CPUs; 0 none */
	int low;          /* others get the CPUs first */
	struct strv devices;
};
struct container_ops {
	/* The launch has passed its disk limit, or its memory limit without a cgroup: text says which. The caller
	 * runs the kill ladder. */
	void (*limit)(const char *text, int oom, void *arg);
	/* Its cache folder has passed its limit, likewise. */
	void (*cache_limit)(const char *text, void *arg);
	/* The container is complete: rc 0; or it failed: rc -1 and why, and it can only be destroyed. Called once
	 * after container_create, by the loop.
	 */
	void (*ready)(int rc, const struct err *why, void *arg);
};
/* Makes cgroups (v2, v1 or hybrid, as found), a holder of mount and IPC namespaces (for an ordinary user in a
 * user namespace, where the kernel allows it), and private /tmp (DATA/jobs/J.A/private/tmp), /dev/shm,
 * devpts, /opt/ml. The holder may wait for file servers, so ops->ready reports the end. RUN/J.A/container
 * records all of it for container_adopt. */
struct container *container_create(struct agent_env *env, const struct container_params *p,
                                   const struct container_ops *ops, void *arg, struct err *e);
/* Finds the container of an earlier agent. ops NULL: nobody watches the limits. ready is not called. A
 * container that was left half made is only for the sweeper and container_destroy; container_isolated is 0.
 */
struct container *container_adopt(struct agent_env *env, const struct container_params *p,
                                  const struct container_ops *ops, void *arg, struct err *e);
/* Adds what a shim needs to put its process inside. The strings are the container's. */
void container_shim(const struct container *c, struct strv *cgroup_procs, struct strv *oom_files,
                    uint32_t *holder_pid, uint64_t *holder_start);
const struct cgroup *container_groups(const struct container *c); /* for the sweeper; the container's */
/* Returns 1 when the launch has its own /tmp, /dev/shm and /opt/ml; 0: not permitted, or turned off. */
int container_isolated(const struct container *c);
/* Returns the container's own list of surprises (limits that are only watched ...), for the launch's `system`
 * stream. */
const struct strv *container_notes(const struct container *c);
int container_processes(struct container *c); /* number alive inside without shims; -1 unknown */
int container_oom_seen(struct container *c);
void container_destroy(struct container *c); /* also one that is not ready; directories stay */
/* Reaps holders that took their time to die. To be called now and then. */
void container_reap(void);
void container_forget(struct container *c);     /* frees memory only: the agent ends, the launch goes on */
void container_env_fini(struct agent_env *env); /* frees what all launches share about this machine */

#endif
