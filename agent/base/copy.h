/*
 * copy: copies files and trees with progress, a bound and a way to stop; by reflink where the file system
 * can, and without the holes of sparse files. Blocks: for threads.
 *
 * Symbolic links are copied as links. Sockets, FIFOs and devices are left out and counted. A file or link
 * of the same name is replaced; folders are merged. A
 * folder on procfs or the like (fs_check_data) is refused.
 */
#ifndef HEARTH_AGENT_BASE_COPY_H
#define HEARTH_AGENT_BASE_COPY_H

#include "common/base/err.h"
#include <stdint.h>
#include <sys/types.h>

struct copy {
	int (*step)(uint64_t bytes,
	            void *arg); /* more bytes done; -1 stops (ERR_UNAVAILABLE "cancelled"). May be NULL */
	void *arg;
	uint64_t limit; /* bytes at most, 0 none: then ERR_LIMIT */
	int set_owner;  /* chown what is made to uid, gid */
	uid_t uid;
	gid_t gid;
	int sync;       /* fsync each file and folder */
	int hard_links; /* where the file system has no reflinks: a further name of the file instead of a copy */
	int resume;     /* goes on with what an earlier copy left: full files stay, the longest part of others */
	int (*skip)(const char *relpath, void *arg); /* 1 leaves it out; below `from`. May be NULL */
	/* results */
	uint64_t bytes, files, special;
	uint64_t resumed; /* of bytes: that an earlier copy had left */
};
/* from: file or folder (a link at its end is followed). to_dir: an open folder; name: of the copy in it.
 * Errors name the whole path. */
int copy_tree(struct copy *c, const char *from, int to_dir, const char *name, struct err *e);
/* Contents of the folder `from` into the open folder. */
int copy_into(struct copy *c, const char *from, int to_dir, struct err *e);
/* The same of an open file (name: of the copy) or of an open folder's contents (name NULL); takes `in`.
 * shown: its path, for errors. */
int copy_open(struct copy *c, int in, const char *shown, int to_dir, const char *name, struct err *e);
/* The entry `name` of the open folder `from`, whatever it is, into the open folder to_dir under its name. */
int copy_at(struct copy *c, int from, const char *name, const char *shown, int to_dir, struct err *e);

#endif
