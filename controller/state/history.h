/*
 * history: records the inputs and decisions of the scheduler library (docs/spec/12-history.md).
 */
#ifndef HEARTH_CONTROLLER_STATE_HISTORY_H
#define HEARTH_CONTROLLER_STATE_HISTORY_H

#include "controller/state/core_state.h"

void history_open(struct core *c); /* begins a part for c->sched; drops unwritten lines of the last */
void history_note(struct core *c, const char *word);              /* adds a line */
int history_write(struct core *c, struct store_txn *t, int must); /* 1: wrote something */
void history_fini(struct core *c);

#endif
