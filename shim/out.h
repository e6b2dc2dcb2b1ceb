/*
 * out: the output of the process, from two pipes into segment files (layout: shim.h), bounded, and never in
 * its way.
 *
 * Whatever fails on the side of the files, the pipes are read on: bytes that cannot be kept are counted as
 * dropped, and the stream offset runs on, so that a gap shows as a hole between two segments.
 */
#ifndef HEARTH_SHIM_OUT_H
#define HEARTH_SHIM_OUT_H

#include "common/base/clock.h"
#include "common/base/err.h"
#include <poll.h>
#include <stddef.h>
#include <stdint.h>

struct out;

/* Opens the first segment (a full disk is not an error, anything else is) and takes all memory that is ever
 * needed. segment_bytes, max_bytes: 0 = 16 MiB, 1 GiB. */
struct out *out_create(const char *logdir, uint64_t segment_bytes, uint64_t max_bytes,
                       const struct clock *clock, struct err *e);
void out_destroy(struct out *o);
/* Makes the pipes; write_fds[0] is stdout's, [1] stderr's, close-on-exec, the caller's. */
int out_pipes(struct out *o, int write_fds[2], struct err *e);

/* Fills two entries (fd -1 when there is nothing to wait for); returns the boot_us at which to look again, 0
 * none. */
uint64_t out_poll(struct out *o, struct pollfd fds[2]);
void out_handle(struct out *o, const struct pollfd fds[2]);
/* Reads what is there, at most 4 MiB a stream, without waiting. */
void out_drain(struct out *o);
/* Reads what is there and forgets it, but for the end: the last bytes are added to `last`, a string of less
 * than size bytes. Returns whether there was any. */
int out_discard(struct out *o, char *last, size_t size);
void out_close_pipes(struct out *o); /* out_pipes may follow */
int out_eof(const struct out *o);    /* both streams have ended */
void out_close(struct out *o);       /* closes pipes and files; the numbers and the tail stay */

uint64_t out_bytes(const struct out *o); /* of the stream, dropped ones included */
uint64_t out_dropped(
    const struct out *o); /* thereof not on disk any more because of a bound or a full disk */
/* Copies the last bytes of the stream (at most SHIM_TAIL_MAX) to p; returns how many. */
size_t out_tail(const struct out *o, uint8_t *p, size_t max);

#endif
