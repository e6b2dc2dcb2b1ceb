/*
 * simctl: hearthd in the world: the real core on the real store. Turns end a little after something was told
 * to it, commits take their time, one at a time and in order; at a crash some of those that were given are
 * durable and nobody was told.
 */
#include "tests/world/sim.h"
#include <string.h>

void sim_ctl_touch(void)
{
	if (sim->up && !loop_timer_armed(sim->turn))
		loop_timer_arm(sim->turn, sim_rnd(&sim->rng_net, 4) ? 0 : sim_rnd(&sim->rng_net, 2000));
}

static uint64_t commit_us(void)
{
	if (sim->slow_commits)
		return sim_span(&sim->rng_net, 10000, 3000000);
	return 100 + sim_rnd(&sim->rng_net, 3000);
}

static void look_ahead(void)
{
	uint64_t next = core_next_us(sim->w->core), now = clock_boot_us(&sim->w->clock);

	if (sim->w->commits && !loop_timer_armed(sim->commit))
		loop_timer_arm(sim->commit, commit_us());
	if (next == UINT64_MAX)
		loop_timer_cancel(sim->tick);
	else
		loop_timer_arm(sim->tick, next > now + 500 ? next - now : 500);
}

static void on_turn(void *arg)
{
	(void)arg;
	if (!sim->up)
		return;
	core_end_turn(sim->w->core);
	look_ahead();
	sim_check_step();
}

static void on_tick(void *arg)
{
	(void)arg;
	if (!sim->up)
		return;
	core_tick(sim->w->core);
	on_turn(NULL);
}

static void kill_at(unsigned durable, uint64_t down_us)
{
	sim_say("hearthd is killed (%u of %u commits are durable), back in %llu us", durable,
	        world_pending(sim->w), (unsigned long long)down_us);
	sim->up = 0;
	loop_timer_cancel(sim->turn);
	loop_timer_cancel(sim->tick);
	loop_timer_cancel(sim->commit);
	world_stop(sim->w, durable);
	sim_net_ctl_died(sim_one_in(&sim->rng_fault, 4));
	loop_timer_arm(sim->ctl_start, down_us);
}

static void on_commit(void *arg)
{
	(void)arg;
	if (!sim->up)
		return;
	if (sim->w->n_commits + 1 == sim->o.hearthd_dies_at) {
		sim->o.hearthd_dies_at = 0;
		kill_at(sim->o.durable ? 1 : 0, 700000);
		return;
	}
	if (sim->w->n_commits + 1 == sim->o.commit_fails_at) {
		sim->o.commit_fails_at = 0;
		sim->w->fail_next = 1;
		sim_say("hearthd: a commit fails");
	}
	if (sim->full_until > simloop_now()) {
		sim->w->fail_next = 1;
		sim_say("hearthd: a commit fails");
	}
	world_commit_now(sim->w);
	sim->w->fail_next = 0;
	on_turn(NULL);
}

void sim_ctl_kill(uint64_t down_us)
{
	if (sim->up)
		kill_at(sim_rnd(&sim->rng_fault, world_pending(sim->w) + 1), down_us);
}

static void on_start(void *arg)
{
	(void)arg;
	sim_say("hearthd starts");
	world_start(sim->w);
	sim->up = 1;
	sim_check_step();
	sim_ctl_touch();
}

void sim_ctl_open(void)
{
	sim->w = world_create_lease(sim->o.seed, sim->o.lease_ms ? sim->o.lease_ms : 10000);
	sim->w->hold_commits = 1;
	sim->w->arg = sim;
	sim->w->on_event = sim_check_event;
	sim->w->steps = sim_begin_steps;
	sim->turn = sim_later(on_turn, NULL);
	sim->tick = sim_later(on_tick, NULL);
	sim->commit = sim_later(on_commit, NULL);
	sim->ctl_start = sim_later(on_start, NULL);
	sim->up = 1;
	sim_net_attach();
}

void sim_ctl_close(void)
{
	sim->up = 0;
	world_destroy(sim->w);
	loop_timer_destroy(sim->turn);
	loop_timer_destroy(sim->tick);
	loop_timer_destroy(sim->commit);
	loop_timer_destroy(sim->ctl_start);
}
