/*
 * simkeep: nodes of the world hold no checkpoints and no folders of warm pools: their programs write no
 * files.
 */
#include "agent/keep/held.h"
#include "agent/keep/held_sweep.h"
#include "agent/keep/keeper.h"
#include "agent/machine/gpu_state.h"
#include "agent/machine/inventory.h"
#include "agent/pool/pools.h"
#include "agent/pool/uses.h"
#include "agent/stage/prefetch.h"
#include "tests/world/sim.h"

void sim_keep_start(void)
{
}

struct keeper *keeper_create(const struct keeper_params *p)
{
	(void)p;
	return NULL;
}

void keeper_destroy(struct keeper *k)
{
	(void)k;
}

void keeper_set_epoch(struct keeper *k, uint64_t epoch)
{
	(void)k;
	(void)epoch;
}

void keeper_step(struct keeper *k, int64_t step, uint64_t at_us)
{
	(void)k;
	(void)step;
	(void)at_us;
}

void keeper_rank_ended(struct keeper *k, uint64_t at_us, int well)
{
	(void)k;
	(void)at_us;
	(void)well;
}

void keeper_over(struct keeper *k)
{
	(void)k;
}

enum launch_over keeper_how_over(const struct keeper *k)
{
	(void)k;
	return OVER_COPIED;
}

void keeper_end(struct keeper *k)
{
	(void)k;
}

void keeper_flush(struct keeper *k, void (*done)(void *arg), void *arg)
{
	(void)k;
	done(arg);
}

int keeper_forget(struct keeper *k, uint64_t seq, const char *copy)
{
	(void)k;
	(void)seq;
	(void)copy;
	return 0;
}

void keeper_copy_again(struct agent_env *env, const char *launch, uint64_t seq, const char *why)
{
	(void)env;
	(void)launch;
	(void)seq;
	(void)why;
}

int keeper_ended_well(const struct keeper *k)
{
	return k == NULL;
}

int keeper_all_copied(const struct keeper *k)
{
	return k == NULL;
}

struct removals *removals_create(struct agent_env *env, struct data_link *link)
{
	(void)env;
	(void)link;
	return NULL;
}

void removals_destroy(struct removals *all)
{
	(void)all;
}

void removals_add(struct removals *all, const struct removal *r)
{
	(void)all;
	(void)r;
}

void held_drop_launch(struct agent_env *env, struct trash *trash, const char *launch)
{
	(void)env;
	(void)trash;
	(void)launch;
}

struct held_sweep *held_sweep_create(const struct held_sweep_params *p)
{
	(void)p;
	return NULL;
}

void held_sweep_destroy(struct held_sweep *s)
{
	(void)s;
}

void held_sweep_ask(struct held_sweep *s)
{
	(void)s;
}

/* ---- ahead of a launch ----------------------------------------------------------------------------------
 */

/* No job of the world has a tree. */
struct prefetch *prefetch_create(struct agent_env *env, struct data_link *link,
                                 const struct prefetch_ops *ops, void *arg)
{
	(void)env;
	(void)link;
	(void)ops;
	(void)arg;
	return NULL;
}

void prefetch_destroy(struct prefetch *p)
{
	(void)p;
}

void prefetch_order(struct prefetch *p, const struct wm_prefetch *m)
{
	(void)p;
	(void)m;
}

void prefetch_cancel(struct prefetch *p, uint64_t job)
{
	(void)p;
	(void)job;
}

struct pool_folder *pools_take(struct pools *p, const struct wm_prepare *m, const struct launch_user *user,
                               struct err *e)
{
	(void)p;
	(void)m;
	(void)user;
	(void)e;
	return NULL;
}

void pools_order(struct pools *p, const struct wm_pools *m)
{
	(void)p;
	(void)m;
}

void pools_used_by(struct pool_folder *f, uint64_t job)
{
	(void)f;
	(void)job;
}

char *uses_environment(const char *pool_dir)
{
	(void)pool_dir;
	return NULL;
}

void pools_quiet(struct pool_folder *f)
{
	(void)f;
}

void pools_leave(struct pool_folder *f)
{
	(void)f;
}

void pools_spoil(struct pool_folder *f)
{
	(void)f;
}

void pools_suspect(struct pools *p, uint64_t pool, uint64_t job, const char *text)
{
	(void)p;
	(void)pool;
	(void)job;
	(void)text;
}

char *pools_path(const struct pool_folder *f)
{
	(void)f;
	return NULL;
}

uint64_t pools_cache_limit(const struct agent_env *env)
{
	(void)env;
	return 0;
}

/* ---- settings of GPUs: those of the world have none --------------------------------------------------- */

struct gpu_state *inventory_gpu_state(struct inventory *inv)
{
	(void)inv;
	return NULL;
}

void gpu_state_note(struct gpu_state *s, const char *path, const uint32_t *gpus, uint32_t n)
{
	(void)s;
	(void)path;
	(void)gpus;
	(void)n;
}

int gpu_state_put_back(struct gpu_state *s, const char *path, char **why)
{
	(void)s;
	(void)path;
	(void)why;
	return 1;
}
