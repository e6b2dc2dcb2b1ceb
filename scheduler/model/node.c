/*
 * node: the known nodes, what each has, and how much of it is free.
 *
 * A job may hold things on a node that is unknown (after a restart of the controller, before its agent is
 * back) or that vanished from the inventory. They stay on the job's account until it releases them, and
 * nothing on such a node is free.
 */
#include "scheduler/model/node.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"

struct node *model_node_find(const struct sched *s, uint64_t id)
{
	struct node *n;

	HASH_FIND(hh, s->nodes, &id, sizeof(id), n);
	return n;
}

int node_takes_exchange(const struct node *n)
{
	return n->known && (n->usable || n->spare == SPARE_READY);
}

struct gpu *node_gpu(const struct node *n, uint32_t index)
{
	for (uint32_t i = 0; i < n->n_gpus; i++)
		if (n->gpus[i].g.index == index)
			return &n->gpus[i];
	return NULL;
}

static void node_free(struct sched *s, struct node *n)
{
	s->n_reservations -= n->n_reservations;
	for (uint32_t i = 0; i < n->n_gpus; i++)
		free((char *)n->gpus[i].g.model);
	for (char **l = n->labels; l && *l; l++)
		free(*l);
	free(n->labels);
	free(n->gpus);
	free(n->slot_owner);
	free(n->warm);
	free(n->reservations);
	free(n->name);
	free(n->type);
	free(n);
}

static void count_own(struct node *n)
{
	n->free_slots = n->free_gpus = n->has_gpus = 0;
	for (uint32_t i = 0; i < n->slots; i++)
		n->free_slots += !n->slot_owner[i];
	for (uint32_t i = 0; i < n->n_gpus; i++) {
		n->has_gpus += n->gpus[i].present != 0;
		n->free_gpus += n->gpus[i].present && !n->gpus[i].owner;
	}
}

/* After any change of what a node has free, or whether it may get work. */
static void count_free(struct sched *s, struct node *n)
{
	uint32_t free = n->free_gpus < MAX_FREE ? n->free_gpus : MAX_FREE,
	         now = n->known && n->usable && !n->exclusive ? free + 1 : 0;

	if (n->counted)
		s->by_free[n->counted]--;
	if (now)
		s->by_free[now]++;
	n->counted = now;
	if (now > s->most_free)
		s->most_free = now;
}

/* Follows S-142. */
void node_count(struct sched *s, struct node *n)
{
	count_own(n);
	count_free(s, n);
}

int nodes_too_full(const struct sched *s, const struct shape *sh)
{
	for (uint32_t i = 0; i < sh->n_groups; i++) {
		const struct sched_group *g = &sh->groups[i];
		uint32_t at = (g->gpus < MAX_FREE ? g->gpus : MAX_FREE) + 1, nodes = 0;

		for (; at <= s->most_free && nodes < g->instances; at++)
			nodes += s->by_free[at];
		if (nodes < g->instances)
			return 1;
	}
	return 0;
}

struct node *model_node_make(struct sched *s, uint64_t id)
{
	struct node *n = mem_alloc(1, sizeof(*n));

	n->id = id;
	n->name = mem_copy("?");
	n->type = mem_copy("");
	n->labels = mem_alloc(1, sizeof(*n->labels));
	HASH_ADD(hh, s->nodes, id, sizeof(n->id), n);
	return n;
}

static void sorted_add(struct sched *s, struct node *n)
{
	size_t at = s->n_sorted;

	if (s->n_sorted == s->cap_sorted) {
		s->cap_sorted = s->cap_sorted ? s->cap_sorted * 2 : 16;
		s->sorted = mem_resize(s->sorted, s->cap_sorted, sizeof(*s->sorted));
	}
	for (; at && s->sorted[at - 1]->id > n->id; at--)
		s->sorted[at] = s->sorted[at - 1];
	s->sorted[at] = n;
	s->n_sorted++;
	for (; at < s->n_sorted; at++)
		s->sorted[at]->at = (uint32_t)at;
}

static void sorted_del(struct sched *s, const struct node *n)
{
	size_t at = 0;

	while (s->sorted[at] != n)
		at++;
	s->n_sorted--;
	memmove(s->sorted + at, s->sorted + at + 1, (s->n_sorted - at) * sizeof(*s->sorted));
	for (; at < s->n_sorted; at++)
		s->sorted[at]->at = (uint32_t)at;
}

void node_slots_grow(struct node *n, uint32_t want)
{
	if (want <= n->n_owners)
		return;
	n->slot_owner = mem_resize(n->slot_owner, want, sizeof(*n->slot_owner));
	memset(n->slot_owner + n->n_owners, 0, (want - n->n_owners) * sizeof(*n->slot_owner));
	n->n_owners = want;
}

/* The new list, with owners kept; a held GPU that is no longer there stays as absent. */
static void gpus_set(struct node *n, const struct sched_gpu *gpus, uint32_t n_gpus)
{
	struct gpu *old = n->gpus, *now = mem_alloc((size_t)n_gpus + n->n_gpus + 1, sizeof(*now));
	uint32_t n_old = n->n_gpus, n_now = 0;

	for (uint32_t i = 0; i < n_gpus; i++) {
		const struct gpu *was = node_gpu(n, gpus[i].index);

		now[n_now].g = gpus[i];
		now[n_now].g.model = mem_copy(gpus[i].model ? gpus[i].model : "");
		now[n_now].present = 1;
		now[n_now++].owner = was ? was->owner : 0;
	}
	n->gpus = now;
	n->n_gpus = n_now;
	for (uint32_t i = 0; i < n_old; i++) {
		if (old[i].owner && !node_gpu(n, old[i].g.index)) {
			now[n->n_gpus] = old[i];
			now[n->n_gpus++].present = 0;
		} else {
			free((char *)old[i].g.model);
		}
	}
	free(old);
}

static void not_drained(struct sched *s, struct node *n)
{
	s->n_drained -= n->drained;
	n->drained = 0;
}

static uint64_t mark_bytes(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++) /* FNV-1a */
		h = (h ^ b[i]) * 0x100000001b3u;
	return h;
}

static uint64_t mark_text(uint64_t h, const char *s)
{
	return mark_bytes(h, s ? s : "", strlen(s ? s : "") + 1);
}

/* Of what decides what could fit there: not of doubt, price and power, by which nodes are only preferred. */
static uint64_t fit_mark(const struct sched_node *in)
{
	const uint64_t sums[] = {in->slots, in->memory_bytes, in->disk_bytes, in->n_gpus,
	                         (in->usable ? 1u : 0u) | (in->spare ? 2u : 0u)};
	uint64_t h = mark_bytes(0xcbf29ce484222325u, sums, sizeof(sums));

	h = mark_text(mark_text(mark_text(mark_text(h, in->name), in->instance_type), in->switch_name),
	              in->rack_name);
	for (size_t i = 0; in->labels && in->labels[i]; i++)
		h = mark_text(h, in->labels[i]);
	for (uint32_t i = 0; i < in->n_gpus; i++) {
		const struct sched_gpu *g = &in->gpus[i];
		const uint64_t of_gpu[] = {g->index, g->memory_bytes, g->numa, g->link_group};

		h = mark_text(mark_bytes(h, of_gpu, sizeof(of_gpu)), g->model);
	}
	return h;
}

void sched_node_set(struct sched *s, const struct sched_node *in)
{
	struct node *n = model_node_find(s, in->id);
	uint64_t mark = fit_mark(in);
	size_t n_labels = 0;

	record_node(s->recorder, in);
	if (!n)
		n = model_node_make(s, in->id);
	if (!n->known || n->fit_mark != mark) {
		s->nodes_gen++;
		s->went_gen += n->known && n->usable;
	}
	n->fit_mark = mark;
	if (!n->known)
		sorted_add(s, n);
	n->known = 1;
	free(n->name);
	free(n->type);
	n->name = mem_copy(in->name ? in->name : "?");
	n->type = mem_copy(in->instance_type ? in->instance_type : "");
	for (char **l = n->labels; *l; l++)
		free(*l);
	free(n->labels);
	while (in->labels && in->labels[n_labels])
		n_labels++;
	n->labels = mem_alloc(n_labels + 1, sizeof(*n->labels));
	for (size_t i = 0; i < n_labels; i++)
		n->labels[i] = mem_copy(in->labels[i]);
	node_slots_grow(n, in->slots);
	n->slots = in->slots;
	n->memory = in->memory_bytes;
	n->disk = in->disk_bytes;
	gpus_set(n, in->gpus, in->n_gpus);
	n->usable = in->usable && !in->spare;
	n->spare = in->spare ? in->usable ? SPARE_READY : SPARE_NOT_NOW : SPARE_NO;
	if (n->usable || n->spare)
		not_drained(s, n);
	n->price = in->price_per_hour;
	n->power = in->power_w;
	n->doubt = in->doubt;
	domain_set(s, n, LEVEL_SWITCH, in->switch_name);
	domain_set(s, n, LEVEL_RACK, in->rack_name);
	node_count(s, n);
	pools_node_changed(s, n);
	s->gen++;
	s->input++;
}

void sched_node_remove(struct sched *s, uint64_t id)
{
	struct node *n = model_node_find(s, id);

	record_id(s->recorder, "gone", id);
	if (!n || !n->known)
		return;
	sorted_del(s, n);
	domain_set(s, n, LEVEL_SWITCH, NULL);
	domain_set(s, n, LEVEL_RACK, NULL);
	s->input++;
	s->gen++;
	s->nodes_gen++;
	s->went_gen += (uint64_t)n->usable;
	n->known = n->usable = n->spare = 0;
	not_drained(s, n);
	count_free(s, n);
	pools_node_gone(s, n);
	node_drop_unused(s, n); /* else it is remembered until the last holder gives back */
}

/* Follows S-345. */
void sched_node_drained(struct sched *s, uint64_t id, int drained)
{
	struct node *n = model_node_find(s, id);

	if (!n)
		return;
	s->n_drained -= n->drained;
	n->drained = drained && !n->usable && !n->spare && n->known;
	s->n_drained += n->drained;
}

int sched_node_free(const struct sched *s, uint64_t id, uint32_t *gpus, uint32_t *slots, uint64_t *memory)
{
	const struct node *n = model_node_find(s, id);

	if (!n || !n->known)
		return -1;
	if (gpus)
		*gpus = n->free_gpus;
	if (slots)
		*slots = n->free_slots;
	if (memory)
		*memory = n->memory > n->memory_used ? n->memory - n->memory_used : 0;
	return 0;
}

void sched_count(const struct sched *s, size_t *waiting, size_t *nodes, size_t *usable)
{
	if (waiting)
		*waiting = s->n_waiting;
	if (nodes)
		*nodes = s->n_sorted;
	if (usable) {
		*usable = 0;
		for (size_t i = 0; i < s->n_sorted; i++)
			*usable += (size_t)s->sorted[i]->usable;
	}
}

void node_drop_unused(struct sched *s, struct node *n)
{
	if (n->known || n->holders || n->parts)
		return;
	HASH_DELETE(hh, s->nodes, n);
	node_free(s, n);
}

void nodes_fini(struct sched *s)
{
	struct node *n, *tmp;

	HASH_ITER (hh, s->nodes, n, tmp) {
		HASH_DELETE(hh, s->nodes, n);
		node_free(s, n);
	}
}
