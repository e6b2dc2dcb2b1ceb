/*
 * launch_steps: the steps of a launch, for each other, for `launches` and for their callbacks. The order of
 * the steps is in launch.h.
 */
#ifndef HEARTH_AGENT_LAUNCH_LAUNCH_STEPS_H
#define HEARTH_AGENT_LAUNCH_LAUNCH_STEPS_H

#include "agent/launch/launch.h"
#include "agent/launch/lproc.h"
#include "shim/shim.h"

#define KEPT_OUTPUTS_FILE "kept" /* in the folder of a launch whose outputs could not be uploaded */

/* ---- prepare (launch_prepare.c, launch_procs.c) ----------------------------------------------------- */
void launch_prepare(struct launch *l);
/* Undoes the preparation and reports FAILED. */
void launch_fail(struct launch *l, enum reason_class cls, const char *text);
/* Makes some of the folders, from *at (0) on: a disk under load takes its time. Returns 1 when some are left,
 * 0 when all are made. */
int launch_make_dirs(const struct launch *l, unsigned *at, struct err *e);
int launch_write_config(struct launch *l, struct err *e); /* into input/config; launch_procs.c */
int launch_container(struct launch *l, int adopt, struct err *e);
void launch_gpus_note(const struct launch *l); /* settings of its GPUs, to be put back at its end */
/* Fills what is the same for all processes of the launch; before the launch has its container: half of it. */
void launch_order(const struct launch *l, struct shim_launch *s);
/* Makes the structs of the processes on this node; launch_spawn_proc starts a shim. */
void launch_list_procs(struct launch *l);
int launch_spawn_proc(struct lproc *p, struct err *e);
void launch_proc_ready(struct launch *l); /* one more shim answers: READY when all do */

/* ---- the agent's own programs in the container (launch_inside.c) ------------------------------------- */
/* Starts the making of l->build_key. Returns -1 when it could not start. */
int launch_build(struct launch *l, const struct stage_params *p, const struct stage_ops *ops);
/* For stage_packages. */
struct inside *launch_inside_packages(struct launch *l);
void launch_inside_stop(struct launch *l);      /* nothing more is started there, and what runs is killed */
int launch_inside_busy(const struct launch *l); /* 1: one may run */
/* Kills shims that an earlier agent left. */
void launch_inside_drop(const struct launch *l);
int launch_inside_is_folder(const char *name); /* below RUN/J.A: of such a shim */

/* ---- run (launch_run.c) ----------------------------------------------------------------------------- */
void launch_go(struct launch *l);
void launch_orted(struct launch *l, const struct wm_orted_start *m);
void launch_proc_changed(struct lproc *p); /* state of p is new */
void launch_check_end(struct launch *l);
void launch_sure(struct launch *l);                      /* its end may be reported */
void launch_limit(const char *text, int oom, void *arg); /* container's on_limit */

/* ---- checkpoints (launch_keep.c) -------------------------------------------------------------------- */
void launch_keep_start(struct launch *l);                       /* its ranks may write from now on */
void launch_keep_step(int64_t step, uint64_t at_us, void *arg); /* arg: the launch. A rank reported it */
void launch_keep_ended(struct lproc *p);
void launch_keep_over(struct launch *l); /* no process is left */
/* How much of its end is past, for reports. */
enum launch_over launch_how_over(const struct launch *l);
/* done(launch) when the newest checkpoint has its copy, or cannot have one. */
void launch_keep_flush(struct launch *l, void (*done)(void *arg));
void launch_keep_end(struct launch *l); /* the folders go; with keep, held checkpoints stay */

/* ---- facts for the record (launch_info.c) ----------------------------------------------------------- */
void launch_info_software(struct launch *l);
void launch_info_packages(struct launch *l); /* when the ranks run */
void launch_info_forget(void);               /* at the end of the process */

/* ---- kill (launch_kill.c) --------------------------------------------------------------------------- */
void launch_kill(struct launch *l, uint32_t grace_ms, const char *reason);
/* Lets the sweeper kill all of it at once, without a wait. launch_fence must follow. */
void launch_halt(struct launch *l);
/* Ends it as lost to a cut (launch_halt included), and cancels the upload. */
void launch_fence(struct launch *l, const char *why);
/* Sweeps strays after the last process, then reports ENDED (FAILED when it never was READY). */
void launch_sweep(struct launch *l);
void launch_inside_ended(struct launch *l); /* the end may have waited for it */
/* Asks the sweeper for this launch, in place of an earlier request. done clears l->sweep. */
void launch_ask_sweep(struct launch *l, uint32_t timeout_ms, void (*done)(int left, void *arg));

/* ---- collect (launch_collect.c) --------------------------------------------------------------------- */
void launch_collect(struct launch *l, int keep);
/* Cleans one that is over, as launch_collect does, without a report to hearthd. Up to CLEANED. */
void launch_discard(struct launch *l);
void launch_remove(struct launch *l); /* the last step, CLEANED follows */
int launch_is_uploading(const struct launch *l);
void launch_fence_upload(struct launch *l); /* as if COLLECT had not come */
void launch_collect_step(struct launch *l); /* an event that the clean-up may wait for */
void launch_report_failure_file(struct launch *l);
/* An adopted launch that is over: looks whether anything of it is left, and reports when nothing is. */
void launch_prove_over(struct launch *l);

/* ---- adopt (launch_adopt.c) ------------------------------------------------------------------------- */
/* Continues the launch in RUN/KEY; fenced: why an earlier agent had begun to fence it, NULL it had not.
 * Returns NULL with e when it cannot. Then *unreadable = 1: its plan cannot be read, and its processes may
 * run; 0: nothing of it can run, and the folder was removed.
 */
struct launch *launch_adopt(struct launch_host *host, const char *key, const char *fenced, int *unreadable,
                            struct err *e);

#endif
