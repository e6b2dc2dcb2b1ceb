/*
 * metric_sum: what one row tells of a metric whose points came from several ranks and attempts: the newest
 * attempt that has it and, there, the lowest rank. Numbers of different attempts or ranks are never mixed.
 */
#ifndef HEARTH_STORE_BASE_METRIC_SUM_H
#define HEARTH_STORE_BASE_METRIC_SUM_H

#include <stdint.h>

#include "common/base/err.h"
#include "store/base/sqlh.h"

/* Columns and order of the statement that metric_sums walks over metric_series. */
#define METRIC_SUM_COLUMNS "name, points, last_bits, min_bits, max_bits, last_step, last_us, attempt, rank"
#define METRIC_SUM_ORDER   "ORDER BY name, attempt DESC, rank, last_us DESC"

struct metric_sum {
	char *name;
	double last, min, max; /* NaN as min or max: there was no number */
	uint64_t points, last_us;
	int64_t step; /* of `last`; -1 none */
	uint32_t attempt, rank;
	uint32_t ranks; /* that reported it in that attempt */
};

/* fn for each name, *sum is valid during the call. rank -1: the lowest that has it, else only that one.
 * Stops when fn gives -1. */
int metric_sums(sqlite3_stmt *st, int64_t rank, int (*fn)(const struct metric_sum *sum, void *arg), void *arg,
                struct err *e);
double metric_real(sqlite3_stmt *st, int col); /* a double that the column holds as its 64 bits */

#endif
