/*
 * disk_space: how much space the file system of DATA has left, and whether that is too little for new work.
 *
 * On a full disk the next write fails, whichever it is: a large submit fails, then the small write that
 * tries the store again succeeds, and all agents report their full state again, each time. So hearthd
 * refuses new work below a mark and leaves the rest for the records and logs of present work. It accepts new
 * work again when a quarter more than the mark is free.
 *
 * A thread of its own measures once a second: a disk that hangs must not block another thread.
 */
#ifndef HEARTH_CONTROLLER_FILES_DISK_SPACE_H
#define HEARTH_CONTROLLER_FILES_DISK_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define DISK_SPACE_DEFAULT (-1) /* min_free_mb: 64 MiB, or 5 % of the file system where that is less */

struct loop;
struct text;
struct disk_space;

struct disk_state {
	uint64_t free_bytes, total_bytes;
	uint64_t mark_bytes; /* 0: no mark */
	int low;
};

/* The mark for a file system of that size. */
uint64_t disk_space_mark(int64_t min_free_mb, uint64_t total_bytes);
/* What logs and outputs of jobs may do with the disk: nearly full (twice the mark) makes logs short, and the
 * last quarter of the mark is for records alone. min_free_mb 0: as with the default. Unknown: room. */
enum disk_room { DISK_ROOM, DISK_NEARLY_FULL, DISK_RESERVE };
enum disk_room disk_space_room(const char *dir, int64_t min_free_mb);
/* Sets s->low by the free space and by its old value. */
void disk_space_judge(struct disk_state *s);
/* Adds figures for the refusal, and the setting that would help. */
void disk_space_text(const struct disk_state *s, struct text *t);

/* told runs on loop's thread when low has changed, and each second while it is low. loop NULL: only
 * disk_space_check measures. */
struct disk_space *disk_space_create(const char *dir, int64_t min_free_mb, struct loop *loop,
                                     void (*told)(const struct disk_state *s, void *arg), void *arg,
                                     struct err *e);
void disk_space_destroy(struct disk_space *r); /* on loop's thread; NULL allowed */
/* Measures now, on any thread that may wait for the disk. -1: ERR_NOSPACE, too little for new work. r NULL:
 * 0. */
int disk_space_check(struct disk_space *r, struct err *e);
void disk_space_last(struct disk_space *r, struct disk_state *out); /* any thread; the last measurement */

#endif
