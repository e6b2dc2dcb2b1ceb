/*
 * logstore: appending and syncing. One thread.
 *
 * A chunk is written at once (followers see it) and synced at most sync_ms later, together with all other
 * streams that grew meanwhile. The order of a sync is: names of new files and folders, bytes, then the index
 * record that says so, each with fdatasync; only then on_durable. So after a power loss the index never
 * promises bytes that are not there. The next append after another boot cuts off what is above the last
 * promise.
 *
 * A gap's record is written before its line: a record without its line is cut off, too.
 *
 * Ends and compression: logfinish.c.
 */
#include "controller/files/logs/logstore.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "common/os/proc.h"
#include "controller/files/logs/logstore_int.h"

#define CHUNK_MAX     (8u << 20)
#define SYNC_MS       50
#define OPEN_MAX      512
#define MARK_EVERY_US 10000 /* bytes of one descriptor closer together share a mark */

/* ---- small things -----------------------------------------------------------------------------------------
 */

uint64_t log_src_end(const struct stream *s)
{
	return (uint64_t)((int64_t)s->size + s->delta);
}

static int write_at(int fd, const void *p, size_t n, uint64_t at, struct err *e)
{
	size_t done = 0;
	ssize_t r;

	if (FAULT("log.write"))
		return err_set(e, ERR_NOSPACE, "write a log: injected");
	while (done < n) {
		r = pwrite(fd, (const uint8_t *)p + done, n - done, (off_t)(at + done));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, errno, "write a log");
		done += (size_t)r;
	}
	return 0;
}

static int put_recs(struct stream *s, const uint8_t *recs, size_t n, struct err *e)
{
	if (n && write_at(s->ix_fd, recs, n, s->ix_size, e) < 0)
		return -1;
	s->ix_size += n;
	return 0;
}

int log_put_rec(struct stream *s, uint32_t kind, uint64_t offset, uint64_t at_us, uint64_t src, uint32_t aux,
                struct err *e)
{
	struct log_rec r = {offset, at_us, src, kind, aux};
	uint8_t raw[LOG_REC_SIZE];

	log_rec_put(raw, &r);
	return put_recs(s, raw, sizeof(raw), e);
}

int log_put_head(const struct stream *s, struct err *e)
{
	struct log_rec r = {s->lost + log_cut_bytes(s), s->first_us, s->cut_to, LOG_HEAD, 1};
	uint8_t raw[LOG_REC_SIZE];

	log_rec_put(raw, &r);
	return write_at(s->ix_fd, raw, sizeof(raw), 0, e);
}

/* Writes what is synced into one of the two places. */
static int put_sync(const struct stream *s, unsigned slot, struct err *e)
{
	struct log_rec r = {s->synced, s->last_us, (uint64_t)((int64_t)s->synced + s->synced_delta), LOG_SYNC,
	                    (uint32_t)(s->synced_ix / LOG_REC_SIZE)};
	uint8_t raw[LOG_REC_SIZE];

	log_rec_put(raw, &r);
	return write_at(s->ix_fd, raw, sizeof(raw), (slot + 1) * (uint64_t)LOG_REC_SIZE, e);
}

static void cut_file(int fd, uint64_t size)
{
	/* Fails only on a broken disk; then the next chunk overwrites what is above. */
	if (ftruncate(fd, (off_t)size) < 0)
		log_warn("event=log_cut_failed errno=%d", errno);
}

/* ---- open streams ----------------------------------------------------------------------------- */

void log_stream_close(struct logstore *ls, struct stream *s)
{
	if (s->dirty)
		DL_DELETE2(ls->dirty, s, dirty_prev, dirty_next);
	DL_DELETE(ls->used, s);
	HASH_DEL(ls->streams, s);
	if (s->fd >= 0)
		close(s->fd);
	if (s->ix_fd >= 0)
		close(s->ix_fd);
	free(s);
}

int log_open_part(struct logstore *ls, const struct stream *s, enum log_part part, int flags, struct err *e)
{
	char path[LOG_PATH_MAX];
	int fd;

	if (log_path(path, ls->dir, s->job, s->attempt, s->name, part, e) < 0)
		return -1;
	fd = open(path, flags | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, errno, "%s", path) : fd;
}

/* A compressed part in front? Then a .log beside it is what a crash left of the change: its content is in
 * there. */
static int find_base(struct logstore *ls, struct stream *s, struct err *e)
{
	char path[LOG_PATH_MAX];
	struct err none;
	int fd = log_open_part(ls, s, LOG_ZST, O_RDONLY, &none), rc;

	if (fd < 0)
		return none.code == ERR_NOT_FOUND ? 0 : err_set(e, none.code, "%s", none.text);
	rc = log_zst_size(fd, &s->base, e);
	close(fd);
	if (rc == 0 && log_path(path, ls->dir, s->job, s->attempt, s->name, LOG_RAW, e) == 0)
		unlink(path);
	return rc;
}

static int last_byte_is_newline(const struct stream *s)
{
	char c = '\n';

	if (s->size > s->base && pread(s->fd, &c, 1, (off_t)(s->size - s->base - 1)) != 1)
		return 0;
	return c == '\n';
}

/* By one write: head, no LOG_SYNC, and this boot. */
static int make_index(const struct logstore *ls, struct stream *s, struct err *e)
{
	uint8_t raw[(LOG_FIXED + 1) * LOG_REC_SIZE] = {0};
	struct log_rec head = {s->lost, s->first_us, 0, LOG_HEAD, 1},
	               boot = {s->base, clock_real_us(ls->c.clock), ls->boot, LOG_BOOT, 0};

	log_rec_put(raw, &head);
	log_rec_put(raw + LOG_FIXED * LOG_REC_SIZE, &boot);
	cut_file(s->ix_fd, 0);
	if (write_at(s->ix_fd, raw, sizeof(raw), 0, e) < 0)
		return -1;
	s->ix_size = sizeof(raw);
	s->synced_ix = LOG_FIXED * LOG_REC_SIZE;
	s->synced = s->base;
	return 0;
}

static void adopt_index(struct stream *s, const struct log_index *ix)
{
	s->ix_size = ix->ix_size;
	s->delta = ix->delta;
	s->synced = ix->synced;
	s->synced_ix = ix->synced_ix ? ix->synced_ix : LOG_FIXED * LOG_REC_SIZE;
	s->synced_delta = ix->synced_delta;
	s->slot = ix->slot;
	s->lost = ix->lost;
	s->cut_to = ix->cut_to;
	s->first_us = ix->first_us;
	s->last_us = ix->last_us;
	s->last_fd = ix->last_fd;
	s->eof = ix->eof;
}

/* After a power loss only what was synced is known to be what was written. Both places of LOG_SYNC then say
 * the same: one that did not hold must not hold again when the files have grown. */
static int after_power_loss(struct stream *s, struct log_index *ix, struct err *e)
{
	if (ix->synced < s->base)
		ix->synced = s->base;
	s->size = ix->synced;
	cut_file(s->fd, s->size - s->base);
	cut_file(s->ix_fd, ix->synced_ix ? ix->synced_ix : LOG_FIXED * LOG_REC_SIZE);
	if (log_index_scan(s->ix_fd, s->size, ix, e) < 0)
		return -1;
	adopt_index(s, ix);
	log_cut_find(s);
	return log_put_head(s, e) < 0 || put_sync(s, 0, e) < 0 ? -1 : put_sync(s, 1, e);
}

/* Brings files and index to a common state: see the head of this file. */
static int settle_stream(struct logstore *ls, struct stream *s, struct err *e)
{
	struct log_index ix;
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return err_sys(e, errno, "a log");
	s->size = s->base + (uint64_t)st.st_size;
	if (log_index_scan(s->ix_fd, s->size, &ix, e) < 0)
		return -1;
	if (!ix.synced_ix) /* the names were not synced, or hearthd died before it noted it */
		log_names_new(ls, s->job, s->attempt, 1);
	if (ix.ix_size == 0) {
		/* Nothing tells how much of the bytes is known: they come again. */
		if (s->size != s->base)
			cut_file(s->fd, 0);
		s->size = s->base;
		s->at_line_start = 1;
		return make_index(ls, s, e);
	}
	if (ix.boot != ls->boot) {
		if (after_power_loss(s, &ix, e) < 0)
			return -1;
	} else {
		adopt_index(s, &ix);
	}
	cut_file(s->ix_fd, s->ix_size);
	s->at_line_start = last_byte_is_newline(s);
	if (ix.boot == ls->boot)
		return 0;
	return log_put_rec(s, LOG_BOOT, s->size, clock_real_us(ls->c.clock), ls->boot, 0, e);
}

/* made: it was not there. */
static int open_or_make(struct logstore *ls, const struct stream *s, enum log_part part, int *made,
                        struct err *e)
{
	struct err none;
	int fd = log_open_part(ls, s, part, O_RDWR | O_CREAT | O_EXCL, &none);

	*made |= fd >= 0;
	return fd >= 0 ? fd : log_open_part(ls, s, part, O_RDWR | O_CREAT, e);
}

static int stream_files(struct logstore *ls, struct stream *s, struct err *e)
{
	int folders, made = 0;

	if (log_make_dirs(ls, s->job, s->attempt, &folders, e) < 0)
		return -1;
	if (!folders && find_base(ls, s, e) < 0)
		return -1;
	s->fd = open_or_make(ls, s, s->base ? LOG_TAIL : LOG_RAW, &made, e);
	if (s->fd >= 0)
		s->ix_fd = open_or_make(ls, s, LOG_INDEX, &made, e);
	if (folders || made)
		log_names_new(ls, s->job, s->attempt, folders);
	return s->ix_fd < 0 ? -1 : settle_stream(ls, s, e);
}

/* Makes room for one more: closes the least used. */
static void make_room(struct logstore *ls)
{
	struct stream *s = ls->used;

	if (HASH_COUNT(ls->streams) < ls->c.max_open || !s)
		return;
	if (s->dirty)
		log_sync_one(ls, s);
	if (HASH_COUNT(ls->streams) >= ls->c.max_open) /* on failure it is gone already */
		log_stream_close(ls, s);
}

struct stream *log_stream_find(struct logstore *ls, uint64_t job, uint32_t attempt, const char *name)
{
	struct stream *s;
	char key[sizeof(s->key)];

	snprintf(key, sizeof(key), "%" PRIu64 "/%" PRIu32 "/%s", job, attempt, name);
	HASH_FIND_STR(ls->streams, key, s);
	return s;
}

struct stream *log_stream_get(struct logstore *ls, uint64_t job, uint32_t attempt, const char *name,
                              struct err *e)
{
	struct stream *s;

	if (str_check_name(name, LOGSTORE_STREAM_MAX, "stream", e) < 0)
		return NULL;
	s = log_stream_find(ls, job, attempt, name);
	if (s) {
		DL_DELETE(ls->used, s);
		DL_APPEND(ls->used, s);
		return s;
	}
	make_room(ls);
	s = xcalloc(1, sizeof(*s));
	snprintf(s->key, sizeof(s->key), "%" PRIu64 "/%" PRIu32 "/%s", job, attempt, name);
	s->name = strrchr(s->key, '/') + 1;
	s->job = job;
	s->attempt = attempt;
	s->fd = s->ix_fd = -1;
	HASH_ADD_STR(ls->streams, key, s);
	DL_APPEND(ls->used, s);
	if (stream_files(ls, s, e) < 0) {
		log_stream_close(ls, s);
		return NULL;
	}
	return s;
}

/* ---- sync ------------------------------------------------------------------------------------- */

void log_grown(struct logstore *ls, const struct stream *s)
{
	if (ls->c.on_grown)
		ls->c.on_grown(s->job, s->attempt, s->name, s->size, s->eof, ls->c.arg);
}

static int data_sync(int fd, struct err *e)
{
	if (FAULT("log.sync"))
		return err_set(e, ERR_IO, "sync a log: injected");
	return fdatasync(fd) < 0 ? err_sys(e, errno, "sync a log") : 0;
}

/* Returns to what is certainly on the disk: after a failed fsync the rest is unknown. */
static void back_to_synced(struct logstore *ls, struct stream *s, const struct err *e)
{
	struct stream copy = *s;
	struct err none;

	log_error("event=log_sync_failed job=%" PRIu64 " attempt=%u stream=%s error=\"%s\"", s->job, s->attempt,
	          s->name, e->text);
	cut_file(s->fd, s->synced > s->base ? s->synced - s->base : 0);
	cut_file(s->ix_fd, s->synced_ix);
	/* The one that was written for nothing must not hold when the files have grown again. */
	put_sync(s, !s->slot, &none);
	copy.name = copy.key + (s->name - s->key);
	log_stream_close(ls, s);
	if (ls->c.on_error)
		ls->c.on_error(copy.job, copy.attempt, copy.name, e, ls->c.arg);
}

static int sync_files(struct stream *s, struct err *e)
{
	const struct stream before = *s;

	if (s->synced == s->size && s->synced_ix == s->ix_size)
		return 0;
	if (s->synced != s->size && data_sync(s->fd, e) < 0)
		return -1;
	s->synced = s->size;
	s->synced_ix = s->ix_size;
	s->synced_delta = s->delta;
	if (put_sync(s, !s->slot, e) == 0 && data_sync(s->ix_fd, e) == 0) {
		s->slot = !s->slot;
		return 0;
	}
	s->synced = before.synced;
	s->synced_ix = before.synced_ix;
	s->synced_delta = before.synced_delta;
	return -1;
}

/* s may be gone afterwards. */
void log_sync_one(struct logstore *ls, struct stream *s)
{
	struct err e;

	if (s->dirty)
		DL_DELETE2(ls->dirty, s, dirty_prev, dirty_next);
	s->dirty = 0;
	if (log_names_sync(ls, s->job, s->attempt, &e) < 0 || sync_files(s, &e) < 0)
		back_to_synced(ls, s, &e);
	else
		ls->c.on_durable(s->job, s->attempt, s->name, log_src_end(s), s->eof, ls->c.arg);
}

static void on_sync(void *arg)
{
	struct logstore *ls = arg;
	struct stream *s;

	/* All start to write before the first is waited for. */
	if (ls->dirty && ls->dirty->dirty_next)
		DL_FOREACH2(ls->dirty, s, dirty_next)
	sync_file_range(s->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	log_names_sync_all(ls);
	while (ls->dirty)
		log_sync_one(ls, ls->dirty);
}

void log_mark_dirty(struct logstore *ls, struct stream *s)
{
	if (s->dirty)
		return;
	s->dirty = 1;
	DL_APPEND2(ls->dirty, s, dirty_prev, dirty_next);
	if (!loop_timer_armed(ls->sync_timer))
		loop_timer_arm(ls->sync_timer, ls->c.sync_ms * 1000ull);
}

/* ---- append ----------------------------------------------------------------------------------- */

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get_u64(const uint8_t *p)
{
	return (uint64_t)get_u32(p) << 32 | get_u32(p + 4);
}

static int check_chunk(const struct log_chunk *c, struct err *e)
{
	uint32_t last = 0;

	if (c->job == 0 || c->attempt == 0)
		return err_set(e, ERR_INVALID, "a log without job or attempt");
	if (c->n > CHUNK_MAX)
		return err_set(e, ERR_LIMIT, "a log chunk of %zu bytes, at most %u", c->n, CHUNK_MAX);
	if (c->offset != LOGSTORE_AT_END && c->offset > INT64_MAX - CHUNK_MAX)
		return err_set(e, ERR_INVALID, "a log offset beyond 2^63");
	if (c->rec_n % LOGSTORE_REC_SIZE)
		return err_set(e, ERR_INVALID, "log index of %zu bytes", c->rec_n);
	for (size_t i = 0; i < c->rec_n; i += LOGSTORE_REC_SIZE) {
		uint32_t off = get_u32(c->rec + i);

		if (off < last || off > c->n)
			return err_set(e, ERR_INVALID, "log index is not in order");
		last = off;
	}
	return 0;
}

/* A visible line in place of the bytes from the stream's end to source offset `to`. */
static int put_gap(struct logstore *ls, struct stream *s, uint64_t to, struct err *e)
{
	uint64_t lost = to - log_src_end(s), now = clock_real_us(ls->c.clock);
	char line[96];
	int n = snprintf(line, sizeof(line), "%s[hearth: %" PRIu64 " bytes are missing here]\n",
	                 s->at_line_start ? "" : "\n", lost);

	if (log_put_rec(s, LOG_GAP, s->size, now, to, (uint32_t)n, e) < 0 ||
	    write_at(s->fd, line, (size_t)n, s->size - s->base, e) < 0)
		return -1;
	s->size += (uint64_t)n;
	s->delta = (int64_t)(to - s->size);
	s->lost += lost;
	s->last_us = now;
	s->last_fd = 0;
	s->at_line_start = 1;
	s->eof = 0;
	if (!s->first_us)
		s->first_us = now;
	return log_put_head(s, e);
}

/* Writes marks for the chunk's bytes from skip on, which are at stream offset `at`. */
static int put_marks(struct logstore *ls, struct stream *s, const struct log_chunk *c, size_t skip,
                     uint64_t at, struct err *e)
{
	size_t n = c->rec_n / LOGSTORE_REC_SIZE, out = 0;
	uint8_t *recs = xmalloc((n + 1) * LOG_REC_SIZE);
	int rc;

	for (size_t i = 0; i < n + (n == 0); i++) {
		const uint8_t *rec = n ? c->rec + i * LOGSTORE_REC_SIZE : NULL;
		uint32_t from = rec ? get_u32(rec) : 0,
		         next = i + 1 < n ? get_u32(rec + LOGSTORE_REC_SIZE) : (uint32_t)c->n;
		struct log_rec r = {.kind = LOG_DATA,
		                    .at_us = rec ? get_u64(rec + 4) : clock_real_us(ls->c.clock),
		                    .aux = rec ? get_u32(rec + 12) : 1};

		if (next <= skip || from == c->n)
			continue; /* only about bytes that are there already, or none */
		r.offset = at + (from > skip ? from - skip : 0);
		if (s->last_us && r.aux == s->last_fd && r.at_us >= s->last_us &&
		    r.at_us - s->last_us < MARK_EVERY_US)
			continue;
		log_rec_put(recs + out, &r);
		out += LOG_REC_SIZE;
		s->last_us = r.at_us;
		s->last_fd = r.aux;
		if (!s->first_us) {
			s->first_us = r.at_us;
			if (log_put_head(s, e) < 0) {
				free(recs);
				return -1;
			}
		}
	}
	rc = put_recs(s, recs, out, e);
	free(recs);
	return rc;
}

/* Everything of a chunk that is new. On -1 the caller puts the stream back. */
static int take_chunk(struct logstore *ls, struct stream *s, const struct log_chunk *c, struct err *e)
{
	uint64_t offset = c->offset == LOGSTORE_AT_END ? log_src_end(s) : c->offset, end = log_src_end(s), at;
	size_t skip = 0;

	if (offset < end)
		skip = end - offset < c->n ? (size_t)(end - offset) : c->n;
	if (offset > end && put_gap(ls, s, offset, e) < 0)
		return -1;
	if (skip < c->n) {
		at = s->size;
		if (write_at(s->fd, (const uint8_t *)c->data + skip, c->n - skip, at - s->base, e) < 0)
			return -1;
		s->size += c->n - skip;
		s->eof = 0;
		s->at_line_start = ((const char *)c->data)[c->n - 1] == '\n';
		if (put_marks(ls, s, c, skip, at, e) < 0)
			return -1;
	}
	if (c->eof && !s->eof) {
		if (log_put_rec(s, LOG_EOF, s->size, clock_real_us(ls->c.clock), log_src_end(s), 0, e) < 0)
			return -1;
		s->eof = 1;
	}
	return 0;
}

int logstore_append(struct logstore *ls, const struct log_chunk *c, struct err *e)
{
	struct stream *s, before;
	struct err none;

	if (check_chunk(c, e) < 0)
		return -1;
	s = log_stream_get(ls, c->job, c->attempt, c->stream, e);
	if (!s)
		return -1;
	before = *s;
	if (take_chunk(ls, s, c, e) < 0) {
		cut_file(s->fd, before.size - s->base);
		cut_file(s->ix_fd, before.ix_size);
		s->size = before.size;
		s->ix_size = before.ix_size;
		s->delta = before.delta;
		s->lost = before.lost;
		s->first_us = before.first_us;
		s->last_us = before.last_us;
		s->last_fd = before.last_fd;
		s->eof = before.eof;
		s->at_line_start = before.at_line_start;
		log_put_head(s, &none);
		return err_wrap(e, "stream %s of job %" PRIu64, s->name, s->job);
	}
	if (ls->c.on_kept && s->size != before.size)
		ls->c.on_kept(s->job, (int64_t)(s->size - before.size), ls->c.arg);
	log_cut(ls, s);
	/* A repetition brings nothing new, but its sender waits for a word. */
	log_mark_dirty(ls, s);
	if (s->size != before.size || s->eof != before.eof)
		log_grown(ls, s);
	return 0;
}

void logstore_shorten(struct logstore *ls, const struct log_chunk *c)
{
	struct stream *s = check_chunk(c, NULL) < 0 ? NULL : log_stream_find(ls, c->job, c->attempt, c->stream);

	if (s)
		log_cut(ls, s);
}

int logstore_durable(struct logstore *ls, uint64_t job, uint32_t attempt, const char *stream,
                     uint64_t *offset, struct err *e)
{
	char path[LOG_PATH_MAX];
	struct stream *s;

	/* A question must not make a stream. */
	if (log_path(path, ls->dir, job, attempt, stream, LOG_INDEX, e) < 0)
		return -1;
	*offset = 0;
	s = log_stream_find(ls, job, attempt, stream);
	if (!s && access(path, F_OK) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "%s", path);
	if (!s)
		s = log_stream_get(ls, job, attempt, stream, e);
	if (!s)
		return -1;
	*offset = (uint64_t)((int64_t)s->synced + s->synced_delta);
	return 0;
}

int logstore_idle(const struct logstore *ls)
{
	return !ls->dirty && !ls->tasks;
}

/* ---- open, close ------------------------------------------------------------------------------ */

static int boot_hash(uint64_t *out, struct err *e)
{
	char id[PROC_BOOT_ID_SIZE];
	uint8_t digest[HASH_BYTES];

	if (proc_boot_id(id, e) < 0)
		return -1;
	hash_bytes(id, strlen(id), digest);
	*out = get_u64(digest) | 1;
	return 0;
}

struct logstore *logstore_open(const struct logstore_config *c, struct err *e)
{
	struct logstore *ls = xcalloc(1, sizeof(*ls));
	char path[LOG_PATH_MAX];

	assert(c->on_durable);
	ls->c = *c;
	ls->dir = xstrdup(c->dir);
	ls->c.sync_ms = c->sync_ms ? c->sync_ms : SYNC_MS;
	ls->c.max_open = c->max_open ? c->max_open : OPEN_MAX;
	ls->sync_timer = loop_timer_create(c->loop, on_sync, ls);
	ls->work_timer = loop_timer_create(c->loop, log_finish_work, ls);
	if (strlen(c->dir) > LOG_PATH_MAX - 256) {
		err_set(e, ERR_LIMIT, "path of the logs is too long");
		goto failed;
	}
	snprintf(path, sizeof(path), "%s/.finish", c->dir);
	if (boot_hash(&ls->boot, e) < 0 || fs_mkdir_durable(path, 0700, e) < 0 ||
	    fs_each(path, log_finish_load, ls, e) < 0)
		goto failed;
	return ls;
failed:
	logstore_close(ls);
	return NULL;
}

void logstore_close(struct logstore *ls)
{
	if (!ls)
		return;
	on_sync(ls);
	log_finish_stop(ls);
	while (ls->used)
		log_stream_close(ls, ls->used);
	log_names_drop(ls, 0);
	loop_timer_destroy(ls->sync_timer);
	loop_timer_destroy(ls->work_timer);
	free(ls->dir);
	free(ls);
}
