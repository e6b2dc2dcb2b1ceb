/*
 * last_line: the line of a program's output that tells most about its end, found while the output passes.
 */
#ifndef HEARTH_AGENT_BASE_LAST_LINE_H
#define HEARTH_AGENT_BASE_LAST_LINE_H

#include <stddef.h>

#define LAST_LINE_MAX 512

struct last_line {
	char text[LAST_LINE_MAX]; /* the last one that is not empty; one that begins with ERROR stays */
	char open[LAST_LINE_MAX]; /* the present one, without its end */
	size_t n;
	int error;
};
void last_line_take(struct last_line *l, const char *p, size_t n);
void last_line_end(struct last_line *l); /* the output has ended, perhaps in the middle of a line */

#endif
