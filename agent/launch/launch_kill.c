/*
 * launch_kill: the ladder over a whole launch, and the proof that nothing is left.
 *
 * - At once: the ranks get SHIM_QUIT (their shims send TERM, wait for the grace time, send KILL); staging
 *   is cancelled.
 * - After the ranks: launchers (mpirun, orted, torchrun) end by themselves. LAUNCHER_US later they get
 *   SHIM_QUIT, too.
 * - After grace + 5 s: the sweeper kills everything in the container and everything with the launch's mark,
 *   again and again for PROOF_US.
 * - Then ENDED, with a text when a process could not be killed. The outputs are uploaded all the same, but
 *   CLEANED, which frees GPUs and CPUs, waits until that process is gone (launch_collect.c).
 *
 * The same sweep runs after every end: a rank may have left a process behind that is not a descendant of
 * its shim any more. It also waits for the agent's own programs in the container (launch_inside.c).
 *
 * A fence waits for nobody: the lease leaves it less than these 5 s (docs/spec/08-lease.md). launch_halt asks
 * the sweeper, whose thread kills; launch_fence does the rest, which may take the loop some time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/user.h"
#include "agent/container/sweeper.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"

#define LAUNCHER_US 2000000u
#define LAUNCHER_MS 1000u
#define MARGIN_US   5000000u
#define STEP_US     100000u
#define LIST_US     2000000u /* a short run that ended well waits so long for the list of its packages */
#define PROOF_US    10000000u
#define LINES_US    2000000u /* the end waits so long for the line that names the failure */
#define LINES_STEP  20000u

static uint64_t now_us(const struct launch *l)
{
	return clock_boot_us(l->host->env->clock);
}

/* ---- ENDED ----------------------------------------------------------------------------------------------
 */

static void end_launch(struct launch *l, const char *left)
{
	enum launch_state end =
	    l->state == LAUNCH_PREPARING || (l->cls != RC_NONE && (!l->going || launch_is_parking(l)))
	        ? LAUNCH_FAILED
	        : LAUNCH_ENDED;

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

static void ask_sweeper(struct launch *l, uint32_t timeout_ms, int urgent, void (*done)(int left, void *arg))
{
	struct sweep_params p = {.token = l->plan->m->token,
	                         .container = l->container,
	                         .timeout_ms = timeout_ms,
	                         .urgent = urgent,
	                         .done = done,
	                         .arg = l};

	sweep_cancel(l->sweep);
	l->sweep = sweeper_ask(l->host->sweeper, &p);
}

void launch_ask_sweep(struct launch *l, uint32_t timeout_ms, void (*done)(int left, void *arg))
{
	ask_sweeper(l, timeout_ms, l->cls == RC_NODE_LOST, done);
}

/* hearthd decides about a restart when it hears ENDED: a line of an ImportError that comes later would be too
 * late. Nothing of the launch runs any more, so its logs are complete. */
static int has_unread_lines(const struct launch *l)
{
	int unread = 0;

	for (struct lproc *p = l->procs; p && l->cls != RC_NODE_LOST; p = p->next)
		if (p->tail && lproc_ended(p) && (p->state != PS_EXITED || p->exit_code || p->signal))
			unread |= !tail_read_rest(p->tail);
	return unread;
}

static void end_with_lines(struct launch *l)
{
	if (has_unread_lines(l) && now_us(l) < l->lines_until_us) {
		launch_arm(l, LINES_STEP, end_with_lines);
		return;
	}
	l->proving = 0;
	end_launch(l, NULL);
}

static void prove_step(struct launch *l);

static void on_proof(int n, void *arg)
{
	struct launch *l = arg;
	TEXT(left);

	l->sweep = NULL;
	if (n == 0 && launch_inside_busy(l)) { /* its thread has not noticed the end yet */
		if (now_us(l) < l->prove_until_us) {
			launch_arm(l, STEP_US, prove_step);
			return;
		}
		n = 1;
	}
	if (n == 0) {
		l->lines_until_us = now_us(l) + LINES_US;
		end_with_lines(l);
		return;
	}
	l->proving = 0;
	if (n < 0) { /* unknown is not "none", but there is nobody to ask again */
		text_add(&left, "nobody knows whether processes are left");
	} else {
		text_add(&left, "%d process(es) could not be killed (asleep in the kernel?)", n);
		log_error("event=not_killed job=%" PRIu64 " attempt=%u left=%d", l->job, l->attempt, n);
		l->unkilled = 1;
	}
	end_launch(l, left.at);
}

static void prove_step(struct launch *l)
{
	uint64_t now = now_us(l);

	if (launch_inside_busy(l) && now < l->list_until_us) {
		launch_arm(l, STEP_US, prove_step);
		return;
	}
	launch_inside_stop(l);
	launch_ask_sweep(l, l->prove_until_us > now ? (uint32_t)((l->prove_until_us - now) / 1000) : 0, on_proof);
}

void launch_sweep(struct launch *l)
{
	if (l->proving)
		return;
	if (FAULT("mistake.no_sweep")) {
		end_launch(l, NULL);
		return;
	}
	l->proving = 1;
	l->prove_until_us = now_us(l) + PROOF_US;
	l->list_until_us = l->stopping ? 0 : now_us(l) + LIST_US;
	launch_arm(l, 0, prove_step);
}

/* Nothing but the kill was wanted: launch_sweep proves it. */
static void on_killed(int left, void *arg)
{
	(void)left;
	((struct launch *)arg)->sweep = NULL;
}

static void kill_rest(struct launch *l, int urgent)
{
	if (!l->sweep)
		ask_sweeper(l, MARGIN_US / 1000, urgent, on_killed);
}

void launch_inside_ended(struct launch *l)
{
	if (l->on_timer == prove_step)
		launch_arm(l, 0, prove_step);
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
	kill_rest(l, 0);
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

	if (launch_is_over(l) || l->proving) {
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
		/* PREPARING stays the state: no rank ran, it ends as FAILED, or as ENDED when it was
		 * ordered. */
		launch_save(l, NULL);
	} else {
		launch_set_state(l, LAUNCH_STOPPING);
	}
	launch_arm(l, l->procs ? STEP_US : 0, ladder_step);
	launch_check_end(l);
}

/* Not by the shims alone: one that hangs would leave its rank alive until the ladder's end, and by then
 * another node may run the job. They record the ends all the same. A request that is there already proves
 * that nothing is left, or kills, too. */
void launch_halt(struct launch *l)
{
	if (!launch_is_over(l))
		kill_rest(l, 1);
}

void launch_fence(struct launch *l, const char *why)
{
	if (launch_is_over(l)) {
		launch_fence_upload(l);
		return;
	}
	l->cls = RC_NODE_LOST;
	launch_halt(l);
	launch_kill(l, 0, why);
	log_warn("event=fenced job=%" PRIu64 " attempt=%u", l->job, l->attempt);
	if (!l->stopping)
		return;
	/* Each further step kills the rest. */
	l->kill_deadline_us = now_us(l);
	launch_save(l, NULL);
}
