/*
 * last_line: see last_line.h.
 */
#include "agent/base/last_line.h"

#include <string.h>

void last_line_end(struct last_line *l)
{
	int error;

	while (l->n && strchr(" \t\r", l->open[l->n - 1]))
		l->n--;
	l->open[l->n] = '\0';
	error = strncmp(l->open, "ERROR", 5) == 0;
	if (l->n && (error || !l->error))
		memcpy(l->text, l->open, l->n + 1);
	l->error |= error;
	l->n = 0;
}

void last_line_take(struct last_line *l, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n')
			last_line_end(l);
		else if (l->n < sizeof(l->open) - 1)
			l->open[l->n++] = p[i];
	}
}
