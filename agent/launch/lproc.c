/*
 * lproc: a process of a launch, as its shim reports it. States only move forward: waiting, parked, running,
 * one of the ends. A late report is dropped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "agent/link/outbox.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/fsutil.h"

#define LAST_LINES_MAX 4096

static const struct shimlink_ops link_ops;

struct lproc *lproc_new(struct launch *l, uint8_t kind, uint32_t local_rank)
{
	struct lproc *p = xcalloc(1, sizeof(*p)), **at = &l->procs;
	const struct launcher_proc *facts = launcher_proc(kind);

	p->l = l;
	p->kind = kind;
	p->local_rank = local_rank;
	p->rank = local_rank == NO_RANK ? NO_RANK : l->plan->first_rank + local_rank;
	p->ready_fd = -1;
	p->text = xstrdup("");
	p->token = xstrdup("");
	if (kind == PROC_RANK) {
		p->name = xasprintf("rank-%u", local_rank);
		p->logdir = xasprintf("%s/logs/rank-%u", l->paths.work, p->rank);
	} else {
		p->name = xstrdup(facts ? facts->name : "process");
		p->logdir = xasprintf("%s/logs/%s", l->paths.work, p->name);
	}
	p->dir = xasprintf("%s/%s", l->paths.run, p->name);
	if (facts && facts->own_stream)
		p->stream = xstrdup(facts->name);
	else if (kind == PROC_RANK)
		p->stream = xasprintf("rank-%u", p->rank);
	while (*at)
		at = &(*at)->next;
	*at = p;
	return p;
}

void lproc_free_start(struct lproc *p)
{
	if (p->start) {
		strv_fini(&p->start->argv);
		strv_fini(&p->start->env);
	}
	free(p->start);
	p->start = NULL;
}

void lproc_free(struct lproc *p)
{
	lproc_free_start(p);
	loop_fd_destroy(p->ready);
	if (p->ready_fd >= 0)
		close(p->ready_fd);
	shimlink_destroy(p->link);
	if (p->tail)
		tail_destroy(p->tail);
	free(p->name);
	free(p->dir);
	free(p->logdir);
	free(p->stream);
	free(p->token);
	free(p->rsh_id);
	free(p->text);
	free(p->last_lines);
	free(p);
}

void launch_free_procs(struct launch *l)
{
	while (l->procs) {
		struct lproc *p = l->procs;

		l->procs = p->next;
		lproc_free(p);
	}
}

int lproc_ended(const struct lproc *p)
{
	return p->state == PS_EXITED || p->state == PS_FAILED || p->state == PS_LOST;
}

int lproc_waits(const struct lproc *p)
{
	return p->state <= PS_WAITING || p->state == PS_PARKED;
}

int lproc_exited(const struct lproc *p)
{
	return p->exited || lproc_ended(p);
}

/* ---- telling ----------------------------------------------------------------------------------------------
 */

void lproc_report(struct lproc *p)
{
	const struct launch *l = p->l;
	/* A rank of a job waits for GO, wherever its shim waits. */
	uint8_t state = p->state == PS_PARKED && !launch_is_parking(l) ? PS_WAITING : p->state;
	int runs = p->state == PS_RUNNING && !p->exited;
	char none[] = "";
	/* The controller knows an orted by the request that asked for it. */
	struct wm_proc_report m = {
	    .job = l->job,
	    .attempt = l->attempt,
	    .epoch = l->epoch,
	    .kind = p->kind,
	    .rank = p->rank,
	    .local_rank = p->local_rank,
	    .token = p->rsh_id ? p->rsh_id : p->token,
	    .state = p->exited && !lproc_ended(p) ? PS_EXITED : state,
	    .pid = p->pid,
	    .exit_code = p->exit_code,
	    .signal = p->signal,
	    .oom = p->oom,
	    .ended_by = p->ended_by,
	    .started_us = p->started_us,
	    .ended_us = p->ended_us,
	    .text = runs ? none : p->text, /* of a rank that runs: how it started, for the node's log */
	    .last_lines = {.data = (uint8_t *)p->last_lines, .n = (uint32_t)p->last_lines_n}};
	cleanup_free char *key = xasprintf("%s proc %s", l->key, p->name);

	if (p->state != PS_UNKNOWN && !p->unsaid)
		outbox_put(l->host->outbox, WM_PROC_REPORT, key, &m);
}

static void describe_state(const struct lproc *p, struct text *out)
{
	switch (p->state) {
	case PS_PARKED:
		text_add(out, "is parked");
		break;
	case PS_RUNNING:
		text_add(out, "runs, process %u%s%.300s", p->pid, p->text[0] ? "; " : "", p->text);
		break;
	case PS_EXITED:
		if (p->signal)
			text_add(out, "was ended by %s%s", proc_signal_name((int)p->signal),
			         p->oom ? ", out of memory" : "");
		else
			text_add(out, "exited with %u%s", p->exit_code, p->oom ? ", out of memory" : "");
		break;
	case PS_FAILED:
		text_add(out, "was not started: %.300s", p->text);
		break;
	case PS_LOST:
		text_add(out, "is lost, its fate is unknown: %.300s", p->text);
		break;
	default:
		text_add(out, "waits");
	}
}

static void say_change(struct lproc *p)
{
	TEXT(what);

	if (p->state == PS_WAITING)
		return;
	describe_state(p, &what);
	if (p->kind == PROC_RANK)
		launch_say(p->l, "rank %u %s", p->rank, what.at);
	else
		launch_say(p->l, "%s %s", p->name, what.at);
	if (lproc_ended(p))
		log_info("event=proc_end job=%" PRIu64 " attempt=%u proc=%s state=%u exit=%u signal=%u oom=%u",
		         p->l->job, p->l->attempt, p->name, p->state, p->exit_code, p->signal, p->oom);
}

static int bad_end(const struct lproc *p)
{
	return lproc_exited(p) && (p->state == PS_FAILED || p->state == PS_LOST || p->exit_code || p->signal);
}

/* orted and torchrun have no stream of their own: what they said (little, when all is well) goes to the
 * node's. */
static void launcher_output(struct lproc *p)
{
	size_t n = 0;
	char *text = tail_last_lines(p->logdir, LAST_LINES_MAX, &n);

	if (text && n && p->l->system) {
		launch_say(p->l, "output of %s:", p->name);
		nodelog_bytes(p->l->system, text, n);
	}
	free(text);
}

/* Killed because the launch passed a limit: the report must say so, or the signal would look like somebody
 * else's. */
static void add_limit(struct lproc *p)
{
	const char *limit = p->l->limit_text;
	char *text;

	if (!limit || p->kind != PROC_RANK)
		return;
	if (p->l->limit_oom)
		p->oom = 1;
	text = xasprintf("%.*s\n%s\n", (int)p->last_lines_n, p->last_lines ? p->last_lines : "", limit);
	free(p->last_lines);
	p->last_lines = text;
	p->last_lines_n = strlen(text);
}

static void take_last_lines(struct lproc *p)
{
	if (!bad_end(p))
		return;
	free(p->last_lines);
	p->last_lines = tail_last_lines(p->logdir, LAST_LINES_MAX, &p->last_lines_n);
	add_limit(p);
}

static void on_change(struct lproc *p)
{
	take_last_lines(p);
	if (!lproc_waits(p))
		lproc_free_start(p); /* it has secrets */
	if (lproc_ended(p) && !p->stream)
		launcher_output(p);
	say_change(p);
	lproc_report(p);
	launch_proc_changed(p);
}

/* ---- hearing ----------------------------------------------------------------------------------------------
 */

static void take_status(struct lproc *p, const struct wm_shim_status *st)
{
	p->pid = st->pid;
	p->exit_code = st->exit_code;
	p->signal = st->signal;
	p->oom = st->oom;
	p->ended_by = p->by_lease ? BY_ORDER : st->ended_by;
	p->started_us = st->started_us;
	p->ended_us = st->ended_us;
	free(p->text);
	p->text = xstrdup(st->text);
}

/* The controller ends the other ranks now, and not when the last stray has closed its pipe. */
static void on_exit_told(struct lproc *p, const struct wm_shim_status *st)
{
	if (p->exited || !st->ended_us || st->ended_by == BY_LEASE)
		return;
	p->exited = 1;
	take_status(p, st);
	take_last_lines(p);
	log_info("event=proc_exited job=%" PRIu64 " attempt=%u proc=%s exit=%u signal=%u", p->l->job,
	         p->l->attempt, p->name, p->exit_code, p->signal);
	lproc_report(p);
	launch_keep_ended(p);
}

/* It had an order to end, or its launcher was gone, and did not fail to start: the end of the launch is
 * enough. */
static int was_not_to_start(const struct lproc *p, const struct wm_shim_status *st)
{
	int parked = p->kind == PROC_RANK && (launch_is_taken(p->l) || launch_is_parking(p->l));

	return p->quit || (parked && (!p->went || st->ended_by == BY_LAUNCHER));
}

static void on_status(const struct wm_shim_status *st, void *arg)
{
	struct lproc *p = arg;

	if (lproc_ended(p) || st->state == PS_UNKNOWN)
		return;
	if (p->state == PS_RUNNING && (st->state == PS_WAITING || st->state == PS_PARKED))
		return;
	if (st->state != p->state) {
		p->unsaid = st->state == PS_FAILED && lproc_waits(p) && was_not_to_start(p, st);
		p->by_lease = st->ended_by == BY_LEASE && st->state == PS_EXITED;
		/* Its end says nothing of its program: the rank went with its node. */
		p->state = p->by_lease ? PS_LOST : st->state;
		take_status(p, st);
		on_change(p);
	}
	if (p->state == PS_PARKED) /* its interpreter may be of no use any more */
		take_status(p, st);
	if (p->state == PS_RUNNING)
		on_exit_told(p, st);
	launch_take_answered(p->l);
}

void lproc_end(struct lproc *p, enum proc_state state, const char *text)
{
	if (lproc_ended(p))
		return;
	/* How it ended is known. What is unknown is what it left behind, and the sweep finds that. */
	if (p->exited)
		state = PS_EXITED;
	else
		p->ended_us = clock_real_us(p->l->host->env->clock);
	p->state = (uint8_t)state;
	free(p->text);
	p->text = xstrdup(text);
	on_change(p);
}

static void on_gone(int lost, void *arg)
{
	struct lproc *p = arg;

	if (lost)
		lproc_end(p, FAULT("mistake.lost_is_success") ? PS_EXITED : PS_LOST,
		          "its shim is gone without a record of the end");
	else
		launch_proc_changed(p); /* a released shim has gone: the clean-up waits for it */
}

static void on_refused(uint16_t order, enum err_code code, const char *text, void *arg)
{
	struct lproc *p = arg;

	/* A failed start comes as a state too; the others were too late, and no harm. */
	log_info("event=shim_refused job=%" PRIu64 " attempt=%u proc=%s order=%s reason=\"%s\"", p->l->job,
	         p->l->attempt, p->name, wire_name(order), text);
	/* CONFLICT: an earlier agent has started it; its state follows. */
	if (order == WM_SHIM_START && p->state == PS_PARKED && code != ERR_CONFLICT)
		launch_start_refused(p, code, text);
}

static const struct shimlink_ops link_ops = {.status = on_status, .gone = on_gone, .refused = on_refused};

void lproc_watch(struct lproc *p)
{
	struct launch *l = p->l;

	p->link = shimlink_create(l->host->env, p->dir, p->token, &p->id, &link_ops, p);
	if (!launch_is_parking(l))
		lproc_follow(p);
}

void lproc_follow(struct lproc *p)
{
	struct launch *l = p->l;
	struct tail_params t = {.job = l->job,
	                        .epoch = l->epoch,
	                        .attempt = l->attempt,
	                        .rank = p->rank,
	                        .stream = p->stream,
	                        .logdir = p->logdir,
	                        .spec = p->kind == PROC_RANK ? l->plan->spec : NULL,
	                        .warn = launch_warn,
	                        .failure = launch_failure,
	                        .step = launch_keep_step,
	                        .arg = l};

	if (p->stream && !p->tail)
		p->tail = tail_start(l->host->tailer, &t);
}

/* A file beside the shim: an agent that starts again must not take the end of a shim that waited for a
 * failure to start. */
static char *quit_mark(const struct lproc *p)
{
	return xasprintf("%s/quit", p->dir);
}

int lproc_was_quit(const struct lproc *p)
{
	cleanup_free char *path = quit_mark(p);

	return access(path, F_OK) == 0;
}

void lproc_quit(struct lproc *p, uint32_t grace_ms, enum ended_by by)
{
	cleanup_free char *path = quit_mark(p);

	if (lproc_waits(p) && !p->quit)
		fs_replace(path, "", 0, 0600, NULL);
	p->quit = 1;
	if (p->link && !lproc_ended(p))
		shimlink_quit(p->link, grace_ms, by);
}
