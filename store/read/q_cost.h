/*
 * q_cost: sums of what attempts cost.
 */
#ifndef HEARTH_STORE_READ_Q_COST_H
#define HEARTH_STORE_READ_Q_COST_H

#include <stdint.h>

#include "store/base/rows.h"
#include "store/read/reader.h"

/* Returns the statement that reads the attempts that count: of one job or (0) of all. */
const char *cost_statement(uint64_t job);
/* Sums up what the members of an array have cost so far, and what the running ones cost an hour: millionths
 * of a US dollar. */
int members_cost(struct store_reader *r, const struct job_row *row, double *uusd, double *price,
                 struct err *e);

#endif
