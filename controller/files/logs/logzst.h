/*
 * logzst: compressed streams: making one, frame by frame, and reading from one.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOGS_LOGZST_H
#define HEARTH_CONTROLLER_FILES_LOGS_LOGZST_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define LOG_FRAME (1u << 20) /* bytes of the stream in one frame */

struct log_zst; /* compression in the making */
struct log_zst *log_zst_start(int in_fd, int out_fd);
/* One frame: 1 more waits, 0 all is written and synced, -1. */
int log_zst_step(struct log_zst *z, struct err *e);
void log_zst_free(struct log_zst *z); /* closes both descriptors; NULL allowed */

int log_zst_size(int fd, uint64_t *size, struct err *e);
/* Up to max bytes at offset; *n 0 at the end. */
int log_zst_read(int fd, uint64_t offset, void *out, size_t max, size_t *n, struct err *e);

#endif
