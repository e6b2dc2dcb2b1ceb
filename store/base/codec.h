/*
 * codec: points of one series as a compact blob, and back.
 *
 *     u8 format (0 plain, 1 zstd) | varint n | [zstd: varint size of the body] | body
 *     body: n steps  (zigzag varint of the difference)
 *           n times  (zigzag varint of the difference's difference)
 *           n values (IEEE 754, little-endian, in planes: all first bytes, all second bytes, ...)
 *
 * Planes and differences are what makes zstd pay: neighbours of a series share their high bytes. Values keep
 * every bit, NaN's payload included. Decoding trusts nothing: a damaged blob is an error.
 */
#ifndef HEARTH_STORE_BASE_CODEC_H
#define HEARTH_STORE_BASE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define CODEC_MAX_POINTS 65536u

struct points { /* growing arrays of the same length */
	size_t n, cap;
	int64_t *steps;
	double *values;
	uint64_t *times_us;
};
void points_fini(struct points *p);

/* n of 1..CODEC_MAX_POINTS; *out malloc'ed. */
void codec_encode(const int64_t *steps, const double *values, const uint64_t *times_us, size_t n,
                  uint8_t **out, size_t *out_n);
/* Appends to p; on error p is as before. */
int codec_decode(const void *data, size_t n, struct points *p, struct err *e);

#endif
