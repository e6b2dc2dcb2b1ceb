/* clock: the fake moves only by hand, the real one forward; time stamps. */
#include "common/base/clock.h"
#include "common/base/fault.h"
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

#ifdef HEARTH_FAULTS
static void test_jumps(void)
{
	const struct clock *c = clock_real();
	uint64_t real = clock_real_us(c), boot = clock_boot_us(c);

	fault_arm("clock.forward", 2, 1);
	ok(clock_real_us(c) < real + 60000000, "the first reading is true");
	ok(clock_real_us(c) > real + 3599000000, "at the second it is an hour later");
	ok(clock_real_us(c) > real + 3599000000, "and stays so");
	ok(clock_boot_us(c) < boot + 60000000, "the boot clock knows nothing of it");
	fault_arm("clock.back", 1, 2);
	ok(clock_real_us(c) < real + 60000000 && clock_real_us(c) < real - 3500000000, "twice back");
	fault_arm("clock.suspend", 1, 1);
	ok(clock_boot_us(c) >= boot + 60000000, "a suspend of a minute");
	fault_clear();
}
#else
static void test_jumps(void)
{
	tap_skip("failpoints are not compiled in (--enable-faults)");
}
#endif

static void test_rfc3339(void)
{
	char s[CLOCK_RFC3339_SIZE];

	is_str(clock_rfc3339(0, s), "1970-01-01T00:00:00.000000Z", "zero");
	is_str(clock_rfc3339(1767323045678901ull, s), "2026-01-02T03:04:05.678901Z", "microseconds");
	is_str(clock_rfc3339(951782400000000ull, s), "2000-02-29T00:00:00.000000Z", "leap day");
	is_str(clock_rfc3339(253402300799999999ull, s), "9999-12-31T23:59:59.999999Z", "the last one");
	is_str(clock_rfc3339(UINT64_MAX, s), "9999-12-31T23:59:59.999999Z", "beyond it");
}

static void test_parse(void)
{
	static const char *const bad[] = {"",
	                                  "2026",
	                                  "2026-01-02",
	                                  "2026-01-02T03:04:05",
	                                  "2026-01-02T03:04:05X",
	                                  "2026-01-02T03:04:05Zx",
	                                  "2026-02-30T03:04:05Z",
	                                  "2026-13-02T03:04:05Z",
	                                  "2026-01-02T24:04:05Z",
	                                  "2026-01-02T03:60:05Z",
	                                  "2026-01-02T03:04:05.Z",
	                                  "2026-01-02T03:04:05+2:00",
	                                  "2026-01-02T03:04:05+24:00",
	                                  "1969-12-31T23:59:59Z",
	                                  "1970-01-01T00:30:00+01:00"};
	char s[CLOCK_RFC3339_SIZE];
	uint64_t us = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ok(clock_parse_rfc3339(bad[i], &us) < 0 && us == 7, "no time: %s", bad[i]);
	is_int(clock_parse_rfc3339("2026-01-02T03:04:05.678901Z", &us), 0, "with microseconds");
	ok(us == 1767323045678901ull, "as it was written");
	is_int(clock_parse_rfc3339("2026-01-02 05:04:05.6789019+02:00", &us), 0,
	       "two hours ahead of UTC, finer than a microsecond");
	ok(us == 1767323045678901ull, "is the same");
	is_int(clock_parse_rfc3339("2026-01-01t22:34:05-04:30", &us), 0, "behind UTC");
	ok(us == 1767323045000000ull, "is the same second");
	is_int(clock_parse_rfc3339("2000-02-29T00:00:00z", &us), 0, "leap day");
	is_str(clock_words(us, s), "2000-02-29 00:00:00 UTC", "in words");
}

int main(void)
{
	test_fake();
	test_real();
	test_jumps();
	test_rfc3339();
	test_parse();
	return tap_done();
}
