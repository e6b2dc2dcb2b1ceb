/*
 * suspects: see suspects.h.
 */
#include "agent/pool/suspects.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define TEXT_MAX 2048

static char *path_of(const char *data_dir, uint64_t pool, uint64_t job)
{
	return xasprintf("%s/suspects/%" PRIu64 ".%" PRIu64, data_dir, pool, job);
}

int suspects_add(const char *data_dir, uint64_t pool, uint64_t job, const char *text, struct err *e)
{
	cleanup_free char *dir = xasprintf("%s/suspects", data_dir), *path = path_of(data_dir, pool, job);

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "%s", dir);
	return fs_write_atomic(path, text, strnlen(text, TEXT_MAX), 0600, e);
}

struct walk {
	const char *data_dir;
	void (*fn)(uint64_t pool, uint64_t job, const char *text, void *arg);
	void *arg;
};

static int read_one(const char *name, void *arg)
{
	const struct walk *w = arg;
	uint64_t pool, job;
	char *text, rest;
	size_t n;

	if (sscanf(name, "%" SCNu64 ".%" SCNu64 "%c", &pool, &job, &rest) == 2) {
		cleanup_free char *path = path_of(w->data_dir, pool, job);

		if (fs_read_file(path, TEXT_MAX, &text, &n, NULL) < 0)
			return 0;
		w->fn(pool, job, text, w->arg);
		free(text);
	}
	return 0;
}

void suspects_each(const char *data_dir, void (*fn)(uint64_t pool, uint64_t job, const char *text, void *arg),
                   void *arg)
{
	cleanup_free char *dir = xasprintf("%s/suspects", data_dir);
	struct walk w = {.data_dir = data_dir, .fn = fn, .arg = arg};

	fs_each(dir, read_one, &w, NULL);
}

void suspects_told(const char *data_dir, uint64_t pool, uint64_t job)
{
	cleanup_free char *path = path_of(data_dir, pool, job);

	unlink(path);
}
