/*
 * load: what the state thread reads when it starts. Blocking.
 */
#ifndef HEARTH_STORE_READ_LOAD_H
#define HEARTH_STORE_READ_LOAD_H

#include <stdint.h>

#include "common/base/err.h"
#include "store/base/codec.h"
#include "store/base/rows.h"

struct store;

struct member_row { /* a member that has ended, of an array that has not; borrowed */
	uint64_t array, id;
	const char *status;
	uint8_t halved;
	const char *rungs;
	uint64_t started_us;
};

struct spent_row { /* what an account has spent on attempts that have ended; borrowed */
	const char *account;
	uint64_t day_uusd, week_uusd, month_uusd; /* since the three times of struct store_load */
};

/* One function for each kind of record; NULL skips the kind. -1 stops the load. */
struct store_load {
	int (*job)(const struct job_row *r, void *arg);         /* unfinished jobs only */
	int (*attempt)(const struct attempt_row *r, void *arg); /* all attempts of those jobs */
	int (*rank)(const struct rank_row *r, void *arg);       /* of the two newest attempts of each */
	/* those of unfinished jobs; all checkpoints come before the first part */
	int (*checkpoint)(const struct checkpoint_row *r, void *arg);
	int (*checkpoint_part)(const struct checkpoint_part_row *r, void *arg);
	int (*watch)(uint64_t job, const char *state, void *arg); /* states of watches */
	int (*node)(const struct node_row *r, void *arg);         /* not the removed ones */
	int (*token)(const struct token_row *r,
	             void *arg); /* not used up; not expired, but for users' and sessions */
	int (*idem)(const char *key, const char *digest, uint64_t job, void *arg); /* of the last 24 h */
	int (*answer)(const struct answer_row *r, void *arg); /* of the last 24 h, oldest first */
	int (*member)(const struct member_row *r, void *arg);
	int (*ended)(const char *status, uint64_t jobs, void *arg); /* ended jobs by status, arrays not counted */
	int (*queue)(const struct queue_row *r, void *arg);         /* a parent before its children */
	int (*usage)(const struct usage_row *r, void *arg);
	int (*instance)(const char *name, const char *own, void *arg); /* by name */
	int (*reservation)(const struct reservation_row *r, void *arg);
	int (*budget)(const struct budget_row *r, void *arg);
	/* Pools that live, or ended since pools_us; what jobs left in pools, as long as it waits
	 * or the job has not ended. */
	int (*pool)(const struct pool_row *r, void *arg);
	int (*pool_job)(const struct pool_job_row *r, void *arg);
	uint64_t pools_us;
	/* Run times of the newest 10,000 completed jobs (last attempt), oldest first; called before job. */
	int (*took)(const char *owner, const char *name, uint64_t took_us, void *arg);
	int (*spent)(const struct spent_row *r, void *arg);
	uint64_t day_us, week_us, month_us; /* for spent */
	void *arg;
	/* Events of this type of the newest attempt of each job that runs, oldest first. */
	int (*event)(uint64_t job, uint32_t attempt, uint64_t at_us, const char *data, void *arg);
	const char *event_type;
};
int store_load(struct store *s, const struct store_load *l, struct err *e);
/* Returns the statement that reads the ranks. */
const char *load_ranks_statement(void);
/* Returns the greatest ids ever given, so that none is used twice. */
int store_max_ids(struct store *s, uint64_t *job, uint64_t *event, uint64_t *node, struct err *e);
char *store_setting(struct store *s, const char *key); /* malloc'ed; NULL: not set */

/* ---- the newest points of a series ------------------------------------------------------------------ */

#define SERIES_TAIL_CHUNKS 64

struct series_key {
	uint64_t job;
	uint32_t attempt, rank;
	const char *name;
};
/* Adds the points since after_us, of SERIES_TAIL_CHUNKS chunks at most, the newest chunk first. seq: of the
 * last batch. An unknown series has no points and the number 0. */
int store_series_tail(struct store *s, const struct series_key *k, uint64_t after_us, struct points *out,
                      uint64_t *seq, struct err *e);

#endif
