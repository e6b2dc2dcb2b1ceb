/* job: jobs, what they ask for (shape), and what they wait for (depend). */
#ifndef HEARTH_SCHEDULER_MODEL_JOB_H
#define HEARTH_SCHEDULER_MODEL_JOB_H
#include "scheduler/base/uthash.h"
#include "scheduler/sched.h"

struct shape {
	char *key; /* all fields below as bytes, limit and believed time: equal key = equal shape */
	size_t key_n;
	struct sched_group *groups;
	uint32_t n_groups, instances;
	uint64_t pool; /* only on its parts; 0 any place */
	uint64_t memory, disk, gpu_memory;
	int exclusive;
	char *gpu_model;
	char **types, **requires, **avoid; /* NULL-terminated */
	enum sched_span span;
	struct lane *lanes;
	uint32_t users;        /* jobs of this shape */
	uint64_t gpus;         /* of the whole gang */
	uint64_t cpus;         /* slots of the gang, if it has no GPUs: they count as use then */
	uint64_t possible_gen; /* nodes_gen at which usable nodes, empty, could hold it */
	uint64_t hopeless_gen; /* nodes_gen at which they could not */
	uint64_t nofit_gen;    /* gen at which it did not fit */
	uint64_t crowds_era;   /* era in which it leaves no place for the head */
	UT_hash_handle hh;
};

enum dep_state { DEP_OPEN, DEP_MET, DEP_NEVER };
struct dep { /* what one job waits for */
	uint64_t on;
	struct job *who;
	struct dep **list; /* its list: waiters of the other job while open, then settled; NULL none */
	struct dep *prev, *next;
	enum sched_after kind;
	enum dep_state state;
};

struct job {
	uint64_t id, order, mix; /* mix: balance of the tree, from the id */
	int64_t priority;
	uint8_t is_first;                           /* before all others of its priority */
	uint8_t firm, is_running, is_held, is_done; /* held: by what it waits for; done: ended by itself */
	uint8_t by_limits;     /* its kept place came later than promised: for it others take their limits */
	uint8_t is_exchanging; /* it is in the scheduler's exchanges */
	uint8_t keeps;         /* it will leave a warm pool */
	uint8_t is_begun;      /* the caller carried a decision out since it came */
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
	struct job *prev_running, *next_running;
	struct job *left, *right; /* tree of waiting jobs */
	uint32_t size;            /* of this subtree */
	uint32_t n_holds, run_at; /* run_at: index in runs */
	int is_waiting;
	struct hold *holds;
	UT_hash_handle hh;
};

struct job *model_job_find(const struct sched *s, uint64_t id); /* NULL none */
struct job *model_job_make(struct sched *s, uint64_t id);       /* it neither waits nor holds */

/* shape.c */
struct shape *shape_get(struct sched *s, const struct sched_job *j); /* users is counted up */
void shape_put(struct sched *s, struct shape *sh);

/* depend.c */
void depend_set(struct sched *s, struct job *j, const struct sched_job *in);
void depend_clear(struct sched *s, struct job *j); /* it waits for nothing any more */
void depend_ended(struct sched *s, struct job *j, int well);
const char *depend_check(const struct sched *s);

#endif
