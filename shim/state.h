/*
 * state: what the shim itself, and tests, need of DIR/state and DIR/launch beyond shim.h.
 */
#ifndef HEARTH_SHIM_STATE_H
#define HEARTH_SHIM_STATE_H

#include "shim/shim.h"

#define STATE_SIZE     4096 /* the whole file, always: one page that is there from the start */
#define STATE_TEXT_MAX 1024

/* As shim_state_write, relative to an open directory. */
int state_write_at(int dir_fd, const struct shim_state *s, struct err *e);

/* Decode a file's bytes for shim_state_read and shim_launch_read. */
int state_decode(const void *data, size_t n, struct shim_state *s, struct err *e);
int launch_decode(const void *data, size_t n, struct shim_launch *l, struct err *e);

#define STATE_MAGIC    0x48535331u /* "HSS1" */
#define STATE_VERSION  1           /* for ever: agents of any version read it */
#define LAUNCH_MAGIC   0x48534c31u /* "HSL1" */
#define LAUNCH_VERSION 3
#define LAUNCH_OLDEST  1 /* that a shim still reads */

#endif
