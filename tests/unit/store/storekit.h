/*
 * storekit: what the tests of the store share: an open store with its loop, rows to put in, transactions that
 * are waited for.
 */
#ifndef HEARTH_TESTS_UNIT_STORE_STOREKIT_H
#define HEARTH_TESTS_UNIT_STORE_STOREKIT_H

#include <cjson/cJSON.h>

#include "common/os/loop.h"
#include "store/base/rows.h"
#include "store/read/reader.h"
#include "store/write/txn.h"

/* Literals for the rows' strings. */
#define C(s) ((char *)(uintptr_t)(s))

struct sqlite3;

struct kit {
	char path[512];
	const char *marks; /* of the next kit_reopen; NULL: none */
	struct loop *loop;
	struct store *store;
	const struct clock *clock;
};
/* Opens tmpdir/NAME.db; bails out when it cannot. */
void kit_open(struct kit *k, const char *name);
void kit_reopen(struct kit *k);
void kit_close(struct kit *k);

/* Commits and waits for the completion; takes t. 0 or -1 as the completion said. */
int kit_commit(struct kit *k, struct store_txn *t, struct err *e);
/* What a transaction that is not waited for came to: kit_on_result as its completion, with one as argument.
 */
struct kit_result {
	int done, rc;
	enum err_code code;
};
void kit_on_result(int rc, const struct err *e, void *result);
/* Runs the loop until *flag is not 0 or until done(arg), at most 60 s; bails out after that. */
void kit_wait(struct kit *k, int (*done)(void *arg), void *arg, const char *what);
void kit_wait_projected(struct kit *k);

/* A job with one event of its own; strings are literals and must not be freed. */
struct job_row kit_job(uint64_t id);
struct event_row kit_event(uint64_t id, uint64_t job, char *type);
/* Submits job id (event id = id) and waits. */
void kit_submit(struct kit *k, uint64_t id, const char *spec);
struct store_reader *kit_reader(struct kit *k);

/* The value at a dotted path, arrays by number; its text (NULL none), its number (-12345 none). */
const cJSON *kit_at(const cJSON *v, const char *path);
const char *kit_str(const cJSON *v, const char *path);
double kit_num(const cJSON *v, const char *path);

/* On the file, from outside of the store; they bail out. */
void kit_sql(const char *path, const char *sql);
int64_t kit_number(const char *path, const char *sql);
/* How SQLite would go about it: the steps of its plan, the caller's. */
char *kit_plan(const char *path, const char *sql);

/* Numbers by chance, the same each time but for HEARTH_SEED. */
void kit_seed(const char *what);
uint64_t kit_random(uint64_t below);
/* 0 to 11 letters, among them what SQL, JSON and LIKE take for their own; in one of 8 static buffers. */
char *kit_word(void);
char *kit_word_or_null(void);
/* One of the list that ends with NULL. */
char *kit_pick(const char *const *list);

/* A bit of everything that a store can hold, put in and projected: jobs 1 to 6 (1 runs, 2 completed with
 * series, artifacts and two attempts, 3 failed and partly dropped, 4 removed, 5 waits, 6 a pinned one that
 * was stopped), array 10 with members 11 and 12 of 3, nodes, tokens, settings of each kind. */
void kit_fill(struct kit *k);
/* All rows of all tables as a digest; of tables only whose names are not in `but` (names between blanks, NULL
 * none). malloc'ed. */
char *kit_digest(const char *path, const char *but);

/* SQLite says no: the n-th time that a statement comes to a point where it could be interrupted, or the n-th
 * statement that is made, fails, on the connections that were told of it. kit_fail_hit: whether it came to
 * that; disarms. Not on more than one thread. */
enum kit_fail { KIT_FAIL_STEP, KIT_FAIL_STATEMENT, KIT_FAILS };
void kit_fail_on(struct sqlite3 *db);
void kit_fail_everywhere(int on); /* on each connection that is opened from now on */
void kit_fail_arm(enum kit_fail what, unsigned nth);
int kit_fail_hit(void);

#define KIT_T0 1790000000000000ull /* a time, microseconds */
#define KIT_SPEC                                                                                             \
	"{\"name\":\"digits\",\"command\":[\"/bin/true\"],\"tags\":{\"team\":\"vision\",\"kind\":\"test\"},"     \
	"\"hyperparameters\":{\"lr\":0.1,\"epochs\":5,\"opt\":\"sgd\",\"amp\":true,\"layers\":[1,2]},"           \
	"\"environment\":{\"NCCL_DEBUG\":\"WARN\",\"WANDB_API_KEY\":\"hunter2\"}}"

#endif
