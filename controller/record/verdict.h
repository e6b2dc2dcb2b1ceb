/*
 * verdict: why an attempt has to end, as data. A predicate fills a verdict and ends nothing; run/review.c
 * ends the attempt by it. Pure.
 */
#ifndef HEARTH_CONTROLLER_RECORD_VERDICT_H
#define HEARTH_CONTROLLER_RECORD_VERDICT_H

#include "common/base/text.h"
#include "controller/record/states.h"

struct verdict {
	enum reason_class cls;
	char reason[TEXT_SIZE]; /* for people; "" none */
};

/* Fills v; a reason that is too long is cut. Returns 1. */
int verdict_set(struct verdict *v, enum reason_class cls, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
