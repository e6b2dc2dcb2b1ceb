/*
 * pool: warm pools. A part of a pool names GPUs and slots of a node that are free, and that a job of the
 * pool's owner would find warm. It holds nothing: whoever takes some of it ends the part.
 */
#ifndef HEARTH_SCHEDULER_MODEL_POOL_H
#define HEARTH_SCHEDULER_MODEL_POOL_H
#include "scheduler/base/uthash.h"
#include "scheduler/sched.h"

struct hold;
struct job;
struct node;

struct pool_owner { /* an owner, in any queue */
	char *name;
	struct pool *pools; /* by no order */
	uint32_t n_parts;
	UT_hash_handle hh;
};
struct pool_part {
	struct pool *pool;
	struct node *node;
	uint32_t n_gpus, n_cpus;
	uint32_t *gpus, *cpus;
	uint64_t memory, disk;
	struct pool_part *next_on_node; /* the one that was idle longest comes first */
	struct pool_part *next_of_pool; /* as the caller gave them */
};
struct pool {
	uint64_t id, idle_since_s;
	struct pool_owner *owner;
	char *warm;
	int exclusive;
	int open; /* policy: exclusive, and the job that is being placed uses it as a whole */
	uint32_t n_parts;
	/* Policy: its parts that suit the job that is being placed, whether they are enough for it and of its
	 * environment, and its turn among the pools of the owner. */
	uint32_t n_suit, turn;
	uint8_t is_enough, is_same;
	struct pool_part *parts;
	struct pool *next_of_owner;
	UT_hash_handle hh;
};
struct pool_lost {
	struct sched_pool_lost lost;
	struct pool_lost *next;
};

struct pool *model_pool_find(const struct sched *s, uint64_t id); /* NULL none */
struct pool_owner *pool_owner_get(struct sched *s, const char *name);
struct pool_owner *pool_owner_of(const struct job *j);      /* NULL none */
int pool_part_has(const struct pool_part *p, uint32_t gpu); /* by index */
int pool_part_has_slot(const struct pool_part *p, uint32_t slot);
int pool_part_is_warm(const struct pool_part *p, const char *warm); /* the key of its environment is that */
int pool_idle_longer(const struct pool *a, const struct pool *b);   /* of equal ones the smaller id */
/* The job took h there, of h->pool if it is not 0: the parts that are no longer free end. Returns h->pool if
 * its part is one of them, else 0. */
uint64_t pools_give_way(struct sched *s, const struct job *j, const struct hold *h);
/* The job wants a pool that cannot hold it now. */
int pool_is_short(const struct sched *s, const struct job *j);
void pools_node_changed(struct sched *s, struct node *n); /* what it has no more is lost */
void pools_node_gone(struct sched *s, struct node *n);
const char *pools_check(const struct sched *s);
void pools_fini(struct sched *s); /* before the nodes */

#endif
