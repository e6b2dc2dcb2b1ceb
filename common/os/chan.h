/*
 * chan: bounded queue of pointers from any thread to one loop, on an eventfd.
 *
 * Order is kept per sender. When full, chan_send fails at once: the sender decides what to do (refuse
 * the request, drop with a count, close the connection). chan_send_wait blocks; only threads that own
 * no loop may use it.
 */
#ifndef HEARTH_COMMON_OS_CHAN_H
#define HEARTH_COMMON_OS_CHAN_H

#include <stddef.h>

struct chan;
struct loop;

/* cb runs on the loop's thread once per message; it takes the message. At most `batch` messages a turn
 * (0 = 256) so that a flood does not starve the loop. */
struct chan *chan_create(struct loop *l, size_t capacity, size_t batch, void (*cb)(void *msg, void *arg),
                         void *arg);
/* Messages still queued are handed to drop (may be NULL). No sender may be left. */
void chan_destroy(struct chan *c, void (*drop)(void *msg));
int chan_send(struct chan *c, void *msg); /* 0, or -1 when full: the message stays the caller's */
void chan_send_wait(struct chan *c, void *msg);
size_t chan_length(struct chan *c);

#endif
