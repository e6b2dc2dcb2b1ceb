/*
 * fsutil: files that are either whole or absent.
 */
#ifndef HEARTH_COMMON_OS_FSUTIL_H
#define HEARTH_COMMON_OS_FSUTIL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"

/* temp file + fsync + rename (+ fsync of the folder): after a crash the old or the new content. */
int fs_write_atomic(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
/* As above without fsync: atomic against readers, not against power loss (tmpfs, caches). */
int fs_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
/* The same, but a file that has this content stays: to make one costs far more than to read it. */
int fs_replace_changed(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
/* Whole file, malloc'ed, terminated by an extra NUL; ERR_LIMIT when larger than max. */
int fs_read_file(const char *path, size_t max, char **data, size_t *n, struct err *e);
/* The same of an open file; path is for messages. */
int fs_read_fd(int fd, const char *path, size_t max, char **data, size_t *n, struct err *e);
/* Below a folder that another account writes (fsbelow.c): opens PATH ("a/b/c") from the open folder. No step
 * may be a link, "..", or lead into another mount; never blocks. As open: -1 and errno. */
int fs_open_below(int dir, const char *path, int flags, mode_t mode);
/* The same for kernels without openat2; it crosses mounts. */
int fs_open_below_steps(int dir, const char *path, int flags, mode_t mode);
/* The first max bytes of a regular file of this account, malloc'ed, terminated by an extra NUL. */
int fs_read_below(int dir, const char *path, uid_t owner, size_t max, char **data, size_t *n, struct err *e);
/* A path that a user names (fsnamed.c), for a process that has become that user: opens a file or folder, for
 * reading (O_RDONLY) or as a place only (O_PATH), and fills st. ERR_INVALID: a device or the like, on a file
 * system that holds no data, or by way of a link of procfs. ERR_UNSUPPORTED: the kernel lacks openat2. */
struct stat;
int fs_open_named(int at, const char *path, int flags, struct stat *st, struct err *e);
/* ERR_INVALID when the file is on procfs, sysfs or another file system that holds no data of users. */
int fs_check_data(int fd, const char *shown, struct err *e);
int fs_mkdir_p(const char *path, mode_t mode, struct err *e);
/* The same; the names of the folders that it makes are durable. */
int fs_mkdir_durable(const char *path, mode_t mode, struct err *e);
/* Removes a tree of any depth, never following links nor crossing mounts (ERR_CONFLICT). Missing is fine. */
int fs_rm_rf(const char *path, struct err *e);
/* The same, asking before each entry; ERR_UNAVAILABLE as soon as stop says so. */
int fs_rm_rf_while(const char *path, int (*stop)(void *arg), void *arg, struct err *e);
/* Copies a tree (files, folders, symbolic links, modes but setuid and setgid, times); by reflink where the
 * file system can. `to` may be a folder, its entries must not exist (ERR_CONFLICT); other kinds of files are
 * ERR_UNSUPPORTED. Owners are the caller's. After a failure the part that was copied stays. */
int fs_copy_tree(const char *from, const char *to, struct err *e);
/* Exclusive lock on a file created when missing; descriptor holds it; ERR_BUSY when another process has it
 * (text names its pid when written there). */
int fs_lock(const char *path, struct err *e);
/* Calls fn for each entry but . and .. in byte order; stops at the first -1 and returns it, e untouched then.
 */
int fs_each(const char *dir, int (*fn)(const char *name, void *arg), void *arg, struct err *e);
/* Bytes used by a tree (allocated blocks, a file with several names once), for disk limits. -1 on error. */
int64_t fs_tree_bytes(const char *path, struct err *e);
int fs_disk_free(const char *path, uint64_t *free_bytes, uint64_t *total_bytes, struct err *e);
int fs_write_all(int fd, const void *p, size_t n, struct err *e);

#endif
