/* loss: see loss.h; here each point finds its place: normal, high, calm again, not finite. */
#include "common/watch/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/watch/loss_int.h"

#define MIN_STEPS                                                                                            \
	50 /* from the first step, before anything is a spike: a start falls too fast for a level                \
	    */
#define LEAST_WINDOW 40
#define CLEAR_TIMES  1.5
#define AROUND_ZERO  1.2
#define NEAR_PART    5
#define NEAR_LEAST   75 /* points of a window of which a part is enough for a median */
#define NEAR_TIMES   1.2
#define DROP_OF      5 /* low points that make a drop; a spike has its own number */
#define RECENT_OF    5 /* points among which the high ones must be */

struct watch_loss *watch_loss_new(const struct watch_conf *conf, struct watch_source source)
{
	struct watch_loss *w = xcalloc(1, sizeof(*w));
	w->conf = *conf;
	w->source = source;
	w->first_step = w->last_step = w->loss_step = WATCH_NO_STEP;
	w->best_early = w->best_level = INFINITY;
	return w;
}

void watch_loss_destroy(struct watch_loss *w)
{
	free(w);
}

uint32_t watch_loss_rollbacks(const struct watch_loss *w)
{
	return (uint32_t)w->rollbacks;
}

void watch_loss_refused(struct watch_loss *w)
{
	w->rollbacks -= w->rollbacks > 0 && !w->stopped;
	w->stopped = 0;
}

int64_t watch_cadence(const struct watch_loss *w)
{
	double v[WATCH_GAPS];
	uint32_t n = 0;
	for (uint32_t i = 0; i < WATCH_GAPS; i++) {
		if (w->gaps[i] > 0)
			v[n++] = (double)w->gaps[i];
	}
	return n ? (int64_t)watch_median(v, n) : 1;
}

double watch_recent_median(const struct watch_loss *w)
{
	double v[WATCH_RECENT];
	uint32_t n = w->n_recent < WATCH_RECENT ? (uint32_t)w->n_recent : WATCH_RECENT;
	memcpy(v, w->recent, n * sizeof(double));
	return n ? watch_median(v, n) : NAN;
}

/* ---- normal points ---------------------------------------------------------------------------------- */

/* Returns the least distance above (sign 1) or below the reference that makes a point high. */
static double high_distance(const struct watch_loss *w, int64_t sign, double reference, double sigma)
{
	const struct watch_conf *c = &w->conf;
	double size = watch_size(w, reference, 0.5);
	double share = sign > 0 ? c->spike_share : c->drop_share,
	       times = sign > 0 ? c->spike_sigma : c->drop_sigma;
	/* The floor is in the unit of the loss, which may be tiny: it never exceeds twice the share. */
	double least = fmax(share * size, fmin(c->spike_floor, 2 * share * size));
	/* Around zero `least` is next to nothing, and the noise alone decides. */
	return fmax(least, times * sigma * (watch_is_around_zero(&w->window) ? AROUND_ZERO : 1));
}

static int window_is_ready(const struct watch_loss *w, int64_t step, int64_t sign)
{
	/* A loss may fall fast early in a run, or after a bump of the warm-up: not a drop. */
	return w->window.n >= WATCH_MIN_POINTS && step - w->first_step >= (sign > 0 ? MIN_STEPS : WATCH_WINDOW);
}

/* Returns the points of the window: so many that it spans WATCH_WINDOW steps, but enough for a median. A
 * longer one would reach back to where the loss was much higher. */
uint32_t watch_window_points(const struct watch_loss *w)
{
	int64_t n = WATCH_WINDOW / watch_cadence(w);
	return n > LEAST_WINDOW ? (uint32_t)n : LEAST_WINDOW;
}

void watch_window_add(struct watch_loss *w, int64_t step, double v)
{
	struct watch_window *win = &w->window;
	watch_window_push(win, v, watch_window_points(w));
	w->window_steps[(win->at + win->n - 1) % WATCH_WINDOW] = step;
}

static void add_normal(struct watch_loss *w, int64_t step, double loss)
{
	watch_window_add(w, step, loss);
	watch_past_add(&w->past, step, loss);
	watch_blocks_add(&w->trend, step, loss);
}

/* ---- events ------------------------------------------------------------------------------------------- */

static int64_t points_needed(const struct watch_loss *w)
{
	if (w->event.sign < 0)
		return DROP_OF;
	/* Series of few samples have outliers; a rare one says nothing. Three within five by chance: 10 p^3. */
	int64_t many = w->outliers > 5, rate = w->points / (w->outliers + 1);
	return w->conf.spike_points + (many && rate < 100) + (many && rate < 25);
}

/* A log of every third step or less shows a spike of ten steps as two points: they suffice if both are clear,
 * next to each other, and if the series hardly has outliers. */
static int is_clear_pair(const struct watch_loss *w)
{
	return w->event.sign > 0 && watch_cadence(w) >= 3 && w->clear_outliers <= 3 + w->points / 500 &&
	       __builtin_popcountll((uint64_t)w->event.clear & 7) >= 2;
}

/* Returns the reference by which the point is high, if any, and *sign and *high, the least distance; NAN. */
static double exceeded_reference(const struct watch_loss *w, int64_t step, double loss, int64_t *sign,
                                 double *high, double *sigma)
{
	double r = watch_window_median(&w->window), near;
	*sigma = watch_window_sigma(&w->window);
	*sign = loss >= r ? 1 : -1;
	*high = high_distance(w, *sign, r, *sigma);
	if (window_is_ready(w, step, *sign) && fabs(loss - r) > *high)
		return r;
	/* Where the loss falls fast, the middle of a long window is above what comes next. */
	if (w->window.n < NEAR_LEAST || !window_is_ready(w, step, 1) || watch_is_around_zero(&w->window) ||
	    loss - watch_window_least(&w->window, RECENT_OF) <= high_distance(w, 1, loss, 0))
		return NAN;
	near = watch_window_near(&w->window, w->window.n / NEAR_PART, sigma);
	*sigma = fmax(*sigma, watch_window_noise(&w->window));
	*sign = 1;
	*high = high_distance(w, 1, near, NEAR_TIMES * *sigma);
	return r - near > *sigma && loss - near > *high ? near : NAN;
}

/* Opens a suspicion if the point is high. */
static int open_suspect(struct watch_loss *w, int64_t step, double loss)
{
	int64_t sign;
	double high, s, r = exceeded_reference(w, step, loss, &sign, &high, &s);
	if (isnan(r))
		return 0;
	double low = fmax(fmax(high / w->conf.spike_sigma * w->conf.heal_sigma, 0), w->conf.heal_sigma * s);
	w->event = (struct watch_event){.state = WATCH_SUSPECT,
	                                .kind = sign > 0 ? WATCH_SPIKE : WATCH_DROP,
	                                .sign = sign,
	                                .onset = step,
	                                .acted_step = WATCH_NO_STEP,
	                                .reference = r,
	                                .high = high,
	                                .low = fmin(low, high)};
	w->rise = (struct watch_blocks){0};
	return 1;
}

/* Ends the open event: its last calm points are normal again. */
static void end_event(struct watch_loss *w, int64_t step)
{
	w->outliers += w->event.state == WATCH_SUSPECT;
	w->clear_outliers += w->event.state == WATCH_SUSPECT && w->event.was_clear;
	for (int64_t i = 0; i < w->event.calm; i++)
		add_normal(w, step, w->event.held[i]);
	watch_close_event(w);
}

/* A level that stays is the new level: the run goes on there, and the next onset is measured from it. */
static void adopt_level(struct watch_loss *w, int64_t step)
{
	double recent[WATCH_RECENT];
	memcpy(recent, w->recent, sizeof(recent));
	watch_close_event(w);
	watch_window_clear(&w->window);
	w->trend = (struct watch_blocks){0};
	w->best_level = INFINITY;
	w->plateau_marked = 0;
	for (uint32_t i = 0; i < WATCH_RECENT; i++)
		add_normal(w, step, recent[i]);
}

static int outlasts_patience(const struct watch_loss *w, int64_t step)
{
	return w->event.points >= WATCH_WINDOW / 2 && step - w->event.onset >= 3 * w->conf.patience_steps;
}

/* A point within an open spike or drop. */
static void continue_event(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	struct watch_event *v = &w->event;
	double height = (double)v->sign * (loss - v->reference);
	int64_t calm_needed = watch_cadence(w) >= 3 ? 3 : WATCH_HELD;
	v->points++;
	v->highs = ((v->highs << 1) | (height > v->high)) & ((1 << RECENT_OF) - 1);
	v->clear = ((v->clear << 1) | (height > CLEAR_TIMES * v->high)) & ((1 << RECENT_OF) - 1);
	watch_blocks_add(&w->rise, step, (double)v->sign * loss);
	v->was_clear |= v->clear & 1;
	if (height > v->low) {
		v->calm = 0;
		v->last_bad = step;
	} else {
		v->held[v->calm++] = loss;
		if (v->calm >= calm_needed) {
			end_event(w, step);
			return;
		}
	}
	if (v->state == WATCH_SUSPECT &&
	    (__builtin_popcountll((uint64_t)v->highs) >= points_needed(w) || is_clear_pair(w)))
		watch_add_alarm(w, out, step, loss);
	int acts = v->state == WATCH_ALARMED && w->conf.on[v->kind] >= WATCH_ROLLBACK && !w->stopped;
	if (outlasts_patience(w, step) && !acts && !watch_is_rising(w))
		adopt_level(w, step);
}

/* A loss that is not finite, or has vanished since `onset`. */
static void add_nonfinite(struct watch_loss *w, struct watch_out *out, int64_t step, int64_t onset)
{
	struct watch_event *v = &w->event;
	if (v->state == WATCH_ALARMED && v->kind == WATCH_NAN) {
		v->calm = 0;
		v->last_bad = step;
	} else {
		watch_close_event(w);
		double r = w->window.n ? watch_window_median(&w->window) : NAN;
		*v = (struct watch_event){.state = WATCH_SUSPECT,
		                          .kind = WATCH_NAN,
		                          .sign = 1,
		                          .onset = onset,
		                          .last_bad = step,
		                          .acted_step = WATCH_NO_STEP,
		                          .reference = r};
		watch_add_alarm(w, out, step, NAN);
	}
	if (v->acted_step == WATCH_NO_STEP || step - v->acted_step >= w->conf.settle_steps)
		watch_order_now(w, out, step, "is not finite");
}

static void add_finite(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	struct watch_event *v = &w->event;
	w->recent[w->n_recent++ % WATCH_RECENT] = loss;
	if (v->state != WATCH_QUIET && v->kind == WATCH_NAN) {
		v->held[v->calm++] = loss;
		if (v->calm >= WATCH_HELD)
			end_event(w, step);
	} else if (v->state != WATCH_QUIET && v->kind != WATCH_DIVERGENCE) {
		continue_event(w, out, step, loss);
	} else if (v->state == WATCH_QUIET && open_suspect(w, step, loss)) {
		continue_event(w, out, step, loss);
	} else {
		add_normal(w, step, loss);
		watch_check_level(w, out, step, loss);
	}
	watch_judge_event(w, out, step);
}

/* ---- input ----------------------------------------------------------------------------------------------
 */

void watch_loss_rewind(struct watch_loss *w, int64_t step)
{
	watch_close_event(w);
	w->above_early = 0;
	if (w->loss_step == WATCH_NO_STEP || step >= w->loss_step)
		w->last_step = step;
	else
		watch_return_to(w, step);
}

void watch_loss_feed(struct watch_loss *w, int64_t step, double loss, struct watch_out *out)
{
	out->n_alarms = out->n_orders = 0;
	if (w->last_step != WATCH_NO_STEP && step < w->last_step && isfinite(loss))
		watch_loss_rewind(w, step - 1);
	if (w->first_step == WATCH_NO_STEP)
		w->first_step = step;
	if (!isfinite(loss)) {
		if (w->last_step == WATCH_NO_STEP || step > w->last_step)
			w->last_step = step;
		w->loss_step = step;
		add_nonfinite(w, out, step, step);
		return;
	}
	if (step == w->loss_step) /* another rank, or the line once more */
		return;
	if (w->loss_step != WATCH_NO_STEP)
		w->gaps[w->points % WATCH_GAPS] = step - w->loss_step;
	w->points++;
	w->last_step = w->loss_step = step;
	add_finite(w, out, step, loss);
}

void watch_loss_advance(struct watch_loss *w, int64_t step, struct watch_out *out)
{
	out->n_alarms = out->n_orders = 0;
	if (w->last_step == WATCH_NO_STEP || step <= w->last_step)
		return;
	w->last_step = step;
	int64_t cadence = watch_cadence(w), most = 5 * cadence;
	if (most < w->conf.missing_steps)
		most = w->conf.missing_steps;
	if (w->points && step - w->loss_step >= most)
		add_nonfinite(w, out, step, w->loss_step + cadence);
}
