/* sched_slow_int: what the files of sched_slow share. */
#ifndef HEARTH_TESTS_UNIT_SCHEDULER_SCHED_SLOW_INT_H
#define HEARTH_TESTS_UNIT_SCHEDULER_SCHED_SLOW_INT_H
#include "tests/unit/scheduler/sched_slow.h"

/* Whose things count as given back. */
struct slow_gone {
	uint64_t by_s; /* whoever ends until then; 0 nobody */
	int all, by_limits;
	const unsigned *ids;
	size_t n;
};

struct slow_room { /* what is free on a node */
	int open, gpus, slots, memory, holders, exclusive;
};
/* 0 an own part with its environment, 1 an own part, 2 cold room, 3 parts give way. */
int slow_warmth(const struct slow_look *l, const struct slow_room *r, int node, unsigned group,
                uint64_t *order);
/* Does a part of the pool that it wants suffice there? */
int slow_pool_suffices(const struct slow_look *l, int node, unsigned group);
int slow_any_pools(const struct slow *w);

int slow_lane_of(const struct slow_job *j);
const struct slow_shape *slow_shape_of(const struct slow *w, const struct slow_job *j);
unsigned slow_bits(unsigned mask);
uint64_t slow_end_of(const struct slow *w, const struct slow_job *j, int by_limits);
/* How long one that starts is taken to run, where a place is kept for that one. */
uint64_t slow_time_of(const struct slow *w, const struct slow_job *j, unsigned head);
int slow_fits_at(const struct slow *w, const struct slow_job *j, const struct slow_gone *g, uint64_t at_s,
                 int books);
int slow_hopeless(const struct slow *w, const struct slow_job *j);
/* blind: as if there were no pools. */
int slow_place_now(const struct slow *w, const struct slow_job *j, int blind, int *place);
int slow_by_age(const struct slow *w, unsigned a, unsigned b);
/* The first of those that keep places and wait for others that can have them now; 0 none. */
unsigned slow_replace(const struct slow *w, int *place);

#endif
