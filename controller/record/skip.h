/*
 * skip: the steps whose data a program leaves out after rollbacks, as the text of HEARTH_SKIP_STEPS:
 * "100-150,300-420", both ends included, in order, without overlaps. Pure.
 */
#ifndef HEARTH_CONTROLLER_RECORD_SKIP_H
#define HEARTH_CONTROLLER_RECORD_SKIP_H

#include <stdint.h>

#define SKIP_RANGES 64 /* of a list; more are joined over the smallest gap */

/* Returns the list with first to last added; malloc'ed. Ranges that meet become one. list NULL: empty. A
 * range of an invalid list is left out. */
char *skip_add(const char *list, int64_t first, int64_t last);

#endif
