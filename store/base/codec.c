/*
 * codec: see codec.h.
 */
#include "store/base/codec.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/base/xalloc.h"

#define BODY_MAX      (CODEC_MAX_POINTS * (10 + 10 + 8))
#define COMPRESS_FROM 128 /* a smaller body is not worth zstd's frame */
#define VARINT_MAX    10

enum { FORMAT_PLAIN = 0, FORMAT_ZSTD = 1 };

void points_fini(struct points *p)
{
	free(p->steps);
	free(p->values);
	free(p->times_us);
	memset(p, 0, sizeof(*p));
}

static void grow_points(struct points *p, size_t n)
{
	if (p->cap - p->n >= n)
		return;
	p->cap = (p->n + n) * 2;
	p->steps = xreallocarray(p->steps, p->cap, sizeof(*p->steps));
	p->values = xreallocarray(p->values, p->cap, sizeof(*p->values));
	p->times_us = xreallocarray(p->times_us, p->cap, sizeof(*p->times_us));
}

static size_t put_varint(uint8_t *out, uint64_t v)
{
	size_t n = 0;

	while (v >= 0x80) {
		out[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	out[n++] = (uint8_t)v;
	return n;
}

/* Differences wrap around: any two 64-bit numbers have one. */
static uint64_t zigzag(uint64_t difference)
{
	return (difference << 1) ^ (difference >> 63 ? UINT64_MAX : 0);
}

static uint64_t unzigzag(uint64_t v)
{
	return (v >> 1) ^ (v & 1 ? UINT64_MAX : 0);
}

static size_t encode_body(const int64_t *steps, const double *values, const uint64_t *times, size_t n,
                          uint8_t *out)
{
	uint64_t last = 0, slope = 0, bits;
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		len += put_varint(out + len, zigzag((uint64_t)steps[i] - last));
		last = (uint64_t)steps[i];
	}
	last = 0;
	for (size_t i = 0; i < n; i++) {
		len += put_varint(out + len, zigzag(times[i] - last - slope));
		slope = i ? times[i] - last : 0;
		last = times[i];
	}
	for (size_t i = 0; i < n; i++) {
		memcpy(&bits, &values[i], sizeof(bits));
		for (size_t b = 0; b < 8; b++)
			out[len + b * n + i] = (uint8_t)(bits >> (8 * b));
	}
	return len + 8 * n;
}

void codec_encode(const int64_t *steps, const double *values, const uint64_t *times_us, size_t n,
                  uint8_t **out, size_t *out_n)
{
	uint8_t *body = xmalloc(n * (VARINT_MAX * 2 + 8));
	size_t body_n = encode_body(steps, values, times_us, n, body);
	size_t cap = 1 + 2 * VARINT_MAX + ZSTD_compressBound(body_n), len = 1, got;
	uint8_t *p = xmalloc(cap);

	len += put_varint(p + len, n);
	if (body_n >= COMPRESS_FROM) {
		size_t head = len + put_varint(p + len, body_n);

		got = ZSTD_compress(p + head, cap - head, body, body_n, 3);
		if (!ZSTD_isError(got) && head + got < len + body_n - body_n / 8) {
			p[0] = FORMAT_ZSTD;
			free(body);
			*out = xrealloc(p, head + got);
			*out_n = head + got;
			return;
		}
	}
	p[0] = FORMAT_PLAIN;
	memcpy(p + len, body, body_n);
	free(body);
	*out = xrealloc(p, len + body_n);
	*out_n = len + body_n;
}

/* 0, or -1 at the end of the bytes or with more than 64 bits. */
static int get_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	uint64_t out = 0;

	for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		if (shift == 63 && byte > 1)
			return -1;
		out |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*v = out;
			return 0;
		}
	}
	return -1;
}

static int decode_body(const uint8_t *p, size_t len, size_t n, int64_t *steps, double *values,
                       uint64_t *times)
{
	const uint8_t *end = p + len;
	uint64_t last = 0, slope = 0, v, bits;

	for (size_t i = 0; i < n; i++) {
		if (get_varint(&p, end, &v) < 0)
			return -1;
		last += unzigzag(v);
		steps[i] = (int64_t)last;
	}
	last = 0;
	for (size_t i = 0; i < n; i++) {
		if (get_varint(&p, end, &v) < 0)
			return -1;
		times[i] = last + slope + unzigzag(v);
		slope = i ? times[i] - last : 0;
		last = times[i];
	}
	if ((size_t)(end - p) != n * 8)
		return -1;
	for (size_t i = 0; i < n; i++) {
		bits = 0;
		for (size_t b = 0; b < 8; b++)
			bits |= (uint64_t)p[b * n + i] << (8 * b);
		memcpy(&values[i], &bits, sizeof(bits));
	}
	return 0;
}

int codec_decode(const void *data, size_t n, struct points *p, struct err *e)
{
	const uint8_t *at = data, *end = at + n;
	uint8_t format, *body = NULL;
	uint64_t count, body_n;
	int rc;

	if (n < 2)
		goto damaged;
	format = *at++;
	if (format > FORMAT_ZSTD || get_varint(&at, end, &count) < 0 || count == 0 || count > CODEC_MAX_POINTS)
		goto damaged;
	body_n = (uint64_t)(end - at);
	if (format == FORMAT_ZSTD) {
		if (get_varint(&at, end, &body_n) < 0 || body_n > BODY_MAX)
			goto damaged;
		body = xmalloc(body_n + 1);
		if (ZSTD_decompress(body, body_n, at, (size_t)(end - at)) != body_n)
			goto damaged;
		at = body;
	}
	grow_points(p, count);
	rc = decode_body(at, body_n, count, p->steps + p->n, p->values + p->n, p->times_us + p->n);
	free(body);
	body = NULL;
	if (rc < 0)
		goto damaged;
	p->n += count;
	return 0;
damaged:
	free(body);
	return err_set(e, ERR_IO, "a chunk of a metric series is damaged");
}
