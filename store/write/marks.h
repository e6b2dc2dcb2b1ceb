/*
 * marks: the high-water file of a store, next to the database: which ids may have been given.
 *
 * A database that is put back from a backup knows nothing of the ids that were given after it. The file
 * does: the marks in it are durable before an id below them is committed. The writer raises them in blocks,
 * so that a submit costs no further fsync. It also writes the newest event after each group, without fsync:
 * exact when hearthd is killed, and some seconds old after a power loss.
 *
 * A missing or damaged file stays one until marks_settle or the first mark. Zeros in its place would hide
 * from the next start that nobody knows the ids.
 *
 * A database whose newest event is below `last_event` is older than the file.
 */
#ifndef HEARTH_STORE_WRITE_MARKS_H
#define HEARTH_STORE_WRITE_MARKS_H

#include <stdint.h>

#include "common/base/err.h"

struct store_marks {
	uint64_t jobs, events; /* ids up to here may have been given */
	uint64_t last_event;   /* committed, or just below the first of an incarnation that begins */
};
/* Reads the file. 1 read, 0 missing, -1 damaged or unreadable. */
int store_marks_read(const char *path, struct store_marks *m, struct err *e);

struct marks { /* the writer's */
	int fd;    /* -1: the store has no such file */
	struct store_marks m;
	int is_sound; /* the file has m */
	int failed;   /* the newest event could not be written: logged once */
};
/* Opens the file, or makes an empty one. path NULL: none. */
int marks_open(struct marks *k, const char *path, struct err *e);
void marks_close(struct marks *k);
/* Makes marks durable that are at least those; writes a missing or damaged file. */
int marks_settle(struct marks *k, const struct store_marks *least, struct err *e);
/* Makes marks durable that are at least job and event. On -1 nothing may be committed. */
int marks_raise(struct marks *k, uint64_t job, uint64_t event, struct err *e);
/* Writes the newest committed event, if the file is sound. */
void marks_note(struct marks *k, uint64_t event);

#endif
