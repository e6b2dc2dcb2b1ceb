/*
 * order: what other threads want an agent's connection to do: send a message, or close. Orders to one session
 * keep their order.
 */
#ifndef HEARTH_CONTROLLER_IO_ORDER_H
#define HEARTH_CONTROLLER_IO_ORDER_H

#include <stdint.h>

struct io_set;

#define SESSION_IO(session) ((unsigned)((session)&0xff)) /* index of the session's I/O thread */

/* -1: the channel of the session's I/O thread is full, or it has none. Copies msg. */
int order_send(struct io_set *s, uint64_t session, uint16_t type, const void *msg, uint64_t id);
int order_close(struct io_set *s, uint64_t session, const char *why);
/* These wait for room; when hearthd ends the order is dropped. Takes msg. */
void order_send_wait(struct io_set *s, uint64_t session, uint16_t type, void *msg, uint64_t id);
void order_close_wait(struct io_set *s, uint64_t session, const char *why);

#endif
