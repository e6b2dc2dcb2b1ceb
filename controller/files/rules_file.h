/*
 * rules_file: an administrator's rules for lines of failures (setting failure_patterns), read again when the
 * file changes. A thread of its own looks once a second: the file may be on a disk that hangs, and a check of
 * the rules takes tens of milliseconds.
 */
#ifndef HEARTH_CONTROLLER_FILES_RULES_FILE_H
#define HEARTH_CONTROLLER_FILES_RULES_FILE_H

#include "common/base/err.h"

struct loop;
struct rules_file;

struct rules_news {
	char *text;     /* NULL: the file cannot be used, and the old rules stay */
	unsigned rules; /* in the file */
	int first;      /* since the start of hearthd */
	struct err why; /* without text */
};
/* told runs on loop's thread, for the first look and after each change. */
struct rules_file *rules_file_watch(const char *path, struct loop *loop,
                                    void (*told)(const struct rules_news *n, void *arg), void *arg,
                                    struct err *e);
void rules_file_destroy(struct rules_file *f); /* on loop's thread; NULL allowed */

#endif
