/*
 * progress: one line on a terminal that says how far a transfer is. Nothing is written anywhere else, and
 * nothing when it is over at once.
 */
#ifndef HEARTH_JOBCTL_PROGRESS_H
#define HEARTH_JOBCTL_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct progress {
	const char *what;
	uint64_t total; /* bytes; 0 unknown */
	uint64_t started_us, shown_us;
	int on, drawn;
};

int progress_wanted(void); /* is standard error a terminal? */
void progress_start(struct progress *p, const char *what, uint64_t total);
void progress_update(struct progress *p, uint64_t done);
void progress_end(struct progress *p); /* wipes the line */
/* One line on the terminal, cut at its width, in place of the one before; "" wipes it. */
void progress_note(const char *text);
/* "uploading  45 % [####....] 12.3MiB of 27.0MiB, 8.1MiB/s, 2s" without newline. Pure, for tests. */
const char *progress_line(const struct progress *p, uint64_t done, uint64_t elapsed_us, size_t width,
                          char *out, size_t out_size);

#endif
