/*
 * looks: hearthd misses a node and asks this agent to look at it (NODE_ASK): one question at that node's peer
 * port, and the answer goes back as NODE_SEEN. Nobody repeats an answer that is lost: hearthd asks again, or
 * waits for the lease of that node.
 */
#ifndef HEARTH_AGENT_CONTROL_LOOKS_H
#define HEARTH_AGENT_CONTROL_LOOKS_H

#include "common/net/wire_msg.h"
#include <stdint.h>

struct looks;
struct peerport;

struct looks_ops {
	void (*send)(uint16_t type, const void *msg, void *arg);
};
struct looks *looks_create(struct peerport *peerport, const struct looks_ops *ops, void *arg);
void looks_destroy(struct looks *t); /* ends all questions; NULL allowed */
/* LOOKS_MAX questions go on at a time; one more is dropped. */
void looks_order(struct looks *t, const struct wm_node_ask *m);

#endif
