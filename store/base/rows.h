/*
 * rows: the records of the store as structs. The holder of a struct owns its strings; they may be NULL (SQL
 * NULL) where noted. "Borrowed" marks a struct whose strings belong to somebody else. Times are real_us (0:
 * none).
 *
 * store/base holds what writing and reading share: records, SQLite helpers, the codec of series, tags. It may
 * use common/ only.
 */
#ifndef HEARTH_STORE_BASE_ROWS_H
#define HEARTH_STORE_BASE_ROWS_H

#include <stdint.h>

#include "store/base/columns.h"

#define IDEM_KEPT_US (24ull * 3600 * 1000000) /* lifetime of idempotency keys and answers */

/* What a job holds besides its record. The record itself and its end state stay for good. */
enum store_keep { STORE_LOGS = 1, STORE_BUNDLE = 2, STORE_METRICS = 4, STORE_ARTIFACTS = 8, STORE_ALL = 15 };

struct event_row {
	uint64_t id;      /* global, ascending, given by the state thread */
	uint64_t job;     /* 0 = of the cluster */
	uint32_t attempt; /* 0 = of the job */
	uint64_t at_us;
	char *type; /* from the table in controller/record/event.h */
	char *data; /* JSON object */
};

struct job_row { /* fields: columns.h */
	JOB_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
	/* The columns of the table job_spec, where the reader asks for them. */
	char *spec; /* verbatim text */
	char *run;  /* JSON: git commit, diff digest, client facts */
};

struct attempt_row {
	ATTEMPT_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
};

/* How long a job ran so far: ran_us and runs_since_us as above. */
static inline uint64_t ran_until_us(uint64_t ran_us, uint64_t since_us, uint64_t now_us)
{
	return ran_us + (since_us && now_us > since_us ? now_us - since_us : 0);
}

/* What it costs to hold for that long what costs so much an hour; both in millionths of a US dollar. */
static inline uint64_t cost_uusd(uint64_t price_uusd, uint64_t us)
{
	return (uint64_t)((double)price_uusd * (double)us / 3.6e9 + 0.5);
}

struct rank_row {
	RANK_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
};

struct checkpoint_row {
	CHECKPOINT_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
};

struct checkpoint_part_row {
	CHECKPOINT_PART_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
};

struct pool_row {
	POOL_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
};

struct pool_job_row {
	POOL_JOB_TABLE(COLUMN_MEMBER, COLUMN_MEMBER)
};

struct node_row {
	uint64_t id;
	char *name, *address;
	char *state; /* joining up drained lost removed */
	char *reason;
	char *cert_fingerprint;
	char *inventory; /* JSON */
	uint64_t joined_us, seen_us;
	uint8_t drain, spare;
};

struct artifact_row {
	uint64_t job;
	uint32_t attempt;
	char *kind; /* model output failure checkpoint */
	char *node;
	char *digest; /* manifest digest in the artifact store; NULL when at uri */
	char *uri;    /* NULL when in the artifact store */
	uint64_t size_bytes, files, at_us;
};

struct tag_row {
	uint64_t job;
	char *key, *value;
};

struct queue_row { /* borrowed */
	const char *path;
	uint8_t is_queue, borrow;
	uint64_t weight_milli;
	uint32_t quota_gpus;
	uint32_t warm_gpus, warm_nodes; /* idle in warm pools, at most; 0 no limit */
};

struct budget_row { /* borrowed */
	const char *path;
	uint64_t uusd;
	const char *period; /* day, week, month */
	const char *action; /* when it is used up, of what runs: hold (it goes on), end */
};

struct usage_row { /* borrowed */
	const char *path;
	uint64_t gpu_ms, at_us;
};

struct reservation_row {      /* borrowed */
	const char *name, *state; /* planned active ended */
	const char *queue;        /* "": nobody's, maintenance */
	const char *nodes;        /* names, a space between them */
	const char *reason, *owner;
	uint64_t from_us, to_us, created_us;
};

struct answer_row { /* borrowed */
	const char *key, *digest;
	uint32_t status;
	const char *body; /* JSON */
	uint64_t at_us;
};

struct token_row {     /* join tokens, tokens of users and jobs, sessions */
	char *id;          /* short public name */
	char *kind;        /* join | job | user | session | admin */
	char *secret_hash; /* hex SHA-256 */
	char *owner;
	uint64_t job; /* of a job-scoped token */
	uint64_t created_us, expires_us, used_us;
	char *used_by;
	char *scope;   /* of a user's token or session: read, submit, job:ID, admin; NULL all that the user may */
	char *account; /* the user's own Unix account; NULL: hearthd's rules name one */
	char *note;
	char *made_with;  /* id of the token that made it; NULL none */
	uint64_t seen_us; /* last use, to the minute; 0 never */
	char *seen_from;  /* address */
};

struct metric_chunk { /* points of one series, in order of arrival */
	uint64_t job;
	uint32_t attempt, rank;
	char *name;
	uint32_t n;
	int64_t *steps; /* -1 none */
	double *values;
	uint64_t *times_us;
	uint64_t seq; /* agent's batch number: a chunk with a seq not above the stored one is dropped */
	char *node;   /* who sent it */
};

/* Free the strings of a row and clear it. */
void event_row_fini(struct event_row *r);
void job_row_fini(struct job_row *r);
void attempt_row_fini(struct attempt_row *r);
void rank_row_fini(struct rank_row *r);
void checkpoint_row_fini(struct checkpoint_row *r);
void checkpoint_part_row_fini(struct checkpoint_part_row *r);
void pool_row_fini(struct pool_row *r);
void pool_job_row_fini(struct pool_job_row *r);
void node_row_fini(struct node_row *r);
void artifact_row_fini(struct artifact_row *r);
void token_row_fini(struct token_row *r);

#endif
