/*
 * simkeep: nodes of the world hold no checkpoints: their programs write no files.
 */
#include "agent/keep/held.h"
#include "agent/keep/keeper.h"
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

void keeper_forget(struct keeper *k, uint64_t seq)
{
	(void)k;
	(void)seq;
}

int keeper_ended_well(const struct keeper *k)
{
	return k == NULL;
}

int keeper_all_copied(const struct keeper *k)
{
	return k == NULL;
}

void held_remove(const struct held_removal *r)
{
	(void)r;
}

void held_drop_launch(struct agent_env *env, struct trash *trash, const char *launch)
{
	(void)env;
	(void)trash;
	(void)launch;
}

void held_sweep(struct agent_env *env, struct trash *trash, int (*in_use)(const char *launch, void *arg),
                void *arg)
{
	(void)env;
	(void)trash;
	(void)in_use;
	(void)arg;
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
