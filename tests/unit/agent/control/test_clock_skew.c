/* How far a node's clock is off, from beats and their answers. */
#include "agent/control/clock_skew.h"
#include "tests/lib/tap.h"

#define REAL 1790000000000000ull

/* A beat at boot time t; the way there takes `there`, the way back `back`; the node's clock is `ahead`. */
static void beat(struct clock_skew *s, uint64_t t, uint64_t there, uint64_t back, int64_t ahead)
{
	clock_skew_measure(s, t, (uint64_t)((int64_t)(REAL + t) + ahead), REAL + t + there, t + there + back);
}

static int is_about(const struct clock_skew *s, int64_t ahead)
{
	int64_t d = s->ahead_us - ahead;

	return s->error_us && (uint64_t)(d < 0 ? -d : d) <= s->error_us;
}

int main(void)
{
	struct clock_skew s = {0};

	clock_skew_measure(&s, 1000, REAL, 0, 2000);
	is_int(s.error_us, 0, "an answer without a time measures nothing");
	beat(&s, 1000000, 400, 400, 2500000);
	ok(is_about(&s, 2500000) && s.error_us <= 401, "a clock that is ahead, within half a round trip");
	beat(&s, 2000000, 900000, 100, 2500000);
	ok(is_about(&s, 2500000) && s.error_us <= 401, "a slow beat tells less: the better one is held");
	beat(&s, 3000000, 300, 500, 2500000);
	ok(is_about(&s, 2500000) && s.at_us == 3000800, "one as good is newer");
	beat(&s, 4000000, 900000, 100, -7000000);
	ok(is_about(&s, -7000000), "a clock that was set is seen at once, even by a slow beat");
	beat(&s, 5000000, 200, 200, -7000000);
	ok(is_about(&s, -7000000) && s.error_us <= 201, "and then better");
	beat(&s, 36000000, 5000, 5000, -7000100);
	ok(is_about(&s, -7000100) && s.error_us == 5001, "what is old gives way to what is worse");
	beat(&s, 37000000, 0, 0, 0);
	ok(is_about(&s, 0) && s.error_us > 0, "no way at all: measured all the same");
	return tap_done();
}
