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

struct container;
struct container_params {
	const char *name;  /* launch id */
	const char *token; /* HEARTH_TOKEN_LAUNCH value: the sweep's mark */
	const struct launch_paths *paths;
	const struct launch_user *user;
	uint64_t memory_bytes, disk_bytes; /* 0 none */
	const uint32_t *cpus;              /* real CPU numbers; NULL none */
	uint32_t n_cpus;
	double cpu_quota; /* CPUs; 0 none */
	struct strv devices;
};
struct container_ops {
	/* memory (no cgroup) or disk limit passed: text says which; the caller runs the kill ladder */
	void (*limit)(const char *text, int oom, void *arg);
	/* Once after container_create, by the loop: 0, or -1 and why; then it is good for container_destroy only.
	 */
	void (*ready)(int rc, const struct err *why, void *arg);
};
/* Makes cgroups (v2, v1 or hybrid, as found), a holder process with mount + IPC namespaces (as an ordinary
 * user in a user namespace, where the kernel allows it), private /tmp, /dev/shm, devpts, /opt/ml. The holder
 * may have to wait for file servers: ops->ready tells when it is done. Persists what it made in
 * RUN/J.A/container so that container_adopt finds it. */
struct container *container_create(struct agent_env *env, const struct container_params *p,
                                   const struct container_ops *ops, void *arg, struct err *e);
/* ops: NULL: limits are not watched. ready is not called. One that an agent left in the middle of making is
 * good for container_kill_all and container_destroy only: container_isolated is 0. */
struct container *container_adopt(struct agent_env *env, const struct container_params *p,
                                  const struct container_ops *ops, void *arg, struct err *e);
/* What a shim needs to put its process inside. Strings are the container's. */
void container_shim(const struct container *c, struct strv *cgroup_procs, struct strv *oom_files,
                    uint32_t *holder_pid, uint64_t *holder_start);
/* SIGKILLs everything inside (cgroup.kill, freezer, else sweep by token) except shims; returns processes left
 * after at most timeout_ms (0 = none). */
int container_kill_all(struct container *c, uint32_t timeout_ms);
/* 1: the launch has /tmp, /dev/shm and /opt/ml of its own (ml_seen is /opt/ml); 0: not allowed to, or turned
 * off. */
int container_isolated(const struct container *c);
/* What is not as one would expect (limits that are only watched ...), for the launch's `system` stream. The
 * container's. */
const struct strv *container_notes(const struct container *c);
int container_processes(struct container *c); /* alive inside, shims not counted; -1 unknown */
int container_oom_seen(struct container *c);
void container_destroy(struct container *c); /* also one that is not ready; directories stay */
/* What was ended and took its time to die: reaped when it has. To be called now and then. */
void container_reap(void);
void container_forget(struct container *c);     /* frees memory only: the agent ends, the launch goes on */
void container_env_fini(struct agent_env *env); /* what was found out about this machine for all launches */

#endif
