/*
 * q_metric: metrics for the page of a job.
 */
#ifndef HEARTH_STORE_READ_Q_METRIC_H
#define HEARTH_STORE_READ_Q_METRIC_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "store/read/reader.h"

/* {NAME: {last, min, max, ...}} as store_metrics_json; also of metrics that were removed. */
cJSON *metrics_summary(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt, struct err *e);

#endif
