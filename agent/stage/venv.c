/*
 * venv: the job's requirements.txt as a virtual environment that sees the node's own packages, cached by
 * digest. This file finds a finished one, before there is a container; venv_build.c makes a missing one
 * inside the container.
 *
 *   DATA/cache/venvs/KEY/env    KEY: digest of the requirements, the interpreter and the account; KEY.N
 *                               while running jobs use one that a job has changed (venv_print.h)
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
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/capture.h"
#include "agent/pool/uses.h"
#include "agent/stage/stage_int.h"
#include "agent/stage/venv_print.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"

#define TEXT_MAX    (1024 * 1024)
#define SHORT_MS    60000u
#define CHANGED_MAX 64u /* environments that running jobs have changed */

/* ---- what is asked for
 * ---------------------------------------------------------------------------------------- */

struct wanted {
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
	cleanup_free char *below = xasprintf("code/%s", s->requirements);
	cleanup_close int tree = s->code_layer ? open(s->code_layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	char *copy, *save = NULL;
	size_t n;
	int rc;

	/* The folder is the account's by now, and so is whatever the name means. */
	rc = s->code_layer ? files_read(s->files, tree, s->requirements, TEXT_MAX, &w->text, &n, e)
	                   : files_read(s->files, s->ml_fd, below, TEXT_MAX, &w->text, &n, e);
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
	id = xasprintf("venv 1\n%s\n%s\n%u\n%s\n%s\n%s", real, version, s->as_user ? s->user.uid : 0,
	               w->local ? s->bundle : "", w->editable ? s->work : "", w->text);
	hash_hex(id, strlen(id), key);
	free(id);
	free(version);
	return 0;
}

/* ---- use ------------------------------------------------------------------------------------------- */

char *venv_cache(const struct stage *s)
{
	return xasprintf("%s/cache/venvs", s->data_dir);
}

/* Names the environment in the job's folder, so that it is not evicted. With its lock held. */
int venv_use(struct stage *s, const char *entry_dir, struct err *e)
{
	cleanup_free char *link = xasprintf("%s/venv", s->work);

	unlink(link);
	if (symlink(entry_dir, link) < 0)
		return err_sys(e, errno, "%s", link);
	s->venv_bin = xasprintf("%s/env/bin", entry_dir);
	strv_addf(&s->uses, "venvs%s", strrchr(entry_dir, '/'));
	/* One that was made in the container: the list is written already. */
	if (s->build_key && s->pool_dir)
		return uses_add(s->pool_dir, s->uses.v[s->uses.n - 1], e);
	return 0;
}

static int never_wait(void *arg)
{
	(void)arg;
	return -1;
}

/* A job changed it, so no other job gets it. Jobs that run keep it; then the next one is looked for. */
static int drop_changed(struct stage *s, const char *kind, const char *key, const char *what)
{
	cleanup_free char *jobs = xasprintf("%s/jobs", s->data_dir), *dir = xasprintf("%s/%s", kind, key);
	struct err e;

	stage_say(s, "requirements: a job changed the environment %.12s (%s); it is made again", key,
	          what ? what : "it has no record");
	return stage_env_used(jobs, dir) ? -1 : cache_drop(kind, key, never_wait, NULL, &e);
}

/* 1: found, or to be made under this key; 0: another key; -1. One that is missing, or that somebody else
 * makes just now, waits for the container. */
static int try_venv(struct stage *s, const char *key, struct err *e)
{
	cleanup_free char *kind = venv_cache(s), *what = NULL;
	struct cache_entry c;
	int rc = 1, same;

	if (cache_open(&c, kind, key, 0755, never_wait, NULL, e) < 0) {
		if (e->code != ERR_UNAVAILABLE)
			return -1;
		s->build_key = xstrdup(key);
		return 1;
	}
	same = c.complete && venv_print_check(c.dir, &what);
	if (same) {
		stage_say(s, "requirements: the environment %.12s is here already", key);
		rc = venv_use(s, c.dir, e) < 0 ? -1 : 1;
	}
	if (c.complete && !same) {
		cache_close(&c);
		if (drop_changed(s, kind, key, what) < 0)
			return 0;
	} else {
		cache_close(&c);
	}
	if (!same)
		s->build_key = xstrdup(key);
	return rc;
}

static int look_for(struct stage *s, const struct wanted *w, struct err *e)
{
	char base[HASH_HEX_SIZE];
	int rc;

	if (make_key(s, w, base, e) < 0)
		return -1;
	for (unsigned i = 0; i < CHANGED_MAX; i++) {
		cleanup_free char *key = i ? xasprintf("%s.%u", base, i) : xstrdup(base);

		rc = try_venv(s, key, e);
		if (rc != 0)
			return rc < 0 ? -1 : 0;
	}
	return err_set(e, ERR_BUSY,
	               "jobs of this node changed %u environments of these requirements and still use them",
	               CHANGED_MAX);
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
		rc = look_for(s, &w, &e);
	free(w.text);
	return rc == 0 ? 0 : venv_fail(s, &e);
}

int venv_fail(struct stage *s, const struct err *e)
{
	int owners = e->code == ERR_INVALID || e->code == ERR_NOT_FOUND || e->code == ERR_DENIED;

	return stage_fail(s, owners ? RC_USER_ERROR : RC_NONE, e);
}
