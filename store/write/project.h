/*
 * project: the search indexes that the writer brings up to date behind the events.
 */
#ifndef HEARTH_STORE_WRITE_PROJECT_H
#define HEARTH_STORE_WRITE_PROJECT_H

#include "store/write/wdb.h"

/* Projects the next max_events events in a transaction of its own. 1: it did something and more waits, 0:
 * nothing is left, -1. */
int project_step(struct wdb *w, size_t max_events, struct err *e);
int project_waiting(const struct wdb *w);
/* Sums up the metrics of one job from its series, inside a transaction. */
int project_metrics(struct wdb *w, uint64_t job, struct err *e);
int project_reset(struct wdb *w, struct err *e);

#endif
