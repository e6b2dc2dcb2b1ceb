/* jobs: what the caller says of jobs: they wait, hold something, start, end or go. */
#include "scheduler/sched.h"

#include <stdlib.h>

#include "scheduler/model/model.h"
#include "scheduler/policy/plan.h"
#include "scheduler/policy/reserved_first.h"
#include "scheduler/policy/shadow.h"
#include "scheduler/record/recorder.h"

static void leave_queue(struct sched *s, struct job *j)
{
	plan_forget(s, j);
	if (s->kept == j)
		s->kept = NULL;
	if (s->head == j)
		shadow_drop_head(s);
	reserved_first_forget(s, j);
	if (j->is_waiting) {
		lane_unwait(s, j);
		s->input++;
	}
	s->n_held -= j->is_held;
	j->is_held = 0;
	j->promise_s = 0;
	j->by_limits = 0;
}

static void forget_wishes(struct sched *s, struct job *j)
{
	if (j->lane)
		lane_put(s, j->lane);
	if (j->shape)
		shape_put(s, j->shape);
	free(j->warm);
	depend_clear(s, j);
	j->lane = NULL;
	j->shape = NULL;
	j->warm = NULL;
}

static void copy_wishes(struct sched *s, struct job *j, const struct sched_job *in)
{
	j->priority = in->priority;
	j->order = in->order;
	j->submit_s = in->submit_s ? in->submit_s : s->now_s;
	j->limit_s = in->limit_s;
	j->believed_s = in->believed_s;
	j->max_wait_s = in->max_wait_s;
	j->firm = !!in->firm;
	j->warm = mem_copy(in->warm);
	depend_set(s, j, in);
}

int sched_job_add(struct sched *s, const struct sched_job *in)
{
	struct job *j = model_job_find(s, in->id);
	struct shape *sh;
	struct lane *l;

	record_job(s->recorder, in);
	if (j && j->n_holds)
		return -1;
	sh = shape_get(s, in);
	l = lane_get(s, sh, in, in->submit_s ? in->submit_s : s->now_s);
	if (!j)
		j = model_job_make(s, in->id);
	leave_queue(s, j);
	forget_wishes(s, j);
	j->shape = sh;
	j->lane = l;
	copy_wishes(s, j, in);
	if (j->n_open) {
		j->is_held = 1;
		s->n_held++;
	} else {
		lane_wait(s, j);
	}
	return 0;
}

/* It neither waits nor holds, and is about to go or to be added anew. */
static void job_empty(struct sched *s, struct job *j)
{
	leave_queue(s, j);
	while (j->n_holds)
		hold_give_back(s, j, j->n_holds - 1);
	forget_wishes(s, j);
}

static void job_remove(struct sched *s, struct job *j, int well)
{
	job_empty(s, j);
	depend_ended(s, j, well);
	free(j->holds);
	HASH_DELETE(hh, s->jobs, j);
	free(j);
}

void sched_job_remove(struct sched *s, uint64_t id)
{
	struct job *j = model_job_find(s, id);

	record_id(s->recorder, "remove", id);
	if (j)
		job_remove(s, j, 0);
}

void sched_job_park(struct sched *s, uint64_t id)
{
	struct job *j = model_job_find(s, id);

	record_id(s->recorder, "park", id);
	if (j && j->waiters)
		job_empty(s, j);
	else if (j)
		job_remove(s, j, 0);
}

void sched_job_finished(struct sched *s, uint64_t id, int well)
{
	struct job *j = model_job_find(s, id);

	record_pair(s->recorder, "end", id, well != 0);
	if (!j)
		return;
	j->is_done = 1;
	job_remove(s, j, well);
}

void sched_job_release_place(struct sched *s, uint64_t id, uint64_t node)
{
	struct job *j = model_job_find(s, id);

	record_pair(s->recorder, "release", id, node);
	for (uint32_t i = 0; j && i < j->n_holds;) {
		if (j->holds[i].node->id == node)
			hold_give_back(s, j, i);
		else
			i++;
	}
}

void sched_job_holds(struct sched *s, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                     uint64_t disk_bytes, int exclusive)
{
	struct job *j = model_job_find(s, id);

	record_holds(s->recorder, id, d, memory_bytes, disk_bytes, exclusive);
	if (!j)
		j = model_job_make(s, id);
	leave_queue(s, j);
	s->kept = NULL;
	for (uint32_t i = 0; i < d->n; i++) {
		const struct sched_place *p = &d->places[i];
		struct node *n = model_node_find(s, p->node);
		struct hold h = {.group = p->group,
		                 .n_gpus = p->n_gpus,
		                 .n_cpus = p->n_cpus,
		                 .gpus = p->gpus,
		                 .cpus = p->cpus,
		                 .memory = memory_bytes,
		                 .disk = disk_bytes,
		                 .exclusive = exclusive};

		h.node = n ? n : model_node_make(s, p->node);
		hold_take(s, j, &h);
	}
	s->gen++;
	s->input++;
}

void sched_job_restore(struct sched *s, const struct sched_job *in, const struct sched_decision *d,
                       uint64_t start_s)
{
	struct sched_job wishes = *in;
	struct job *j;
	uint64_t start = start_s < s->now_s ? start_s : s->now_s, gpus = 0, cpus = 0;
	int added;

	wishes.n_after = 0;
	record_restore(s->recorder, in, d, start_s);
	record_quiet(s->recorder, 1);
	added = d->n && sched_job_add(s, &wishes) == 0;
	if (added)
		sched_job_holds(s, in->id, d, in->memory_bytes, in->disk_bytes, in->exclusive);
	record_quiet(s->recorder, 0);
	if (!added)
		return;
	j = model_job_find(s, in->id);
	j->lane->start_sum -= j->start_s - start;
	j->start_s = j->saved_s = start;
	running_set_end(s, j);
	for (uint32_t i = 0; i < j->n_holds; i++) {
		gpus += j->holds[i].n_gpus;
		cpus += hold_cpus(j, &j->holds[i]);
	}
	account_past(s, j->lane->account, gpus, cpus, start);
}

/* Follows S-265. */
size_t sched_expired(const struct sched *s, uint64_t *ids, size_t max)
{
	size_t n = 0;

	for (const struct job *j = s->jobs; j && n < max; j = j->hh.next)
		if ((j->is_waiting || j->is_held) && j->max_wait_s && s->now_s >= j->submit_s + j->max_wait_s)
			ids[n++] = j->id;
	return n;
}
