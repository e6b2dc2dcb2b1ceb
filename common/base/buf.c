/*
 * buf: see buf.h. Room is made first by moving unread bytes to the front (readers that keep an offset
 * across a put must not also read from that buffer), then by doubling up to the limit.
 */
#include "common/base/buf.h"

#include <string.h>

#include "common/base/xalloc.h"

void buf_init(struct buf *b, size_t limit)
{
	*b = (struct buf){.limit = limit};
}

void buf_view(struct buf *b, const void *data, size_t len)
{
	/* The cast drops const; no put function touches a borrowed buffer. */
	*b =
	    (struct buf){.data = (uint8_t *)(uintptr_t)data, .len = len, .cap = len, .limit = len, .borrowed = 1};
}

void buf_fini(struct buf *b)
{
	if (!b->borrowed)
		free(b->data);
	*b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
	b->pos = 0;
	b->len = 0;
}

int buf_skip(struct buf *b, size_t n)
{
	if (n > buf_left(b))
		return -1;
	b->pos += n;
	return 0;
}

static int make_room(struct buf *b, size_t n)
{
	size_t cap;

	if (b->borrowed)
		return -1;
	if (n <= b->cap - b->len)
		return 0;
	if (n > b->limit - buf_left(b) || buf_left(b) > b->limit)
		return -1;
	if (b->pos) {
		memmove(b->data, b->data + b->pos, buf_left(b));
		b->len -= b->pos;
		b->pos = 0;
		if (n <= b->cap - b->len)
			return 0;
	}
	cap = b->cap < 64 ? 64 : b->cap;
	while (cap < b->len + n)
		cap = cap > b->limit / 2 ? b->limit : cap * 2;
	if (cap > b->limit)
		cap = b->limit;
	b->data = xrealloc(b->data, cap);
	b->cap = cap;
	return 0;
}

int buf_put(struct buf *b, const void *p, size_t n)
{
	if (make_room(b, n) < 0)
		return -1;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	return 0;
}

static int put_uint(struct buf *b, uint64_t v, unsigned bytes)
{
	uint8_t out[8];

	for (unsigned i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	return buf_put(b, out, bytes);
}

int buf_put_u8(struct buf *b, uint8_t v)
{
	return put_uint(b, v, 1);
}

int buf_put_u16(struct buf *b, uint16_t v)
{
	return put_uint(b, v, 2);
}

int buf_put_u32(struct buf *b, uint32_t v)
{
	return put_uint(b, v, 4);
}

int buf_put_u64(struct buf *b, uint64_t v)
{
	return put_uint(b, v, 8);
}

int buf_put_f64(struct buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return put_uint(b, bits, 8);
}

int buf_put_bytes(struct buf *b, const void *p, size_t n)
{
	/* Room for both parts first: a length without its bytes must never stay behind. */
	if (n > UINT32_MAX || make_room(b, n + 4) < 0)
		return -1;
	buf_put_u32(b, (uint32_t)n);
	return buf_put(b, p, n);
}

int buf_put_str(struct buf *b, const char *s)
{
	return s ? buf_put_bytes(b, s, strlen(s)) : buf_put_u32(b, 0);
}

int buf_reserve(struct buf *b, size_t n, uint8_t **out)
{
	if (make_room(b, n) < 0)
		return -1;
	if (!b->data)
		b->data = xmalloc(1); /* n is 0 and nothing was ever put: still not NULL */
	*out = b->data + b->len;
	return 0;
}

int buf_get(struct buf *b, void *p, size_t n)
{
	if (n > buf_left(b))
		return -1;
	if (n)
		memcpy(p, buf_head(b), n);
	b->pos += n;
	return 0;
}

static int get_uint(struct buf *b, uint64_t *v, unsigned bytes)
{
	uint64_t x = 0;

	if (bytes > buf_left(b))
		return -1;
	for (unsigned i = 0; i < bytes; i++)
		x = x << 8 | b->data[b->pos + i];
	b->pos += bytes;
	*v = x;
	return 0;
}

int buf_get_u8(struct buf *b, uint8_t *v)
{
	uint64_t x;

	if (get_uint(b, &x, 1) < 0)
		return -1;
	*v = (uint8_t)x;
	return 0;
}

int buf_get_u16(struct buf *b, uint16_t *v)
{
	uint64_t x;

	if (get_uint(b, &x, 2) < 0)
		return -1;
	*v = (uint16_t)x;
	return 0;
}

int buf_get_u32(struct buf *b, uint32_t *v)
{
	uint64_t x;

	if (get_uint(b, &x, 4) < 0)
		return -1;
	*v = (uint32_t)x;
	return 0;
}

int buf_get_u64(struct buf *b, uint64_t *v)
{
	return get_uint(b, v, 8);
}

int buf_get_f64(struct buf *b, double *v)
{
	uint64_t bits;

	if (get_uint(b, &bits, 8) < 0)
		return -1;
	memcpy(v, &bits, sizeof(*v));
	return 0;
}

int buf_get_bytes(struct buf *b, const uint8_t **p, uint32_t *n, uint32_t max)
{
	size_t start = b->pos;
	uint32_t len;

	if (buf_get_u32(b, &len) < 0)
		return -1;
	if (len > max || len > buf_left(b)) {
		b->pos = start;
		return -1;
	}
	*p = buf_head(b);
	*n = len;
	b->pos += len;
	return 0;
}

int buf_get_str(struct buf *b, char **s, uint32_t max)
{
	size_t start = b->pos;
	const uint8_t *p;
	uint32_t n;

	if (buf_get_bytes(b, &p, &n, max) < 0)
		return -1;
	if (n && memchr(p, 0, n)) {
		b->pos = start;
		return -1;
	}
	*s = xstrndup((const char *)p, n);
	return 0;
}
