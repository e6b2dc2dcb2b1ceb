/*
 * pools: warm pools (docs/spec/15-pools.md): what jobs leave on their nodes, who takes it, and when it ends.
 *
 * Each change is an event of the cluster; record/pool.h has the records. The scheduler library knows the idle
 * parts only. A part that a job uses is free for the library as far as the job does not hold it.
 */
#ifndef HEARTH_CONTROLLER_SHARE_POOLS_H
#define HEARTH_CONTROLLER_SHARE_POOLS_H

#include "common/base/hash.h"
#include "controller/record/pool.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"

/* ---- lists, in pools.c ------------------------------------------------------------------------------- */

struct pool_rec *pool_first(const struct core *c); /* of those that live; NULL none */
struct pool_rec *pool_ended(const struct core *c); /* of those that have ended and are listed still */
struct pool_rec *pool_next(const struct pool_rec *p);

/* ---- life, in pools.c -------------------------------------------------------------------------------- */

/* The place of an attempt that leaves a pool is clean and released: it joins the pool of the job. 1: it did,
 * and the agent hears that. */
int pool_leave(struct core *c, struct cjob *j, const struct place_rec *p);
/* Ends the pool, or its parts on nodes (NULL all). job: to whom it gave way, 0 none. */
void pool_end(struct core *c, struct pool_rec *p, enum pool_cause cause, const struct strv *nodes,
              uint64_t job, const char *text);
/* Users of pools: owners of pools, and of jobs that leave some. */
void pool_user_add(struct core *c, const char *owner);
int pool_user_is(const struct core *c, const char *owner);
void pool_users_loaded(struct core *c); /* the records are loaded */
void pool_users_free(struct core *c);
uint64_t pool_keep_alive(const struct core *c,
                         const struct job_spec *s); /* seconds that the job's pool gets */
void pool_feed(struct core *c, struct pool_rec *p); /* to the scheduler library */
void pool_set_time(struct core *c, struct pool_rec *p, uint64_t keep_alive_s, const char *by);
/* The node is drained, lost or gone: its parts end. */
void pools_leave_node(struct core *c, const struct cnode *n, const char *text);
struct creserve;
/* The reservation begins: parts on its nodes end, of pools whose queue may not use them. */
void pools_reserved(struct core *c, const struct creserve *r);
/* The agent reports what a job left on its node: the part there ends, or does not come to be. */
void pool_bad(struct core *c, const struct cnode *n, const struct wm_pool_bad *m);
void pools_send(struct core *c, const struct cnode *n); /* the list of its pools to the agent */
uint64_t pools_next_us(const struct core *c);           /* boot: when pools_review is due; UINT64_MAX never */
void pools_review(struct core *c);                      /* ends what has expired */
void pools_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before);
uint64_t pools_shown_since(const struct core *c); /* pools that ended later are listed */
void pools_loaded(struct core *c);                /* nodes and jobs are loaded: feeds the library */

/* controller/park looks at the pool at the end of the turn. */
void pool_touch(struct core *c, uint64_t pool);

/* ---- costs, in pools.c -------------------------------------------------------------------------------- */

void pools_open(struct core *c);                    /* before the records are created */
void pool_bill(struct core *c, struct pool_rec *p); /* after each change; keeps the lists, too */

/* ---- prices, budgets, and limits of queues, in pool_limit.c ------------------------------------------- */

/* The budget of path: ends idle pools of its accounts. */
void pools_used_up(struct core *c, const char *path);
/* Ends the oldest idle pools of the account, if it, or one above, has more of them than its limit. */
void pools_limit(struct core *c, const char *account);
/* What the accounts at or below path have idle in pools. */
void pools_idle(const struct core *c, const char *path, uint32_t *gpus, uint32_t *nodes);
/* The price of the node may have changed: it counts from now on. */
void pools_reprice(struct core *c, const struct cnode *n);

/* ---- ends of attempts, in pool_leave.c --------------------------------------------------------------- */

/* Releases a clean place of the newest attempt; it joins the pool of a job that leaves one. */
void pool_release(struct core *c, struct cjob *j, const struct place_rec *p);
/* Notes in each place of the newest attempt the warm pool whose part it uses. */
void pool_note_used(const struct cjob *j);

/* ---- decisions of the scheduler, in pool_take.c ------------------------------------------------------ */

/* Puts the places of the decision into the order in which a pool has them. */
void pools_arrange(struct core *c, const struct cjob *j, const struct sched_decision *dec);
/* Adds the key "pool" to the event of the placement, if the decision took parts of pools. */
void pools_placed(struct core *c, struct cjob *j, const struct sched_decision *dec, cJSON *d);
/* Returns the nodes of that pool in "others" of an attempt's pool; adds an entry for a new one. */
cJSON *pool_nodes_of_other(cJSON *others, uint64_t pool);
/* The placement is on record: notes what it took, and what gave way. */
void pools_taken(struct core *c, struct cjob *j);
/* The decision led to nothing: the library gets back what it lost by it. Also after other calls. */
void pools_settle(struct core *c);

/* ---- what is compared, in pool_match.c ---------------------------------------------------------------- */

/* {"requirements", "source", "inputs": [{name, digest}]}. inputs: resolved ones, NULL as in spec. */
cJSON *pool_environment(const struct job_spec *s, const char *source, const struct strv *inputs);
/* The same of a job that waits, or is not submitted yet. */
cJSON *pool_wants(struct core *c, const struct job_spec *s, const char *source);
/* Compares what the pool has with what a job wants. NULL: equal; else {"level", "field", "had", "wants"}. */
cJSON *pool_missed(const char *had, const cJSON *wants);
/* Returns a digest of the environment, for the library; NULL when it names no files. */
const char *pool_key(const char *environment, char out[HASH_HEX_SIZE]);

struct pool_fit {
	const char *level;
	cJSON *missed;    /* the first field that prevented the next level; NULL none. The caller's */
	uint64_t parking; /* of level launch: that one becomes the job's launch; 0 none */
};
/* whole: the job would take all of the pool. */
void pool_fit(const struct core *c, const struct pool_rec *p, const cJSON *environment, const cJSON *launch,
              int whole, struct pool_fit *out);
/* Puts the places into the order of what waits in the pool, within groups. */
void pool_order(const struct core *c, const struct pool_rec *p, struct sched_place *v, uint32_t n);

#endif
