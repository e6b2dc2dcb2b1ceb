/*
 * sched_slow: the scheduler's rules a second time, slow and obvious, from docs/spec/05-scheduler.md and
 * 05a-order.md. It is the only second implementation. It has priority, quota before borrowing, fair share and
 * age; what happens behind a job that does not fit (BLOCK, SKIP, RESERVE); reservations of nodes;
 * dependencies. It remembers as little as the rules allow: it sums up what is free from what jobs hold, tries
 * all placements, and looks at each time for a place in time. test_sched_live.c and test_sim_slow.c compare
 * each decision with it.
 *
 * It shares one thing with the library: the figures of use (sched_usage, which the test compares with a sum
 * over all that was ever held), because shares that differ only by rounding order jobs.
 */
#ifndef HEARTH_TESTS_UNIT_SCHEDULER_SCHED_SLOW_H
#define HEARTH_TESTS_UNIT_SCHEDULER_SCHED_SLOW_H
#include "scheduler/sched.h"

#define SLOW_NODES    6
#define SLOW_GPUS     4
#define SLOW_SLOTS    8
#define SLOW_JOBS     700
#define SLOW_SHAPES   10
#define SLOW_ACCOUNTS 10
#define SLOW_LANES    (SLOW_SHAPES * SLOW_ACCOUNTS)
#define SLOW_BOOKS    4
#define SLOW_LEVELS   3 /* priorities 0.. */
#define SLOW_PARTS    4 /* switches, or racks, and 0 */
#define SLOW_NEVER    UINT64_MAX
#define SLOW_POOLS    6
#define SLOW_POOL_ID  1000 /* the id of the first pool */
#define SLOW_LOST     64

struct slow_book {
	uint64_t id, from_s, to_s;
	int account; /* -1: nobody's */
};
struct slow_node {                                                /* its id is its index + 1 */
	int known, usable, spare, type, at_switch, in_rack, labelled; /* switch and rack: 0 not known */
	unsigned gpus, slots, memory, doubt, price, power;
	struct slow_book books[SLOW_BOOKS];
	int n_books, last_warm; /* last_warm: environment of the job that gave back last; 0 none */
};
struct slow_shape { /* what a job asks for; no two are equal */
	struct sched_group g[2];
	unsigned n_groups, instances, gpus, memory;
	int types[2], n_types, exclusive, needs_label, avoid; /* avoid: node or -1 */
	enum sched_span span;
	uint64_t limit_s, believed_s; /* believed_s: less than that, 0 none */
	int pool;                     /* only on parts of that one: index + 1; 0 any place */
};
struct slow_hold {
	int node;
	unsigned group, gpu_mask, slot_mask;
};
enum slow_state {
	SLOW_NONE,
	SLOW_WAITS,
	SLOW_HELD, /* by what it waits for */
	SLOW_RUNS,
	SLOW_REPLACES, /* holds some places, and waits for others */
	SLOW_EMPTY,    /* it ran, and has given back all */
	SLOW_KNOWN,    /* others wait for it */
	SLOW_OVER
};
struct slow_dep {
	unsigned on;
	enum sched_after kind;
	int state;         /* 0 none, 1 open, 2 met, 3 never */
	uint64_t sequence; /* in which they were asked for */
};
struct slow_job { /* its id is its index; 0 unused */
	enum slow_state state;
	int64_t priority;
	uint64_t order, submit_s, max_wait_s, start_s, saved_s, restart_s;
	int shape, account, firm, first, warm; /* warm: environment, 0 none */
	int begun, keeps;                      /* its decision was carried out; it will leave a pool */
	struct slow_hold holds[SLOW_NODES];
	unsigned n_holds, kept; /* kept: how many it had before the decision that gives it others */
	struct slow_dep after[2];
	uint64_t promise_s, promise_nodes; /* first start that was kept for it; 0 none; on which nodes */
	int by_limits;
};
struct slow_account {
	const char *path;
	int parent;
	double weight, use; /* use: set by the test before each decision */
	unsigned quota;
	int borrow, closed;
};

struct slow_part { /* what a pool has on a node */
	int node;
	unsigned gpu_mask, slot_mask, memory;
};
struct slow_pool { /* its id is its index + SLOW_POOL_ID; without parts it is not known */
	unsigned n_parts;
	int owner, warm, exclusive; /* owner: as slow_owner says */
	uint64_t idle_s;
	struct slow_part parts[SLOW_NODES];
};
struct slow_lost { /* what has to be reported */
	int pool, node, taken;
	unsigned job;
};

struct slow {
	struct slow_node nodes[SLOW_NODES];
	struct slow_shape shapes[SLOW_SHAPES];
	struct slow_job jobs[SLOW_JOBS];
	struct slow_account accounts[SLOW_ACCOUNTS];
	unsigned n_jobs; /* ids that were given */
	uint64_t now_s, sequence;
	uint64_t starve_s;            /* who has waited so long is due; 0 nobody */
	enum sched_backfill backfill; /* not SCHED_CONSERVATIVE */
	int fair;
	/* A walk lasts until time passes or something becomes free. */
	uint64_t freed, walk_freed, walk_now_s;
	uint64_t nodes_went; /* usable ones that went, or have other things since */
	int stale;           /* nothing changed since nobody could start */
	unsigned head, first[SLOW_LEVELS];
	uint64_t shadow_s;
	int crowds[SLOW_SHAPES]; /* in the way of the head, in this walk */
	/* Only a reservation keeps that kind of that account out: as of `freed`, until that time. */
	uint64_t booked_freed[SLOW_LANES], booked_until_s[SLOW_LANES];
	int active[SLOW_LANES], n_active; /* kinds in which a job waits, as they came */
	struct slow_pool pools[SLOW_POOLS];
	struct slow_lost lost[SLOW_LOST];
	unsigned n_lost;
};

/* What the i-th kind of job asks for; no two are equal. Limits are multiples of tick_s. */
void slow_shape_random(struct slow_shape *sh, unsigned i, uint64_t tick_s, uint32_t (*rnd)(uint32_t));
void slow_accounts(struct slow *w); /* "" 0, a 1, a/x 2, b 3, then owners in these */
/* What happened. */
void slow_waits(struct slow *w, unsigned id); /* the job is to be SLOW_WAITS from now on */
void slow_stops_waiting(struct slow *w, unsigned id, enum slow_state now);
void slow_lane_left(struct slow *w, int shape, int account); /* after a job of that kind is gone */
void slow_gives_back(struct slow *w, unsigned id, unsigned hold);
void slow_freed(struct slow *w);
void slow_node_gone(struct slow *w,
                    int node); /* bookings go with it, unless somebody holds something there */

int slow_owner(const struct slow_job *j);
/* The pool is that from now on; what is not free of it is lost. */
void slow_pool_set(struct slow *w, int pool, const struct slow_pool *in);
void slow_pool_remove(struct slow *w, int pool);
struct slow_look { /* for a place for a job, with regard to pools */
	const struct slow *w;
	const struct slow_job *job;
	const struct slow_shape *sh;
	unsigned open;        /* exclusive pools of its owner that it may use, as bits */
	unsigned need;        /* instances that are placed */
	int turn[SLOW_POOLS]; /* of its owner's pools */
};
/* Gives the pools of the owner their turns. 1: there are several, and the first is enough. */
int slow_pools_turns(struct slow_look *l);
/* Exclusive pools of the owner that are not too large for so many instances, as bits. */
unsigned slow_pools_whole(const struct slow *w, const struct slow_job *j, unsigned instances);
/* Which of these that place uses as a whole, or not at all. */
unsigned slow_pools_open(const struct slow *w, const struct slow_job *j, const int place[SLOW_NODES],
                         unsigned of);
/* The job has that hold since just now: which parts end by it. Returns the pool that it uses; -1 none. */
int slow_pools_give_way(struct slow *w, const struct slow_look *l, unsigned id, const struct slow_hold *h);
void slow_pools_node(struct slow *w, int node); /* the node changed, or is gone */
/* Are its GPUs and slots taken from where they are to be taken first? Asked before they are. */
int slow_hold_is_right(const struct slow_look *l, const struct slow_hold *h);

/* The next that starts, and the group that each node takes (-1 none). 0: nobody. */
unsigned slow_step(struct slow *w, int place[SLOW_NODES]);
/* Of that id; what a decision gave it is in its holds already. */
void slow_started(struct slow *w, unsigned id);
/* It has given back what it had to, and waits for as much. */
void slow_replaces(struct slow *w, unsigned id);

/* 0 may hold so many more, 1 by borrowing, 2 not. */
int slow_full(const struct slow *w, int account, unsigned gpus);
unsigned slow_held(const struct slow *w, int account);
unsigned slow_owed(const struct slow *w, int account); /* GPUs that its jobs gave back and wait to replace */
/* What counts as use: GPUs, of a job without any a sixteenth of its slots. */
double slow_load(const struct slow_shape *sh, unsigned gpus, unsigned slots);
int slow_below(const struct slow *w, int account, int top);
/* Would it fit now if those were gone? Reservations are not looked at. */
int slow_fits_without(const struct slow *w, unsigned id, const unsigned *gone, size_t n);
/* Who would have to stop so that it can start, in order; how many, 0: that would not help. */
size_t slow_victims(const struct slow *w, unsigned id, unsigned out[SLOW_JOBS]);
/* When it would fit if nobody were before it. */
uint64_t slow_earliest(const struct slow *w, unsigned id);
const char *slow_doubt(void); /* the slow one contradicted itself; NULL no */

#endif
