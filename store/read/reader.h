/*
 * reader: a handle for questions. Any thread may open one and uses it alone; it sees committed state only.
 *
 * store/read answers questions: loading at start, the API's, retention's, and the check of a whole file. It
 * may use store/base and store/write, and changes nothing.
 */
#ifndef HEARTH_STORE_READ_READER_H
#define HEARTH_STORE_READ_READER_H

#include "common/base/err.h"

struct store_reader;

struct store_reader *store_reader_open(const char *path, struct err *e);
void store_reader_close(struct store_reader *r);
/* Asks stop every few thousand steps of a question; 1 ends it with an error. NULL: no more. */
void store_reader_watch(struct store_reader *r, int (*stop)(void *arg), void *arg);

#endif
