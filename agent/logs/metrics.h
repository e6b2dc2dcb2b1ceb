/*
 * metrics: numbers from the output of a rank and from its metrics file. Pure: bytes in, points out. Only
 * matcher.c runs it, on a thread.
 *
 * Each pattern matches once a line; a newline or a carriage return ends a line, because progress bars
 * redraw theirs. The first group of the pattern is the number. The metric "step" gives the step of the
 * other points of its line and of later lines without one.
 *
 * common/base/pattern.h bounds each search. A pattern whose searches gave up METRIC_GIVE_UP times is
 * switched off.
 */
#ifndef HEARTH_AGENT_LOGS_METRICS_H
#define HEARTH_AGENT_LOGS_METRICS_H

#include "common/base/pattern.h"
#include "common/spec/spec.h"
#include <stddef.h>
#include <stdint.h>

#define METRIC_LINE_MAX PATTERN_LINE_MAX /* longer lines are searched in so many bytes from their start */
#define METRIC_JSON_MAX (64u * 1024)     /* the same for a line of the metrics file */
#define METRIC_NAME_MAX 128
#define METRIC_NO_STEP  (-1)
#define METRIC_GIVE_UP  100 /* searches of a pattern without a result, after which it is switched off */

struct metric_set; /* patterns of a job, shared by its streams; one thread at a time uses it */
/* Returns NULL when there are no patterns. The first line that is fed compiles them. */
struct metric_set *metric_set_create(const struct job_spec *spec);
void metric_set_destroy(struct metric_set *s);
size_t metric_set_count(const struct metric_set *s); /* also those that are off */
size_t metric_set_on(const struct metric_set *s);
void metric_set_switch_off(struct metric_set *s, size_t i);
/* Returns the pattern that cost most since metric_set_forget_cost, of those that are on: -1 none cost
 * anything. */
int metric_set_costliest(const struct metric_set *s);
uint64_t metric_set_steps(const struct metric_set *s); /* cost of all patterns since the start */
void metric_set_forget_cost(struct metric_set *s);
struct metric_pattern {
	const char *metric, *text; /* valid as long as the set */
	int off;
	unsigned gave_up; /* searches without a result */
	uint64_t steps;   /* pattern.h, since metric_set_forget_cost */
};
struct metric_pattern metric_set_pattern(const struct metric_set *s, size_t i);

struct metric_point {
	const char *name; /* valid during the call */
	int64_t step;     /* METRIC_NO_STEP: none */
	double value;     /* may be nan or inf */
	uint64_t at_us;   /* wall clock */
};
typedef void (*metric_fn)(const struct metric_point *p, void *arg);

struct metric_scan {        /* of one stream */
	struct metric_set *set; /* NULL: the lines are JSON objects of a metrics file */
	char *line;             /* unfinished one, at most METRIC_LINE_MAX (METRIC_JSON_MAX) bytes of it */
	size_t n;
	uint64_t long_by; /* bytes of it that are not kept */
	int64_t step;     /* last seen */
	uint64_t bad;     /* invalid JSON lines */
};
void metric_scan_init(struct metric_scan *m, struct metric_set *set);
void metric_scan_fini(struct metric_scan *m);
void metric_scan_reset(struct metric_scan *m); /* forgets the unfinished line */
/* Bytes of the unfinished line so far: a scan that starts again begins so many bytes back. */
uint64_t metric_scan_pending(const struct metric_scan *m);
/* Takes bytes that came at at_us. stop(arg) is asked after each line: 1 ends early. Returns how many were
 * taken. */
size_t metric_scan_feed(struct metric_scan *m, const char *p, size_t n, uint64_t at_us, metric_fn fn,
                        int (*stop)(void *), void *arg);
void metric_scan_end(struct metric_scan *m, uint64_t at_us, metric_fn fn,
                     void *arg); /* the last line may lack its newline */

#endif
