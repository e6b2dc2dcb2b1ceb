/*
 * outbox: reports that hearthd must record (launch, process, artifact, run info). The outbox holds a report
 * until hearthd acknowledges it, and sends it again after each new connection.
 *
 * A report describes a state, so a newer one replaces an older one of the same key. That bounds the outbox
 * by the number of launches and processes. Each sending has a frame id of its own; an acknowledgement of an
 * older sending does not remove a newer state.
 */
#ifndef HEARTH_AGENT_LINK_OUTBOX_H
#define HEARTH_AGENT_LINK_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

struct outbox;

struct outbox_ops {
	/* Queues on the connection: 0, or -1 when it is down or full (outbox_flush sends it again). */
	int (*send)(uint16_t type, const void *msg, uint64_t id, void *arg);
	/* This state is durable at the controller; the entry is gone already. msg is valid during the call. */
	void (*acked)(uint16_t type, const void *msg, void *arg);
};

struct outbox *outbox_create(const struct outbox_ops *ops, void *arg);
void outbox_destroy(struct outbox *o);
/* key names the thing within its type, "17.2" or "17.2 rank 3". Copies msg, sends it. */
void outbox_put(struct outbox *o, uint16_t type, const char *key, const void *msg);
void outbox_ack(struct outbox *o, uint64_t id);
void outbox_reconnected(
    struct outbox *o); /* everything counts as not sent; call outbox_flush when it may be sent */
void outbox_flush(struct outbox *o); /* sends what was not sent on this connection, oldest first */
void outbox_drop(struct outbox *o,
                 const char *prefix); /* entries whose key begins so: their launch is forgotten */
size_t outbox_holds(const struct outbox *o,
                    const char *prefix);   /* how many such entries are not acknowledged */
int outbox_unsent(const struct outbox *o); /* some entry is not sent on this connection */
size_t outbox_length(const struct outbox *o);

#endif
