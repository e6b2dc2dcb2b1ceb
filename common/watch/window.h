/*
 * window: the last WATCH_WINDOW values of a series, with their median and spread. A push costs O(window)
 * moves of memory, a question O(window) comparisons.
 */
#ifndef HEARTH_COMMON_WATCH_WINDOW_H
#define HEARTH_COMMON_WATCH_WINDOW_H

#include <stdint.h>

#define WATCH_WINDOW 200

struct watch_window {
	uint32_t n;                  /* values present */
	double ring[WATCH_WINDOW];   /* oldest first, from `at` */
	double sorted[WATCH_WINDOW]; /* the same values; rebuilt by watch_window_sort, never stored */
	uint32_t at;
};

/* Adds a finite value; the oldest ones go until at most `most` (1 to WATCH_WINDOW) are present. */
void watch_window_push(struct watch_window *w, double v, uint32_t most);
void watch_window_clear(struct watch_window *w);
void watch_window_sort(struct watch_window *w); /* after the ring was loaded */
double watch_window_median(const struct watch_window *w);
/* 1.4826 x median absolute deviation: the standard deviation of normal noise, whatever outliers do. */
double watch_window_sigma(const struct watch_window *w);
/* Are there values on both sides of zero? Such a series has no size to take a share of. */
int watch_is_around_zero(const struct watch_window *w);
double watch_window_least(const struct watch_window *w, uint32_t newest); /* of so many; INFINITY of none */
/* Median of so many newest values, and in *sigma their spread, as watch_window_sigma. */
double watch_window_near(const struct watch_window *w, uint32_t newest, double *sigma);
/* Standard deviation of the noise, from differences: a falling level does not count as noise. */
double watch_window_noise(const struct watch_window *w);
double watch_median(double *v, uint32_t n); /* sorts v; n > 0 */

#endif
