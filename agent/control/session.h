/*
 * The room control: this node in its cluster: the session with hearthd, the lease, the questions among
 * agents, the fence, the socket for hearth-rsh, joining and leaving.
 *
 * session: the control connection to hearthd. It dials for ever with back-off, reports the state at each
 * connection, and sends beats.
 *
 * After WELCOME it sends INVENTORY, SYNC_BEGIN, the reports of launches_report_all, the rest of the outbox,
 * and SYNC_END; then a BEAT each beat_ms. It closes a connection after half a lease (or three beats) of
 * silence, because a cut cable gives no other sign.
 */
#ifndef HEARTH_AGENT_CONTROL_SESSION_H
#define HEARTH_AGENT_CONTROL_SESSION_H

#include "agent/base/agent_env.h"
#include <stdint.h>

struct data_link;
struct guard;
struct inventory;
struct launches;
struct looks;
struct outbox;
struct rshd;
struct session;

struct session_parts { /* parts that get orders from the session and give it reports */
	struct agent_env *env;
	const struct agent_identity *identity;
	uint32_t peer_port; /* for INVENTORY */
	struct inventory *inv;
	struct data_link *link;
	struct outbox *outbox;
	struct launches *launches;
	struct rshd *rshd;
	struct guard *guard;
	struct looks *looks;
};
struct session_ops {
	/* hearthd has removed this node (ERR_GONE). The session dials no more. */
	void (*removed)(const char *why, void *arg);
};
struct session *session_create(const struct session_parts *parts, const struct session_ops *ops, void *arg);
void session_destroy(struct session *s);
/* Sends, or returns -1 without a connection; nothing is stored. id 0: nobody acknowledges the message. */
int session_send(struct session *s, uint16_t type, const void *msg, uint64_t id);
void session_dial_now(struct session *s); /* without a connection: dials at once */
/* Ends the connection, if any: hearthd sends its orders again on the next one. */
void session_renew(struct session *s);

#endif
