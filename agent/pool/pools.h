/*
 * The room pool: what a node keeps for warm pools between two jobs (docs/spec/10-node.md, Warm pools).
 *
 * pools: the list of the node's pools, and a folder for each:
 *
 *   DATA/pools/ID/cache   the account's, 0700: HEARTH_WARM_CACHE of the pool's jobs
 *   DATA/pools/ID/used    entries of the node's caches that its last job used (uses.h)
 *   DATA/suspects         reports about them that hearthd lacks (suspects.h)
 *   DATA/pools/ID/state   job that used it last; end by hearthd's clock, 0 unknown
 *
 * A job that may leave a pool has a folder under its own number from the start. Pools and jobs share one
 * sequence of numbers, so no two folders meet. hearthd's list names the pool and that job: the folder gets
 * the pool's number. A folder that the list does not name goes as soon as no launch uses it; until the first
 * list of an agent's life all stay.
 */
#ifndef HEARTH_AGENT_POOL_POOLS_H
#define HEARTH_AGENT_POOL_POOLS_H

#include "agent/base/agent_env.h"
#include "agent/base/trash.h"
#include "agent/base/user.h"
#include "common/base/err.h"
#include "common/net/wire_msg.h"

struct pools;
struct pools *pools_create(struct agent_env *env, struct trash *trash);
void pools_destroy(struct pools *p);
/* on_end: hearthd has to end the pool on this node, because the disk has no room for its folder, or for what
 * the launch found. Called at once for all that an earlier agent could not tell; until pools_told. */
void pools_on_end(struct pools *p, void (*on_end)(uint64_t pool, uint64_t job, const char *text, void *arg),
                  void *arg);
/* What a launch found that its next job must not meet. pool: 0 the one that the job leaves. */
void pools_suspect(struct pools *p, uint64_t pool, uint64_t job, const char *text);
void pools_told(struct pools *p, uint64_t pool, uint64_t job); /* hearthd has it on record */
void pools_order(struct pools *p, const struct wm_pools *m);

struct pool_folder; /* of one launch: a reference */
/* The folder of a launch's pool, or of its own when it may leave one. Made for `user`; with user NULL it is
 * only found. NULL and no code in e: it has none. */
struct pool_folder *pools_take(struct pools *p, const struct wm_prepare *m, const struct launch_user *user,
                               struct err *e);
void pools_used_by(struct pool_folder *f,
                   uint64_t job);        /* a launch that waited is this job's now; NULL allowed */
void pools_quiet(struct pool_folder *f); /* no process of the launch is left; NULL allowed */
void pools_leave(
    struct pool_folder *f); /* hearthd has its end on record; NULL allowed. Frees the reference */
void pools_spoil(struct pool_folder *f); /* the folder goes with the last launch that uses it */
/* DATA/pools/ID, malloc'ed. Its name stays the same until pools_quiet. */
char *pools_path(const struct pool_folder *f);
uint64_t pools_cache_limit(const struct agent_env *env); /* bytes of one cache folder; 0 unknown */

#endif
