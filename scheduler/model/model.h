/*
 * model: what the scheduler knows: nodes, jobs, what they hold, accounts, lanes, reservations.
 *
 * Promise of this folder: it stores what the caller said and what was decided, and its counts always agree
 * with each other (sched_check). It decides nothing. It may use scheduler/base, scheduler/record and the
 * public header.
 *
 * Jobs that ask for the same have one shape: a million equal jobs cost one description, and "does not fit" is
 * worked out once for a shape. Jobs of one shape, account and kin are in one lane, in order (queue.c). Only
 * the first job of a lane can be next, so a decision looks at lanes, not at jobs. The owner of a GPU or slot
 * is written at the resource itself, so that giving one out twice cannot go unseen.
 */
#ifndef HEARTH_SCHEDULER_MODEL_MODEL_H
#define HEARTH_SCHEDULER_MODEL_MODEL_H
#include "scheduler/model/account.h"
#include "scheduler/model/exchange.h"
#include "scheduler/model/hold.h"
#include "scheduler/model/job.h"
#include "scheduler/model/lane.h"
#include "scheduler/model/node.h"
#include "scheduler/model/pool.h"
#include "scheduler/model/reservation.h"
#include "scheduler/model/running.h"
#include "scheduler/model/view.h"

struct bid;
struct exchange;
struct plan;
struct recorder;

struct sched {
	struct node *nodes;   /* by id */
	struct node **sorted; /* known nodes by ascending id */
	size_t n_sorted, cap_sorted;
	struct shape *shapes;
	struct job *jobs, *running;
	size_t n_waiting, n_running, n_held;
	struct exchange *exchanges; /* in order: they are looked at first */
	struct running *runs;       /* [n_running] the same as the list, by no order: to be walked fast */
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
	struct pool *pools; /* by id; none is empty */
	struct pool_owner *pool_owners;
	struct pool_lost *pools_lost, *last_lost; /* not yet reported */
	size_t n_parts;                           /* of all pools */
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

#endif
