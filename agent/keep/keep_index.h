/*
 * keep_index: DATA/held/J.A/index, as JSON: what is held of one launch, and what was. The agent alone writes
 * it.
 */
#ifndef HEARTH_AGENT_KEEP_KEEP_INDEX_H
#define HEARTH_AGENT_KEEP_KEEP_INDEX_H

#include "agent/keep/recognise.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include <stddef.h>
#include <stdint.h>

struct keep_entry {
	uint64_t seq;
	int64_t step;
	char *name, *format, *step_by;
	uint8_t state; /* enum ckpt_state */
	uint32_t shards, files;
	uint64_t bytes, at_us, save_ms;
	char digest[HASH_HEX_SIZE]; /* "" not known yet */
	char *uri;
	uint64_t print, held_print;
	/* not stored */
	unsigned tries;
	uint64_t retry_us;
};

/* A held one that goes: nothing of it counts any more, but its bytes. */
struct keep_removal {
	uint64_t seq, bytes;
	char *copy; /* path of a copy outside that goes with it; "" none */
};

#define KEEP_REMOVALS    256u
#define KEEP_SAVED_STEPS 16u

struct keep_index {
	struct keep_entry *v;
	size_t n;
	uint64_t next_seq;
	struct keep_removal *removing;
	size_t n_removing;
	struct keep_step steps[KEEP_SAVED_STEPS]; /* the newest that were reported, in the order of time */
	uint32_t n_steps;
	struct keep_done done[KEEP_DONE]; /* all that were held, also those that have gone since */
	size_t n_done;
};

void keep_entry_fini(struct keep_entry *en);
void keep_index_fini(struct keep_index *x);
struct keep_entry *keep_index_add(struct keep_index *x); /* zeroed */
struct keep_entry *keep_index_find(const struct keep_index *x, uint64_t seq);
/* a was complete after b: numbers of places follow the order in which they were found. */
int keep_entry_newer(const struct keep_entry *a, const struct keep_entry *b);
/* Moves an entry to those that are being removed; of KEEP_REMOVALS the oldest is forgotten. 0: none has that
 * number. copy: NULL none. */
int keep_index_drop(struct keep_index *x, uint64_t seq, const char *copy);
/* Its copy in hearthd's store does not count. NULL: none of that number has one. */
struct keep_entry *keep_index_again(struct keep_index *x, uint64_t seq);
int keep_index_removed(struct keep_index *x, uint64_t seq); /* it is done. 0: none was being removed */
/* Copies the newest of m into the index. */
void keep_index_set_steps(struct keep_index *x, const struct keep_moment *m);
int keep_index_save(const struct keep_index *x, const char *dir, struct err *e);
/* A missing one is empty. */
int keep_index_load(struct keep_index *x, const char *dir, struct err *e);

#endif
