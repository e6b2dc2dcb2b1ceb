/*
 * manylogs: the output of several ranks together: `jobctl logs JOB --rank all`, `0-3`, `0,2`.
 *
 * Of an attempt that is over the lines come in the order of their times (each node's own clock); of one that
 * is followed as they come. Each has its rank in front. Whole lines only: one that is still being written
 * waits for its end.
 *
 * In memory are at most MANYLOGS_BYTES of all ranks together, lines that are not complete among them: a rank
 * may have read ahead what its share allows, however short its lines, and a line that is longer than its
 * share is shown in parts (64 KiB, less for more than 128 ranks). Above 1,024 ranks it is 16 KiB a rank.
 * Beside that there is one event, of 4 MiB at most.
 */
#ifndef HEARTH_JOBCTL_MANYLOGS_H
#define HEARTH_JOBCTL_MANYLOGS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct ctx;
struct grep;

#define MANYLOGS_BYTES (16u * 1024 * 1024)
#define MANYLOGS_RANKS 65536u

/* Which ranks: "all", or numbers and ranges. */
struct rank_set {
	int all;
	struct {
		uint32_t from, to;
	} * parts;
	size_t n;
};
/* Pure, for tests. -1: no such thing; e says what is expected. */
int rank_set_parse(const char *text, struct rank_set *s, struct err *e);
int rank_set_has(const struct rank_set *s, uint32_t rank);
void rank_set_fini(struct rank_set *s);
/* "all", "0-3", "0,2": more than one rank, or it is no number. */
int rank_set_is(const char *text);

struct manylogs_ask {
	uint64_t job, attempt; /* attempt 0: the newest, then those that follow */
	struct rank_set ranks;
	int follow, tail;
	uint64_t tail_lines; /* of each */
	struct grep *only;   /* NULL all lines */
};

/* 0, -1 with c->err, EXIT_INTERRUPTED. *any: something was shown. */
int manylogs_show(struct ctx *c, const struct manylogs_ask *ask, int *any);

#endif
