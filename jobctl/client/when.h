/*
 * when: a time as people write it: now, +2h (from now), 14:00 (the next one), 2026-01-31, "2026-01-31 14:00"
 * (local time), 2026-01-31T14:00:00Z.
 */
#ifndef HEARTH_JOBCTL_CLIENT_WHEN_H
#define HEARTH_JOBCTL_CLIENT_WHEN_H

#include <stdint.h>

#include "common/base/err.h"

/* Parses a time. A time of day means the next one after after_us. */
int when_parse(const char *text, uint64_t now_us, uint64_t after_us, uint64_t *us, struct err *e);

#endif
