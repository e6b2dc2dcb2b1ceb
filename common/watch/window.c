/* window: see window.h. */
#include "common/watch/window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGMA_OF_MAD 1.4826

/* Returns the index of the first sorted value that is not below v. */
static uint32_t lower_bound(const struct watch_window *w, double v)
{
	uint32_t lo = 0, hi = w->n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (w->sorted[mid] < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void drop_oldest(struct watch_window *w)
{
	uint32_t i = lower_bound(w, w->ring[w->at]);
	memmove(w->sorted + i, w->sorted + i + 1, (w->n - i - 1) * sizeof(double));
	w->at = (w->at + 1) % WATCH_WINDOW;
	w->n--;
}

void watch_window_push(struct watch_window *w, double v, uint32_t most)
{
	while (w->n >= most)
		drop_oldest(w);
	uint32_t i = lower_bound(w, v);
	memmove(w->sorted + i + 1, w->sorted + i, (w->n - i) * sizeof(double));
	w->sorted[i] = v;
	w->ring[(w->at + w->n) % WATCH_WINDOW] = v;
	w->n++;
}

void watch_window_clear(struct watch_window *w)
{
	w->n = w->at = 0;
}

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void watch_window_sort(struct watch_window *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		w->sorted[i] = w->ring[(w->at + i) % WATCH_WINDOW];
	qsort(w->sorted, w->n, sizeof(double), compare_values);
}

double watch_median(double *v, uint32_t n)
{
	qsort(v, n, sizeof(double), compare_values);
	return n % 2 ? v[n / 2] : v[n / 2 - 1] + (v[n / 2] - v[n / 2 - 1]) / 2;
}

double watch_window_median(const struct watch_window *w)
{
	const double *v = w->sorted + w->n / 2;
	if (!w->n)
		return 0;
	return w->n % 2 ? v[0] : v[-1] + (v[0] - v[-1]) / 2;
}

int watch_is_around_zero(const struct watch_window *w)
{
	return w->n && w->sorted[0] < 0 && w->sorted[w->n - 1] > 0;
}

double watch_window_sigma(const struct watch_window *w)
{
	double m = watch_window_median(w), mad = 0;
	uint32_t lo = lower_bound(w, m), hi = lo;
	/* The deviations grow to both sides of the median: a merge of the two sides finds the middle one. */
	for (uint32_t k = 0; k < w->n / 2 + 1 && k < w->n; k++) {
		double below = lo > 0 ? m - w->sorted[lo - 1] : INFINITY,
		       above = hi < w->n ? w->sorted[hi] - m : INFINITY;
		if (below < above)
			lo--;
		else
			hi++;
		mad = below < above ? below : above;
	}
	return SIGMA_OF_MAD * mad;
}

double watch_window_least(const struct watch_window *w, uint32_t newest)
{
	double least = INFINITY;
	for (uint32_t i = w->n > newest ? w->n - newest : 0; i < w->n; i++)
		least = fmin(least, w->ring[(w->at + i) % WATCH_WINDOW]);
	return least;
}

double watch_window_near(const struct watch_window *w, uint32_t newest, double *sigma)
{
	double v[WATCH_WINDOW], m;
	uint32_t n = w->n < newest ? w->n : newest;
	for (uint32_t i = 0; i < n; i++)
		v[i] = w->ring[(w->at + w->n - n + i) % WATCH_WINDOW];
	m = n ? watch_median(v, n) : 0;
	for (uint32_t i = 0; i < n; i++)
		v[i] = fabs(v[i] - m);
	*sigma = n ? SIGMA_OF_MAD * watch_median(v, n) : 0;
	return m;
}

#define FAR_APART 8 /* points; noise with a memory, and a smoothed loss, hardly differ between neighbours */

static double noise_at(const struct watch_window *win, uint32_t apart)
{
	double d[WATCH_WINDOW], middle;
	uint32_t n = 0;
	for (uint32_t i = apart; i < win->n; i++)
		d[n++] = win->ring[(win->at + i) % WATCH_WINDOW] - win->ring[(win->at + i - apart) % WATCH_WINDOW];
	if (!n)
		return 0;
	middle = watch_median(d, n);
	for (uint32_t i = 0; i < n; i++)
		d[i] = fabs(d[i] - middle);
	return SIGMA_OF_MAD * watch_median(d, n) / M_SQRT2;
}

double watch_window_noise(const struct watch_window *w)
{
	return fmax(noise_at(w, 1), noise_at(w, FAR_APART));
}
