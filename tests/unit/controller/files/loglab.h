/*
 * loglab: a log store with a loop of its own, for tests, and its last reports.
 */
#ifndef HEARTH_TESTS_UNIT_CONTROLLER_FILES_LOGLAB_H
#define HEARTH_TESTS_UNIT_CONTROLLER_FILES_LOGLAB_H

#include <stdint.h>

#include "common/base/err.h"
#include "controller/files/logs/logstore.h"

struct lab {
	char dir[512];
	struct loop *loop;
	struct logstore *ls;
	uint64_t durable, size; /* of the last reports */
	int eof, complete, words, errors;
	char stream[80];
	uint64_t limit; /* of a stream on the disk; 0 none */
	int64_t kept;
	int cuts;
};

void lab_open(struct lab *l, const char *name); /* an empty store in a folder of that name */
void lab_reopen(struct lab *l, unsigned max_open);
void lab_close(struct lab *l);
void lab_settle(struct lab *l); /* runs the loop until the store is idle */
/* Appends text to rank-0 of job 1, attempt 1. */
int lab_put(struct lab *l, uint64_t offset, const char *text, int eof, struct err *e);
/* The stream's text from offset, or the error; malloc'ed. size and complete may be NULL. */
char *lab_content(struct lab *l, const char *stream, uint64_t offset, uint64_t *size, int *complete);

#define is_content(l, offset, want, what)                                                                    \
	do {                                                                                                     \
		char *got_ = lab_content(l, "rank-0", offset, NULL, NULL);                                           \
		is_str(got_, want, what);                                                                            \
		free(got_);                                                                                          \
	} while (0)

#endif
