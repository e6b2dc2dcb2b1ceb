/*
 * nodelog: the agent's own lines in a launch's "setup" and "system" streams: the same files as the shims
 * write, so the same tailer sends them. Each line gets a time stamp.
 */
#ifndef HEARTH_AGENT_LOGS_NODELOG_H
#define HEARTH_AGENT_LOGS_NODELOG_H

#include "common/base/clock.h"
#include "common/base/err.h"
#include <stddef.h>

struct nodelog;
struct nodelog *nodelog_open(const char *logdir, const struct clock *clock, struct err *e);
void nodelog_line(struct nodelog *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nodelog_bytes(struct nodelog *n, const void *p, size_t len);
void nodelog_close(struct nodelog *n);

/* Returns the last complete lines of a stream, at most max bytes, malloc'ed. */
char *tail_last_lines(const char *logdir, size_t max, size_t *n);

#endif
