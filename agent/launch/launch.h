/*
 * The room launch: one launch (job, attempt) on this node from the order to the clean-up, and all of them. It
 * knows hearthd only by orders that come in and reports that go into the outbox.
 *
 * launch: the struct of one launch, its state, reports and file. lproc.h has its processes, launch_steps.h
 * its steps:
 *
 *   PREPARING  account, directories, logs, staging, container, environment, shims     launch_prepare.c
 *   READY      LAUNCH_GO / ORTED_START                                                launch_run.c
 *   RUNNING    processes come, change, end; when all have ended the rest is swept     launch_run.c, lproc.c
 *   STOPPING   kill ladder                                                            launch_kill.c
 *   ENDED      or FAILED (never ran): COLLECT uploads, drains logs, cleans            launch_collect.c
 *   CLEANED    forgotten when the controller has it durable
 *
 * A launch that waits for a job of its warm pool is PARKED in place of RUNNING; the job takes it over
 * (launch_park.h).
 *
 * What survives the agent: RUN/J.A/plan (the order), RUN/J.A/life (state, phases, kill and collect orders;
 * launch_life.c), the shims with their folders, the container's own file, the logs. launch_adopt.c makes the
 * same struct from them.
 */
#ifndef HEARTH_AGENT_LAUNCH_LAUNCH_H
#define HEARTH_AGENT_LAUNCH_LAUNCH_H

#include "agent/base/paths.h"
#include "agent/base/user.h"
#include "agent/command/plan.h"
#include "agent/container/container.h"
#include "agent/launch/launch_host.h"
#include "agent/logs/nodelog.h"
#include "agent/stage/packages.h"
#include "agent/stage/stage.h"
#include "agent/stage/upload.h"
#include "common/os/loop.h"

struct keeper;
struct lproc;
struct pool_folder;
struct sweep_ask;

struct lphase {
	char *name;
	uint64_t started_us, ended_us; /* wall clock; 0 = open */
};

#define LAUNCH_PHASES_MAX 16

struct launch {
	struct launch_host *host;
	struct plan *plan;
	uint64_t job, epoch;
	uint32_t attempt;
	char *key;    /* "17.2" */
	char *folder; /* of its files; another name than key when it took over a parked launch */
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
	char *build_key;     /* of the environment that is to be made; NULL none */
	struct stage *build; /* it is being made, inside the container */
	char *venv_bin;      /* NULL none */
	struct container *container;
	struct upload *upload;
	struct pool_folder *pool;  /* of its warm pool, or of its own; NULL none */
	struct packages *packages; /* being asked for */
	struct keeper *keeper;     /* of its checkpoints; NULL before the start */
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
	struct sweep_ask *sweep; /* request to the sweeper; NULL none */
	int proving;             /* that nothing is left; then it has ended */
	uint64_t prove_until_us;
	int to_fence;            /* halted; launch_fence is to follow */
	uint64_t lines_until_us; /* the end waits so long for lines of failures */
	uint64_t list_until_us;  /* the list of packages may take so long after the ranks */
	int collecting, keep;    /* COLLECT came */
	int draining;            /* uploads are through */
	int discarding;          /* hearthd does not want it any more: no uploads, no reports */
	int not_restored;        /* FAILED: the checkpoint that it begins with */
	int checkpoints_saved;   /* its folder of checkpoints is uploaded, or was empty */
	int saved;               /* hearthd has all results on record */
	unsigned upload_tries, tails_open, releases_open, release_tries;
	int released; /* this agent has released the shims; releases_open: this one or an earlier one has */
	int unsure;   /* adopted after its end; its shims have not all said yet how they ended */
	uint64_t gpus_until_us; /* the clean-up waits so long for memory of its GPUs; 0: not yet */
	uint64_t gpus_from_us;  /* a sample of before does not count */
	int gpus_done;
	uint8_t gpus_back; /* their settings are as before it */
	int unkilled;      /* something may be left that could not be killed */
	int removing;      /* only its folders are left, and trash removes them */
	int kept_outputs;  /* the upload failed: the folder stays */
	struct launch *prev, *next;
};

/* ---- life (launch.c) -------------------------------------------------------------------------------- */
/* Takes plan. Nothing is on disk yet. */
struct launch *launch_new(struct launch_host *host, struct plan *plan);
void launch_free(struct launch *l); /* memory only; processes, container and files stay */
void launch_set_state(struct launch *l, enum launch_state state); /* saves and reports */
/* The same for a state that must be on record first. -1: nothing was changed or reported. */
int launch_try_state(struct launch *l, enum launch_state state, struct err *e);
void launch_phase(struct launch *l,
                  const char *name); /* closes the open phase, opens this one; NULL only closes */
void launch_arm(struct launch *l, uint64_t delay_us, void (*fn)(struct launch *));
void launch_say(struct launch *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* a line of the system stream */
void launch_report(struct launch *l);
void launch_run_info(struct launch *l, const char *kind, const char *text);
/* A sentence for the job's owner: a line of the system stream and an event of the job. key: the same for the
 * same thing. arg: the launch. */
/* A line of a stream names a failure. rank NO_RANK: a launcher's output. */
void launch_failure(const char *stream, uint32_t rank, const struct cause *c, void *arg);
void launch_warn(const char *key, const char *text, void *arg);
int launch_is_over(const struct launch *l); /* no process is left: ENDED, FAILED, CLEANED */
void launch_make_logs(struct launch *l);    /* the streams of the agent's own lines */
void launch_open_logs(struct launch *l);    /* and their tails */

/* ---- persistence (launch_life.c) -------------------------------------------------------------------- */
int launch_save(struct launch *l, struct err *why); /* why: NULL allowed; a failure is logged */
/* Fills state, phases, orders from RUN/J.A/life. *same_boot: the machine was not restarted since. */
int launch_load(struct launch *l, int *same_boot, struct err *e);

#endif
