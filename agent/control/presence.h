/*
 * presence: what other agents may learn of the launches here (PEER_SEEN).
 *
 * hearthd takes the word of this agent that a launch is not here as a proof that nothing of it runs. An agent
 * that has lost its folder RUN knows no launch, but shims of an earlier agent may live. So it looks through
 * /proc when it starts: as long as it has not found that no process has the mark of an unknown launch, it
 * says nothing of launches.
 */
#ifndef HEARTH_AGENT_CONTROL_PRESENCE_H
#define HEARTH_AGENT_CONTROL_PRESENCE_H

#include "agent/base/agent_env.h"

struct announcer;
struct launches;
struct peerport;

/* After launches_adopt: begins the look. */
struct announcer *announcer_create(struct agent_env *env, struct launches *launches,
                                   struct peerport *peerport);
void announcer_destroy(struct announcer *a); /* NULL allowed */
/* A launch came or was forgotten. NULL allowed. */
void announcer_changed(struct announcer *a);

#endif
