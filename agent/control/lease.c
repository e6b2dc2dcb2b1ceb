/*
 * lease: see the table in lease.h.
 */
#include "agent/control/lease.h"

#include "common/base/lease_times.h"

#define LEASE_DEFAULT_MS 10000u

void lease_init(struct lease *l, uint64_t last_ack_us, uint32_t lease_ms, int heard)
{
	*l = (struct lease){.phase = LEASE_HELD,
	                    .last_ack_us = last_ack_us,
	                    .lease_ms = lease_ms ? lease_ms : LEASE_DEFAULT_MS,
	                    .heard = heard};
}

void lease_ack(struct lease *l, uint64_t now_us, uint32_t lease_ms)
{
	l->phase = LEASE_HELD;
	l->heard = 1;
	l->last_ack_us = now_us;
	if (lease_ms)
		l->lease_ms = lease_ms;
}

uint64_t lease_next_us(const struct lease *l)
{
	switch (l->phase) {
	case LEASE_HELD:
		return l->last_ack_us + (uint64_t)l->lease_ms * 625;
	case LEASE_UNCONFIRMED:
	case LEASE_ORPHAN:
		return l->ask_at_us;
	case LEASE_ASKING:
	case LEASE_LOST:
		break;
	}
	return UINT64_MAX;
}

int lease_tick(struct lease *l, uint64_t now_us)
{
	if (now_us < lease_next_us(l))
		return 0;
	if (l->phase != LEASE_UNCONFIRMED)
		l->orphan = l->phase == LEASE_ORPHAN;
	l->confirming = l->phase == LEASE_UNCONFIRMED;
	l->phase = LEASE_ASKING;
	l->asked_us = now_us;
	return 1;
}

uint32_t lease_ask_timeout_ms(const struct lease *l)
{
	return lease_ask_ms(l->lease_ms);
}

int lease_peer_hears(uint32_t lease_ms, int has_controller, uint64_t ack_age_ms)
{
	return has_controller && ack_age_ms < lease_ms / 2;
}

enum lease_verdict lease_verdict(uint32_t peers_known, uint32_t peers_reached, uint32_t peers_hearing)
{
	uint64_t known = (uint64_t)peers_known + 1, reached = (uint64_t)peers_reached + 1;

	if (peers_known == 0)
		return LEASE_CARRY_ON;
	if (peers_hearing > 0)
		return LEASE_CUT;
	return reached * 2 > known ? LEASE_CARRY_ON : LEASE_MINORITY;
}

/* When a verdict to kill is asked about again. Asked in time: at 7/8 of the lease. An orphan has a quarter of
 * a lease, as no controller that came back meanwhile gives anybody up so soon; so has an agent that was away
 * for so long that it was given up long ago, or the controller was away, too. One that could not ask in time
 * but may not be given up yet has none to lose: enough to hear an answer to its own beat. */
static uint64_t second_round_us(const struct lease *l, uint64_t now_us)
{
	uint64_t due = l->last_ack_us + (uint64_t)l->lease_ms * 875;
	uint64_t given_up = l->last_ack_us + ((uint64_t)l->lease_ms + lease_margin_ms(l->lease_ms)) * 1000;

	if (due > now_us)
		return due;
	if (l->orphan || now_us >= given_up)
		return now_us + (uint64_t)l->lease_ms * 250;
	return now_us + (uint64_t)lease_ask_timeout_ms(l) * 250;
}

static void ask_again(struct lease *l, uint64_t now_us)
{
	if (l->confirming)
		l->phase = LEASE_UNCONFIRMED;
	else
		l->phase = l->orphan ? LEASE_ORPHAN : LEASE_HELD;
	l->ask_at_us = now_us;
}

enum lease_verdict lease_decide(struct lease *l, uint64_t now_us, uint32_t peers_known,
                                uint32_t peers_reached, uint32_t peers_hearing)
{
	enum lease_verdict v;

	if (l->phase != LEASE_ASKING)
		return LEASE_CARRY_ON;
	v = lease_verdict(peers_known, peers_reached, peers_hearing);
	if (v == LEASE_CARRY_ON && peers_known &&
	    now_us > l->asked_us + (lease_ask_timeout_ms(l) + LEASE_ROUND_MS) * 1000ull) {
		ask_again(l, now_us);
		return LEASE_LATE;
	}
	if (v == LEASE_CARRY_ON) {
		l->phase = LEASE_ORPHAN;
		l->ask_at_us = l->asked_us + (uint64_t)l->lease_ms * 500;
	} else if (l->confirming) {
		l->phase = LEASE_LOST;
	} else {
		l->phase = LEASE_UNCONFIRMED;
		l->ask_at_us = second_round_us(l, now_us);
	}
	return v;
}

int lease_has_controller(const struct lease *l, uint64_t now_us, uint64_t *ack_age_ms)
{
	uint64_t age_us = now_us > l->last_ack_us ? now_us - l->last_ack_us : 0;

	*ack_age_ms = age_us / 1000;
	return l->heard && l->phase == LEASE_HELD && age_us < (uint64_t)l->lease_ms * 1000;
}

const char *lease_verdict_text(enum lease_verdict v)
{
	switch (v) {
	case LEASE_CARRY_ON:
		return "no agent that can be reached hears the controller: it is down, carry on";
	case LEASE_CUT:
		return "another agent still hears the controller: this node is cut off";
	case LEASE_MINORITY:
		return "neither the controller nor a majority of the agents can be reached";
	case LEASE_LATE:
		return "the answers of the other agents came too late to count: ask again";
	}
	return "?";
}
