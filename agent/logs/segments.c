/*
 * segments: see segments.h. The writer puts an index record before its bytes. The reader takes the bytes
 * first and then the records, so no record can be missing. A segment is complete when a newer one exists;
 * the reader asks for its size again after it has seen the newer one.
 */
#include "agent/logs/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define RECS_A_READ 256

void segment_name(char name[SEGMENT_NAME_SIZE], uint64_t offset, const char *suffix)
{
	snprintf(name, SEGMENT_NAME_SIZE, "out.%020" PRIu64 ".%s", offset, suffix);
}

/* ---- the folder ------------------------------------------------------------------------------------------
 */

static int take_name(const char *name, void *arg)
{
	struct segments *d = arg;
	char digits[21];
	uint64_t offset;

	if (strlen(name) != 28 || strncmp(name, "out.", 4) != 0 || strcmp(name + 24, ".log") != 0)
		return 0;
	memcpy(digits, name + 4, 20);
	digits[20] = '\0';
	if (str_parse_u64(digits, &offset) < 0)
		return 0;
	if (d->n == d->cap) {
		d->cap = d->cap ? 2 * d->cap : 16;
		d->offsets = xreallocarray(d->offsets, d->cap, sizeof(*d->offsets));
	}
	d->offsets[d->n++] = offset; /* fs_each sorts by name, and names of one length sort as their numbers */
	return 0;
}

int segments_scan(struct segments *d, struct err *e)
{
	d->n = 0;
	return fs_each(d->path, take_name, d, e);
}

int segments_open(struct segments *d, const char *path, struct err *e)
{
	*d = (struct segments){.path = xstrdup(path)};
	if (segments_scan(d, e) == 0)
		return 0;
	segments_close(d);
	return -1;
}

void segments_close(struct segments *d)
{
	free(d->path);
	free(d->offsets);
	*d = (struct segments){0};
}

static int seg_stat(const struct segments *d, uint64_t offset, uint64_t *size)
{
	char name[SEGMENT_NAME_SIZE];
	cleanup_free char *path = NULL;
	struct stat st;

	segment_name(name, offset, "log");
	path = xasprintf("%s/%s", d->path, name);
	if (stat(path, &st) < 0)
		return -1;
	*size = (uint64_t)st.st_size;
	return 0;
}

uint64_t segments_end(const struct segments *d)
{
	uint64_t size;

	if (!d->n)
		return 0;
	return seg_stat(d, d->offsets[d->n - 1], &size) < 0 ? d->offsets[d->n - 1] : d->offsets[d->n - 1] + size;
}

unsigned segments_remove_before(struct segments *d, uint64_t offset)
{
	char name[SEGMENT_NAME_SIZE];
	unsigned n = 0;

	/* The next segment's offset is never less than this one's end. */
	while (n + 1 < d->n && d->offsets[n + 1] <= offset) {
		for (int i = 0; i < 2; i++) {
			cleanup_free char *path = NULL;

			segment_name(name, d->offsets[n], i ? "log" : "idx");
			path = xasprintf("%s/%s", d->path, name);
			unlink(path);
		}
		n++;
	}
	if (n) {
		d->n -= n;
		memmove(d->offsets, d->offsets + n, d->n * sizeof(*d->offsets));
	}
	return n;
}

/* ---- a cursor
 * ---------------------------------------------------------------------------------------------- */

void segment_cursor_init(struct segment_cursor *c, struct segments *d, uint64_t pos)
{
	*c = (struct segment_cursor){.d = d, .pos = pos, .fd = -1, .idx_fd = -1};
}

static void close_seg(struct segment_cursor *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->idx_fd >= 0)
		close(c->idx_fd);
	c->fd = c->idx_fd = -1;
}

void segment_cursor_fini(struct segment_cursor *c)
{
	close_seg(c);
}

void segment_cursor_seek(struct segment_cursor *c, uint64_t pos)
{
	if (pos < c->pos) { /* the index is read forward only */
		c->idx_pos = 0;
		c->rec_us = 0;
		if (pos < c->seg)
			close_seg(c);
	}
	c->pos = pos;
}

void segment_cursor_park(struct segment_cursor *c)
{
	close_seg(c);
}

static int open_seg(struct segment_cursor *c, uint64_t offset)
{
	char name[SEGMENT_NAME_SIZE];

	close_seg(c);
	for (int i = 0; i < 2; i++) {
		cleanup_free char *path = NULL;
		int fd;

		segment_name(name, offset, i ? "idx" : "log");
		path = xasprintf("%s/%s", c->d->path, name);
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && i == 0)
			return -1;
		*(i ? &c->idx_fd : &c->fd) = fd;
	}
	c->seg = offset;
	c->idx_pos = 0;
	c->rec_us = 0;
	return 0;
}

/* The last segment that begins at or before pos, else the first one; -1 none. */
static int find_seg(const struct segment_cursor *c, uint64_t *offset, uint64_t *next)
{
	size_t i = 0;

	if (!c->d->n)
		return -1;
	while (i + 1 < c->d->n && c->d->offsets[i + 1] <= c->pos)
		i++;
	*offset = c->d->offsets[i];
	*next = i + 1 < c->d->n ? c->d->offsets[i + 1] : UINT64_MAX;
	return 0;
}

static uint64_t next_after(const struct segments *d, uint64_t offset)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->offsets[i] > offset)
			return d->offsets[i];
	return UINT64_MAX;
}

/* Sees to it that the open segment has bytes at pos. 1 yes, 0 nothing there yet, -1 error. */
static int open_at_position(struct segment_cursor *c, uint64_t *left, uint64_t *gap, struct err *e)
{
	uint64_t offset, next;
	struct stat st;

	for (size_t guard = 0; guard <= 2 * c->d->n + 2; guard++) {
		if (c->fd < 0) {
			if (find_seg(c, &offset, &next) < 0)
				return 0;
			if (open_seg(c, offset) < 0) {
				if (errno != ENOENT)
					return err_sys(e, errno, "segment of %s", c->d->path);
				/* Dropped or cleaned by somebody else since the folder was read. */
				if (next == UINT64_MAX)
					return 0;
				*gap += next > c->pos ? next - c->pos : 0;
				c->pos = next > c->pos ? next : c->pos;
				continue;
			}
			if (c->pos < c->seg) {
				*gap += c->seg - c->pos;
				c->pos = c->seg;
			}
		}
		next = next_after(c->d, c->seg);
		if (fstat(c->fd, &st) < 0)
			return err_sys(e, errno, "segment of %s", c->d->path);
		if (c->pos < c->seg + (uint64_t)st.st_size) {
			*left = c->seg + (uint64_t)st.st_size - c->pos;
			return 1;
		}
		if (next == UINT64_MAX)
			return 0;
		if (next > c->pos) {
			*gap += next - c->pos;
			c->pos = next;
		}
		close_seg(c);
	}
	return 0;
}

/* Next record without taking it. */
static int peek_rec(struct segment_cursor *c, uint32_t *off, uint64_t *us, uint32_t *fd)
{
	uint8_t raw[SEGMENT_REC_SIZE];
	struct buf b;

	if (c->idx_fd < 0 || pread(c->idx_fd, raw, sizeof(raw), (off_t)c->idx_pos) != SEGMENT_REC_SIZE)
		return -1;
	buf_view(&b, raw, sizeof(raw));
	return buf_get_u32(&b, off) < 0 || buf_get_u64(&b, us) < 0 || buf_get_u32(&b, fd) < 0 ? -1 : 0;
}

static void put_rec(struct buf *out, uint32_t off, uint64_t us, uint32_t fd)
{
	if (!out || buf_put_u32(out, off) < 0)
		return; /* a bound that was passed costs time stamps only */
	buf_put_u64(out, us);
	buf_put_u32(out, fd);
}

/* Records of [from, from + n) of the open segment. */
static void take_recs(struct segment_cursor *c, uint64_t from, size_t n, struct buf *out)
{
	uint32_t off, fd;
	uint64_t us;
	int begun = 0;

	while (peek_rec(c, &off, &us, &fd) == 0 && off < from + n) {
		if (off > from && !begun && c->rec_us)
			put_rec(out, 0, c->rec_us, c->rec_fd);
		if (off > from) {
			put_rec(out, (uint32_t)(off - from), us, fd);
			begun = 1;
		}
		c->rec_us = us;
		c->rec_fd = fd;
		c->rec_off = off;
		c->idx_pos += SEGMENT_REC_SIZE;
	}
	if (!begun && c->rec_us)
		put_rec(out, 0, c->rec_us, c->rec_fd);
}

ptrdiff_t segment_cursor_read(struct segment_cursor *c, void *out, size_t max, struct buf *recs,
                              uint64_t *gap, struct err *e)
{
	uint64_t left = 0, from;
	ssize_t n;
	int rc;

	*gap = 0;
	rc = open_at_position(c, &left, gap, e);
	if (rc <= 0)
		return rc;
	from = c->pos - c->seg;
	n = pread(c->fd, out, max < left ? max : (size_t)left, (off_t)from);
	if (n < 0)
		return err_sys(e, errno, "segment of %s", c->d->path);
	take_recs(c, from, (size_t)n, recs);
	c->pos += (uint64_t)n;
	return n;
}
