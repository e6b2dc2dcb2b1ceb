/*
 * ignore: files of a source folder that are not sent: .git, __pycache__, *.pyc and what its .hearthignore
 * names.
 *
 * A line of .hearthignore is a pattern as in .gitignore: "*.pt" matches anywhere, "data/" only folders,
 * "/build" or "a/b" from the top, and "!keep.pt" includes again. The last pattern that matches decides. '#'
 * begins a comment. "**" means the same as "*". A file in an ignored folder cannot be included again.
 */
#ifndef HEARTH_JOBCTL_CLIENT_IGNORE_H
#define HEARTH_JOBCTL_CLIENT_IGNORE_H

#include "common/base/err.h"
#include "common/base/xalloc.h"

#define IGNORE_FILE        ".hearthignore"
#define IGNORE_FILE_MAX    (256 * 1024)
#define IGNORE_PATTERN_MAX 511

struct ignore {
	struct strv patterns;
};

int ignore_read(struct ignore *ig, const char *dir, struct err *e);
void ignore_fini(struct ignore *ig);
/* Is a tree_skip_fn; arg is a struct ignore. */
int ignore_skip(const char *relpath, int is_dir, void *arg);
/* Returns whether one pattern (without '!') matches. */
int ignore_match(const char *pattern, const char *relpath, int is_dir);

#endif
