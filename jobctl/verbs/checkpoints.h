/* checkpoints: fetches a registered checkpoint of a job, for `get`. */
#ifndef HEARTH_JOBCTL_VERBS_CHECKPOINTS_H
#define HEARTH_JOBCTL_VERBS_CHECKPOINTS_H

#include <stdint.h>

#include "jobctl/client/ctx.h"

/* Fetches the step of the option --step into dir, each part into a folder algo-K if there are several. */
int checkpoint_fetch(struct ctx *c, uint64_t job, const char *ref, const char *dir);

#endif
