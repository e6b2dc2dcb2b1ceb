/*
 * clock: the only file that asks the kernel for the time.
 */
#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/fault.h"

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

static uint64_t shifted_us(uint64_t us, const uint64_t *shift)
{
	return us + __atomic_load_n(shift, __ATOMIC_RELAXED);
}

static void shift_by(uint64_t *by, uint64_t us)
{
	__atomic_add_fetch(by, us, __ATOMIC_RELAXED);
}
#else
#define shifted_us(us, by) (us)
#define shift_by(by, us)   ((void)0)
#endif

static uint64_t system_real(const struct clock *c)
{
	(void)c;
	if (FAULT("clock.forward"))
		shift_by(&real_shift_us, JUMP_US);
	if (FAULT("clock.back"))
		shift_by(&real_shift_us, -(uint64_t)JUMP_US);
	return shifted_us(read_us(CLOCK_REALTIME), &real_shift_us);
}

static uint64_t system_boot(const struct clock *c)
{
	(void)c;
	if (FAULT("clock.suspend"))
		shift_by(&boot_shift_us, SUSPEND_US);
	return shifted_us(read_us(CLOCK_BOOTTIME), &boot_shift_us);
}

uint64_t clock_slept_us(void)
{
	uint64_t awake = read_us(CLOCK_MONOTONIC), all = system_boot(NULL);

	return all > awake ? all - awake : 0;
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

uint64_t clock_thread_cpu_us(void)
{
	return read_us(CLOCK_THREAD_CPUTIME_ID);
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

const char *clock_words(uint64_t real_us, char out[CLOCK_RFC3339_SIZE])
{
	clock_rfc3339(real_us, out);
	out[10] = ' ';
	memcpy(out + 19, " UTC", 5);
	return out;
}

/* Exactly n digits. -1: they are not there. */
static int read_digits(const char **p, unsigned n)
{
	int v = 0;

	for (; n; n--, (*p)++) {
		if (**p < '0' || **p > '9')
			return -1;
		v = v * 10 + (**p - '0');
	}
	return v;
}

static int read_literal(const char **p, const char *any)
{
	if (!**p || !strchr(any, **p))
		return -1;
	(*p)++;
	return 0;
}

/* "Z" or "+02:00": minutes ahead of UTC. */
static int read_offset(const char **p, int *minutes)
{
	int sign = **p == '-' ? -1 : 1, h, m;

	*minutes = 0;
	if (read_literal(p, "Zz") == 0)
		return 0;
	if (read_literal(p, "+-") < 0 || (h = read_digits(p, 2)) < 0 || read_literal(p, ":") < 0 ||
	    (m = read_digits(p, 2)) < 0 || h > 23 || m > 59)
		return -1;
	*minutes = sign * (h * 60 + m);
	return 0;
}

int clock_parse_rfc3339(const char *text, uint64_t *real_us)
{
	const char *p = text;
	struct tm tm = {0}, back;
	uint64_t us = 0;
	int ahead;
	time_t t, same;

	if ((tm.tm_year = read_digits(&p, 4)) < 1970 || read_literal(&p, "-") < 0 ||
	    (tm.tm_mon = read_digits(&p, 2)) < 1 || read_literal(&p, "-") < 0 ||
	    (tm.tm_mday = read_digits(&p, 2)) < 1 || read_literal(&p, "Tt ") < 0 ||
	    (tm.tm_hour = read_digits(&p, 2)) < 0 || read_literal(&p, ":") < 0 ||
	    (tm.tm_min = read_digits(&p, 2)) < 0 || read_literal(&p, ":") < 0 ||
	    (tm.tm_sec = read_digits(&p, 2)) < 0)
		return -1;
	if (*p == '.') {
		unsigned unit = 100000;

		if (*++p < '0' || *p > '9')
			return -1;
		for (; *p >= '0' && *p <= '9'; p++, unit /= 10)
			us += (uint64_t)(*p - '0') * unit;
	}
	if (read_offset(&p, &ahead) < 0 || *p)
		return -1;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	back = tm;
	t = timegm(&tm); /* brings the 30th of February into March: then it was no date */
	if (tm.tm_mon != back.tm_mon || tm.tm_mday != back.tm_mday || tm.tm_hour != back.tm_hour ||
	    tm.tm_min != back.tm_min || tm.tm_sec != back.tm_sec)
		return -1;
	same = t - (time_t)ahead * 60;
	if (same < 0)
		return -1;
	*real_us = (uint64_t)same * 1000000 + us;
	return 0;
}
