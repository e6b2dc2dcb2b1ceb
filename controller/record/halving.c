/*
 * halving: see halving.h.
 */
#include "controller/record/halving.h"

#include <math.h>
#include <stdlib.h>

int64_t halving_step(const struct halving *h, unsigned rung)
{
	int64_t step = h->min_step;

	if (rung >= HALVING_RUNGS)
		return INT64_MAX;
	for (unsigned i = 0; i < rung; i++)
		if (__builtin_mul_overflow(step, (int64_t)h->eta, &step))
			return INT64_MAX;
	return step;
}

uint32_t halving_keep(const struct halving *h, unsigned rung, uint32_t members)
{
	uint32_t keep = members;

	for (unsigned i = 0; i <= rung && keep > 1; i++)
		keep = (keep + h->eta - 1) / h->eta;
	return keep ? keep : 1;
}

static int by_index(const struct halving_value *x, const struct halving_value *y)
{
	return (x->index > y->index) - (x->index < y->index);
}

static int least_first(const void *a, const void *b)
{
	const struct halving_value *x = a, *y = b;

	if (isnan(x->value) || isnan(y->value))
		return isnan(x->value) && isnan(y->value) ? by_index(x, y) : isnan(x->value) ? 1 : -1;
	if (x->value < y->value || x->value > y->value)
		return x->value < y->value ? -1 : 1;
	return by_index(x, y);
}

static int greatest_first(const void *a, const void *b)
{
	const struct halving_value *x = a, *y = b;

	if (!isnan(x->value) && !isnan(y->value) && (x->value < y->value || x->value > y->value))
		return x->value > y->value ? -1 : 1;
	return least_first(a, b);
}

void halving_sort(const struct halving *h, struct halving_value *v, size_t n)
{
	if (n)
		qsort(v, n, sizeof(*v), h->max ? greatest_first : least_first);
}
