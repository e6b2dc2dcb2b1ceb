/*
 * logfinish: the end of an attempt's streams: closing, compressing, removing.
 *
 * Compression does one frame in each turn of the loop, so that other streams wait some milliseconds at most.
 * Before it begins, an empty file in DIR/.finish notes the task, so that a restart resumes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "controller/files/logs/logstore_int.h"

#define COMPRESS_FROM                                                                                        \
	16384 /* a smaller stream would save two blocks at most, for three files made and removed */
#define RETRY_US 60000000

static void task_path(char out[LOG_PATH_MAX], const struct logstore *ls, uint64_t job, uint32_t attempt)
{
	snprintf(out, LOG_PATH_MAX, "%s/.finish/%" PRIu64 ".%" PRIu32, ls->dir, job, attempt);
}

static void task_add(struct logstore *ls, uint64_t job, uint32_t attempt)
{
	struct task *t;

	DL_FOREACH (ls->tasks, t)
		if (t->job == job && t->attempt == attempt)
			return;
	t = xcalloc(1, sizeof(*t));
	t->job = job;
	t->attempt = attempt;
	DL_APPEND(ls->tasks, t);
	if (!loop_timer_armed(ls->work_timer))
		loop_timer_arm(ls->work_timer, 0);
}

static void zst_stop(struct logstore *ls)
{
	char path[LOG_PATH_MAX];

	if (!ls->zst)
		return;
	log_zst_free(ls->zst);
	ls->zst = NULL;
	if (log_path(path, ls->dir, ls->tasks->job, ls->tasks->attempt, ls->zst_name, LOG_ZST_TMP, NULL) == 0)
		unlink(path);
}

static void task_end(struct logstore *ls, struct task *t)
{
	char path[LOG_PATH_MAX];

	if (t == ls->tasks)
		zst_stop(ls);
	task_path(path, ls, t->job, t->attempt);
	unlink(path);
	DL_DELETE(ls->tasks, t);
	strv_fini(&t->names);
	free(t);
}

/* Closes the stream that is being compressed, when it is open, after a sync and its acknowledgement. */
static void let_go(struct logstore *ls, const struct task *t)
{
	struct stream *s = log_stream_find(ls, t->job, t->attempt, ls->zst_name);

	if (s && s->dirty)
		log_sync_one(ls, s);
	s = log_stream_find(ls, t->job, t->attempt, ls->zst_name); /* gone when that failed */
	if (s)
		log_stream_close(ls, s);
}

struct picking {
	struct logstore *ls;
	struct task *t;
};

/* Streams that are still plain and worth it. */
static int pick_stream(const struct log_stream *st, void *arg)
{
	struct picking *p = arg;
	struct stream key = {.job = st->job, .attempt = st->attempt, .name = st->name};
	char path[LOG_PATH_MAX];

	if (log_path(path, p->ls->dir, st->job, st->attempt, st->name, LOG_ZST, NULL) < 0)
		return 0;
	if (access(path, F_OK) == 0) {
		/* A crash left the plain one. */
		if (log_path(path, p->ls->dir, key.job, key.attempt, key.name, LOG_RAW, NULL) == 0)
			unlink(path);
	} else if (st->size >= COMPRESS_FROM && !st->cut_to) { /* else the hole would be read as bytes */
		strv_add(&p->t->names, st->name);
	}
	return 0;
}

/* The next name, NULL when none is left. The folder is read again when the list is used up: a stream that
 * grew meanwhile is in it again. */
static char *next_name(struct logstore *ls, struct task *t, struct err *e)
{
	struct picking p = {ls, t};

	if (t->at == t->names.n) {
		strv_fini(&t->names);
		t->at = 0;
		if (logstore_streams(ls->dir, t->job, t->attempt, pick_stream, &p, e) < 0)
			return NULL;
	}
	return t->at < t->names.n ? t->names.v[t->at++] : NULL;
}

/* 1 a stream is being compressed, 0 none is left, -1. */
static int zst_next(struct logstore *ls, struct task *t, struct err *e)
{
	struct stream key = {.job = t->job, .attempt = t->attempt};
	struct err none = {.code = ERR_NONE};
	char *name = next_name(ls, t, &none);
	int in, out;

	if (!name && none.code == ERR_NONE)
		return 0;
	if (!name)
		return err_set(e, none.code, "%s", none.text);
	snprintf(ls->zst_name, sizeof(ls->zst_name), "%s", name);
	let_go(ls, t);
	key.name = ls->zst_name;
	in = log_open_part(ls, &key, LOG_RAW, O_RDONLY, e);
	if (in < 0)
		return -1;
	out = log_open_part(ls, &key, LOG_ZST_TMP, O_RDWR | O_CREAT | O_TRUNC, e);
	if (out < 0) {
		close(in);
		return -1;
	}
	ls->zst = log_zst_start(in, out);
	return 1;
}

/* Bytes may have come while it was compressed (an agent that came back): then it is done again. */
static int zst_done(struct logstore *ls, struct task *t, struct err *e)
{
	char raw[LOG_PATH_MAX], tmp[LOG_PATH_MAX], zst[LOG_PATH_MAX], dir[LOG_PATH_MAX];
	struct stream key = {.job = t->job, .attempt = t->attempt, .name = ls->zst_name};
	uint64_t size = 0;
	struct stat st;
	int fd;

	if (log_path(raw, ls->dir, t->job, t->attempt, ls->zst_name, LOG_RAW, e) < 0 ||
	    log_path(tmp, ls->dir, t->job, t->attempt, ls->zst_name, LOG_ZST_TMP, e) < 0 ||
	    log_path(zst, ls->dir, t->job, t->attempt, ls->zst_name, LOG_ZST, e) < 0 ||
	    log_attempt_path(dir, ls->dir, t->job, t->attempt, e) < 0)
		return -1;
	fd = log_open_part(ls, &key, LOG_ZST_TMP, O_RDONLY, e);
	if (fd < 0 || log_zst_size(fd, &size, e) < 0 || stat(raw, &st) < 0 || (uint64_t)st.st_size != size) {
		if (fd >= 0)
			close(fd);
		return 0; /* the next round picks it again */
	}
	close(fd);
	let_go(ls, t); /* opened again by a repetition that brought nothing new */
	if (rename(tmp, zst) < 0)
		return err_sys(e, errno, "%s", zst);
	if (log_sync_dir(dir, e) < 0)
		return -1;
	unlink(raw);
	return 0;
}

/* One step: the beginning of a stream, a frame, or its end. 1 more waits, 0 the task is done, -1. */
static int run_step(struct logstore *ls, struct task *t, struct err *e)
{
	int rc;

	if (!ls->zst)
		return zst_next(ls, t, e);
	rc = log_zst_step(ls->zst, e);
	if (rc > 0)
		return 1;
	if (rc == 0)
		rc = zst_done(ls, t, e);
	zst_stop(ls);
	return rc < 0 ? -1 : 1;
}

void log_finish_work(void *arg)
{
	struct logstore *ls = arg;
	struct task *t = ls->tasks;
	uint64_t delay_us = 0;
	struct err e;
	int rc;

	if (!t)
		return;
	rc = run_step(ls, t, &e);
	if (rc < 0) {
		log_warn("event=log_compress_failed job=%" PRIu64 " attempt=%u error=\"%s\"", t->job, t->attempt,
		         e.text);
		zst_stop(ls);
		/* The plain file is as good: later, and the others first. */
		DL_DELETE(ls->tasks, t);
		DL_APPEND(ls->tasks, t);
		delay_us = ls->c.retry_ms ? ls->c.retry_ms * 1000ull : RETRY_US;
	}
	if (rc == 0)
		task_end(ls, t);
	if (ls->tasks)
		loop_timer_arm(ls->work_timer, delay_us);
}

struct ending {
	struct logstore *ls;
	struct err *e;
	int rc, compress;
};

/* Gives a stream its end, when it has none. */
static int end_stream(const struct log_stream *st, void *arg)
{
	struct ending *en = arg;
	struct stream *s;

	en->compress |= st->size >= COMPRESS_FROM;
	if (st->complete)
		return 0;
	s = log_stream_get(en->ls, st->job, st->attempt, st->name, en->e);
	if (!s ||
	    log_put_rec(s, LOG_EOF, s->size, clock_real_us(en->ls->c.clock), log_src_end(s), 1, en->e) < 0) {
		en->rc = -1;
		return -1;
	}
	s->eof = 1;
	log_mark_dirty(en->ls, s);
	log_grown(en->ls, s);
	return 0;
}

int logstore_finish(struct logstore *ls, uint64_t job, uint32_t attempt, struct err *e)
{
	struct ending en = {ls, e, 0, 0};
	char path[LOG_PATH_MAX];
	int fd;

	if (log_attempt_path(path, ls->dir, job, attempt, e) < 0)
		return -1;
	if (access(path, F_OK) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", path);
	if (logstore_streams(ls->dir, job, attempt, end_stream, &en, e) < 0 || en.rc < 0)
		return -1;
	if (!en.compress)
		return 0;
	task_path(path, ls, job, attempt);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	close(fd);
	task_add(ls, job, attempt);
	return 0;
}

int logstore_remove(struct logstore *ls, uint64_t job, struct err *e)
{
	struct stream *s, *next_s;
	struct task *t, *next_t;
	char path[LOG_PATH_MAX];

	DL_FOREACH_SAFE (ls->used, s, next_s)
		if (s->job == job)
			log_stream_close(ls, s);
	DL_FOREACH_SAFE (ls->tasks, t, next_t)
		if (t->job == job)
			task_end(ls, t);
	log_names_drop(ls, job);
	snprintf(path, sizeof(path), "%s/%" PRIu64, ls->dir, job);
	return fs_rm_rf(path, e);
}

int log_finish_load(const char *name, void *arg)
{
	uint64_t job;
	uint32_t attempt;
	char end;

	if (sscanf(name, "%" SCNu64 ".%" SCNu32 "%c", &job, &attempt, &end) == 2)
		task_add(arg, job, attempt);
	return 0;
}

void log_finish_stop(struct logstore *ls)
{
	struct task *t, *next;

	zst_stop(ls);
	DL_FOREACH_SAFE (ls->tasks, t, next) {
		DL_DELETE(ls->tasks, t);
		strv_fini(&t->names);
		free(t);
	}
}
