/*
 * decide: carries out what the scheduler library decides: attempts begin.
 */
#ifndef HEARTH_CONTROLLER_RUN_DECIDE_H
#define HEARTH_CONTROLLER_RUN_DECIDE_H

#include "controller/state/core_state.h"

/* At the end of a turn, and before the library is asked what it would do. */
void decide(struct core *c);

#endif
