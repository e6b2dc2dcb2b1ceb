/*
 * log_quota: how much of its logs a job may have on the disk of hearthd: a stream, all streams of a job, and
 * those of all running jobs of a user. Belongs to the log thread.
 *
 * A job or user above the quota has room for LOGSTORE_LEAST bytes in each stream, and so has everyone while
 * the disk is nearly full. Logs thus never take the space that the records of other jobs need.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOG_QUOTA_H
#define HEARTH_CONTROLLER_FILES_LOG_QUOTA_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/base/text.h"
#include "store/read/reader.h"

struct log_limits { /* bytes; 0: none */
	uint64_t stream, job, user;
	int64_t min_free_mb; /* the setting: see disk_space.h */
};

struct log_quota;
struct log_quota *log_quota_create(const struct log_limits *l, const char *data_dir, struct store_reader *r);
void log_quota_destroy(struct log_quota *q); /* NULL allowed */

/* Bytes that a stream of that job may have now; 0: any number. */
uint64_t log_quota_limit(struct log_quota *q, uint64_t job);
/* Adds which limit the last call found, for users. */
void log_quota_text(const struct log_quota *q, const char *stream, struct text *t);
void log_quota_add(struct log_quota *q, uint64_t job, int64_t bytes);
void log_quota_forget(struct log_quota *q, uint64_t job); /* it runs no longer */
/* -1, ERR_NOSPACE: the disk has only the space that is reserved for records. */
int log_quota_room(struct log_quota *q, struct err *e);

#endif
