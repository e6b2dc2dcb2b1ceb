/*
 * progress: one line on a terminal with the progress of a transfer. It writes nothing if standard error is
 * not a terminal, or if the transfer is short.
 */
#ifndef HEARTH_JOBCTL_CLIENT_PROGRESS_H
#define HEARTH_JOBCTL_CLIENT_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct text;

struct progress {
	const char *what;
	uint64_t total; /* bytes; 0: unknown */
	uint64_t started_us, shown_us;
	int on, drawn;
};

int progress_wanted(void); /* standard error is a terminal */
void progress_start(struct progress *p, const char *what, uint64_t total);
void progress_update(struct progress *p, uint64_t done);
void progress_end(struct progress *p); /* clears the line */
/* Replaces the line on the terminal, cut at its width; "" clears it. */
void progress_note(const char *text);
/* Adds "uploading 45 % [####....] 12.3MiB of 27.0MiB, 8.1MiB/s, 2s" without newline. Pure, for tests. */
void progress_line(const struct progress *p, uint64_t done, uint64_t elapsed_us, size_t width,
                   struct text *out);

#endif
