/*
 * peerport: agents ask each other whether they hear hearthd: TLS with both certificates, one question a
 * connection, PEER_ASK and PEER_ANSWER. The certificate of the asked agent must have the name that
 * hearthd's list gives.
 */
#ifndef HEARTH_AGENT_CONTROL_PEERPORT_H
#define HEARTH_AGENT_CONTROL_PEERPORT_H

#include "agent/base/agent_env.h"
#include "common/base/err.h"
#include "common/net/wire_msg.h"
#include <stdint.h>

struct peerport;
struct peer_question;

struct peerport_ops {
	void (*answer)(struct wm_peer_answer *m, void *arg); /* fills it; node is left alone */
};
/* Listens on cfg.address:cfg.peer_port (0 any). */
struct peerport *peerport_create(struct agent_env *env, const struct agent_identity *identity,
                                 const struct peerport_ops *ops, void *arg, struct err *e);
void peerport_destroy(struct peerport *p);
uint32_t peerport_number(const struct peerport *p); /* the port as bound */

/* Asks a peer, "name address:port". done is called once, after this returns; m NULL: no answer. The question
 * is freed after it. Returns NULL for an invalid text. */
struct peer_question *peer_question_ask(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                        void (*done)(const struct wm_peer_answer *m, void *arg), void *arg);
void peer_question_cancel(struct peer_question *q); /* done is not called; NULL allowed */

#endif
