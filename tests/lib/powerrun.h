/*
 * powerrun: one life of a program under test on a liedisk, in a process of its own, and what it acknowledged.
 */
#ifndef HEARTH_TESTS_LIB_POWERRUN_H
#define HEARTH_TESTS_LIB_POWERRUN_H

#include "tests/lib/liedisk.h"

struct power {
	const char *dir; /* emptied before the life, below it everything is watched */
	struct lie_plan plan;
	/* In the child: lives, calls power_tell for what it acknowledges; 0, else an exit status of its own. */
	int (*life)(struct power *p);
	/* In the parent: each word that was told, in order. */
	void (*told)(uint64_t word, void *arg);
	void *arg;
	/* result */
	int cut;         /* the power went */
	unsigned failed; /* calls that were made to fail */
	int fd;          /* powerrun's own */
};
/* Bails out when the life ends with anything but 0 or the cut. */
void power_run(struct power *p);
void power_tell(struct power *p, uint64_t word);

int power_soak(void); /* HEARTH_SOAK is set: take every place, not a sample */
/* A folder in memory for the test, as the disk is a model. */
void power_in_memory(void);

#endif
