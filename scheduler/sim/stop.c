/*
 * stop: running jobs that stop for others, for `--preempt`.
 *
 * When the library can start nothing more, it is asked for victims of the job that a place is kept for, or
 * else of the first that waits: nobody else would get the place. They save nothing more, give back their
 * nodes and wait again in their old place, and the library goes on. A job saves its work each time that it
 * has worked for checkpoint_s; of what it does when it is stopped the work since then is lost, and restart_s
 * is what each further run takes before it goes on. A failure of a node costs the same.
 *
 * At one time nobody who was stopped makes others stop, and nobody does so twice: that ends. Under
 * conservative there is no such thing, since places are promised to all that wait.
 */
#include "scheduler/sched.h"
#include "scheduler/sim/sim_int.h"

/* Of the run that goes on: what it has worked on so far, all runs together, and what of it is saved.
 * Follows S-424. */
static uint64_t worked(const struct sim *s, uint32_t job, uint64_t *saved)
{
	const struct sim_live *l = &s->live[job];
	uint64_t every = s->conf->checkpoint_s, ran = s->now - s->jobs[job].start_s;
	uint64_t work = l->saved_s + (ran > l->warm_s ? ran - l->warm_s : 0);

	*saved = every ? work / every * every : 0;
	return work;
}

/* Follows S-431. */
void stop_begins(struct sim *s, uint32_t job)
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
		r->stopped = mem_resize(r->stopped, 2 * r->n_stopped + 2, sizeof *r->stopped);
	r->stopped[r->n_stopped] = (struct sim_stopped){
	    .job = job, .start_s = j->start_s, .end_s = s->now, .nodes = mem_alloc(j->n_nodes, sizeof *j->nodes)};
	memcpy(r->stopped[r->n_stopped++].nodes, j->nodes, j->n_nodes * sizeof *j->nodes);
	s->live[job].ran = 1;
}

/* Follows S-429. */
uint64_t stop_loses(struct sim *s, uint32_t job)
{
	struct sim_live *l = &s->live[job];
	uint64_t before = l->saved_s, ran = s->now - s->jobs[job].start_s;

	if (ran)
		keep_run(s, job);
	worked(s, job, &l->saved_s);
	l->since_s = s->now;
	return ran - (l->saved_s - before);
}

/* The library weighs what each would lose. */
static void tell_saved(struct sim *s)
{
	for (size_t i = 0; i < s->ends.n; i++) {
		uint32_t job = s->ends.v[i].job;
		uint64_t saved, work;

		if (!s->live[job].running || s->live[job].attempt != s->ends.v[i].row)
			continue;
		work = worked(s, job, &saved);
		/* Before the first of this run all of it would be lost. */
		sched_checkpointed(s->lib, job + 1,
		                   saved > s->live[job].saved_s ? s->now - (work - saved) : s->jobs[job].start_s,
		                   s->conf->restart_s);
	}
}

static int stop_for(struct sim *s, uint32_t job)
{
	size_t n = sched_preempt(s->lib, job + 1, s->victims, s->n_running);

	s->live[job].asked_s = s->now;
	for (size_t i = 0; i < n; i++) {
		uint32_t v = (uint32_t)s->victims[i].job - 1;

		s->out->preemptions += s->jobs[v].start_s < s->now;
		s->live[v].asked_s = s->now;
		sim_stop(s, v);
	}
	return n != 0;
}

/* Follows S-427, S-428 and S-430. */
int stop_pass(struct sim *s)
{
	uint64_t id = 0;

	if (!s->n_running || (!sched_reserved(s->lib, &id) && !sched_waiting(s->lib, &id, 1)) ||
	    s->live[id - 1].asked_s == s->now)
		return 0;
	tell_saved(s);
	return stop_for(s, (uint32_t)id - 1);
}
