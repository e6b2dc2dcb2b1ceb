/*
 * peerport: agents ask each other whether they hear hearthd (PEER_ASK and PEER_ANSWER), and, for hearthd, who
 * they are and what they run (PEER_LOOK and PEER_SEEN): TLS with both certificates, one question a
 * connection. The certificate of the asked agent must have the name that hearthd's list gives. peerdoor.h is
 * the answering side.
 *
 * A question fails only when its time is over. Until then peerport opens further connections: soon when one
 * is refused or closed, and beside one that stays silent. The asked port may be crowded by strangers, or its
 * agent may start again.
 */
#ifndef HEARTH_AGENT_CONTROL_PEERPORT_H
#define HEARTH_AGENT_CONTROL_PEERPORT_H

#include "agent/base/agent_env.h"
#include "agent/control/lease.h"
#include "common/base/err.h"
#include "common/base/strutil.h"
#include "common/net/wire_msg.h"
#include <stdint.h>

struct peerport;
struct peer_question;
struct presence;

/* Listens on cfg.address:cfg.peer_port (0 any). */
struct peerport *peerport_create(struct agent_env *env, const struct agent_identity *identity, struct err *e);
void peerport_destroy(struct peerport *p);
uint32_t peerport_number(const struct peerport *p); /* the port as bound */
/* What others that ask hear from now on. */
void peerport_publish(struct peerport *p, const struct lease *l);
/* The agents that hearthd named, "name address:port" each: their connections come before those of strangers.
 */
void peerport_know(struct peerport *p, const struct strv *peers);
/* What the port says of the launches here from now on; takes p (peerdoor.h). Before the first call it says
 * nothing of them. */
void peerport_launches(struct peerport *port, struct presence *p);
/* Fingerprints of certificates that get no answer any more; replaces those of before. */
void peerport_retire(struct peerport *p, const struct strv *fingerprints);

/* Asks a peer, "name address:port". done is called once, after this returns; m is NULL without an answer. The
 * question is freed after it. Returns NULL for an invalid text. */
typedef void (*peer_reply_fn)(const struct wm_peer_answer *m, enum peer_sight reach, void *arg);
struct peer_question *peer_question_ask(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                        peer_reply_fn done, void *arg);
/* The same for the question which boot and which agent it is, and which of these launches are not there. What
 * m points to is copied. */
typedef void (*peer_seen_fn)(const struct wm_peer_seen *m, enum peer_sight sight, void *arg);
struct peer_question *peer_question_look(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                         const struct wm_peer_look *m, peer_seen_fn done, void *arg);
void peer_question_cancel(struct peer_question *q); /* done is not called; NULL allowed */

#endif
