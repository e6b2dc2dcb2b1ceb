/*
 * The top of the agent: wiring. Each part gets what it needs from here and knows no part of a later room.
 *
 * agent_core: one agent: opens its folders, programs and parts in order, and closes them in reverse.
 * agent_wiring: connects launches, neighbours and the session.
 */
#ifndef HEARTH_AGENT_AGENT_CORE_H
#define HEARTH_AGENT_AGENT_CORE_H

#include "agent/base/agent_env.h"
#include "agent/launch/launch_host.h"
#include "common/base/err.h"

struct announcer;
struct guard;
struct launches;
struct looks;
struct peerport;
struct retire;
struct rshd;
struct session;

struct agent {
	struct agent_env env;
	struct agent_identity identity;
	int data_lock, run_lock;
	struct launch_host host; /* its strings are the agent's */
	struct launches *launches;
	int adopted; /* what RUN has of launches is known */
	struct rshd *rshd;
	struct guard *guard;
	struct peerport *peerport;
	struct announcer *announcer;
	struct looks *looks;
	struct session *session;
	struct retire *retire; /* NULL: a member of the cluster, as far as is known */
};

/* Opens everything, adopts what runs; the loop is the caller's. NULL with e set. Takes cfg's strings. */
struct agent *agent_create(struct loop *loop, struct agent_config *cfg, struct err *e);
void agent_destroy(struct agent *a); /* launches go on */

/* Makes launches, rshd, peerport, guard and session, and adopts what runs. `host` and `identity` are filled.
 * An agent that is alone (agent/endall.h) gets launches and rshd only. */
int agent_wire(struct agent *a, struct err *e);
void agent_unwire(struct agent *a); /* also after agent_wire has failed */

#endif
