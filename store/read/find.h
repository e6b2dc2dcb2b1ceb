/*
 * find: single records by id, name or hash, and names that exist. ERR_NOT_FOUND: unknown.
 */
#ifndef HEARTH_STORE_READ_FIND_H
#define HEARTH_STORE_READ_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "store/base/rows.h"
#include "store/read/reader.h"

struct strv;

int store_job_get(struct store_reader *r, uint64_t job, struct job_row *out, struct err *e);
/* Finds how many attempts a job has: 1 found, 0 the job is unknown, -1. */
int store_job_attempts(struct store_reader *r, uint64_t job, uint32_t *attempts, struct err *e);
/* The owner of a job, malloc'ed; NULL: unknown job, or an error. */
char *store_job_owner(struct store_reader *r, uint64_t job, struct err *e);
/* Finds the newest job with that name and owner (NULL: any); nth 0: the newest, 1: the one before. */
int store_job_by_name(struct store_reader *r, const char *owner, const char *name, uint32_t nth,
                      uint64_t *job, struct err *e);
/* Finds the owner's newest job; nth as above. */
int store_job_last(struct store_reader *r, const char *owner, uint32_t nth, uint64_t *job, struct err *e);
/* Finds the job that is member `index` of an array. ERR_UNAVAILABLE: the member will be made soon. */
int store_member_id(struct store_reader *r, uint64_t array, uint32_t index, uint64_t *job, struct err *e);

/* Finds a token by the hex SHA-256 of its secret. It returns expired tokens, too: the caller checks
 * expires_us and used_us. */
int store_token_get(struct store_reader *r, const char *secret_hash, struct token_row *out, struct err *e);
/* Finds the newest node of that name, also a removed one. */
int store_node_get(struct store_reader *r, const char *name, struct node_row *out, struct err *e);

/* What an attempt left of one kind: of each node that left any, the newest, in the order of the nodes. */
struct left_part {
	uint32_t node_rank;
	char *what; /* digest of a manifest, or uri */
};
struct left {
	uint32_t attempt;
	struct left_part *parts;
	size_t n;
};
void left_fini(struct left *l);
/* Finds the newest artifact of a kind: its digest or uri. When the store's own artifact was removed, it fails
 * as store_check_kept does. */
int store_artifact_get(struct store_reader *r, uint64_t job, const char *kind, struct artifact_row *out,
                       struct err *e);
/* Finds the newest attempt before number `below` that left something of the kind; errors as above. */
int store_left(struct store_reader *r, uint64_t job, const char *kind, uint32_t below, struct left *out,
               struct err *e);

/* Calls the functions for each checkpoint of a job, by number, and then for each part. They may empty the
 * row. */
struct store_checkpoints {
	void (*checkpoint)(struct checkpoint_row *r, void *arg);
	void (*part)(struct checkpoint_part_row *r, void *arg);
	void *arg;
};
int store_checkpoints(struct store_reader *r, uint64_t job, const struct store_checkpoints *to,
                      struct err *e);

/* Add the names of queues that were set (and "default"), and of users who have jobs, to out. */
int store_queue_names(struct store_reader *r, struct strv *out, struct err *e);
int store_owner_names(struct store_reader *r, struct strv *out, struct err *e);
/* Return 1 when the queue or the owner's job exists, or an attempt was paid by it; 0 or -1 in other cases.
 * The lists above are bounded and serve for the nearest word only. */
int store_queue_known(struct store_reader *r, const char *queue, struct err *e);
int store_owner_known(struct store_reader *r, const char *owner, struct err *e);

#endif
