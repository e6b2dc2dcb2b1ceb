/*
 * feed: which points of a job its watches judge. Pure: points in, alarms and orders out.
 *
 * Promise of this room (controller/watch): it watches the metrics of live jobs, records what it finds as
 * events, and carries out what the job's keys `watch` say. It changes a job only by events and by the
 * functions of controller/run.
 *
 * A loss that is not finite counts on any rank. All else is judged on one rank, because ranks of a gang log
 * the same steps: the lowest one that reports. Another rank replaces it when it is FEED_AHEAD steps ahead:
 * the watched one has fallen silent. The loss and the steps have a rank each.
 *
 * A batch of points may come twice (an agent connects again). Batches of a node have ascending numbers, so
 * the number of the last one from the watched rank's node tells a repetition.
 */
#ifndef HEARTH_CONTROLLER_WATCH_FEED_H
#define HEARTH_CONTROLLER_WATCH_FEED_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/spec/spec_watch.h"
#include "common/watch/loss.h"

#define FEED_AHEAD 200

struct watch_feed;

struct feed_batch { /* points of one node */
	uint32_t place; /* node rank */
	uint64_t seq;
};

struct feed_point {
	const char *name;
	uint32_t rank;
	int64_t step; /* -1 none */
	double value;
	uint64_t at_us; /* the node's clock */
};

struct watch_feed *feed_new(const struct spec_watch *spec, struct watch_source source);
void feed_destroy(struct watch_feed *f);
/* The attempt goes on after this step (-1: from the beginning). Returns 0 when the feed has it already: that
 * changes nothing. */
int feed_attempt(struct watch_feed *f, uint32_t attempt, int64_t step);
/* Returns 1 when the batch was judged before. */
int feed_is_old(const struct watch_feed *f, const struct feed_batch *b);
/* Returns 1 when the point belongs to what is watched, so that it costs time. */
int feed_wants(const struct watch_feed *f, const struct feed_point *p);
/* Judges a point. may_judge 0: only whether it is finite. */
void feed_add(struct watch_feed *f, const struct feed_batch *b, const struct feed_point *p, int may_judge,
              struct watch_out *out);
/* The order of the last call was not carried out. */
void feed_refused(struct watch_feed *f);
/* What the store may have beyond a loaded state: points of these series since after_us, which are judged when
 * feed_is_beyond says so. Returns their number. */
#define FEED_SERIES 3
struct feed_series {
	const char *name;
	uint32_t rank, place;
	uint64_t after_us;
	int64_t after_step; /* of a point with that very time */
};
uint32_t feed_series(const struct watch_feed *f, struct feed_series out[FEED_SERIES]);
int feed_is_beyond(const struct feed_series *s, const struct feed_point *p);
/* No step has ended for so many seconds. */
void feed_silence(struct watch_feed *f, double seconds, struct watch_out *out);
uint32_t feed_attempt_of(const struct watch_feed *f); /* 0 none */
double feed_hang_limit(const struct watch_feed *f);   /* seconds */
int64_t feed_step(const struct watch_feed *f);        /* the newest one; -1 none */

/* A state that was saved and loaded continues exactly. */
cJSON *feed_save(const struct watch_feed *f);
struct watch_feed *feed_load(const struct spec_watch *spec, struct watch_source source, const cJSON *state,
                             struct err *e);

#endif
