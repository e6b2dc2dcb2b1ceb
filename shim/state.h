/*
 * state: writing DIR/state from the shim itself (reading it: shim.h).
 */
#ifndef HEARTH_SHIM_STATE_H
#define HEARTH_SHIM_STATE_H

#include "shim/shim.h"

#define STATE_SIZE     4096 /* the whole file, always: one page that is there from the start */
#define STATE_TEXT_MAX 1024

/* As shim_state_write, relative to an open directory. */
int state_write_at(int dir_fd, const struct shim_state *s, struct err *e);

#endif
