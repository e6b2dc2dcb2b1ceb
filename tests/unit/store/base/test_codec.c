/* codec: every point comes back bit by bit; damaged bytes are errors, never crashes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "store/base/codec.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define N 3000

static int64_t steps[N];
static double values[N];
static uint64_t times[N];

static int same(const struct points *p, size_t n)
{
	return p->n == n && memcmp(p->steps, steps, n * sizeof(*steps)) == 0 &&
	       memcmp(p->values, values, n * sizeof(*values)) == 0 &&
	       memcmp(p->times_us, times, n * sizeof(*times)) == 0;
}

static size_t round_trip(size_t n, const char *what)
{
	struct points p = {0};
	struct err e;
	uint8_t *data;
	size_t len;

	codec_encode(steps, values, times, n, &data, &len);
	ok(codec_decode(data, len, &p, &e) == 0 && same(&p, n), "%s: %zu points come back", what, n);
	points_fini(&p);
	free(data);
	return len;
}

static void training(void)
{
	for (size_t i = 0; i < N; i++) {
		steps[i] = (int64_t)i * 10;
		values[i] = 2.0 * exp(-(double)i / 500) + 0.01 * sin((double)i);
		times[i] = 1790000000000000ull + i * 250000 + (i * 7919) % 1000;
	}
}

static void extremes(void)
{
	static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 5e-324, 1.7976931348623157e308, -1.5};

	for (size_t i = 0; i < N; i++) {
		steps[i] = i % 3 == 0 ? -1 : i % 3 == 1 ? INT64_MAX : INT64_MIN;
		values[i] = odd[i % 8];
		times[i] = i % 2 ? UINT64_MAX - i : i;
	}
	values[9] = -NAN;
}

static void noise(void)
{
	random_bytes(steps, sizeof(steps));
	random_bytes(values, sizeof(values));
	random_bytes(times, sizeof(times));
}

/* Every cut, and a flip of each byte: an error or other points, no crash (the sanitizers look). */
static void damaged(void)
{
	struct points p = {0};
	struct err e;
	uint8_t *data, *copy;
	size_t len;
	int cuts = 0;

	codec_encode(steps, values, times, 200, &data, &len);
	copy = xmalloc(len);
	for (size_t n = 0; n < len; n++) {
		memcpy(copy, data, n);
		cuts += codec_decode(copy, n, &p, &e) < 0 && p.n == 0;
	}
	is_int(cuts, (int64_t)len, "every cut blob is refused and adds nothing");
	for (size_t i = 0; i < len; i++) {
		memcpy(copy, data, len);
		copy[i] ^= 0xff;
		p.n = 0;
		codec_decode(copy, len, &p, &e);
	}
	memset(copy, 0xff, len);
	ok(codec_decode(copy, len, &p, &e) < 0, "bytes of ff are refused");
	points_fini(&p);
	free(copy);
	free(data);
}

/* ---- shapes by chance -----------------------------------------------------------------------------------
 */

static uint64_t any_number(void)
{
	return kit_random(1ull << 53) << kit_random(12) >> kit_random(64);
}

/* n points of one of several shapes: constant, rising evenly, with jumps, in all bits. */
static void shape(size_t n)
{
	const uint64_t kind = kit_random(5), slope = any_number(), from = any_number();
	const double height = (double)any_number() / 7;

	for (size_t i = 0; i < n; i++) {
		steps[i] = kind == 0  ? -1
		           : kind < 3 ? (int64_t)(from + i * slope)
		                      : (int64_t)any_number() - (int64_t)any_number();
		times[i] = kind == 1 ? from : kind < 4 ? from + i * slope + kit_random(3) : any_number();
		values[i] = kind == 0  ? height
		            : kind < 3 ? height * (double)i
		                       : (double)any_number() / (double)(1 + any_number());
	}
}

/* Each comes back; each beginning of it is refused, and adds nothing; each changed byte is refused or gives
 * as many points as are told. */
static void random_shapes(void)
{
	static const size_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 127, 128, 129, 1000, N};
	int bad = 0, taken = 0, bytes = 0;
	struct points p = {0};
	struct err e;

	kit_seed("codec");
	for (int round = 0; round < 300; round++) {
		size_t n = round < 15 ? sizes[round] : 1 + kit_random(kit_random(9) ? 100 : N), len;
		uint8_t *data, *copy;

		shape(n);
		codec_encode(steps, values, times, n, &data, &len);
		p.n = 0;
		bad += codec_decode(data, len, &p, &e) < 0 || !same(&p, n);
		copy = xmalloc(len + 1);
		for (size_t cut = 0; cut < len; cut += 1 + (len > 500 ? kit_random(len / 100) : 0)) {
			/* in a block of just that size, so that the sanitizers see who reads too far */
			uint8_t *begin = xmalloc(cut + !cut);

			memcpy(begin, data, cut);
			bad += codec_decode(begin, cut, &p, &e) == 0 || p.n != n || e.code != ERR_IO;
			free(begin);
		}
		for (int i = 0; i < 50; i++, bytes++) {
			memcpy(copy, data, len);
			copy[kit_random(len)] ^= (uint8_t)(1 + kit_random(255));
			p.n = 0;
			taken += codec_decode(copy, len, &p, &e) == 0;
			bad += p.n > CODEC_MAX_POINTS;
		}
		memcpy(copy, data, len);
		copy[len] = 0;
		p.n = 0;
		bad += codec_decode(copy, len + 1, &p, &e) == 0;
		free(copy);
		free(data);
	}
	ok(!bad,
	   "300 shapes come back; cut, changed (%d of %d taken for others) or with a byte more they are refused",
	   taken, bytes);
	points_fini(&p);
}

/* ---- made by hand
 * ------------------------------------------------------------------------------------------ */

static void made_by_hand(void)
{
#define V8  "\0\0\0\0\0\0\0\0"
#define FF9 "\xff\xff\xff\xff\xff\xff\xff\xff\xff"
	static const struct {
		const char *what, *data;
		size_t n;
		int points; /* -1 refused */
	} t[] = {
	    {"nothing", "", 0, -1},
	    {"one byte", "\0", 1, -1},
	    {"a point of zeros", "\0\1\0\0" V8, 12, 1},
	    {"a format that there is not", "\2\1\0\0" V8, 12, -1},
	    {"no points", "\0\0", 2, -1},
	    {"no points, and bytes", "\0\0\0\0" V8, 12, -1},
	    {"a number of points without its end", "\0\x80", 2, -1},
	    {"a number written longer than it must be", "\0\x81\0\0\0" V8, 13, 1},
	    {"65,537 points", "\0\x81\x80\x04\0\0" V8, 14, -1},
	    {"2^64 - 1 points", "\0" FF9 "\1\0\0" V8, 21, -1},
	    {"a step of 64 bits", "\0\1" FF9 "\1\0" V8, 21, 1},
	    {"a step of 65 bits", "\0\1" FF9 "\2\0" V8, 21, -1},
	    {"a step of eleven bytes", "\0\1" FF9 "\x80\1\0" V8, 22, -1},
	    {"a value too short", "\0\1\0\0\0\0\0\0\0\0\0", 11, -1},
	    {"a byte too many", "\0\1\0\0" V8 "\0", 13, -1},
	    {"packed, without a size", "\1\1", 2, -1},
	    {"packed, and empty", "\1\1\x0a", 3, -1},
	    {"packed, no frame", "\1\1\x0a" V8, 11, -1},
	    {"packed, of 2^63 bytes", "\1\1" FF9 "\1" V8, 20, -1},
	};
	struct points p = {0};
	struct err e;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint8_t *exact = xmalloc(t[i].n + 1);
		int rc;

		memcpy(exact, t[i].data, t[i].n);
		p.n = 0;
		rc = codec_decode(exact, t[i].n, &p, &e);
		ok(t[i].points < 0 ? rc < 0 && p.n == 0 : rc == 0 && p.n == (size_t)t[i].points, "%s", t[i].what);
		free(exact);
	}
	points_fini(&p);
}

/* The most that a chunk may have, and one after the other into the same points. */
static void appended(void)
{
	const size_t most = CODEC_MAX_POINTS;
	int64_t *s = xcalloc(most, sizeof(*s));
	double *v = xcalloc(most, sizeof(*v));
	uint64_t *at = xcalloc(most, sizeof(*at));
	struct points p = {0};
	uint8_t *data;
	struct err e;
	size_t len;

	for (size_t i = 0; i < most; i++) {
		s[i] = (int64_t)i;
		v[i] = (double)i / 3;
		at[i] = i * i;
	}
	codec_encode(s, v, at, most, &data, &len);
	ok(codec_decode(data, len, &p, &e) == 0 && codec_decode(data, len, &p, &e) == 0 && p.n == 2 * most,
	   "65,536 points, twice");
	ok(memcmp(p.steps + most, s, most * sizeof(*s)) == 0 && memcmp(p.values, v, most * sizeof(*v)) == 0 &&
	       memcmp(p.times_us + most, at, most * sizeof(*at)) == 0,
	   "go behind those that are there");
	ok(codec_decode(data, len - 1, &p, &e) < 0 && p.n == 2 * most, "what is damaged adds nothing");
	points_fini(&p);
	ok(!p.n && !p.cap && !p.steps, "and all is given back");
	free(data);
	free(s);
	free(v);
	free(at);
}

int main(void)
{
	struct points p = {0};
	size_t len;

	training();
	len = round_trip(N, "training");
	ok(len < N * 12, "smooth points take %.1f bytes each", (double)len / N);
	round_trip(1, "training");
	round_trip(2, "training");
	damaged();
	extremes();
	round_trip(N, "extremes");
	noise();
	round_trip(N, "noise");
	damaged();
	points_fini(&p);
	random_shapes();
	made_by_hand();
	appended();
	return tap_done();
}
