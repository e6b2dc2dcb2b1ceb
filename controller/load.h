/*
 * load: fills memory from the store, at start and after a transaction that the store refused.
 */
#ifndef HEARTH_CONTROLLER_LOAD_H
#define HEARTH_CONTROLLER_LOAD_H

#include "controller/state/core_state.h"

void state_clear(struct core *c);
void core_fail(struct core *c, const struct err *e); /* a commit failed: returns to the state of the store */
void core_recovered(struct core *c);

#endif
