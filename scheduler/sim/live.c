/*
 * live: policies that run in the scheduler library itself. They drive it as the controller does: jobs are
 * added, sched_step decides, ends are reported. The flat cluster keeps the account beside it, so that a GPU
 * given twice is noticed.
 */
#include "scheduler/sim/sim_int.h"

#include "scheduler/sched.h"

int live_runs(const struct sim_conf *c)
{
	return c->policy == SIM_FAIR || c->policy == SIM_LIVE || c->policy == SIM_CONSERVATIVE || c->library ||
	       (c->policy == SIM_EASY && c->estimate == SIM_LEARNED);
}

/* Follows S-411 and S-417. */
static struct sched_policy policy_of(const struct sim_conf *c)
{
	struct sched_policy p = {.backfill = SCHED_RESERVE};

	if (c->policy == SIM_LIVE) {
		p = sched_policy_live();
		p.by_limit = c->estimate != SIM_LEARNED; /* then no job has a limit */
	}
	if (c->policy == SIM_FIFO)
		p.backfill = SCHED_BLOCK;
	else if (c->policy == SIM_FIFO_SKIP)
		p.backfill = SCHED_SKIP;
	else if (c->policy == SIM_CONSERVATIVE)
		p.backfill = SCHED_CONSERVATIVE;
	else if (c->policy == SIM_FAIR)
		p.fair = 1;
	return p;
}

static void live_node(struct sim *s, uint32_t node, int usable)
{
	struct sched_gpu gpus[FLAT_MAX_GPUS];
	struct sched_node n = {.id = node + 1, .gpus = gpus, .n_gpus = s->flat.per_node, .usable = usable};

	for (uint32_t i = 0; i < n.n_gpus; i++)
		gpus[i] = (struct sched_gpu){.index = i};
	sched_node_set(s->lib, &n);
}

/* Follows S-426. */
static void live_init(struct sim *s, const struct trace *t)
{
	struct sched_policy p = policy_of(s->conf);

	s->lib = sched_create();
	s->users = (const char *const *)t->users;
	sched_policy_set(s->lib, &p);
	for (size_t i = 0; i < s->conf->n_users; i++)
		sched_queue_set(s->lib, &s->conf->users[i]);
	for (uint32_t i = 0; i < s->flat.nodes; i++)
		live_node(s, i, 1);
	if (s->conf->preempt)
		s->victims = mem_alloc(s->n, sizeof(*s->victims));
}

/* Follows S-416. */
static uint64_t believed_time_s(const struct sim *s, uint64_t takes_s)
{
	return takes_s * (s->conf->estimate == SIM_X3 ? 3 : 1);
}

static void live_arrive(struct sim *s, uint32_t job)
{
	const struct sim_job *j = &s->jobs[job];
	uint32_t whole = j->gpus / s->flat.per_node, rest = j->gpus % s->flat.per_node;
	struct sched_group g[2] = {{.instances = whole, .gpus = s->flat.per_node},
	                           {.instances = 1, .gpus = rest}};
	struct sched_job in = {.id = job + 1, .order = job, .groups = g, .n_groups = 2, .submit_s = j->submit_s};
	uint64_t left_s = s->live[job].believed_s;

	if (!whole) {
		in.groups = g + 1;
		in.n_groups = 1;
	} else if (!rest) {
		in.n_groups = 1;
	}
	in.owner = s->users[j->user];
	if (s->conf->preempt) {
		in.priority = j->priority;
		in.firm = j->firm;
		left_s = believed_time_s(s, j->duration_s - s->live[job].saved_s) +
		         (s->live[job].ran ? s->conf->restart_s : 0);
	}
	if (s->conf->estimate != SIM_LEARNED)
		in.limit_s = left_s ? left_s : 1; /* 0 would be none */
	sched_now(s->lib, s->now);
	sched_job_add(s->lib, &in);
}

static void live_ended(struct sim *s, uint32_t job, int well)
{
	sched_now(s->lib, s->now);
	if (well)
		sched_job_finished(s->lib, job + 1, 1);
	else
		sched_job_remove(s->lib, job + 1);
}

static void start_all(struct sim *s)
{
	struct sched_decision *d;

	while ((d = sched_step(s->lib))) {
		uint32_t job = (uint32_t)d->job - 1;

		assert(d->n == s->jobs[job].n_nodes);
		for (uint32_t i = 0; i < d->n; i++)
			s->spots[i] = (uint32_t)d->places[i].node - 1;
		sim_start_on(s, job, s->spots);
		sched_decision_free(d);
	}
}

static void live_pass(struct sim *s, uint32_t first_new)
{
	(void)first_new;
	sched_now(s->lib, s->now);
	do
		start_all(s);
	while (s->conf->preempt && stop_pass(s));
}

static void live_fini(struct sim *s)
{
	sched_destroy(s->lib);
	free(s->victims);
}

const struct sim_rule live_rule = {
    .init = live_init,
    .fini = live_fini,
    .arrive = live_arrive,
    .ended = live_ended,
    .node = live_node,
    .pass = live_pass,
};
