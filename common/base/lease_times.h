/*
 * lease_times: the times that follow from the length of a lease. hearthd, agents and shims must agree on
 * them: docs/spec/08-lease.md has the proof.
 */
#ifndef HEARTH_COMMON_BASE_LEASE_TIMES_H
#define HEARTH_COMMON_BASE_LEASE_TIMES_H

#include <stdint.h>

#define LEASE_MARGIN_MIN_MS 750u
#define LEASE_MARGIN_MAX_MS 2000u
#define LEASE_ASK_MIN_MS    150u
#define LEASE_ASK_MAX_MS    1000u
#define LEASE_ROUND_MS      100u /* that a round of questions may take over one question */
#define LEASE_SWITCH_MS     250u /* that shims wait after the lease: the agent's last question ends before */

/* hearthd declares a silent node lost that long after its lease. What runs there has been stopped by then. */
static inline uint32_t lease_margin_ms(uint32_t lease_ms)
{
	uint32_t ms = lease_ms / 4;

	if (ms < LEASE_MARGIN_MIN_MS)
		return LEASE_MARGIN_MIN_MS;
	return ms > LEASE_MARGIN_MAX_MS ? LEASE_MARGIN_MAX_MS : ms;
}

/* The time for one question to a peer. */
static inline uint32_t lease_ask_ms(uint32_t lease_ms)
{
	uint32_t ms = lease_ms / 8;

	if (ms < LEASE_ASK_MIN_MS)
		return LEASE_ASK_MIN_MS;
	return ms > LEASE_ASK_MAX_MS ? LEASE_ASK_MAX_MS : ms;
}

/* Without a beat for so long a node is out of hearthd's sight. Its agent answers peers "I hear hearthd" for
 * half a lease after a beat; the difference is for beats and answers on their way. */
static inline uint64_t lease_sight_us(uint32_t lease_ms)
{
	return lease_ms * 1000ull * 7 / 16;
}

/* A node that is heard again counts as out of sight for so long: all answers of a round that began before
 * are over then. */
static inline uint64_t lease_back_us(uint32_t lease_ms)
{
	return (lease_ask_ms(lease_ms) + LEASE_ROUND_MS + lease_ms / 16) * 1000ull;
}

/* Beats come at most so rarely: three may be missed before a node is out of sight. A link that is cut for two
 * thirds of a lease leaves a quarter of it to connect again. */
static inline uint32_t lease_beat_ms(uint32_t lease_ms, uint32_t wanted_ms)
{
	uint32_t most = lease_ms / 10;

	return wanted_ms > most ? most : wanted_ms;
}

#endif
