/*
 * bench lib: what the benchmark programs share: time, samples, what a process used, a small HTTP client.
 *
 * All of it ends the program with a message when something is not as it must be: a figure of a run that went
 * wrong is worth nothing.
 */
#ifndef HEARTH_TESTS_BENCH_LIB_H
#define HEARTH_TESTS_BENCH_LIB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

uint64_t bench_now_us(void);
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- samples: microseconds; the oldest are not overwritten, what comes after SAMPLES_MAX is not kept ----
 */

struct samples {
	uint32_t *v;
	size_t n, cap;
};

void samples_add(struct samples *s, uint64_t us);
uint32_t samples_at(struct samples *s, double quantile); /* sorts; 0 when empty */
void samples_fini(struct samples *s);

/* ---- what a process has used since it started ------------------------------------------------------------
 */

struct usage {
	uint64_t cpu_us;           /* user and system, all threads */
	uint64_t switches;         /* voluntary: how often a thread of it slept */
	uint64_t rss_kib, top_kib; /* resident now, and at most */
};

void usage_of(pid_t pid, struct usage *u);

/* ---- HTTP over a unix socket ------------------------------------------------------------------------------
 */

int bench_dial(const char *path);
pid_t bench_peer(int fd); /* the process that listens there */
/* Whole answers in buf: its length in all when one is complete, 0 when more must come. Refused statuses end
 * the program. */
size_t bench_answer_complete(const char *buf, size_t n);
/* One call on a connection of its own, waits for the answer: its body, the caller's. */
char *bench_call(const char *path, const char *method, const char *target, const char *body);

#endif
