/*
 * guard: the lease at work. It asks the other agents when the lease has run out, and fences the launches of
 * this node when lease.h says so.
 *
 * RUN/lease, RUN/peers and RUN/retired hold the last acknowledgement, the known agents and the certificates
 * of removed ones. An agent that starts while it
 * is cut off still knows the age of its lease and whom to ask.
 */
#ifndef HEARTH_AGENT_CONTROL_GUARD_H
#define HEARTH_AGENT_CONTROL_GUARD_H

#include "agent/base/agent_env.h"
#include "common/net/wire_msg.h"
#include <stdint.h>

struct guard;
struct launches;
struct peerport;

struct guard_parts {
	struct agent_env *env;
	const char *boot_id;
	struct launches *launches;
	struct peerport *peerport; /* gets each change of lease and peers; NULL none */
};
struct guard_ops {
	void (*dial_now)(void *arg); /* the controller is missed: the session dials without waiting */
	void (*fenced)(void *arg);   /* the launches were killed: the session needs all orders again */
};
struct guard *guard_create(const struct guard_parts *parts, const struct guard_ops *ops, void *arg);
void guard_destroy(struct guard *g);
/* Renews the lease: hearthd has answered the beat of sent_us (boot). The lease counts from there, because
 * hearthd counts from when it got the beat. */
void guard_ack(struct guard *g, uint64_t sent_us, uint32_t lease_ms);
void guard_peers(struct guard *g, const struct wire_strv *peers, uint64_t gen); /* "name address:port" */
/* Certificates of removed nodes, which the peer port refuses; also after a restart (RUN/retired). */
void guard_retired(struct guard *g, const struct wire_strv *fingerprints);
uint64_t guard_peers_gen(const struct guard *g); /* of the list in use; 0 none, or from an earlier run */

#endif
