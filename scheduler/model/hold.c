/*
 * hold: what a job has on its nodes. A GPU or slot names its owner itself, so that giving one out twice
 * cannot go unseen.
 */
#include "scheduler/model/hold.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/model/model.h"

static uint32_t *ids_copy(const uint32_t *v, uint32_t n)
{
	uint32_t *out = mem_alloc((size_t)n + 1, sizeof(*out));

	if (n)
		memcpy(out, v, n * sizeof(*out));
	return out;
}

uint64_t hold_cpus(const struct job *j, const struct hold *h)
{
	return j->shape && !j->shape->gpus ? h->n_cpus : 0;
}

void hold_take(struct sched *s, struct job *j, struct hold *h)
{
	struct node *n = h->node;
	struct hold *mine;

	if (!j->n_holds)
		running_add(s, j);
	j->holds = mem_resize(j->holds, j->n_holds + 1, sizeof(*j->holds));
	mine = &j->holds[j->n_holds++];
	*mine = *h;
	mine->gpus = ids_copy(h->gpus, h->n_gpus);
	mine->cpus = ids_copy(h->cpus, h->n_cpus);
	for (uint32_t i = 0; i < h->n_gpus; i++) {
		struct gpu *g = node_gpu(n, h->gpus[i]);

		if (!g) {
			n->gpus = mem_resize(n->gpus, n->n_gpus + 1, sizeof(*n->gpus));
			g = &n->gpus[n->n_gpus++];
			memset(g, 0, sizeof(*g));
			g->g.index = h->gpus[i];
			g->g.model = mem_copy("");
		}
		g->owner = j->id;
	}
	for (uint32_t i = 0; i < h->n_cpus; i++) {
		node_slots_grow(n, h->cpus[i] + 1);
		n->slot_owner[h->cpus[i]] = j->id;
	}
	n->memory_used += h->memory;
	n->disk_used += h->disk;
	n->holders++;
	if (h->exclusive)
		n->exclusive = j->id;
	h->pool = n->parts ? pools_give_way(s, j, h) : 0;
	j->holds[j->n_holds - 1].pool = h->pool;
	node_count(s, n);
	account_change(s, j->lane ? j->lane->account : NULL, h->n_gpus, hold_cpus(j, h), 1);
}

static void gpus_drop_absent(struct node *n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n->n_gpus; i++) {
		if (n->gpus[i].present || n->gpus[i].owner)
			n->gpus[kept++] = n->gpus[i];
		else
			free((char *)n->gpus[i].g.model);
	}
	n->n_gpus = kept;
}

void hold_give_back(struct sched *s, struct job *j, uint32_t at)
{
	struct hold h = j->holds[at];
	struct node *n = h.node;

	j->n_holds--;
	memmove(&j->holds[at], &j->holds[at + 1], (j->n_holds - at) * sizeof(*j->holds));
	view_gave(s, j, &h);
	for (uint32_t i = 0; i < h.n_gpus; i++) {
		struct gpu *g = node_gpu(n, h.gpus[i]);

		if (g && g->owner == j->id)
			g->owner = 0;
	}
	for (uint32_t i = 0; i < h.n_cpus; i++)
		if (n->slot_owner[h.cpus[i]] == j->id)
			n->slot_owner[h.cpus[i]] = 0;
	n->memory_used -= h.memory;
	n->disk_used -= h.disk;
	n->holders--;
	if (n->exclusive == j->id)
		n->exclusive = 0;
	gpus_drop_absent(n);
	node_count(s, n);
	account_change(s, j->lane ? j->lane->account : NULL, h.n_gpus, hold_cpus(j, &h), -1);
	if (j->is_begun) { /* a decision that is taken back leaves no trace */
		free(n->warm);
		n->warm = mem_copy(j->warm);
	}
	if (!j->n_holds)
		running_remove(s, j);
	free(h.gpus);
	free(h.cpus);
	s->gen++;
	s->input++;
	node_drop_unused(s, n);
}
