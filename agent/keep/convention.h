/*
 * convention: what the frameworks call their checkpoints, and by which marks an entry is whole. Pure.
 */
#ifndef HEARTH_AGENT_KEEP_CONVENTION_H
#define HEARTH_AGENT_KEEP_CONVENTION_H

#include "agent/keep/recognise.h"

enum mark {
	MARK_NONE,    /* no checkpoint: a marker, an unfinished name, other things */
	MARK_INSIDE,  /* a folder of checkpoints: look below it */
	MARK_NEVER,   /* no step to resume from, such as a Megatron `release` */
	MARK_MISSING, /* its marker says that it is not whole yet */
	MARK_QUIET,   /* whole when it is closed and quiet */
	MARK_WHOLE,   /* its marker says so */
};

struct convention {
	enum mark mark;
	const char *format;  /* static */
	int64_t step;        /* -1: not by the convention */
	const char *step_by; /* with a step: hearth.json, table, name */
	uint32_t shards;
	uint64_t marked_us; /* wall clock: its hearth.json was written */
	int linkable;       /* its name has the step: it is not written again */
};

/* The entries of one folder, from first to end, and what an entry is compared with: so that no entry walks
 * all others. */
struct siblings {
	const struct listing *l;
	size_t first, end;
	const struct listing_item *latest, *tracker; /* markers; NULL none */
	const struct listing_item **steps;           /* Lightning's files with a step, by size and time */
	const struct listing_item **inodes;          /* the same, by inode */
	size_t n_steps;
};
void siblings_init(struct siblings *f, const struct listing *l, size_t first, size_t end);
void siblings_fini(struct siblings *f);

/* Item i among the entries of one folder. */
struct convention convention_of(const struct siblings *f, size_t i, const struct keep_moment *at);

int convention_is_deepspeed(const char *name); /* a file with a part of such a checkpoint */

#endif
