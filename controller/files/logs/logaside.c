/*
 * logaside: sets logs aside that the record does not know. A database that was put back gives numbers again
 * that these logs have; a stream of that name would take the new bytes for a repetition.
 *
 * It renames folders, so it needs no space. When it is interrupted, the next start does the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/logs/logstore_int.h"

struct aside {
	const char *dir;
	char *to;
	log_known_fn known;
	void *arg;
	struct log_aside *out;
	uint64_t job; /* whose attempts are looked at */
	uint32_t attempts;
	struct err e;
};

static int move_folder(struct aside *a, const char *name)
{
	cleanup_free char *from = xasprintf("%s/%s", a->dir, name), *to = xasprintf("%s/%s", a->to, name);
	cleanup_free char *above = xstrdup(to);

	*strrchr(above, '/') = '\0';
	if (fs_mkdir_p(above, 0700, &a->e) < 0)
		return -1;
	return rename(from, to) == 0 ? 0 : err_sys(&a->e, errno, "move %s to %s", from, to);
}

static int look_at_attempt(const char *name, void *arg)
{
	struct aside *a = arg;
	cleanup_free char *path = NULL;
	uint64_t attempt;

	if (str_parse_u64(name, &attempt) < 0 || attempt <= a->attempts)
		return 0;
	path = xasprintf("%" PRIu64 "/%s", a->job, name);
	a->out->attempts++;
	return move_folder(a, path);
}

static int look_at_job(const char *name, void *arg)
{
	struct aside *a = arg;
	cleanup_free char *path = NULL;
	int known;

	if (str_parse_u64(name, &a->job) < 0)
		return 0;
	known = a->known(a->job, &a->attempts, a->arg, &a->e);
	if (known < 0)
		return -1;
	if (!known) {
		a->out->jobs++;
		return move_folder(a, name);
	}
	path = xasprintf("%s/%s", a->dir, name);
	return fs_each(path, look_at_attempt, a, &a->e);
}

/* A rename stays on one file system: the logs may have a disk of their own. */
static char *choose_place(const char *dir, const char *to, struct err *e)
{
	struct stat from, at;

	if (stat(dir, &from) < 0 || stat(to, &at) < 0) {
		err_sys(e, errno, "%s", dir);
		return NULL;
	}
	if (from.st_dev == at.st_dev)
		return xasprintf("%s/logs", to);
	return xasprintf("%s/.lost/%s", dir, strrchr(to, '/') + 1);
}

int logstore_set_aside(const char *dir, const char *to, log_known_fn known, void *arg, struct log_aside *out,
                       struct err *e)
{
	struct aside a = {.dir = dir, .known = known, .arg = arg, .out = out};
	struct stat st;
	int rc;

	memset(out, 0, sizeof(*out));
	if (stat(dir, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", dir);
	a.to = choose_place(dir, to, e);
	if (!a.to)
		return -1;
	rc = fs_each(dir, look_at_job, &a, &a.e);
	if (rc == 0 && out->jobs + out->attempts)
		rc = log_sync_dir(a.to, &a.e) < 0 || log_sync_dir(dir, &a.e) < 0 ? -1 : 0;
	free(a.to);
	return rc < 0 ? err_set(e, a.e.code, "logs of a lost time line: %s", a.e.text) : 0;
}
