/*
 * data: what the serving half of the agent offers to the control half.
 */
#ifndef HEARTH_AGENT_DATA_H
#define HEARTH_AGENT_DATA_H

#include "agent/base/agent_env.h"

/* ---- inventory -------------------------------------------------------------------------------------------
 */
struct inventory;
struct inventory *inventory_create(
    struct agent_env *env, struct err *e); /* CPUs, memory, disk, hwloc, fabrics, GPUs (NVML or fake) */
void inventory_destroy(struct inventory *inv);
void inventory_fill(struct inventory *inv,
                    struct wm_inventory *m);                   /* owned parts: wire_fini(WM_INVENTORY, m) */
void inventory_beat(struct inventory *inv, struct wm_beat *m); /* cheap; owned parts as above */
/* CPUs nearest to these GPUs out of a set of allowed CPU numbers, n wanted; fallback: the first ones. Returns
 * how many were written. */
uint32_t inventory_cpus_near(struct inventory *inv, const uint32_t *gpus, uint32_t n_gpus,
                             const uint32_t *cpus, uint32_t n_cpus, uint32_t want, uint32_t *out);
/* CPU numbers behind slots (slot i of the node -> a CPU of this machine). */
uint32_t inventory_slot_cpu(struct inventory *inv, uint32_t slot);
/* Value for CUDA_VISIBLE_DEVICES (UUIDs or indexes), malloc'ed. "" when none. */
char *inventory_visible_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n);
/* Device nodes the container may open for these GPUs; NULL-terminated in *out. */
void inventory_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n, struct strv *out);
int inventory_has_fabric(const struct inventory *inv);
/* "k=v" lines: kernel, driver, CUDA, NCCL when found, Open MPI version, Python */
void inventory_software(struct inventory *inv, struct strv *out);

/* ---- container --------------------------------------------------------------------------------------------
 */
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

/* ---- bulk link
 * ---------------------------------------------------------------------------------------------- */
struct data_link;
struct data_link *data_link_create(struct agent_env *env, const char *ca_pem, const char *cert_path,
                                   const char *key_path);
void data_link_destroy(struct data_link *b);
/* The controller was found again: a link that waits for its turn is dialled at once. */
void data_link_dial_now(struct data_link *b);

/* ---- logs and metrics: follows segment files (shim.h) and sends them
 * ------------------------------------------------ */
struct tailer;
struct tailer *tailer_create(struct agent_env *env, struct data_link *b);
void tailer_destroy(struct tailer *t);
/* Starts following; after an agent restart called again: it asks nothing, the controller's acks and offsets
 * dedupe. metrics may be NULL. */
struct tail_params {
	uint64_t job, epoch;
	uint32_t attempt, rank; /* rank 0xffffffff: not a rank */
	const char *stream, *logdir;
	const struct job_spec *spec; /* metric patterns; NULL none (not kept after the call) */
};
struct tail *tail_start(struct tailer *t, const struct tail_params *p);
/* No more will be written: drain, send eof; done when all is durable at the controller. Segments are removed
 * as they become durable. */
void tail_finish(struct tail *tl, void (*done)(void *arg), void *arg);
void tail_destroy(struct tail *tl); /* forget (files stay) */
/* Last complete lines, at most max bytes, malloc'ed. */
char *tail_last_lines(const char *logdir, size_t max, size_t *n);

/* Agent's own lines in a launch's "setup" and "system" streams: same files, same tailer. Lines get a time
 * stamp. */
struct nodelog;
struct nodelog *nodelog_open(const char *logdir, const struct clock *clock, struct err *e);
void nodelog_line(struct nodelog *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nodelog_bytes(struct nodelog *n, const void *p, size_t len);
void nodelog_close(struct nodelog *n);

/* ---- staging
 * ------------------------------------------------------------------------------------------------ */
struct stage;
struct stage_params {
	uint64_t job, epoch;
	uint32_t attempt;
	const struct job_spec *spec; /* must live until done */
	const struct launch_paths *paths;
	const struct launch_user *user;
	const char *bundle_digest; /* NULL none */
	const struct wire_strv
	    *input_digests;      /* one per input: digest or uri of job:ID/kind inputs, "" for others */
	const char *resume_from; /* digest, file:// uri or NULL */
	int64_t resume_step;     /* that must be in it when it is a file:// uri; -1 any */
	struct nodelog *setup;   /* where progress and pip's output go */
};
struct stage_ops {
	void (*progress)(const char *phase, uint64_t done, uint64_t total,
	                 void *arg); /* phases: bundle, input:CH, requirements, resume */
	void (*done)(int rc, enum reason_class cls, const char *text, const char *venv_bin,
	             void *arg); /* venv_bin NULL none */
};
/* NULL when it could not be started: nothing is called then, the log says why. resume_from goes into
 * ml/checkpoints. Staging comes before container_create (linked inputs). */
struct stage *stage_start(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const struct stage_ops *ops, void *arg);
/* Lines "name==version" of the packages that the job's interpreter finds, asked of it by a thread, for
 * RUN_INFO "pip". text NULL: unknown, why says so. NULL when it could not be started (nothing is called
 * then). */
struct packages;
struct packages *stage_packages(struct agent_env *env, struct data_link *b, const char *venv_bin,
                                const struct launch_user *user,
                                void (*done)(const char *text, const char *why, void *arg), void *arg);
void packages_cancel(struct packages *p); /* void after done, as a stage's handle is */
void stage_cancel(struct stage *s);       /* no callback after this; returns at once, work stops behind */

/* ---- what a run leaves
 * ---------------------------------------------------------------------------------------- */
struct upload;
struct upload_result {
	const char *kind; /* model output failure checkpoint */
	const char *digest, *uri;
	uint64_t size_bytes, files;
};
struct upload_ops {
	void (*progress)(uint64_t done, uint64_t total, void *arg);
	void (*artifact)(const struct upload_result *r, void *arg);
	void (*done)(int rc, const char *text, void *arg);
};
/* model, output (without output/failure), checkpoints: to output_uri/JOB/KIND[/NODE] by file copy, or as
 * trees to hearthd; empty ones are left out. ERR_CONFLICT where an upload of a greater epoch has been. */
/* NULL when it could not be started (the folder is gone): nothing is called then, the log says why. */
struct upload *upload_start(struct agent_env *env, struct data_link *b, uint64_t job, uint32_t attempt,
                            uint64_t epoch, uint32_t node_rank, uint32_t n_nodes,
                            const struct launch_paths *paths, const struct launch_user *user,
                            const char *output_uri, const struct upload_ops *ops, void *arg);
void upload_cancel(struct upload *u);

#endif
