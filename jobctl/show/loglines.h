/*
 * loglines: the bytes of a log as JSON, one object per line: {"attempt","stream","offset","text"}. A line
 * longer than LOGLINES_MAX is cut, and its object has "cut": true.
 */
#ifndef HEARTH_JOBCTL_SHOW_LOGLINES_H
#define HEARTH_JOBCTL_SHOW_LOGLINES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "jobctl/show/grep.h"

#define LOGLINES_MAX (1024 * 1024)

struct loglines;
/* Makes a printer to out. only: print lines that match, NULL: all; borrowed. */
struct loglines *loglines_create(FILE *out, struct grep *only);
/* Adds n bytes at that offset of a stream, in pieces as they arrive. */
void loglines_feed(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset, const char *p,
                   size_t n);
void loglines_end(struct loglines *l); /* a rest without newline counts as a line */
/* Prints an object with "lost" instead of a text: so many bytes before that offset are no longer stored. */
void loglines_lost(struct loglines *l, uint64_t attempt, const char *stream, uint64_t offset, uint64_t lost);
void loglines_destroy(struct loglines *l);

#endif
