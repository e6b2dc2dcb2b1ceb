/* check: whether what the library keeps in two places agrees. */
#include "scheduler/sched.h"

#include "scheduler/model/model.h"

static const char *check_hold(const struct job *j, const struct hold *h)
{
	for (uint32_t i = 0; i < h->n_gpus; i++) {
		const struct gpu *g = node_gpu(h->node, h->gpus[i]);

		if (!g || g->owner != j->id)
			return "model: a job holds a GPU that is not on its account";
	}
	for (uint32_t i = 0; i < h->n_cpus; i++)
		if (h->cpus[i] >= h->node->n_owners || h->node->slot_owner[h->cpus[i]] != j->id)
			return "model: a job holds a slot that is not on its account";
	if (h->exclusive && h->node->exclusive != j->id)
		return "model: an exclusive job shares its node";
	return NULL;
}

static const char *check_node(const struct sched *s, const struct node *n)
{
	uint32_t gpus = 0, slots = 0, held_gpus = 0, held_slots = 0, holders = 0;
	uint64_t memory = 0, disk = 0;

	for (const struct job *j = s->jobs; j; j = j->hh.next) {
		for (uint32_t i = 0; i < j->n_holds; i++) {
			const struct hold *h = &j->holds[i];

			if (h->node != n)
				continue;
			holders++;
			held_gpus += h->n_gpus;
			held_slots += h->n_cpus;
			memory += h->memory;
			disk += h->disk;
			if (n->exclusive && n->exclusive != j->id)
				return "model: another job on an exclusive node";
		}
	}
	for (uint32_t i = 0; i < n->n_gpus; i++)
		gpus += !!n->gpus[i].owner;
	for (uint32_t i = 0; i < n->n_owners; i++)
		slots += !!n->slot_owner[i];
	if (gpus != held_gpus || slots != held_slots)
		return "model: owners and holds disagree";
	if (holders != n->holders || memory != n->memory_used || disk != n->disk_used)
		return "model: sums and holds disagree";
	return NULL;
}

static const char *check_account(const struct sched *s, const struct account *a)
{
	uint64_t gpus = 0, cpus = 0, wants = 0, waiting = 0, owed = 0;

	for (uint32_t i = 0; i < s->n_active; i++) {
		const struct lane *l = s->active[i];

		if (!account_below(l->account, a))
			continue;
		waiting += l->waiting->size;
		wants += (uint64_t)l->waiting->size * l->shape->gpus;
	}
	if (waiting != a->waiting || wants != a->wants)
		return "account: who waits and what was counted differ";
	for (const struct job *j = s->running; j; j = j->next_running)
		for (uint32_t i = 0; j->lane && account_below(j->lane->account, a) && i < j->n_holds; i++) {
			gpus += j->holds[i].n_gpus;
			cpus += hold_cpus(j, &j->holds[i]);
		}
	for (const struct exchange *x = s->exchanges; x; x = x->next) {
		if (!account_below(x->job->lane->account, a))
			continue;
		for (uint32_t g = 0; g < x->job->shape->n_groups; g++)
			owed += (uint64_t)exchange_lacks(x->job, g) * x->job->shape->groups[g].gpus;
	}
	if (owed != a->owed)
		return "account: what is owed to its jobs and what was counted differ";
	return gpus == a->gpus && cpus == a->cpus ? NULL : "account: what is held and what was counted differ";
}

static const char *check_exchanges(const struct sched *s)
{
	size_t n = 0;

	for (const struct exchange *x = s->exchanges; x; x = x->next, n++) {
		if (!x->job->is_exchanging || x->job->is_waiting || x->job->is_held || !x->job->lane)
			return "model: a job that replaces its places also waits, or is unknown";
		if (x->next && !queue_before(x->job, x->next->job))
			return "model: jobs that replace their places are out of order";
	}
	for (const struct job *j = s->jobs; j; j = j->hh.next)
		n -= j->is_exchanging;
	return n ? "model: a job that replaces its places is in no list" : NULL;
}

static const char *check_sorted(const struct sched *s)
{
	uint32_t free = 0;

	for (size_t i = 0; i < s->n_sorted; i++) {
		if (!s->sorted[i]->known || s->sorted[i]->at != i)
			return "model: an unknown node is in the list, or at a wrong place";
		free += s->sorted[i]->usable && !s->sorted[i]->exclusive;
		if (i && s->sorted[i - 1]->id >= s->sorted[i]->id)
			return "model: nodes out of order";
	}
	for (uint32_t i = 1; i < MAX_FREE + 2; i++)
		free -= s->by_free[i];
	return free ? "model: nodes counted wrongly by free GPUs" : NULL;
}

/* Follows S-146 and S-147. */
const char *sched_check(const struct sched *s)
{
	const char *bad = check_sorted(s);
	size_t waiting = 0, drained = 0;

	for (uint32_t i = 0; i < s->n_active && !bad; i++)
		bad = s->active[i]->active_at == i ? queue_check(s->active[i], &waiting) : "lane: lost its place";
	if (!bad && waiting != s->n_waiting)
		bad = "queue: wrong number of waiting jobs";
	for (const struct job *j = s->jobs; j && !bad; j = j->hh.next)
		for (uint32_t i = 0; i < j->n_holds && !bad; i++)
			bad = check_hold(j, &j->holds[i]);
	for (size_t i = 0; i < s->n_running && !bad; i++)
		if (s->runs[i].job->run_at != i || !s->runs[i].job->is_running ||
		    (s->runs[i].end_s > s->now_s && s->runs[i].end_s != running_end(s, s->runs[i].job)))
			bad = "model: a running job lost its place";
	for (const struct node *n = s->nodes; n && !bad; n = n->hh.next) {
		bad = check_node(s, n);
		drained += n->drained;
		if (n->drained > 1 || (n->drained && (n->usable || n->spare || !n->known)) || (n->spare && n->usable))
			bad = "model: a node is drained that takes jobs, or is put aside";
	}
	if (!bad && drained != s->n_drained)
		bad = "model: wrong number of drained nodes";
	for (const struct account *a = s->accounts; a && !bad; a = a->hh.next)
		bad = check_account(s, a);
	if (!bad)
		bad = check_exchanges(s);
	if (!bad)
		bad = domain_check(s);
	if (!bad)
		bad = pools_check(s);
	if (!bad)
		bad = depend_check(s);
	return bad;
}
