/*
 * model: the scheduler's plain data: nodes and what is held on them, jobs, shapes. Private to scheduler/.
 *
 * Jobs that ask for the same are of one shape, kept once: a million equal jobs cost one description, and
 * "does not fit" is worked out once a shape. Jobs of one shape, account and kin stand in one lane, in order
 * (queue.c): of a lane only the first can be the next, so a decision looks at lanes, not at jobs. Owners of
 * GPUs and slots are written at the resource itself, so that giving one out twice is impossible to do
 * silently, and sched_check can compare both sides.
 */
#ifndef HEARTH_SCHEDULER_MODEL_H
#define HEARTH_SCHEDULER_MODEL_H

#include "scheduler/model/mem.h"
#include "scheduler/sched.h"

#define uthash_malloc(sz) mem_alloc(1, sz)
#define uthash_fatal(msg) assert(0)
#include <uthash.h>
#include <utlist.h>

struct gpu {
	struct sched_gpu g; /* model is owned here */
	uint64_t owner;     /* job; 0 free */
	int present;        /* 0: gone from the inventory, or not known yet, but held */
};

enum level { LEVEL_SWITCH, LEVEL_RACK, LEVELS };

struct domain { /* a switch or a rack: the known nodes that bear its name, usable or not */
	char *name;
	struct node **nodes; /* by ascending id */
	uint32_t n, cap;
	uint32_t count; /* fit.c: how many of them could take an instance */
	UT_hash_handle hh;
};

struct node {
	/* What looking for a place reads of every node stands together: one or two lines of the cache. */
	uint64_t id;
	uint32_t slots, free_slots, free_gpus;
	uint32_t has_gpus;           /* present ones, free or not */
	uint32_t holders;            /* jobs with something here */
	uint32_t n_reservations, at; /* at: index in sorted */
	uint64_t exclusive;          /* job that has the node for itself; 0 none */
	int usable, known;           /* known = 0: only held on, from before a restart */
	uint8_t drained; /* 1: it takes no jobs only because it was drained; 2: as 1, put aside for now */
	uint64_t memory, disk, memory_used, disk_used;
	char *name, *type;
	char **labels;        /* NULL-terminated */
	uint64_t *slot_owner; /* [n_owners] job; n_owners >= slots */
	uint32_t n_owners;
	struct gpu *gpus;
	uint32_t n_gpus;
	double price, power;
	uint64_t fit_mark; /* of all that it was told that decides what could fit */
	uint32_t counted;  /* where it stands in by_free: free GPUs + 1; 0 not at all */
	uint32_t doubt;
	struct domain *domain[LEVELS];    /* its switch and its rack; NULL not known, or the node is not */
	char *warm;                       /* what the last job here was warm for; NULL */
	struct reservation *reservations; /* few; by no order */
	UT_hash_handle hh;
};

struct hold { /* what a job has on one node */
	struct node *node;
	uint32_t group, n_gpus, n_cpus;
	uint32_t *gpus, *cpus;
	uint64_t memory, disk;
	int exclusive;
};

struct shape {
	char *key; /* all fields below as bytes, limit and believed time: equal key = equal shape */
	size_t key_n;
	struct sched_group *groups;
	uint32_t n_groups, instances;
	uint64_t memory, disk, gpu_memory;
	int exclusive;
	char *gpu_model;
	char **types, **requires, **avoid; /* NULL-terminated */
	enum sched_span span;
	struct lane *lanes;
	uint32_t users;        /* jobs of this shape */
	uint64_t gpus;         /* of the whole gang */
	uint64_t cpus;         /* its slots, where it has no GPUs: they count as use then */
	uint64_t possible_gen; /* nodes_gen at which they could */
	uint64_t hopeless_gen; /* nodes_gen at which usable nodes, empty, could not hold it */
	uint64_t nofit_gen;    /* gen at which it did not fit */
	uint64_t crowds_era;   /* era in which it leaves no place for the head */
	UT_hash_handle hh;
};

struct reservation {
	uint64_t id, from_s, to_s;
	struct account *account; /* NULL nobody */
};

struct account { /* a queue, or an owner in one; the root has path "" */
	char *path;
	struct account *parent;
	uint32_t depth;
	double weight, use;    /* GPU-seconds, decayed to use_at */
	uint64_t use_at, gpus; /* gpus: held now, also by those below */
	uint64_t cpus;         /* the same, slots of jobs without GPUs */
	uint64_t wants;        /* GPUs that the waiting ask for; these, too, of all below */
	uint32_t waiting;
	uint64_t since; /* use holds all until then: from before a restart; 0 nothing */
	uint64_t quota;
	/* plan.c, forecast.c: GPUs, and slots of jobs without, of those that are before the one that is looked
	 * for */
	uint64_t ahead, ahead_cpus;
	double now_use;  /* use, decayed to now_at - 1: it is compared often within a look */
	uint64_t now_at; /* 0: not worked out */
	int borrow, closed;
	UT_hash_handle hh;
};

struct tally { /* run times seen, older ones fading */
	double sum, n;
};
struct size { /* gangs of so many GPUs */
	uint64_t gpus;
	struct tally seen;
	UT_hash_handle hh;
};
struct kin { /* jobs of one owner, name and size: expected to take about the same */
	char *key;
	struct size *size;
	struct tally seen;
	uint64_t last_submit_s;
	struct lane *lane; /* the burst that is open; NULL */
	uint32_t users;
	UT_hash_handle hh;
};

struct lane {
	struct shape *shape;
	struct account *account;
	struct kin *kin;             /* NULL when nothing is learned */
	struct job *waiting, *first; /* root of the ordered tree; its first */
	uint32_t users, active_at;   /* jobs of this lane; index in active, or NONE */
	/* run times of this burst: those ended, and what is running has run already */
	struct tally seen;
	uint64_t n_running, start_sum;
	double mean;      /* expected run time, as of the last look */
	uint64_t refused; /* era in which it may not start */
	uint64_t barred_gen,
	    barred_until_s; /* gen in which, and time up to which, only reservations keep it out */
	struct lane *next_of_shape;
};
#define NONE UINT32_MAX

enum dep_state { DEP_OPEN, DEP_MET, DEP_NEVER };
struct dep { /* what one job waits for */
	uint64_t on;
	struct job *who;
	struct dep *
	    *list; /* where it stands: waiters of the other job while open, what is settled; NULL nowhere */
	struct dep *prev, *next;
	enum sched_after kind;
	enum dep_state state;
};

struct room { /* what is free on a node, now or at the shadow time */
	uint64_t memory, disk, exclusive;
	uint32_t gpus, slots, holders;
};

struct job {
	uint64_t id, order, mix; /* mix: balance of the tree, from the id */
	int64_t priority;
	uint64_t submit_s, limit_s, max_wait_s, start_s, saved_s, restart_s; /* saved_s: last checkpoint */
	uint64_t believed_s;                                                 /* 0 its limit */
	uint64_t promise_s; /* the first start that was kept for it, at promise_nodes of went_gen; 0 none */
	uint64_t end_s;     /* believed when the place was made that is kept now, or when it started since */
	struct shape *shape;
	struct lane *lane;
	char *warm;
	struct kept *kept;           /* plan.c: its place in time; NULL */
	struct job *kept_below;      /* the next in the scheduler's reserved_first */
	struct dep *after, *waiters; /* waiters: deps of other jobs on this one */
	uint32_t n_after, n_open, n_never, promise_nodes;
	uint8_t firm, is_running, is_held, is_done; /* held: by what it waits for; done: ended by itself */
	uint8_t by_limits; /* its kept place came later than promised: for it others take their limits */
	struct job *prev_running, *next_running;
	struct job *left, *right; /* tree of waiting jobs */
	uint32_t size;            /* of this subtree */
	uint32_t n_holds, run_at; /* run_at: index in runs */
	int is_waiting;
	struct hold *holds;
	UT_hash_handle hh;
};

struct bid { /* a lane with what orders it */
	struct lane *lane;
	struct job *job;
	int due, borrows;
};

struct spot {           /* one instance's place */
	uint32_t at, group; /* index of the node in sorted */
};

struct running {
	struct job *job;
	uint64_t end_s; /* where it does not depend on others: as it was believed last; 0: ask running_end */
};

#define MAX_FREE 64

struct recorder;

struct sched {
	struct node *nodes;   /* by id */
	struct node **sorted; /* known nodes by ascending id */
	size_t n_sorted, cap_sorted;
	struct shape *shapes;
	struct job *jobs, *running;
	size_t n_waiting, n_running, n_held;
	struct running *runs; /* [n_running] the same as the list, by no order: to be walked fast */
	size_t cap_runs;
	struct dep *settled; /* not yet told */
	uint64_t gen;        /* rises whenever something may fit that did not */
	uint64_t nodes_gen;  /* rises whenever what could fit on nodes changes; starts at 1 */
	uint64_t went_gen;   /* rises whenever a usable node goes, or has other things than before */
	struct sched_policy policy;
	uint64_t now_s;
	struct account *accounts;
	uint32_t by_free[MAX_FREE + 2],
	    most_free;                  /* nodes that may get work, by free GPUs + 1 (more count as MAX_FREE) */
	struct domain *domains[LEVELS]; /* by name; none is empty */
	uint32_t largest[LEVELS];       /* nodes of the largest */
	size_t n_reservations, n_drained;
	struct kin *kin;
	struct size *sizes;
	struct tally seen;    /* all run times */
	struct lane **active; /* lanes in which a job waits, by no order */
	uint32_t n_active, cap_active;
	/* A look lasts until time or input changes (input rises with each change from outside), an era until
	 * something became free: what may not start stays so for the era. */
	uint64_t input, look_input, look_now_s, era, era_gen, era_now_s;
	struct bid *bids; /* a heap: lanes whose first may be next, as of bids_era; 0: to be made anew */
	uint32_t n_bids, cap_bids;
	uint64_t bids_era;
	int quotas;        /* there are some */
	uint64_t effort;   /* behind the head, in this look */
	int idle;          /* nothing more can start in this look */
	struct plan *plan; /* plan.c; NULL */
	int planning;      /* the view is a part of the plan: the best place in it is wanted */
	struct job
	    *reserved_first; /* a place was kept for it, and is again: one of each priority, highest first */
	struct job *head;    /* a place is kept for it */
	uint64_t shadow_s;
	struct room *view;                /* [n_sorted] what is free at shadow_s */
	uint32_t view_free[MAX_FREE + 1]; /* nodes by free GPUs in it */
	const struct job *kept; /* whom shadow_s and the view were made for, at kept_nodes; NULL nobody */
	uint64_t kept_nodes;
	size_t kept_ends;          /* jobs that ended since */
	struct recorder *recorder; /* record.c; NULL: what is told is not on record */
	/* The job that is being placed, for reservations: it would be there from one time to the other. NULL:
	 * reservations do not count. */
	const struct job *trying;
	uint64_t try_at_s, try_end_s;
};

/* model.c */
struct node *model_node(const struct sched *s, uint64_t id);
struct node *model_node_make(struct sched *s, uint64_t id);            /* held on, not known yet */
void model_take(struct sched *s, struct job *j, const struct hold *h); /* h is copied, its vectors too */
void model_give_back(struct sched *s, struct job *j, uint32_t i);
uint64_t model_cpus(const struct job *j, const struct hold *h); /* what of it counts as use beside GPUs */

/* domain.c */
void domain_set(struct sched *s, struct node *n, enum level level, const char *name); /* NULL, "": none */
enum level domain_needed(enum sched_span span);                                       /* LEVELS: none */
const char *domain_check(const struct sched *s);
void domains_fini(struct sched *s); /* the nodes are gone */

/* Fewer nodes have that many free GPUs than the gang wants? 0: it may fit. */
int model_too_full(const struct sched *s, const struct shape *sh);

/* queue.c: one tree a lane, order: priority down, order up, id up */
int queue_before(const struct job *a, const struct job *b);
void queue_insert(struct lane *l, struct job *j);
void queue_remove(struct lane *l, struct job *j);
struct job *queue_first(const struct lane *l);
uint32_t queue_count_before(const struct lane *l, const struct job *j); /* j need not be in this tree */
struct job *queue_at(const struct lane *l, uint32_t i);                 /* i-th, NULL none */
const char *queue_check(const struct lane *l, size_t *n);
struct shape *shape_get(struct sched *s, const struct sched_job *j); /* users is counted up */
void shape_put(struct sched *s, struct shape *sh);

/* lane.c */
struct lane *lane_get(struct sched *s, struct shape *sh, const struct sched_job *j,
                      uint64_t submit_s); /* users up */
void lane_put(struct sched *s, struct lane *l);
void lane_wait(struct sched *s, struct job *j); /* into its lane's tree */
void lane_unwait(struct sched *s, struct job *j);
void lane_started(struct sched *s, struct job *j);
void lane_stopped(struct sched *s, struct job *j, int learn);
void lanes_fini(struct sched *s);
double lane_expect(const struct sched *s, const struct lane *l); /* run time, seconds */
int lane_learns(const struct sched *s);

/* account.c */
struct account *account_get(struct sched *s, const char *queue, const char *owner);
void account_waits(struct account *a, uint64_t gpus, int sign); /* a job that waits came or went */
/* Starts or stops to hold; cpus: slots of a job without GPUs. */
void account_change(struct sched *s, struct account *a, uint64_t gpus, uint64_t cpus, int sign);
void account_past(struct sched *s, struct account *a, uint64_t gpus, uint64_t cpus,
                  uint64_t from_s);                                 /* held from then until now */
double account_use(const struct sched *s, const struct account *a); /* decayed to now */
int account_before(const struct sched *s, const struct account *a,
                   const struct account *b); /* <0 a has less of its share */
/* To where their ways to the root part: brothers, which compete. One account when one stands above the other:
 * it shares with nobody there. */
void account_part(const struct account **a, const struct account **b);
/* Of an owner in a queue, which need not be there: the lowest account that is. NULL none. */
const struct account *account_lowest(const struct sched *s, const char *queue, const char *owner);
int account_closed(const struct sched *s, const char *queue, const char *owner); /* it, or one above it */
/* 0 may hold so many more; 1 only by borrowing; 2 not at all */
int account_full(const struct account *a, uint64_t gpus);
/* Not at all, when those are counted that are believed to have come (ahead) or gone by then? */
int account_full_then(const struct account *a, uint64_t gpus);
int account_never(const struct account *a, uint64_t gpus);        /* closed, or a quota is too small for it */
int account_large_enough(const struct account *a, uint64_t gpus); /* each quota, were nobody there */
/* Whose quota alone keeps so many back until others there end; NULL none, or it can never be. */
const struct account *account_waits_for(const struct account *a, uint64_t gpus);
int account_below(const struct account *a, const struct account *top);
void accounts_fini(struct sched *s);

/* sched.c: would a pass that is made now look at the one before the other? */
int order_before(const struct sched *s, const struct job *a, const struct job *b);
struct bid order_bid(const struct sched *s, const struct job *j); /* the same in two steps */
int order_bid_before(const struct sched *s, const struct bid *a, const struct bid *b);
int order_due(const struct sched *s, const struct job *j); /* it has waited long enough to go before others */

/* reserved_first.c: who a place was kept for */
void reserved_first_forget(struct sched *s, struct job *j);
void reserved_first_remember(struct sched *s, struct job *j);
void reserved_first_keep(struct sched *s, int32_t *assign); /* makes it the head again */
/* Could the usable nodes, empty, not hold it? Worked out once for each set of nodes. */
int shape_hopeless(struct sched *s, struct shape *sh, int32_t *assign);
/* Is it known that only reservations keep this lane out? With limits that stays so until something is given
 * back or a reservation changes or ends: time only brings more of them into a job's way. */
int lane_is_barred(const struct sched *s, const struct lane *l);
void lane_bar(struct sched *s, struct lane *l);

/* shadow.c: the place kept for one job */
void shadow_make(struct sched *s, struct job *head);
int shadow_allows(struct sched *s, const struct job *j, const int32_t *assign);
void shadow_took(struct sched *s, struct job *j, const int32_t *assign);      /* any that starts */
void shadow_gave(struct sched *s, const struct job *j, const struct hold *h); /* any that gives back */
struct shadow { /* the kept place, put aside while another one is looked for */
	struct job *head;
	const struct job *kept;
	uint64_t shadow_s, kept_nodes;
	size_t kept_ends;
	struct room *view;
	uint32_t view_free[MAX_FREE + 1];
};
struct shadow shadow_aside(struct sched *s);
void shadow_back(struct sched *s, const struct shadow *was);
uint64_t running_end(const struct sched *s, const struct job *j);
struct end { /* of what holds nodes, as it is believed */
	uint64_t at;
	const struct job *job; /* NULL: of a reservation */
};
int end_order(const void *a, const void *b); /* for qsort: by time, reservations first, by id */
void view_take(struct sched *s, const struct job *j, const int32_t *assign, int sign);
void view_spots(struct sched *s, const struct job *j, const struct spot *spots, int sign);
uint64_t limit_end(const struct sched *s, const struct job *j); /* the same, at its limit where it has one */
void run_ends(struct sched *s, const struct job *j);            /* it started, or it is known better when */
uint64_t run_end(struct sched *s, size_t i);                    /* of runs[i], fast */
void view_now(struct sched *s);                                 /* what is free now, into the view */
int view_too_full(const struct sched *s, const struct shape *sh);
void view_release(struct sched *s, const struct job *j);
uint64_t believed_end(const struct sched *s, const struct job *j); /* of one that would start now */
/* How long it would take; by_limits: until its limit, where it has one. */
uint64_t believed_time(const struct sched *s, const struct job *j, int by_limits);
/* A place is kept for it from then on. 0: later than it was promised, though no usable node went since. */
int promise_holds(const struct sched *s, struct job *j, uint64_t from_s);

/* plan.c: conservative backfill. The next that starts now, and where; NULL none. */
struct job *plan_next(struct sched *s, int32_t *assign);
int plan_none(const struct sched *s); /* 1: it is too large, no place is kept */
/* Where a place is kept that is sooner than what out says, it goes there. */
void plan_forecast(const struct sched *s, const struct job *j, struct sched_forecast *out);
void plan_forget(struct sched *s, struct job *j);
void plan_forget_all(struct sched *s);
void plan_fini(struct sched *s);

/* reservation.c */
int reservation_allows(const struct sched *s, const struct node *n);
/* What is asked next is whether this job may start at that time. NULL: whoever, whenever. */
void reservation_try(struct sched *s, const struct job *j, uint64_t at_s);
/* When the next reservation ends after that time; UINT64_MAX none. */
uint64_t reservation_next_end(const struct sched *s, uint64_t after_s);
void reservation_node_fini(struct node *n);

/* depend.c */
void depend_set(struct sched *s, struct job *j, const struct sched_job *in);
void depend_clear(struct sched *s, struct job *j); /* it waits for nothing any more */
void depend_ended(struct sched *s, struct job *j, int well);
const char *depend_check(const struct sched *s);

/* fit.c */
enum fit_mode {
	FIT_NOW = 0,
	FIT_EMPTY = 1,
	FIT_ANY_STATE = 2,
	FIT_VIEW = 4,
	FIT_DRAINED = 8
}; /* as if empty; usable or not; at the shadow time; drained nodes, too */
/* One instance of group g on this node? type NULL any. */
int fit_node(const struct sched *s, const struct node *n, const struct shape *sh, const struct sched_group *g,
             const char *type, unsigned mode);
/* The whole gang: 1, and assign[i] (one per sorted node) = group or -1. */
int fit_gang(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign);
/* As fit_gang, but only says whether; *failed = group that lacks most (undefined when it fits). */
int fit_possible(const struct sched *s, const struct shape *sh, unsigned mode, uint32_t *failed);
/* How many nodes could take an instance of it; of a gang that must be in one switch or rack: of those of the
 * one in which the most could. */
uint32_t fit_count(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode);
/* That one, and how many there: of those in which the gang had nodes enough if all were empty, where there
 * are such. NULL: no node could. */
const struct domain *fit_domain(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode,
                                uint32_t *count);
/* Chooses GPUs and slots on a node that fits; the vectors are malloc'ed. */
void fit_choose(const struct node *n, const struct shape *sh, uint32_t group, struct hold *out);

#endif
