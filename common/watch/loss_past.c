/* loss_past: which points the run has at an earlier step, so that a return compares with the level there. */
#include <math.h>
#include <string.h>

#include "common/watch/loss_int.h"

#define MOST_OF_PAST 40 /* points of the level, where the window had none */

struct earlier { /* points at or before a step, oldest first */
	int64_t steps[WATCH_PAST + WATCH_WINDOW];
	double values[WATCH_PAST + WATCH_WINDOW];
	uint32_t n, of_window;
};

void watch_past_add(struct watch_past *p, int64_t step, double v)
{
	if (p->every > 1 && ++p->skipped < p->every)
		return;
	p->skipped = 0;
	if (p->n == WATCH_PAST) {
		for (int64_t i = 0; i < WATCH_PAST / 2; i++) {
			p->step[i] = p->step[2 * i];
			p->value[i] = p->value[2 * i];
		}
		p->n = WATCH_PAST / 2;
		p->every = p->every > 1 ? 2 * p->every : 2;
	}
	p->step[p->n] = step;
	p->value[p->n++] = v;
}

static int64_t window_step(const struct watch_loss *w, uint32_t i)
{
	return w->window_steps[(w->window.at + i) % WATCH_WINDOW];
}

static void collect_until(const struct watch_loss *w, int64_t step, struct earlier *e)
{
	e->n = e->of_window = 0;
	for (int64_t i = 0; i < w->past.n; i++) {
		if (w->past.step[i] > step || (w->window.n && w->past.step[i] >= window_step(w, 0)))
			break;
		e->steps[e->n] = w->past.step[i];
		e->values[e->n++] = w->past.value[i];
	}
	for (uint32_t i = 0; i < w->window.n && window_step(w, i) <= step; i++, e->of_window++) {
		e->steps[e->n] = window_step(w, i);
		e->values[e->n++] = w->window.ring[(w->window.at + i) % WATCH_WINDOW];
	}
}

/* Returns the first of the points that show the level at `step`: points of the window, or the newest ones of
 * the second half of the way. Older ones were at another level. */
static uint32_t first_of_level(const struct watch_loss *w, const struct earlier *e, int64_t step)
{
	uint32_t most = e->of_window > MOST_OF_PAST ? e->of_window : MOST_OF_PAST;
	uint32_t i = e->n > most ? e->n - most : 0;
	int64_t way = (step - w->first_step) / 2;
	if (way < WATCH_WINDOW)
		way = WATCH_WINDOW;
	while (i < e->n && e->steps[i] <= step - way)
		i++;
	return i;
}

/* What the run shows from here on is new, but the onsets it has shown stay known. */
static void start_again(struct watch_loss *w)
{
	struct watch_loss old = *w;
	*w = (struct watch_loss){.conf = old.conf,
	                         .source = old.source,
	                         .first_step = WATCH_NO_STEP,
	                         .last_step = WATCH_NO_STEP,
	                         .loss_step = WATCH_NO_STEP,
	                         .best_early = INFINITY,
	                         .best_level = INFINITY,
	                         .n_marks = old.n_marks,
	                         .rollbacks = old.rollbacks,
	                         .stopped = old.stopped};
	memcpy(w->marks, old.marks, sizeof(w->marks));
}

static void cut_bests(struct watch_loss *w, int64_t step)
{
	if (w->best_early_step > step) {
		w->best_early = watch_recent_median(w);
		w->best_early_step = step;
	}
	if (w->best_level_step > step) {
		w->best_level = watch_window_median(&w->window);
		w->best_level_step = step;
	}
}

void watch_return_to(struct watch_loss *w, int64_t step)
{
	struct earlier e;
	collect_until(w, step, &e);
	uint32_t from = first_of_level(w, &e, step);
	if (e.n - from < WATCH_MIN_POINTS) {
		start_again(w);
		return;
	}
	watch_window_clear(&w->window);
	w->n_recent = 0;
	for (uint32_t i = from; i < e.n; i++)
		watch_window_add(w, e.steps[i], e.values[i]);
	for (uint32_t i = e.n - WATCH_RECENT; i < e.n; i++)
		w->recent[w->n_recent++] = e.values[i];
	while (w->past.n && w->past.step[w->past.n - 1] > step)
		w->past.n--;
	watch_blocks_cut(&w->trend, step);
	cut_bests(w, step);
	w->last_step = w->loss_step = step;
}
