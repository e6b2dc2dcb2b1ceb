/*
 * clock: all time comes from here, so that tests move it by hand.
 *
 * real_us: wall clock, microseconds since 1970 UTC; may jump; only for time stamps shown to people.
 * boot_us: CLOCK_BOOTTIME, never jumps, counts suspend; for every lease, deadline and duration.
 */
#ifndef HEARTH_COMMON_BASE_CLOCK_H
#define HEARTH_COMMON_BASE_CLOCK_H

#include <stdint.h>

struct clock {
	uint64_t (*real_us)(const struct clock *c);
	uint64_t (*boot_us)(const struct clock *c);
	uint64_t fake_real_us, fake_boot_us; /* used by clock_fake only */
};

const struct clock *clock_real(void);
void clock_fake_init(struct clock *c, uint64_t real_us, uint64_t boot_us);
void clock_fake_advance(struct clock *c, uint64_t us);

static inline uint64_t clock_real_us(const struct clock *c)
{
	return c->real_us(c);
}
static inline uint64_t clock_boot_us(const struct clock *c)
{
	return c->boot_us(c);
}

/* How long this machine has slept (suspend) since it booted. */
uint64_t clock_slept_us(void);

struct timespec;
/* The real monotonic clock `us` from now, for pthread_cond_timedwait on a condition with CLOCK_MONOTONIC (it
 * knows no boot clock; a suspend makes such a wait longer). */
void clock_cond_deadline(struct timespec *out, uint64_t us);

/* CPU time that this thread has used. */
uint64_t clock_thread_cpu_us(void);

/* RFC 3339 with microseconds, UTC: "2026-01-02T03:04:05.678901Z" (27 characters + NUL). */
#define CLOCK_RFC3339_SIZE 32
const char *clock_rfc3339(uint64_t real_us, char out[CLOCK_RFC3339_SIZE]);
/* The other way: with Z or an offset ("+02:00"), a fraction or none; years 1970 to 9999. -1: it is not a
 * time. */
int clock_parse_rfc3339(const char *text, uint64_t *real_us);
/* For sentences: "2026-01-02 03:04:05 UTC". */
const char *clock_words(uint64_t real_us, char out[CLOCK_RFC3339_SIZE]);

#endif
