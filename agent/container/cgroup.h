/*
 * cgroup: the control groups of one launch, in version 2, version 1 or a mixture, as this machine has them.
 *
 * Root's groups are below the top of each hierarchy: BASE/hearth/NODE/LAUNCH. They are not below the agent's
 * own group, because a service manager that stops the agent would end the launches with it. The groups of an
 * ordinary user are below the agent's own group, where the system has delegated that. A missing controller,
 * or one that refuses, does not fail the launch: the notes list what the kernel does not enforce, and the
 * caller falls back.
 */
#ifndef HEARTH_AGENT_CONTAINER_CGROUP_H
#define HEARTH_AGENT_CONTAINER_CGROUP_H

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include <stdint.h>
#include <sys/types.h>

enum cg_kind {
	CG_V2,
	CG_MEMORY,
	CG_CPU,
	CG_CPUSET,
	CG_PIDS,
	CG_DEVICES,
	CG_FREEZER,
	CG_N
}; /* all but the first: version 1 */

struct cg_layout {
	char *base[CG_N];    /* folder below which groups may be made; NULL: none */
	char *of_node[CG_N]; /* the node's folder there, once cgroup_create has made it; NULL: not yet */
};
/* Finds what is mounted and may be used. mountinfo, self: /proc/self/{mountinfo,cgroup} (tests bring their
 * own). */
void cg_layout_read(struct cg_layout *l, const char *mountinfo, const char *self, int is_root);
void cg_layout_fini(struct cg_layout *l);

struct cg_limits {
	uint64_t memory_bytes; /* 0 none */
	const uint32_t *cpus;  /* NULL: all */
	uint32_t n_cpus;
	double cpu_quota;  /* CPUs, 0 none */
	int low;           /* others get the CPUs first */
	uint32_t pids_max; /* 0 none */
	int restrict_devices;
	const struct strv *devices; /* paths allowed besides the standard ones */
};

struct cgroup {
	char *dir[CG_N];    /* of this launch; NULL: not there */
	int memory_limited; /* the kernel enforces memory_bytes */
};
/* node: unique on this machine; name: of the launch. Always fills *cg (all NULL when nothing can be made). */
void cgroup_create(struct cgroup *cg, struct cg_layout *l, const char *node, const char *name,
                   const struct cg_limits *lim, struct strv *notes);
void cgroup_fini(struct cgroup *cg); /* memory only */

/* Lines "KIND PATH" for the record of a launch, and back. */
void cgroup_save(const struct cgroup *cg, struct strv *out);
/* Returns 0 for a line of such a record, else -1. The folder must have the launch's name, because everything
 * in it is killed and removed one day. name NULL: any launch's. */
int cgroup_load_line(struct cgroup *cg, const char *name, const char *line);

void cgroup_procs_files(const struct cgroup *cg, struct strv *out); /* where a process writes itself in */
void cgroup_oom_files(const struct cgroup *cg, struct strv *out);
int cgroup_oom_kills(const struct cgroup *cg); /* how many; -1 unknown */
/* Living processes inside, sub-groups included; malloc'ed; -1 when there is no group to ask. */
int cgroup_pids(const struct cgroup *cg, pid_t **pids);
/* Stops everything inside within microseconds: kills it, or freezes it where the kernel cannot kill a group.
 * cgroup_kill must follow. */
void cgroup_halt(const struct cgroup *cg);
void cgroup_kill(const struct cgroup *cg); /* SIGKILL to everything inside, once, frozen or not */
/* Removes the folders (and empty ones above); 0 when all are gone. */
int cgroup_remove(struct cgroup *cg, struct err *e);

/* ---- cgroup_dev.c ---------------------------------------------------------------------------------- */

/* Only the standard devices (null, zero, random, tty, pts ...) and these; making nodes stays allowed. */
int cgroup_dev_v1(const char *dir, const struct strv *devices, struct err *e);
int cgroup_dev_v2(const char *dir, const struct strv *devices, struct err *e); /* a BPF program */

#endif
