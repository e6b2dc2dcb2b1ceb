/*
 * metrics: numbers from the output of a rank and from its metrics file. Pure: bytes in, points out.
 *
 * Each pattern matches once a line; a newline or a carriage return ends a line, because progress bars
 * redraw theirs. The first group of the pattern is the number. The metric "step" gives the step of the
 * other points of its line and of later lines without one.
 */
#ifndef HEARTH_AGENT_LOGS_METRICS_H
#define HEARTH_AGENT_LOGS_METRICS_H

#include "common/base/err.h"
#include "common/spec/spec.h"
#include <stddef.h>
#include <stdint.h>

#define METRIC_LINE_MAX (64u * 1024) /* longer lines are searched in so many bytes from their start */
#define METRIC_NAME_MAX 128
#define METRIC_NO_STEP  (-1)

struct metric_set; /* compiled patterns of a job, shared by its streams */
struct metric_set *metric_set_create(const struct job_spec *spec); /* NULL when it has none */
void metric_set_destroy(struct metric_set *s);

struct metric_point {
	const char *name; /* valid during the call */
	int64_t step;     /* METRIC_NO_STEP: none */
	double value;     /* may be nan or inf */
	uint64_t at_us;   /* wall clock */
};
typedef void (*metric_fn)(const struct metric_point *p, void *arg);

struct metric_scan {        /* of one stream */
	struct metric_set *set; /* NULL: the lines are JSON objects of a metrics file */
	char *line;             /* unfinished one, at most METRIC_LINE_MAX bytes of it */
	size_t n;
	uint64_t long_by; /* bytes of it that are not kept */
	int64_t step;     /* last seen */
	uint64_t bad;     /* invalid JSON lines, patterns given up on */
};
void metric_scan_init(struct metric_scan *m, struct metric_set *set);
void metric_scan_fini(struct metric_scan *m);
void metric_scan_reset(struct metric_scan *m); /* forgets the unfinished line */
/* Bytes of the unfinished line so far: a scan that starts again begins so many bytes back. */
uint64_t metric_scan_pending(const struct metric_scan *m);
/* Takes bytes that came at at_us. stop(arg) is asked after each line with points: 1 ends early. Returns how
 * many were taken. */
size_t metric_scan_feed(struct metric_scan *m, const char *p, size_t n, uint64_t at_us, metric_fn fn,
                        int (*stop)(void *), void *arg);
void metric_scan_end(struct metric_scan *m, uint64_t at_us, metric_fn fn,
                     void *arg); /* the last line may lack its newline */

#endif
