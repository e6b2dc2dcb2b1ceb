/*
 * wdb: the connection that changes the database, and its transactions. It belongs to the writer thread, or to
 * the only thread of verify, rebuild and tests.
 */
#ifndef HEARTH_STORE_WRITE_WDB_H
#define HEARTH_STORE_WRITE_WDB_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "store/write/txn_op.h"

struct clock;
struct series;

struct wdb {
	sqlite3 *db;
	sqlite3_stmt *st[OP_SQL];
	const struct clock *clock;
	/* of series.c */
	struct series *series; /* cache; dropped whenever a transaction is rolled back */
	struct series *dirty;  /* to be written before COMMIT */
	sqlite3_stmt *series_get, *series_new, *series_put, *chunk_put, *dirty_put;
	uint64_t *seen; /* set: digests of the chunks since the last commit */
	size_t n_seen, cap_seen;
	uint64_t *to_merge; /* series with many small chunks */
	size_t n_to_merge, cap_to_merge;
	/* of project.c */
	sqlite3_stmt *proj[16];
	uint64_t step_us;    /* CPU time of the last step of the projections, without its commit */
	uint64_t last_event; /* greatest id committed */
	uint64_t projected;  /* greatest id in the projections */
	int metrics_dirty;   /* metric_dirty has rows */
};
/* Opens and migrates the file. */
int wdb_init(struct wdb *w, const char *path, const struct clock *clock, struct err *e);
void wdb_fini(struct wdb *w);
int wdb_begin(struct wdb *w, struct err *e);
int wdb_commit(struct wdb *w, struct err *e);
void wdb_rollback(struct wdb *w);

#endif
