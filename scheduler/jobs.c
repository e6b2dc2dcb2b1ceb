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
	if (j->is_exchanging) { /* what was owed to it is free for others */
		exchange_end(s, j);
		s->gen++;
		s->input++;
	}
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
	j->restart_s = 0; /* not known of one that comes again */
	j->firm = !!in->firm;
	j->is_first = !!in->first;
	j->warm = mem_copy(in->warm);
	j->keeps = !!in->keeps;
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
	j->is_begun = 0;
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

/* It neither waits nor holds, and is about to go or to be added again. */
static void job_empty(struct sched *s, struct job *j)
{
	leave_queue(s, j);
	while (j->n_holds)
		hold_give_back(s, j, j->n_holds - 1);
	j->is_begun = 0;
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

/* What it had there is free, and owed to it if it waits to replace it. */
static void release_node(struct sched *s, struct job *j, uint64_t node)
{
	if (j->is_exchanging)
		exchange_owe(j, -1);
	for (uint32_t i = 0; i < j->n_holds;) {
		if (j->holds[i].node->id == node)
			hold_give_back(s, j, i);
		else
			i++;
	}
	if (j->is_exchanging)
		exchange_owe(j, 1);
}

void sched_job_release_place(struct sched *s, uint64_t id, uint64_t node)
{
	struct job *j = model_job_find(s, id);

	record_pair(s->recorder, "release", id, node);
	if (j)
		release_node(s, j, node);
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
	j->is_begun = 1;
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

/* Are the held places such as that shape asks for? */
static int holds_suit(const struct job *j, const struct shape *sh)
{
	for (uint32_t g = 0, n; g < sh->n_groups; g++) {
		n = 0;
		for (uint32_t i = 0; i < j->n_holds; i++)
			n += j->holds[i].group == g;
		if (n > sh->groups[g].instances)
			return 0;
	}
	for (uint32_t i = 0; i < j->n_holds; i++) {
		const struct hold *h = &j->holds[i];
		const struct sched_group *g = h->group < sh->n_groups ? &sh->groups[h->group] : NULL;

		if (!g || h->n_gpus != g->gpus || h->n_cpus != g->ranks * g->cpus_per_rank ||
		    h->memory != sh->memory || h->disk != sh->disk || h->exclusive != sh->exclusive)
			return 0;
	}
	return 1;
}

/* What it holds goes over to another account, and to other wishes. */
static void change_wishes(struct sched *s, struct job *j, struct shape *sh, struct lane *l,
                          const struct sched_job *in)
{
	uint64_t gpus = 0, was = 0, cpus = 0;

	for (uint32_t i = 0; i < j->n_holds; i++) {
		gpus += j->holds[i].n_gpus;
		was += hold_cpus(j, &j->holds[i]);
		cpus += sh->gpus ? 0 : j->holds[i].n_cpus;
	}
	account_change(s, j->lane ? j->lane->account : NULL, gpus, was, -1);
	account_change(s, l->account, gpus, cpus, 1);
	if (j->is_running && j->lane)
		lane_stopped(s, j, 0);
	forget_wishes(s, j);
	j->shape = sh;
	j->lane = l;
	copy_wishes(s, j, in);
	if (j->is_running) {
		lane_started(s, j);
		j->start_s = s->now_s;
		running_again(s, j);
	}
}

/* Follows S-150 and S-151. */
int sched_job_exchange(struct sched *s, const struct sched_job *in, const uint64_t *drop, uint32_t n_drop)
{
	struct job *j = model_job_find(s, in->id);
	struct sched_job wishes = *in;
	struct exchange *x;
	struct shape *sh;

	record_exchange(s->recorder, in, drop, n_drop);
	wishes.n_after = 0;
	if (j && (j->is_waiting || j->is_held))
		return -1;
	if (!j)
		j = model_job_make(s, in->id);
	sh = shape_get(s, in);
	if (!holds_suit(j, sh)) {
		shape_put(s, sh);
		return -1;
	}
	x = exchange_unlink(s, j);
	change_wishes(s, j, sh, lane_get(s, sh, in, in->submit_s ? in->submit_s : s->now_s), &wishes);
	for (uint32_t i = 0; i < n_drop; i++)
		release_node(s, j, drop[i]);
	x = exchange_link(s, j, x);
	for (uint32_t i = 0; i < n_drop; i++)
		exchange_lost(x, drop[i]);
	s->input++;
	return 0;
}

int sched_job_exchanges(const struct sched *s, uint64_t id)
{
	const struct job *j = model_job_find(s, id);

	return j && j->is_exchanging;
}

size_t sched_job_nodes(const struct sched *s, uint64_t id, uint64_t *nodes, size_t max)
{
	const struct job *j = model_job_find(s, id);
	size_t n = 0;

	for (; j && n < j->n_holds && n < max; n++)
		nodes[n] = j->holds[n].node->id;
	return n;
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
