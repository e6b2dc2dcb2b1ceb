/*
 * venv_build: makes the virtual environment of a launch inside its container.
 *
 * pip runs code of the job's owner and of packages. So the launch has its container by now, and every program
 * here runs in it (inside.h), as the job's account. The entry of the cache is visible there under its own
 * path, and is the account's while it is made.
 *
 * A finished environment of a root agent belongs to root: jobs of the account share it, and none of them may
 * change it for the others. An ordinary user's agent cannot keep its user from that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/stage/stage_int.h"
#include "agent/stage/venv_print.h"

#define SILENT_MS 5000u
#define BUILD_MS  (2u * 3600 * 1000)
#define SHORT_MS  60000u
#define DEPTH_MAX 128
#define ARGS_MAX  16 /* of a program here */

extern char **environ;

struct build {
	struct stage *s;
	char *env_dir, *python; /* of the environment */
	struct strv env;
	const char *doing;
	uint64_t next_beat_ms, started_us;
	int full;   /* ahead of a launch: too little of the disk would be left */
	char *last; /* what the last program said at its end, and what its shim adds */
};

/* ---- programs --------------------------------------------------------------------------------------- */

static void show_output(const char *p, size_t n, void *arg)
{
	struct build *b = arg;

	stage_bytes(b->s, p, n);
	b->next_beat_ms = SILENT_MS;
}

static int has_room(struct build *b)
{
	uint64_t left;

	b->full = stage_room_ahead(b->s, &left, NULL) == 0 && left == 0;
	return !b->full;
}

static int pip_beat(uint64_t silent_ms, void *arg)
{
	struct build *b = arg;

	if (silent_ms >= b->next_beat_ms) {
		stage_say(b->s, "%s: still at work, %" PRIu64 " s so far", b->doing,
		          (clock_boot_us(b->s->env->clock) - b->started_us) / 1000000);
		b->next_beat_ms = silent_ms + SILENT_MS;
	}
	if (b->s->ahead && !has_room(b))
		return -1;
	/* A step of nothing shows the controller that this is alive. */
	b->s->done++;
	return stage_step(b->s, 0);
}

static int begins_with(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
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
	strv_addf(&b->env, "TMPDIR=%s", s->tmpdir);
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

static int run_program(struct build *b, const char *doing, const char *const *argv, struct err *e)
{
	cleanup_free char *code = xasprintf("%s/code", b->s->ml_seen);
	const char *low[ARGS_MAX + 4] = {"/usr/bin/nice", "-n", "19"};
	struct inside_run r = {.argv = b->s->ahead ? low : argv,
	                       .env = &b->env,
	                       .cwd = code,
	                       .timeout_ms = BUILD_MS,
	                       .output = show_output,
	                       .tick = pip_beat,
	                       .arg = b};
	int rc;

	for (size_t i = 0; i < ARGS_MAX && argv[i]; i++)
		low[3 + i] = argv[i];
	b->doing = doing;
	b->next_beat_ms = SILENT_MS;
	b->started_us = clock_boot_us(b->s->env->clock);
	rc = inside_run(b->s->inside, &r, e);
	free(b->last);
	b->last = xasprintf("%s%s%s", r.last_line, r.last_line[0] && r.note[0] ? "; " : "", r.note);
	return rc;
}

/* Debian's pip is seen through the node's packages; where it is missing the interpreter brings its own. */
static int have_pip(struct build *b, struct err *e)
{
	const char *ask[] = {b->python, "-c", "import pip", NULL};
	const char *make[] = {b->python, "-m", "ensurepip", "--default-pip", NULL};
	struct inside_run r = {
	    .argv = ask, .env = &b->env, .cwd = "/", .timeout_ms = SHORT_MS, .tick = pip_beat, .arg = b};

	b->doing = "looking for pip";
	if (inside_run(b->s->inside, &r, e) == 0)
		return 0;
	if (e->code == ERR_UNAVAILABLE)
		return -1;
	if (run_program(b, "ensurepip", make, e) < 0)
		return err_set(e, ERR_UNAVAILABLE,
		               "this node has no pip for " STAGE_PYTHON " (Debian: python3-pip): %s", b->last);
	return 0;
}

static int install_packages(struct build *b, struct err *e)
{
	cleanup_free char *file = xasprintf("%s/code/%s", b->s->ml_seen, b->s->requirements);
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
	                     file,
	                     NULL};

	if (run_program(b, "python3 -m venv", venv, e) < 0)
		return err_set(e, e->code == ERR_UNAVAILABLE ? e->code : ERR_IO, "virtual environment: %s",
		               b->last[0] ? b->last : e->text);
	if (have_pip(b, e) < 0)
		return -1;
	if (run_program(b, "pip install", pip, e) == 0)
		return 0;
	if (b->full)
		return err_set(e, ERR_NOSPACE, "pip install -r %s: too little of the disk would be left free",
		               b->s->requirements);
	if (e->code == ERR_UNAVAILABLE)
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	return err_set(e, ERR_INVALID, "pip install -r %s: %s", b->s->requirements,
	               b->last[0] ? b->last : e->text);
}

/* ---- whose it is ------------------------------------------------------------------------------------- */

static int close_folder(struct stage *s, int fd, int depth, struct err *e);

/* Only what belongs to the account: a second name of somebody else's file, or a folder that was moved here,
 * stays as it is. By descriptor, because other jobs of the account may change names meanwhile. */
static int close_entry(struct stage *s, int at, const char *name, int depth, struct err *e)
{
	cleanup_close int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[40];
	struct stat st;

	if (stage_step(s, 0) < 0)
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", name);
	if (S_ISDIR(st.st_mode))
		return close_folder(s, openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth, e);
	if (st.st_uid != s->user.uid || st.st_nlink > 1)
		return 0;
	if (fchownat(fd, "", 0, 0, AT_EMPTY_PATH) < 0)
		return err_sys(e, errno, "%s: owner", name);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (S_ISREG(st.st_mode) && chmod(path, st.st_mode & 0100 ? 0755 : 0644) < 0)
		return err_sys(e, errno, "%s: mode", name);
	return 0;
}

/* Takes fd. The folder first: then nobody puts anything else into it. */
static int close_folder(struct stage *s, int fd, int depth, struct err *e)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *one;
	struct stat st;
	int rc = 0;

	if (!d || fstat(fd, &st) < 0) {
		rc = err_sys(e, errno, "folder of the environment");
		if (d)
			closedir(d);
		else if (fd >= 0)
			close(fd);
		return rc;
	}
	if (st.st_uid != s->user.uid) {
		closedir(d);
		return 0;
	}
	if (depth == DEPTH_MAX)
		rc = err_set(e, ERR_LIMIT, "its folders are more than %d deep", DEPTH_MAX);
	else if (fchown(fd, 0, 0) < 0 || fchmod(fd, 0755) < 0)
		rc = err_sys(e, errno, "folder of the environment");
	while (rc == 0 && (one = readdir(d)))
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			rc = close_entry(s, fd, one->d_name, depth + 1, e);
	closedir(d);
	return rc;
}

static int close_env(struct build *b, struct err *e)
{
	struct stage *s = b->s;

	if (!s->as_user)
		return 0;
	if (close_folder(s, open(b->env_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), 0, e) < 0)
		return err_wrap(e, "virtual environment");
	return 0;
}

/* ---- all of it ---------------------------------------------------------------------------------------- */

static int build_env(struct build *b, struct err *e)
{
	if (b->s->ahead && !has_room(b))
		return err_set(e, ERR_NOSPACE, "too little of the disk would be left free");
	make_env(b);
	if (mkdir(b->env_dir, 0755) < 0)
		return err_sys(e, errno, "%s", b->env_dir);
	if (b->s->as_user && chown(b->env_dir, b->s->user.uid, b->s->user.gid) < 0)
		return err_sys(e, errno, "%s: owner", b->env_dir);
	return install_packages(b, e) < 0 ? -1 : close_env(b, e);
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

/* Somebody else may have made it since staging looked. */
static int provide_env(struct build *b, struct cache_entry *c, struct err *e)
{
	struct stage *s = b->s;

	if (c->complete) {
		stage_say(s, "requirements: the environment %.12s is here already", s->build_key);
		return venv_use(s, c->dir, e);
	}
	b->env_dir = xasprintf("%s/env", c->dir);
	b->python = xasprintf("%s/bin/python", b->env_dir);
	stage_say(s, "requirements: building the environment %.12s from %s", s->build_key, s->requirements);
	if (build_env(b, e) < 0 || venv_print_save(c->dir, e) < 0 || cache_commit(c, e) < 0)
		return -1;
	return venv_use(s, c->dir, e);
}

int stage_build_venv(struct stage *s)
{
	cleanup_free char *kind = venv_cache(s);
	struct build b = {.s = s, .started_us = clock_boot_us(s->env->clock)};
	struct cache_entry c;
	struct err e = {0};
	int rc;

	stage_phase(s, "requirements", 0);
	rc = cache_open(&c, kind, s->build_key, 0755, wait_turn, &b, &e);
	if (rc == 0) {
		rc = provide_env(&b, &c, &e);
		cache_close(&c);
	}
	strv_fini(&b.env);
	free(b.last);
	free(b.env_dir);
	free(b.python);
	return rc == 0 ? 0 : venv_fail(s, &e);
}
