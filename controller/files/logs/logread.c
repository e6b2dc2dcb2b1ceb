/*
 * logread: reading streams, by any thread, from the files alone.
 *
 * A stream may be compressed during a read: the writer renames STREAM.zst into place before it removes
 * STREAM.log. So a reader that tries .zst, then .log, then .zst again always finds one of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/logs/logindex.h"
#include "controller/files/logs/logstore.h"
#include "controller/files/logs/logzst.h"

#define LAST_RECS 4 /* one or two LOG_BOOT may follow a LOG_EOF */
#define MARKS_MAX 100000

struct files { /* of one stream; -1 = not there */
	int raw, zst, tail;
	uint64_t zst_size, size;
};

static int open_part(const char *dir, uint64_t job, uint32_t attempt, const char *stream, enum log_part part,
                     struct err *e)
{
	char path[LOG_PATH_MAX];
	int fd;

	if (log_path(path, dir, job, attempt, stream, part, e) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "attempt %u of job %" PRIu64 " has no stream %s", attempt, job,
		               stream);
	return fd < 0 ? err_sys(e, errno, "stream %s of job %" PRIu64, stream, job) : fd;
}

static void files_close(struct files *f)
{
	if (f->raw >= 0)
		close(f->raw);
	if (f->zst >= 0)
		close(f->zst);
	if (f->tail >= 0)
		close(f->tail);
}

static int file_size(int fd, uint64_t *size, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "a log");
	*size += (uint64_t)st.st_size;
	return 0;
}

static int files_open(struct files *f, const char *dir, uint64_t job, uint32_t attempt, const char *stream,
                      struct err *e)
{
	int rc = 0;

	*f = (struct files){-1, -1, -1, 0, 0};
	for (int round = 0; round < 2 && f->zst < 0 && f->raw < 0; round++) {
		f->zst = open_part(dir, job, attempt, stream, LOG_ZST, e);
		if (f->zst < 0)
			f->raw = open_part(dir, job, attempt, stream, LOG_RAW, e);
	}
	if (f->zst < 0 && f->raw < 0)
		return -1;
	if (f->zst >= 0) {
		f->tail = open_part(dir, job, attempt, stream, LOG_TAIL, NULL);
		rc = log_zst_size(f->zst, &f->zst_size, e);
		f->size = f->zst_size;
		if (rc == 0 && f->tail >= 0)
			rc = file_size(f->tail, &f->size, e);
	} else {
		rc = file_size(f->raw, &f->size, e);
	}
	if (rc < 0)
		files_close(f);
	return rc;
}

static int read_plain(int fd, uint64_t offset, void *out, size_t max, size_t *n, struct err *e)
{
	ssize_t r;

	while (*n < max) {
		r = pread(fd, (uint8_t *)out + *n, max - *n, (off_t)(offset + *n));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, errno, "read a log");
		if (r == 0)
			break;
		*n += (size_t)r;
	}
	return 0;
}

/* The last records of an index tell whether the stream has ended, and when the last bytes came. */
static int last_words(int fd, int *complete, uint64_t *last_us, struct err *e)
{
	uint8_t recs[LAST_RECS * LOG_REC_SIZE];
	struct log_rec r;
	struct stat st;
	off_t at;
	ssize_t n;

	*complete = 0;
	*last_us = 0;
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "read an index of logs");
	at = st.st_size / LOG_REC_SIZE - LAST_RECS;
	n = pread(fd, recs, sizeof(recs), (at > LOG_FIXED ? at : LOG_FIXED) * LOG_REC_SIZE);
	if (n < 0)
		return err_sys(e, errno, "read an index of logs");
	for (ssize_t i = 0; i + LOG_REC_SIZE <= n; i += LOG_REC_SIZE) {
		if (log_rec_get(recs + i, &r) < 0)
			break;
		if (r.kind == LOG_EOF)
			*complete = 1;
		else if (r.kind == LOG_DATA || r.kind == LOG_GAP)
			*complete = 0;
		if (r.kind == LOG_DATA || r.kind == LOG_GAP)
			*last_us = r.at_us;
	}
	return 0;
}

static uint64_t cut_of(int ix)
{
	uint8_t head[LOG_REC_SIZE];
	struct log_rec r;

	return pread(ix, head, sizeof(head), 0) == (ssize_t)sizeof(head) && log_rec_get(head, &r) == 0 &&
	               r.kind == LOG_HEAD
	           ? r.src
	           : 0;
}

int logstore_cut(const char *dir, uint64_t job, uint32_t attempt, const char *stream, uint64_t *to,
                 struct err *e)
{
	int ix = open_part(dir, job, attempt, stream, LOG_INDEX, e);

	if (ix < 0)
		return -1;
	*to = cut_of(ix);
	close(ix);
	return 0;
}

/* A part may be cut out while it is read: what was read of it does not count. */
static void leave_out_cut(int ix, uint64_t offset, size_t *n)
{
	uint64_t to = cut_of(ix);

	if (offset < to && offset + *n > LOGSTORE_FIRST)
		*n = offset < LOGSTORE_FIRST ? (size_t)(LOGSTORE_FIRST - offset) : 0;
}

int logstore_read(const char *dir, uint64_t job, uint32_t attempt, const char *stream, uint64_t offset,
                  void *out, size_t max, size_t *n, uint64_t *size, int *complete, struct err *e)
{
	struct files f;
	uint64_t last_us;
	int rc = 0, ix, done = 0;

	/* Asked before the bytes: a stream that ends meanwhile is then read to its end before it is called
	 * complete. */
	ix = open_part(dir, job, attempt, stream, LOG_INDEX, e);
	if (ix < 0)
		return -1;
	rc = last_words(ix, &done, &last_us, e);
	if (rc < 0 || files_open(&f, dir, job, attempt, stream, e) < 0) {
		close(ix);
		return -1;
	}
	*n = 0;
	if (f.zst >= 0 && offset < f.zst_size)
		rc = log_zst_read(f.zst, offset, out, max, n, e);
	if (rc == 0 && f.tail >= 0 && offset + *n >= f.zst_size) {
		size_t got = 0;

		rc = read_plain(f.tail, offset + *n - f.zst_size, (uint8_t *)out + *n, max - *n, &got, e);
		*n += got;
	}
	if (rc == 0 && f.raw >= 0)
		rc = read_plain(f.raw, offset, out, max, n, e);
	leave_out_cut(ix, offset, n);
	close(ix);
	if (size)
		*size = f.size;
	if (complete)
		*complete = done;
	files_close(&f);
	return rc;
}

int logstore_stat(const char *dir, uint64_t job, uint32_t attempt, const char *stream, struct log_stream *out,
                  struct err *e)
{
	uint8_t head[LOG_REC_SIZE];
	struct log_rec r;
	struct files f;
	int fd = open_part(dir, job, attempt, stream, LOG_INDEX, e);

	if (fd < 0)
		return -1;
	*out = (struct log_stream){.job = job, .attempt = attempt, .name = stream};
	if (last_words(fd, &out->complete, &out->last_us, e) < 0) {
		close(fd);
		return -1;
	}
	if (pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && log_rec_get(head, &r) == 0 &&
	    r.kind == LOG_HEAD) {
		out->lost = r.offset;
		out->cut_to = r.src;
		out->first_us = r.at_us;
	}
	close(fd);
	if (files_open(&f, dir, job, attempt, stream, e) < 0)
		return -1;
	out->size = f.size;
	files_close(&f);
	return 0;
}

/* ---- lists ------------------------------------------------------------------------------------ */

struct names {
	char **v;
	size_t n, cap;
};

static void names_add(struct names *l, const char *s, size_t n)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 32;
		l->v = xreallocarray(l->v, l->cap, sizeof(*l->v));
	}
	l->v[l->n++] = xstrndup(s, n);
}

static void names_fini(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

/* rank-2 before rank-10. */
static int by_number(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Entries of a folder that end in suffix, without it, sorted; a missing folder has none. */
static int names_in(const char *path, const char *suffix, struct names *out, struct err *e)
{
	size_t s = strlen(suffix);
	struct dirent *d;
	DIR *dir = opendir(path);

	if (!dir)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", path);
	while ((d = readdir(dir))) {
		size_t n = strlen(d->d_name);

		if (d->d_name[0] != '.' && n > s && strcmp(d->d_name + n - s, suffix) == 0)
			names_add(out, d->d_name, n - s);
	}
	closedir(dir);
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), by_number);
	return 0;
}

static int list_attempt(const char *dir, uint64_t job, uint32_t attempt,
                        int (*fn)(const struct log_stream *, void *), void *arg, int *stopped, struct err *e)
{
	struct names l = {0};
	struct log_stream s;
	char path[LOG_PATH_MAX];
	int rc;

	if (log_attempt_path(path, dir, job, attempt, e) < 0)
		return -1;
	rc = names_in(path, ".ix", &l, e);
	for (size_t i = 0; rc == 0 && !*stopped && i < l.n; i++) {
		struct err one;

		rc = logstore_stat(dir, job, attempt, l.v[i], &s, &one);
		if (rc == 0)
			*stopped = fn(&s, arg) < 0;
		else if (one.code == ERR_NOT_FOUND)
			rc = 0; /* being made, or removed this moment */
		else if (e)
			*e = one;
	}
	names_fini(&l);
	return rc;
}

int logstore_streams(const char *dir, uint64_t job, uint32_t attempt,
                     int (*fn)(const struct log_stream *s, void *arg), void *arg, struct err *e)
{
	struct names l = {0};
	char path[LOG_PATH_MAX];
	int rc = 0, stopped = 0;
	uint64_t number;

	if (attempt)
		return list_attempt(dir, job, attempt, fn, arg, &stopped, e);
	if (snprintf(path, sizeof(path), "%s/%" PRIu64, dir, job) >= (int)sizeof(path))
		return err_set(e, ERR_LIMIT, "path of the logs is too long");
	rc = names_in(path, "", &l, e);
	for (size_t i = 0; rc == 0 && !stopped && i < l.n; i++)
		if (str_parse_u64(l.v[i], &number) == 0 && number <= UINT32_MAX)
			rc = list_attempt(dir, job, (uint32_t)number, fn, arg, &stopped, e);
	names_fini(&l);
	return rc;
}

/* ---- marks ------------------------------------------------------------------------------------ */

static int rec_at(int fd, uint64_t i, struct log_rec *r)
{
	uint8_t raw[LOG_REC_SIZE];

	return pread(fd, raw, sizeof(raw), (off_t)(i * LOG_REC_SIZE)) == (ssize_t)sizeof(raw)
	           ? log_rec_get(raw, r)
	           : -1;
}

/* Number of the first record whose offset is above offset, behind those of fixed place. */
static uint64_t first_above(int fd, uint64_t count, uint64_t offset)
{
	uint64_t lo = LOG_FIXED, hi = count < LOG_FIXED ? LOG_FIXED : count, mid;
	struct log_rec r;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (rec_at(fd, mid, &r) == 0 && r.offset <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The last mark at or before record i: it covers the bytes there. */
static uint64_t mark_before(int fd, uint64_t i)
{
	struct log_rec r;

	while (i > LOG_FIXED) {
		i--;
		if (rec_at(fd, i, &r) == 0 && (r.kind == LOG_DATA || r.kind == LOG_GAP))
			break;
	}
	return i;
}

int logstore_marks(const char *dir, uint64_t job, uint32_t attempt, const char *stream, uint64_t offset,
                   uint64_t len, struct log_mark **v, size_t *n, struct err *e)
{
	int fd = open_part(dir, job, attempt, stream, LOG_INDEX, e);
	uint64_t end = offset + len < offset ? UINT64_MAX : offset + len, bytes = 0, i;
	size_t cap = 0;
	struct log_rec r;

	if (fd < 0)
		return -1;
	if (file_size(fd, &bytes, e) < 0) {
		close(fd);
		return -1;
	}
	*v = NULL;
	*n = 0;
	for (i = mark_before(fd, first_above(fd, bytes / LOG_REC_SIZE, offset));
	     *n < MARKS_MAX && rec_at(fd, i, &r) == 0 && r.offset < end; i++) {
		if (r.kind != LOG_DATA && r.kind != LOG_GAP)
			continue;
		if (*n == cap) {
			cap = cap ? cap * 2 : 64;
			*v = xreallocarray(*v, cap, sizeof(**v));
		}
		(*v)[(*n)++] = (struct log_mark){r.offset, r.at_us, r.kind == LOG_GAP ? 0 : r.aux};
	}
	close(fd);
	return 0;
}
