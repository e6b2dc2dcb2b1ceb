/*
 * scanner: metrics and lines of failures of one stream: feeds its output and its metrics file to the launch's
 * matcher, puts the points into the launch's row of batches, and reports the lines.
 *
 * It reads the segments with a cursor of its own, behind the one that sends. What does not fit into the
 * present batch, or is not searched yet, stays on disk.
 */
#ifndef HEARTH_AGENT_LOGS_SCANNER_H
#define HEARTH_AGENT_LOGS_SCANNER_H

#include "agent/logs/matcher.h"
#include "agent/logs/points.h"
#include "agent/logs/segments.h"

#define SCAN_JSON_FILE "metrics.jsonl" /* in a stream's folder */
#define SCAN_END_US    60000000u       /* that the end of a stream waits for its searches at most */

struct scanner;
struct scanner_params {
	struct agent_env *env;
	struct points *points;
	struct matcher *matcher;
	struct segments *dir; /* of the stream; outlives the scanner */
	const char *stream, *logdir;
	uint32_t rank;
	const struct job_spec *spec; /* patterns; NULL none (not kept) */
	void (*changed)(void *arg);  /* from a turn of its own: scanner_is_through may have an answer */
	/* A sentence for the owner of the job. key: the same for the same thing. */
	void (*warn)(const char *key, const char *text, void *arg);
	/* A line names a failure; NULL: such lines are not wanted. */
	void (*failure)(const struct cause *c, void *arg);
	void (*step)(int64_t step, uint64_t at_us, void *arg); /* a point has that step */
	void *arg;
};
struct scanner *scanner_create(const struct scanner_params *p);
void scanner_destroy(struct scanner *s); /* NULL allowed */
void scanner_look(struct scanner *s);    /* there may be more bytes, or room for points */
void scanner_finish(struct scanner *s);  /* the stream has ended: its last line, too */
int scanner_is_through(
    struct scanner *s); /* after scanner_finish: hearthd has all points, or they are given up */
int scanner_has_read(const struct scanner *s); /* all output that is there, or it has no room for points */
uint64_t scanner_needs(
    const struct scanner *s);         /* the first byte that is not to be removed; UINT64_MAX none */
void scanner_park(struct scanner *s); /* closes its files until the next read */
/* Once a second. Ends searches that take longer than SCAN_END_US after the end of the stream. */
void scanner_tick(struct scanner *s, uint64_t now_us);

#endif
