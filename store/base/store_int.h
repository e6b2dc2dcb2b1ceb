/*
 * store_int: what the files of store/ share. Which thread owns what:
 *
 *   struct store: the state thread, but for the queue, which its mutex guards.
 *   struct store_txn: whoever fills it; from store_commit until its completion is delivered, the writer.
 *   struct wdb: the writer thread (or the only thread of verify, rebuild and tests).
 */
#ifndef HEARTH_STORE_STORE_INT_H
#define HEARTH_STORE_STORE_INT_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>

#include "common/os/chan.h"
#include "store/base/codec.h"
#include "store/base/sqlh.h"
#include "store/store.h"

/* ---- transactions ------------------------------------------------------------------------------ */

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
	OP_ANSWER,
	OP_ANSWERS_OLD,
	OP_SETTING,
	OP_SETTING_DEL,
	OP_RUN_INFO,
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
	uint64_t key;  /* what it belongs to: job id, or NODE_KEY | node id; 0 none */
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
	/* of the queue */
	struct store_txn *next;
	store_done_fn done;
	void *arg;
	uint64_t fails_seen; /* failures that the state thread knew of when it gave this one */
	uint64_t fail_no;    /* != 0: it failed, as the n-th */
	int rc;
	struct err *err; /* of rc -1 */
};
/* Moves *at past one operation; NULL at the end. */
const struct op *txn_next(const struct store_txn *t, size_t *at);
const struct param *op_params(const struct op *o);
const struct param *param_next(const struct param *p);
const char *param_text(const struct param *p); /* NULL for NULL */
const void *param_bytes(const struct param *p);

/* ---- the writer's connection ---------------------------------------------------------------------- */

struct series;

struct wdb {
	sqlite3 *db;
	sqlite3_stmt *st[OP_SQL];
	const struct clock *clock;
	/* series.c */
	struct series *series; /* cache; dropped whenever a transaction is rolled back */
	struct series *dirty;  /* to be written before COMMIT */
	sqlite3_stmt *series_get, *series_new, *series_put, *chunk_put, *dirty_put;
	uint64_t *seen; /* set: digests of the chunks since the last commit */
	size_t n_seen, cap_seen;
	uint64_t *to_merge; /* series with many small chunks */
	size_t n_to_merge, cap_to_merge;
	/* project.c */
	sqlite3_stmt *proj[16];
	uint64_t step_us;    /* CPU time of the last step of the projections, without its commit */
	uint64_t last_event; /* greatest id committed */
	uint64_t projected;  /* greatest id in the projections */
	int metrics_dirty;   /* metric_dirty has rows */
};
int wdb_init(struct wdb *w, const char *path, const struct clock *clock,
             struct err *e); /* opens, does not migrate */
void wdb_fini(struct wdb *w);
/* All operations of t inside the transaction that is open. */
int wdb_apply(struct wdb *w, const struct store_txn *t, struct err *e);
int wdb_begin(struct wdb *w, struct err *e);
int wdb_commit(struct wdb *w, struct err *e);
void wdb_rollback(struct wdb *w);

int series_apply(struct wdb *w, const struct op *o, struct err *e);
int series_flush(struct wdb *w, struct err *e); /* before COMMIT */
void series_forget(struct wdb *w);              /* after ROLLBACK */
int series_merge_job(struct wdb *w, uint64_t job,
                     struct err *e);                /* of an ended job: all its chunks, in a transaction */
int series_merge_due(struct wdb *w, struct err *e); /* those of to_merge, in a transaction */

/* Projections of the next max_events events. 1: did something and more waits, 0: nothing is left, -1. A
 * transaction of its own. */
int project_step(struct wdb *w, size_t max_events, struct err *e);
int project_waiting(const struct wdb *w);
int project_metrics(struct wdb *w, uint64_t job,
                    struct err *e); /* summary of one job from its series, inside a transaction */
int project_reset(struct wdb *w, struct err *e);

/* ---- migrations --------------------------------------------------------------------------------- */
int migrate_run(sqlite3 *db, const struct clock *clock, struct err *e);
/* The file is ours and of the schema that this program knows. */
int migrate_check(sqlite3 *db, struct err *e);

/* ---- open store ---------------------------------------------------------------------------------- */

struct store {
	char *path;
	const struct clock *clock;
	struct chan *chan; /* writer -> state thread: struct group */
	sqlite3 *read;     /* the state thread's, for loading */
	size_t limit;
	uint64_t fails_seen; /* state thread */

	pthread_t writer;
	int wake_fd;          /* eventfd: the queue is not empty any more, or stop */
	pthread_mutex_t lock; /* guards what follows */
	struct store_txn *head, *tail;
	size_t pending, pending_bytes; /* taken and not delivered */
	int stop;
	struct store_stats stats;

	struct wdb w; /* the writer's */
};

struct group { /* completions on their way back, in order */
	struct store *store;
	struct store_txn *head;
};
void *writer_main(void *store);

/* ---- reading ------------------------------------------------------------------------------------- */

struct store_reader {
	sqlite3 *db;
};
/* Prepared for one use; finalize after. */
sqlite3_stmt *reader_sql(struct store_reader *r, const char *sql, struct err *e);
/* A query of several statements that must see one state. */
int reader_begin(struct store_reader *r, struct err *e);
void reader_end(struct store_reader *r);

/* Columns for SELECT, in the order of the functions that read a row. */
#define JOB_COLUMNS JOB_TABLE(COLUMN_JOB_FIRST, COLUMN_JOB_NEXT)
/* spec and run follow where they are asked for */
#define JOB_N_COLUMNS (0 JOB_TABLE(COLUMN_COUNT, COLUMN_COUNT))
void job_from_row(sqlite3_stmt *st, struct job_row *r, int with_spec);
#define ATTEMPT_COLUMNS ATTEMPT_TABLE(COLUMN_FIRST, COLUMN_NEXT)
void attempt_from_row(sqlite3_stmt *st, struct attempt_row *r);
#define RANK_COLUMNS RANK_TABLE(COLUMN_FIRST, COLUMN_NEXT)
void rank_from_row(sqlite3_stmt *st, struct rank_row *r);
#define ARTIFACT_COLUMNS   "job, attempt, kind, node, digest, uri, size_bytes, files, at_us"
#define ARTIFACT_N_COLUMNS 9
void artifact_from_row(sqlite3_stmt *st, struct artifact_row *r);
#define NODE_COLUMNS                                                                                         \
	"id, name, address, state, reason, cert_fingerprint, inventory, joined_us, seen_us, drain"
void node_from_row(sqlite3_stmt *st, struct node_row *r);
#define RESERVATION_COLUMNS "name, state, queue, nodes, reason, owner, from_us, to_us, created_us"
void reservation_of_row(sqlite3_stmt *st, struct reservation_row *r); /* borrows from the statement */
#define QUEUE_COLUMNS "path, is_queue, weight_milli, quota_gpus, borrow"
void queue_of_row(sqlite3_stmt *st, struct queue_row *r); /* borrows, too */
#define BUDGET_COLUMNS "path, uusd, period, action"
void budget_of_row(sqlite3_stmt *st, struct budget_row *r);
#define TOKEN_COLUMNS "id, kind, secret_hash, owner, job, created_us, expires_us, used_us, used_by"
void token_from_row(sqlite3_stmt *st, struct token_row *r);

/* Text that should be JSON: parsed and masked, a string when it is none, null when NULL. */
cJSON *json_of_text(const char *text);
cJSON *json_object_of(const char *text); /* null when it is no object */
/* NaN and infinities as the strings "nan", "inf", "-inf". */
cJSON *json_real(double v);
/* The tags of a job: those of its specification with the tag table laid over them; malloc tree {k: v}. */
cJSON *tags_of_spec(const cJSON *spec);
/* The same for many jobs, with one statement. */
sqlite3_stmt *tags_prepare(sqlite3 *db, struct err *e);
cJSON *tags_by(sqlite3_stmt *st, uint64_t job, const cJSON *spec, struct err *e);
cJSON *tags_of(sqlite3 *db, uint64_t job, const cJSON *spec, struct err *e);
/* The statement that finds jobs of a filter; to be freed. */
struct job_filter;
char *list_statement(const struct job_filter *f);
/* The statement that reads what counts, of one job or (0) of all. */
const char *cost_statement(uint64_t job);
/* What the members of an array have cost until now, and what those that run cost an hour: millionths of a US
 * dollar. */
int members_cost(struct store_reader *r, const struct job_row *row, double *uusd, double *price,
                 struct err *e);
cJSON *metrics_summary(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt, struct err *e);

int status_ended(const char *status);
/* Word for word the condition of the index job_active. */
#define SQL_ACTIVE_IN(t) t ".status <> 'completed' AND " t ".status <> 'failed' AND " t ".status <> 'stopped'"
#define SQL_JOB_ACTIVE   SQL_ACTIVE_IN("job")
/* Word for word the condition of the index job_ended. */
#define SQL_JOB_ENDED "status = 'completed' OR status = 'failed' OR status = 'stopped'"

#endif
