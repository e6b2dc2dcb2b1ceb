/*
 * from_row: the row under a statement as a struct. The columns of a SELECT have the order in which its
 * function reads them.
 */
#ifndef HEARTH_STORE_READ_FROM_ROW_H
#define HEARTH_STORE_READ_FROM_ROW_H

#include <sqlite3.h>

#include "store/base/rows.h"

/* Columns for SELECT, in the order of the functions that read a row. */
#define JOB_COLUMNS JOB_TABLE(COLUMN_JOB_FIRST, COLUMN_JOB_NEXT)
/* spec and run follow where they are asked for */
#define JOB_N_COLUMNS (0 JOB_TABLE(COLUMN_COUNT, COLUMN_COUNT))
void job_from_row(sqlite3_stmt *st, struct job_row *r, int with_spec);
void attempt_from_row(sqlite3_stmt *st, struct attempt_row *r);
void rank_from_row(sqlite3_stmt *st, struct rank_row *r);
void checkpoint_from_row(sqlite3_stmt *st, struct checkpoint_row *r);
void checkpoint_part_from_row(sqlite3_stmt *st, struct checkpoint_part_row *r);
void pool_from_row(sqlite3_stmt *st, struct pool_row *r);
void pool_job_from_row(sqlite3_stmt *st, struct pool_job_row *r);
#define ARTIFACT_COLUMNS   "job, attempt, kind, node, digest, uri, size_bytes, files, at_us"
#define ARTIFACT_N_COLUMNS 9
void artifact_from_row(sqlite3_stmt *st, struct artifact_row *r);
#define NODE_COLUMNS                                                                                         \
	"id, name, address, state, reason, cert_fingerprint, inventory, joined_us, seen_us, drain, spare"
void node_from_row(sqlite3_stmt *st, struct node_row *r);
#define RESERVATION_COLUMNS "name, state, queue, nodes, reason, owner, from_us, to_us, created_us"
void reservation_of_row(sqlite3_stmt *st, struct reservation_row *r); /* borrows from the statement */
#define QUEUE_COLUMNS "path, is_queue, weight_milli, quota_gpus, borrow, warm_gpus, warm_nodes"
void queue_of_row(sqlite3_stmt *st, struct queue_row *r); /* borrows, too */
#define BUDGET_COLUMNS "path, uusd, period, action"
void budget_of_row(sqlite3_stmt *st, struct budget_row *r);
#define TOKEN_COLUMNS                                                                                        \
	"id, kind, secret_hash, owner, job, created_us, expires_us, used_us, used_by, scope, account, note, "    \
	"made_with, seen_us, seen_from"
void token_from_row(sqlite3_stmt *st, struct token_row *r);

#endif
