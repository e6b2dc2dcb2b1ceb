/*
 * store: SQLite behind one writer thread (docs/spec/04-store.md).
 *
 * The folder keeps all records of a cluster in one file and answers questions about them. It knows rows, not
 * rules: which change is allowed is the controller's business. It may use common/ and nothing else.
 *
 *   base/   records as structs, and the pieces that writing and reading share
 *   write/  transactions, the writer thread, projections, migrations, copies
 *   read/   loading at start, questions of the API, retention, the check of a whole file
 *
 * The state thread fills a transaction (write/txn.h: events and rows, all or none), gives it to store_commit
 * and goes on. The writer writes all waiting transactions in one SQLite transaction (synchronous=FULL, WAL).
 * It posts each completion back to the state thread's loop, in order. Nothing may leave the process before
 * its completion returned 0.
 *
 * A group whose commit fails is tried again one transaction at a time, so that a bad one does not spoil the
 * others. A transaction that fails completes with the error (disk full: ERR_NOSPACE) and leaves nothing in
 * the store. Until its completion was delivered, every transaction of the same job or node fails too, because
 * it was built upon a state that does not exist. After a failed fsync "failed" means "not acknowledged": a
 * crash at that moment may bring the transaction back.
 *
 * Search indexes (hyperparameters, tags, text, sums of metrics) are projections. The writer brings them up to
 * date at most 1 s late; store_rebuild makes them new.
 */
#ifndef HEARTH_STORE_STORE_H
#define HEARTH_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "store/write/stats.h"
#include "store/write/txn.h"

struct loop;
struct store;
struct store_marks;

struct store_config {
	const char *path; /* DATA/hearth.db */
	const struct clock *clock;
	const char *marks;  /* DATA/high-water (marks.h); NULL: none */
	size_t queue_limit; /* transactions that may wait; 0: 65,536 */
};
/* Opens the file, migrates it (refuses a newer schema) and starts the writer. Completions run on loop. */
struct store *store_open(const struct store_config *c, struct loop *loop, struct err *e);
void store_close(struct store *s); /* commits what waits, then closes */
/* Makes each mark of high-water durably at least that of least, and writes a missing or damaged file. Before
 * the first commit only: from then on the file is the writer thread's. */
int store_settle_marks(struct store *s, const struct store_marks *least, struct err *e);

/* The state thread's. Takes t and calls done (may be NULL) when t is durable or has failed. ERR_BUSY: the
 * queue is full, and t stays the caller's. */
int store_commit(struct store *s, struct store_txn *t, store_done_fn done, void *arg, struct err *e);
size_t store_queued(struct store *s); /* transactions that were given and are not completed yet */

void store_stats(struct store *s, struct store_stats *out);

#endif
