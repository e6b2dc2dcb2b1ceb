/*
 * points: metric points of one attempt on this node, on their way to hearthd. None is lost, none counts
 * twice.
 *
 * All sources (the output and the metrics file of each rank) share one row of numbered batches, one at a
 * time: at most every 200 ms, or at 1,000 points. Before a batch leaves, DIR/metrics records it together
 * with the position of each source (atomic replace). The next agent sends that very batch again under its
 * number and reads on from there; hearthd drops a number that it has. While one batch is under way and the
 * next is full, sources wait: their bytes are on disk.
 */
#ifndef HEARTH_AGENT_LOGS_POINTS_H
#define HEARTH_AGENT_LOGS_POINTS_H

#include "agent/link/data_link.h"
#include "agent/logs/metrics.h"

struct points;
struct points_src;

/* The caller's table of them: one for each (job, attempt). dir: where the state lies. */
struct points *points_open(struct agent_env *env, struct data_link *b, uint64_t job, uint32_t attempt,
                           const char *dir);
void points_close(struct points *p); /* no source may be left */
void points_set_epoch(struct points *p, uint64_t epoch);

/* name: unique in the attempt, the same after a restart. room: there is room again, or the source was
 * drained. */
struct points_src *points_source(struct points *p, const char *name, uint32_t rank, void (*room)(void *arg),
                                 void *arg);
void points_source_close(struct points_src *s);
void points_where(const struct points_src *s, uint64_t *offset,
                  int64_t *step); /* what an earlier agent had read, 0 and none at first */

void points_add(struct points_src *s, const struct metric_point *m);
int points_full(const struct points_src *s); /* stop reading until room */
/* Everything before offset was read, and its points were added; step: last one seen. */
void points_mark(struct points_src *s, uint64_t offset, int64_t step);
/* Nothing before this offset is read again, also by another agent. */
uint64_t points_saved(const struct points_src *s);
/* Sends what is there without waiting for more. 1: nothing of the source is unacknowledged (else room comes).
 */
int points_flush(struct points_src *s);

#endif
