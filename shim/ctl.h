/*
 * ctl: the socket DIR/ctl and its nine verbs (docs/spec/03-shim.md).
 *
 * Root, the shim's own user and the user of the process may connect; that user is a guest, who may do
 * everything but quit, release and start. All limits are fixed: connections, bytes of a frame, bytes that
 * wait for a slow reader. The shim closes a connection that passes one. No client can hold up the process or
 * its output.
 */
#ifndef HEARTH_SHIM_CTL_H
#define HEARTH_SHIM_CTL_H

#include "common/base/err.h"
#include "shim/shim.h"
#include <poll.h>
#include <stdint.h>

struct shim;
struct ctl;

#define CTL_POLL_MAX (SHIM_MAX_CONNS + 1)

struct ctl *ctl_create(struct shim *s, struct err *e);
void ctl_destroy(struct ctl *c); /* removes the socket */
/* Fills at most CTL_POLL_MAX entries; returns how many. *look_again: boot time of the next deadline, 0 none.
 */
unsigned ctl_poll(struct ctl *c, struct pollfd *fds, uint64_t *look_again);
void ctl_handle(struct ctl *c, const struct pollfd *fds, unsigned n);
/* The process was started (code 0), or was not: answers who said go. */
void ctl_started(struct ctl *c, enum err_code code, const char *text);
void ctl_changed(struct ctl *c); /* a status to all who watch */

#endif
