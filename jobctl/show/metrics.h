/*
 * metrics: tables of metrics, for `metrics` and `show`.
 */
#ifndef HEARTH_JOBCTL_METRICS_H
#define HEARTH_JOBCTL_METRICS_H

#include <cjson/cJSON.h>

/* One line each of {NAME: {last, min, max, step, count, attempt, rank, ranks}}; nothing when there is none.
 * Of which attempt a line is stands there when it is not the newest of `attempts`. */
void metrics_table(const cJSON *metrics, double attempts);

#endif
