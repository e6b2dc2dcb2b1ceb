/*
 * launch_adopt: an agent that starts continues the launches of its predecessor, which it finds in RUN.
 *
 * - No plan and no shims: nothing was started, and the folder is removed.
 * - No plan, or a damaged one, and shims: the agent ends what may run (unreadable_launch.h).
 * - A plan or state of a newer agent: the launch goes on, and is reported (unreadable_launch.h).
 * - Another boot id: the machine was restarted. All processes are lost and reported so; then ENDED.
 * - PREPARING: shims and container are ended, and the launch is prepared from the start.
 * - READY, RUNNING: the container is adopted, shims are greeted, logs are followed again.
 * - Stopping: as RUNNING, and the ladder continues with the rest of its time.
 * - Being fenced (fence_mark.h): is fenced, whatever state it has.
 * - ENDED, FAILED: waits for COLLECT, or continues it.
 * - CLEANED: is reported again.
 *
 * An agent that is alone (endall.h) adopts only what may run, and leaves the rest to the next one.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "agent/base/trash.h"
#include "agent/command/env.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/launches.h"
#include "agent/launch/shimlink.h"
#include "agent/launch/unreadable_launch.h"
#include "agent/pool/pools.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "shim/shim.h"

#define RSH_ID_MAX 256
#define SAY_US     15000000u /* that shims have to say how they ended */
#define UNDO_MS    2000u     /* that a new start waits for the rest of a half made one */

static int is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void adopt_rsh_id(struct lproc *p)
{
	cleanup_free char *path = xasprintf("%s/rsh_id", p->dir);
	char *text;

	if (p->kind != PROC_ORTED || fs_read_file(path, RSH_ID_MAX, &text, NULL, NULL) < 0)
		return;
	p->rsh_id = text;
	p->went = 1;
}

/* Its state file names the shim. Where that is torn or gone, whoever serves its socket is asked instead: the
 * file is only what a shim leaves behind when it dies. */
static int find_shim(struct lproc *p, struct err *e)
{
	struct shim_state s;
	struct err torn = {0};

	if (shim_state_read(p->dir, &s, &torn) == 0) {
		p->id = s.shim;
		shim_state_fini(&s);
		return 0;
	}
	if (shim_identify(p->dir, &p->id, e) < 0)
		return err_set(e, torn.code, "its shim left no state (%s)", torn.text);
	log_warn("event=shim_without_state dir=%s pid=%d reason=\"%s\"", p->dir, (int)p->id.pid, torn.text);
	return 0;
}

static void adopt_proc(struct lproc *p)
{
	struct err e = {0};
	char *token;

	adopt_rsh_id(p);
	p->quit = lproc_was_quit(p);
	/* The earlier agent may have started it: and its failure must be reported. */
	p->went |= p->kind == PROC_RANK && launch_is_taken(p->l) && p->l->going;
	if (find_shim(p, &e) < 0) {
		lproc_end(p, PS_LOST, e.text);
		return;
	}
	token = shim_key_read(p->dir, &e);
	if (!token) {
		lproc_end(p, PS_LOST, e.text);
		return;
	}
	free(p->token);
	p->token = token;
	lproc_watch(p);
}

/* Their ends are durable at the controller and they were being released: nobody is missing, but some may not
 * have been told. */
static void adopt_released(struct launch *l, struct lproc *p)
{
	struct err e = {0};

	if (find_shim(p, &e) == 0) {
		adopt_proc(p);
		return;
	}
	LL_DELETE(l->procs, p);
	lproc_free(p);
}

static void adopt_procs(struct launch *l)
{
	struct lproc *p, *next;

	launch_list_procs(l);
	l->unkilled = 1; /* unknown: a sweep looks once more before the shims are released */
	for (p = l->procs; p; p = next) {
		next = p->next;
		if (l->releases_open)
			adopt_released(l, p);
		else if (is_dir(p->dir))
			adopt_proc(p);
		else
			lproc_end(p, PS_LOST, "nothing is left of its shim");
	}
}

/* ---- the machine was restarted ---------------------------------------------------------------------- */

static void lost_all(struct launch *l)
{
	l->going = 1; /* whatever it was, it ends as ENDED, with processes of unknown fate */
	launch_list_procs(l);
	l->state = LAUNCH_RUNNING;
	l->cls = RC_NODE_LOST;
	free(l->text);
	l->text = xstrdup("the node was restarted while the launch was on it");
	for (struct lproc *p = l->procs, *next; p; p = next) {
		next = p->next;
		lproc_end(p, PS_LOST, "the node was restarted");
	}
}

/* ---- prepared half ---------------------------------------------------------------------------------- */

/* Returns the folder of a rank's shim, then of those that launchers may have; NULL at the end. */
static char *shim_folder(const struct launch *l, uint32_t i)
{
	uint32_t ranks = l->plan->local_ranks;
	const struct launcher_proc *proc = i < ranks ? NULL : launcher_proc_at(i - ranks);

	if (i < ranks)
		return xasprintf("%s/rank-%u", l->paths.run, i);
	return proc ? xasprintf("%s/%s", l->paths.run, proc->name) : NULL;
}

/* Has a shim got its go? A shim that waited and got an order to end has a mark in its folder. */
static int has_begun(const struct launch *l)
{
	int begun = 0;

	for (uint32_t i = 0; !begun; i++) {
		cleanup_free char *dir = shim_folder(l, i), *quit = xasprintf("%s/quit", dir ? dir : "");
		struct shim_state s;

		if (!dir || (launch_is_taken(l) && i >= l->plan->local_ranks)) /* its launcher ran before */
			break;
		if (shim_state_read(dir, &s, NULL) < 0)
			continue;
		begun = s.st.state >= PS_RUNNING && s.st.state != PS_PARKED && access(quit, F_OK) < 0;
		shim_state_fini(&s);
	}
	return begun;
}

/* The shims count more than the file, which may be older: a launch with a process that has begun must not be
 * undone like a half made one, and does not wait. */
static void correct_state(struct launch *l)
{
	if ((l->state != LAUNCH_PREPARING && l->state != LAUNCH_READY) || l->stopping || !has_begun(l))
		return;
	log_warn("event=life_was_old job=%" PRIu64 " attempt=%u state=%d", l->job, l->attempt, (int)l->state);
	l->state = LAUNCH_RUNNING;
	l->going = 1;
}

/* Kills the shims of a half made launch by their records, and what is in its container; they hold nothing of
 * value. A sweep must follow. */
static void kill_half(struct launch *l)
{
	struct err e = {0};

	launch_inside_drop(l);
	launch_container(l, 1, &e); /* for the sweep */
	for (uint32_t i = 0;; i++) {
		cleanup_free char *dir = shim_folder(l, i);
		struct shim_state s;
		int fd;

		if (!dir)
			break;
		if (shim_state_read(dir, &s, NULL) < 0)
			continue;
		fd = proc_open(&s.shim, NULL);
		if (fd >= 0) {
			proc_signal(fd, SIGKILL, NULL);
			close(fd);
		}
		shim_state_fini(&s);
	}
	l->n_phases = 0;
}

static void on_undone(int left, void *arg)
{
	struct launch *l = arg;

	l->sweep = NULL;
	if (left)
		log_warn("event=not_undone job=%" PRIu64 " attempt=%u left=%d", l->job, l->attempt, left);
	if (l->container)
		container_destroy(l->container);
	l->container = NULL;
	launch_prepare(l);
}

static void undo_half(struct launch *l)
{
	kill_half(l);
	if (!l->host->env->cfg.alone) {
		launch_ask_sweep(l, UNDO_MS, on_undone);
		return;
	}
	l->cls = RC_STOPPED;
	launch_open_logs(l);
	launch_sweep(l);
}

/* ---- going on --------------------------------------------------------------------------------------- */

static void go_on_over(struct launch *l)
{
	int keep = l->keep;

	/* Shims that are not released yet know the exact ends: they are asked once more, and reported once more.
	 */
	if (!l->collecting) {
		/* ENDED before the ends of its ranks would leave their fate unknown for good. */
		l->unsure = l->state == LAUNCH_ENDED && l->procs;
		if (l->unsure)
			launch_arm(l, SAY_US, launch_sure);
		else
			launch_keep_over(l);
		launch_prove_over(l);
		launch_report(l);
		return;
	}
	l->collecting = 0;
	launch_prove_over(l);
	launch_collect(l, keep && !l->releases_open);
}

static void go_on(struct launch *l)
{
	uint64_t now = clock_boot_us(l->host->env->clock);
	uint32_t left;

	launch_report(l);
	if (l->stopping) {
		left = l->kill_deadline_us > now ? (uint32_t)((l->kill_deadline_us - now) / 1000) : 0;
		l->stopping = 0;
		if (l->cls == RC_NODE_LOST) {
			launch_fence(l, l->kill_reason ? l->kill_reason : "fenced");
			return;
		}
		launch_kill(l, left < l->grace_ms ? left : l->grace_ms, l->kill_reason ? l->kill_reason : "stopped");
		return;
	}
	launch_check_end(l);
}

/* As launch_life.c has it; where that could not be written its folder tells. Nobody is asked: the node must
 * be back in the cluster before its lease ends. */
static void find_account(struct launch *l)
{
	struct stat st;

	if (l->user.name || stat(l->paths.ml, &st) < 0)
		return;
	l->user = (struct launch_user){.uid = st.st_uid,
	                               .gid = st.st_gid,
	                               .name = xstrdup(l->plan->m->account),
	                               .home = xstrdup("/"),
	                               .shell = xstrdup("/bin/sh")};
}

static void resume_launch(struct launch *l)
{
	struct err why = {0};

	find_account(l);
	launch_inside_drop(l);
	if (launch_is_parking(l))
		launch_make_logs(l);
	else
		launch_open_logs(l);
	launch_say(l, "agent %s has started again and continues this launch", l->host->env->cfg.node);
	if (launch_container(l, 1, &why) < 0 && !launch_is_over(l)) {
		log_warn("event=container_lost job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt,
		         why.text);
		launch_say(l, "container: %s", why.text);
	}
	if (l->going && !launch_is_parking(l) && !(l->collecting && l->releases_open))
		launch_keep_start(l);
	adopt_procs(l);
}

static void adopt_as(struct launch *l, int same_boot)
{
	int alone = l->host->env->cfg.alone;

	log_info("event=adopt job=%" PRIu64 " attempt=%u state=%d same_boot=%d", l->job, l->attempt,
	         (int)l->state, same_boot);
	if (alone && (!same_boot || l->state == LAUNCH_CLEANED || l->removing))
		return;
	if (!same_boot && !launch_is_over(l)) {
		launch_open_logs(l);
		lost_all(l);
		launch_sweep(l);
		return;
	}
	if (l->state == LAUNCH_PREPARING && !l->stopping && !launch_is_taken(l)) {
		undo_half(l);
		return;
	}
	if (l->state == LAUNCH_CLEANED) {
		launch_report(l);
		return;
	}
	if (launch_is_over(l) && l->removing) {
		launch_remove(l);
		return;
	}
	resume_launch(l);
	if (l->state == LAUNCH_PARKED)
		launch_park_adopted(l);
	if (l->state == LAUNCH_PREPARING && !l->stopping)
		launch_fail(l, RC_AGENT, "the agent was started again while the job took over a parked launch");
	if (!launch_is_over(l))
		go_on(l);
	else if (!alone)
		go_on_over(l);
}

/* As its state would be if the earlier agent had come to write it. */
static void set_fenced(struct launch *l, const char *why)
{
	l->cls = RC_NODE_LOST;
	l->stopping = 1;
	l->kill_deadline_us = clock_boot_us(l->host->env->clock);
	free(l->kill_reason);
	l->kill_reason = xstrdup(why);
}

struct launch *launch_adopt(struct launch_host *host, const char *key, const char *fenced, int *unreadable,
                            struct err *e)
{
	cleanup_free char *dir = xasprintf("%s/%s", host->env->cfg.run_dir, key);
	struct plan *plan = plan_load(dir, e);
	struct launch *l;
	int same_boot = 0;

	*unreadable = 0;
	if (!plan) {
		/* The agent writes the plan first: without a plan and a shim the folder holds nothing else. */
		*unreadable = e->code != ERR_NOT_FOUND || unreadable_launch_has_shims(dir);
		if (!*unreadable)
			trash_put(host->trash, dir, key, NULL);
		return NULL;
	}
	l = launch_new(host, plan);
	if (strcmp(l->folder, key) != 0) {
		err_set(e, ERR_PROTOCOL, "the plan in it is that of launch %s", l->key);
		launch_free(l);
		*unreadable = 1;
		return NULL;
	}
	if (launch_load(l, &same_boot, e) < 0) {
		if (e->code == ERR_UNSUPPORTED) {
			launch_free(l);
			*unreadable = 1;
			return NULL;
		}
		/* The plan is there, its life is not: it died between the two files, before anything was started. */
		l->state = LAUNCH_PREPARING;
		same_boot = 1;
	}
	if (host->pools)
		l->pool = pools_take(host->pools, plan->m, NULL, e);
	if (l->state == LAUNCH_CLEANED)
		pools_quiet(l->pool);
	if (same_boot)
		correct_state(l);
	if (same_boot && fenced && !launch_is_over(l))
		set_fenced(l, fenced);
	adopt_as(l, same_boot);
	if (fenced && launch_is_over(l))
		launch_fence_upload(l);
	return l;
}
