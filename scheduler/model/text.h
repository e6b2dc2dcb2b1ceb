/*
 * text: sentences for people, into a buffer of fixed size, cut and never overrun. Its own, since the library
 * uses no stdio. Knows %s %u %lu %llu %zu %d %ld %lld %.Nf and %%.
 */
#ifndef HEARTH_SCHEDULER_TEXT_H
#define HEARTH_SCHEDULER_TEXT_H

#include <stddef.h>

struct text {
	char *p;
	size_t n, size; /* used without the ending 0; of p */
};

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
