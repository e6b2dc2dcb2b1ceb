/*
 * launch_kill: the ladder over a whole launch, and the proof that nothing is left.
 *
 * - At once: the ranks get SHIM_QUIT (their shims send TERM, wait for the grace time, send KILL); staging
 *   is cancelled.
 * - After the ranks: launchers (mpirun, orted, torchrun) end by themselves. LAUNCHER_US later they get
 *   SHIM_QUIT, too.
 * - After grace + 5 s: the agent kills everything in the container and everything with the launch's mark,
 *   again and again for SWEEP_US.
 * - Then ENDED, with a text when a process could not be killed. The outputs are uploaded all the same, but
 *   CLEANED, which frees GPUs and CPUs, waits until that process is gone (launch_collect.c).
 *
 * The same sweep runs after every end: a rank may have left a process behind that is not a descendant of
 * its shim any more. It also waits for the agent's own programs in the container (launch_inside.c).
 *
 * A fence waits for nobody: the lease leaves it less than these 5 s (docs/spec/08-lease.md).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/user.h"
#include "agent/launch/launch_steps.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/proc.h"

#define MARK        "HEARTH_TOKEN_LAUNCH"
#define LAUNCHER_US 2000000u
#define LAUNCHER_MS 1000u
#define MARGIN_US   5000000u
#define STEP_US     100000u
#define SWEEP_US    10000000u
#define LIST_US     2000000u /* a short run that ended well waits so long for the list of its packages */
#define SWEEP_MS    20u      /* that container_kill_all may hold up the loop */

static uint64_t now_us(const struct launch *l)
{
	return clock_boot_us(l->host->env->clock);
}

/* ---- ENDED ----------------------------------------------------------------------------------------------
 */

static void end_launch(struct launch *l, const char *left)
{
	enum launch_state end =
	    l->state == LAUNCH_PREPARING || (l->cls != RC_NONE && !l->going) ? LAUNCH_FAILED : LAUNCH_ENDED;

	launch_arm(l, 0, NULL);
	launch_phase(l, NULL);
	if (l->build)
		stage_cancel(l->build); /* it writes no more lines */
	l->build = NULL;
	if (left) {
		free(l->text);
		l->text = xstrdup(left);
	} else if (l->stopping && !l->text[0] && l->kill_reason) {
		free(l->text);
		l->text = xstrdup(l->kill_reason);
	}
	l->stopping = 0;
	l->host->launch_over(l->job, l->attempt, l->host->arg);
	if (end == LAUNCH_ENDED)
		launch_report_failure_file(l);
	launch_say(l, "ended on %s%s%s", plan_node_name(l->plan), left ? ": " : "", left ? left : "");
	launch_set_state(l, end);
}

/* Kills what there is; how many are left, -1: unknown. */
int launch_left(struct launch *l)
{
	int inside = l->container ? container_kill_all(l->container, SWEEP_MS) : 0;
	int marked = proc_count_env(MARK, l->plan->m->token, NULL);

	if (inside < 0 || marked < 0)
		return -1;
	if (inside > 0 || marked > 0)
		proc_sweep_env(MARK, l->plan->m->token, SIGKILL, 1, NULL);
	return marked > inside ? marked : inside;
}

static void sweep_step(struct launch *l)
{
	TEXT(left);
	int n;

	if (launch_inside_busy(l) && now_us(l) < l->list_until_us) {
		launch_arm(l, STEP_US, sweep_step);
		return;
	}
	launch_inside_stop(l);
	n = launch_left(l);
	if (n == 0 && launch_inside_busy(l))
		n = 1;

	if (n <= 0) {
		if (n < 0) /* unknown is not "none", but there is nobody to ask again */
			text_add(&left, "nobody knows whether processes are left");
		end_launch(l, n < 0 ? left.at : NULL);
		return;
	}
	if (now_us(l) < l->sweep_until_us) {
		launch_arm(l, STEP_US, sweep_step);
		return;
	}
	text_add(&left, "%d process(es) could not be killed (asleep in the kernel?)", n);
	log_error("event=not_killed job=%" PRIu64 " attempt=%u left=%d", l->job, l->attempt, n);
	l->unkilled = 1;
	end_launch(l, left.at);
}

void launch_sweep(struct launch *l)
{
	if (l->on_timer == sweep_step)
		return;
	if (FAULT("mistake.no_sweep")) {
		end_launch(l, NULL);
		return;
	}
	l->sweep_until_us = now_us(l) + SWEEP_US;
	l->list_until_us = l->stopping ? 0 : now_us(l) + LIST_US;
	launch_arm(l, 0,
	           sweep_step); /* not here: the caller may be a callback of a process that is to be freed */
}

void launch_inside_ended(struct launch *l)
{
	if (l->on_timer == sweep_step)
		launch_arm(l, 0, sweep_step);
}

/* ---- the ladder ------------------------------------------------------------------------------------- */

static int is_launcher(const struct lproc *p)
{
	return p->kind != PROC_RANK;
}

static void shim_did_not_end(struct lproc *p)
{
	/* Its shim had the order, the deadline is over, the container was killed: its fate is unknown. */
	lproc_end(p, PS_LOST, "it did not end in time");
}

static void ladder_step(struct launch *l)
{
	uint64_t now = now_us(l);
	int ranks = 0, launchers = 0;

	for (struct lproc *p = l->procs; p; p = p->next)
		if (!lproc_ended(p))
			*(is_launcher(p) ? &launchers : &ranks) += 1;
	if (ranks + launchers == 0) {
		launch_sweep(l);
		return;
	}
	if (ranks == 0 && !l->launchers_quit_us)
		l->launchers_quit_us = now + LAUNCHER_US;
	if (l->launchers_quit_us && now >= l->launchers_quit_us)
		for (struct lproc *p = l->procs; p; p = p->next)
			if (is_launcher(p) && !p->quit)
				lproc_quit(p, LAUNCHER_MS, BY_ORDER);
	if (now < l->kill_deadline_us) {
		launch_arm(l, STEP_US, ladder_step);
		return;
	}
	launch_say(l, "grace time is over, killing what is left");
	if (l->container)
		container_kill_all(l->container, SWEEP_MS);
	proc_sweep_env(MARK, l->plan->m->token, SIGKILL, 1, NULL);
	if (now < l->kill_deadline_us + MARGIN_US) {
		launch_arm(l, STEP_US * 5, ladder_step); /* the shims record the ends */
		return;
	}
	for (struct lproc *p = l->procs, *next; p; p = next) {
		next = p->next;
		shim_did_not_end(p);
	}
	launch_sweep(l);
}

/* Processes without a shim have no fate to report. */
static void drop_unspawned(struct launch *l)
{
	for (struct lproc **at = &l->procs; *at;) {
		struct lproc *p = *at;

		if (p->spawned || p->link) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		lproc_free(p);
	}
}

static void quit_ranks(struct launch *l, uint32_t grace_ms)
{
	for (struct lproc *p = l->procs; p; p = p->next) {
		/* A launcher that still waits for its go has nobody to wait for. */
		if (!is_launcher(p) || p->state != PS_RUNNING)
			lproc_quit(p, p->state == PS_RUNNING ? grace_ms : 0, BY_ORDER);
	}
}

void launch_kill(struct launch *l, uint32_t grace_ms, const char *reason)
{
	uint64_t deadline = now_us(l) + (uint64_t)grace_ms * 1000 + MARGIN_US;
	char *why;

	if (launch_is_over(l) || l->on_timer == sweep_step) {
		launch_report(l);
		return;
	}
	if (l->stopping && deadline >= l->kill_deadline_us)
		return; /* said again, not sooner */
	launch_say(l, "stopping: %s (grace %u ms)", reason, grace_ms);
	log_info("event=kill job=%" PRIu64 " attempt=%u grace_ms=%u reason=\"%s\"", l->job, l->attempt, grace_ms,
	         reason);
	user_ask_cancel(l->asking);
	l->asking = NULL;
	if (l->stage) {
		stage_cancel(l->stage);
		l->stage = NULL;
	}
	launch_inside_stop(l);
	l->stopping = 1;
	l->grace_ms = grace_ms;
	l->kill_deadline_us = deadline;
	why = xstrdup(reason); /* which may be the one that goes: adopted in the middle of its end */
	free(l->kill_reason);
	l->kill_reason = why;
	drop_unspawned(l);
	quit_ranks(l, grace_ms);
	if (l->state == LAUNCH_PREPARING || !l->procs) {
		/* PREPARING stays the state: nothing of the user's ran, it ends as FAILED, or as ENDED when it was
		 * ordered. */
		launch_save(l, NULL);
	} else {
		launch_set_state(l, LAUNCH_STOPPING);
	}
	launch_arm(l, l->procs ? STEP_US : 0, ladder_step);
	launch_check_end(l);
}

/* Not by the shims alone: one that hangs would leave its rank alive until the ladder's end, and by then
 * another node may run the job. They record the ends all the same. */
void launch_fence(struct launch *l, const char *why)
{
	int left;

	if (launch_is_over(l)) {
		launch_fence_upload(l);
		return;
	}
	l->cls = RC_NODE_LOST;
	launch_kill(l, 0, why);
	left = launch_left(l);
	log_warn("event=fenced job=%" PRIu64 " attempt=%u left=%d", l->job, l->attempt, left);
	if (!l->stopping)
		return;
	/* Each further step kills the rest. */
	l->kill_deadline_us = now_us(l);
	launch_save(l, NULL);
}
