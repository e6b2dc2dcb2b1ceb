/*
 * launch_prepare: from the order to READY: account, folders, environment files, logs, staging, container,
 * virtual environment (where one is missing), shims. Threads do account, staging and environment. The
 * launch's timer cuts the rest into turns of the loop: some folders, then the files, then one shim a turn. A
 * kill takes the timer, so it ends the preparation between two turns.
 *
 * Each step may be done twice: when the agent dies in between, the next one starts with the first step.
 */
#include <inttypes.h>
#include <string.h>

#include "agent/base/trash.h"
#include "agent/base/user.h"
#include "agent/command/env.h"
#include "agent/launch/launch_park.h"
#include "agent/launch/launch_steps.h"
#include "agent/launch/shimlink.h"
#include "agent/pool/pools.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define PROGRESS_US        250000u
#define SHIM_READY_US      15000000u
#define PREPARE_DEFAULT_MS 600000u
#define ACCOUNT_MS         30000u /* at most */

static const struct stage_ops stage_ops;

void launch_fail(struct launch *l, enum reason_class cls, const char *text)
{
	if (launch_is_over(l) || l->stopping)
		return;
	launch_say(l, "cannot start: %s", text);
	log_warn("event=prepare_failed job=%" PRIu64 " attempt=%u reason=\"%s\"", l->job, l->attempt, text);
	l->cls = cls;
	free(l->text);
	l->text = xstrdup(text);
	launch_kill(l, 0, "preparation failed");
}

/* ---- staging ----------------------------------------------------------------------------------------------
 */

static void too_long(struct launch *l)
{
	cleanup_free char *text =
	    xasprintf("no progress in phase '%s' for %u s", l->n_phases ? l->phases[l->n_phases - 1].name : "?",
	              l->plan->m->prepare_timeout_ms / 1000);

	launch_fail(l, RC_STAGING, text);
}

static uint32_t prepare_ms(const struct launch *l)
{
	uint32_t ms = l->plan->m->prepare_timeout_ms;

	return ms ? ms : PREPARE_DEFAULT_MS;
}

static void arm_prepare(struct launch *l)
{
	launch_arm(l, (uint64_t)prepare_ms(l) * 1000, too_long);
}

static void on_stage_progress(const char *phase, uint64_t done, uint64_t total, void *arg)
{
	struct launch *l = arg;
	uint64_t now = clock_boot_us(l->host->env->clock);

	(void)phase; /* the setup stream tells which input it is; the launch's phase stays "staging" */
	if (l->stopping || launch_is_over(l))
		return; /* a build that is being ended: the timer is the ladder's */
	if (done != l->done_bytes || total != l->total_bytes)
		arm_prepare(l);
	l->done_bytes = done;
	l->total_bytes = total;
	if (now - l->reported_us < PROGRESS_US)
		return;
	l->reported_us = now;
	launch_report(l);
}

static void make_container(struct launch *l);
static void start_build(struct launch *l);

static void take_environment(struct launch *l, const struct stage_result *r)
{
	free(l->venv_bin);
	free(l->build_key);
	l->venv_bin = xstrdup(r->venv_bin);
	l->build_key = xstrdup(r->build_key);
}

static void on_stage_done(const struct stage_result *r, void *arg)
{
	struct launch *l = arg;

	l->stage = NULL;
	if (r->rc < 0) {
		l->not_restored = r->not_restored;
		launch_fail(l, r->cls, r->text ? r->text : "staging failed");
		return;
	}
	take_environment(l, r);
	if (!l->build_key)
		launch_phase(l, "launching");
	if (!launch_is_taken(l))
		launch_arm(l, 0, make_container);
	else if (l->build_key)
		start_build(l);
	else
		launch_take_ready(l);
}

static const struct stage_ops stage_ops = {.progress = on_stage_progress, .done = on_stage_done};

static const char *or_null(const char *s)
{
	return s && s[0] ? s : NULL;
}

static void find_holder(const struct launch *l, uint32_t *pid, uint64_t *start)
{
	struct strv procs = {0}, oom = {0};

	container_shim(l->container, &procs, &oom, pid, start);
	strv_fini(&procs);
	strv_fini(&oom);
}

static struct stage_params stage_params_of(const struct launch *l)
{
	const struct wm_prepare *m = l->plan->m;
	uint64_t start = 0;
	uint32_t pid = 0;

	if (l->container)
		find_holder(l, &pid, &start);
	return (struct stage_params){.job = l->job,
	                             .epoch = l->epoch,
	                             .attempt = l->attempt,
	                             .spec = l->plan->spec,
	                             .paths = &l->paths,
	                             .user = &l->user,
	                             .bundle_digest = or_null(m->bundle_digest),
	                             .input_digests = &l->plan->g->input_digests,
	                             .resume_from = or_null(m->resume_from),
	                             .resume_name = or_null(m->resume_name),
	                             .resume_local = or_null(m->resume_local),
	                             .resume_digests = &m->resume_digests,
	                             .resume_uris = &m->resume_uris,
	                             .resume_step = m->resume_step,
	                             .holder_pid = pid,
	                             .holder_start = start,
	                             .pool = l->pool,
	                             .setup = l->setup};
}

static void start_staging(struct launch *l)
{
	const struct stage_params p = stage_params_of(l);

	launch_phase(l, "staging");
	launch_set_state(l, LAUNCH_PREPARING);
	arm_prepare(l);
	l->stage = stage_start(l->host->env, l->host->link, &p, &stage_ops, l);
	if (!l->stage)
		launch_fail(l, RC_STAGING, "staging could not be started");
}

/* ---- container -------------------------------------------------------------------------------------- */

static void choose_cpus(struct launch *l)
{
	const struct wire_u32v *ids = &l->plan->m->cpu_ids;

	free(l->cpus);
	l->cpus = ids->n ? xcalloc(ids->n, sizeof(*l->cpus)) : NULL;
	l->n_cpus = ids->n;
	for (uint32_t i = 0; i < ids->n; i++)
		l->cpus[i] = inventory_slot_cpu(l->host->inv, ids->v[i]);
}

/* After the container exists: does it show the job's folder as /opt/ml? */
static void launch_paths_seen(struct launch *l)
{
	uint32_t pid = 0;
	uint64_t start = 0;

	find_holder(l, &pid, &start);
	l->own_tmp = pid != 0;
	free(l->paths.ml_seen);
	l->paths.ml_seen = xstrdup(pid ? "/opt/ml" : l->paths.ml);
}

static void container_made(int rc, const struct err *why, void *arg);

/* The folder would end the pool's next job at once: it goes, too. */
static void cache_limit(const char *text, void *arg)
{
	struct launch *l = arg;

	pools_spoil(l->pool);
	launch_limit(text, 0, l);
}

static const struct container_ops container_ops = {
    .limit = launch_limit, .cache_limit = cache_limit, .ready = container_made};

int launch_container(struct launch *l, int adopt, struct err *e)
{
	const struct wm_prepare *m = l->plan->m;
	struct container_params p = {.name = m->launch_id[0] ? m->launch_id : l->key,
	                             .token = m->token,
	                             .paths = &l->paths,
	                             .user = &l->user,
	                             .memory_bytes = m->memory_bytes,
	                             .disk_bytes = m->disk_bytes};
	cleanup_free char *pool = NULL, *cache = NULL;

	if (l->pool) {
		pool = pools_path(l->pool);
		p.cache = cache = xasprintf("%s/cache", pool);
		p.cache_bytes = pools_cache_limit(l->host->env);
	}
	choose_cpus(l);
	p.cpus = l->cpus;
	p.n_cpus = l->n_cpus;
	if (m->gpus.n)
		inventory_devices(l->host->inv, m->gpus.v, m->gpus.n, &p.devices);
	if (adopt)
		l->container = container_adopt(l->host->env, &p, &container_ops, l, e);
	else
		l->container = container_create(l->host->env, &p, &container_ops, l, e);
	if (!adopt)
		launch_gpus_note(l);
	strv_fini(&p.devices);
	if (!l->container)
		return err_wrap(e, "container");
	if (adopt)
		launch_paths_seen(l);
	return 0;
}

/* ---- shims ----------------------------------------------------------------------------------------------
 */

static void shims_late(struct launch *l)
{
	for (struct lproc *p = l->procs; p; p = p->next)
		if (p->spawned || p->state == PS_UNKNOWN) {
			cleanup_free char *text =
			    xasprintf("the shim of %s was not ready after %u s", p->name, SHIM_READY_US / 1000000);

			launch_fail(l, RC_AGENT, text);
			return;
		}
}

static struct lproc *next_to_spawn(const struct launch *l)
{
	struct lproc *p = l->procs;

	while (p && (p->spawned || p->link || p->state != PS_UNKNOWN))
		p = p->next;
	return p;
}

/* One in a turn: each is a fork, and waits for an exec. */
static void start_shim(struct launch *l)
{
	struct lproc *p = next_to_spawn(l);
	struct err e = {0};
	int rc;

	if (FAULT("agent.launch"))
		rc = err_set(&e, ERR_IO, "injected");
	else
		rc = p ? launch_spawn_proc(p, &e) : 0;
	if (rc < 0)
		launch_fail(l, RC_AGENT, e.text);
	else if (next_to_spawn(l))
		launch_arm(l, 0, start_shim);
	else
		launch_arm(l, SHIM_READY_US, shims_late);
}

static void begin_shims(struct launch *l)
{
	launch_list_procs(l);
	launch_save(l, NULL);
	launch_report(l);
	launch_arm(l, 0, start_shim);
}

/* ---- environment ----------------------------------------------------------------------------------------
 */

static void on_build_done(const struct stage_result *r, void *arg)
{
	struct launch *l = arg;

	l->build = NULL;
	if (l->stopping || launch_is_over(l)) {
		launch_inside_ended(l);
		return;
	}
	if (r->rc < 0) {
		/* Nothing else has run in the container yet. */
		launch_fail(l, container_oom_seen(l->container) ? RC_OOM : r->cls,
		            r->text ? r->text : "the environment could not be made");
		return;
	}
	take_environment(l, r);
	launch_phase(l, "launching");
	if (launch_is_taken(l))
		launch_take_ready(l);
	else
		begin_shims(l);
}

static void start_build(struct launch *l)
{
	static const struct stage_ops ops = {.progress = on_stage_progress, .done = on_build_done};
	const struct stage_params p = stage_params_of(l);

	arm_prepare(l);
	if (launch_build(l, &p, &ops) < 0)
		launch_fail(l, RC_STAGING, "staging could not be started");
}

/* ---- the container is made ------------------------------------------------------------------------------
 */

static void make_container(struct launch *l)
{
	struct err e = {0};

	if (launch_container(l, 0, &e) < 0)
		launch_fail(l, RC_LAUNCH, e.text);
}

static void container_made(int rc, const struct err *why, void *arg)
{
	struct launch *l = arg;
	const struct strv *notes = container_notes(l->container);

	if (l->state != LAUNCH_PREPARING || l->stopping)
		return; /* the kill ladder has it */
	if (rc < 0) {
		cleanup_free char *text = xasprintf("container: %s", why->text);

		launch_fail(l, RC_LAUNCH, text);
		return;
	}
	/* The job may count on things that it does not get: its owner reads it here. */
	for (size_t i = 0; i < notes->n; i++)
		launch_say(l, "note: %s", notes->v[i]);
	launch_paths_seen(l);
	if (l->build_key)
		start_build(l);
	else
		begin_shims(l);
}

void launch_proc_ready(struct launch *l)
{
	if (l->state != LAUNCH_PREPARING || l->stopping)
		return;
	for (struct lproc *p = l->procs; p; p = p->next) {
		if (p->state == PS_FAILED || p->state == PS_LOST) {
			launch_fail(l, RC_LAUNCH, p->text && p->text[0] ? p->text : "a shim ended before the start");
			return;
		}
		if (p->state == PS_UNKNOWN)
			return;
	}
	launch_arm(l, 0, NULL);
	launch_say(l, "ready: %u rank(s) of %u on %s, as %s", l->plan->local_ranks, l->plan->world,
	           plan_node_name(l->plan), l->user.name);
	launch_set_state(l, LAUNCH_READY);
	if (!launch_is_parking(l))
		launch_info_software(l);
}

/* ---- start ----------------------------------------------------------------------------------------------
 */

/* Leftovers of an earlier try of this very launch: its record and its empty log files would refuse a new
 * shim. */
static void clear_old_procs(struct launch *l)
{
	const struct launcher_proc *proc;

	for (size_t i = 0; (proc = launcher_proc_at(i)); i++) {
		cleanup_free char *dir = xasprintf("%s/%s", l->paths.run, proc->name);
		cleanup_free char *logs = xasprintf("%s/logs/%s", l->paths.work, proc->name);

		trash_put(l->host->trash, dir, l->key, NULL);
		trash_put(l->host->trash, logs, l->key, NULL);
	}
	for (uint32_t i = 0; i < l->plan->local_ranks; i++) {
		cleanup_free char *dir = xasprintf("%s/rank-%u", l->paths.run, i);
		cleanup_free char *logs = xasprintf("%s/logs/rank-%u", l->paths.work, l->plan->first_rank + i);

		trash_put(l->host->trash, dir, l->key, NULL);
		trash_put(l->host->trash, logs, l->key, NULL);
	}
}

static int has_launcher(struct launch *l)
{
	if (!launcher_facts(l->plan->spec->launcher)->needs_mpirun || l->host->mpirun)
		return 1;
	launch_fail(l, RC_LAUNCH, "this node has no mpirun (install Open MPI, or use \"launcher\": \"direct\")");
	return 0;
}

static void open_logs(struct launch *l)
{
	const struct wm_prepare *m = l->plan->m;

	if (launch_is_taken(l))
		launch_make_logs(l);
	else
		launch_open_logs(l);
	launch_say(l, "job %" PRIu64 " (%s) attempt %u, node %s (%s), account %s, launcher %s", l->job,
	           m->job_name, l->attempt, plan_node_name(l->plan), l->host->env->cfg.node, m->account,
	           launcher_name(l->plan->spec->launcher));
	if (has_launcher(l))
		start_staging(l);
	launch_open_logs(l); /* a parked launch had no readers; they come while it is being staged */
}

static int has_config(struct launch *l)
{
	struct err e = {0};

	if (launch_write_config(l, &e) == 0)
		return 1;
	launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
	return 0;
}

static void write_config(struct launch *l)
{
	if (has_config(l))
		launch_arm(l, 0, open_logs);
}

void launch_take_files(struct launch *l)
{
	if (has_config(l))
		open_logs(l);
}

static void prepare_parking(struct launch *l)
{
	struct err e = {0};

	if (!has_launcher(l))
		return;
	launch_phase(l, "launching");
	launch_make_logs(l); /* files that are there need not be made when a job comes; so the next ones */
	if (launch_write_config(l, &e) < 0 || launch_park_prepare(l, &e) < 0)
		launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
	else
		make_container(l);
}

static void make_dirs(struct launch *l)
{
	struct err e = {0};
	int more = launch_make_dirs(l, &l->dirs_made, &e);

	if (more < 0)
		launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
	else
		launch_arm(l, 0, more ? make_dirs : launch_is_parking(l) ? prepare_parking : write_config);
}

static void take_pool(struct launch *l)
{
	struct err e = {0};

	if (!l->pool && l->host->pools)
		l->pool = pools_take(l->host->pools, l->plan->m, &l->user, &e);
	if (e.code)
		launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
	else
		make_dirs(l);
}

static uint32_t account_ms(const struct launch *l)
{
	return prepare_ms(l) < ACCOUNT_MS ? prepare_ms(l) : ACCOUNT_MS;
}

static void account_late(struct launch *l)
{
	cleanup_free char *text =
	    xasprintf("no answer about the account '%s' within %u s (does this node reach its "
	              "directory service?)",
	              l->plan->m->account, account_ms(l) / 1000);

	launch_fail(l, RC_AGENT, text);
}

static void on_account(struct launch_user *u, const struct err *why, void *arg)
{
	struct launch *l = arg;

	l->asking = NULL;
	launch_arm(l, 0, NULL);
	if (!u) { /* the node is not at fault when it refuses an account: another one would, too */
		launch_fail(l, why->code == ERR_DENIED ? RC_USER_ERROR : RC_LAUNCH, why->text);
		return;
	}
	user_fini(&l->user);
	l->user = *u;
	l->dirs_made = 0;
	take_pool(l);
}

void launch_prepare(struct launch *l)
{
	struct err e = {0};

	launch_phase(l, "provisioning");
	if (fs_mkdir_p(l->paths.run, 0711, &e) < 0 || plan_save(l->plan, l->paths.run, &e) < 0) {
		launch_fail(l, e.code == ERR_NOSPACE ? RC_DISK : RC_AGENT, e.text);
		return;
	}
	launch_set_state(l, LAUNCH_PREPARING);
	clear_old_procs(l);
	launch_arm(l, (uint64_t)account_ms(l) * 1000, account_late);
	l->asking = user_ask(l->host->env, data_link_workers(l->host->link, POOL_ACCOUNTS), l->plan->m->account,
	                     on_account, l, &e);
	if (!l->asking)
		launch_fail(l, RC_AGENT, e.text);
}
