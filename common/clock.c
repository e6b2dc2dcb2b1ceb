/*
 * clock: the only file that asks the kernel for the time.
 */
#include "common/clock.h"
#include "common/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t read_us(clockid_t id)
{
	struct timespec ts;

	/* Only a wrong clock id can fail here, and both exist on every kernel that we build for. */
	if (clock_gettime(id, &ts) != 0)
		abort();
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

/* Failpoints: the wall clock jumps by an hour, either way; the machine was suspended for a minute. */
#define JUMP_US    3600000000u
#define SUSPEND_US 60000000u

#ifdef HEARTH_FAULTS
static uint64_t real_shift_us, boot_shift_us;

static uint64_t shifted(uint64_t us, const uint64_t *shift)
{
	return us + __atomic_load_n(shift, __ATOMIC_RELAXED);
}

static void shift(uint64_t *by, uint64_t us)
{
	__atomic_add_fetch(by, us, __ATOMIC_RELAXED);
}
#else
#define shifted(us, by) (us)
#define shift(by, us)   ((void)0)
#endif

static uint64_t system_real(const struct clock *c)
{
	(void)c;
	if (FAULT("clock.forward"))
		shift(&real_shift_us, JUMP_US);
	if (FAULT("clock.back"))
		shift(&real_shift_us, -(uint64_t)JUMP_US);
	return shifted(read_us(CLOCK_REALTIME), &real_shift_us);
}

static uint64_t system_boot(const struct clock *c)
{
	(void)c;
	if (FAULT("clock.suspend"))
		shift(&boot_shift_us, SUSPEND_US);
	return shifted(read_us(CLOCK_BOOTTIME), &boot_shift_us);
}

const struct clock *clock_real(void)
{
	static const struct clock system_clock = {.real_us = system_real, .boot_us = system_boot};

	return &system_clock;
}

static uint64_t fake_real(const struct clock *c)
{
	return c->fake_real_us;
}

static uint64_t fake_boot(const struct clock *c)
{
	return c->fake_boot_us;
}

void clock_fake_init(struct clock *c, uint64_t real_us, uint64_t boot_us)
{
	*c = (struct clock){
	    .real_us = fake_real, .boot_us = fake_boot, .fake_real_us = real_us, .fake_boot_us = boot_us};
}

void clock_fake_advance(struct clock *c, uint64_t us)
{
	c->fake_real_us += us;
	c->fake_boot_us += us;
}

void clock_cond_deadline(struct timespec *out, uint64_t us)
{
	uint64_t at = read_us(CLOCK_MONOTONIC) + us;

	*out = (struct timespec){.tv_sec = (time_t)(at / 1000000u), .tv_nsec = (long)(at % 1000000u) * 1000};
}

/* Years past 9999 have no RFC 3339 form; they come from damaged records only and are shown as its end. */
#define LAST_SECOND 253402300799ull

const char *clock_rfc3339(uint64_t real_us, char out[CLOCK_RFC3339_SIZE])
{
	uint64_t seconds = real_us / 1000000u;
	uint64_t us = real_us % 1000000u;
	struct tm tm;
	time_t t;
	size_t n;

	if (seconds > LAST_SECOND) {
		seconds = LAST_SECOND;
		us = 999999;
	}
	t = (time_t)seconds;
	gmtime_r(&t, &tm);
	n = strftime(out, CLOCK_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, CLOCK_RFC3339_SIZE - n, ".%06uZ", (unsigned)us);
	return out;
}
