/*
 * log_stream: one stream of a job's log, live or past.
 *
 * It is read over the raw endpoint from an offset. After a lost connection it continues at the next byte of
 * the same attempt, so no byte is shown twice or left out. If the attempt is over but the job is not, the
 * next attempt's stream follows. While a followed stream is quiet, standard error says what the job waits
 * for.
 */
#ifndef HEARTH_JOBCTL_SHOW_LOG_STREAM_H
#define HEARTH_JOBCTL_SHOW_LOG_STREAM_H

#include <stdint.h>

struct ctx;
struct grep;
struct log_tail;
struct loglines;
struct waiting;

#define STREAM_NAME_MAX 256

/* The creator fills in what is wanted and leaves the rest 0. */
struct log_stream {
	struct ctx *c;
	uint64_t job;
	char *stream, *node;       /* as asked, malloc'ed; node NULL: not given */
	int follow, wanted_follow; /* now; as asked */
	uint64_t attempt;          /* 0: the newest; known from the first answer on */
	int pinned;                /* the attempt was asked for: no other is shown */
	int64_t first;             /* first byte; negative: that many before the end */
	int tail;                  /* show only the last lines */
	uint64_t tail_lines;
	struct grep *grep;      /* NULL: all lines */
	struct loglines *lines; /* with --json, else NULL */
	int any;                /* bytes were shown */
	int failed;             /* standard output accepts no more */
	/* private */
	uint64_t offset;            /* of the next byte, once begun */
	struct log_tail *end;       /* end of the log, while the last lines are searched */
	int begun;                  /* an answer has come */
	int in_line;                /* the last byte shown ends no line */
	char real[STREAM_NAME_MAX]; /* the stream's name on the controller: setup is setup-algo-1 */
	uint64_t lost_us;           /* since when the controller is away; 0: it is not */
	struct waiting *waiting;    /* NULL: nothing was said yet */
};

/* Sets first to where the last lines begin, by reading ever more of the end. Leaves errors to the reader. */
void log_stream_seek_tail(struct log_stream *l);
/* Shows one attempt's stream to its end. 0, -1 or EXIT_INTERRUPTED. */
int log_stream_read(struct log_stream *l);
/* Shows the streams of all attempts that are asked for. */
int log_stream_read_all(struct log_stream *l);
/* Ends a last line that has no newline. */
void log_stream_end_line(struct log_stream *l);
void log_stream_fini(struct log_stream *l);
/* Returns where the last lines of a stream begin. */
uint64_t log_stream_tail_start(struct ctx *c, uint64_t job, uint64_t attempt, const char *stream,
                               uint64_t lines);

#endif
