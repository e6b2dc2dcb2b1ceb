/* clock: the fake moves only by hand, the real one forward; time stamps. */
#include "common/clock.h"

#include "tests/lib/tap.h"

static void test_fake(void)
{
	struct clock c;

	clock_fake_init(&c, 1000, 50);
	is_int(clock_real_us(&c), 1000, "real");
	is_int(clock_boot_us(&c), 50, "boot");
	clock_fake_advance(&c, 7);
	is_int(clock_real_us(&c), 1007, "real moved");
	is_int(clock_boot_us(&c), 57, "boot moved");
	c.fake_real_us -= 500;
	is_int(clock_boot_us(&c), 57, "the wall clock may jump alone");
}

static void test_real(void)
{
	const struct clock *c = clock_real();
	uint64_t a = clock_boot_us(c), b;
	int good = 1;

	for (int i = 0; i < 10000; i++) {
		b = clock_boot_us(c);
		good &= b >= a;
		a = b;
	}
	ok(good, "boot time never goes back");
	ok(clock_real_us(c) > 1700000000000000ull, "real time is after 2023");
}

static void test_rfc3339(void)
{
	char s[CLOCK_RFC3339_SIZE];

	is_str(clock_rfc3339(0, s), "1970-01-01T00:00:00.000000Z", "zero");
	is_str(clock_rfc3339(1767323045678901ull, s), "2026-01-02T03:04:05.678901Z", "microseconds");
	is_str(clock_rfc3339(951782400000000ull, s), "2000-02-29T00:00:00.000000Z", "leap day");
	is_str(clock_rfc3339(253402300799999999ull, s), "9999-12-31T23:59:59.999999Z", "the last one");
	is_str(clock_rfc3339(UINT64_MAX, s), "9999-12-31T23:59:59.999999Z", "beyond it");
}

int main(void)
{
	test_fake();
	test_real();
	test_rfc3339();
	return tap_done();
}
