/*
 * manylogs: the output of several ranks together: `jobctl logs JOB --rank all`, `0-3`, `0,2`.
 *
 * Lines of a past attempt come in the order of their times (each node's own clock); lines of a followed
 * attempt come as they arrive. Each has its rank in front. A line is shown when it is complete.
 *
 * Memory has at most MANYLOGS_BYTES of all ranks together, including incomplete lines. A rank reads ahead as
 * far as its share allows. A line longer than its share is shown in parts (64 KiB, less for more than 128
 * ranks). Above 1,024 ranks the share is 16 KiB per rank. In addition memory has one event of at most 4 MiB.
 */
#ifndef HEARTH_JOBCTL_SHOW_MANYLOGS_H
#define HEARTH_JOBCTL_SHOW_MANYLOGS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct ctx;
struct grep;

#define MANYLOGS_BYTES (16u * 1024 * 1024)
#define MANYLOGS_RANKS 65536u

/* A set of ranks: all, or numbers and ranges. */
struct rank_set {
	int all;
	struct {
		uint32_t from, to;
	} * parts;
	size_t n;
};
/* Parses "all", "0-3" or "0,2". Pure, for tests. */
int rank_set_parse(const char *text, struct rank_set *s, struct err *e);
int rank_set_has(const struct rank_set *s, uint32_t rank);
void rank_set_fini(struct rank_set *s);
/* Returns whether text names several ranks: "all", "0-3", "0,2". */
int rank_set_is(const char *text);

struct manylogs_ask {
	uint64_t job, attempt; /* attempt 0: the newest, then those that follow */
	struct rank_set ranks;
	int follow, tail;
	uint64_t tail_lines; /* lines of each rank */
	struct grep *only;   /* NULL: all lines */
};

/* Shows the lines. Returns 0, -1 (c->err is set) or EXIT_INTERRUPTED. *any: something was shown. */
int manylogs_show(struct ctx *c, const struct manylogs_ask *ask, int *any);

#endif
