/*
 * limits: watches what the kernel does not limit: the bytes of a launch's folder on disk, and memory where
 * a controller is missing.
 *
 * A thread of its own measures (a tree may hold millions of files) and reports once, on the loop. The
 * period grows with the cost of a measurement.
 */
#ifndef HEARTH_AGENT_CONTAINER_LIMITS_H
#define HEARTH_AGENT_CONTAINER_LIMITS_H

#include "agent/container/cgroup.h"
#include "common/os/loop.h"

struct limits;
struct limits_params {
	struct loop *loop;
	const char *token; /* of the launch: its processes when there is no cgroup */
	const struct cgroup *cg;
	const char *dir;                   /* whose bytes count */
	const char *what;                  /* a literal that begins the text; NULL: "disk limit passed" */
	uint64_t memory_bytes, disk_bytes; /* 0: not watched */
	uint32_t period_ms;                /* 0 = 500 */
	void (*on_limit)(const char *text, int oom, void *arg);
	void *arg;
};
/* NULL when there is nothing to watch or no thread to be had (e). */
struct limits *limits_start(const struct limits_params *p, struct err *e);
void limits_stop(struct limits *l);

/* Processes whose environment holds HEARTH_TOKEN_LAUNCH=token; malloc'ed list. */
int limits_pids_of(const char *token, pid_t **pids);

#endif
