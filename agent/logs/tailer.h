/*
 * The room logs: what a launch's processes write goes to hearthd, each byte once and in order, and metric
 * points are read out of it.
 *
 * tailer: follows the segment files of all streams (shim/shim.h) and sends them over the data link.
 */
#ifndef HEARTH_AGENT_LOGS_TAILER_H
#define HEARTH_AGENT_LOGS_TAILER_H

#include "agent/base/agent_env.h"
#include "agent/link/data_link.h"
#include "common/classify/cause.h"
#include "common/spec/spec.h"
#include <stddef.h>
#include <stdint.h>

struct tailer;
struct tailer *tailer_create(struct agent_env *env, struct data_link *b);
void tailer_destroy(struct tailer *t);
/* Rules of an administrator for lines of failures (matcher.h). */
void tailer_set_rules(struct tailer *t, const char *text);
/* Starts to follow a stream, also after a restart of the agent: offsets and hearthd's acknowledgements
 * prevent doubles. */
struct tail_params {
	uint64_t job, epoch;
	uint32_t attempt, rank; /* rank 0xffffffff: not a rank */
	const char *stream, *logdir;
	const struct job_spec *spec; /* metric patterns; NULL none (not kept after the call) */
	/* A sentence for the owner of the job, for example about a pattern that was switched off. key: the same
	 * for the same thing. NULL allowed. */
	void (*warn)(const char *key, const char *text, void *arg);
	/* A line of the stream names a failure, a stronger one than those before. NULL: the stream is not read
	 * for such lines. */
	void (*failure)(const char *stream, uint32_t rank, const struct cause *c, void *arg);
	/* A rank reported that step, by a metric. NULL allowed. */
	void (*step)(int64_t step, uint64_t at_us, void *arg);
	void *arg;
};
struct tail *tail_start(struct tailer *t, const struct tail_params *p);
/* Nothing more is written: reads the rest for metrics and failures. Returns 1 when all whole lines are read,
 * or hearthd takes no more points. */
int tail_read_rest(struct tail *tl);
/* Says that the stream has ended: the tail drains it and sends its end. done: hearthd has all of it on
 * record. Segments are removed as hearthd records them. */
void tail_finish(struct tail *tl, void (*done)(void *arg), void *arg);
void tail_destroy(struct tail *tl); /* stops; the files stay */

#endif
