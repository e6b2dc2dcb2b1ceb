/*
 * files_keep: requests about checkpoints, see serve_watch.c and serve_keep.c. As files.h: for threads.
 */
#ifndef HEARTH_AGENT_FILES_FILES_KEEP_H
#define HEARTH_AGENT_FILES_FILES_KEEP_H

#include "agent/files/files.h"
#include "agent/files/listing.h"

/* The first request: held is the folder that the others name places of. */
int files_keep(struct files *f, int held, struct err *e);
/* From now on it works with less priority, on these CPUs ("3,4"; "": any), at most rate bytes a second (0: no
 * limit); idle: only when nothing else runs. */
int files_calm(struct files *f, const char *cpus, uint64_t rate, int idle, struct err *e);

/* Waits at most wait_ms for a change in the folder `dir` below the open folder ml. Returns 1 when out was
 * filled, 0 when nothing changed and force is 0. */
int files_watch(struct files *f, int ml, const char *dir, uint64_t wait_ms, int force, struct listing *out,
                struct err *e);
void files_hurry(struct files *f); /* from `step`: ends the wait of files_watch */

struct files_hold {
	int ml;
	const char *dir, *entry; /* dir below ml, entry below dir */
	const char *place;       /* its new name among the held ones */
	uint64_t print; /* of the entry (listing_print): ERR_CONFLICT when it has changed, ERR_NOT_FOUND: gone */
	uint64_t most;  /* bytes that may be held, 0 no limit: then ERR_LIMIT */
	int links;      /* hard links will do */
	int ranks; /* entry is the name of several (listing_rank_name), print the sum of listing_part_print */
	/* results */
	uint64_t bytes, files, held_print;
};
int files_hold(struct files *f, struct files_hold *h, struct err *e);

struct files_digest {
	uint64_t bytes, files;
	uint64_t print;   /* of a held one */
	uint64_t resumed; /* bytes of a copy that were there */
	char digest[HASH_HEX_SIZE];
};
/* what: place of a held one, or the absolute path of a folder. */
int files_digest(struct files *f, const char *what, struct files_digest *out, struct err *e);
/* Copies a held one to dir/where, with a manifest that begins with text; both are read back. */
int files_put_kept(struct files *f, const char *place, const char *dir, const char *where, const char *text,
                   struct files_digest *out, struct err *e);
/* The files of a held one have the digests that its hearth.json names; ERR_IO when not. */
int files_check(struct files *f, const char *place, struct err *e);
/* Removes a held one ("": none) and a copy outside (path of its folder, "": none). */
int files_drop(struct files *f, const char *place, const char *copy, struct err *e);

#endif
