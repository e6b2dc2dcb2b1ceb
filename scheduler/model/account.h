/* account: queues and owners in a tree: what they hold, have used, and may hold. */
#ifndef HEARTH_SCHEDULER_MODEL_ACCOUNT_H
#define HEARTH_SCHEDULER_MODEL_ACCOUNT_H
#include "scheduler/base/uthash.h"
#include "scheduler/sched.h"

struct pool_owner;

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
	uint64_t owed; /* GPUs that its jobs gave back and wait to replace: they count for quotas */
	/* plan.c, forecast.c: GPUs, and slots of jobs without GPUs, of the jobs before the one that is looked
	 * for */
	uint64_t ahead, ahead_cpus;
	double now_use;  /* use, decayed to now_at - 1: it is compared often within a look */
	uint64_t now_at; /* 0: not worked out */
	int borrow, closed;
	struct pool_owner *pool_owner; /* whose it is, for warm pools; NULL a queue */
	UT_hash_handle hh;
};

struct account *account_get(struct sched *s, const char *queue, const char *owner);
void account_waits(struct account *a, uint64_t gpus, int sign); /* a job that waits came or went */
/* Starts or stops to hold; cpus: slots of a job without GPUs. */
void account_change(struct sched *s, struct account *a, uint64_t gpus, uint64_t cpus, int sign);
void account_past(struct sched *s, struct account *a, uint64_t gpus, uint64_t cpus,
                  uint64_t from_s);                                 /* held from then until now */
double account_use(const struct sched *s, const struct account *a); /* decayed to now */
int account_before(const struct sched *s, const struct account *a,
                   const struct account *b); /* <0 a has less of its share */
/* Moves both up to where their paths to the root part: brothers, which compete. If one is above the other,
 * both become the upper one: it shares with nobody there. */
void account_part(const struct account **a, const struct account **b);
/* The lowest known account of an owner in a queue; NULL none. */
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

#endif
