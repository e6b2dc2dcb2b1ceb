/*
 * stage: see stage.h. It brings everything that a job needs to this node: source tree, inputs, checkpoint,
 * Python packages.
 *
 * One thread does it, in this order. No code of the job's owner runs here: a missing environment is made
 * later, inside the container (stage_build). Until the files are complete ml belongs to a root agent and is
 * closed (launch_dirs.c), because the owner may have other processes on this node; then the stage hands it
 * over. Log lines and progress go to the loop; the thread touches no state of the agent.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/user.h"
#include "agent/pool/pools.h"
#include "agent/pool/uses.h"
#include "agent/stage/fetch.h"
#include "agent/stage/stage_int.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

#define TELL_US  200000u
#define PAUSE_MS 100u

/* ---- to the loop
 * ------------------------------------------------------------------------------------------- */

struct piece {
	size_t n; /* 0: p is a line, terminated */
	char p[];
};

static void on_piece(void *arg, void *data)
{
	struct stage *s = arg;
	struct piece *p = data;

	if (!s->setup)
		return;
	if (p->n)
		nodelog_bytes(s->setup, p->p, p->n);
	else
		nodelog_line(s->setup, "%s", p->p);
}

static void post_piece(struct stage *s, const void *data, size_t n, int line)
{
	struct piece *p = xmalloc(sizeof(*p) + n + 1);

	p->n = line ? 0 : n;
	memcpy(p->p, data, n);
	p->p[n] = '\0';
	worker_post(s->w, on_piece, p, free);
}

void stage_say(struct stage *s, const char *fmt, ...)
{
	cleanup_free char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	post_piece(s, text, strlen(text), 1);
}

void stage_bytes(struct stage *s, const void *p, size_t n)
{
	if (n)
		post_piece(s, p, n, 0);
}

struct progress {
	char phase[96];
	uint64_t done, total;
};

static void on_progress(void *arg, void *data)
{
	struct stage *s = arg;
	const struct progress *p = data;

	if (s->ops.progress)
		s->ops.progress(p->phase, p->done, p->total, s->arg);
}

static void post_progress(struct stage *s)
{
	struct progress p = {.done = s->done, .total = s->total};

	memcpy(p.phase, s->phase, sizeof(p.phase));
	s->told_us = clock_boot_us(s->env->clock);
	worker_post(s->w, on_progress, xmemdup(&p, sizeof(p)), free);
}

void stage_phase(struct stage *s, const char *phase, uint64_t total)
{
	snprintf(s->phase, sizeof(s->phase), "%s", phase);
	s->done = 0;
	s->total = total;
	post_progress(s);
}

int stage_step(struct stage *s, uint64_t more)
{
	s->done += more;
	if (clock_boot_us(s->env->clock) - s->told_us >= TELL_US)
		post_progress(s);
	return worker_cancelled(s->w) ? -1 : 0;
}

int stage_pause(void *arg)
{
	return worker_pause(((struct stage *)arg)->w, PAUSE_MS);
}

int stage_left(const struct stage *s, uint64_t *left)
{
	*left = s->bytes < s->limit ? s->limit - s->bytes : 0;
	return s->limit != 0;
}

int stage_fail(struct stage *s, enum reason_class cls, const struct err *e)
{
	char size[32];

	if (s->rc < 0)
		return -1;
	s->rc = -1;
	if (cls == RC_NONE)
		/* The job passes its own limit on every node, so this node is not to blame. */
		cls = e->code == ERR_NOSPACE ? RC_DISK : e->code == ERR_LIMIT ? RC_USER_ERROR : RC_STAGING;
	s->cls = cls;
	if (e->code == ERR_LIMIT && s->limit && !strstr(e->text, "disk limit"))
		snprintf(s->text, sizeof(s->text), "%s (the job's disk limit is %s)", e->text,
		         str_size(s->limit, size, sizeof(size)));
	else
		snprintf(s->text, sizeof(s->text), "%s", e->text);
	stage_say(s, "%s", s->text);
	return -1;
}

/* ---- the steps
 * ---------------------------------------------------------------------------------------------- */

static int stage_bundle(struct stage *s)
{
	struct err e;
	int rc;

	if (!s->bundle)
		return 0;
	stage_phase(s, "bundle", 0);
	strv_addf(&s->uses, "trees/%s", s->bundle);
	s->base = s->pool_dir ? uses_first_tree(s->pool_dir) : NULL;
	rc = stage_tree(s, s->bundle, "code", NULL, &e);
	free(s->base);
	s->base = NULL;
	if (rc == 0) {
		stage_say(s, "source tree %.12s is in place", s->bundle);
		return 0;
	}
	err_wrap(&e, "source tree");
	return stage_fail(s, RC_NONE, &e);
}

static int stage_resume(struct stage *s)
{
	struct err e;
	int rc;

	if (s->restore.name)
		return stage_restore(s);
	if (!s->resume)
		return 0;
	stage_phase(s, "resume", 0);
	rc = stage_resume_step(s, &e) < 0 ? -1
	     : strncmp(s->resume, "file://", 7) == 0
	         ? stage_files(s, s->resume + 7, "checkpoints", s->resume_step, &e)
	         : stage_tree(s, s->resume, "checkpoints", stage_later, &e);
	if (rc == 0) {
		stage_say(s, "checkpoint %.80s is in place", s->resume);
		if (s->later)
			stage_say(s, "%" PRIu64 " entries of steps after %" PRId64 " were left out", s->later,
			          s->resume_step);
		return 0;
	}
	err_wrap(&e, "checkpoint to resume from");
	return stage_fail(s,
	                  strncmp(s->resume, "file://", 7) == 0 &&
	                          (e.code == ERR_NOT_FOUND || e.code == ERR_DENIED || e.code == ERR_INVALID)
	                      ? RC_USER_ERROR
	                      : RC_NONE,
	                  &e);
}

/* For the container (container.c): what linked inputs point to must stay visible. */
static int write_links(struct stage *s)
{
	cleanup_free char *path = xasprintf("%s/links", s->work), *text = xstrdup("");
	struct err e;

	for (size_t i = 0; i < s->links.n; i++) {
		char *next = xasprintf("%s%s\n", text, s->links.v[i]);

		free(text);
		text = next;
	}
	if (fs_replace_changed(path, text, strlen(text), 0600, &e) == 0)
		return 0;
	return stage_fail(s, RC_NONE, &e);
}

void stage_modest(int on)
{
	int value = on ? IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7) : 0;

	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value);
}

/* ---- whose ml is
 * ---------------------------------------------------------------------------------------------- */

/* Removes the folder that an earlier try began (launch_dirs.c): it may be large, and it counts against the
 * disk limit. */
static void drop_old(struct stage *s)
{
	cleanup_free char *old = xasprintf("%s/old", s->work), *layers = xasprintf("%s/layers", s->work);
	struct err e;

	if (fs_rm_rf(old, &e) < 0 || fs_rm_rf(layers, &e) < 0)
		stage_say(s, "files of an earlier try are left: %s", e.text);
}

/* Root makes folders and files in it and gives them away: nobody else may be in there to exchange them. */
static int open_ml(struct stage *s)
{
	struct stat st;
	struct err e;

	s->ml_fd = open(s->ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->ml_fd < 0 || fstat(s->ml_fd, &st) < 0)
		err_sys(&e, errno, "%s", s->ml);
	else if (s->as_user && (st.st_uid != geteuid() || (st.st_mode & 077)))
		err_set(&e, ERR_CONFLICT, "%s: is open to others before it is filled", s->ml);
	else
		return 0;
	return stage_fail(s, RC_NONE, &e);
}

/* From the innermost out, so that it is closed until the last step. From here on root writes nothing in it.
 */
static int stage_hand_over(struct stage *s)
{
	static const char *const kept[] = {"input/config", "input/data", "input"};
	struct err e;

	if (stage_mount_layers(s, &e) < 0)
		return stage_fail(s, RC_NONE, &e);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]) && s->as_user; i++) {
		cleanup_close int fd = fs_open_below(s->ml_fd, kept[i], O_RDONLY | O_DIRECTORY, 0);

		if (fd < 0)
			err_sys(&e, errno, "%s/%s", s->ml, kept[i]);
		if (fd < 0 || stage_give(s, fd, &e) < 0)
			return stage_fail(s, RC_NONE, &e);
	}
	return stage_give(s, s->ml_fd, &e) < 0 ? stage_fail(s, RC_NONE, &e) : 0;
}

/* Adds what hearth-files has done. */
static int count_step(uint64_t bytes, void *arg)
{
	struct stage *s = arg;

	s->bytes += bytes;
	return stage_step(s, bytes);
}

static void set_total(uint64_t bytes, void *arg)
{
	((struct stage *)arg)->total = bytes;
}

/* For those who wonder why a start takes long, or does not. */
static void say_fetched(struct stage *s)
{
	char size[32];

	if (s->bundle || s->resume || s->restore.name)
		stage_say(s, "%s of source tree, inputs and checkpoint came from hearthd",
		          s->fetched ? str_size(s->fetched, size, sizeof(size)) : "nothing");
}

/* Also what an earlier job of the pool used, and this one does not, may be evicted from now on. */
static void save_uses(struct stage *s)
{
	struct err e = {0};

	if (s->pool_dir && uses_save(s->pool_dir, &s->uses, &e) < 0)
		stage_say(s, "what the warm pool uses was not recorded: %s", e.text);
}

static void run_stage(struct worker *w, void *arg)
{
	struct stage *s = arg;
	const struct files_params files = {
	    .env = s->env, .user = &s->user, .step = count_step, .total = set_total, .arg = s};
	int rc;

	s->w = w;
	stage_modest(s->ahead);
	s->files = files_create(&files);
	drop_old(s);
	rc = open_ml(s);
	if (rc == 0 && !s->ahead)
		rc = stage_output(s);
	if (rc == 0)
		rc = stage_bundle(s);
	for (size_t i = 0; i < s->n_inputs && rc == 0; i++)
		rc = s->ahead ? stage_input_ahead(s, &s->inputs[i]) : stage_one_input(s, &s->inputs[i]);
	if (rc == 0)
		rc = write_links(s);
	if (rc == 0)
		rc = stage_resume(s);
	if (rc == 0)
		say_fetched(s);
	if (rc == 0)
		rc = stage_hand_over(s);
	if (rc == 0 && s->requirements)
		rc = stage_requirements(s);
	if (rc == 0)
		save_uses(s);
	files_destroy(s->files);
	s->files = NULL;
	if (!worker_cancelled(w))
		stage_evict(s);
	stage_modest(0);
}

/* ---- life
 * -------------------------------------------------------------------------------------------------- */

static void run_build(struct worker *w, void *arg)
{
	struct stage *s = arg;

	s->w = w;
	stage_modest(s->ahead);
	stage_build_venv(s);
	stage_modest(0);
}

void stage_free(void *arg)
{
	struct stage *s = arg;

	for (size_t i = 0; i < s->n_inputs; i++) {
		free(s->inputs[i].name);
		free(s->inputs[i].uri);
		free(s->inputs[i].sha256);
		free(s->inputs[i].digest);
	}
	free(s->inputs);
	if (s->ml_fd >= 0)
		close(s->ml_fd);
	user_fini(&s->user);
	strv_fini(&s->pip_env);
	strv_fini(&s->links);
	strv_fini(&s->trees);
	strv_fini(&s->uses);
	free(s->pool_dir);
	free(s->code_layer);
	free(s->base);
	free(s->work);
	free(s->ml);
	free(s->data_dir);
	free(s->bundle);
	free(s->resume);
	free(s->restore.name);
	free(s->restore.local);
	strv_fini(&s->restore.digests);
	strv_fini(&s->restore.uris);
	free(s->requirements);
	free(s->output);
	free(s->venv_bin);
	free(s->build_key);
	free(s->tmpdir);
	free(s->ml_seen);
	inside_destroy(s->inside);
	free(s);
}

static void stage_done(void *arg)
{
	struct stage *s = arg;

	const struct stage_result r = {.rc = s->rc,
	                               .cls = s->cls,
	                               .text = s->rc < 0 ? s->text : NULL,
	                               .not_restored = s->not_restored,
	                               .venv_bin = s->venv_bin,
	                               .build_key = s->venv_bin ? NULL : s->build_key};

	s->ops.done(&r, s->arg);
}

/* Other jobs have all threads. That is progress: this node is not to blame, and hearthd's prepare_limit
 * bounds it. */
static void stage_waits(void *arg)
{
	struct stage *s = arg;

	if (s->waited++ == 0 && s->setup)
		nodelog_line(s->setup, "waiting: other jobs of this node are being prepared first");
	if (s->ops.progress)
		s->ops.progress("waiting", s->waited, 0, s->arg);
}

/* Picks the variables of the job that steer pip and its way to the network. */
static int for_pip(const char *name)
{
	size_t n = strlen(name);

	return strncmp(name, "PIP_", 4) == 0 ||
	       (n > 6 && (strcmp(name + n - 6, "_proxy") == 0 || strcmp(name + n - 6, "_PROXY") == 0));
}

static void copy_restore(struct stage_restoring *r, const struct stage_params *p)
{
	r->name = xstrdup(p->resume_name);
	r->local = xstrdup(p->resume_local);
	for (size_t i = 0; p->resume_digests && i < p->resume_digests->n; i++)
		strv_add(&r->digests, p->resume_digests->v[i]);
	for (size_t i = 0; p->resume_uris && i < p->resume_uris->n; i++)
		strv_add(&r->uris, p->resume_uris->v[i]);
}

static void copy_params(struct stage *s, const struct stage_params *p)
{
	const struct job_spec *spec = p->spec;

	s->job = p->job;
	s->attempt = p->attempt;
	s->setup = p->setup;
	s->pool_dir = p->pool ? pools_path(p->pool) : NULL;
	s->work = xstrdup(p->paths->work);
	s->ml = xstrdup(p->paths->ml);
	s->ml_seen = xstrdup(p->paths->ml_seen);
	s->data_dir = xstrdup(s->env->cfg.data_dir);
	user_copy(&s->user, p->user);
	s->bundle = xstrdup(p->bundle_digest);
	s->resume = xstrdup(p->resume_from);
	s->resume_step = p->resume_step;
	copy_restore(&s->restore, p);
	if (spec->output_uri && strncmp(spec->output_uri, "file:///", 8) == 0)
		s->output = xstrdup(spec->output_uri + strlen("file://"));
	s->requirements = xstrdup(spec->requirements);
	s->ahead = p->ahead;
	s->holder_pid = p->holder_pid;
	s->holder_start = p->holder_start;
	s->limit = spec->disk_bytes;
	s->n_inputs = spec->n_inputs;
	s->inputs = xcalloc(spec->n_inputs + 1, sizeof(*s->inputs));
	for (size_t i = 0; i < spec->n_inputs; i++) {
		const struct spec_input *in = &spec->inputs[i];
		const char *digest = p->input_digests && i < p->input_digests->n ? p->input_digests->v[i] : "";

		s->inputs[i] = (struct stage_input){.name = xstrdup(in->name),
		                                    .uri = xstrdup(in->uri),
		                                    .sha256 = xstrdup(in->sha256),
		                                    .digest = xstrdup(digest),
		                                    .link = in->link,
		                                    .unpack = in->unpack};
	}
	for (size_t i = 0; i < spec->n_env; i++)
		if (for_pip(spec->env[i].name))
			strv_setenv(&s->pip_env, spec->env[i].name, spec->env[i].value);
}

/* Takes s. */
static struct stage *begin_stage(struct stage *s, const struct worker_task *task)
{
	struct worker_task mine = *task;
	struct err e;

	mine.owner = s->user.uid + 1ull;
	s->handle = worker_start(data_link_workers(s->b, POOL_STAGING), &mine, s, &e);
	if (s->handle)
		return s;
	log_error("event=stage_not_started reason=\"%s\"", e.text);
	stage_free(s);
	return NULL;
}

static struct stage *stage_new(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                               const struct stage_ops *ops, void *arg)
{
	struct stage *s = xcalloc(1, sizeof(*s));

	s->ml_fd = -1;
	s->env = env;
	s->b = b;
	s->ops = *ops;
	s->arg = arg;
	copy_params(s, p);
	s->as_user = env->is_root && p->user->uid != 0;
	return s;
}

struct stage *stage_start(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const struct stage_ops *ops, void *arg)
{
	static const struct worker_task task = {
	    .run = run_stage, .done = stage_done, .release = stage_free, .waits = stage_waits};

	fetch_global_init();
	return begin_stage(stage_new(env, b, p, ops, arg), &task);
}

struct stage *stage_build(struct agent_env *env, struct data_link *b, const struct stage_params *p,
                          const char *build_key, const char *tmpdir, struct inside *in,
                          const struct stage_ops *ops, void *arg)
{
	static const struct worker_task task = {
	    .run = run_build, .done = stage_done, .release = stage_free, .waits = stage_waits};
	struct stage *s = stage_new(env, b, p, ops, arg);

	s->build_key = xstrdup(build_key);
	s->tmpdir = xstrdup(tmpdir);
	s->inside = in;
	return begin_stage(s, &task);
}

void stage_stop(struct stage *s)
{
	inside_stop(s->inside);
}

int stage_busy(const struct stage *s)
{
	return inside_busy(s->inside);
}

void stage_cancel(struct stage *s)
{
	if (s && s->inside)
		inside_stop(s->inside);
	if (s)
		worker_cancel(s->handle);
}
