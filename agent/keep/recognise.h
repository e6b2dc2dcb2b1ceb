/*
 * The room keep: the keeper finds the checkpoints of a launch on this node, holds each where the job cannot
 * change it, copies it out of the node, and reports it.
 *
 * recognise: which entries of a folder are whole checkpoints, and of which step. Pure: a listing, what was
 * seen before, and the moment go in.
 *
 * | format | complete when | step |
 * |---|---|---|
 * | hearth | hearth.json names the files, and their sizes fit; in a folder that is written again: and it is
 *   newer than they are | hearth.json |
 * | hf_trainer | checkpoint-N: trainer_state.json is whole, all is quiet, what is nested is complete | N |
 * | deepspeed | `latest` names it or a later one, all is quiet | N of global_stepN, else metric |
 * | megatron | iter_N: latest_checkpointed_iteration.txt names it or a later one | N |
 * | dcp | .metadata (or each rank's) is not older than any *.distcp | number in the name, else metric |
 * | lightning | *.ckpt with step=N, last.ckpt: quiet | N; last: as its equal file, else metric |
 * | rename | came by a rename | number in the name, else metric |
 * | overwrite | quiet; a name that was seen before, or one without a number | metric |
 * | plain | quiet; a folder only while no other one has a hearth.json | number in the name |
 *
 * A name with a number that is written again has no step in it, whoever wrote it first: this launch, or the
 * one that it goes on from. Only a second name that differs in the number shows that the number is a step:
 * until then no file of it is linked.
 *
 * Entries of formats rename, overwrite and plain that differ only in the number of a rank (ckpt_7_rank0.pt)
 * are one checkpoint. It is complete when all of them are quiet, and as many as before.
 *
 * Quiet: no process has it open for writing since KEEP_QUIET_US, and no rank ended badly meanwhile; or all
 * ranks have ended well. A node that is not the first of its launch may lack the marker of its checkpoint.
 */
#ifndef HEARTH_AGENT_KEEP_RECOGNISE_H
#define HEARTH_AGENT_KEEP_RECOGNISE_H

#include "agent/files/listing.h"

#define KEEP_QUIET_US 2000000u
#define KEEP_NAMES    512u /* entries that are remembered */
#define KEEP_DONE     512u /* checkpoints that are remembered */
#define KEEP_STEPS    256u
#define KEEP_RANKS    64u /* families of names; the oldest of more is forgotten */

struct keep_step {
	uint64_t at_us; /* wall clock */
	int64_t step;
};

struct keep_moment {
	uint64_t now_us;     /* wall clock */
	uint64_t from_us;    /* older entries are not of this launch */
	uint64_t bad_end_us; /* when the first rank ended badly; 0 none did */
	int over;            /* no process of the launch is left */
	int first_node;
	uint64_t room_bytes; /* that one checkpoint may have; 0 no limit */
	uint32_t n_steps;    /* the newest reported steps, in the order of time */
	struct keep_step steps[KEEP_STEPS];
};

struct keep_seen {
	char *name;
	uint64_t hash;      /* of the name */
	uint64_t print;     /* of its files */
	uint64_t since_us;  /* this print was first seen */
	uint64_t closed_us; /* first seen closed with this print; 0 it was open */
	uint64_t changed_us;
	unsigned times; /* different ones that were complete */
	int done;       /* this print was judged */
	int alive;      /* it was in the last listing */
	int fresh;      /* it was found in the last listing: a result names it */
};

/* One that was complete. Its name counts when its entry has gone, and when another agent goes on. */
struct keep_done {
	uint64_t name, family; /* hashes; family: of the name without its numbers */
	uint64_t print;
	uint64_t changed_us;
	int again; /* its name was there before */
};

struct keep_ranks {
	uint64_t family; /* hash of their name without its numbers */
	uint32_t before; /* most entries that were one checkpoint */
};

struct keep_memory { /* zeroed to begin with */
	struct keep_seen *seen;
	size_t n, cap;
	struct keep_done done[KEEP_DONE]; /* the oldest of too many is forgotten */
	size_t n_done;
	uint64_t
	    past_us; /* the last change of the newest that was forgotten: what is as old is not judged again */
	int full;    /* more than it remembers are being written: the others are not judged */
	struct keep_done before[KEEP_NAMES]; /* what the launch began with */
	size_t n_before;
	struct keep_ranks ranks[KEEP_RANKS];
	size_t n_ranks;
	int manifests; /* the program writes hearth.json: a folder without one is not complete */
};

struct keep_found {
	const char *name;   /* valid until the next look */
	const char *format; /* static */
	const char *step_by;
	int64_t step; /* -1 unknown */
	uint32_t shards, files;
	uint64_t bytes, print;
	uint64_t at_us, save_us; /* complete at; how long it was written, 0 unknown */
	int linkable;            /* its files are not written again under this name */
	int ranks;               /* name is the rank name of several (listing.h) */
	const char *torn;        /* why it never will be complete; NULL it is */
};

/* Returns how many were found, at most max, the newest first. *look_us: wall clock at which to list again
 * though nothing changes; 0 no need. */
size_t recognise(struct keep_memory *m, const struct listing *l, const struct keep_moment *at,
                 struct keep_found *out, size_t max, uint64_t *look_us);
struct keep_done keep_done_of(const char *name, uint64_t print, uint64_t changed_us);
/* Puts d into the list of *n; the one with the oldest change goes where there are KEEP_DONE. */
void keep_done_add(struct keep_done *list, size_t *n, const struct keep_done *d);
/* What an earlier agent found is not found again, and its name has no step when it is written again. */
void keep_memory_done(struct keep_memory *m, const struct keep_done *d);
/* Forgets that it was complete: it could not be held. */
void keep_memory_again(struct keep_memory *m, const char *name, uint64_t print);
void keep_memory_fini(struct keep_memory *m);

#endif
