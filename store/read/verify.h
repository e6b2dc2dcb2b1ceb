/*
 * verify: checks a whole database. Works while hearthd runs.
 */
#ifndef HEARTH_STORE_READ_VERIFY_H
#define HEARTH_STORE_READ_VERIFY_H

#include <stddef.h>

#include "common/base/err.h"
#include "store/base/rows.h"

/* All rows of one job: with spec and run; attempts by number, ranks by attempt and rank,
 * checkpoints by number and their parts by number and part. */
struct store_job_rows {
	const struct job_row *job;
	const struct attempt_row *attempts;
	const struct rank_row *ranks;
	const struct checkpoint_row *checkpoints;
	const struct checkpoint_part_row *parts;
	size_t n_attempts, n_ranks, n_checkpoints, n_parts;
};
/* Replays the events of a job. store_verify calls it for each event in order (rows NULL), then once with rows
 * (ev NULL). *state is NULL at the first call of a job; the last call compares it with the rows and frees it.
 * Returns 0, or -1 with the difference in why. Without a reducer the check is skipped, and the report says
 * so. */
typedef int (*store_reducer_fn)(void **state, const struct event_row *ev, const struct store_job_rows *rows,
                                char *why, size_t why_size, void *arg);
void store_verify_set_reducer(store_reducer_fn fn, void *arg);

struct store_cluster_row { /* one of them is set */
	const struct node_row *node;
	const struct token_row *token;
	const struct reservation_row *reservation;
	const struct queue_row *queue;
	const struct budget_row *budget;
	const struct pool_row *pool;
	const struct pool_job_row *pool_job;
	const char *instance, *own; /* name and settings of an instance type */
};
/* The same for events that belong to no job. store_verify calls it for each event in order (ev), then for
 * each row of a node (newest first) and of the other records of the cluster (row). Then it calls with neither
 * until the function returns 0 and has freed *state; each -1 is a finding, in why. */
typedef int (*store_cluster_fn)(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                                char *why, size_t why_size);
void store_verify_set_cluster(store_cluster_fn fn);

/* Checks that SQLite finds the file intact; that the rows of every job are what a replay of its events gives,
 * and those of nodes, tokens, reservations, queues, budgets, instance types and pools what the cluster's
 * events give; that projections match rows, and chunks of series their totals; and that referenced blobs
 * exist (in blobs/ next to the file). Calls report for each finding, and for each check that it left out
 * ("skipped:
 * ..."). Returns the number of findings, or -1 when it could not check. */
int store_verify(const char *path, void (*report)(const char *line, void *arg), void *arg, struct err *e);

#endif
