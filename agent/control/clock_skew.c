/*
 * clock_skew: see clock_skew.h.
 */
#include "agent/control/clock_skew.h"

#define HELD_US 30000000u /* a good clock drifts by a few ms meanwhile */

static uint64_t distance_between(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

void clock_skew_measure(struct clock_skew *s, uint64_t sent_us, uint64_t sent_real_us, uint64_t there_real_us,
                        uint64_t now_us)
{
	uint64_t trip = now_us - sent_us;
	struct clock_skew n = {(int64_t)(sent_real_us + trip / 2 - there_real_us), trip / 2 + 1, now_us};

	if (!there_real_us || now_us < sent_us)
		return;
	if (s->error_us && n.error_us > 2 * s->error_us && now_us - s->at_us < HELD_US &&
	    distance_between(n.ahead_us, s->ahead_us) <= n.error_us + s->error_us)
		return;
	*s = n;
}
