/*
 * model: the scheduler's plain data: nodes and what is held on them, jobs, shapes. Private to scheduler/.
 *
 * Jobs that ask for the same are of one shape, kept once: a million equal jobs cost one description, and
 * "does not fit" is worked out once a shape. Each shape has its waiting jobs in order (queue.c). Owners of
 * GPUs and slots are written at the resource itself, so that giving one out twice is impossible to do
 * silently, and sched_check can compare both sides.
 */
#ifndef HEARTH_SCHEDULER_MODEL_H
#define HEARTH_SCHEDULER_MODEL_H

#include "common/xalloc.h"
#include "scheduler/sched.h"

#define uthash_malloc(sz) xmalloc(sz)
#define uthash_fatal(msg) abort() /* a library does not exit */
#include <uthash.h>

struct gpu {
	struct sched_gpu g; /* model is owned here */
	uint64_t owner;     /* job; 0 free */
	int present;        /* 0: gone from the inventory, or not known yet, but held */
};

struct node {
	uint64_t id;
	char *name, *type;
	char **labels; /* NULL-terminated */
	uint32_t slots, free_slots, free_gpus;
	uint64_t *slot_owner; /* [n_owners] job; n_owners >= slots */
	uint32_t n_owners;
	uint64_t memory, disk, memory_used, disk_used;
	struct gpu *gpus;
	uint32_t n_gpus;
	uint32_t holders;   /* jobs with something here */
	uint64_t exclusive; /* job that has the node for itself; 0 none */
	int usable, known;  /* known = 0: only held on, from before a restart */
	double price;
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
	char *key; /* all fields below as bytes: equal key = equal shape */
	size_t key_n;
	struct sched_group *groups;
	uint32_t n_groups, instances;
	uint64_t memory, disk, gpu_memory;
	int exclusive;
	char *gpu_model;
	char **types, **requires, **avoid; /* NULL-terminated */
	uint32_t users;                    /* jobs of this shape */
	struct job *waiting;               /* root of the ordered tree */
	uint64_t hopeless_gen;             /* nodes_gen at which usable nodes, empty, could not hold it */
	UT_hash_handle hh;
};

struct job {
	uint64_t id, order, mix; /* mix: balance of the tree, from the id */
	int64_t priority;
	struct shape *shape;
	struct job *left, *right; /* tree of waiting jobs */
	uint32_t size;            /* of this subtree */
	uint32_t n_holds;
	int is_waiting;
	struct hold *holds;
	UT_hash_handle hh;
};

struct sched {
	struct node *nodes;   /* by id */
	struct node **sorted; /* known nodes by ascending id */
	size_t n_sorted, cap_sorted;
	struct shape *shapes;
	struct job *jobs;
	size_t n_waiting;
	uint64_t gen;       /* rises whenever something may fit that did not */
	uint64_t nodes_gen; /* rises whenever the node set changes; starts at 1 */
	uint64_t blocked_job, blocked_gen;
};

/* model.c */
struct node *model_node(const struct sched *s, uint64_t id);
struct node *model_node_make(struct sched *s, uint64_t id);            /* held on, not known yet */
void model_take(struct sched *s, struct job *j, const struct hold *h); /* h is copied, its vectors too */
void model_give_back(struct sched *s, struct job *j, uint32_t i);

/* queue.c: one tree a shape, order: priority down, order up, id up */
int queue_before(const struct job *a, const struct job *b);
void queue_insert(struct shape *sh, struct job *j);
void queue_remove(struct shape *sh, struct job *j);
struct job *queue_first(const struct shape *sh);
uint32_t queue_count_before(const struct shape *sh, const struct job *j); /* j need not be in this tree */
struct job *queue_at(const struct shape *sh, uint32_t i);                 /* i-th, NULL none */
const char *queue_check(const struct shape *sh, size_t *n);
struct shape *shape_get(struct sched *s, const struct sched_job *j); /* users is counted up */
void shape_put(struct sched *s, struct shape *sh);

/* fit.c */
enum fit_mode { FIT_NOW = 0, FIT_EMPTY = 1, FIT_ANY_STATE = 2 }; /* flags: as if empty; usable or not */
/* One instance of group g on this node? type NULL any. */
int fit_node(const struct node *n, const struct shape *sh, const struct sched_group *g, const char *type,
             unsigned mode);
/* The whole gang: 1, and assign[i] (one per sorted node) = group or -1. */
int fit_gang(const struct sched *s, const struct shape *sh, unsigned mode, int32_t *assign);
/* As fit_gang, but only says whether; *failed = group that lacks most (undefined when it fits). */
int fit_possible(const struct sched *s, const struct shape *sh, unsigned mode, uint32_t *failed);
uint32_t fit_count(const struct sched *s, const struct shape *sh, uint32_t group, unsigned mode);
/* Chooses GPUs and slots on a node that fits; the vectors are malloc'ed. */
void fit_choose(const struct node *n, const struct shape *sh, uint32_t group, struct hold *out);

#endif
