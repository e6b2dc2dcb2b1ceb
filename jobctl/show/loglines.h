/*
 * loglines: the bytes of a log as JSON, one object a line: {"attempt","stream","offset","text"}. Of a line
 * longer than LOGLINES_MAX the rest is left out, and the object says "cut": true.
 */
#ifndef HEARTH_JOBCTL_LOGLINES_H
#define HEARTH_JOBCTL_LOGLINES_H

#include "jobctl/show/grep.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LOGLINES_MAX (1024 * 1024)

struct loglines;
/* only: lines that match alone; NULL all. It is borrowed. */
struct loglines *loglines_create(FILE *out, struct grep *only);
/* n bytes that stand at that place of a stream; in pieces as they come. */
void loglines_feed(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset, const char *p,
                   size_t n);
void loglines_end(struct loglines *l); /* what has no newline counts as a line */
/* So many bytes before that place are no longer kept: an object with "lost" in place of a text. */
void loglines_lost(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset, uint64_t lost);
void loglines_destroy(struct loglines *l);

#endif
