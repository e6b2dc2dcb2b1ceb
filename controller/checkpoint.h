/* checkpoint: which steps a checkpoint folder holds. Pure. */
#ifndef HEARTH_CONTROLLER_CHECKPOINT_H
#define HEARTH_CONTROLLER_CHECKPOINT_H

#include "common/err.h"
#include <stddef.h>
#include <stdint.h>

/* ERR_NOT_FOUND names the steps that there are. */
int checkpoint_has_step(const char *manifest, size_t n, int64_t step, struct err *e);

#endif
