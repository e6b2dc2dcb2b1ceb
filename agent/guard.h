/*
 * guard: the lease at work: asks the other agents when it has run out, and fences this node's launches when
 * it must (lease.h has the table).
 *
 * RUN/lease and RUN/peers hold the last acknowledgement and the known agents, so that an agent that starts
 * again, cut off from the controller, still knows how old its lease is and whom to ask.
 */
#ifndef HEARTH_AGENT_GUARD_H
#define HEARTH_AGENT_GUARD_H

#include "common/wire_msg.h"
#include <stdint.h>

struct agent;
struct guard;

struct guard *guard_create(struct agent *a);
void guard_destroy(struct guard *g);
void guard_ack(struct guard *g, uint32_t lease_ms);
void guard_peers(struct guard *g, const struct wire_strv *peers); /* "name address:port" */
void guard_answer(struct guard *g,
                  struct wm_peer_answer *m); /* what to tell a peer that asks; node is left alone */

#endif
