/*
 * retain: what jobs still hold, what retention may remove, and what is gone.
 */
#ifndef HEARTH_STORE_READ_RETAIN_H
#define HEARTH_STORE_READ_RETAIN_H

#include <stdint.h>

#include "common/base/err.h"
#include "store/base/rows.h"
#include "store/read/reader.h"

struct store_retention { /* age after the job's end in seconds, 0: for ever */
	uint64_t logs_s, bundles_s, metrics_s, artifacts_s;
};
#define STORE_RETENTION_DEFAULT                                                                              \
	{                                                                                                        \
		90 * 86400ull, 180 * 86400ull, 365 * 86400ull, 0                                                     \
	}
/* Calls fn for ended jobs that are not pinned and hold something past its time: oldest first, at most limit
 * jobs; what: bits of enum store_keep. Returns their number, or -1. The caller commits store_txn_retire, then
 * removes the log files of the jobs that store_dropped confirms. */
int store_retention_due(struct store_reader *r, const struct store_retention *p, uint64_t now_us,
                        uint32_t limit, int (*fn)(uint64_t job, unsigned what, void *arg), void *arg,
                        struct err *e);
/* Returns what was removed from a job and is durably gone: bits of enum store_keep; -1. */
int store_dropped(struct store_reader *r, uint64_t job, struct err *e);
/* Returns 0 when the job still has it, or is unknown. ERR_NOT_FOUND with a sentence when it was removed: by
 * rm, or by retention with its date. name: its name in the sentence; NULL: "logs", "code", "metrics",
 * "artifacts". */
int store_check_kept(struct store_reader *r, uint64_t job, enum store_keep what, const char *name,
                     struct err *e);
/* Calls fn for the digests of all bundles and artifacts that are not dropped (manifests of trees).
 * blobstore_gc keeps these. */
int store_each_digest(struct store_reader *r, int (*fn)(const char *digest, void *arg), void *arg,
                      struct err *e);

#endif
