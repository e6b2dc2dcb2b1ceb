/*
 * running: the jobs that hold something, and when each is believed to end.
 *
 * A running job is believed to end after its believed time, or at its time limit, or after the expected time
 * of its burst. A job that has outlived a belief is believed to take as long again, but no longer than its
 * limit. A job that would start is judged with caution: if nothing else is known of it, it is believed to run
 * some times longer than expected.
 */
#include "scheduler/model/running.h"

#include "scheduler/model/model.h"

uint64_t limit_end(const struct sched *s, const struct job *j)
{
	if (!j->limit_s)
		return running_end(s, j);
	return j->start_s + j->limit_s > s->now_s ? j->start_s + j->limit_s : s->now_s;
}

/* Follows S-232 and S-234. */
uint64_t running_end(const struct sched *s, const struct job *j)
{
	uint64_t ran = s->now_s - j->start_s;
	double expect;

	if (j->believed_s && (!j->limit_s || ran < j->limit_s)) {
		uint64_t takes = j->believed_s;

		while (takes <= ran && takes < UINT64_MAX / 2)
			takes *= 2;
		return j->start_s + (j->limit_s && takes > j->limit_s ? j->limit_s : takes);
	}
	if (j->limit_s)
		return limit_end(s, j);
	if (!j->lane)
		return s->now_s + ran;
	expect = lane_expect(s, j->lane);
	return expect > (double)ran ? j->start_s + (uint64_t)expect : j->start_s + 2 * ran;
}

void running_set_end(struct sched *s, const struct job *j)
{
	s->runs[j->run_at].end_s = s->policy.by_limit && j->limit_s ? running_end(s, j) : 0;
}

uint64_t running_end_of(struct sched *s, size_t i)
{
	struct running *r = &s->runs[i];

	if (r->end_s > s->now_s)
		return r->end_s;
	running_set_end(s, r->job);
	return r->end_s ? r->end_s : running_end(s, r->job);
}

/* Follows S-233. */
uint64_t believed_time(const struct sched *s, const struct job *j, int by_limits)
{
	double expect;

	if (j->believed_s && !(by_limits && j->limit_s))
		return !j->limit_s || j->believed_s < j->limit_s ? j->believed_s : j->limit_s;
	if (j->limit_s)
		return j->limit_s;
	if (s->policy.by_limit)
		return (uint64_t)1e15;
	expect = s->policy.caution * j->lane->mean;
	return expect < 1e15 ? (uint64_t)expect : (uint64_t)1e15;
}

uint64_t believed_end(const struct sched *s, const struct job *j)
{
	return s->now_s + believed_time(s, j, s->head && s->head->by_limits);
}

void running_add(struct sched *s, struct job *j)
{
	j->start_s = j->saved_s = s->now_s;
	j->is_running = 1;
	j->next_running = s->running;
	j->prev_running = NULL;
	if (s->running)
		s->running->prev_running = j;
	s->running = j;
	if (s->n_running == s->cap_runs) {
		s->cap_runs = s->cap_runs ? s->cap_runs * 2 : 64;
		s->runs = mem_resize(s->runs, s->cap_runs, sizeof(*s->runs));
	}
	j->run_at = (uint32_t)s->n_running;
	s->runs[s->n_running++].job = j;
	running_set_end(s, j);
	if (j->lane)
		lane_started(s, j);
}

void running_again(struct sched *s, struct job *j)
{
	j->lane->start_sum += s->now_s - j->start_s;
	j->start_s = j->saved_s = s->now_s;
	running_set_end(s, j);
}

void running_remove(struct sched *s, struct job *j)
{
	if (j->prev_running)
		j->prev_running->next_running = j->next_running;
	else
		s->running = j->next_running;
	if (j->next_running)
		j->next_running->prev_running = j->prev_running;
	s->runs[j->run_at] = s->runs[--s->n_running];
	s->runs[j->run_at].job->run_at = j->run_at;
	j->is_running = 0;
	if (j->lane)
		lane_stopped(s, j, j->is_done);
}

uint64_t sched_believed_end(const struct sched *s, uint64_t id)
{
	const struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	return j && j->is_running ? running_end(s, j) : 0;
}

void sched_checkpointed(struct sched *s, uint64_t id, uint64_t at_s, uint64_t restart_s)
{
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof(id), j);
	if (!j || !j->is_running)
		return;
	j->saved_s = at_s < s->now_s ? at_s : s->now_s;
	j->restart_s = restart_s;
}
