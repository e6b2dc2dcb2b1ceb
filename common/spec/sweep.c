/*
 * sweep: see sweep.h. Random numbers are splitmix64 of seed, member and axis; combinations without repetition
 * are a permutation of their numbers (a Feistel network over the next power of four, walked until it falls
 * inside), so that member i is known without the members before it.
 */
#include "common/spec/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"

#define COMBINATIONS_MAX 9007199254740992.0 /* 2^53 */
#define ROUNDS           4

static uint64_t mix_bits(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* In [0, 1). */
static double unit_random(uint64_t seed, uint32_t index, size_t axis)
{
	return (double)(mix_bits(mix_bits(mix_bits(seed) ^ index) ^ (axis + 1)) >> 11) / COMBINATIONS_MAX;
}

/* The number that people would write: 0.1 + 2 * 0.1 is 0.3. */
static double round_value(double v, int digits)
{
	char text[40];

	snprintf(text, sizeof(text), "%.*g", digits, v);
	return strtod(text, NULL);
}

/* ---- one axis ------------------------------------------------------------------------------------ */

uint64_t sweep_axis_values(const struct sweep_axis *a)
{
	double n;

	switch (a->kind) {
	case SWEEP_LIST:
		return (uint64_t)cJSON_GetArraySize(a->list);
	case SWEEP_RANGE:
		/* A step of 0.1 meets the end but for the last bits. */
		n = floor((a->hi - a->lo) / a->step * (1 + 1e-12) + 1e-9) + 1;
		return n < COMBINATIONS_MAX ? (uint64_t)n : UINT64_MAX;
	case SWEEP_LINEAR:
	case SWEEP_LOG:
		break;
	}
	return a->count;
}

/* Between the ends of a LINEAR or LOG axis; at 0 and 1 it is the end itself. */
static double value_between(const struct sweep_axis *a, double at, int digits)
{
	double v;

	if (at <= 0)
		return a->lo;
	if (at >= 1)
		return a->hi;
	v = a->kind == SWEEP_LOG ? a->lo * pow(a->hi / a->lo, at) : a->lo + (a->hi - a->lo) * at;
	v = round_value(v, digits);
	return v < a->lo ? a->lo : v > a->hi ? a->hi : v;
}

static cJSON *value_at(const struct sweep_axis *a, uint64_t k)
{
	switch (a->kind) {
	case SWEEP_LIST:
		return cJSON_Duplicate(cJSON_GetArrayItem(a->list, (int)k), 1);
	case SWEEP_RANGE:
		return cJSON_CreateNumber(round_value(a->lo + (double)k * a->step, 15));
	case SWEEP_LINEAR:
	case SWEEP_LOG:
		break;
	}
	return cJSON_CreateNumber(value_between(a, a->count > 1 ? (double)k / (a->count - 1) : 0, 12));
}

/* ---- combinations -------------------------------------------------------------------------------- */

uint64_t sweep_combinations(const struct sweep *s)
{
	double n = 1;

	for (size_t i = 0; i < s->n_axes; i++) {
		uint64_t k = sweep_axis_values(&s->axes[i]);

		if (!k)
			return 0;
		n *= (double)k;
	}
	return !s->n_axes ? 0 : n > COMBINATIONS_MAX ? UINT64_MAX : (uint64_t)n;
}

uint64_t sweep_members(const struct sweep *s)
{
	if (!s->n_axes)
		return 0;
	return s->random ? s->samples : sweep_combinations(s);
}

static uint64_t feistel_rounds(uint64_t x, unsigned half, uint64_t seed)
{
	uint64_t mask = (1ull << half) - 1, left = x >> half, right = x & mask;

	for (unsigned r = 0; r < ROUNDS; r++) {
		uint64_t next =
		    left ^
		    (mix_bits(mix_bits(seed ^ 0x6865617274680000u) ^ mix_bits(right + ((uint64_t)r << 60))) & mask);

		left = right;
		right = next;
	}
	return left << half | right;
}

/* A permutation of 0 ... n-1: equal seeds, equal permutations. n of 1 to 2^53. */
static uint64_t permuted_number(uint64_t i, uint64_t n, uint64_t seed)
{
	unsigned half = 1;

	while (half < 27 && 1ull << (2 * half) < n)
		half++;
	do /* on average less than four times: the square is at most four times n */
		i = feistel_rounds(i, half, seed);
	while (i >= n);
	return i;
}

static cJSON *drawn_values(const struct sweep *s, uint32_t index)
{
	cJSON *o = cJSON_CreateObject();

	for (size_t i = 0; i < s->n_axes; i++) {
		const struct sweep_axis *a = &s->axes[i];
		uint64_t n = sweep_axis_values(a);
		double u = unit_random(s->seed, index, i);

		/* Six digits tell two values apart and can be read. */
		cJSON_AddItemToObject(o, a->name,
		                      n ? value_at(a, (uint64_t)(u * (double)n))
		                        : cJSON_CreateNumber(value_between(a, u, 6)));
	}
	return o;
}

static cJSON *combination_of(const struct sweep *s, uint64_t number)
{
	cJSON *o = cJSON_CreateObject();
	cJSON *v[SWEEP_MAX_AXES];

	for (size_t i = s->n_axes; i > 0; i--) {
		uint64_t n = sweep_axis_values(&s->axes[i - 1]);

		v[i - 1] = value_at(&s->axes[i - 1], number % n);
		number /= n;
	}
	for (size_t i = 0; i < s->n_axes; i++)
		cJSON_AddItemToObject(o, s->axes[i].name, v[i]);
	return o;
}

cJSON *sweep_values(const struct sweep *s, uint32_t index)
{
	uint64_t n = sweep_combinations(s);

	if (!s->random)
		return combination_of(s, index);
	if (n == 0 || n == UINT64_MAX)
		return drawn_values(s, index);
	return combination_of(s, permuted_number(index, n, s->seed));
}

void sweep_fini(struct sweep *s)
{
	for (size_t i = 0; i < s->n_axes; i++) {
		free(s->axes[i].name);
		cJSON_Delete(s->axes[i].list);
	}
	free(s->axes);
	*s = (struct sweep){0};
}
