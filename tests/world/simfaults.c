/*
 * simfaults: what goes wrong, when and where.
 */
#include "tests/world/sim.h"
#include <signal.h>
#include <string.h>

static uint64_t span(uint64_t lo, uint64_t hi)
{
	return sim_span(&sim->rng_fault, lo, hi);
}

static uint32_t rnd(uint32_t n)
{
	return sim_rnd(&sim->rng_fault, n);
}

static void cut_all(struct sim_node *n, uint64_t until)
{
	n->cut_ctl_until = until;
	for (unsigned i = 0; i < sim->o.nodes; i++)
		n->cut_peer_until[i] = until;
}

/* Two halves that do not hear each other; the controller is with the first. */
static void partition(uint64_t until)
{
	uint32_t side = rnd(1u << sim->o.nodes);

	sim_say("fault: partition %x", side);
	for (unsigned i = 0; i < sim->o.nodes; i++) {
		if (!(side >> i & 1))
			continue;
		sim->nodes[i].cut_ctl_until = until;
		for (unsigned k = 0; k < sim->o.nodes; k++)
			if (!(side >> k & 1))
				sim->nodes[i].cut_peer_until[k] = until;
	}
}

static struct sim_proc *some_proc(struct sim_node *n)
{
	struct sim_proc *p;
	uint32_t count = 0, pick;

	DL_COUNT(n->procs, p, count);
	if (!count)
		return NULL;
	pick = rnd(count);
	DL_FOREACH (n->procs, p)
		if (pick-- == 0)
			return p;
	return NULL;
}

static void on_machine(enum sim_fault f, struct sim_node *n)
{
	struct sim_proc *p;

	switch (f) {
	case SIM_F_AGENT:
		/* Its supervisor starts it again within two seconds. */
		if (rnd(2) || !n->agent) {
			sim_agent_kill(n, span(10000, 2000000));
		} else {
			n->crash_in = 1 + rnd(15);
			n->crash_down_us = span(10000, 2000000);
		}
		break;
	case SIM_F_AWAY: /* mostly for longer than the faults last: sim.c starts it again */
		sim_agent_kill(n, span(5000000, 600000000));
		break;
	case SIM_F_DISK:
		n->full_until = simloop_now() + span(1000, 10000000);
		break;
	case SIM_F_STUCK:
		p = some_proc(n);
		if (p && p->child)
			p->stuck_until = simloop_now() + span(1000000, 120000000);
		break;
	case SIM_F_FREEZE:
		if (n->loop)
			simloop_freeze(n->loop, simloop_now() + span(10000, 2000000));
		break;
	case SIM_F_POWER:
		sim_node_power_off(n, span(1000000, 40000000));
		break;
	case SIM_F_SHIM:
		p = some_proc(n);
		if (p && p->shim_alive)
			sim_proc_kill_shim(p);
		break;
	case SIM_F_RANK:
		p = some_proc(n);
		if (p && p->child)
			sim_proc_kill_child(p, SIGKILL);
		break;
	default:
		break;
	}
}

static void on_network(enum sim_fault f, struct sim_node *n)
{
	uint64_t until = simloop_now() + span(50000, 120000000);
	uint32_t other = rnd(sim->o.nodes);

	switch (f) {
	case SIM_F_CUT_CTL:
		n->cut_ctl_until = until;
		break;
	case SIM_F_CUT_PEERS:
		n->cut_peer_until[other] = until;
		break;
	case SIM_F_CUT_ALL:
		if (rnd(2))
			cut_all(n, until);
		else
			partition(until);
		break;
	case SIM_F_RESET:
		sim_net_reset(n);
		break;
	case SIM_F_SLOW:
		n->slow_until = until;
		break;
	case SIM_F_OLD_ORDER:
		sim_net_old_order(n);
		break;
	default:
		break;
	}
}

static void on_controller(enum sim_fault f)
{
	switch (f) {
	case SIM_F_HEARTHD:
		sim_ctl_kill(span(10000, 60000000));
		break;
	case SIM_F_STORE_FULL:
		sim->full_until = simloop_now() + span(1000, 5000000);
		break;
	case SIM_F_STORE_BUSY:
		sim->w->store_busy = 1 + (int)rnd(5);
		break;
	case SIM_F_STORE_SLOW:
		sim->slow_commits = !sim->slow_commits;
		break;
	default:
		break;
	}
}

static void on_fault(void *arg)
{
	enum sim_fault f = (enum sim_fault)rnd(SIM_N_FAULT);
	struct sim_node *n = &sim->nodes[rnd(sim->o.nodes)];
	int64_t jump = (int64_t)span(1000, 7200000000) * (rnd(2) ? 1 : -1);

	(void)arg;
	if (sim->calm || sim->n_faults >= sim->o.max_faults)
		return;
	loop_timer_arm(sim->fault, span(20000, 6000000));
	if (!(sim->o.faults >> f & 1))
		return;
	sim->n_faults++;
	sim_say("fault %u: %s %s", sim->n_faults, sim_fault_name(f), n->name);
	if (f == SIM_F_WALL)
		sim->jumped_us = simloop_now();
	if (f <= SIM_F_OLD_ORDER)
		on_network(f, n);
	else if (f == SIM_F_WALL)
		*(rnd(3) == 0 ? &sim->ctl_skew_us : &n->skew_us) += jump;
	else if (f >= SIM_F_HEARTHD && f <= SIM_F_STORE_SLOW)
		on_controller(f);
	else
		on_machine(f, n);
}

void sim_faults_start(void)
{
	sim->fault = sim_later(on_fault, NULL);
	loop_timer_arm(sim->fault, 2000000);
}
