/* loss_level: changes too slow for a spike: the level rises from its best (divergence), or falls no more. */
#include <math.h>

#include "common/watch/loss_int.h"

#define EARLY_SHARE 0.15 /* at the start the level is a median of few points */
#define EARLY_SIGMA 6
#define EARLY_FIRST 20 /* points before anything is judged */
#define EARLY_ABOVE 5  /* points in a row */

/* ---- blocks ------------------------------------------------------------------------------------------- */

static void merge_blocks(struct watch_blocks *b)
{
	for (int i = 0; i < WATCH_BLOCKS / 2; i++) {
		b->sum[i] = b->sum[2 * i] + b->sum[2 * i + 1];
		b->squares[i] = b->squares[2 * i] + b->squares[2 * i + 1];
		b->count[i] = b->count[2 * i] + b->count[2 * i + 1];
		b->first[i] = b->first[2 * i];
	}
	b->n = WATCH_BLOCKS / 2;
	b->per *= 2;
}

void watch_blocks_add(struct watch_blocks *b, int64_t step, double v)
{
	if (!b->n) {
		b->per = 1;
		b->zero = v;
	}
	if (!b->n || b->count[b->n - 1] == b->per) {
		if (b->n == WATCH_BLOCKS)
			merge_blocks(b);
		int64_t i = b->n++;
		b->sum[i] = b->squares[i] = 0;
		b->count[i] = 0;
		b->first[i] = step;
	}
	int64_t i = b->n - 1;
	v -= b->zero;
	b->sum[i] += v;
	b->squares[i] += v * v;
	b->count[i]++;
}

void watch_blocks_cut(struct watch_blocks *b, int64_t step)
{
	int64_t n = 0;
	while (n + 1 < b->n && b->first[n + 1] <= step + 1)
		n++;
	b->n = n;
}

double watch_blocks_mean(const struct watch_blocks *b, int64_t from, int64_t to, double *se)
{
	double sum = 0, within = 0;
	int64_t n = 0;
	for (int64_t i = from; i < to; i++) {
		sum += b->sum[i];
		within += b->squares[i] - b->sum[i] * b->sum[i] / (double)b->count[i];
		n += b->count[i];
	}
	if (se)
		*se = n > to - from ? sqrt(fmax(within, 0) / (double)(n - (to - from)) / (double)n) : INFINITY;
	return n ? b->zero + sum / (double)n : NAN;
}

double watch_size(const struct watch_loss *w, double loss, double part)
{
	double fallen = w->trend.n ? watch_blocks_mean(&w->trend, 0, 1, NULL) - loss : 0;
	return fmax(fabs(loss), part * fallen);
}

/* ---- divergence ------------------------------------------------------------------------------------------
 */

static void open_divergence(struct watch_loss *w, struct watch_out *out, int64_t step, double loss,
                            double best, int64_t onset, double high)
{
	w->event = (struct watch_event){.state = WATCH_SUSPECT,
	                                .kind = WATCH_DIVERGENCE,
	                                .sign = 1,
	                                .onset = onset,
	                                .last_bad = step,
	                                .acted_step = WATCH_NO_STEP,
	                                .reference = best,
	                                .high = high,
	                                .low = high / 2};
	watch_add_alarm(w, out, step, loss);
}

static void check_early(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	if (w->points < EARLY_FIRST / 2)
		return;
	double level = watch_recent_median(w);
	if (level < w->best_early) {
		w->best_early = level;
		w->best_early_step = step;
		w->above_early = 0;
		return;
	}
	double share = EARLY_SHARE * watch_size(w, w->best_early, 1);
	if (level - w->best_early <= share || w->points < EARLY_FIRST) {
		w->above_early = 0;
		return;
	}
	double high = fmax(share, EARLY_SIGMA * watch_window_noise(&w->window));
	w->above_early = level - w->best_early > high ? w->above_early + 1 : 0;
	if (w->above_early >= EARLY_ABOVE)
		open_divergence(w, out, step, loss, w->best_early, w->best_early_step, high);
}

static void check_late(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	double level = watch_window_median(&w->window);
	if (level < w->best_level) {
		w->best_level = level;
		w->best_level_step = step;
		return;
	}
	double share = w->conf.divergence_share * watch_size(w, w->best_level, 0.5);
	if (level - w->best_level <= share)
		return;
	double high = fmax(share, w->conf.divergence_sigma * watch_window_sigma(&w->window));
	if (level - w->best_level > high)
		open_divergence(w, out, step, loss, w->best_level, w->best_level_step, high);
}

/* The open divergence: healed, or the new level. */
static void follow_divergence(struct watch_loss *w, int64_t step)
{
	const struct watch_event *v = &w->event;
	int old = step - v->alarm_step >= 3 * w->conf.patience_steps &&
	          (w->conf.on[v->kind] < WATCH_ROLLBACK || w->stopped);
	double level = watch_recent_median(w);
	w->event.last_bad = step;
	if (level - v->reference > v->low && !old)
		return;
	watch_close_event(w);
	w->best_early = w->best_level = INFINITY;
	w->above_early = 0;
}

/* ---- plateau
 * ------------------------------------------------------------------------------------------------ */

static void check_plateau(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	const struct watch_blocks *b = &w->trend;
	int64_t quarter = b->n / 4;
	if (b->n < WATCH_BLOCKS / 2 || b->count[b->n - 1] != b->per || b->per < 4)
		return;
	int64_t half = b->n - 2 * quarter;
	if (step - b->first[half] < w->conf.plateau_steps)
		return;
	double se_now, se_before, now = watch_blocks_mean(b, b->n - quarter, b->n, &se_now);
	double before = watch_blocks_mean(b, half, b->n - quarter, &se_before);
	double whole = fmax(fabs(now), fabs(watch_blocks_mean(b, 0, 1, NULL) - now));
	double least = w->conf.plateau_share * whole, error = 2 * sqrt(se_now * se_now + se_before * se_before);
	if (w->plateau_marked && now < w->plateau_level - 2 * least - error)
		w->plateau_marked = 0;
	/* Without enough points to see an improvement, nothing is said. */
	if (w->plateau_marked || fabs(before - now) + error > least)
		return;
	w->plateau_marked = 1;
	w->plateau_level = now;
	w->event = (struct watch_event){.state = WATCH_SUSPECT,
	                                .kind = WATCH_PLATEAU,
	                                .sign = 1,
	                                .onset = b->first[half],
	                                .acted_step = WATCH_NO_STEP,
	                                .reference = before};
	watch_add_alarm(w, out, step, loss);
	if (!w->event.reopened)
		watch_order_now(w, out, step, "no longer improves");
	watch_close_event(w);
}

void watch_check_level(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	if (w->event.state == WATCH_ALARMED) {
		follow_divergence(w, step);
		return;
	}
	/* Such a level wanders: not a divergence. */
	if (watch_is_around_zero(&w->window))
		w->above_early = 0;
	else if (w->points < WATCH_WINDOW)
		check_early(w, out, step, loss);
	else if (w->window.n >= watch_window_points(w) / 2)
		check_late(w, out, step, loss);
	if (w->event.state == WATCH_QUIET)
		check_plateau(w, out, step, loss);
}
