/*
 * env_ahead: see env_ahead.h. The steps of an order are those of launch_prepare.c without ranks: account,
 * folders, staging (source tree, downloads, search for the environment), container, build, sweep.
 *
 * Everything here runs on the loop; staging and build have their threads.
 */
#include "agent/launch/env_ahead.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/base/trash.h"
#include "agent/base/user.h"
#include "agent/container/container.h"
#include "agent/container/sweeper.h"
#include "agent/stage/stage.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "common/spec/spec.h"
#include "shim/shim.h"

#define PREFIX       "ahead-"
#define DONE         64 /* jobs that are remembered */
#define SWEEP_MS     5000u
#define TOKEN_DIGITS 32
#define FIRST_VICTIM 1000 /* oom_score_adj: it goes before any rank */

struct order {
	uint64_t job;
	uint32_t attempt;
	char *account, *bundle;
	struct job_spec *spec; /* without what a launch alone needs */
	struct order *prev, *next;
};

/* What is made for an order, or was left by an earlier agent. */
struct place {
	char *name, *token;
	struct launch_paths paths;
	struct container *container;
	struct sweep_ask *sweep;
	struct env_ahead *owner;
	struct place *prev, *next; /* rests */
};

struct env_ahead {
	struct launch_host *host;
	const struct env_ahead_ops *ops;
	void *arg;
	struct order *waiting, *now;
	unsigned n;
	uint64_t count; /* of orders that began */
	uint64_t done[DONE];
	unsigned n_done;
	struct place *rests;
	/* of `now` */
	struct place *place;
	struct launch_user user;
	struct user_ask *asking;
	struct stage *stage, *build;
	char *build_key;
	struct loop_timer *timer;
	uint64_t begun_us;
	int ended; /* its result is known: only the sweep is left */
};

/* ---- folders ------------------------------------------------------------------------------------------ */

static struct place *place_new(struct env_ahead *a, const char *name)
{
	const struct agent_config *c = &a->host->env->cfg;
	struct place *p = xcalloc(1, sizeof(*p));

	p->owner = a;
	p->name = xstrdup(name);
	p->paths.run = xasprintf("%s/%s", c->run_dir, name);
	p->paths.work = xasprintf("%s/jobs/%s", c->data_dir, name);
	p->paths.ml = xasprintf("%s/ml", p->paths.work);
	p->paths.ml_seen = xstrdup(p->paths.ml);
	return p;
}

static void place_free(struct place *p)
{
	sweep_cancel(p->sweep);
	container_forget(p->container);
	free(p->name);
	free(p->token);
	free(p->paths.run);
	free(p->paths.work);
	free(p->paths.ml);
	free(p->paths.ml_seen);
	free(p);
}

/* A new folder, so nobody else can be in it. */
static int make_dir(const struct env_ahead *a, const char *path, mode_t mode, int jobs, struct err *e)
{
	if (mkdir(path, mode) < 0)
		return err_sys(e, errno, "%s", path);
	if (jobs && a->host->env->is_root && chown(path, a->user.uid, a->user.gid) < 0)
		return err_sys(e, errno, "%s: owner", path);
	return 0;
}

/* As launch_dirs.c makes them: ml stays closed until staging gives it away. */
static int make_dirs(const struct env_ahead *a, struct err *e)
{
	static const struct {
		const char *path;
		mode_t mode;
		int jobs;
	} dirs[] = {{"ml", 0700, 0},
	            {"ml/input", 0755, 0},
	            {"ml/input/config", 0755, 0},
	            {"ml/input/data", 0755, 0},
	            {"tmp", 0700, 1}};
	const struct place *p = a->place;
	cleanup_free char *jobs = xasprintf("%s/jobs", a->host->env->cfg.data_dir),
	                  *token = xasprintf("%s/token", p->paths.run);

	if (fs_mkdir_p(jobs, 0711, e) < 0 || make_dir(a, p->paths.run, 0711, 0, e) < 0 ||
	    fs_replace(token, p->token, strlen(p->token), 0600, e) < 0 ||
	    make_dir(a, p->paths.work, 0711, 0, e) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		cleanup_free char *path = xasprintf("%s/%s", p->paths.work, dirs[i].path);

		if (make_dir(a, path, dirs[i].mode, dirs[i].jobs, e) < 0)
			return -1;
	}
	return 0;
}

static void remove_place(struct env_ahead *a, struct place *p)
{
	struct err e = {0};

	container_destroy(p->container);
	p->container = NULL;
	if (trash_put(a->host->trash, p->paths.work, p->name, &e) < 0 ||
	    trash_put(a->host->trash, p->paths.run, p->name, &e) < 0)
		log_warn("event=not_removed folder=%s reason=\"%s\"", p->name, e.text);
	place_free(p);
}

/* ---- the end of an order ------------------------------------------------------------------------------ */

static void order_free(struct order *o)
{
	free(o->account);
	free(o->bundle);
	spec_destroy(o->spec);
	free(o);
}

static void begin_next(struct env_ahead *a);

static void close_order(struct env_ahead *a)
{
	struct order *o = a->now;

	remove_place(a, a->place);
	a->place = NULL;
	user_fini(&a->user);
	a->user = (struct launch_user){0};
	free(a->build_key);
	a->build_key = NULL;
	a->ended = 0;
	a->now = NULL;
	order_free(o);
	begin_next(a);
}

static void on_swept(int left, void *arg)
{
	struct env_ahead *a = arg;

	a->place->sweep = NULL;
	if (left)
		log_error("event=not_killed order=%s left=%d", a->place->name, left);
	close_order(a);
}

/* A build has run here: nothing of it may be left when its folders go. */
static void sweep_order(struct env_ahead *a)
{
	struct place *p = a->place;
	const struct sweep_params s = {
	    .token = p->token, .container = p->container, .timeout_ms = SWEEP_MS, .done = on_swept, .arg = a};

	if (p->container)
		p->sweep = sweeper_ask(a->host->sweeper, &s);
	else
		close_order(a);
}

/* Nothing but the sweep follows. text: for hearthd; NULL: it does not want to know. */
static void end_order(struct env_ahead *a, int code, const char *text)
{
	const struct order *o = a->now;
	struct wm_prefetched m = {
	    .job = o->job, .attempt = o->attempt, .code = (uint32_t)code, .text = (char *)(uintptr_t)text};

	a->ended = 1;
	loop_timer_cancel(a->timer);
	log_info("event=env_ahead job=%" PRIu64 " attempt=%u code=%d ms=%" PRIu64 " text=\"%s\"", o->job,
	         o->attempt, code, (clock_boot_us(a->host->env->clock) - a->begun_us) / 1000,
	         text ? text : "not needed any more");
	if (text) {
		a->done[a->n_done++ % DONE] = o->job; /* a failure, too: the launch says why */
		a->ops->send(WM_PREFETCHED, &m, a->arg);
	}
	sweep_order(a);
}

static void end_failed(struct env_ahead *a, const char *what, const char *why)
{
	cleanup_free char *text = xasprintf("environment: %s%s%s", what, *what ? ": " : "", why);

	end_order(a, ERR_IO, text);
}

/* Ends whatever the order waits for. A program that runs has its own end: on_build_done follows. */
static void drop_order(struct env_ahead *a)
{
	if (a->ended)
		return;
	user_ask_cancel(a->asking);
	a->asking = NULL;
	if (a->stage)
		stage_cancel(a->stage);
	a->stage = NULL;
	if (a->build) {
		stage_stop(a->build);
		if (stage_busy(a->build))
			return;
		stage_cancel(a->build); /* it waits for another job's build */
		a->build = NULL;
	}
	end_order(a, 0, NULL);
}

/* ---- build -----------------------------------------------------------------------------------------------
 */

static void on_build_done(const struct stage_result *r, void *arg)
{
	struct env_ahead *a = arg;
	cleanup_free char *text = NULL;

	a->build = NULL;
	if (r->rc < 0) {
		end_failed(a, "", r->text ? r->text : "it was not built");
		return;
	}
	text = xasprintf("environment %.12s is ready", a->build_key);
	end_order(a, 0, text);
}

static void fill_order(const struct env_ahead *a, struct shim_launch *s)
{
	const struct agent_config *c = &a->host->env->cfg;

	s->token = xstrdup(a->place->token);
	s->job = a->now->job;
	s->attempt = a->now->attempt;
	s->set_ids = (uint8_t)(a->host->env->is_root != 0);
	s->uid = a->user.uid;
	s->gid = a->user.gid;
	s->user = xstrdup(a->user.name);
	s->oom_score_adj = FIRST_VICTIM;
	s->core_files = (uint8_t)(c->core_files != 0);
	s->lease = xasprintf("%s/lease", c->run_dir);
	container_shim(a->place->container, &s->cgroup_procs, &s->oom_files, &s->container_pid,
	               &s->container_start);
}

static struct stage_params params_of(const struct env_ahead *a)
{
	const struct order *o = a->now;

	return (struct stage_params){.job = o->job,
	                             .attempt = o->attempt,
	                             .spec = o->spec,
	                             .paths = &a->place->paths,
	                             .user = &a->user,
	                             .bundle_digest = o->bundle,
	                             .resume_step = -1,
	                             .ahead = 1};
}

static void begin_build(struct env_ahead *a)
{
	static const struct stage_ops ops = {.done = on_build_done};
	struct place *p = a->place;
	cleanup_free char *dir = xasprintf("%s/build", p->paths.run), *logs = xasprintf("%s/logs", p->paths.work),
	                  *tmp = xasprintf("%s/tmp", p->paths.work);
	int own_tmp = container_isolated(p->container);
	struct shim_launch order = {0};
	struct stage_params params;

	free(p->paths.ml_seen);
	p->paths.ml_seen = xstrdup(own_tmp ? "/opt/ml" : p->paths.ml);
	fill_order(a, &order);
	params = params_of(a);
	a->build = stage_build(a->host->env, a->host->link, &params, a->build_key, own_tmp ? "/tmp" : tmp,
	                       inside_create(a->host->shim_path, dir, logs, &order), &ops, a);
	if (!a->build)
		end_failed(a, "", "its build could not be started");
}

static void on_container(int rc, const struct err *why, void *arg)
{
	struct env_ahead *a = arg;

	if (a->ended)
		return;
	if (rc < 0)
		end_failed(a, "container", why->text);
	else
		begin_build(a);
}

static void on_limit(const char *text, int oom, void *arg)
{
	struct env_ahead *a = arg;

	(void)oom;
	log_warn("event=env_ahead_limit job=%" PRIu64 " reason=\"%s\"", a->now->job, text);
	drop_order(a);
}

static void make_container(struct env_ahead *a)
{
	static const struct container_ops ops = {.limit = on_limit, .ready = on_container};
	struct place *p = a->place;
	const struct container_params params = {.name = p->name,
	                                        .token = p->token,
	                                        .paths = &p->paths,
	                                        .user = &a->user,
	                                        .memory_bytes = a->now->spec->memory_bytes,
	                                        .disk_bytes = a->now->spec->disk_bytes,
	                                        .low = 1};
	struct err e = {0};

	p->container = container_create(a->host->env, &params, &ops, a, &e);
	if (!p->container)
		end_failed(a, "container", e.text);
}

/* ---- staging ---------------------------------------------------------------------------------------------
 */

static void on_stage_done(const struct stage_result *r, void *arg)
{
	struct env_ahead *a = arg;

	a->stage = NULL;
	if (r->rc < 0) {
		end_failed(a, "", r->text ? r->text : "staging failed");
		return;
	}
	a->build_key = xstrdup(r->build_key);
	if (a->build_key)
		make_container(a);
	else
		end_order(a, 0, r->venv_bin ? "the environment is here already" : "the inputs are here");
}

static void on_account(struct launch_user *u, const struct err *why, void *arg)
{
	static const struct stage_ops ops = {.done = on_stage_done};
	struct env_ahead *a = arg;
	struct stage_params params;
	struct err e = {0};

	a->asking = NULL;
	if (!u) {
		end_failed(a, "account", why->text);
		return;
	}
	a->user = *u;
	if (make_dirs(a, &e) < 0) {
		end_failed(a, "", e.text);
		return;
	}
	params = params_of(a);
	a->stage = stage_start(a->host->env, a->host->link, &params, &ops, a);
	if (!a->stage)
		end_failed(a, "", "staging could not be started");
}

static void on_late(void *arg)
{
	struct env_ahead *a = arg;

	log_warn("event=env_ahead_late job=%" PRIu64 " reason=\"not ready after %u s\"", a->now->job,
	         AHEAD_MS / 1000);
	a->done[a->n_done++ % DONE] = a->now->job;
	drop_order(a);
}

static void begin_next(struct env_ahead *a)
{
	cleanup_free char *name = NULL;
	struct order *o = a->waiting;
	char token[TOKEN_DIGITS + 1];
	struct err e = {0};

	if (a->now || !o)
		return;
	DL_DELETE(a->waiting, o);
	a->n--;
	a->now = o;
	a->begun_us = clock_boot_us(a->host->env->clock);
	name = xasprintf(PREFIX "%" PRIu64 ".%" PRIu64, o->job, ++a->count);
	a->place = place_new(a, name);
	random_hex(token, TOKEN_DIGITS);
	a->place->token = xstrdup(token);
	loop_timer_arm(a->timer, (uint64_t)AHEAD_MS * 1000);
	a->asking = user_ask(a->host->env, data_link_workers(a->host->link, POOL_ACCOUNTS), o->account,
	                     on_account, a, &e);
	if (!a->asking)
		end_failed(a, "account", e.text);
}

/* ---- orders -----------------------------------------------------------------------------------------------
 */

static void drop_waiting(struct env_ahead *a, uint64_t job)
{
	struct order *o, *next;

	DL_FOREACH_SAFE (a->waiting, o, next)
		if (o->job == job) {
			DL_DELETE(a->waiting, o);
			a->n--;
			order_free(o);
		}
}

void env_ahead_launched(struct env_ahead *a, uint64_t job)
{
	if (a)
		drop_waiting(a, job);
}

void env_ahead_cancel(struct env_ahead *a, uint64_t job)
{
	if (!a)
		return;
	drop_waiting(a, job);
	if (a->now && a->now->job == job)
		drop_order(a);
}

static int is_done(const struct env_ahead *a, uint64_t job)
{
	for (unsigned i = 0; i < DONE; i++)
		if (a->done[i] == job)
			return 1;
	return 0;
}

void env_ahead_order(struct env_ahead *a, const struct wm_prefetch *m)
{
	struct job_spec *spec;
	struct err e = {0};
	struct order *o;

	if (!a)
		return;
	if (!m->trees.n && !m->spec[0])
		env_ahead_cancel(a, m->job);
	if (!m->spec[0] || is_done(a, m->job) || (a->now && a->now->job == m->job))
		return;
	spec = spec_parse(m->spec, strlen(m->spec), &e);
	if (!spec) {
		log_warn("event=bad_prefetch job=%" PRIu64 " reason=\"%s\"", m->job, e.text);
		return;
	}
	drop_waiting(a, m->job);
	o = xcalloc(1, sizeof(*o));
	o->job = m->job;
	o->attempt = m->attempt;
	o->account = xstrdup(m->account);
	o->bundle = m->bundle[0] ? xstrdup(m->bundle) : NULL;
	o->spec = spec;
	DL_APPEND(a->waiting, o);
	if (++a->n > AHEAD_QUEUE)
		drop_waiting(a, a->waiting->prev->job);
	begin_next(a);
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

/* The shim has killed its program when the earlier agent died, and waits. */
static void drop_shim(const struct place *p)
{
	cleanup_free char *dir = xasprintf("%s/build", p->paths.run);
	struct shim_state s;
	int fd;

	if (shim_state_read(dir, &s, NULL) < 0)
		return;
	fd = proc_open(&s.shim, NULL);
	if (fd >= 0) {
		proc_signal(fd, SIGKILL, NULL);
		close(fd);
	}
	shim_state_fini(&s);
}

static void on_rest_swept(int left, void *arg)
{
	struct place *p = arg;
	struct env_ahead *a = p->owner;

	p->sweep = NULL;
	if (left)
		log_error("event=not_killed order=%s left=%d", p->name, left);
	DL_DELETE(a->rests, p);
	remove_place(a, p);
}

/* Ends what an earlier agent left. */
static int clear_rest(const char *name, void *arg)
{
	struct env_ahead *a = arg;
	cleanup_free char *file = NULL;
	struct container_params c = {.name = name};
	struct sweep_params s = {.timeout_ms = SWEEP_MS, .done = on_rest_swept};
	struct place *p;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	p = place_new(a, name);
	file = xasprintf("%s/token", p->paths.run);
	if (fs_read_file(file, TOKEN_DIGITS + 1, &p->token, NULL, NULL) < 0) { /* it was the first file */
		remove_place(a, p);
		return 0;
	}
	DL_APPEND(a->rests, p);
	drop_shim(p);
	c.token = p->token;
	c.paths = &p->paths;
	p->container = container_adopt(a->host->env, &c, NULL, NULL, NULL);
	s.token = p->token;
	s.container = p->container;
	s.arg = p;
	p->sweep = sweeper_ask(a->host->sweeper, &s);
	return 0;
}

/* RUN is lost with a restart of the machine. */
static int clear_folder(const char *name, void *arg)
{
	struct env_ahead *a = arg;
	struct place *p;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return 0;
	p = place_new(a, name);
	if (access(p->paths.run, F_OK) == 0)
		place_free(p);
	else
		remove_place(a, p);
	return 0;
}

struct env_ahead *env_ahead_create(struct launch_host *host, const struct env_ahead_ops *ops, void *arg)
{
	struct env_ahead *a = xcalloc(1, sizeof(*a));
	cleanup_free char *jobs = xasprintf("%s/jobs", host->env->cfg.data_dir);

	*a = (struct env_ahead){.host = host, .ops = ops, .arg = arg};
	a->timer = loop_timer_create(host->env->loop, on_late, a);
	fs_each(host->env->cfg.run_dir, clear_rest, a, NULL);
	fs_each(jobs, clear_folder, a, NULL);
	return a;
}

/* What the agent does not remove any more, the next one does. */
static void leave_order(struct env_ahead *a)
{
	struct place *p = a->place;

	user_ask_cancel(a->asking);
	if (a->stage)
		stage_cancel(a->stage);
	if (a->build)
		stage_cancel(a->build);
	container_destroy(p->container); /* waits for the program, which the thread ends, a moment */
	p->container = NULL;
	place_free(p);
	user_fini(&a->user);
	free(a->build_key);
	order_free(a->now);
}

void env_ahead_destroy(struct env_ahead *a)
{
	struct place *p, *next;

	if (!a)
		return;
	while (a->waiting)
		drop_waiting(a, a->waiting->job);
	if (a->now)
		leave_order(a);
	DL_FOREACH_SAFE (a->rests, p, next) {
		DL_DELETE(a->rests, p);
		place_free(p);
	}
	loop_timer_destroy(a->timer);
	free(a);
}
