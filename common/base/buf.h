/*
 * buf: bounded byte buffer. All bytes from outside are read through its getters: each checks the
 * length, copies, moves forward, or fails with nothing moved. Integers are big-endian.
 *
 * A buffer never holds more than `limit` unread bytes; put functions return -1 then, and the buffer stays as
 * it was. A put may move unread bytes to the front: offsets kept by the caller do not survive it once
 * something was read.
 */
#ifndef HEARTH_COMMON_BASE_BUF_H
#define HEARTH_COMMON_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* owned, unless borrowed; NULL before the first put */
	size_t pos;    /* read position */
	size_t len;    /* write position */
	size_t cap;
	size_t limit; /* greatest number of unread bytes */
	int borrowed; /* data is the caller's (buf_view): never written, never freed */
};

void buf_init(struct buf *b, size_t limit);
void buf_view(struct buf *b, const void *data, size_t len); /* read-only view; data must outlive b */
void buf_fini(struct buf *b);
void buf_reset(struct buf *b); /* empty, keeps memory */

static inline size_t buf_left(const struct buf *b)
{
	return b->len - b->pos;
}
static inline const uint8_t *buf_head(const struct buf *b)
{
	return b->data + b->pos;
}
int buf_skip(struct buf *b, size_t n);

int buf_put(struct buf *b, const void *p, size_t n);
int buf_put_u8(struct buf *b, uint8_t v);
int buf_put_u16(struct buf *b, uint16_t v);
int buf_put_u32(struct buf *b, uint32_t v);
int buf_put_u64(struct buf *b, uint64_t v);
int buf_put_f64(struct buf *b, double v);                  /* IEEE 754 bits */
int buf_put_bytes(struct buf *b, const void *p, size_t n); /* u32 length, then bytes */
int buf_put_str(struct buf *b, const char *s);             /* as bytes, no NUL; NULL -> "" */
int buf_reserve(struct buf *b, size_t n, uint8_t **out);   /* n writable bytes at len */

int buf_get(struct buf *b, void *p, size_t n);
int buf_get_u8(struct buf *b, uint8_t *v);
int buf_get_u16(struct buf *b, uint16_t *v);
int buf_get_u32(struct buf *b, uint32_t *v);
int buf_get_u64(struct buf *b, uint64_t *v);
int buf_get_f64(struct buf *b, double *v);
/* *p points into the buffer (valid until it changes); fails when longer than max. */
int buf_get_bytes(struct buf *b, const uint8_t **p, uint32_t *n, uint32_t max);
/* Malloc'ed, terminated; fails when longer than max or with a NUL inside. */
int buf_get_str(struct buf *b, char **s, uint32_t max);

#endif
