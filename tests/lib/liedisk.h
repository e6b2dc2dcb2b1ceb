/*
 * liedisk: a disk that loses power, and one that fails, below one folder of a test.
 *
 * What a program reads is what it wrote; beside that, this keeps of each file what a sync made durable and
 * the writes since, and of each folder the names that a sync of the folder made durable and the changes
 * since. At the n-th sync the power goes: the folder is made anew from what was durable and a random choice
 * of the rest, and the process ends with LIEDISK_CUT. What is chosen, by a seed:
 *
 *   - of the writes of a file: none, all, any of them, any of their sectors (512 bytes), or the same with
 *     garbage in some of the sectors that were lost; a file may have grown without what was written there;
 *   - of the changes of a folder: the first k of them, as journals do. A rename happens as a whole.
 *
 * What is not written to is never damaged. Nothing is granted that POSIX does not say: a file whose own bytes
 * were synced has no name until its folder was synced.
 *
 * An error of a sync drops what was written since the last one, as Linux does with pages that it could not
 * write: the program still reads it, a later sync that succeeds does not bring it to the disk.
 *
 * Front ends call this: faultvfs for SQLite, faultlibc for what calls the C library itself. One disk in a
 * process; safe for threads.
 */
#ifndef HEARTH_TESTS_LIB_LIEDISK_H
#define HEARTH_TESTS_LIB_LIEDISK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LIEDISK_CUT 77 /* exit status of a process whose power was cut */

enum lie_op {
	LIE_READ,
	LIE_WRITE,
	LIE_SYNC,
	LIE_NAME /* open with creation, rename, unlink, mkdir */,
	LIE_OPS
};

struct lie_plan {
	uint64_t seed;
	unsigned cut_sync; /* the power goes in the n-th sync, 0: never */
	int deaf;          /* a sync says that it was done, and was not */
	/* The n-th call of that kind fails with this errno, and repeat - 1 after it. 0: none. */
	enum lie_op fail_op;
	unsigned fail_nth, fail_repeat;
	int fail_errno;
};

/* Everything below root is durable as it stands. One at a time. */
void liedisk_start(const char *root, const struct lie_plan *p);
void liedisk_stop(void);
/* Space is back, the cable sits again: nothing fails from here. */
void liedisk_heal(void);
unsigned liedisk_count(enum lie_op op); /* calls so far */
unsigned liedisk_failed(void);          /* those that were made to fail */

/* ---- for front ends: between lock and unlock; the real call is made there, too ----------------------------
 */
void liedisk_lock(void);
void liedisk_unlock(void);
/* errno of the call that is about to be made, 0: make it. Counts it; a sync may end the process. path NULL:
 * one that is watched. */
int liedisk_op(enum lie_op op, const char *path);
struct lie_file;
/* Is this below the root (an absolute path)? */
int liedisk_watches(const char *path);
int liedisk_is_root(const char *path);
/* The file behind a descriptor or a path; NULL when it is not watched. */
struct lie_file *liedisk_of_fd(int fd);
struct lie_file *liedisk_of_path(const char *path);
/* After the call was made. */
void liedisk_wrote(struct lie_file *f, uint64_t at, const void *data, size_t n);
void liedisk_truncated(struct lie_file *f, uint64_t size);
void liedisk_sync_file(struct lie_file *f);
void liedisk_sync_dir(const char *path);
void liedisk_sync_failed(struct lie_file *f);
void liedisk_created(const char *path); /* a file, empty, or a folder */
void liedisk_removed(const char *path);
void liedisk_renamed(const char *from, const char *to);
void liedisk_linked(const char *from, const char *to);

#endif
