/*
 * history: the record of the scheduler: its inputs and its decisions (docs/spec/12-history.md).
 */
#ifndef HEARTH_CONTROLLER_STATE_HISTORY_H
#define HEARTH_CONTROLLER_STATE_HISTORY_H

#include "controller/state/core_state.h"

void history_open(struct core *c); /* a new part, of c->sched; what was not written of the last is dropped */
void history_note(struct core *c, const char *word);              /* a line of its own */
int history_write(struct core *c, struct store_txn *t, int must); /* 1: something was written */
void history_fini(struct core *c);

#endif
