/*
 * failures: looks for lines that name a failure (common/classify) in the output of one stream. Runs on the
 * matcher's threads; one thread at a time has a stream and the launch's reader.
 */
#ifndef HEARTH_AGENT_LOGS_FAILURES_H
#define HEARTH_AGENT_LOGS_FAILURES_H

#include <stddef.h>
#include <stdint.h>

#include "common/classify/cause.h"

#define FAILURE_TAIL  8192u  /* bytes of a skipped part that are searched when the stream ends */
#define FAILURE_APART 16384u /* bytes of output after which a program has gone on after a line */

/* All launches share a table; the last that uses it destroys it. On the loop only. */
struct failure_table;
struct failure_table *failure_table_create(struct classify_table *t); /* takes t */
struct failure_table *failure_table_hold(struct failure_table *t);
void failure_table_release(struct failure_table *t); /* NULL allowed */
const struct classify_table *failure_table_rules(const struct failure_table *t);

struct failure_scan { /* of one stream */
	char *line;       /* the unfinished one; NULL none */
	size_t n;
	char *tail; /* end of what was skipped; NULL: nothing since the last line that was read */
	size_t n_tail;
	uint64_t offset;     /* of the next byte */
	struct cause *cause; /* NULL none */
	struct cause *later; /* as strong, and far behind it; NULL none */
	int news;            /* the cause is a new one */
	size_t frame;        /* for cause_is_echo */
};
void failure_scan_fini(struct failure_scan *s);
void failure_scan_reset(struct failure_scan *s);  /* forgets the unfinished line */
void failure_scan_forget(struct failure_scan *s); /* forgets the cause, whose texts end with the table */
/* Reads bytes; enough(arg) is asked after each line, and 1 skips the rest. at: offset of the first byte. */
void failure_scan_feed(struct failure_scan *s, struct classify_reader *r, const char *p, size_t n,
                       uint64_t at, int (*enough)(void *arg), void *arg);
/* Bytes that are not read, because the launch has used up its time. */
void failure_scan_skip(struct failure_scan *s, const char *p, size_t n, uint64_t at);
/* Whether the end of the stream has something to read or to report. */
int failure_scan_rest(const struct failure_scan *s);
/* The stream has ended: the end of what was skipped, and a last line without newline. */
void failure_scan_end(struct failure_scan *s, struct classify_reader *r);

#endif
