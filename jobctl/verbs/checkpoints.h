/* checkpoints: registered checkpoints of a job. `get` fetches one. */
#ifndef HEARTH_JOBCTL_VERBS_CHECKPOINTS_H
#define HEARTH_JOBCTL_VERBS_CHECKPOINTS_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "jobctl/client/ctx.h"

#define CHECKPOINT_STORED "blob:" /* a copy in hearthd's store; its digest follows */

/* Returns hearthd's answer about the checkpoints of a job; NULL: an error. */
cJSON *checkpoint_list(struct ctx *c, uint64_t job);
/* Fetches the step of the option --step into dir: all files of the newest attempt that has the step, or none.
 * If several nodes have parts, those of node rank K are in a folder algo-(K+1). */
int checkpoint_fetch(struct ctx *c, uint64_t job, const char *ref, const char *dir);

#endif
