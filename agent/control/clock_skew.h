/*
 * clock_skew: how far this node's wall clock is ahead of hearthd's, from beats and their answers. No I/O.
 *
 * A beat leaves at t0, and its answer comes at t1 with hearthd's time in between. Half of t1 - t0 bounds
 * the error, however the two ways share it (the estimate of NTP, RFC 5905 section 8). The measurement with
 * the least error counts for a while, because clocks drift apart. A measurement that contradicts it
 * replaces it: somebody has set a clock.
 */
#ifndef HEARTH_AGENT_CONTROL_CLOCK_SKEW_H
#define HEARTH_AGENT_CONTROL_CLOCK_SKEW_H

#include <stdint.h>

struct clock_skew {
	int64_t ahead_us;  /* > 0: this node's clock is ahead */
	uint64_t error_us; /* of that, at most; 0: not measured */
	uint64_t at_us;    /* boot clock */
};

/* Takes a measurement: a beat left at sent_us (boot; sent_real_us by the wall clock), and its answer with
 * hearthd's wall clock there_real_us came at now_us (boot). */
void clock_skew_measure(struct clock_skew *s, uint64_t sent_us, uint64_t sent_real_us, uint64_t there_real_us,
                        uint64_t now_us);

#endif
