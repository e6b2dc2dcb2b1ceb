/*
 * store: SQLite behind one writer thread (docs/spec/04-store.md).
 *
 * The state thread fills a transaction (events + rows, all of them or none), hands it to store_commit and
 * goes on; the writer takes all that are waiting, writes them in one SQLite transaction (synchronous=FULL,
 * WAL) and posts each one's completion back to the state thread's loop in order. Nothing may leave the
 * process before its completion said 0. When the commit of a group fails, its transactions are tried one by
 * one, so that a bad one does not spoil others; one that fails completes with the error (disk full:
 * ERR_NOSPACE) and nothing of it is kept. From then until its completion was delivered every transaction that
 * touches the same job or node fails too: it was built upon a state that does not exist. After a failed fsync
 * "not kept" means "not acknowledged": a crash right then may bring it back.
 *
 * store_txn_* and store_commit are the state thread's.
 *
 * Search indexes (hyperparameters, tags, text, last/min/max of metrics) are projections written behind by the
 * writer, at most 1 s late, with a high-water mark, rebuildable by store_rebuild.
 *
 * Reads use handles of their own (store_reader_open), one per thread, and see committed state only.
 */
#ifndef HEARTH_STORE_STORE_H
#define HEARTH_STORE_STORE_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "store/base/rows.h"

struct loop;
struct store;
#define IDEM_KEPT_US (24ull * 3600 * 1000000) /* idempotency keys */

struct store_txn;

struct store_config {
	const char *path; /* DATA/hearth.db */
	const struct clock *clock;
	size_t queue_limit; /* transactions waiting; 0 = 65,536 */
};
/* Opens, migrates (numbered migrations; refuses a newer schema), starts the writer. done callbacks run on
 * loop. */
struct store *store_open(const struct store_config *c, struct loop *loop, struct err *e);
void store_close(struct store *s); /* commits what waits, then closes */

/* Filling a transaction copies the row. Rows are upserts of the whole record by key. */
struct store_txn *store_txn_new(void);
void store_txn_free(struct store_txn *t);
void store_txn_event(struct store_txn *t, const struct event_row *r);
/* spec NULL: spec and run stay as they are */
void store_txn_job(struct store_txn *t, const struct job_row *r);
void store_txn_attempt(struct store_txn *t, const struct attempt_row *r);
void store_txn_rank(struct store_txn *t, const struct rank_row *r);
void store_txn_node(struct store_txn *t, const struct node_row *r);
void store_txn_artifact(struct store_txn *t, const struct artifact_row *r);
/* Changes of tags after the submit; those in the specification count by themselves. value NULL removes, one
 * of the specification too. */
void store_txn_tag(struct store_txn *t, const struct tag_row *r);
void store_txn_token(struct store_txn *t, const struct token_row *r);
/* All chunks of one batch (seq) of a node belong into one transaction. */
void store_txn_metric(struct store_txn *t, const struct metric_chunk *c);
/* Keeps an answer for IDEM_KEPT_US; older ones go. */
void store_txn_answer(struct store_txn *t, const struct answer_row *r);
void store_txn_queue(struct store_txn *t, const struct queue_row *r);
void store_txn_queue_del(struct store_txn *t, const char *path);
void store_txn_usage(struct store_txn *t, const struct usage_row *r);
/* What is set for an instance type: JSON; NULL removes. */
void store_txn_instance(struct store_txn *t, const char *name, const char *own);
void store_txn_reservation(struct store_txn *t, const struct reservation_row *r);
void store_txn_reservation_del(struct store_txn *t, const char *name);
void store_txn_budget(struct store_txn *t, const struct budget_row *r); /* uusd 0 removes */
/* Lines of the scheduler's record, of the part that began last or (begins) of a new one. */
void store_txn_history(struct store_txn *t, int begins, uint64_t at_us, const char *text, size_t n);
/* The oldest parts go until at most so many bytes are left; the last part stays. */
void store_txn_history_old(struct store_txn *t, uint64_t keep_bytes);
void store_txn_setting(struct store_txn *t, const char *key, const char *value); /* value NULL removes */
void store_txn_run_info(struct store_txn *t, uint64_t job, uint32_t attempt, const char *node,
                        const char *kind, const char *text);

typedef void (*store_done_fn)(int rc, const struct err *e, void *arg);
/* Takes t. ERR_BUSY when the queue is full (t stays the caller's). done may be NULL. */
int store_commit(struct store *s, struct store_txn *t, store_done_fn done, void *arg, struct err *e);
size_t store_queued(struct store *s); /* given and not completed yet */

struct store_stats { /* since store_open */
	uint64_t transactions, groups, failed, bytes;
	uint64_t largest_group;
	uint64_t commit_us_sum, commit_us_max; /* of one group: statements and fsync */
	uint64_t projected_event, last_event;  /* how far behind the projections are */
};
void store_stats(struct store *s, struct store_stats *out);

/* Loading at start (blocking, before the writer has work). fn -1 stops. */
struct store_load {
	int (*job)(const struct job_row *r, void *arg);         /* unfinished jobs only */
	int (*attempt)(const struct attempt_row *r, void *arg); /* of those jobs, all attempts */
	int (*rank)(const struct rank_row *r, void *arg);       /* of their newest attempt */
	int (*node)(const struct node_row *r, void *arg);
	int (*token)(const struct token_row *r, void *arg);                        /* not expired, not used up */
	int (*idem)(const char *key, const char *digest, uint64_t job, void *arg); /* of the last 24 h */
	int (*answer)(const struct answer_row *r, void *arg); /* of the last 24 h, oldest first; may be NULL */
	/* Members that have ended, of arrays that have not; may be NULL. */
	int (*member)(const struct member_row *r, void *arg);
	/* How many ended so, arrays not counted; may be NULL. */
	int (*ended)(const char *status, uint64_t jobs, void *arg);
	int (*queue)(const struct queue_row *r, void *arg); /* above before below; may be NULL, as the next */
	int (*usage)(const struct usage_row *r, void *arg);
	int (*instance)(const char *name, const char *own, void *arg); /* by name; may be NULL */
	int (*reservation)(const struct reservation_row *r, void *arg);
	int (*budget)(const struct budget_row *r, void *arg); /* may be NULL */
	/* How long the last attempts of the newest 10,000 completed jobs took, oldest first; before the jobs;
	 * may be NULL. */
	int (*took)(const char *owner, const char *name, uint64_t took_us, void *arg);
	/* What was spent on attempts that have ended, since these times (ascending or not); may be NULL. */
	int (*spent)(const struct spent_row *r, void *arg);
	uint64_t day_us, week_us, month_us;
	void *arg;
};
int store_load(struct store *s, const struct store_load *l, struct err *e);
/* Greatest ids ever given, so that they are never used again. */
int store_max_ids(struct store *s, uint64_t *job, uint64_t *event, uint64_t *node, struct err *e);
char *store_setting(struct store *s, const char *key); /* malloc'ed, NULL none */

/* What a job holds beside its record; the record itself and its end state stay for good. */
enum store_keep { STORE_LOGS = 1, STORE_BUNDLE = 2, STORE_METRICS = 4, STORE_ARTIFACTS = 8, STORE_ALL = 15 };
/* Takes them out of the store (metric rows) and out of its references (bundle, artifacts: the blobs are then
 * garbage, blobstore_gc), and notes it. Log files are the caller's. */
void store_txn_drop(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us);
/* The same for retention: decided when it is written, after all that was committed before. A job that is
 * pinned or removed by then is passed over; store_dropped tells. */
void store_txn_retire(struct store_txn *t, uint64_t job, unsigned what, uint64_t at_us);

struct store_retention { /* age after the job's end, seconds; 0 = for ever */
	uint64_t logs_s, bundles_s, metrics_s, artifacts_s;
};
#define STORE_RETENTION_DEFAULT                                                                              \
	{                                                                                                        \
		90 * 86400ull, 180 * 86400ull, 365 * 86400ull, 0                                                     \
	}
/* Calls fn for ended jobs, oldest first, at most limit, that hold something past its time and are not pinned;
 * what = bits of enum store_keep. The caller commits store_txn_retire, and removes the log files of those
 * that store_dropped names then. Returns how many, -1. */
struct store_reader;
int store_retention_due(struct store_reader *r, const struct store_retention *p, uint64_t now_us,
                        uint32_t limit, int (*fn)(uint64_t job, unsigned what, void *arg), void *arg,
                        struct err *e);
/* What of a job was taken away and is durably so: bits of enum store_keep; -1. */
int store_dropped(struct store_reader *r, uint64_t job, struct err *e);
/* 0 when the job still has it (or is not known); ERR_NOT_FOUND when it was taken away, with a sentence: by
 * whom (rm, or retention with its date). name: how it is called there, NULL: "logs", "code", "metrics",
 * "artifacts". */
int store_check_kept(struct store_reader *r, uint64_t job, enum store_keep what, const char *name,
                     struct err *e);
/* Digests of all bundles and artifacts that are not dropped (manifests of trees): what blobstore_gc keeps. */
int store_each_digest(struct store_reader *r, int (*fn)(const char *digest, void *arg), void *arg,
                      struct err *e);

/* All rows of one job: with spec and run; attempts by number, ranks by attempt and rank. */
struct store_job_rows {
	const struct job_row *job;
	const struct attempt_row *attempts;
	const struct rank_row *ranks;
	size_t n_attempts, n_ranks;
};
/* Replay of events, for store_verify: called for each event of a job in order (rows NULL), then once with
 * rows (ev NULL): compares what it has with them and frees *state (NULL at the job's first call). 0, or -1
 * with the difference in why. Without one the check is skipped, which the report says.
 */
typedef int (*store_reducer_fn)(void **state, const struct event_row *ev, const struct store_job_rows *rows,
                                char *why, size_t why_size, void *arg);
void store_verify_set_reducer(store_reducer_fn fn, void *arg);

/* The same for the events of no job: called for each in order (ev), then for each row of a node, the newest
 * first, and of what else the cluster has, then with nothing until it gives 0 and has freed *state; -1: a
 * finding, in why. */
struct store_cluster_row { /* one of them */
	const struct node_row *node;
	const struct token_row *token;
	const struct reservation_row *reservation;
	const struct queue_row *queue;
	const struct budget_row *budget;
	const char *instance, *own; /* of an instance type: its name, what is set */
};
typedef int (*store_cluster_fn)(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                                char *why, size_t why_size);
void store_verify_set_cluster(store_cluster_fn fn);

/* Checks: SQLite's integrity, every job's rows against a replay of its events, those of nodes, tokens,
 * reservations, queues, budgets and instance types against the cluster's events, projections against rows,
 * chunks of series against their totals, blobs referenced (in blobs/ beside the file) exist. Calls report for
 * each finding, and for each check that was left out ("skipped: ..."). Returns the number of findings, -1
 * when it could not check. Works beside a running hearthd. */
int store_verify(const char *path, void (*report)(const char *line, void *arg), void *arg, struct err *e);
/* Online copy by SQLite's backup API, checked, then put in place under its name; an existing file is refused.
 */
int store_backup(const char *path, const char *to, struct err *e);
/* Makes the projections anew. hearthd must not run. */
int store_rebuild(const char *path, struct err *e);

/* ---- reading (any thread, one handle each) --------------------------------------------------------------
 */
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
	uint64_t before_id; /* keyset page: ids below; 0 newest first page */
	uint32_t limit;     /* at most 1,000; 0 = 100 */
	int with_deleted;
	int with_members; /* of arrays and sweeps: else one line for each of these */
	uint64_t array;   /* members of that job only; 0 any */
};
/* Each returns JSON for the API, malloc tree owned by the caller (cJSON_Delete), or NULL + error. Secrets are
 * masked: common/base/secret.h. */
cJSON *store_jobs_json(struct store_reader *r, const struct job_filter *f,
                       struct err *e); /* {"jobs":[..],"next":id|null} */
cJSON *store_job_json(struct store_reader *r, uint64_t job,
                      struct err *e); /* design.md section 9: show --json */
/* Which job is that member? ERR_NOT_FOUND, ERR_UNAVAILABLE: it is about to be made. */
int store_member_id(struct store_reader *r, uint64_t array, uint32_t index, uint64_t *job, struct err *e);
/* {"metric","goal","made","members":[..]}: jobs as in lists, with values {name: value} and metric {best,
 * last, min, max, step}. The best first when there is a metric (NULL: the one that the sweep names), else by
 * index; limit 0 all. */
cJSON *store_members_json(struct store_reader *r, uint64_t job, const char *metric, uint32_t limit,
                          struct err *e);
cJSON *store_attempts_json(struct store_reader *r, uint64_t job, struct err *e);
/* Where an attempt was placed: [{node, ranks, ...}] in node-rank order. ERR_NOT_FOUND: there is no such
 * attempt. */
cJSON *store_placement_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e);
cJSON *store_ranks_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e);
/* {"events":[{id,job,attempt,at,type,data}],"next":id|null}, ids above after_id; job 0: all; limit 0 = 1,000,
 * at most 10,000 */
cJSON *store_events_json(struct store_reader *r, uint64_t job, uint64_t after_id, uint32_t limit,
                         struct err *e);
/* {NAME:{last,min,max,step,count,attempt,rank,ranks}}: each of one rank in one attempt, in which `ranks`
 * reported it. attempt 0: the newest that has it (and the rank); rank -1: the lowest that has it there. This
 * and the next: as store_check_kept when they were taken away; what stays of them is in store_job_json. */
cJSON *store_metrics_json(struct store_reader *r, uint64_t job, int32_t rank, uint32_t attempt,
                          struct err *e);
/* One series: {"name","rank","attempt","node","count","last","min","max","step","raw","ranks":[..],
 * "attempts":[..],"points":[..]}. rank -1: the lowest that has it; attempt 0: the newest that has it. Raw
 * points are [step,time,value]; when there are more than max_points (0 = 100,000) they are buckets
 * [step,time,mean,min,max,points,nan] of neighbours: step and time of the first; mean, min and max of what is
 * a number ("nan" when nothing is), and how many points it has and how many of them are NaN. step null =
 * none, time in seconds since 1970, NaN and infinities are the strings "nan", "inf", "-inf". */
cJSON *store_metric_json(struct store_reader *r, uint64_t job, const char *name, int32_t rank,
                         uint32_t attempt, uint32_t max_points, struct err *e);
cJSON *store_artifacts_json(struct store_reader *r, uint64_t job, struct err *e);
/* Of an array or a sweep: which members left what, [{id, ref, kinds}], at most 1,000; of another job none. */
cJSON *store_members_left_json(struct store_reader *r, uint64_t job, struct err *e);
cJSON *store_run_info_json(struct store_reader *r, uint64_t job, struct err *e);
/* What attempts cost in a span of time:
 * {"by","from","to","total_usd","rows":[{"name","usd","jobs","attempts", "running","hours"}]}, the dearest
 * first. Attempts on nodes without a price are not in it. */
enum cost_by { COST_BY_QUEUE, COST_BY_USER, COST_BY_JOB };
struct cost_filter {
	enum cost_by by;
	const char *queue, *owner; /* NULL any; queue: with those below it */
	uint64_t job;              /* 0 any */
	uint64_t from_us, to_us;   /* 0: since ever; until now */
	uint64_t now_us;
	uint32_t limit; /* rows; 0 = 100, at most 1,000 */
};
cJSON *store_cost_json(struct store_reader *r, const struct cost_filter *f, struct err *e);
struct strv;
/* Queues that were set ("default" is there without that), and who has jobs; added to out. */
int store_queue_names(struct store_reader *r, struct strv *out, struct err *e);
int store_owner_names(struct store_reader *r, struct strv *out, struct err *e);
/* 1: there is such a queue, a job of that owner, or something was ever spent by it; 0 none, -1. The lists
 * above end somewhere: they are for the nearest word. */
int store_queue_known(struct store_reader *r, const char *queue, struct err *e);
int store_owner_known(struct store_reader *r, const char *owner, struct err *e);
/* Parts of the scheduler's record, oldest first; {"part", "texts", "next"}: lines of one, from the row behind
 * `after` on, some `most` bytes; next null: that is all so far. */
cJSON *store_history_parts(struct store_reader *r, struct err *e);
cJSON *store_history_lines(struct store_reader *r, uint64_t part, uint64_t after, size_t most, struct err *e);
/* Newest artifact of a kind: digest/uri into *out (artifact_row_fini), ERR_NOT_FOUND; one of our own that was
 * taken away: as store_check_kept. */
int store_artifact_get(struct store_reader *r, uint64_t job, const char *kind, struct artifact_row *out,
                       struct err *e);
/* The newest attempt before number `below` that left something of the kind (left_fini); errors as above. */
int store_left(struct store_reader *r, uint64_t job, const char *kind, uint32_t below, struct left *out,
               struct err *e);
int store_job_get(struct store_reader *r, uint64_t job, struct job_row *out, struct err *e);
/* Newest job of that owner (NULL any) with that name; nth 0 = newest, 1 = the one before. */
int store_job_by_name(struct store_reader *r, const char *owner, const char *name, uint32_t nth,
                      uint64_t *job, struct err *e);
/* Owner's newest job; nth as above. */
int store_job_last(struct store_reader *r, const char *owner, uint32_t nth, uint64_t *job, struct err *e);

/* Token by the hex SHA-256 of its secret; ERR_NOT_FOUND. Expired ones are returned: the caller checks
 * expires_us and used_us. */
int store_token_get(struct store_reader *r, const char *secret_hash, struct token_row *out, struct err *e);

/* Newest row of that name, removed ones too; node_row_fini. ERR_NOT_FOUND. */
int store_node_get(struct store_reader *r, const char *name, struct node_row *out, struct err *e);

void event_row_fini(struct event_row *r);
void job_row_fini(struct job_row *r);
void attempt_row_fini(struct attempt_row *r);
void rank_row_fini(struct rank_row *r);
void node_row_fini(struct node_row *r);
void artifact_row_fini(struct artifact_row *r);
void left_fini(struct left *l);
void token_row_fini(struct token_row *r);

#endif
