/* checkpoint: which steps a checkpoint folder holds. Pure. */
#ifndef HEARTH_CONTROLLER_RECORD_CHECKPOINT_H
#define HEARTH_CONTROLLER_RECORD_CHECKPOINT_H

#include <stddef.h>

#include "common/base/err.h"
#include "common/tree/steps.h"

/* Adds them to out, sorted. */
int checkpoint_steps(const char *manifest, size_t n, struct steps *out, struct err *e);

#endif
