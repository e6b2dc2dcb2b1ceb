/*
 * halving: the rule of successive halving; pure.
 *
 * Members are compared at rungs: at step min_step, and then at eta times the step before, by the value of
 * their first point there or beyond. A sweep of S members keeps S / eta (rounded up) at the first
 * rung and S / eta^2 at the second, at least one. A member is stopped as soon as so many others have done
 * better at the last rung that it has reached. That never becomes untrue by further values: who is among the
 * best of all is never stopped, and who is does not depend on the order in which values arrive.
 *
 * S counts those that have not started yet, too. So where only some go at once the first ones come past a
 * rung whatever they came to, as all others might do worse. What that costs: with members in random order
 * some 1 + ln(eta) times as many come past the first rung as may stay, 1 + 2 ln(eta) times past the second.
 * The alternative, to count those that have started, stops the best member of a wave of good ones for good;
 * nothing is paused here that could be taken up again.
 *
 * After "A System for Massively Parallel Hyperparameter Tuning" (Li et al., MLSys 2020), whose rule for who
 * is promoted is turned round: it says who is stopped.
 */
#ifndef HEARTH_CONTROLLER_RECORD_HALVING_H
#define HEARTH_CONTROLLER_RECORD_HALVING_H

#include <stddef.h>
#include <stdint.h>

#define HALVING_RUNGS 24

struct halving {
	uint32_t eta; /* 0: no halving */
	int max;      /* the greatest value is the best */
	int64_t min_step;
};

struct halving_value { /* of one member at a rung */
	uint32_t index;
	double value; /* NaN: worse than any number */
};

/* Step of the rung, from 0; INT64_MAX: beyond all steps. */
int64_t halving_step(const struct halving *h, unsigned rung);
/* How many of `members` may stay. */
uint32_t halving_keep(const struct halving *h, unsigned rung, uint32_t members);
/* Best first; of equal values the lower index. */
void halving_sort(const struct halving *h, struct halving_value *v, size_t n);

#endif
