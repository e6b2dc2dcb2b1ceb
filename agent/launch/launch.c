/*
 * launch: making, naming, reporting; the steps are in the other launch_*.c files.
 */
#include "agent/launch/launch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/trash.h"
#include "agent/base/user.h"
#include "agent/container/sweeper.h"
#include "agent/keep/keeper.h"
#include "agent/launch/launch_steps.h"
#include "agent/link/outbox.h"
#include "agent/pool/pools.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"

#define REPORTED_LINE 512u /* bytes of a line that names a failure */

static void timer_fired(void *arg)
{
	struct launch *l = arg;
	void (*fn)(struct launch *) = l->on_timer;

	l->on_timer = NULL;
	if (fn)
		fn(l);
}

struct launch *launch_new(struct launch_host *host, struct plan *plan)
{
	struct launch *l = xcalloc(1, sizeof(*l));
	const struct wm_prepare *m = plan->m;

	l->host = host;
	l->plan = plan;
	l->job = m->job;
	l->attempt = m->attempt;
	l->epoch = m->epoch;
	l->key = xasprintf("%" PRIu64 ".%u", m->job, m->attempt);
	l->folder = plan_folder(plan);
	l->paths.run = xasprintf("%s/%s", host->env->cfg.run_dir, l->folder);
	l->paths.work = xasprintf("%s/jobs/%s", host->env->cfg.data_dir, l->folder);
	l->paths.ml = xasprintf("%s/ml", l->paths.work);
	l->paths.ml_seen = xstrdup(l->paths.ml);
	l->state = LAUNCH_PREPARING;
	l->text = xstrdup("");
	l->timer = loop_timer_create(host->env->loop, timer_fired, l);
	return l;
}

void launch_free(struct launch *l)
{
	if (!l)
		return;
	user_ask_cancel(l->asking);
	sweep_cancel(l->sweep);
	if (l->stage)
		stage_cancel(l->stage);
	if (l->build)
		stage_cancel(l->build);
	if (l->upload)
		upload_cancel(l->upload);
	keeper_destroy(l->keeper);
	pools_leave(l->pool);
	if (l->packages)
		packages_cancel(l->packages);
	if (l->removing)
		trash_forget(l->host->trash, l);
	launch_free_procs(l);
	if (l->setup_tail)
		tail_destroy(l->setup_tail);
	if (l->system_tail)
		tail_destroy(l->system_tail);
	if (l->setup)
		nodelog_close(l->setup);
	if (l->system)
		nodelog_close(l->system);
	if (l->container)
		container_forget(l->container);
	loop_timer_destroy(l->timer);
	for (unsigned i = 0; i < l->n_phases; i++)
		free(l->phases[i].name);
	user_fini(&l->user);
	plan_destroy(l->plan);
	free(l->paths.run);
	free(l->paths.work);
	free(l->paths.ml);
	free(l->paths.ml_seen);
	free(l->venv_bin);
	free(l->build_key);
	free(l->cpus);
	free(l->kill_reason);
	free(l->limit_text);
	free(l->text);
	free(l->key);
	free(l->folder);
	free(l);
}

void launch_arm(struct launch *l, uint64_t delay_us, void (*fn)(struct launch *))
{
	l->on_timer = fn;
	if (fn)
		loop_timer_arm(l->timer, delay_us);
	else
		loop_timer_cancel(l->timer);
}

int launch_is_over(const struct launch *l)
{
	return l->state == LAUNCH_ENDED || l->state == LAUNCH_FAILED || l->state == LAUNCH_CLEANED;
}

static const char *state_name(enum launch_state s)
{
	static const char *const names[] = {"unknown", "preparing", "ready",   "running", "stopping",
	                                    "ended",   "failed",    "cleaned", "parked"};

	return (size_t)s < sizeof(names) / sizeof(names[0]) ? names[s] : "?";
}

static void say_state(struct launch *l, enum launch_state before)
{
	if (l->state == LAUNCH_ENDED && before != l->state)
		launch_keep_over(l);
	if (before != l->state)
		log_info("event=launch job=%" PRIu64 " attempt=%u state=%s text=\"%s\"", l->job, l->attempt,
		         state_name(l->state), l->text);
	launch_report(l);
}

void launch_set_state(struct launch *l, enum launch_state state)
{
	enum launch_state before = l->state;

	l->state = state;
	launch_save(l, NULL);
	say_state(l, before);
}

int launch_try_state(struct launch *l, enum launch_state state, struct err *e)
{
	enum launch_state before = l->state;

	l->state = state;
	if (launch_save(l, e) < 0) {
		l->state = before;
		return -1;
	}
	say_state(l, before);
	return 0;
}

void launch_phase(struct launch *l, const char *name)
{
	uint64_t now = clock_real_us(l->host->env->clock);

	if (name && l->n_phases && strcmp(l->phases[l->n_phases - 1].name, name) == 0 &&
	    !l->phases[l->n_phases - 1].ended_us)
		return;
	if (l->n_phases && !l->phases[l->n_phases - 1].ended_us)
		l->phases[l->n_phases - 1].ended_us = now;
	l->done_bytes = l->total_bytes = 0;
	if (!name || l->n_phases == LAUNCH_PHASES_MAX)
		return;
	l->phases[l->n_phases++] = (struct lphase){.name = xstrdup(name), .started_us = now};
}

void launch_say(struct launch *l, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	if (l->system)
		nodelog_line(l->system, "%s", text);
	free(text);
}

void launch_report(struct launch *l)
{
	struct wm_launch_report m = {.job = l->job,
	                             .attempt = l->attempt,
	                             .epoch = l->epoch,
	                             .state = (uint8_t)(l->unsure ? LAUNCH_RUNNING : l->state),
	                             .done_bytes = l->done_bytes,
	                             .total_bytes = l->total_bytes,
	                             .cls = (uint8_t)l->cls,
	                             .text = l->text,
	                             .over = (uint8_t)launch_how_over(l)};
	char none[] = "";

	m.phase = none;
	if (l->n_phases && !l->phases[l->n_phases - 1].ended_us) {
		m.phase = l->phases[l->n_phases - 1].name;
		m.phase_started_us = l->phases[l->n_phases - 1].started_us;
	}
	if (l->saved)
		m.phase = (char *)(uintptr_t)LAUNCH_PHASE_SAVED;
	if (l->not_restored && l->state == LAUNCH_FAILED)
		m.phase = (char *)(uintptr_t)LAUNCH_PHASE_RESTORE;
	for (unsigned i = 0; i < l->n_phases; i++) {
		cleanup_free char *line = xasprintf("%s %" PRIu64 " %" PRIu64, l->phases[i].name,
		                                    l->phases[i].started_us, l->phases[i].ended_us);

		wire_strv_add(&m.phases, line);
	}
	outbox_put(l->host->outbox, WM_LAUNCH_REPORT, l->key, &m);
	for (uint32_t i = 0; i < m.phases.n; i++)
		free(m.phases.v[i]);
	free(m.phases.v);
}

void launch_run_info(struct launch *l, const char *kind, const char *text)
{
	cleanup_free char *key = xasprintf("%s info %s", l->key, kind);
	struct wm_run_info m = {.job = l->job,
	                        .attempt = l->attempt,
	                        .epoch = l->epoch,
	                        .kind = (char *)(uintptr_t)kind,
	                        .text = (char *)(uintptr_t)text};

	outbox_put(l->host->outbox, WM_RUN_INFO, key, &m);
}

void launch_warn(const char *key, const char *text, void *arg)
{
	struct launch *l = arg;
	cleanup_free char *kind = NULL;
	char hex[HASH_HEX_SIZE];

	hash_hex(key, strlen(key), hex); /* a key may be long, and a kind may not */
	kind = xasprintf(WARNING_KIND "%.32s", hex);
	launch_say(l, "%s", text);
	launch_run_info(l, kind, text);
}

/* A stronger line of the stream takes the place of the one before, if that is still here. */
void launch_failure(const char *stream, uint32_t rank, const struct cause *c, void *arg)
{
	struct launch *l = arg;
	cleanup_free char *key = xasprintf("%s failure %s", l->key, stream);
	cleanup_free char *line = str_to_utf8(c->line, c->n < REPORTED_LINE ? c->n : REPORTED_LINE);
	struct wm_failure_line m = {.job = l->job,
	                            .attempt = l->attempt,
	                            .epoch = l->epoch,
	                            .rank = rank,
	                            .stream = (char *)(uintptr_t)stream,
	                            .cls = (uint8_t)c->finding.class_number,
	                            .verdict = (uint8_t)c->finding.verdict,
	                            .reason = (char *)(uintptr_t)c->finding.reason,
	                            .line = line,
	                            .at_us = clock_real_us(l->host->env->clock),
	                            .offset = c->number};

	log_info("event=failure_line job=%" PRIu64 " attempt=%u stream=%s class=%s verdict=%s", l->job,
	         l->attempt, stream, c->finding.cls, verdict_name(c->finding.verdict));
	outbox_put(l->host->outbox, WM_FAILURE_LINE, key, &m);
}

static struct tail *node_tail(struct launch *l, const char *stream, const char *logdir)
{
	struct tail_params p = {.job = l->job,
	                        .epoch = l->epoch,
	                        .attempt = l->attempt,
	                        .rank = NO_RANK,
	                        .stream = stream,
	                        .logdir = logdir};

	return tail_start(l->host->tailer, &p);
}

/* A launch without these logs runs all the same; the agent's own log has the reason. */
void launch_make_logs(struct launch *l)
{
	cleanup_free char *setup = xasprintf("%s/logs/setup", l->paths.work);
	cleanup_free char *system = xasprintf("%s/logs/system", l->paths.work);
	struct err e = {0};

	if (!l->setup)
		l->setup = nodelog_open(setup, l->host->env->clock, &e);
	if (!l->system)
		l->system = nodelog_open(system, l->host->env->clock, &e);
	if (!l->setup || !l->system)
		log_error("event=no_node_log job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, e.text);
}

void launch_open_logs(struct launch *l)
{
	cleanup_free char *setup_dir = xasprintf("%s/logs/setup", l->paths.work);
	cleanup_free char *system_dir = xasprintf("%s/logs/system", l->paths.work);
	cleanup_free char *setup = xasprintf("setup-%s", plan_node_name(l->plan));
	cleanup_free char *system = xasprintf("system-%s", plan_node_name(l->plan));

	launch_make_logs(l);
	if (l->setup && !l->setup_tail)
		l->setup_tail = node_tail(l, setup, setup_dir);
	if (l->system && !l->system_tail)
		l->system_tail = node_tail(l, system, system_dir);
}
