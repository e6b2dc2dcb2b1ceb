/*
 * cluster: records of nodes, join tokens, queues with their quotas, budgets, instance types, reservations and
 * warm pools (pool.h), and what each event of the cluster (job 0) does to them.
 *
 * cluster_apply is pure: records + event -> records. Live code, start-up and --verify use the same records.
 * Only events change the fields that events contain. The stored events, applied to empty records, therefore
 * give the stored rows; replay.c compares them.
 *
 * Some fields are in no event: secrets, numbers that hearthd assigns, texts of agents. Their comments say so.
 * Live code sets them, and cluster_load (cluster_rows.h) reads them from the row.
 *
 * Live code may extend a record: a struct of its own begins with the record, and cluster.size holds the size
 * of that struct. A new record is filled with zeros. Live code frees what its part holds before the record
 * is removed.
 */
#ifndef HEARTH_CONTROLLER_RECORD_CLUSTER_H
#define HEARTH_CONTROLLER_RECORD_CLUSTER_H

#include "common/base/hashtable.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"

enum cluster_kind {
	CLUSTER_NODE,
	CLUSTER_TOKEN,
	CLUSTER_QUEUE,
	CLUSTER_BUDGET,
	CLUSTER_INSTANCE,
	CLUSTER_RESERVATION,
	CLUSTER_POOL,
	CLUSTER_POOL_JOB,
	N_CLUSTER_KIND,
	CLUSTER_NONE = N_CLUSTER_KIND /* of an event without a record */
};

struct cluster_rec { /* what each record begins with */
	char *name;      /* of a node, queue ...; the id of a token */
	enum cluster_kind kind;
	uint8_t changed; /* by an event since the last cluster_changes */
	uint32_t rows;   /* rows that --verify compared with it */
	UT_hash_handle hh;
};

struct node_rec {
	struct cluster_rec head;
	enum node_state state;
	uint8_t drain, has_inventory;
	uint8_t spare;              /* it takes no jobs but those that replace nodes */
	char *reason, *fingerprint; /* NULL = "" */
	uint64_t joined_us;
	/* The newest inventory, as its event has it. */
	char *address;
	uint64_t slots, gpus, memory_bytes;
	/* In no event. */
	uint64_t id, seen_us;
	char *inventory; /* JSON; NULL none */
};

enum token_kind { TOKEN_JOIN, TOKEN_USER, TOKEN_SESSION, N_TOKEN_KIND };
extern const char *const token_kind_names[]; /* NULL-terminated */

struct token_rec { /* tokens of jobs have no record: their attempts have them */
	struct cluster_rec head;
	enum token_kind kind;
	char *owner, *node; /* owner: the user; who made a join token. node: the one that used it; NULL none */
	char *scope, *account, *note, *parent;    /* as in struct token_row; parent: made_with */
	uint64_t job;                             /* of the scope job:ID */
	uint64_t created_us, expires_us, used_us; /* expires_us 0: never */
	/* In no event: SHA-256 of the secret; digest of the request that used a join token; the last use. */
	char *secret_hash, *request, *seen_from;
	uint64_t seen_us;
};

struct queue_rec { /* a queue, or a user in one: "research/@ada" */
	struct cluster_rec head;
	double weight;
	uint32_t quota_gpus;            /* 0 none */
	uint32_t warm_gpus, warm_nodes; /* that may be idle in warm pools; 0 no limit */
	uint8_t is_queue, borrow;
	uint8_t stored; /* 1: it has a row; "default" has none until an event names it */
};

/* clang-format off */
#define BUDGET_PERIODS(P) P(BUDGET_DAY, "day") P(BUDGET_WEEK, "week") P(BUDGET_MONTH, "month")
/* Running jobs of a budget that is used up: they continue, or hearthd ends them. */
#define BUDGET_ACTIONS(P) P(BUDGET_HOLD, "hold") P(BUDGET_END, "end")
#define RESERVE_STATES(P) P(RESERVE_PLANNED, "planned") P(RESERVE_ACTIVE, "active") P(RESERVE_ENDED, "ended")
/* clang-format on */
#define P(id, name) id,
enum budget_period { BUDGET_PERIODS(P) N_BUDGET_PERIOD };
enum budget_action { BUDGET_ACTIONS(P) N_BUDGET_ACTION };
enum reserve_state { RESERVE_STATES(P) N_RESERVE_STATE };
#undef P
extern const char *const budget_period_names[], *const budget_action_names[], *const reserve_state_names[];
int name_find(const char *const *names, int n, const char *name); /* -1 unknown */

struct budget_rec {
	struct cluster_rec head;
	uint64_t uusd; /* millionths of a US dollar in a period */
	enum budget_period period;
	enum budget_action action;
};

struct instance_rec {
	struct cluster_rec head;
	cJSON *own; /* facts that administrators have set */
};

struct reservation_rec {
	struct cluster_rec head;
	char *queue, *reason, *owner; /* queue: "" for maintenance */
	struct strv nodes;            /* names, so that a node may leave and join again */
	enum reserve_state state;
	uint64_t from_us, to_us, created_us;
};

struct cluster_change;
struct cluster {
	struct cluster_rec *all[N_CLUSTER_KIND]; /* by name, in order of arrival */
	size_t size[N_CLUSTER_KIND];
	struct cluster_change *changes;
};

/* Adds a record without facts; the name must be new. */
struct cluster_rec *cluster_rec_new(struct cluster *c, enum cluster_kind kind, const char *name);
void cluster_init(struct cluster *c);  /* no records but the queue "default" */
void cluster_clear(struct cluster *c); /* frees all records; sizes stay */

/* Applies an event, or refuses it (-1) and leaves the records as they were. An event whose state a node may
 * not enter is accepted and leaves the state: the end of an agent may follow the removal of its node. */
int cluster_apply(struct cluster *c, enum event_type t, uint64_t at_us, const cJSON *data, struct err *e);

/* Calls fn once for each row that events have changed since the last call; r NULL: delete the row. */
typedef void (*cluster_change_fn)(enum cluster_kind kind, const char *name, const struct cluster_rec *r,
                                  void *arg);
void cluster_changes(struct cluster *c, cluster_change_fn fn, void *arg);

/* NULL: unknown name. */
struct cluster_rec *cluster_find(const struct cluster *c, enum cluster_kind kind, const char *name);
struct node_rec *cluster_node(const struct cluster *c, const char *name);
struct token_rec *cluster_token(const struct cluster *c, const char *id);
struct queue_rec *cluster_queue(const struct cluster *c, const char *path);
struct budget_rec *cluster_budget(const struct cluster *c, const char *path);
struct instance_rec *cluster_instance(const struct cluster *c, const char *name);
struct reservation_rec *cluster_reservation(const struct cluster *c, const char *name);
void cluster_mark(struct cluster *c, struct cluster_rec *r); /* its row is to be written */
/* 0: the queue "default" without a row. */
int cluster_is_stored(const struct cluster_rec *r);
/* Frees a record; its row stays in the store. */
void cluster_forget(struct cluster *c, struct cluster_rec *r);
void reservation_rec_fini(struct reservation_rec *r); /* of a record outside struct cluster */

#endif
