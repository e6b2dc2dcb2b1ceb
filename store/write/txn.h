/*
 * txn: filling a transaction. All functions copy what they get, and belong to the state thread until
 * store_commit takes the transaction.
 *
 * store/write changes the database: transactions, the writer thread, series, projections, migrations and
 * copies of the file. It may use store/base.
 */
#ifndef HEARTH_STORE_WRITE_TXN_H
#define HEARTH_STORE_WRITE_TXN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "store/base/rows.h"

struct store_txn;

/* Called on the state thread when the transaction is durable (rc 0) or has failed (rc -1, e). */
typedef void (*store_done_fn)(int rc, const struct err *e, void *arg);

struct store_txn *store_txn_new(void);
void store_txn_free(struct store_txn *t);
void store_txn_event(struct store_txn *t, const struct event_row *r);

/* Rows replace the whole record with the same key. */
void store_txn_job(struct store_txn *t, const struct job_row *r); /* spec NULL: spec and run stay */
void store_txn_attempt(struct store_txn *t, const struct attempt_row *r);
void store_txn_rank(struct store_txn *t, const struct rank_row *r);
void store_txn_checkpoint(struct store_txn *t, const struct checkpoint_row *r);
void store_txn_checkpoint_part(struct store_txn *t, const struct checkpoint_part_row *r);
/* Removes the rows of one checkpoint and its parts. */
void store_txn_checkpoint_del(struct store_txn *t, uint64_t job, uint32_t number);
/* Stores the state of a job's watches; NULL removes it. */
void store_txn_watch(struct store_txn *t, uint64_t job, const char *state);
void store_txn_pool(struct store_txn *t, const struct pool_row *r);
void store_txn_pool_job(struct store_txn *t, const struct pool_job_row *r);
void store_txn_node(struct store_txn *t, const struct node_row *r);
void store_txn_artifact(struct store_txn *t, const struct artifact_row *r);
/* Changes a tag after the submit; the tags of a specification need no call. value NULL removes the tag, also
 * one of the specification. */
void store_txn_tag(struct store_txn *t, const struct tag_row *r);
void store_txn_token(struct store_txn *t, const struct token_row *r);
void store_txn_token_seen(struct store_txn *t, const char *id, uint64_t seen_us, const char *from);
void store_txn_token_del(struct store_txn *t, const char *id);
/* All chunks of one batch (seq) of a node belong into one transaction. */
void store_txn_metric(struct store_txn *t, const struct metric_chunk *c);
/* Stores an answer for IDEM_KEPT_US and removes older ones. */
void store_txn_answer(struct store_txn *t, const struct answer_row *r);
void store_txn_queue(struct store_txn *t, const struct queue_row *r);
void store_txn_queue_del(struct store_txn *t, const char *path);
void store_txn_usage(struct store_txn *t, const struct usage_row *r);
/* own: the settings of an instance type as JSON; NULL removes them. */
void store_txn_instance(struct store_txn *t, const char *name, const char *own);
void store_txn_reservation(struct store_txn *t, const struct reservation_row *r);
void store_txn_reservation_del(struct store_txn *t, const char *name);
void store_txn_budget(struct store_txn *t, const struct budget_row *r);          /* uusd 0 removes it */
void store_txn_setting(struct store_txn *t, const char *key, const char *value); /* value NULL removes it */
void store_txn_run_info(struct store_txn *t, uint64_t job, uint32_t attempt, const char *node,
                        const char *kind, const char *text);

/* Adds lines of the scheduler's record to its newest part, or (begins) to a new part. */
void store_txn_history(struct store_txn *t, int begins, uint64_t at_us, const char *text, size_t n);
/* Removes the oldest parts until at most keep_bytes are left; the newest part stays. */
void store_txn_history_old(struct store_txn *t, uint64_t keep_bytes);

/* Removes what a job holds (bits of enum store_keep) from the store: metric rows, and references to bundle
 * and artifacts, whose blobs become garbage for blobstore_gc. It notes the removal. Log files are the
 * caller's. */
void store_txn_drop(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us);
/* The same for retention. The writer decides when it writes: it passes over a job that is pinned or removed
 * by then. store_dropped returns what was removed. */
void store_txn_retire(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us);

#endif
