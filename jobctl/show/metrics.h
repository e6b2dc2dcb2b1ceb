/*
 * metrics: tables of metrics, for `metrics` and `show`.
 */
#ifndef HEARTH_JOBCTL_SHOW_METRICS_H
#define HEARTH_JOBCTL_SHOW_METRICS_H

#include <cjson/cJSON.h>

/* Prints one line for each of {NAME: {last, min, max, step, count, attempt, rank, ranks}}. A line names its
 * attempt unless it is number `attempts`, the newest. */
void metrics_table(const cJSON *metrics, double attempts);

#endif
