/*
 * stop: running jobs that stop for others, for `--preempt`.
 *
 * When the library can start nothing more, it is asked for victims of the job that a place is kept for, or
 * else of the first waiting job. They give back their nodes without a further checkpoint and wait again in
 * their old place, and the library goes on. A failure of a node costs a job the same (run.c).
 *
 * At one time no stopped job makes others stop, and no job does so twice: this ends the pass. It does not
 * work with conservative, because places are promised to all waiting jobs.
 */
#include "scheduler/sim/sim_int.h"

#include "scheduler/sched.h"

/* The library weighs what each would lose. */
static void tell_saved(struct sim *s)
{
	for (size_t i = 0; i < s->ends.n; i++) {
		uint32_t job = s->ends.v[i].job;
		uint64_t saved, work;

		if (!s->live[job].running || s->live[job].attempt != s->ends.v[i].row)
			continue;
		work = sim_worked(s, job, &saved);
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
