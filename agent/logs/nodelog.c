/*
 * nodelog: see nodelog.h. A log that is opened again continues at the end of its last segment. Lines that a
 * full disk refuses are lost and show as a gap; nothing waits for the disk.
 */
#include "agent/logs/nodelog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/logs/segments.h"
#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define SEGMENT_BYTES (4u * 1024 * 1024)
#define SEGMENTS_MAX  16   /* then the oldest goes */
#define STAMP_US      1000 /* pieces closer than this share an index record */

struct nodelog {
	const struct clock *clock;
	struct segments dir;
	int fd, idx_fd;
	uint64_t seg, size; /* of the open segment */
	uint64_t rec_us;
	int open_line; /* the last byte was no newline */
	struct log_limit limit;
};

static void close_segment(struct nodelog *n)
{
	if (n->fd >= 0)
		close(n->fd);
	if (n->idx_fd >= 0)
		close(n->idx_fd);
	n->fd = n->idx_fd = -1;
}

static int open_segment(struct nodelog *n, uint64_t offset, struct err *e)
{
	char name[SEGMENT_NAME_SIZE];
	struct stat st;

	for (int i = 0; i < 2; i++) {
		cleanup_free char *path = NULL;
		int fd;

		segment_name(name, offset, i ? "idx" : "log");
		path = xasprintf("%s/%s", n->dir.path, name);
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0640);
		if (fd < 0) {
			err_sys(e, errno, "%s", path);
			close_segment(n);
			return -1;
		}
		*(i ? &n->idx_fd : &n->fd) = fd;
	}
	if (fstat(n->fd, &st) < 0) {
		err_sys(e, errno, "segment of %s", n->dir.path);
		close_segment(n);
		return -1;
	}
	n->seg = offset;
	n->size = (uint64_t)st.st_size;
	n->rec_us = 0;
	/* Half a record of a writer that died would shift all that follow. */
	if (fstat(n->idx_fd, &st) == 0 && st.st_size % SEGMENT_REC_SIZE &&
	    ftruncate(n->idx_fd, st.st_size - st.st_size % SEGMENT_REC_SIZE) < 0)
		log_warn("event=index_torn dir=%s", n->dir.path);
	segments_scan(&n->dir, NULL);
	if (n->dir.n > SEGMENTS_MAX)
		segments_remove_before(&n->dir, n->dir.offsets[n->dir.n - SEGMENTS_MAX]);
	return 0;
}

struct nodelog *nodelog_open(const char *logdir, const struct clock *clock, struct err *e)
{
	struct nodelog *n;

	if (fs_mkdir_p(logdir, 0755, e) < 0)
		return NULL;
	n = xcalloc(1, sizeof(*n));
	n->clock = clock;
	n->fd = n->idx_fd = -1;
	n->limit.per_minute = 4;
	if (segments_open(&n->dir, logdir, e) < 0 ||
	    open_segment(n, n->dir.n ? n->dir.offsets[n->dir.n - 1] : 0, e) < 0) {
		nodelog_close(n);
		return NULL;
	}
	return n;
}

static void put_record(struct nodelog *n)
{
	uint64_t now = clock_real_us(n->clock);
	uint8_t raw[SEGMENT_REC_SIZE];
	struct buf b = {.data = raw, .cap = sizeof(raw), .limit = sizeof(raw)};

	if (n->rec_us && now >= n->rec_us && now - n->rec_us < STAMP_US)
		return;
	buf_put_u32(&b, (uint32_t)n->size);
	buf_put_u64(&b, now);
	buf_put_u32(&b, 1);
	if (fs_write_all(n->idx_fd, raw, sizeof(raw), NULL) == 0)
		n->rec_us = now;
}

/* Bytes of p were lost: the next segment begins behind them. */
static void lose_bytes(struct nodelog *n, size_t lost, int why)
{
	uint64_t next = n->seg + n->size + lost;
	struct err e;
	unsigned held;

	if (log_limit_ok(&n->limit, clock_boot_us(n->clock), &held))
		log_warn("event=nodelog_not_written dir=%s bytes=%zu suppressed=%u reason=\"%s\"", n->dir.path, lost,
		         held, strerror(why));
	close_segment(n);
	if (open_segment(n, next, &e) < 0) {
		n->seg = next; /* tried again at the next write */
		n->size = 0;
	}
}

void nodelog_bytes(struct nodelog *n, const void *p, size_t len)
{
	const char *at = p;
	ssize_t done;

	if (!n || !len)
		return;
	if (n->fd < 0 && open_segment(n, n->seg, NULL) < 0) {
		n->seg += len;
		return;
	}
	if (n->size >= SEGMENT_BYTES) {
		close_segment(n);
		if (open_segment(n, n->seg + n->size, NULL) < 0) {
			n->seg += n->size + len;
			n->size = 0;
			return;
		}
	}
	put_record(n);
	while (len) {
		done = write(n->fd, at, len);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			lose_bytes(n, len, errno);
			return;
		}
		n->size += (uint64_t)done;
		at += done;
		len -= (size_t)done;
	}
	n->open_line = at[-1] != '\n';
}

void nodelog_line(struct nodelog *n, const char *fmt, ...)
{
	char stamp[CLOCK_RFC3339_SIZE];
	cleanup_free char *text = NULL;
	char *line, *save = NULL;
	struct buf whole;
	va_list ap;

	if (!n)
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	clock_rfc3339(clock_real_us(n->clock), stamp);
	buf_init(&whole, SIZE_MAX);
	if (n->open_line)
		buf_put(&whole, "\n", 1);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		buf_put(&whole, stamp, 23);
		buf_put(&whole, "Z ", 2);
		buf_put(&whole, line, strlen(line));
		buf_put(&whole, "\n", 1);
	}
	nodelog_bytes(n, whole.data, whole.len); /* one piece: a reader never sees half a line */
	buf_fini(&whole);
}

void nodelog_close(struct nodelog *n)
{
	if (!n)
		return;
	close_segment(n);
	segments_close(&n->dir);
	free(n);
}

/* ---- last lines ------------------------------------------------------------------------------------------
 */

char *tail_last_lines(const char *logdir, size_t max, size_t *n)
{
	struct segments d;
	struct segment_cursor c;
	struct err e;
	char *out = xcalloc(1, max + 1), *nl;
	uint64_t end, gap, skip = 0;
	ptrdiff_t got;

	*n = 0;
	if (segments_open(&d, logdir, &e) < 0)
		return out;
	end = segments_end(&d);
	segment_cursor_init(&c, &d, end > max ? end - max : 0);
	skip = c.pos > 0 ? 1 : 0;
	while (*n < max && (got = segment_cursor_read(&c, out + *n, max - *n, NULL, &gap, &e)) > 0) {
		if (gap && *n == 0)
			skip = 0; /* a segment begins here, and with it a line or what is left of one */
		*n += (size_t)got;
	}
	/* The first line was cut in the middle, unless it is all there is. */
	nl = skip ? memchr(out, '\n', *n) : NULL;
	if (nl && nl + 1 < out + *n) {
		*n -= (size_t)(nl + 1 - out);
		memmove(out, nl + 1, *n);
	}
	out[*n] = '\0';
	segment_cursor_fini(&c);
	segments_close(&d);
	return out;
}
