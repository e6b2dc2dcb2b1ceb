/*
 * lease: may the launches of this node go on without hearthd? Pure; times are boot_us (CLOCK_BOOTTIME).
 *
 * hearthd's BEAT_ACK renews the lease and carries its length L. After five eighths of L in silence, with
 * launches alive, the agent asks all agents that it knows, on their peer ports. "Known" counts the agent
 * itself, and "reached" counts it and those that answered.
 *
 * - A reached agent hears hearthd: CUT. This node is cut off and kills its launches; hearthd starts them
 *   elsewhere.
 * - None hears it, reached > known / 2: CARRY_ON. hearthd is down and nobody can start them again; ask
 *   again.
 * - None hears it, reached <= known / 2: MINORITY. The others may have hearthd: kill.
 * - No other agent is known: CARRY_ON. The launches could start nowhere else.
 *
 * A verdict to kill waits for a second one: the agent dials eagerly and asks again at 7/8 L, so that all is
 * over at L. Otherwise a restarted hearthd that a neighbour finds first would look like a cut. After
 * CARRY_ON the agent asks again L/2 after that round began, and confirms a verdict to kill L/4 later. That is
 * in time, because a hearthd that came back declares no node lost in its first lease. An agent that could not
 * ask in time (it stood still, or was restarted) asks at once and again a moment later. CARRY_ON counts only
 * when the round took no longer than a question and LEASE_ROUND_MS: an agent that stood still over its
 * answers would carry on by the past.
 *
 * "Hears hearthd" means an acknowledgement younger than L/2. When hearthd dies, the leases of all agents
 * run out within one beat, and a neighbour with some milliseconds left must not prove that hearthd lives.
 * Beats are at most L/3.
 */
#ifndef HEARTH_AGENT_CONTROL_LEASE_H
#define HEARTH_AGENT_CONTROL_LEASE_H

#include <stdint.h>

/* LATE: no agent hears hearthd, by answers that are too old; ask again. */
enum lease_verdict { LEASE_CARRY_ON, LEASE_CUT, LEASE_MINORITY, LEASE_LATE };
enum lease_phase {
	LEASE_HELD,        /* the controller was heard not long ago */
	LEASE_ASKING,      /* questions are on their way */
	LEASE_UNCONFIRMED, /* verdict to kill; a second round confirms it */
	LEASE_ORPHAN,      /* verdict CARRY_ON; asks again */
	LEASE_LOST,        /* verdict to kill, confirmed; until the controller is heard again */
};

struct lease {
	enum lease_phase phase;
	uint64_t last_ack_us;
	uint64_t ask_at_us; /* of LEASE_UNCONFIRMED and LEASE_ORPHAN */
	uint64_t asked_us;  /* when the last round began: its answers are of that time or later */
	int confirming;     /* the round is the second one */
	int orphan;         /* the first round was that of an orphan */
	uint32_t lease_ms;
	int heard; /* by an acknowledgement, ever: a lease granted at the start proves no controller */
};

void lease_init(struct lease *l, uint64_t last_ack_us, uint32_t lease_ms, int heard);
void lease_ack(struct lease *l, uint64_t now_us, uint32_t lease_ms); /* 0: length unchanged */
/* Returns 1 when it is time to ask; the phase is LEASE_ASKING then, until lease_decide. */
int lease_tick(struct lease *l, uint64_t now_us);
uint64_t lease_next_us(const struct lease *l); /* when to tick; UINT64_MAX: only an ack changes anything */
uint32_t lease_ask_timeout_ms(const struct lease *l);

/* Does this answer of a peer prove a living controller? */
int lease_peer_hears(uint32_t lease_ms, int has_controller, uint64_t ack_age_ms);
enum lease_verdict lease_verdict(uint32_t peers_known, uint32_t peers_reached, uint32_t peers_hearing);
/* Ends a round in LEASE_ASKING, and does nothing in other phases (an ack came meanwhile). The phase is then
 * LEASE_ORPHAN, LEASE_UNCONFIRMED or LEASE_LOST; after LEASE_LATE the one of before the round, and it is time
 * to tick. The launches must be killed in LEASE_LOST only.
 */
enum lease_verdict lease_decide(struct lease *l, uint64_t now_us, uint32_t peers_known,
                                uint32_t peers_reached, uint32_t peers_hearing);
/* Returns what a peer that asks needs to know. */
int lease_has_controller(const struct lease *l, uint64_t now_us, uint64_t *ack_age_ms);
const char *lease_verdict_text(enum lease_verdict v);

#endif
