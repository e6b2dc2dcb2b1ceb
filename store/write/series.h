/*
 * series: the points of metrics, in chunks (docs/spec/04-store.md).
 */
#ifndef HEARTH_STORE_WRITE_SERIES_H
#define HEARTH_STORE_WRITE_SERIES_H

#include "store/write/wdb.h"

int series_apply(struct wdb *w, const struct op *o, struct err *e);
int series_flush(struct wdb *w, struct err *e); /* before COMMIT */
void series_forget(struct wdb *w);              /* after ROLLBACK */
/* Merge chunks inside a transaction: all of an ended job; those of the series in to_merge. */
int series_merge_job(struct wdb *w, uint64_t job, struct err *e);
int series_merge_due(struct wdb *w, struct err *e);

#endif
