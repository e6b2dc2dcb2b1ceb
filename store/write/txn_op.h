/*
 * txn_op: the inside of a transaction: operations and their parameters, one after the other in one block.
 *
 * Whoever fills a transaction owns it; from store_commit until its completion is delivered, the writer does.
 */
#ifndef HEARTH_STORE_WRITE_TXN_OP_H
#define HEARTH_STORE_WRITE_TXN_OP_H

#include <stddef.h>
#include <stdint.h>

#include "store/write/txn.h"

enum op_kind {
	OP_EVENT,
	OP_JOB,
	OP_JOB_SPEC,
	OP_ATTEMPT,
	OP_RANK,
	OP_NODE,
	OP_ARTIFACT,
	OP_TAG,
	OP_TOKEN,
	OP_TOKEN_SEEN,
	OP_TOKEN_DEL,
	OP_ANSWER,
	OP_ANSWERS_OLD,
	OP_SETTING,
	OP_SETTING_DEL,
	OP_RUN_INFO,
	OP_CHECKPOINT,
	OP_CHECKPOINT_PART,
	OP_WATCH,
	OP_WATCH_DEL,
	OP_CHECKPOINT_DEL,
	OP_CHECKPOINT_PARTS_DEL,
	OP_POOL,
	OP_POOL_JOB,
	OP_QUEUE,
	OP_QUEUE_DEL,
	OP_USAGE,
	OP_INSTANCE,
	OP_INSTANCE_DEL,
	OP_RESERVATION,
	OP_RESERVATION_DEL,
	OP_BUDGET,
	OP_BUDGET_DEL,
	OP_HISTORY_BEGIN,
	OP_HISTORY,
	OP_HISTORY_OLD,
	OP_SQL, /* the kinds above are one statement each, the ones below are code */
	OP_METRIC = OP_SQL,
	OP_DROP,
	OP_KINDS,
};

enum param_type { PARAM_NULL, PARAM_INT, PARAM_TEXT, PARAM_BLOB };

/* An operation is its head and n parameters, one after the other in the transaction's bytes, each at a
 * multiple of 8. */
struct op {
	uint32_t kind; /* enum op_kind */
	uint32_t n;    /* parameters */
	uint64_t size; /* of all, this head included */
	uint64_t key;  /* owner of the record: job id, or NODE_KEY | node id; 0 none */
};
struct param {
	uint32_t type;
	uint32_t n; /* bytes that follow (TEXT: and a NUL) */
	int64_t i;
};
#define NODE_KEY (1ull << 63)

struct store_txn {
	uint8_t *data;
	size_t len, cap;
	size_t last;        /* offset of the operation being filled */
	uint64_t max_event; /* greatest event id in it */
	uint64_t max_job;   /* greatest id of a job, or of a member that an array reserves */
	/* of the queue */
	struct store_txn *next;
	store_done_fn done;
	void *arg;
	uint64_t fails_seen; /* failures that the state thread knew of when it gave this one */
	uint64_t fail_no;    /* number of its failure, 0: none */
	int rc;
	struct err *err; /* of rc -1 */
};
/* Moves *at past one operation; NULL at the end. */
const struct op *txn_next(const struct store_txn *t, size_t *at);
const struct param *op_params(const struct op *o);
const struct param *param_next(const struct param *p);
const char *param_text(const struct param *p); /* NULL for NULL */
const void *param_bytes(const struct param *p);

#endif
