/*
 * doubt: what is doubtful about a checkpoint that a user asks to begin with.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_DOUBT_H
#define HEARTH_CONTROLLER_REQUESTS_DOUBT_H

#include "common/base/text.h"
#include "controller/state/jobs.h"

/* Says why the checkpoint of that job may be from behind a fault, and names the newest one before it that is
 * not. k: NULL says nothing. */
void doubt_checkpoint(struct core *c, uint64_t job, const struct ckpt *k, struct text *out);

#endif
