/*
 * simmpi: mpirun, its orteds and hearth-rsh, as far as Hearth meets them. mpirun asks through hearth-rsh and
 * its agent for an orted on each other node; when all run, it starts the ranks by their stubs; it ends with
 * the first failure, and everything ends with it. hearth-rsh outlives its agent and asks the next one again.
 * The functions of agent/control/rshd.h, in their place.
 */
#include "agent/control/rshd.h"
#include "agent/launch/launches.h"
#include "tests/world/sim.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LOOK_US 100000u

struct sim_rsh { /* a hearth-rsh, on the node of its mpirun */
	struct sim_proc *mpirun;
	char id[64], host[16];
	uint8_t state; /* of the orted that it stands for */
	struct sim_rsh *next;
};

struct rshd {
	struct launches *launches;
	const struct rshd_ops *ops;
	void *arg;
};

static int over(uint8_t state)
{
	return state == PS_EXITED || state == PS_FAILED || state == PS_LOST;
}

static void request(struct rshd *d, struct sim_rsh *r)
{
	char word[] = "orted", *argv[] = {word};
	struct wm_rsh_request m = {.job = r->mpirun->job,
	                           .attempt = r->mpirun->attempt,
	                           .rsh_id = r->id,
	                           .host = r->host,
	                           .argv = {argv, 1}};

	if (!over(r->state) && launches_epoch(d->launches, m.job, m.attempt, &m.epoch))
		d->ops->send(WM_RSH_REQUEST, &m, d->arg);
}

static void request_all(struct rshd *d)
{
	for (struct sim_rsh *r = sim->now->rshs; r; r = r->next)
		request(d, r);
}

struct rshd *rshd_create(struct loop *loop, const char *sock_path, struct launches *launches,
                         const struct rshd_ops *ops, void *arg, struct err *e)
{
	struct rshd *r = xcalloc(1, sizeof *r);

	(void)loop;
	(void)sock_path;
	(void)e;
	r->launches = launches;
	r->ops = ops;
	r->arg = arg;
	return r;
}

void rshd_destroy(struct rshd *r)
{
	free(r);
}

void rshd_state(struct rshd *r, const struct wm_rsh_state *m)
{
	(void)r;
	for (struct sim_rsh *s = sim->now->rshs; s; s = s->next)
		if (strcmp(s->id, m->rsh_id) == 0 && !over(s->state))
			s->state = m->state;
}

void rshd_reconnected(struct rshd *r)
{
	request_all(r);
}

/* hearthd parks nothing in the world. */
void rshd_launch_renamed(struct rshd *r, uint64_t job, uint32_t attempt, uint64_t to_job, uint32_t to_attempt)
{
	(void)r;
	(void)job;
	(void)attempt;
	(void)to_job;
	(void)to_attempt;
}

void rshd_ask(struct rshd *r, uint64_t job, uint32_t attempt)
{
	(void)r;
	(void)job;
	(void)attempt;
}

void rshd_launch_over(struct rshd *r, uint64_t job, uint32_t attempt)
{
	(void)r;
	for (struct sim_rsh *s = sim->now->rshs; s; s = s->next)
		if (s->mpirun->job == job && s->mpirun->attempt == attempt && !over(s->state))
			s->state = PS_LOST;
}

/* ---- mpirun ------------------------------------------------------------------------------------------- */

static struct sim_proc *find(struct sim_node *n, const struct sim_proc *like, uint8_t kind)
{
	struct sim_proc *p;

	DL_FOREACH (n->procs, p)
		if (p->job == like->job && p->attempt == like->attempt && p->kind == kind && p->child)
			return p;
	return NULL;
}

static void ask(struct sim_proc *mpirun)
{
	struct sim_node *n = mpirun->n;

	for (uint32_t i = 1; i < mpirun->n_nodes; i++) {
		struct sim_rsh *r = xcalloc(1, sizeof *r);

		r->mpirun = mpirun;
		snprintf(r->id, sizeof r->id, "%llu.%u-%u-%d", (unsigned long long)mpirun->job, mpirun->attempt, i,
		         (int)mpirun->shim_pid);
		snprintf(r->host, sizeof r->host, "algo-%u", i + 1);
		LL_PREPEND(n->rshs, r);
	}
	/* The agent may die at this, and what it was called from does not go on: last of all. */
	if (!n->agent)
		return;
	sim_enter(n);
	for (struct sim_rsh *r = n->rshs; r; r = r->next)
		if (r->mpirun == mpirun)
			request(n->agent->rshd, r);
	sim_enter(NULL);
}

/* Starts the ranks of this launch on all nodes where it has a daemon. */
static void start_ranks(struct sim_proc *mpirun)
{
	struct sim_proc *p, *t;

	for (unsigned i = 0; i < sim->o.nodes; i++) {
		struct sim_node *n = &sim->nodes[i];

		if (n != mpirun->n && !find(n, mpirun, PROC_ORTED))
			continue;
		DL_FOREACH_SAFE (n->procs, p, t)
			if (p->job == mpirun->job && p->attempt == mpirun->attempt && p->kind == PROC_RANK)
				sim_proc_go(p);
	}
}

/* 1 all have ended well, -1 one has failed, 0 they run. */
static int ranks_of(const struct sim_proc *mpirun)
{
	uint32_t fine = 0;

	for (const struct sim_rank *k = sim->ranks; k; k = k->hh.next) {
		if (k->key[0] != mpirun->job || k->key[1] != mpirun->attempt || !k->ended)
			continue;
		if (k->exit_code || k->signal)
			return -1;
		fine++;
	}
	return fine == mpirun->world;
}

static void all_end(struct sim_proc *mpirun, uint32_t code)
{
	struct sim_proc *p, *t;

	for (unsigned i = 0; i < sim->o.nodes; i++)
		DL_FOREACH_SAFE (sim->nodes[i].procs, p, t) {
			if (p->job != mpirun->job || p->attempt != mpirun->attempt || !p->child)
				continue;
			if (p->kind == PROC_ORTED)
				sim_proc_exit(p, code);
			else if (p->kind == PROC_RANK) /* its stub has ended */
				sim_proc_quit(p, 5000, BY_LAUNCHER);
		}
}

void sim_mpi_ended(struct sim_proc *p)
{
	struct sim_rsh *r, *t;

	if (p->kind != PROC_MPIRUN)
		return;
	LL_FOREACH_SAFE (p->n->rshs, r, t)
		if (r->mpirun == p) {
			LL_DELETE(p->n->rshs, r);
			free(r);
		}
	if (!p->n->off_now)
		all_end(p, 1);
}

static void look_mpirun(struct sim_proc *p)
{
	int running = 1, bad = 0, done;

	if (!p->asked) {
		p->asked = 1;
		ask(p);
		return;
	}
	for (const struct sim_rsh *r = p->n->rshs; r; r = r->next) {
		if (r->mpirun != p)
			continue;
		running &= r->state == PS_RUNNING;
		bad |= over(r->state);
	}
	if (running && !p->started) {
		p->started = 1;
		start_ranks(p);
	}
	done = ranks_of(p);
	if (done > 0)
		all_end(p, 0);
	if (done || bad)
		sim_proc_exit(p, done > 0 ? 0 : 1);
}

/* An orted without its mpirun ends, and its stubs with it. */
static void look_orted(struct sim_proc *p)
{
	struct sim_proc *r, *t;

	for (unsigned i = 0; i < sim->o.nodes; i++)
		if (find(&sim->nodes[i], p, PROC_MPIRUN))
			return;
	DL_FOREACH_SAFE (p->n->procs, r, t)
		if (r->job == p->job && r->attempt == p->attempt && r->kind == PROC_RANK && r->child)
			sim_proc_quit(r, 5000, BY_LAUNCHER);
	sim_proc_exit(p, 1);
}

void sim_mpi_step(struct sim_proc *p)
{
	/* Before the look, from which there may be no return: an agent that dies at mpirun's request. */
	loop_timer_arm(p->next_step, p->started ? LOOK_US : LOOK_US / 10);
	if (p->kind == PROC_MPIRUN)
		look_mpirun(p);
	else
		look_orted(p);
	if (!p->child)
		loop_timer_cancel(p->next_step);
}
