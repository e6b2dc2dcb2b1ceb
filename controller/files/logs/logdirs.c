/*
 * logdirs: the folders of logs, and names in them that are not on the disk yet.
 *
 * A new attempt makes two folders and some files: names in three folders. They are not synced when they are
 * made, but before anything of a stream is called durable. So attempts and streams that begin together share
 * the syncs, and the folder of all jobs is synced once for all of them.
 *
 * A file without LOG_SYNC was made by an earlier hearthd that died: its name may not be on the disk
 * (logstore.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "controller/files/logs/logstore_int.h"

struct log_names { /* of an attempt, to be synced */
	uint64_t job;
	uint32_t attempt;
	int folders; /* the attempt's and the job's own, too */
	struct log_names *prev, *next;
};

int log_sync_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0 || fsync(fd) < 0)
		rc = err_sys(e, errno, "fsync %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

static void job_path(char out[LOG_PATH_MAX], const struct logstore *ls, uint64_t job)
{
	snprintf(out, LOG_PATH_MAX, "%s/%" PRIu64, ls->dir, job);
}

static struct log_names *find_names(const struct logstore *ls, uint64_t job, uint32_t attempt)
{
	struct log_names *n;

	DL_FOREACH (ls->names, n)
		if (n->job == job && n->attempt == attempt)
			return n;
	return NULL;
}

void log_names_new(struct logstore *ls, uint64_t job, uint32_t attempt, int folders)
{
	struct log_names *n = find_names(ls, job, attempt);

	if (!n) {
		n = xcalloc(1, sizeof(*n));
		n->job = job;
		n->attempt = attempt;
		DL_APPEND(ls->names, n);
	}
	n->folders |= folders;
	ls->top_new |= folders;
	/* Also when nothing is written to the stream after all: the list stays short. */
	if (!loop_timer_armed(ls->sync_timer))
		loop_timer_arm(ls->sync_timer, ls->c.sync_ms * 1000ull);
}

static int sync_one(struct logstore *ls, struct log_names *n, struct err *e)
{
	char path[LOG_PATH_MAX];

	if (FAULT("log.sync_names"))
		return err_set(e, ERR_IO, "sync names of logs: injected");
	if (n->folders && ls->top_new && log_sync_dir(ls->dir, e) < 0)
		return -1;
	if (n->folders)
		ls->top_new = 0;
	job_path(path, ls, n->job);
	if (n->folders && log_sync_dir(path, e) < 0)
		return -1;
	if (log_attempt_path(path, ls->dir, n->job, n->attempt, e) < 0 || log_sync_dir(path, e) < 0)
		return -1;
	DL_DELETE(ls->names, n);
	free(n);
	return 0;
}

int log_names_sync(struct logstore *ls, uint64_t job, uint32_t attempt, struct err *e)
{
	struct log_names *n = find_names(ls, job, attempt);

	return n ? sync_one(ls, n, e) : 0;
}

void log_names_sync_all(struct logstore *ls)
{
	struct log_names *n, *next;
	struct err none;

	DL_FOREACH_SAFE (ls->names, n, next)
		sync_one(ls, n, &none); /* a failure is tried again before anything of it is promised */
}

void log_names_drop(struct logstore *ls, uint64_t job)
{
	struct log_names *n, *next;

	DL_FOREACH_SAFE (ls->names, n, next)
		if (!job || n->job == job) {
			DL_DELETE(ls->names, n);
			free(n);
		}
}

int log_make_dirs(struct logstore *ls, uint64_t job, uint32_t attempt, int *made, struct err *e)
{
	char path[LOG_PATH_MAX], above[LOG_PATH_MAX];
	int why = 0;

	*made = 0;
	if (log_attempt_path(path, ls->dir, job, attempt, e) < 0)
		return -1;
	if (mkdir(path, 0700) < 0)
		why = errno;
	if (why == ENOENT) {
		job_path(above, ls, job);
		/* The second finds a word for whatever the first met, and a way when the folder of all logs is gone.
		 */
		if (mkdir(above, 0700) < 0 && errno != EEXIST && fs_mkdir_durable(above, 0700, e) < 0)
			return -1;
		why = mkdir(path, 0700) < 0 ? errno : 0;
	}
	*made = why == 0;
	/* On a disk that cannot be written the answer is EROFS although it is there. */
	return why == 0 || why == EEXIST || access(path, F_OK) == 0 ? 0
	                                                            : err_sys(e, why, "%s: make folder", path);
}
