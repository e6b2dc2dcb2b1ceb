/*
 * halving: the rule of successive halving; pure.
 *
 * Members are compared at rungs: at step min_step, and then at eta times the step before, by the value of
 * their first point there or beyond. Of S members that have started, S / eta (rounded up) may stay at the
 * first rung, S / eta^2 at the second, at least one. A member is stopped as soon as so many others have done
 * better at the last rung that it has reached. That never becomes untrue by further values: while S stays as
 * it is, who is stopped does not depend on the order in which values arrive. Where not all members start at
 * once S grows with them, so the first ones are compared among themselves and do not wait for all.
 *
 * After "A System for Massively Parallel Hyperparameter Tuning" (Li et al., MLSys 2020), stopping variant,
 * with the number that may stay reckoned from those that have started instead of those at the rung.
 */
#ifndef HEARTH_CONTROLLER_HALVING_H
#define HEARTH_CONTROLLER_HALVING_H

#include <stddef.h>
#include <stdint.h>

#define HALVING_RUNGS 24

struct halving {
	uint32_t eta; /* 0: none */
	int max;      /* the greatest value is the best */
	int64_t min_step;
};

struct halving_value { /* of one member at a rung */
	uint32_t index;
	double value; /* NaN: worse than any number */
};

/* Step of the rung, from 0; INT64_MAX: there is none. */
int64_t halving_step(const struct halving *h, unsigned rung);
/* How many of `started` members may stay. */
uint32_t halving_keep(const struct halving *h, unsigned rung, uint32_t started);
/* Best first; of equal values the lower index. */
void halving_sort(const struct halving *h, struct halving_value *v, size_t n);

#endif
