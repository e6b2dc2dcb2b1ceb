/*
 * peerframe: what both sides of the peer port share: one small frame at a time over a TLS stream, and the
 * name in the certificate of the other end.
 */
#ifndef HEARTH_AGENT_CONTROL_PEERFRAME_H
#define HEARTH_AGENT_CONTROL_PEERFRAME_H

#include "common/net/wire_msg.h"
#include <stdint.h>

struct bufferevent;

#define PEERFRAME_NAME_SIZE  256
#define PEERFRAME_PRINT_SIZE 33

/* Takes one whole frame at the head of the input: 1, 0 more is needed, -1 nonsense. *msg as wire_decode. */
int peerframe_take(struct bufferevent *bev, uint16_t want, void **msg);
/* The same for any message of the peer port. */
int peerframe_next(struct bufferevent *bev, uint16_t *type, void **msg);
void peerframe_put(struct bufferevent *bev, uint16_t type, const void *msg);
/* The common name of the other end's certificate; -1 without one. */
int peerframe_name(struct bufferevent *bev, char name[PEERFRAME_NAME_SIZE]);
/* The fingerprint of that certificate, as in tls_fingerprint; -1 without one. */
int peerframe_print(struct bufferevent *bev, char print[PEERFRAME_PRINT_SIZE]);

#endif
