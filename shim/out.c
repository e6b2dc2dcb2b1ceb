/*
 * out: see out.h.
 *
 * Order within a segment: the index record goes before the bytes that it describes. A reader that finds a
 * record past the end of the data ignores it; data without its record would be given to the wrong stream.
 *
 * The two pipes carry no time, so "order of arrival" is the order in which they became readable. To keep
 * lines whole a stream whose last chunk ended in the middle of a line goes first for LINE_HOLD_US; the other
 * one waits in its pipe, which needs no memory here.
 */
#include "shim/out.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "shim/shim.h"

#define SEGMENT_DEFAULT (16ull * 1024 * 1024)
#define SEGMENT_MIN     4096ull
#define SEGMENT_MAX     (1024ull * 1024 * 1024) /* offsets in an index record have 32 bits */
#define MAX_DEFAULT     (1024ull * 1024 * 1024)
#define SEGS_MAX        4096 /* files of one stream; the oldest goes when there would be more */
#define PIPE_BYTES      (1024 * 1024)
#define CHUNK           (256 * 1024)
#define CHUNKS_A_TURN   4
#define DRAIN_CHUNKS    16
#define RECORD_SIZE     16
#define COALESCE_US     1000 /* chunks of one stream closer than this share an index record */
#define LINE_HOLD_US    20000
#define RETRY_US        200000 /* after a failed write: until then everything is dropped unseen */
#define NAME_SIZE       48

struct segment {
	uint64_t offset, size;
};

struct out {
	const struct clock *clock;
	int dir_fd;
	uint64_t segment_bytes, max_bytes;
	int rd[2];            /* read ends, -1 after end of file */
	int data_fd, idx_fd;  /* of the open segment, -1 none */
	uint64_t pos;         /* stream offset of the next byte */
	struct segment *segs; /* oldest first; the open one is the last */
	size_t n_segs;
	uint64_t kept; /* sum of their sizes */
	uint64_t dropped;
	uint64_t retry_at_us; /* boot time before which no file is tried; 0 = now */
	uint64_t rec_at_us;   /* of the last index record in this segment, real time; 0 none */
	int rec_stream;
	uint8_t last_byte;     /* written last */
	int open_line;         /* 1 + stream whose line is not finished, 0 none */
	uint64_t open_line_us; /* boot time of its last chunk */
	uint8_t *chunk[2];     /* read into in turn, so that the one before can still be the tail */
	int turn;              /* the one to read into */
	uint8_t *ring;         /* the last SHIM_TAIL_MAX bytes, at pos modulo its size, but for: */
	const uint8_t *late;   /* a whole tail that was not copied into it yet, NULL none; */
	uint64_t late_end;     /*   the stream offset after it */
	struct log_limit limit;
};

static void segment_name(char name[NAME_SIZE], uint64_t offset, const char *suffix)
{
	snprintf(name, NAME_SIZE, "out.%020" PRIu64 ".%s", offset, suffix);
}

/* ---- segments ---------------------------------------------------------------------------------- */

static void close_segment(struct out *o)
{
	if (o->data_fd >= 0)
		close(o->data_fd);
	if (o->idx_fd >= 0)
		close(o->idx_fd);
	o->data_fd = o->idx_fd = -1;
}

/* 1: the file was there and is gone now. The reader may have removed it before: then nothing was lost. */
static int unlink_segment(struct out *o, uint64_t offset)
{
	char name[NAME_SIZE];

	segment_name(name, offset, "idx");
	unlinkat(o->dir_fd, name, 0);
	segment_name(name, offset, "log");
	return unlinkat(o->dir_fd, name, 0) == 0;
}

static void drop_oldest(struct out *o)
{
	struct segment s = o->segs[0];

	if (unlink_segment(o, s.offset))
		o->dropped += s.size;
	o->kept -= s.size;
	o->n_segs--;
	memmove(o->segs, o->segs + 1, o->n_segs * sizeof(*o->segs));
}

static int open_segment(struct out *o)
{
	char name[NAME_SIZE];
	int why;

	if (o->n_segs == SEGS_MAX)
		drop_oldest(o);
	segment_name(name, o->pos, "log");
	o->data_fd = openat(o->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
	if (o->data_fd < 0)
		return -1;
	segment_name(name, o->pos, "idx");
	o->idx_fd = openat(o->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0640);
	if (o->idx_fd < 0) {
		why = errno;
		close_segment(o);
		unlink_segment(o, o->pos);
		errno = why;
		return -1;
	}
	o->segs[o->n_segs++] = (struct segment){.offset = o->pos};
	o->rec_at_us = 0;
	return 0;
}

static struct segment *present_segment(struct out *o)
{
	return &o->segs[o->n_segs - 1];
}

/* After a failed write: this segment ends where it is. One without a byte is taken away, so that the next may
 * begin at the same offset. */
static void give_up(struct out *o, int why)
{
	unsigned held;

	if (log_limit_ok(&o->limit, clock_boot_us(o->clock), &held))
		log_warn("event=output_not_written offset=%" PRIu64 " dropped=%" PRIu64
		         " suppressed=%u reason=\"%s\"",
		         o->pos, o->dropped, held, strerror(why));
	if (o->data_fd >= 0) {
		close_segment(o);
		if (present_segment(o)->size == 0) {
			unlink_segment(o, present_segment(o)->offset);
			o->n_segs--;
		}
	}
	o->retry_at_us = clock_boot_us(o->clock) + RETRY_US;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static void put_record(struct out *o, int stream)
{
	uint64_t now = clock_real_us(o->clock);
	uint8_t rec[RECORD_SIZE];
	struct buf b;
	ssize_t n;

	/* A clock that was set back makes a new record too. */
	if (o->rec_at_us && o->rec_stream == stream && now >= o->rec_at_us && now - o->rec_at_us < COALESCE_US)
		return;
	b = (struct buf){.data = rec, .cap = sizeof(rec), .limit = sizeof(rec)};
	buf_put_u32(&b, (uint32_t)present_segment(o)->size);
	buf_put_u64(&b, now);
	buf_put_u32(&b, (uint32_t)stream + 1);
	do
		n = write(o->idx_fd, rec, sizeof(rec));
	while (n < 0 && errno == EINTR);
	/* A record that was not written costs a time stamp. Half a one would shift all that follow: cut it off.
	 */
	if (n > 0 && n < RECORD_SIZE) {
		off_t end = lseek(o->idx_fd, 0, SEEK_END);

		if (end < 0 || ftruncate(o->idx_fd, end - end % RECORD_SIZE) < 0)
			log_warn("event=index_torn reason=\"%s\"", strerror(errno));
	}
	if (n == RECORD_SIZE) {
		o->rec_at_us = now;
		o->rec_stream = stream;
	}
}

/* How much of p goes into the open segment: up to a line's end where there is one. 0: the next line is better
 * put into the next segment as a whole. */
static size_t fitting_bytes(struct out *o, const uint8_t *p, size_t n)
{
	uint64_t room = o->segment_bytes - present_segment(o)->size;
	const uint8_t *nl;

	if (n <= room)
		return n;
	nl = memrchr(p, '\n', (size_t)room);
	if (nl)
		return (size_t)(nl - p) + 1;
	return present_segment(o)->size && o->last_byte == '\n' ? 0 : (size_t)room;
}

/* Writes a piece into the present segment and opens one if needed. Returns the bytes written, or -1 with
 * errno. */
static ssize_t write_piece(struct out *o, int stream, const uint8_t *p, size_t n)
{
	ssize_t done;
	size_t fit;

	if (FAULT("shim.write")) {
		errno = ENOSPC;
		return -1;
	}
	if (o->data_fd < 0 && open_segment(o) < 0)
		return -1;
	fit = fitting_bytes(o, p, n);
	if (fit == 0) {
		close_segment(o);
		if (open_segment(o) < 0)
			return -1;
		fit = fitting_bytes(o, p, n);
	}
	put_record(o, stream);
	do
		done = write(o->data_fd, p, fit);
	while (done < 0 && errno == EINTR);
	if (done <= 0)
		return -1;
	present_segment(o)->size += (uint64_t)done;
	o->kept += (uint64_t)done;
	o->pos += (uint64_t)done;
	o->last_byte = p[done - 1];
	/* Full, or cut at a line's end with too little room for the next one, or a disk that took only a part. */
	if (present_segment(o)->size >= o->segment_bytes || (size_t)done < n)
		close_segment(o);
	while (o->kept > o->max_bytes && o->n_segs > 1)
		drop_oldest(o);
	return done;
}

/* Puts n <= SHIM_TAIL_MAX bytes of stream offset `at` into the ring. */
static void copy_to_ring(struct out *o, uint64_t at, const uint8_t *p, size_t n)
{
	size_t from = (size_t)(at % SHIM_TAIL_MAX), first = n < SHIM_TAIL_MAX - from ? n : SHIM_TAIL_MAX - from;

	memcpy(o->ring + from, p, first);
	memcpy(o->ring, p + first, n - first);
}

/* A flood makes each chunk a whole tail by itself: then nothing is copied until somebody asks or a smaller
 * one comes. */
static void to_ring(struct out *o, const uint8_t *p, size_t n)
{
	if (n >= SHIM_TAIL_MAX) {
		o->late = p + n - SHIM_TAIL_MAX;
		o->late_end = o->pos + n;
		return;
	}
	if (o->late)
		copy_to_ring(o, o->late_end - SHIM_TAIL_MAX, o->late, SHIM_TAIL_MAX);
	o->late = NULL;
	copy_to_ring(o, o->pos, p, n);
}

static void keep_bytes(struct out *o, int stream, const uint8_t *p, size_t n)
{
	ssize_t done;

	to_ring(o, p, n);
	while (n) {
		if (o->retry_at_us && clock_boot_us(o->clock) < o->retry_at_us)
			break;
		o->retry_at_us = 0;
		done = write_piece(o, stream, p, n);
		if (done < 0) {
			give_up(o, errno);
			break;
		}
		p += done;
		n -= (size_t)done;
	}
	o->pos += n;
	o->dropped += n;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* 1 when there may be more. */
static int read_chunk(struct out *o, int stream)
{
	uint8_t *chunk = o->chunk[o->turn];
	ssize_t n;

	if (o->rd[stream] < 0)
		return 0;
	do
		n = read(o->rd[stream], chunk, CHUNK);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		close(o->rd[stream]);
		o->rd[stream] = -1;
		if (o->open_line == stream + 1)
			o->open_line = 0;
		return 0;
	}
	keep_bytes(o, stream, chunk, (size_t)n);
	o->turn = !o->turn;
	if (chunk[n - 1] != '\n') {
		o->open_line = stream + 1;
		o->open_line_us = clock_boot_us(o->clock);
	} else if (o->open_line == stream + 1) {
		o->open_line = 0;
	}
	return 1;
}

static int held_back(struct out *o, int stream)
{
	if (!o->open_line || o->open_line == stream + 1)
		return 0;
	return clock_boot_us(o->clock) < o->open_line_us + LINE_HOLD_US;
}

uint64_t out_poll(struct out *o, struct pollfd fds[2])
{
	uint64_t look_again = 0;

	for (int i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){.fd = o->rd[i], .events = POLLIN};
		if (o->rd[i] >= 0 && held_back(o, i)) {
			fds[i].fd = -1;
			look_again = o->open_line_us + LINE_HOLD_US;
		}
	}
	return look_again;
}

void out_handle(struct out *o, const struct pollfd fds[2])
{
	for (int i = 0; i < 2; i++) {
		if (fds[i].fd < 0 || !fds[i].revents)
			continue;
		for (int n = 0; n < CHUNKS_A_TURN && !held_back(o, i) && read_chunk(o, i); n++)
			continue;
	}
}

void out_drain(struct out *o)
{
	for (int i = 0; i < 2; i++)
		for (int n = 0; n < DRAIN_CHUNKS && read_chunk(o, i); n++)
			continue;
}

/* Cuts the beginning of what does not fit. */
static void add_last(char *last, size_t size, const uint8_t *p, size_t n)
{
	size_t have = strlen(last), drop;

	if (n >= size) {
		p += n - (size - 1);
		n = size - 1;
	}
	drop = have + n >= size ? have + n - (size - 1) : 0;
	memmove(last, last + drop, have - drop);
	memcpy(last + have - drop, p, n);
	last[have - drop + n] = '\0';
	for (char *c = last + have - drop; n--; c++)
		if (!*c)
			*c = ' ';
}

int out_discard(struct out *o, char *last, size_t size)
{
	int any = 0;
	ssize_t n;

	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < DRAIN_CHUNKS && o->rd[i] >= 0; k++) {
			n = read(o->rd[i], o->chunk[0], CHUNK);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno == EAGAIN)
				break;
			if (n <= 0) {
				close(o->rd[i]);
				o->rd[i] = -1;
				break;
			}
			add_last(last, size, o->chunk[0], (size_t)n);
			any = 1;
		}
	}
	return any;
}

void out_close_pipes(struct out *o)
{
	for (int i = 0; i < 2; i++) {
		if (o->rd[i] >= 0)
			close(o->rd[i]);
		o->rd[i] = -1;
	}
}

int out_eof(const struct out *o)
{
	return o->rd[0] < 0 && o->rd[1] < 0;
}

/* ---- life -------------------------------------------------------------------------------------- */

int out_pipes(struct out *o, int write_fds[2], struct err *e)
{
	int p[2][2];

	if (pipe2(p[0], O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	if (pipe2(p[1], O_CLOEXEC) < 0) {
		err_sys(e, errno, "pipe");
		close(p[0][0]);
		close(p[0][1]);
		return -1;
	}
	for (int i = 0; i < 2; i++) {
		o->rd[i] = p[i][0];
		write_fds[i] = p[i][1];
		/* Only our end: the other one belongs to a program that may want to block. */
		fcntl(p[i][0], F_SETFL, O_NONBLOCK);
		/* An ordinary user who has many pipes may be refused; the default size only means more turns. */
		(void)fcntl(p[i][0], F_SETPIPE_SZ, PIPE_BYTES);
	}
	return 0;
}

static uint64_t clamp_u64(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

struct out *out_create(const char *logdir, uint64_t segment_bytes, uint64_t max_bytes,
                       const struct clock *clock, struct err *e)
{
	struct out *o = xcalloc(1, sizeof(*o));

	o->clock = clock;
	o->rd[0] = o->rd[1] = o->data_fd = o->idx_fd = -1;
	o->max_bytes = clamp_u64(max_bytes ? max_bytes : MAX_DEFAULT, 2 * SEGMENT_MIN, UINT64_MAX);
	/* Two segments at least, else dropping the oldest would mean dropping everything. */
	o->segment_bytes = clamp_u64(segment_bytes ? segment_bytes : SEGMENT_DEFAULT, SEGMENT_MIN, SEGMENT_MAX);
	o->segment_bytes = clamp_u64(o->segment_bytes, SEGMENT_MIN, o->max_bytes / 2);
	o->segs = xcalloc(SEGS_MAX, sizeof(*o->segs));
	for (int i = 0; i < 2; i++)
		o->chunk[i] = xcalloc(1, CHUNK);
	o->ring = xcalloc(1, SHIM_TAIL_MAX);
	o->limit.per_minute = 4;
	o->dir_fd = open(logdir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->dir_fd < 0) {
		err_sys(e, errno, "log directory %s", logdir);
		out_destroy(o);
		return NULL;
	}
	if (open_segment(o) < 0) {
		if (errno != ENOSPC && errno != EDQUOT) {
			err_sys(e, errno, "log file in %s", logdir);
			out_destroy(o);
			return NULL;
		}
		give_up(o, errno);
	}
	return o;
}

void out_close(struct out *o)
{
	out_close_pipes(o);
	close_segment(o);
	o->open_line = 0;
}

void out_destroy(struct out *o)
{
	if (!o)
		return;
	out_close(o);
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	free(o->segs);
	free(o->chunk[0]);
	free(o->chunk[1]);
	free(o->ring);
	free(o);
}

uint64_t out_bytes(const struct out *o)
{
	return o->pos;
}

uint64_t out_dropped(const struct out *o)
{
	return o->dropped;
}

size_t out_tail(const struct out *o, uint8_t *p, size_t max)
{
	uint64_t have = o->pos < SHIM_TAIL_MAX ? o->pos : SHIM_TAIL_MAX, from;
	size_t n = max < have ? max : (size_t)have;

	if (o->late) {
		memcpy(p, o->late + SHIM_TAIL_MAX - n, n);
		return n;
	}
	from = o->pos - n;
	for (size_t i = 0; i < n; i++)
		p[i] = o->ring[(from + i) % SHIM_TAIL_MAX];
	return n;
}
