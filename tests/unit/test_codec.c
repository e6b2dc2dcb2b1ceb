/* codec: every point comes back bit by bit; damaged bytes are errors, never crashes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "store/codec.h"
#include "tests/lib/tap.h"

#define N 3000

static int64_t steps[N];
static double values[N];
static uint64_t times[N];

static int same(const struct points *p, size_t n)
{
	return p->n == n && !memcmp(p->steps, steps, n * sizeof(*steps)) &&
	       !memcmp(p->values, values, n * sizeof(*values)) && !memcmp(p->times_us, times, n * sizeof(*times));
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
	for (int i = 0; i < 100; i++)
		points_add(&p, i, i * 0.5, (uint64_t)i);
	ok(p.n == 100 && p.steps[99] == 99 && p.times_us[50] == 50, "points_add");
	points_fini(&p);
	return tap_done();
}
