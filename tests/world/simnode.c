/*
 * simnode: machines and their agents. An agent is made of its own parts in the order of agent_core.c; what
 * kill -9 leaves behind is what its parts keep in files, and the shims.
 */
#include "agent/container/sweeper.h"
#include "agent/control/session.h"
#include "agent/launch/launches.h"
#include "agent/link/outbox.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <string.h>

#define BOOT_BASE_US 1000000000u /* a machine's boot clock at its start is no round number */

uint64_t sim_real_us(const struct sim_node *n)
{
	int64_t skew = n ? n->skew_us : sim->ctl_skew_us;

	return 1800000000000000u + simloop_now() + (uint64_t)skew;
}

uint64_t sim_boot_us(const struct sim_node *n)
{
	return BOOT_BASE_US * (1 + n->index) + simloop_now() - n->boot_at;
}

/* Whose code runs now: clocks are set, so that it sees its own time. */
void sim_enter(void *tag)
{
	struct sim_node *n = tag;

	sim->now = n;
	if (n) {
		n->clock.fake_boot_us = sim_boot_us(n);
		n->clock.fake_real_us = sim_real_us(n);
	}
	sim->w->clock.fake_boot_us = 5000000000u + simloop_now();
	sim->w->clock.fake_real_us = sim_real_us(NULL);
}

static int send_report(uint16_t type, const void *msg, uint64_t id, void *arg)
{
	return session_send(((struct agent *)arg)->session, type, msg, id);
}

static void report_acked(uint16_t type, const void *msg, void *arg)
{
	sim_check_acked(sim->now, type, msg);
	launches_acked(((struct agent *)arg)->launches, type, msg);
}

static const struct outbox_ops outbox_ops = {.send = send_report, .acked = report_acked};

static struct agent *agent_new(struct sim_node *n)
{
	struct agent *a = xcalloc(1, sizeof *a);
	struct agent_config *c = &a->env.cfg;

	a->env.loop = n->loop;
	a->host.env = &a->env;
	a->env.clock = &n->clock;
	a->env.instance = ++sim->next_instance;
	c->controller = xstrdup("http://127.0.0.1:1");
	c->data_dir = xstrdup(n->data);
	c->run_dir = xstrdup(n->run);
	c->node = xstrdup(n->name);
	c->address = xstrdup(n->address);
	a->host.shim_path = xstrdup("/bin/hearth-shim");
	a->host.rank_path = xstrdup("/bin/hearth-rank");
	a->host.rsh_path = xstrdup("/bin/hearth-rsh");
	a->host.mpirun = xstrdup("/bin/mpirun");
	a->host.sock_path = xasprintf("%s/agent.sock", n->run);
	memcpy(a->host.boot_id, n->boot_id, sizeof a->host.boot_id);
	return a;
}

static void agent_free(struct agent *a)
{
	agent_unwire(a);
	sweeper_destroy(a->host.sweeper);
	outbox_destroy(a->host.outbox);
	free(a->env.cfg.controller);
	free(a->env.cfg.data_dir);
	free(a->env.cfg.run_dir);
	free(a->env.cfg.node);
	free(a->env.cfg.address);
	free(a->host.shim_path);
	free(a->host.rank_path);
	free(a->host.rsh_path);
	free(a->host.mpirun);
	free(a->host.sock_path);
	free(a);
}

void sim_node_start(void *arg)
{
	struct sim_node *n = arg;
	struct agent *a;
	struct err e;

	if (n->agent)
		return;
	if (!n->powered) {
		n->powered = 1;
		n->boot_at = simloop_now();
		snprintf(n->boot_id, sizeof n->boot_id, "boot-%u-%u", n->index, ++n->boots);
		fs_rm_rf(n->run, NULL);
	}
	sim_say("%s: agent starts", n->name);
	n->loop = loop_create();
	simloop_tag(n->loop, n);
	sim_enter(n);
	if (fs_mkdir_p(n->run, 0711, &e) < 0) { /* it ends with an error; its supervisor tries again */
		loop_destroy(n->loop);
		n->loop = NULL;
		sim_enter(NULL);
		loop_timer_arm(n->start, 1000000);
		return;
	}
	a = n->agent = agent_new(n);
	a->host.outbox = outbox_create(&outbox_ops, a);
	a->host.sweeper = sweeper_create(n->loop, &n->clock);
	if (agent_wire(a, &e) < 0)
		sim_bad("%s: adoption failed: %s", n->name, e.text);
	sim_enter(NULL);
}

/* An agent's memory of epochs is gone, and so is every connection that an old order could come by. */
static void forget_orders(struct sim_node *n)
{
	struct sim_epoch *en, *t;
	struct sent *old, *next;

	LL_FOREACH_SAFE (n->epochs, en, t)
		free(en);
	n->epochs = NULL;
	DL_FOREACH_SAFE (n->orders, old, next)
		sent_free(old);
	n->orders = NULL;
}

static void agent_dies(struct sim_node *n)
{
	n->crash_in = 0;
	if (!n->agent)
		return;
	sim_enter(n);
	agent_free(n->agent);
	sim_enter(NULL);
	n->agent = NULL;
	loop_destroy(n->loop);
	n->loop = NULL;
	forget_orders(n);
}

void sim_crash_point(void)
{
	struct sim_node *n = sim->now;

	if (!n || !n->loop)
		return;
	n->steps++;
	if (sim->o.agent_dies_at && n->index == sim->o.agent_that_dies &&
	    (n->steps == sim->o.agent_dies_at ||
	     (sim->o.agent_dies_again && n->steps == sim->o.agent_dies_at + sim->o.agent_dies_again))) {
		n->crash_in = 1;
		n->crash_down_us = 150000;
	}
	if (!n->crash_in || --n->crash_in)
		return;
	sim->crashed = n;
	longjmp(sim->crash, 1);
}

/* Its memory is lost as it is: nothing in it can be trusted, not even to be freed. */
void sim_agent_abandon(struct sim_node *n)
{
	sim_say("%s: agent dies in the middle of something, back in %llu us", n->name,
	        (unsigned long long)n->crash_down_us);
	sim_check_order_over();
	sim_procs_unlink(n);
	sim_net_agent_died(n);
	simloop_kill(n->loop);
	n->agent = NULL;
	n->loop = NULL;
	forget_orders(n);
	sim_enter(NULL);
	loop_timer_arm(n->start, n->crash_down_us);
}

void sim_agent_kill(struct sim_node *n, uint64_t down_us)
{
	if (!n->agent)
		return;
	sim_say("%s: agent is killed, back in %llu us", n->name, (unsigned long long)down_us);
	n->n_restarts++;
	agent_dies(n);
	loop_timer_arm(n->start, down_us);
}

void sim_node_power_off(struct sim_node *n, uint64_t down_us)
{
	if (!n->powered)
		return;
	sim_say("%s: power is lost, back in %llu us", n->name, (unsigned long long)down_us);
	n->off_now = 1;
	agent_dies(n);
	n->off_now = 0;
	n->off_now = 1;
	sim_procs_power_off(n);
	n->off_now = 0;
	n->powered = 0;
	loop_timer_arm(n->start, down_us);
}

void sim_node_init(struct sim_node *n, unsigned index)
{
	n->index = index;
	snprintf(n->name, sizeof n->name, "n%u", index + 1);
	snprintf(n->address, sizeof n->address, "10.77.0.%u", index + 1);
	clock_fake_init(&n->clock, 0, 0);
	n->run = xasprintf("%s/w%u/run", tap_tmpdir(), index);
	n->data = xasprintf("%s/w%u/data", tap_tmpdir(), index);
	fs_rm_rf(n->run, NULL);
	fs_rm_rf(n->data, NULL);
	fs_mkdir_p(n->data, 0711, NULL);
	n->start = sim_later(sim_node_start, n);
	loop_timer_arm(n->start, 1000 + sim_rnd(&sim->rng_net, 500000));
}

void sim_node_fini(struct sim_node *n)
{
	agent_dies(n);
	n->off_now = 1;
	sim_procs_power_off(n);
	free(n->run);
	free(n->data);
	loop_timer_destroy(n->start);
}

/* ---- files of agents -------------------------------------------------------------------------------- */

/* The linker sends calls of these from other files here (--wrap). */
int __real_fs_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
int __wrap_fs_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
int __real_fs_rm_rf(const char *path, struct err *e);
int __wrap_fs_rm_rf(const char *path, struct err *e);
int __real_fs_mkdir_p(const char *path, mode_t mode, struct err *e);
int __wrap_fs_mkdir_p(const char *path, mode_t mode, struct err *e);

static int full(struct err *e)
{
	if (!sim->now || sim->now->full_until <= simloop_now() || sim_rnd(&sim->rng_prog, 2))
		return 0;
	err_set(e, ERR_NOSPACE, "no space left on device");
	return 1;
}

int __wrap_fs_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
	int rc;

	sim_crash_point();
	rc = full(e) ? -1 : __real_fs_replace(path, data, n, mode, e);
	sim_crash_point();
	return rc;
}

int __wrap_fs_rm_rf(const char *path, struct err *e)
{
	sim_crash_point();
	return __real_fs_rm_rf(path, e);
}

int __wrap_fs_mkdir_p(const char *path, mode_t mode, struct err *e)
{
	sim_crash_point();
	return full(e) ? -1 : __real_fs_mkdir_p(path, mode, e);
}
