/*
 * decide: carries out decisions of the scheduler library: starts attempts.
 */
#ifndef HEARTH_CONTROLLER_RUN_DECIDE_H
#define HEARTH_CONTROLLER_RUN_DECIDE_H

#include "controller/state/core_state.h"

/* Call it at the end of a turn, and before you ask the library for a forecast. */
void decide(struct core *c);

#endif
