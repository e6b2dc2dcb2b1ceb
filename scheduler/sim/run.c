/*
 * run: a run of a job: it begins on its nodes, and ends, stops for another job or dies with a node.
 *
 * With --preempt a job saves its work each time that it has worked for checkpoint_s. A run that stops loses
 * the work since then, and each further run takes restart_s before it goes on.
 */
#include "scheduler/sim/sim_int.h"

/* Of the run that goes on: what it has worked on so far, all runs together, and what of it is saved.
 * Follows S-424. */
uint64_t sim_worked(const struct sim *s, uint32_t job, uint64_t *saved)
{
	const struct sim_live *l = &s->live[job];
	uint64_t every = s->conf->checkpoint_s, ran = s->now - s->jobs[job].start_s;
	uint64_t work = l->saved_s + (ran > l->warm_s ? ran - l->warm_s : 0);

	*saved = every ? work / every * every : 0;
	return work;
}

/* Follows S-431. */
static void begin_run(struct sim *s, uint32_t job)
{
	struct sim_job *j = &s->jobs[job];
	struct sim_live *l = &s->live[job];

	l->warm_s = l->ran ? s->conf->restart_s : 0;
	j->waited_s += s->now - l->since_s;
	j->end_s = s->now + l->warm_s + j->duration_s - l->saved_s;
}

/* One that began at this very time has never run. */
static void keep_run(struct sim *s, uint32_t job)
{
	const struct sim_job *j = &s->jobs[job];
	struct sim_result *r = s->out;

	if (!(r->n_stopped & (r->n_stopped + 1))) /* room doubles */
		r->stopped = mem_resize(r->stopped, 2 * r->n_stopped + 2, sizeof(*r->stopped));
	r->stopped[r->n_stopped] = (struct sim_stopped){.job = job,
	                                                .start_s = j->start_s,
	                                                .end_s = s->now,
	                                                .nodes = mem_alloc(j->n_nodes, sizeof(*j->nodes))};
	memcpy(r->stopped[r->n_stopped++].nodes, j->nodes, j->n_nodes * sizeof(*j->nodes));
	s->live[job].ran = 1;
}

/* Follows S-429. */
static uint64_t lose_run(struct sim *s, uint32_t job)
{
	struct sim_live *l = &s->live[job];
	uint64_t before = l->saved_s, ran = s->now - s->jobs[job].start_s;

	if (ran)
		keep_run(s, job);
	sim_worked(s, job, &l->saved_s);
	l->since_s = s->now;
	return ran - (l->saved_s - before);
}

void sim_start_on(struct sim *s, uint32_t job, const uint32_t *on)
{
	struct sim_job *j = &s->jobs[job];
	struct sim_live *l = &s->live[job];
	uint32_t *nodes = (uint32_t *)s->out->pool + (j->nodes - (const uint32_t *)s->out->pool);

	memcpy(nodes, on, j->n_nodes * sizeof(*nodes));
	flat_take(&s->flat, j->gpus, nodes);
	j->start_s = s->now;
	j->end_s = s->now + j->duration_s;
	if (s->conf->preempt)
		begin_run(s, job);
	else
		j->waited_s = s->now - j->submit_s;
	l->running = 1;
	s->n_running++;
	s->n_waiting--;
	sim_heap_push(&s->ends, (struct sim_key){j->end_s, l->attempt, job});
	if (s->rule->started)
		s->rule->started(s, job);
}

void sim_start(struct sim *s, uint32_t job)
{
	flat_find(&s->flat, s->jobs[job].gpus, s->spots);
	sim_start_on(s, job, s->spots);
}

void sim_end(struct sim *s, uint32_t job, int well)
{
	flat_give(&s->flat, s->jobs[job].gpus, s->jobs[job].nodes);
	s->live[job].running = 0;
	s->n_running--;
	if (s->rule->ended)
		s->rule->ended(s, job, well);
}

void sim_wait(struct sim *s, uint32_t job)
{
	s->n_waiting++;
	s->live[job].since_s = s->now;
	s->rule->arrive(s, job);
}

/* It did not end by itself. */
static void give_back(struct sim *s, uint32_t job)
{
	struct sim_job *j = &s->jobs[job];

	s->out->lost_gpu_s += (s->conf->preempt ? lose_run(s, job) : s->now - j->start_s) * j->gpus;
	sim_end(s, job, 0);
	s->live[job].attempt++;
	j->start_s = j->end_s = SIM_NEVER;
}

void sim_stop(struct sim *s, uint32_t job)
{
	give_back(s, job);
	sim_wait(s, job);
}

/* Follows S-435. */
void sim_kill(struct sim *s, uint32_t job)
{
	struct sim_job *j = &s->jobs[job];

	give_back(s, job);
	if (++j->failures > SIM_MAX_FAILURES)
		s->out->given_up++;
	else
		sim_wait(s, job);
}
