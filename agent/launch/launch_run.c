/*
 * launch_run: GO, orted, and what follows from the ends of processes.
 *
 * hearthd decides whether an end is bad. Two cases need no decision. When the launcher of this node
 * (mpirun, orted, torchrun) has ended, nothing can start any more, and the ranks get the ladder. When all
 * processes have ended, the launch has ended here.
 */
#include <inttypes.h>
#include <string.h>

#include "agent/command/mpi.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

/* Does it start with the launch? A launcher starts the others. */
static int starts_at_go(const struct lproc *p)
{
	const struct launcher_proc *proc = launcher_proc(p->kind);

	/* Parked ranks wait for a job, and their launcher runs before. */
	if (launch_is_taken(p->l) || (launch_is_parking(p->l) && p->kind == PROC_RANK))
		return 0;
	return proc ? proc->starts_at_go : launcher_facts(p->l->plan->spec->launcher)->ranks_at_go;
}

static void launcher_ended(struct launch *l);

static int begin_running(struct launch *l, struct err *e)
{
	l->going = 1;
	if (launch_try_state(l, LAUNCH_RUNNING, e) == 0) {
		if (!launch_is_parking(l))
			launch_keep_start(l);
		return 0;
	}
	l->going = 0;
	return -1;
}

/* A rank of another node may have ended a launch that was parked before GO came here. */
static int launcher_is_gone(struct launch *l)
{
	int gone = 0;

	for (struct lproc *p = l->procs; p; p = p->next)
		gone |= lproc_ended(p);
	if (gone)
		launcher_ended(l);
	return gone;
}

void launch_go(struct launch *l)
{
	struct err e = {0};

	if (l->going || l->state != LAUNCH_READY) {
		launch_report(l); /* twice, or too early: the state says which */
		return;
	}
	/* The state is on record before the first shim gets its go. When the agent dies in between, its successor
	 * finds a launch that runs and gives the others their go; without the record it would take the launch for
	 * one that waits, and undo it. */
	if (begin_running(l, &e) < 0) {
		launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
		return;
	}
	launch_arm(l, 0, NULL);
	launch_say(l, "go");
	for (struct lproc *p = l->procs; p; p = p->next) {
		if (!starts_at_go(p))
			continue;
		p->went = 1;
		shimlink_go(p->link, NULL, NULL);
	}
	if (launch_is_taken(l) && !launcher_is_gone(l))
		launch_take_go(l);
	else if (launch_is_parking(l))
		launch_park_step(l);
	launch_check_end(l);
}

/* ---- orted ----------------------------------------------------------------------------------------------
 */

static struct lproc *orted_of(struct launch *l)
{
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->kind == PROC_ORTED)
			return p;
	return NULL;
}

static void refuse_orted(struct launch *l, const struct wm_orted_start *m, const char *text)
{
	char none[] = "";
	/* A name of its own: the report must not replace that of the orted that runs. */
	struct lproc p = {.l = l,
	                  .kind = PROC_ORTED,
	                  .rank = NO_RANK,
	                  .local_rank = NO_RANK,
	                  .name = m->rsh_id,
	                  .token = none,
	                  .rsh_id = m->rsh_id,
	                  .state = PS_FAILED,
	                  .text = (char *)(uintptr_t)text};

	launch_say(l, "orted refused: %s", text);
	lproc_report(&p);
}

/* The rsh_id is kept beside the shim, so that an agent that starts again knows which request this orted
 * answers. */
static int keep_rsh_id(struct lproc *p, const char *rsh_id, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/rsh_id", p->dir);

	if (fs_replace(path, rsh_id, strlen(rsh_id), 0600, e) < 0)
		return -1;
	free(p->rsh_id);
	p->rsh_id = xstrdup(rsh_id);
	return 0;
}

void launch_orted(struct launch *l, const struct wm_orted_start *m)
{
	struct lproc *p = orted_of(l);
	/* UNKNOWN: taken over from an agent before, and its shim has not said hello yet. Nothing was ordered of
	 * it, so it waits; the link keeps the order until then. */
	int waits =
	    p && (p->state == PS_WAITING || (p->state == PS_UNKNOWN && p->link && l->state != LAUNCH_PREPARING));
	struct strv argv = {0};
	struct err e = {0};

	if (!p || launch_is_over(l) || l->stopping) {
		refuse_orted(l, m, p ? "the launch has ended on this node" : "this node of the launch has no orted");
		return;
	}
	if (p->rsh_id && strcmp(p->rsh_id, m->rsh_id) == 0 && p->state >= PS_RUNNING) {
		lproc_report(p); /* asked again: where it is now */
		return;
	}
	/* The same request again while orted waits: an earlier agent may have died after it stored the name and
	 * before it gave the go. The shim refuses a second go, which does no harm. */
	if ((p->rsh_id && strcmp(p->rsh_id, m->rsh_id) != 0) || (!p->rsh_id && !waits) || m->argv.n == 0) {
		refuse_orted(l, m, p->rsh_id ? "orted was started already" : "this node is not ready");
		return;
	}
	if (keep_rsh_id(p, m->rsh_id, &e) < 0) {
		refuse_orted(l, m, e.text);
		return;
	}
	/* READY: mpirun's node got its GO before this one. */
	if (l->state == LAUNCH_READY && begin_running(l, &e) < 0) {
		refuse_orted(l, m, e.text);
		launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
		return;
	}
	mpi_orted_argv(&m->argv, l->plan->spec, l->host->cidr, &argv);
	p->went = 1;
	shimlink_go(p->link, &argv, NULL);
	strv_fini(&argv);
}

/* ---- ends ------------------------------------------------------------------------------------------- */

static int is_launcher(const struct lproc *p)
{
	return p->kind != PROC_RANK;
}

static void launcher_ended(struct launch *l)
{
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->kind == PROC_RANK && !lproc_ended(p) && !p->quit)
			lproc_quit(p, p->state == PS_RUNNING ? l->plan->m->grace_ms : 0, BY_LAUNCHER);
}

static int all_ended(const struct launch *l)
{
	for (const struct lproc *p = l->procs; p; p = p->next)
		if (!lproc_ended(p))
			return 0;
	return 1;
}

static void first_start(struct launch *l)
{
	if (l->n_phases && strcmp(l->phases[l->n_phases - 1].name, "running") == 0)
		return;
	launch_phase(l, "running");
	launch_save(l, NULL);
	launch_report(l);
	launch_info_packages(l);
}

void launch_sure(struct launch *l)
{
	l->unsure = 0;
	launch_arm(l, 0, NULL);
	launch_keep_over(l); /* not before: how its ranks ended says what counts as a whole checkpoint */
	launch_report(l);
}

void launch_check_end(struct launch *l)
{
	if (!launch_is_over(l) && (l->going || l->stopping) && all_ended(l))
		launch_sweep(l);
}

void launch_proc_changed(struct lproc *p)
{
	struct launch *l = p->l;

	launch_keep_ended(p);
	if (p->by_lease && !launch_is_over(l) && l->cls != RC_NODE_LOST)
		launch_fence(l, "the lease of this node was over and no agent ran");
	if (launch_is_over(l)) {
		if (l->unsure && all_ended(l))
			launch_sure(l);
		launch_collect_step(l);
		return;
	}
	if (l->state == LAUNCH_PREPARING && !l->stopping) {
		if (launch_is_taken(l))
			launch_take_changed(p);
		else
			launch_proc_ready(l);
		return;
	}
	/* The launch has its go and this shim has not: the agent died in between. */
	if (p->state == PS_WAITING && l->going && !l->stopping && !p->quit && starts_at_go(p)) {
		p->went = 1;
		shimlink_go(p->link, NULL, NULL);
		return;
	}
	if (p->state == PS_PARKED && l->going && !l->stopping && !p->quit && launch_is_taken(l)) {
		launch_start_rank(p);
		return;
	}
	if (launch_is_parking(l)) {
		launch_park_changed(p);
		return;
	}
	if (p->state == PS_RUNNING && !is_launcher(p))
		first_start(l);
	if (lproc_ended(p) && is_launcher(p) && !l->stopping)
		launcher_ended(l);
	/* A shim that ended before GO: the node is not ready any more. */
	if (lproc_ended(p) && l->state == LAUNCH_READY && !l->stopping && !l->going && launch_is_taken(l))
		launch_take_await(l);
	else if (lproc_ended(p) && l->state == LAUNCH_READY && !l->stopping && !l->going)
		launch_fail(l, RC_LAUNCH, p->text[0] ? p->text : "a process ended before the start");
	launch_check_end(l);
}

/* ---- limits ----------------------------------------------------------------------------------------------
 */

void launch_limit(const char *text, int oom, void *arg)
{
	struct launch *l = arg;

	if (launch_is_over(l) || l->stopping)
		return;
	launch_say(l, "limit passed: %s", text);
	l->cls = oom ? RC_OOM : RC_DISK;
	l->limit_text = xstrdup(text);
	l->limit_oom = oom;
	free(l->text);
	l->text = xstrdup(text);
	/* As the kernel does: while it tidied up it could take what the machine has left. */
	launch_kill(l, oom ? 0 : l->plan->m->grace_ms, text);
}
