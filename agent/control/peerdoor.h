/*
 * peerdoor: the answering side of the peer port: TLS with both certificates; PEER_ASK, PEER_ANSWER;
 * PEER_LOOK, PEER_SEEN.
 *
 * It has a thread of its own. Strangers who flood the port cost the agent's loop nothing, and a slow turn of
 * that loop delays no answer. The thread knows only what the functions below give it. A
 * connection has a second for its handshake and a second for its question; places.h says which connection
 * leaves when many come.
 */
#ifndef HEARTH_AGENT_CONTROL_PEERDOOR_H
#define HEARTH_AGENT_CONTROL_PEERDOOR_H

#include "agent/base/agent_env.h"
#include "agent/control/lease.h"
#include "agent/launch/launches.h"
#include "common/base/err.h"
#include "common/base/strutil.h"
#include <stdint.h>

struct peerdoor;

/* Which launches are on this node, and whether nothing else of earlier launches is. */
struct presence {
	int sure; /* nothing runs here of a launch that is not in the list */
	size_t n;
	struct launch_id v[];
};

/* Listens on cfg.address:cfg.peer_port (0 any) and starts the thread. */
struct peerdoor *peerdoor_open(const struct agent_env *env, const struct agent_identity *identity,
                               struct err *e);
void peerdoor_close(struct peerdoor *d);            /* NULL allowed */
uint32_t peerdoor_number(const struct peerdoor *d); /* the port as bound */
/* What the thread answers from now on. */
void peerdoor_publish(struct peerdoor *d, const struct lease *l);
/* The agents that hearthd named, "name address:port" each. */
void peerdoor_know(struct peerdoor *d, const struct strv *peers);
/* What the thread says of launches from now on; takes p. */
void peerdoor_launches(struct peerdoor *d, struct presence *p);
/* Fingerprints of certificates of removed nodes. */
void peerdoor_retire(struct peerdoor *d, const struct strv *fingerprints);

#endif
