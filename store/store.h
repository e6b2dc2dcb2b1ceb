/*
 * store: SQLite behind one writer thread (docs/spec/04-store.md).
 *
 * The state thread fills a transaction (events + rows, all of them or none), hands it to store_commit and goes on; the writer takes all that
 * are waiting, writes them in one SQLite transaction (synchronous=FULL, WAL) and posts each one's completion back to the state thread's loop in order.
 * Nothing may leave the process before its completion said 0. When a commit fails, every transaction in it completes with the error and
 * nothing of it is kept; a later one may succeed (disk full).
 *
 * Search indexes (hyperparameters, tags, text, last/min/max of metrics) are projections written behind by the writer, at most 1 s late, with a
 * high-water mark, rebuildable by store_rebuild.
 *
 * Reads use handles of their own (store_reader_open), one per thread, and see committed state only.
 */
#ifndef HEARTH_STORE_STORE_H
#define HEARTH_STORE_STORE_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>
#include "common/clock.h"
#include "common/err.h"
#include "store/rows.h"

struct loop;
struct store;
struct store_txn;

struct store_config {
	const char *path;      /* DATA/hearth.db */
	const struct clock *clock;
	size_t queue_limit;    /* transactions waiting; 0 = 65,536 */
};
/* Opens, migrates (numbered migrations; refuses a newer schema), starts the writer. done callbacks run on loop. */
struct store *store_open(const struct store_config *c, struct loop *loop, struct err *e);
void store_close(struct store *s); /* commits what waits, then closes */

/* Filling a transaction copies the row. Rows are upserts of the whole record by key. */
struct store_txn *store_txn_new(void);
void store_txn_free(struct store_txn *t);
void store_txn_event(struct store_txn *t, const struct event_row *r);
void store_txn_job(struct store_txn *t, const struct job_row *r);
void store_txn_attempt(struct store_txn *t, const struct attempt_row *r);
void store_txn_rank(struct store_txn *t, const struct rank_row *r);
void store_txn_node(struct store_txn *t, const struct node_row *r);
void store_txn_artifact(struct store_txn *t, const struct artifact_row *r);
void store_txn_tag(struct store_txn *t, const struct tag_row *r);          /* value NULL removes */
void store_txn_token(struct store_txn *t, const struct token_row *r);
void store_txn_metric(struct store_txn *t, const struct metric_chunk *c);
void store_txn_setting(struct store_txn *t, const char *key, const char *value);
void store_txn_run_info(struct store_txn *t, uint64_t job, uint32_t attempt, const char *node, const char *kind, const char *text);

typedef void (*store_done_fn)(int rc, const struct err *e, void *arg);
/* Takes t. ERR_BUSY when the queue is full (t stays the caller's). done may be NULL. */
int store_commit(struct store *s, struct store_txn *t, store_done_fn done, void *arg, struct err *e);
size_t store_queued(const struct store *s);

/* Loading at start (blocking, before the writer has work). fn -1 stops. */
struct store_load {
	int (*job)(const struct job_row *r, void *arg);          /* unfinished jobs only */
	int (*attempt)(const struct attempt_row *r, void *arg);  /* of those jobs, all attempts */
	int (*rank)(const struct rank_row *r, void *arg);        /* of their newest attempt */
	int (*node)(const struct node_row *r, void *arg);
	int (*token)(const struct token_row *r, void *arg);      /* not expired, not used up */
	int (*idem)(const char *key, const char *digest, uint64_t job, void *arg); /* of the last 24 h */
	void *arg;
};
int store_load(struct store *s, const struct store_load *l, struct err *e);
/* Greatest ids ever given, so that they are never used again. */
int store_max_ids(struct store *s, uint64_t *job, uint64_t *event, uint64_t *node, struct err *e);
char *store_setting(struct store *s, const char *key); /* malloc'ed, NULL none */

/* Checks: SQLite's integrity, every job's rows against a replay of its events, projections against rows, blobs referenced exist. Calls
 * report for each finding. Returns the number of findings, -1 when it could not check. */
int store_verify(const char *path, void (*report)(const char *line, void *arg), void *arg, struct err *e);
/* Online copy by SQLite's backup API, verified after. */
int store_backup(const char *path, const char *to, struct err *e);
int store_rebuild(const char *path, struct err *e);

/* ---- reading (any thread, one handle each) -------------------------------------------------------------- */
struct store_reader;
struct store_reader *store_reader_open(const char *path, struct err *e);
void store_reader_close(struct store_reader *r);

struct job_filter {
	const char *owner;      /* NULL any */
	const char *status;     /* NULL any; "active" = not ended */
	const char *name;       /* NULL any; exact, or a prefix with a trailing '*' */
	const char *text;       /* substring of name, notes, experiment; NULL none */
	const char *experiment; /* NULL any */
	const char *tag_key, *tag_value;
	uint64_t before_id;     /* keyset page: ids below; 0 newest first page */
	uint32_t limit;         /* at most 1,000; 0 = 100 */
	int with_deleted;
};
/* Each returns JSON for the API, malloc tree owned by the caller (cJSON_Delete), or NULL + error. Secrets in environment are masked. */
cJSON *store_jobs_json(struct store_reader *r, const struct job_filter *f, struct err *e);       /* {"jobs":[..],"next":id|null} */
cJSON *store_job_json(struct store_reader *r, uint64_t job, struct err *e);                      /* design.md section 9: show --json */
cJSON *store_attempts_json(struct store_reader *r, uint64_t job, struct err *e);
cJSON *store_ranks_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e);
cJSON *store_events_json(struct store_reader *r, uint64_t job, uint64_t after_id, uint32_t limit, struct err *e); /* job 0: all */
cJSON *store_metrics_json(struct store_reader *r, uint64_t job, struct err *e);                  /* {NAME:{last,min,max,step,count}} */
/* One series, downsampled to at most max_points buckets (0 = raw, at most 100,000): {"name","rank","attempt","points":[[step,time,value,min,max]..]} */
cJSON *store_metric_json(struct store_reader *r, uint64_t job, const char *name, int32_t rank, uint32_t attempt, uint32_t max_points,
                         struct err *e);
cJSON *store_artifacts_json(struct store_reader *r, uint64_t job, struct err *e);
cJSON *store_run_info_json(struct store_reader *r, uint64_t job, struct err *e);
/* Newest artifact of a kind: digest/uri into *out (artifact_row_fini), ERR_NOT_FOUND. */
int store_artifact_get(struct store_reader *r, uint64_t job, const char *kind, struct artifact_row *out, struct err *e);
int store_job_get(struct store_reader *r, uint64_t job, struct job_row *out, struct err *e);
/* Newest job of that owner (NULL any) with that name; nth 0 = newest, 1 = the one before. */
int store_job_by_name(struct store_reader *r, const char *owner, const char *name, uint32_t nth, uint64_t *job, struct err *e);
int store_job_last(struct store_reader *r, const char *owner, uint64_t *job, struct err *e);

/* Token by the hex SHA-256 of its secret; ERR_NOT_FOUND. Expired ones are returned: the caller checks expires_us and used_us. */
int store_token_get(struct store_reader *r, const char *secret_hash, struct token_row *out, struct err *e);

void event_row_fini(struct event_row *r);
void job_row_fini(struct job_row *r);
void attempt_row_fini(struct attempt_row *r);
void rank_row_fini(struct rank_row *r);
void node_row_fini(struct node_row *r);
void artifact_row_fini(struct artifact_row *r);
void token_row_fini(struct token_row *r);
void job_row_copy(struct job_row *to, const struct job_row *from);
void attempt_row_copy(struct attempt_row *to, const struct attempt_row *from);
void rank_row_copy(struct rank_row *to, const struct rank_row *from);
void node_row_copy(struct node_row *to, const struct node_row *from);

#endif
