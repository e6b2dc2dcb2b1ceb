/*
 * node_table: the nodes that hearthd knows, in memory, by name and by id.
 *
 * A node here is its record (what its row says) and what is known of its connection, clock and health only
 * as long as this hearthd runs.
 */
#ifndef HEARTH_CONTROLLER_STATE_NODE_TABLE_H
#define HEARTH_CONTROLLER_STATE_NODE_TABLE_H

#include "common/base/hashtable.h"
#include "common/base/text.h"
#include "common/os/proc.h"
#include "controller/record/cluster.h"
#include "controller/record/inventory.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"

struct stale { /* a launch that the agent has and that must not be: unknown, old or given up */
	uint64_t job;
	uint32_t attempt;
	struct stale *next;
};

/* A list of peers that hearthd sent to an agent; the agent counts its majority in it. */
struct told {
	uint64_t gen; /* 0: no list */
	uint64_t *ids;
	uint32_t n;
};

struct cjob;
struct look;
struct ahead;
enum { NODE_CHANGED = 1, NODE_CHANGED_INVENTORY = 2 };
struct cnode { /* begins with its record; core->records holds both */
	struct node_rec r;
	char *name; /* the record's */
	struct inv inv;
	uint64_t session;
	uint8_t connected, synced, syncing, sched_usable, sched_spare, in_sched;
	uint64_t beat_us; /* boot: last sign of life; 0 none since start */
	double load1, cpu_used;
	uint64_t memory_used, disk_free;
	struct wire_f64v gpu_util;
	struct wire_u64v gpu_memory_used;
	struct told held,
	    sent; /* the list that the agent confirmed; one on its way, which the agent may use already */
	uint64_t suspect_since_us; /* real: when it became suspect; 0 not suspect */
	uint64_t suspect_said_us;  /* boot: of the last such event; 0 none yet */
	struct look *look;         /* questions about it while it is suspect; NULL none */
	struct ahead *ahead;       /* cluster/prefetch.c: orders to this spare; NULL none */
	uint64_t gone_us;          /* boot: its connection ended, and no sign of life came since; 0 not so */
	uint64_t peers_sent_us;    /* boot; 0 not in this session */
	uint64_t rules_sent;       /* core.rules.gen as sent in this session; 0 none */
	uint64_t retired_sent;     /* 1 + peers.retired_gen as sent in this session; 0 none */
	/* boot: until then it may carry on without this controller; 0: it does not */
	uint64_t may_run_alone_until_us;
	uint8_t alone;           /* it may, by the last look; it counts as such until the next one */
	uint64_t back_us;        /* boot: when it was heard again after it was out of sight; 0 not yet */
	uint8_t list_unknown;    /* from the store: the list that it has is not on record */
	uint8_t silence_said;    /* the event about its silence was posted */
	uint8_t skewed;          /* the event about its clock was posted */
	int64_t ahead_us;        /* its wall clock against ours */
	uint64_t ahead_error_us; /* of that, at most; 0 not measured */
	struct stale *stale;
	struct cjob **jobs; /* that have a launch here which is not cleaned */
	uint32_t n_jobs, cap_jobs;
	uint64_t instance;               /* random number of the agent's process, 0 unknown */
	char boot_id[PROC_BOOT_ID_SIZE]; /* of the machine when its agent connected; "" unknown */
	uint8_t restarted;      /* it has connected in another boot, and has not reported everything yet */
	struct cjob **collects; /* whose earlier attempt has a launch here that is being collected */
	uint32_t n_collects, cap_collects;
	uint32_t version;       /* of the protocol, as its agent offered it; 0 unknown */
	char software[32];      /* of its agent; "" unknown */
	uint32_t outdated_said; /* version of which the event was posted */
	struct health health;
	uint32_t sched_health; /* the level that the scheduler has */
	uint8_t changed;       /* NODE_CHANGED...: not reported to the scheduler yet */
	struct cnode *changed_next, *changed_prev;
	UT_hash_handle hh_id; /* by id */
};

static inline struct cnode *node_first(const struct core *c)
{
	return (struct cnode *)c->records.all[CLUSTER_NODE];
}

static inline struct cnode *node_next(const struct cnode *n)
{
	return n->r.head.hh.next;
}

void nodes_open(struct core *c); /* before the records are made */
struct cnode *node_find(const struct core *c, const char *name);
struct cnode *node_by_id(const struct core *c, uint64_t id);
/* Sets the error for an unknown node, with the nearest of the first 1,000 names. Returns -1. */
int node_unknown(const struct core *c, const char *name, struct err *e);
/* Completes a node whose record is new. A record that an event created gets its id. */
void node_attach(struct core *c, struct cnode *n);
/* Frees everything but the record, which the caller frees next. */
void node_detach(struct core *c, struct cnode *n);
/* In the list of collections, while the job looks back (run/collect.h). */
void node_job_add(struct cnode *n, struct cjob *j);
void node_job_del(struct cnode *n, const struct cjob *j);
/* Converts a time of the node's wall clock to ours, as far as the difference is known. 0 stays 0. */
uint64_t node_time(const struct cnode *n, uint64_t us);
/* 1: its clock is certainly off by more than a second. */
int node_skewed(const struct cnode *n);
/* 1: connected, but its agent and hearthd have no version of the protocol in common. The agent renews its
 * lease and its ranks go on; it gets no orders, and its reports are not understood. */
int node_outdated(const struct cnode *n);
/* What to do about that: "upgrade this agent: ...". */
const char *node_outdated_text(const struct cnode *n, struct text *t);
void told_fini(struct told *t);

#endif
