/*
 * steps: which steps a folder of checkpoints holds. The step of an entry is the last whole number in its name
 * (step-1200, model_1200.pt). Pure.
 */
#ifndef HEARTH_COMMON_STEPS_H
#define HEARTH_COMMON_STEPS_H

#include "common/err.h"
#include <stddef.h>
#include <stdint.h>

#define STEPS_SHOWN 12 /* named in an error */

struct steps {
	int64_t want;
	int64_t shown[STEPS_SHOWN];
	unsigned n, more;
	int found;
};

int64_t steps_of(const char *name, size_t n); /* -1: no number in it */
/* An entry's own name; hidden ones and those without a number are left out. */
void steps_add(struct steps *s, const char *name, size_t n);
/* 0 want is there; ERR_NOT_FOUND names the steps that there are. */
int steps_check(const struct steps *s, struct err *e);

#endif
