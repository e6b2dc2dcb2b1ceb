/*
 * steps: which steps a folder of checkpoints holds. The step of an entry is the last whole number in its name
 * (step-1200, model_1200.pt), up to 2^53. Pure.
 */
#ifndef HEARTH_COMMON_TREE_STEPS_H
#define HEARTH_COMMON_TREE_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define STEPS_SHOWN 12     /* named in an error */
#define STEPS_MAX   100000 /* kept; of more the rest is only looked for */

struct steps { /* zeroed to begin with */
	int64_t want;
	int64_t *v;    /* once sorted: ascending, each once */
	size_t n, cap; /* as many as are kept */
	int found;     /* want is among them */
	int full;      /* no more are kept */
};

/* The step of an entry that is a checkpoint: not of a hidden one, nor of one that is still being written by
 * its name (step-8.tmp, step-8.part, step-8.partial, step-8~, tmp-step-8, tmp_step-8). -1: none. */
int64_t steps_entry(const char *name, size_t n);
int steps_is_unfinished(const char *name, size_t n);   /* by its name: one of those, or hidden, or empty */
int64_t steps_last_number(const char *name, size_t n); /* -1: none */
/* Is it an entry, by its path in a folder of checkpoints (or in a node's folder algo-K there), of a step
 * after `last`? last -1: never. */
int steps_is_later(const char *relpath, int64_t last);
/* Adds the name of an entry; names of other things than checkpoints are ignored. */
void steps_add(struct steps *s, const char *name, size_t n);
void steps_sort(struct steps *s);
/* Adds those of a folder of checkpoints, by its manifest (tree.h), sorted. A run on several nodes has a
 * folder algo-K for each node, with the entries inside. */
int steps_of_tree(const char *manifest, size_t n, struct steps *s, struct err *e);
void steps_merge(struct steps *s, const struct steps *other); /* what either holds */
void steps_common(struct steps *s, struct steps *other);      /* what both hold */
/* 0 want is there; ERR_NOT_FOUND names the steps that there are, in their order. */
int steps_check(struct steps *s, struct err *e);
void steps_fini(struct steps *s);

#endif
