/* loss_int: what the files of the loss watch share (loss.c and loss_*.c). */
#ifndef HEARTH_COMMON_WATCH_LOSS_INT_H
#define HEARTH_COMMON_WATCH_LOSS_INT_H

#include "common/watch/loss.h"
#include "common/watch/window.h"

#define WATCH_RECENT 9  /* points of the short median */
#define WATCH_HELD   5  /* calm points that end an event */
#define WATCH_GAPS   8  /* newest distances between logged steps */
#define WATCH_MARKS  16 /* newest onsets */
#define WATCH_BLOCKS 32
#define WATCH_PAST   200

#define WATCH_MIN_POINTS 20 /* that make a level */

enum watch_state { WATCH_QUIET, WATCH_SUSPECT, WATCH_ALARMED };

/* Means over the whole run in WATCH_BLOCKS blocks at most: when all are full, neighbours merge. */
struct watch_blocks {
	int64_t n, per;                                   /* blocks begun; points of a full one */
	double sum[WATCH_BLOCKS], squares[WATCH_BLOCKS];  /* of the values, less the first value of all */
	int64_t count[WATCH_BLOCKS], first[WATCH_BLOCKS]; /* points, and the step of the first one */
	double zero;
};

/* Single points of the whole run, evenly: when it is full, each second one goes. */
struct watch_past {
	int64_t n, every, skipped; /* one of `every` is kept; skipped since the last one */
	int64_t step[WATCH_PAST];
	double value[WATCH_PAST];
};

struct watch_event {
	int64_t state, kind, sign; /* sign -1: of a drop */
	int64_t onset, alarm_step, last_bad, acted_step, reopened;
	int64_t points, calm;            /* in the event, at its end */
	int64_t highs, clear, was_clear; /* bit i: the point i before the newest was high, very high */
	double reference, high, low;     /* frozen at the onset; high, low: distances from the reference */
	double held[WATCH_HELD];         /* the calm points: they return to the window */
	double alarm_level;              /* short median at the alarm */
};

struct watch_mark {
	int64_t kind, onset, end;
};

struct watch_loss {
	struct watch_conf conf;
	struct watch_source source;
	struct watch_window window;
	int64_t window_steps[WATCH_WINDOW]; /* of window.ring */
	struct watch_past past;
	struct watch_event event;
	struct watch_blocks rise, trend; /* of the open event, of the run */
	int64_t points, first_step, last_step, loss_step;
	int64_t gaps[WATCH_GAPS];
	double recent[WATCH_RECENT];
	int64_t n_recent;
	double best_early, best_level;
	int64_t best_early_step, best_level_step, above_early;
	int64_t plateau_marked;
	double plateau_level;
	int64_t n_marks, rollbacks, stopped, outliers, clear_outliers;
	struct watch_mark marks[WATCH_MARKS];
};

/* ---- loss_event.c: what follows an onset ---------------------------------------------------- */

void watch_add_alarm(struct watch_loss *w, struct watch_out *out, int64_t step, double loss);
void watch_close_event(struct watch_loss *w);
/* Gives the orders that the open event has earned at this step. */
void watch_judge_event(struct watch_loss *w, struct watch_out *out, int64_t step);
void watch_order_now(struct watch_loss *w, struct watch_out *out, int64_t step, const char *why);
int watch_is_rising(const struct watch_loss *w);   /* the open event */
int64_t watch_cadence(const struct watch_loss *w); /* steps between two points; at least 1 */
double watch_recent_median(const struct watch_loss *w);
uint32_t watch_window_points(const struct watch_loss *w); /* that make a full window */

/* Adds to the window. */
void watch_window_add(struct watch_loss *w, int64_t step, double v);

/* ---- loss_past.c: a return to an earlier step ------------------------------------------------- */

void watch_past_add(struct watch_past *p, int64_t step, double v);
/* Takes the level that the run had at this step; without enough points there, the watch starts again. */
void watch_return_to(struct watch_loss *w, int64_t step);

/* ---- loss_level.c: slow changes -------------------------------------------------------------- */

void watch_blocks_add(struct watch_blocks *b, int64_t step, double v);
/* Leaves the blocks that end at or before this step. */
void watch_blocks_cut(struct watch_blocks *b, int64_t step);
/* Mean of the blocks from..to-1 and its standard error (NULL: not wanted). */
double watch_blocks_mean(const struct watch_blocks *b, int64_t from, int64_t to, double *se);
/* Returns what a share of the loss is a share of: its size, but at least `part` of what it has fallen. A loss
 * that crosses zero has no size there. */
double watch_size(const struct watch_loss *w, double loss, double part);
void watch_check_level(struct watch_loss *w, struct watch_out *out, int64_t step, double loss);

#endif
