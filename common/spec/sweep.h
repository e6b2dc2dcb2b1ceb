/*
 * sweep: a space of hyperparameters and its members. Pure: the same space, method and seed always give the
 * same members, so they are never stored as a list.
 *
 * A grid has one member for each combination; the axis that is named last changes fastest. At random, member
 * i follows from the seed and i alone: where every axis has a bounded number of values no combination comes
 * twice, else each axis is drawn for itself (a linear or log axis without a count is continuous).
 */
#ifndef HEARTH_COMMON_SPEC_SWEEP_H
#define HEARTH_COMMON_SPEC_SWEEP_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#define SWEEP_MAX_MEMBERS 10000
#define SWEEP_MAX_AXES    32
#define SWEEP_MAX_VALUES  10000 /* in one list */

enum sweep_kind { SWEEP_LIST, SWEEP_RANGE, SWEEP_LINEAR, SWEEP_LOG };

struct sweep_axis {
	char *name;
	enum sweep_kind kind;
	cJSON *list;    /* LIST: the values; owned */
	double lo, hi;  /* of the others; both ends belong to them */
	double step;    /* RANGE */
	uint32_t count; /* LINEAR, LOG: values, spread evenly; 0: any between the ends (at random only) */
};

struct sweep {
	struct sweep_axis *axes; /* in the order of the text */
	size_t n_axes;           /* 0: none */
	int empty;               /* it is there, and names nothing */
	int random;              /* 0: grid */
	uint32_t samples;        /* at random */
	uint64_t seed;
};

/* Values on an axis; 0: it is continuous. */
uint64_t sweep_axis_values(const struct sweep_axis *a);
/* Combinations; UINT64_MAX when there are more than 2^53, 0 when an axis is continuous. */
uint64_t sweep_combinations(const struct sweep *s);
/* Members: combinations of a grid, or samples. */
uint64_t sweep_members(const struct sweep *s);
/* {name: value} of one member; the caller's. */
cJSON *sweep_values(const struct sweep *s, uint32_t index);
void sweep_fini(struct sweep *s);

#endif
