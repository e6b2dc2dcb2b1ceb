/*
 * watch: the watches of live jobs (feed.h has the promise of this room).
 *
 *   points of a batch -> feed.c judges -> alarm: event `alert`, the checkpoint before the onset is pinned
 *                                      -> order: the attempt ends (recover_rollback), as the keys `watch` say
 *
 * The state thread judges points itself: one costs about a microsecond (docs/benchmarks.md). RATE points a
 * second of a job are judged, and TOTAL of all jobs; of what is above, only losses that are not finite count.
 * Rules count steps, not points, so that a series with gaps has the same alarms.
 *
 * The state of a job's watches is a row of the store. It is written with each event that it explains, and
 * else every SAVE_US. A new hearthd loads it and then judges the points that the store has beyond it.
 */
#ifndef HEARTH_CONTROLLER_WATCH_WATCH_H
#define HEARTH_CONTROLLER_WATCH_WATCH_H

#include "common/net/wire_msg.h"
#include "controller/state/jobs.h"
#include "controller/state/observer.h"

/* Judges the points of an accepted batch of the job's newest attempt. */
void watch_points(struct core *c, const char *node, const struct wm_metrics *m);
/* A stored state, at load. */
void watch_load(struct core *c, uint64_t job, const char *state);
/* Looks for jobs whose steps have stopped, and writes states. Due at watch_next_us (boot; UINT64_MAX never).
 */
void watch_tick(struct core *c);
uint64_t watch_next_us(const struct core *c);
/* Observers. */
void watch_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);
void watch_job_goes(struct core *c, struct cjob *j);

#endif
