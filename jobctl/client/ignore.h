/*
 * ignore: what of a source folder is left out: .git, __pycache__, *.pyc and what .hearthignore in it names.
 *
 * A line of .hearthignore is a pattern as in .gitignore: "*.pt" anywhere, "data/" only folders, "/build" or
 * "a/b" from the top, "!keep.pt" takes back; the last one that fits decides; '#' begins a comment. "**" means
 * no more than "*". What lies in a folder that is left out cannot be taken back.
 */
#ifndef HEARTH_JOBCTL_IGNORE_H
#define HEARTH_JOBCTL_IGNORE_H

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
/* As tree_skip_fn; arg is a struct ignore. */
int ignore_skip(const char *relpath, int is_dir, void *arg);
/* Does one pattern (without '!') fit? */
int ignore_match(const char *pattern, const char *relpath, int is_dir);

#endif
