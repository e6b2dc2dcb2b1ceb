/*
 * logzst: streams in zstd's seekable format (contrib/seekable_format of zstd): frames of LOG_FRAME bytes of
 * the stream, each with its own checksum, then a skippable frame with the table of their sizes. Any zstd
 * decompresses such a file as a whole; we find the frame of an offset by division, as all frames but the last
 * are equally long.
 *
 *     table: 0x184D2A5E | u32 size of what follows | n x (u32 compressed, u32 decompressed)
 *            | u32 n | u8 0 | 0x8F92EAB1                                    (little-endian)
 */
#include "controller/files/logs/logzst.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define SKIPPABLE   0x184D2A5Eu
#define SEEKABLE    0x8F92EAB1u
#define FOOTER_SIZE 9
#define LEVEL       3
#define FRAMES_MAX  (1u << 24)

struct log_zst {
	int in_fd, out_fd;
	ZSTD_CCtx *ctx;
	uint8_t *in, *out;
	size_t out_cap;
	uint64_t at;
	uint32_t *sizes; /* compressed, decompressed of each frame */
	size_t n, cap;
};

struct log_zst *log_zst_start(int in_fd, int out_fd)
{
	struct log_zst *z = xcalloc(1, sizeof(*z));

	z->in_fd = in_fd;
	z->out_fd = out_fd;
	z->ctx = ZSTD_createCCtx();
	if (!z->ctx)
		abort(); /* out of memory */
	ZSTD_CCtx_setParameter(z->ctx, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(z->ctx, ZSTD_c_checksumFlag, 1);
	z->in = xmalloc(LOG_FRAME);
	z->out_cap = ZSTD_compressBound(LOG_FRAME);
	z->out = xmalloc(z->out_cap);
	return z;
}

void log_zst_free(struct log_zst *z)
{
	if (!z)
		return;
	ZSTD_freeCCtx(z->ctx);
	close(z->in_fd);
	close(z->out_fd);
	free(z->in);
	free(z->out);
	free(z->sizes);
	free(z);
}

static void put_u32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, 4);
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

/* Up to n bytes at an offset, fewer only at the end of the file. */
static ssize_t read_at(int fd, void *p, size_t n, uint64_t at)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = pread(fd, (uint8_t *)p + got, n - got, (off_t)(at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

static int put_table(struct log_zst *z, struct err *e)
{
	size_t body = z->n * 8 + FOOTER_SIZE, at = 8;
	uint8_t *t = xmalloc(8 + body);
	int rc;

	put_u32(t, SKIPPABLE);
	put_u32(t + 4, (uint32_t)body);
	for (size_t i = 0; i < z->n * 2; i++, at += 4)
		put_u32(t + at, z->sizes[i]);
	put_u32(t + at, (uint32_t)z->n);
	t[at + 4] = 0;
	put_u32(t + at + 5, SEEKABLE);
	rc = fs_write_all(z->out_fd, t, 8 + body, e);
	free(t);
	if (rc == 0 && fsync(z->out_fd) < 0)
		rc = err_sys(e, errno, "fsync a compressed log");
	return rc;
}

int log_zst_step(struct log_zst *z, struct err *e)
{
	ssize_t n = read_at(z->in_fd, z->in, LOG_FRAME, z->at);
	size_t out;

	if (FAULT("log.compress"))
		return err_set(e, ERR_IO, "compress a log: injected");
	if (n < 0)
		return err_sys(e, errno, "read a log");
	if (n == 0)
		return put_table(z, e);
	if (z->n == FRAMES_MAX)
		return err_set(e, ERR_LIMIT, "a log of more than 16 TiB");
	out = ZSTD_compress2(z->ctx, z->out, z->out_cap, z->in, (size_t)n);
	if (ZSTD_isError(out))
		return err_set(e, ERR_INTERNAL, "compress a log: %s", ZSTD_getErrorName(out));
	if (fs_write_all(z->out_fd, z->out, out, e) < 0)
		return -1;
	if (z->n == z->cap) {
		z->cap = z->cap ? z->cap * 2 : 64;
		z->sizes = xreallocarray(z->sizes, z->cap * 2, sizeof(*z->sizes));
	}
	z->sizes[z->n * 2] = (uint32_t)out;
	z->sizes[z->n * 2 + 1] = (uint32_t)n;
	z->n++;
	z->at += (uint64_t)n;
	return 1;
}

/* ---- reading ---------------------------------------------------------------------------------- */

struct table {
	uint8_t *rows; /* 8 bytes each */
	uint32_t n;
	uint64_t size; /* of the stream */
};

static int refuse_damaged(struct err *e)
{
	return err_set(e, ERR_IO, "a compressed log is damaged");
}

static int table_read(int fd, struct table *t, struct err *e)
{
	uint8_t foot[FOOTER_SIZE];
	struct stat st;
	uint64_t file, need;
	ssize_t n;

	memset(t, 0, sizeof(*t));
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "a compressed log");
	file = (uint64_t)st.st_size;
	if (file < 8 + FOOTER_SIZE)
		return refuse_damaged(e);
	n = read_at(fd, foot, FOOTER_SIZE, file - FOOTER_SIZE);
	if (n < 0)
		return err_sys(e, errno, "read a compressed log");
	if (n != FOOTER_SIZE || get_u32(foot + 5) != SEEKABLE)
		return refuse_damaged(e);
	t->n = get_u32(foot);
	need = 8 + (uint64_t)t->n * 8 + FOOTER_SIZE;
	if (t->n > FRAMES_MAX || need > file)
		return refuse_damaged(e);
	t->rows = xmalloc((size_t)t->n * 8 + 1);
	n = read_at(fd, t->rows, (size_t)t->n * 8, file - FOOTER_SIZE - (uint64_t)t->n * 8);
	if (n != (ssize_t)((size_t)t->n * 8)) {
		refuse_damaged(e);
		if (n < 0)
			err_sys(e, errno, "read a compressed log");
		free(t->rows);
		return -1;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t len = get_u32(t->rows + 8 * (size_t)i + 4);

		if (len == 0 || len > LOG_FRAME || (len != LOG_FRAME && i + 1 < t->n)) {
			free(t->rows);
			return refuse_damaged(e);
		}
		t->size += len;
	}
	return 0;
}

int log_zst_size(int fd, uint64_t *size, struct err *e)
{
	struct table t;

	if (table_read(fd, &t, e) < 0)
		return -1;
	*size = t.size;
	free(t.rows);
	return 0;
}

/* Frame i into out (LOG_FRAME bytes); at: where it begins in the file. */
static int frame_read(int fd, const struct table *t, uint32_t i, uint64_t at, uint8_t *out, struct err *e)
{
	uint32_t packed = get_u32(t->rows + 8 * (size_t)i), plain = get_u32(t->rows + 8 * (size_t)i + 4);
	uint8_t *in;
	size_t got = 0;
	ssize_t n;

	if (packed > ZSTD_compressBound(LOG_FRAME))
		return refuse_damaged(e);
	in = xmalloc(packed + 1u);
	n = read_at(fd, in, packed, at);
	if (n < 0)
		err_sys(e, errno, "read a compressed log");
	else if (n == (ssize_t)packed)
		got = ZSTD_decompress(out, LOG_FRAME, in, packed);
	free(in);
	if (n < 0)
		return -1;
	return got == plain ? 0 : refuse_damaged(e);
}

int log_zst_read(int fd, uint64_t offset, void *out, size_t max, size_t *n, struct err *e)
{
	struct table t;
	uint8_t *frame;
	uint64_t at = 0;
	uint32_t i;
	int rc = 0;

	*n = 0;
	if (table_read(fd, &t, e) < 0)
		return -1;
	frame = xmalloc(LOG_FRAME);
	for (i = 0; i < t.n && i < offset / LOG_FRAME; i++)
		at += get_u32(t.rows + 8 * (size_t)i);
	while (rc == 0 && *n < max && offset < t.size) {
		size_t skip = (size_t)(offset % LOG_FRAME), plain = get_u32(t.rows + 8 * (size_t)i + 4),
		       len = plain - skip;

		if (len > max - *n)
			len = max - *n;
		rc = frame_read(fd, &t, i, at, frame, e);
		if (rc == 0)
			memcpy((uint8_t *)out + *n, frame + skip, len);
		*n += len;
		offset += len;
		at += get_u32(t.rows + 8 * (size_t)i);
		i++;
	}
	free(frame);
	free(t.rows);
	return rc;
}
