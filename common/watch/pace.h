/*
 * pace: the throughput watch, one for each job. The caller feeds the seconds of each step; alarms are slow
 * (steps take longer than they did), stall (one step took very long) and hang (no step has ended for longer
 * than any legal pause).
 *
 * The reference is the median of the last 200 steps that are not slow. A rise counts when the median of the
 * last 8 steps is above it for so many steps: one slow step, or a few, never count. A steady series shows a
 * small rise soon; a noisy one needs a larger rise or a longer time.
 */
#ifndef HEARTH_COMMON_WATCH_PACE_H
#define HEARTH_COMMON_WATCH_PACE_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/watch/loss.h"

struct watch_pace;

struct watch_pace *watch_pace_new(const struct watch_conf *conf);
void watch_pace_destroy(struct watch_pace *w);
/* A step that took so many seconds. Not finite or negative: left out. */
void watch_pace_feed(struct watch_pace *w, int64_t step, double seconds, struct watch_out *out);
/* No step has ended for so many seconds. */
void watch_pace_silence(struct watch_pace *w, double seconds, struct watch_out *out);
double watch_pace_hang_limit(const struct watch_pace *w); /* seconds */

cJSON *watch_pace_save(const struct watch_pace *w);
struct watch_pace *watch_pace_load(const struct watch_conf *conf, const cJSON *state, struct err *e);

#endif
