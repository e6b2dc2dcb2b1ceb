/*
 * cluster: the records of what the cluster consists of: nodes, join tokens, queues with their quotas,
 * budgets, instance types and reservations; and what each event of the cluster (job 0) does to them.
 *
 * cluster_apply is pure: records + event -> records. Live code, start-up and --verify all use these records,
 * and nothing but an event changes a field of them that events tell. So the stored events, applied to empty
 * records, give the stored rows (replay.c compares them).
 *
 * Some fields are in no event: secrets, numbers that hearthd gives, what an agent said. Their comments say
 * so; live code sets them, and cluster_load (cluster_rows.h) reads them from the row.
 *
 * A record may be the beginning of a greater struct of live code: cluster.size says how many bytes of zeros
 * a new one of each kind has. Whoever uses that frees what it keeps there before the record goes.
 */
#ifndef HEARTH_CONTROLLER_CLUSTER_H
#define HEARTH_CONTROLLER_CLUSTER_H

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
	N_CLUSTER_KIND
};

struct cluster_rec { /* what each record begins with */
	char *name;      /* of a node, queue ...; the id of a token */
	enum cluster_kind kind;
	uint8_t changed; /* since the last cluster_changes */
	uint32_t rows;   /* --verify: rows of it that were compared */
	UT_hash_handle hh;
};

struct node_rec {
	struct cluster_rec head;
	enum node_state state;
	uint8_t drain, has_inventory;
	char *reason, *fingerprint; /* NULL = "" */
	uint64_t joined_us;
	/* The newest inventory, as its event has it. */
	char *address;
	uint64_t slots, gpus, memory_bytes;
	/* In no event. */
	uint64_t id, seen_us;
	char *inventory; /* JSON; NULL none */
};

struct token_rec { /* join tokens only */
	struct cluster_rec head;
	char *owner, *node; /* node: that used it; NULL none */
	uint64_t created_us, expires_us, used_us;
	/* In no event: the secret's SHA-256, and the digest of the request that used it. */
	char *secret_hash, *request;
};

struct queue_rec { /* a queue, or a user in one: "research/@ada" */
	struct cluster_rec head;
	double weight;
	uint32_t quota_gpus; /* 0 none */
	uint8_t is_queue, borrow;
	uint8_t stored; /* it has a row: "default" is there without one until an event names it */
};

/* clang-format off */
#define BUDGET_PERIODS(P) P(BUDGET_DAY, "day") P(BUDGET_WEEK, "week") P(BUDGET_MONTH, "month")
/* What becomes of what runs when the budget is used up: it goes on, or is ended. */
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
	cJSON *own; /* the facts that are set */
};

struct reservation_rec {
	struct cluster_rec head;
	char *queue, *reason, *owner; /* queue: "" nobody's, maintenance */
	struct strv nodes;            /* names: a node that left and joined again is the same */
	enum reserve_state state;
	uint64_t from_us, to_us, created_us;
};

struct cluster_change;
struct cluster {
	struct cluster_rec *all[N_CLUSTER_KIND]; /* by name, in the order in which they came */
	size_t size[N_CLUSTER_KIND];
	struct cluster_change *changes;
};

/* A record of that name, which is new: of one kind, as no event has named it. */
struct cluster_rec *cluster_rec_new(struct cluster *c, enum cluster_kind kind, const char *name);
void cluster_init(struct cluster *c);  /* empty, but for the queue "default" */
void cluster_clear(struct cluster *c); /* frees all records; sizes stay */

/* Applies an event, or refuses it (-1) and leaves the records as they were. A node that may not go to the
 * state of the event stays as it is, which is no error: an agent's end may be recorded behind its removal. */
int cluster_apply(struct cluster *c, enum event_type t, uint64_t at_us, const cJSON *data, struct err *e);

/* Calls fn for each row that events have changed since the last call, once; r NULL: the row goes. */
typedef void (*cluster_change_fn)(enum cluster_kind kind, const char *name, const struct cluster_rec *r,
                                  void *arg);
void cluster_changes(struct cluster *c, cluster_change_fn fn, void *arg);

/* NULL: unknown name. The names of the functions below say which struct it is. */
struct cluster_rec *cluster_find(const struct cluster *c, enum cluster_kind kind, const char *name);
struct node_rec *cluster_node(const struct cluster *c, const char *name);
struct token_rec *cluster_token(const struct cluster *c, const char *id);
struct queue_rec *cluster_queue(const struct cluster *c, const char *path);
struct budget_rec *cluster_budget(const struct cluster *c, const char *path);
struct instance_rec *cluster_instance(const struct cluster *c, const char *name);
struct reservation_rec *cluster_reservation(const struct cluster *c, const char *name);
/* 0: a queue that is there without a row. */
int cluster_is_stored(const struct cluster_rec *r);
/* Frees a record that need not be in memory; its row stays. */
void cluster_forget(struct cluster *c, struct cluster_rec *r);
void reservation_rec_fini(struct reservation_rec *r); /* of one outside any records */

#endif
