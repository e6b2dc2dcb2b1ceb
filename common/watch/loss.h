/*
 * loss: the loss watch, one for each job. The caller feeds each point (step, loss) in the order of arrival,
 * and the watch returns alarms (a mark at an onset, once each) and orders (what has to follow).
 *
 *     quiet -> suspect (a high point) -> alarmed (several high points; the alarm, pin) -> quiet (healed)
 *                                           | still rising, not healed in time, or not finite
 *                                           v
 *                                        rollback or stop, by the configuration
 *
 * Rules count steps, never lines: a program that logs each 10th step is judged at the same steps. The
 * reference is the median of the last 200 points that belong to no event, so a spike cannot raise its own
 * reference; where the loss falls fast, it is the median of their newest fifth. A state that was saved and
 * loaded continues exactly.
 */
#ifndef HEARTH_COMMON_WATCH_LOSS_H
#define HEARTH_COMMON_WATCH_LOSS_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/watch/conf.h"

#define WATCH_NO_STEP INT64_MIN
#define WATCH_REASON  256

struct watch_alarm {
	enum watch_kind kind;
	int64_t step;  /* at which it is raised */
	int64_t onset; /* first bad step */
	/* At `step`, and before the onset; NaN: none. WATCH_SLOW has the level of the newest steps. */
	double loss, reference;
};

struct watch_order {
	enum watch_kind kind;
	enum watch_action action;   /* WATCH_PIN, WATCH_ROLLBACK, WATCH_RESTART or WATCH_STOP */
	int64_t step, onset;        /* at which it is given; first bad step */
	int64_t to_step;            /* of the checkpoint; WATCH_NO_STEP: none */
	int64_t skip_from, skip_to; /* of a rollback: steps whose data is to be left out */
	char reason[WATCH_REASON];
};

#define WATCH_OUT_MAX 4
struct watch_out { /* of one call, which empties it first */
	struct watch_alarm alarms[WATCH_OUT_MAX];
	struct watch_order orders[WATCH_OUT_MAX];
	uint32_t n_alarms, n_orders;
};

struct watch_source {
	/* Returns the step of the newest usable checkpoint at or before at_most; -1: none. NULL: any step has
	 * one. */
	int64_t (*newest)(void *arg, int64_t at_most);
	void *arg;
};

/* Returns the step of the checkpoint that a rollback takes: the newest one that is `margin` steps before the
 * onset, twice as far after each earlier rollback. If none is so far, the oldest one before the onset,
 * because it is the farthest; -1 only if none is before the onset. Watches and plans share this rule. */
int64_t watch_find_return(struct watch_source source, int64_t onset, int64_t margin, int64_t rollbacks);

struct watch_loss;

struct watch_loss *watch_loss_new(const struct watch_conf *conf, struct watch_source source);
void watch_loss_destroy(struct watch_loss *w);
/* A loss of any rank. A step below the last one means that the run went back. */
void watch_loss_feed(struct watch_loss *w, int64_t step, double loss, struct watch_out *out);
/* The run reached this step, whether or not it reported a loss. */
void watch_loss_advance(struct watch_loss *w, int64_t step, struct watch_out *out);
/* The run continues from this step (an order was carried out, or a node was lost). Later points no longer
 * count; the onsets that are known stay known. */
void watch_loss_rewind(struct watch_loss *w, int64_t step);
/* The order of the last call was not carried out, so it does not count. */
void watch_loss_refused(struct watch_loss *w);
uint32_t watch_loss_rollbacks(const struct watch_loss *w);

cJSON *watch_loss_save(const struct watch_loss *w);
/* Configuration and source are the present ones. NULL: the state is invalid. */
struct watch_loss *watch_loss_load(const struct watch_conf *conf, struct watch_source source,
                                   const cJSON *state, struct err *e);

#endif
