/*
 * grep: the lines of a byte stream that match a pattern (PCRE2).
 */
#ifndef HEARTH_JOBCTL_SHOW_GREP_H
#define HEARTH_JOBCTL_SHOW_GREP_H

#include <stddef.h>
#include <stdio.h>

#include "common/base/err.h"

struct grep;
struct grep *grep_create(const char *pattern, FILE *out, struct err *e); /* ERR_INVALID says where */
void grep_feed(struct grep *g, const char *p, size_t n);                 /* in pieces as they arrive */
void grep_end_line(struct grep *g);                           /* a rest without newline counts as a line */
int grep_matches(struct grep *g, const char *line, size_t n); /* one line, on its own */
void grep_destroy(struct grep *g);

#endif
