/* node: nodes with their GPUs, and the switches and racks that they hang on and stand in. */
#ifndef HEARTH_SCHEDULER_MODEL_NODE_H
#define HEARTH_SCHEDULER_MODEL_NODE_H
#include "scheduler/base/uthash.h"
#include "scheduler/sched.h"

#define MAX_FREE 64 /* free GPUs of a node that are counted one by one; more count as so many */

struct pool_part;
struct shape;

struct gpu {
	struct sched_gpu g; /* model is owned here */
	uint64_t owner;     /* job; 0 free */
	int present;        /* 0: gone from the inventory, or not known yet, but held */
};

enum level { LEVEL_SWITCH, LEVEL_RACK, LEVELS };

/* A spare is not usable, so that no other job sees it. */
enum spare { SPARE_NO, SPARE_NOT_NOW, SPARE_READY };

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
	struct pool_part *parts;     /* of warm pools; all of them are free */
	int usable, known;           /* known = 0: only held on, from before a restart */
	uint8_t drained; /* 1: it takes no jobs only because it was drained; 2: as 1, put aside for now */
	uint8_t spare;   /* enum spare */
	uint64_t memory, disk, memory_used, disk_used;
	char *name, *type;
	char **labels;        /* NULL-terminated */
	uint64_t *slot_owner; /* [n_owners] job; n_owners >= slots */
	uint32_t n_owners;
	struct gpu *gpus;
	uint32_t n_gpus;
	double price, power;
	uint64_t fit_mark; /* hash of the inputs that decide what could fit */
	uint32_t counted;  /* its place in by_free: free GPUs + 1; 0 not at all */
	uint32_t doubt;
	struct domain *domain[LEVELS];    /* its switch and its rack; NULL not known, or the node is not */
	char *warm;                       /* what the last job here was warm for; NULL */
	struct reservation *reservations; /* few; by no order */
	UT_hash_handle hh;
};

struct node *model_node_find(const struct sched *s, uint64_t id); /* NULL none */
struct node *model_node_make(struct sched *s, uint64_t id);       /* held on, not known yet */
struct gpu *node_gpu(const struct node *n, uint32_t index);       /* NULL none */
int node_takes_exchange(const struct node *n);                    /* it is usable, or a spare that is up */
void node_slots_grow(struct node *n, uint32_t want);
void node_count(struct sched *s, struct node *n); /* after any change of what it has free */
void node_drop_unused(struct sched *s,
                      struct node *n); /* if it is not known and nobody holds anything there */
void nodes_fini(struct sched *s);
/* Have fewer nodes that many free GPUs than the gang wants? 0: it may fit. */
int nodes_too_full(const struct sched *s, const struct shape *sh);

/* domain.c */
void domain_set(struct sched *s, struct node *n, enum level level, const char *name); /* NULL, "": none */
enum level domain_needed(enum sched_span span);                                       /* LEVELS: none */
const char *domain_check(const struct sched *s);
void domains_fini(struct sched *s); /* the nodes are gone */

#endif
