/*
 * start: see start.h.
 *
 * A parked process has two keys. The launcher's go brings what only the launcher knows (its variables, stdin,
 * the mirror) and arms the process. The agent's start brings the rest and executes. Neither alone starts
 * anything.
 */
#include "shim/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/log.h"
#include "shim/ctl.h"

#define OOM_FILE_MAX 8192
#define ARM_ENV_MAX  4096 /* variables from a launcher: each is looked up in the job's environment */

static uint64_t now_us(const struct shim *s)
{
	return clock_boot_us(s->clock);
}

/* Sum of "oom_kill N" in the cgroup's event files. */
uint64_t start_oom_kills(const struct shim *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->l.oom_files.n; i++) {
		cleanup_close int fd = open(s->l.oom_files.v[i], O_RDONLY | O_CLOEXEC);
		char text[OOM_FILE_MAX];
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		const char *p;

		if (n <= 0)
			continue;
		text[n] = '\0';
		p = strncmp(text, "oom_kill ", 9) == 0 ? text : strstr(text, "\noom_kill ");
		if (p)
			sum += strtoull(p + (*p == '\n') + 9, NULL, 10);
	}
	return sum;
}

static int open_metrics(const struct shim *s, int *fd, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/metrics.jsonl", s->l.logdir);

	*fd = -1;
	if (!s->l.metrics)
		return 0;
	*fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
	return *fd < 0 ? err_sys(e, errno, "metrics file %s", path) : 0;
}

int start_fork(struct shim *s, const struct shim_launch *l, int in_fd, int park_fd, struct err *e)
{
	int ends[2];
	struct child_io io = {.in_fd = in_fd, .park_fd = park_fd};
	int rc;

	if (open_metrics(s, &io.metrics_fd, e) < 0)
		return -1;
	rc = out_pipes(s->out, ends, e);
	if (rc == 0) {
		io.out_fd = ends[0];
		io.err_fd = ends[1];
		rc = child_fork(&s->child, l, &io, e);
		close(ends[0]);
		close(ends[1]);
	}
	if (io.metrics_fd >= 0)
		close(io.metrics_fd);
	if (rc == 0)
		s->childless = 0;
	return rc;
}

/* As soon as something of the launch may run here. */
static void watch_lease(struct shim *s)
{
	if (s->l.lease && s->l.lease[0])
		s->lease_at_us = now_us(s);
}

static void name_metrics(struct shim *s)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", SHIM_METRICS_FD);
	if (s->l.metrics)
		strv_setenv(&s->l.env, "HEARTH_METRICS_FD", number);
}

void start_process(struct shim *s)
{
	int in_fd = s->in_fd, rc;
	struct err why;

	s->in_fd = -1;
	name_metrics(s);
	s->oom_before = start_oom_kills(s);
	rc = start_fork(s, &s->l, in_fd, -1, &why);
	if (in_fd >= 0)
		close(in_fd);
	if (rc < 0) {
		shim_fail(s, why.text);
		return;
	}
	s->phase = SP_STARTING;
	if (shim_record(s, &why) < 0) {
		/* Not released: it has executed nothing. */
		child_await(&s->child);
		err_wrap(&why, "the start cannot be recorded");
		shim_fail(s, why.text);
		return;
	}
	child_release(&s->child);
	watch_lease(s);
}

/* ---- the launcher's go and the agent's ---------------------------------------------------------- */

static int check_env(const struct shim *s, const struct wire_strv *env, struct err *e)
{
	static const char name[] = "OMPI_COMM_WORLD_RANK=";

	for (uint32_t i = 0; i < env->n; i++) {
		const char *eq = strchr(env->v[i], '='), *v = env->v[i] + sizeof(name) - 1;

		if (!eq || eq == env->v[i])
			return err_set(e, ERR_INVALID, "environment: '%.80s' is not NAME=VALUE", env->v[i]);
		/* A process that believes to be another rank than its launcher does would train on the wrong data. */
		if (s->l.kind == PROC_RANK && strncmp(env->v[i], name, sizeof(name) - 1) == 0 &&
		    strtoull(v, NULL, 10) != s->l.rank)
			return err_set(e, ERR_INVALID, "the launcher put rank %s where rank %u was prepared", v,
			               s->l.rank);
	}
	return 0;
}

static int check_phase(const struct shim *s, enum shim_phase wanted, struct err *e)
{
	if (s->phase == SP_FAILED)
		return err_set(e, ERR_CONFLICT, "failed before: %s", s->text);
	if (s->phase == wanted)
		return 0;
	if (s->phase == SP_WAITING)
		return err_set(e, ERR_CONFLICT, "not parked yet: its launcher or its interpreter is not ready");
	return err_set(e, ERR_CONFLICT, s->phase == SP_PARKED ? "armed already" : "started already");
}

static void put_over(struct strv *env, const struct wire_strv *over)
{
	for (uint32_t i = 0; i < over->n; i++) {
		const char *eq = strchr(over->v[i], '=');
		cleanup_free char *name = xstrndup(over->v[i], (size_t)(eq - over->v[i]));

		strv_setenv(env, name, eq + 1);
	}
}

static void replace_words(struct strv *to, const struct wire_strv *from)
{
	strv_fini(to);
	for (uint32_t i = 0; i < from->n; i++)
		strv_add(to, from->v[i]);
}

static void replace_cwd(struct shim *s, const char *cwd)
{
	if (!cwd[0])
		return;
	free(s->l.cwd);
	s->l.cwd = xstrdup(cwd);
}

void start_park(struct shim *s)
{
	log_info("event=parked");
	shim_enter(s, SP_PARKED);
}

/* Nothing of it may be left once the lease of the node is over: its launcher may be anywhere. */
static void be_armed(struct shim *s)
{
	s->armed = 1;
	watch_lease(s);
	name_metrics(s);
	if (s->l.park_argv.n)
		interp_begin(s, s->in_fd);
	else
		start_park(s);
}

static int arm(struct shim *s, const struct wm_shim_go *go, int in_fd, struct err *e)
{
	if (s->armed)
		return err_set(e, ERR_CONFLICT, "armed already");
	if (!go->mirror)
		return err_set(e, ERR_CONFLICT, "a parked process starts by shim_start, not by go");
	if (go->env.n > ARM_ENV_MAX)
		return err_set(e, ERR_LIMIT, "%u variables from the launcher; at most %d are allowed", go->env.n,
		               ARM_ENV_MAX);
	replace_words(&s->arm_env, &go->env);
	s->in_fd = in_fd;
	be_armed(s);
	return 0;
}

void shim_begin(struct shim *s)
{
	if (s->phase != SP_WAITING)
		return;
	if (s->l.park && !s->l.await_launcher)
		be_armed(s);
	else if (!s->l.park && !s->l.wait_go)
		start_process(s);
}

int shim_go(struct shim *s, const struct wm_shim_go *go, int in_fd, struct err *e)
{
	if (check_phase(s, SP_WAITING, e) < 0 || check_env(s, &go->env, e) < 0)
		return -1;
	if (s->l.park)
		return arm(s, go, in_fd, e);
	put_over(&s->l.env, &go->env);
	replace_cwd(s, go->cwd);
	if (go->argv.n)
		replace_words(&s->l.argv, &go->argv);
	s->in_fd = in_fd;
	start_process(s);
	return 0;
}

int shim_unpark(struct shim *s, const struct wm_shim_start *m, struct err *e)
{
	struct wire_strv arm_env = {.v = s->arm_env.v, .n = (uint32_t)s->arm_env.n};

	if (!s->l.park)
		return err_set(e, ERR_CONFLICT, "this process was not prepared to be parked");
	if (check_phase(s, SP_PARKED, e) < 0 || check_env(s, &m->env, e) < 0)
		return -1;
	if (!m->argv.n)
		return err_set(e, ERR_INVALID, "no command was given");
	if (s->interp.state == INTERP_DYING && s->interp.next != INTERP_THEN_PARK)
		return err_set(e, ERR_CONFLICT, "started already, or ending");
	if (m->preloaded && interp_check(s, e) < 0)
		return -1;
	replace_words(&s->l.argv, &m->argv);
	replace_words(&s->l.env, &m->env);
	put_over(&s->l.env, &arm_env);
	replace_cwd(s, m->cwd);
	name_metrics(s);
	if (m->preloaded)
		interp_take(s);
	else
		interp_drop(s, INTERP_THEN_START);
	return 0;
}

void start_abandon(struct shim *s, const char *text)
{
	if (s->interp.state == INTERP_DYING && s->interp.next == INTERP_THEN_FAIL)
		return;
	shim_set_text(s, "%s", text);
	interp_drop(s, INTERP_THEN_FAIL);
}

void shim_mirror_ended(struct shim *s)
{
	log_info("event=mirror_ended");
	if (s->phase == SP_WAITING || s->phase == SP_PARKED) {
		s->ended_by = BY_LAUNCHER;
		start_abandon(s, "its launcher ended while it was parked");
	} else {
		shim_quit(s, s->l.grace_ms, BY_LAUNCHER);
	}
}

/* ---- the start's end ---------------------------------------------------------------------------- */

void start_executed(struct shim *s)
{
	if (s->in_fd >= 0)
		close(s->in_fd); /* the waiting interpreter has its own */
	s->in_fd = -1;
	s->started_us = clock_real_us(s->clock);
	log_info("event=started pid=%d", (int)s->child.id.pid);
	shim_enter(s, SP_RUNNING);
	ctl_started(s->ctl, ERR_NONE, "");
}

void start_reported(struct shim *s)
{
	char text[CHILD_TEXT_MAX];
	int rc;

	if (s->interp.state == INTERP_STARTING) {
		interp_reported(s);
		return;
	}
	rc = s->phase == SP_STARTING ? child_report(&s->child, text) : 0;
	if (rc == 0)
		return;
	if (rc < 0) {
		/* It ends by itself right after its last word. */
		child_await(&s->child);
		if (!text[0] && WIFSIGNALED(s->child.raw_status))
			snprintf(text, sizeof(text), "ended by %s before it was executed",
			         proc_signal_name(WTERMSIG(s->child.raw_status)));
		else if (!text[0])
			snprintf(text, sizeof(text), "ended before it was executed");
		shim_fail(s, text);
		return;
	}
	start_executed(s);
}

void start_fini(struct shim *s)
{
	if (s->in_fd >= 0)
		close(s->in_fd);
	s->in_fd = -1;
	strv_fini(&s->arm_env);
	interp_fini(&s->interp);
}
