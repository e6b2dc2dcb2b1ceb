/*
 * venv: the job's requirements.txt as a virtual environment that sees the node's own packages, cached by
 * digest.
 *
 *   DATA/cache/venvs/KEY/env    KEY: digest of the requirements, the interpreter and the account
 *   DATA/jobs/J.A/venv          link to the entry in use: it is not evicted while this exists
 *
 * The environment is built in its final place, because scripts in bin/ carry its path. Nobody uses it
 * before the marker exists, and a second job with the same requirements waits. Each account has its own,
 * because pip runs code of the packages, which must not reach the jobs of others. Requirements with paths
 * into the source tree belong to that tree, too; editable ones belong to one run. A finished environment
 * needs no network.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/capture.h"
#include "agent/base/child.h"
#include "agent/stage/stage_int.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"

#define TEXT_MAX  (1024 * 1024)
#define SILENT_MS 5000u
#define BUILD_MS  (2u * 3600 * 1000)
#define SHORT_MS  60000u

extern char **environ;

/* ---- what is asked for
 * ---------------------------------------------------------------------------------------- */

struct wanted {
	char *file; /* below ml/code */
	char *text;
	int lines, local, editable; /* local: something of the source tree is meant */
};

static int begins_with(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static void look_at_line(struct wanted *w, const char *line)
{
	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#')
		return;
	if (begins_with(line, "-e") || begins_with(line, "--editable"))
		w->editable = 1;
	if (begins_with(line, "-r") || begins_with(line, "--requirement") || begins_with(line, "-c") ||
	    begins_with(line, "--constraint") || *line == '.' || strstr(line, "@ file:") || strstr(line, "@ ."))
		w->local = 1;
	/* Options alone ask for nothing. */
	if (*line != '-' || w->editable || begins_with(line, "-r") || begins_with(line, "--requirement"))
		w->lines++;
}

static int read_wanted(struct stage *s, struct wanted *w, struct err *e)
{
	cleanup_close int fd = -1;
	char *copy, *save = NULL;
	struct stat st;
	size_t n;
	int rc;

	w->file = xasprintf("%s/code/%s", s->ml, s->requirements);
	if (asuser_enter(&s->as, e) < 0)
		return -1;
	/* The folder is the account's by now, and what it puts there must not hold this thread: no FIFO. */
	fd = open(w->file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	rc = fd < 0 || fstat(fd, &st) < 0 ? err_sys(e, errno, "%s", w->file)
	     : !S_ISREG(st.st_mode)       ? err_set(e, ERR_INVALID, "%s: is not a file", w->file)
	                                  : fs_read_fd(fd, w->file, TEXT_MAX, &w->text, &n, e);
	asuser_leave(&s->as);
	if (rc < 0)
		return e->code == ERR_NOT_FOUND
		           ? err_set(e, ERR_NOT_FOUND, "%s is not in the source tree", s->requirements)
		           : err_wrap(e, "%s", s->requirements);
	copy = xstrdup(w->text);
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		look_at_line(w, line);
	free(copy);
	return 0;
}

static int make_key(struct stage *s, const struct wanted *w, char key[HASH_HEX_SIZE], struct err *e)
{
	static const char *const argv[] = {STAGE_PYTHON, "-c",
	                                   "import sys; print(sys.version); print(sys.prefix)", NULL};
	struct capture c = {.argv = argv, .timeout_ms = SHORT_MS, .max = 4096};
	cleanup_free char *real = realpath(STAGE_PYTHON, NULL);
	char *version = NULL, *id;
	size_t n;

	if (!real)
		return err_set(e, ERR_UNAVAILABLE, "this node has no " STAGE_PYTHON);
	if (capture_run(&c, &version, &n, e) < 0) {
		free(version);
		return -1;
	}
	id = xasprintf("venv 1\n%s\n%s\n%u\n%s\n%s\n%s", real, version, s->as.needed ? s->user.uid : 0,
	               w->local ? s->bundle : "", w->editable ? s->work : "", w->text);
	hash_hex(id, strlen(id), key);
	free(id);
	free(version);
	return 0;
}

/* ---- building
 * --------------------------------------------------------------------------------------------------- */

struct build {
	struct stage *s;
	struct wanted *w;
	char *env_dir, *python; /* of the environment */
	struct strv env;
	const char *doing;
	uint64_t next_beat_ms, started_us;
};

static void show_output(const char *p, size_t n, void *arg)
{
	struct build *b = arg;

	stage_bytes(b->s, p, n);
	b->next_beat_ms = SILENT_MS;
}

static int pip_beat(uint64_t silent_ms, void *arg)
{
	struct build *b = arg;

	if (silent_ms >= b->next_beat_ms) {
		stage_say(b->s, "%s: still at work, %" PRIu64 " s so far", b->doing,
		          (clock_boot_us(b->s->env->clock) - b->started_us) / 1000000);
		b->next_beat_ms = silent_ms + SILENT_MS;
	}
	/* A step of nothing shows the controller that this is alive. */
	b->s->done++;
	return stage_step(b->s, 0);
}

/* Variables of the node that pip may need (proxies, index), then those of the job. */
static void make_env(struct build *b)
{
	static const char *const from_agent[] = {
	    "http_proxy=", "https_proxy=", "no_proxy=", "HTTP_PROXY=", "HTTPS_PROXY=",       "NO_PROXY=",
	    "ALL_PROXY=",  "all_proxy=",   "PIP_",      "SSL_CERT_",   "REQUESTS_CA_BUNDLE="};
	const struct stage *s = b->s;

	strv_addf(&b->env, "PATH=%s/bin:/usr/local/bin:/usr/bin:/bin", b->env_dir);
	strv_addf(&b->env, "HOME=%s", s->user.home ? s->user.home : "/");
	strv_addf(&b->env, "USER=%s", s->user.name ? s->user.name : "");
	strv_addf(&b->env, "TMPDIR=%s/tmp", s->work);
	strv_addf(&b->env, "VIRTUAL_ENV=%s", b->env_dir);
	strv_add(&b->env, "LANG=C.UTF-8");
	strv_add(&b->env, "LC_ALL=C.UTF-8");
	strv_add(&b->env, "PYTHONUNBUFFERED=1");
	for (char **v = environ; *v; v++)
		for (size_t i = 0; i < sizeof(from_agent) / sizeof(from_agent[0]); i++)
			if (begins_with(*v, from_agent[i])) {
				strv_add(&b->env, *v);
				break;
			}
	for (size_t i = 0; i < s->pip_env.n; i++) {
		cleanup_free char *name = xstrdup(s->pip_env.v[i]);
		char *eq = strchr(name, '=');

		*eq = '\0';
		strv_setenv(&b->env, name, eq + 1);
	}
}

static int run_pip(struct build *b, const char *doing, const char *const *argv, char last[512], struct err *e)
{
	cleanup_free char *code = xasprintf("%s/code", b->s->ml);
	struct child c = {.argv = argv,
	                  .envp = b->env.v,
	                  .cwd = code,
	                  .user = b->s->as.needed ? &b->s->user : NULL,
	                  .stdin_fd = -1,
	                  .timeout_ms = BUILD_MS,
	                  .output = show_output,
	                  .tick = pip_beat,
	                  .arg = b};
	int rc;

	b->doing = doing;
	b->next_beat_ms = SILENT_MS;
	b->started_us = clock_boot_us(b->s->env->clock);
	rc = child_run(&c, e);
	memcpy(last, c.last_line, sizeof(c.last_line));
	return rc;
}

/* Debian's pip is seen through the node's packages; where it is missing the interpreter brings its own. */
static int have_pip(struct build *b, char last[512], struct err *e)
{
	const char *ask[] = {b->python, "-c", "import pip", NULL};
	const char *make[] = {b->python, "-m", "ensurepip", "--default-pip", NULL};
	struct capture c = {.argv = ask,
	                    .envp = b->env.v,
	                    .timeout_ms = SHORT_MS,
	                    .max = 4096,
	                    .user = b->s->as.needed ? &b->s->user : NULL};
	char *out = NULL;
	size_t n;
	int rc = capture_run(&c, &out, &n, NULL);

	free(out);
	if (rc == 0)
		return 0;
	if (run_pip(b, "ensurepip", make, last, e) < 0)
		return err_set(e, ERR_UNAVAILABLE,
		               "this node has no pip for " STAGE_PYTHON " (Debian: python3-pip): %s", last);
	return 0;
}

static int build_env(struct build *b, struct err *e)
{
	const char *venv[] = {STAGE_PYTHON,    "-m",       "venv", "--system-site-packages",
	                      "--without-pip", b->env_dir, NULL};
	const char *pip[] = {b->python,
	                     "-m",
	                     "pip",
	                     "install",
	                     "--disable-pip-version-check",
	                     "--no-input",
	                     "--no-color",
	                     "--progress-bar",
	                     "off",
	                     "-r",
	                     b->w->file,
	                     NULL};
	char last[512];

	if (mkdir(b->env_dir, 0755) < 0)
		return err_sys(e, errno, "%s", b->env_dir);
	if (b->s->as.needed && chown(b->env_dir, b->s->user.uid, b->s->user.gid) < 0)
		return err_sys(e, errno, "%s: owner", b->env_dir);
	if (run_pip(b, "python3 -m venv", venv, last, e) < 0)
		return err_set(e, e->code == ERR_UNAVAILABLE ? e->code : ERR_IO, "virtual environment: %s",
		               last[0] ? last : e->text);
	if (have_pip(b, last, e) < 0)
		return -1;
	if (run_pip(b, "pip install", pip, last, e) < 0) {
		if (e->code == ERR_UNAVAILABLE)
			return err_set(e, ERR_UNAVAILABLE, "cancelled");
		return err_set(e, ERR_INVALID, "pip install -r %s: %s", b->s->requirements, last[0] ? last : e->text);
	}
	return 0;
}

/* ---- use
 * ------------------------------------------------------------------------------------------------------ */

static int mark_use(struct stage *s, const char *entry_dir, struct err *e)
{
	cleanup_free char *link = xasprintf("%s/venv", s->work);

	unlink(link);
	return symlink(entry_dir, link) < 0 ? err_sys(e, errno, "%s", link) : 0;
}

static int wait_turn(void *arg)
{
	struct build *b = arg;
	uint64_t waited_ms = (clock_boot_us(b->s->env->clock) - b->started_us) / 1000;

	if (waited_ms >= b->next_beat_ms) {
		stage_say(b->s,
		          "requirements: another job builds the same environment, waiting for it (%" PRIu64 " s)",
		          waited_ms / 1000);
		b->next_beat_ms = waited_ms + SILENT_MS;
		b->s->done++;
	}
	if (stage_step(b->s, 0) < 0)
		return -1;
	return stage_pause(b->s);
}

static int provide_venv(struct stage *s, struct wanted *w, struct err *e)
{
	cleanup_free char *kind = xasprintf("%s/cache/venvs", s->data_dir);
	struct build b = {.s = s, .w = w, .started_us = clock_boot_us(s->env->clock)};
	struct cache_entry c;
	char key[HASH_HEX_SIZE];
	int rc = 0;

	if (make_key(s, w, key, e) < 0 || cache_open(&c, kind, key, 0755, wait_turn, &b, e) < 0)
		return -1;
	b.env_dir = xasprintf("%s/env", c.dir);
	b.python = xasprintf("%s/bin/python", b.env_dir);
	if (c.complete) {
		stage_say(s, "requirements: the environment %.12s is here already", key);
	} else {
		stage_say(s, "requirements: building the environment %.12s from %s", key, s->requirements);
		make_env(&b);
		rc = build_env(&b, e);
		if (rc == 0)
			rc = cache_commit(&c, e);
		strv_fini(&b.env);
	}
	if (rc == 0)
		rc = mark_use(s, c.dir, e); /* before the lock goes */
	if (rc == 0)
		s->venv_bin = xasprintf("%s/bin", b.env_dir);
	cache_close(&c);
	free(b.env_dir);
	free(b.python);
	return rc;
}

int stage_requirements(struct stage *s)
{
	struct wanted w = {0};
	struct err e = {0};
	int rc;

	stage_phase(s, "requirements", 0);
	rc = read_wanted(s, &w, &e);
	if (rc == 0 && w.lines == 0)
		stage_say(s, "requirements: %s asks for nothing", s->requirements);
	else if (rc == 0)
		rc = provide_venv(s, &w, &e);
	free(w.file);
	free(w.text);
	if (rc == 0)
		return 0;
	return stage_fail(
	    s, e.code == ERR_INVALID || e.code == ERR_NOT_FOUND || e.code == ERR_DENIED ? RC_USER_ERROR : RC_NONE,
	    &e);
}
