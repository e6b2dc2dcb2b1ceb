/*
 * launch: one launch (job, attempt) on this node, and what its files share.
 *
 *   PREPARING  account, directories, logs, staging, container, shims that wait        launch_prepare.c
 *   READY      LAUNCH_GO / ORTED_START                                                launch_run.c
 *   RUNNING    processes come, change, end; when all have ended the rest is swept     launch_run.c, lproc.c
 *   STOPPING   kill ladder                                                            launch_kill.c
 *   ENDED      or FAILED (never ran): COLLECT uploads, drains logs, cleans            launch_collect.c
 *   CLEANED    forgotten when the controller has it durable
 *
 * What survives the agent: RUN/J.A/plan (the order), RUN/J.A/life (state, phases, kill and collect orders;
 * launch_life.c), the shims with their folders, the container's own file, the logs. launch_adopt.c makes the
 * same struct from them.
 */
#ifndef HEARTH_AGENT_LAUNCH_H
#define HEARTH_AGENT_LAUNCH_H

#include "agent/agent_core.h"
#include "agent/command/plan.h"
#include "common/os/loop.h"

struct launch;
struct shimlink;

/* A process of a launch on this node, and its shim. */
struct lproc {
	struct launch *l;
	uint8_t kind;              /* enum proc_kind */
	uint32_t rank, local_rank; /* NO_RANK where it has no meaning */
	char *name;                /* rank-0, mpirun, orted: folder below RUN/J.A and logs/ */
	char *dir, *logdir;
	char *stream;      /* name of the log stream; NULL: goes to the system stream at the end */
	char *token;       /* of the shim; for orted the rsh_id once it is ordered */
	char *rsh_id;      /* of orted; NULL not ordered yet */
	struct proc_id id; /* of the shim */
	pid_t spawned;     /* while it gets ready; 0 else */
	int ready_fd;
	struct loop_fd *ready;
	struct shimlink *link;
	struct tail *tail;
	uint8_t state; /* enum proc_state */
	uint32_t pid, exit_code, signal;
	uint8_t oom, ended_by; /* ended_by: enum ended_by */
	uint64_t started_us, ended_us;
	char *text;
	char *last_lines; /* of a bad end */
	size_t last_lines_n;
	int went;   /* GO was sent */
	int quit;   /* told to end */
	int unsaid; /* its end is not reported: it never began, by our own order */
	struct lproc *next;
};

struct lphase {
	char *name;
	uint64_t started_us, ended_us; /* wall clock; 0 = open */
};

#define LAUNCH_PHASES_MAX 16

struct launch {
	struct agent *a;
	struct plan *plan;
	uint64_t job, epoch;
	uint32_t attempt;
	char *key; /* "17.2" */
	struct launch_paths paths;
	struct launch_user user;
	enum launch_state state;
	enum reason_class cls;
	char *text;
	struct lphase phases[LAUNCH_PHASES_MAX];
	unsigned n_phases;
	uint64_t done_bytes, total_bytes; /* progress of the open phase */
	uint64_t reported_us;             /* last progress report */

	struct nodelog *setup, *system;
	struct tail *setup_tail, *system_tail;
	struct user_ask *asking; /* for the account */
	unsigned dirs_made;
	struct stage *stage;
	char *venv_bin; /* NULL none */
	struct container *container;
	struct upload *upload;
	struct packages *packages; /* being asked for */
	struct lproc *procs;
	uint32_t *cpus; /* real CPU numbers of the job on this node */
	uint32_t n_cpus;
	int own_tmp; /* the container has a /tmp and /dev/shm of its own */

	struct loop_timer *timer; /* deadline of the present step */
	void (*on_timer)(struct launch *l);
	int going;    /* LAUNCH_GO came */
	int stopping; /* kill ladder runs */
	uint64_t kill_deadline_us;
	uint64_t launchers_quit_us; /* 0: ranks have not all ended yet */
	uint32_t grace_ms;
	char *kill_reason;
	char *limit_text; /* the limit that it was ended for; NULL none */
	int limit_oom;
	uint64_t sweep_until_us;
	int collecting, keep; /* COLLECT came */
	int draining;         /* uploads are through */
	int discarding;       /* nobody wants to know of it any more: no uploads, no reports */
	int saved;            /* all that it made is on record at the controller */
	unsigned upload_tries, tails_open, releases_open, release_tries;
	int released;     /* the shims were told by this agent; releases_open: by it, or by one before */
	int unsure;       /* adopted after its end; its shims have not all said yet how they ended */
	int unkilled;     /* something may be left that could not be killed */
	int removing;     /* nothing but its folders is left, and they are on their way out */
	int kept_outputs; /* they could not be uploaded: the directory stays */
	struct launch *prev, *next;
};

/* ---- life (launch.c) -------------------------------------------------------------------------------- */
/* Takes plan. Nothing is on disk yet. */
struct launch *launch_new(struct agent *a, struct plan *plan);
void launch_free(struct launch *l); /* memory only; processes, container and files stay */
void launch_set_state(struct launch *l, enum launch_state state); /* saves and reports */
/* The same for one that must be on record first: -1, nothing was changed or reported. */
int launch_try_state(struct launch *l, enum launch_state state, struct err *e);
void launch_phase(struct launch *l,
                  const char *name); /* closes the open phase, opens this one; NULL only closes */
void launch_arm(struct launch *l, uint64_t delay_us, void (*fn)(struct launch *));
void launch_say(struct launch *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* a line of the system stream */
void launch_report(struct launch *l);
void launch_run_info(struct launch *l, const char *kind, const char *text);
int launch_is_over(const struct launch *l); /* no process is left: ENDED, FAILED, CLEANED */
void launch_open_logs(struct launch *l);    /* node logs and their tails */

/* ---- persistence (launch_life.c) -------------------------------------------------------------------- */
int launch_save(struct launch *l, struct err *why); /* why: NULL allowed; a failure is logged */
/* Fills state, phases, orders from RUN/J.A/life. *same_boot: the machine was not restarted since. */
int launch_load(struct launch *l, int *same_boot, struct err *e);

/* ---- prepare (launch_prepare.c, launch_procs.c) ----------------------------------------------------- */
void launch_prepare(struct launch *l);
/* Ends what was made so far and reports FAILED. */
void launch_fail(struct launch *l, enum reason_class cls, const char *text);
/* Some of them, from *at (0) on: a disk under load takes its time. 1: there are more, 0: all are made. */
int launch_make_dirs(const struct launch *l, unsigned *at, struct err *e);
int launch_write_config(struct launch *l, struct err *e); /* into input/config; launch_procs.c */
int launch_container(struct launch *l, int adopt, struct err *e);
/* The processes that wait on this node, as structs; then as shims. */
void launch_list_procs(struct launch *l);
int launch_spawn_proc(struct lproc *p, struct err *e);
void launch_proc_ready(struct launch *l); /* one more shim answers: READY when all do */

/* ---- processes (lproc.c) ---------------------------------------------------------------------------- */
struct lproc *lproc_new(struct launch *l, uint8_t kind, uint32_t local_rank);
void lproc_free(struct lproc *p);
void launch_free_procs(struct launch *l); /* all of them */
int lproc_ended(const struct lproc *p);
void lproc_watch(struct lproc *p); /* id and token are known: link and tail */
void lproc_report(struct lproc *p);
void lproc_quit(struct lproc *p, uint32_t grace_ms, enum ended_by by);
int lproc_was_quit(const struct lproc *p); /* by this agent or the one before, while it waited */
void lproc_end(struct lproc *p, enum proc_state state, const char *text); /* an end without a shim's record */

/* ---- run (launch_run.c) ----------------------------------------------------------------------------- */
void launch_go(struct launch *l);
void launch_orted(struct launch *l, const struct wm_orted_start *m);
void launch_proc_changed(struct lproc *p); /* state of p is new */
void launch_check_end(struct launch *l);
void launch_sure(struct launch *l);                      /* its end may be told */
void launch_limit(const char *text, int oom, void *arg); /* container's on_limit */

/* ---- facts for the record (launch_info.c) ----------------------------------------------------------- */
void launch_info_software(struct launch *l);
void launch_info_packages(struct launch *l); /* when the ranks run */
void launch_info_forget(void);               /* at the end of the process */

/* ---- kill (launch_kill.c) --------------------------------------------------------------------------- */
void launch_kill(struct launch *l, uint32_t grace_ms, const char *reason);
/* SIGKILL to all of it before it returns, and no upload goes on. */
void launch_fence(struct launch *l, const char *why);
/* All processes have ended: sweep strays, then ENDED (FAILED when it never was READY). */
void launch_sweep(struct launch *l);
int launch_left(struct launch *l); /* kills all that is left, and counts it; -1 unknown */

/* ---- collect (launch_collect.c) --------------------------------------------------------------------- */
void launch_collect(struct launch *l, int keep);
/* For one that is over: as launch_collect without the controller, to which nothing is told. Up to CLEANED. */
void launch_discard(struct launch *l);
void launch_remove(struct launch *l); /* the last step, CLEANED follows */
int launch_is_uploading(const struct launch *l);
void launch_fence_upload(struct launch *l); /* as if COLLECT had not come */
void launch_collect_step(struct launch *l); /* something that the clean-up may wait for has happened */
void launch_report_failure_file(struct launch *l);

/* ---- adopt (launch_adopt.c) ------------------------------------------------------------------------- */
/* The launch in RUN/KEY, going on where it was; NULL when there is nothing to go on with, and e says why.
 * Then *unreadable = 1: its plan cannot be read, its processes may run; 0: nothing of it can run, the folder
 * was removed.
 */
struct launch *launch_adopt(struct agent *a, const char *key, int *unreadable, struct err *e);

#endif
