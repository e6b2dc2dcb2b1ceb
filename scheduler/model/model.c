/*
 * model: nodes and what jobs hold on them; the consistency check.
 *
 * A job may hold things on a node that is not known (after a restart of the controller, before its agent is
 * back) or that vanished from the inventory: they stay on its account until released, and nothing on such a
 * node is free.
 */
#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"
#include <string.h>

struct node *model_node(const struct sched *s, uint64_t id)
{
	struct node *n;

	HASH_FIND(hh, s->nodes, &id, sizeof id, n);
	return n;
}

static struct gpu *find_gpu(const struct node *n, uint32_t index)
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
	reservation_node_fini(n);
	free(n->name);
	free(n->type);
	free(n);
}

static void recount(struct node *n)
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
int model_too_full(const struct sched *s, const struct shape *sh)
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
	struct node *n = mem_alloc(1, sizeof *n);

	n->id = id;
	n->name = mem_copy("?");
	n->type = mem_copy("");
	n->labels = mem_alloc(1, sizeof *n->labels);
	HASH_ADD(hh, s->nodes, id, sizeof n->id, n);
	return n;
}

static void sorted_add(struct sched *s, struct node *n)
{
	size_t at = s->n_sorted;

	if (s->n_sorted == s->cap_sorted) {
		s->cap_sorted = s->cap_sorted ? s->cap_sorted * 2 : 16;
		s->sorted = mem_resize(s->sorted, s->cap_sorted, sizeof *s->sorted);
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
	memmove(s->sorted + at, s->sorted + at + 1, (s->n_sorted - at) * sizeof *s->sorted);
	for (; at < s->n_sorted; at++)
		s->sorted[at]->at = (uint32_t)at;
}

static void owners_grow(struct node *n, uint32_t want)
{
	if (want <= n->n_owners)
		return;
	n->slot_owner = mem_resize(n->slot_owner, want, sizeof *n->slot_owner);
	memset(n->slot_owner + n->n_owners, 0, (want - n->n_owners) * sizeof *n->slot_owner);
	n->n_owners = want;
}

/* The new list, with owners kept; a held GPU that is no longer there stays as absent. */
static void gpus_set(struct node *n, const struct sched_gpu *gpus, uint32_t n_gpus)
{
	struct gpu *old = n->gpus, *now = mem_alloc((size_t)n_gpus + n->n_gpus + 1, sizeof *now);
	uint32_t n_old = n->n_gpus, n_now = 0;

	for (uint32_t i = 0; i < n_gpus; i++) {
		const struct gpu *was = find_gpu(n, gpus[i].index);

		now[n_now].g = gpus[i];
		now[n_now].g.model = mem_copy(gpus[i].model ? gpus[i].model : "");
		now[n_now].present = 1;
		now[n_now++].owner = was ? was->owner : 0;
	}
	n->gpus = now;
	n->n_gpus = n_now;
	for (uint32_t i = 0; i < n_old; i++) {
		if (old[i].owner && !find_gpu(n, old[i].g.index)) {
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
	const uint64_t sums[] = {in->slots, in->memory_bytes, in->disk_bytes, in->n_gpus, in->usable != 0};
	uint64_t h = mark_bytes(0xcbf29ce484222325u, sums, sizeof sums);

	h = mark_text(mark_text(mark_text(mark_text(h, in->name), in->instance_type), in->switch_name),
	              in->rack_name);
	for (size_t i = 0; in->labels && in->labels[i]; i++)
		h = mark_text(h, in->labels[i]);
	for (uint32_t i = 0; i < in->n_gpus; i++) {
		const struct sched_gpu *g = &in->gpus[i];
		const uint64_t of_gpu[] = {g->index, g->memory_bytes, g->numa, g->link_group};

		h = mark_text(mark_bytes(h, of_gpu, sizeof of_gpu), g->model);
	}
	return h;
}

void sched_node_set(struct sched *s, const struct sched_node *in)
{
	struct node *n = model_node(s, in->id);
	uint64_t mark = fit_mark(in);
	size_t n_labels = 0;

	record_node(s, in);
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
	n->labels = mem_alloc(n_labels + 1, sizeof *n->labels);
	for (size_t i = 0; i < n_labels; i++)
		n->labels[i] = mem_copy(in->labels[i]);
	owners_grow(n, in->slots);
	n->slots = in->slots;
	n->memory = in->memory_bytes;
	n->disk = in->disk_bytes;
	gpus_set(n, in->gpus, in->n_gpus);
	n->usable = !!in->usable;
	if (n->usable)
		not_drained(s, n);
	n->price = in->price_per_hour;
	n->power = in->power_w;
	n->doubt = in->doubt;
	domain_set(s, n, LEVEL_SWITCH, in->switch_name);
	domain_set(s, n, LEVEL_RACK, in->rack_name);
	recount(n);
	count_free(s, n);
	s->gen++;
	s->input++;
}

void sched_node_remove(struct sched *s, uint64_t id)
{
	struct node *n = model_node(s, id);

	record_id(s, "gone", id);
	if (!n || !n->known)
		return;
	sorted_del(s, n);
	domain_set(s, n, LEVEL_SWITCH, NULL);
	domain_set(s, n, LEVEL_RACK, NULL);
	s->input++;
	s->gen++;
	s->nodes_gen++;
	s->went_gen += (uint64_t)n->usable;
	n->known = n->usable = 0;
	not_drained(s, n);
	count_free(s, n);
	if (n->holders)
		return; /* remembered until the last holder gives back */
	HASH_DELETE(hh, s->nodes, n);
	node_free(s, n);
}

static uint32_t *ids_copy(const uint32_t *v, uint32_t n)
{
	uint32_t *out = mem_alloc((size_t)n + 1, sizeof *out);

	if (n)
		memcpy(out, v, n * sizeof *out);
	return out;
}

static void job_runs(struct sched *s, struct job *j)
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
		s->runs = mem_resize(s->runs, s->cap_runs, sizeof *s->runs);
	}
	j->run_at = (uint32_t)s->n_running;
	s->runs[s->n_running++].job = j;
	run_ends(s, j);
	if (j->lane)
		lane_started(s, j);
}

static void job_stops(struct sched *s, struct job *j)
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

uint64_t model_cpus(const struct job *j, const struct hold *h)
{
	return j->shape && !j->shape->gpus ? h->n_cpus : 0;
}

void model_take(struct sched *s, struct job *j, const struct hold *h)
{
	struct node *n = h->node;
	struct hold *mine;

	if (!j->n_holds)
		job_runs(s, j);
	j->holds = mem_resize(j->holds, j->n_holds + 1, sizeof *j->holds);
	mine = &j->holds[j->n_holds++];
	*mine = *h;
	mine->gpus = ids_copy(h->gpus, h->n_gpus);
	mine->cpus = ids_copy(h->cpus, h->n_cpus);
	for (uint32_t i = 0; i < h->n_gpus; i++) {
		struct gpu *g = find_gpu(n, h->gpus[i]);

		if (!g) {
			n->gpus = mem_resize(n->gpus, n->n_gpus + 1, sizeof *n->gpus);
			g = &n->gpus[n->n_gpus++];
			memset(g, 0, sizeof *g);
			g->g.index = h->gpus[i];
			g->g.model = mem_copy("");
		}
		g->owner = j->id;
	}
	for (uint32_t i = 0; i < h->n_cpus; i++) {
		owners_grow(n, h->cpus[i] + 1);
		n->slot_owner[h->cpus[i]] = j->id;
	}
	n->memory_used += h->memory;
	n->disk_used += h->disk;
	n->holders++;
	if (h->exclusive)
		n->exclusive = j->id;
	recount(n);
	count_free(s, n);
	account_change(s, j->lane ? j->lane->account : NULL, h->n_gpus, model_cpus(j, h), 1);
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

void model_give_back(struct sched *s, struct job *j, uint32_t at)
{
	struct hold h = j->holds[at];
	struct node *n = h.node;

	j->holds[at] = j->holds[--j->n_holds];
	shadow_gave(s, j, &h);
	for (uint32_t i = 0; i < h.n_gpus; i++) {
		struct gpu *g = find_gpu(n, h.gpus[i]);

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
	recount(n);
	count_free(s, n);
	account_change(s, j->lane ? j->lane->account : NULL, h.n_gpus, model_cpus(j, &h), -1);
	free(n->warm);
	n->warm = mem_copy(j->warm);
	if (!j->n_holds)
		job_stops(s, j);
	free(h.gpus);
	free(h.cpus);
	s->gen++;
	s->input++;
	if (!n->known && !n->holders) {
		HASH_DELETE(hh, s->nodes, n);
		node_free(s, n);
	}
}

int sched_node_free(const struct sched *s, uint64_t id, uint32_t *gpus, uint32_t *slots, uint64_t *memory)
{
	const struct node *n = model_node(s, id);

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

/* ---- consistency ----------------------------------------------------------------------------- */

static const char *check_hold(const struct job *j, const struct hold *h)
{
	for (uint32_t i = 0; i < h->n_gpus; i++) {
		const struct gpu *g = find_gpu(h->node, h->gpus[i]);

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
	uint64_t gpus = 0, cpus = 0, wants = 0, waiting = 0;

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
			cpus += model_cpus(j, &j->holds[i]);
		}
	return gpus == a->gpus && cpus == a->cpus ? NULL : "account: what is held and what was counted differ";
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
		if (n->drained > 1 || (n->drained && (n->usable || !n->known)))
			bad = "model: a node is drained that takes jobs, or is put aside";
	}
	if (!bad && drained != s->n_drained)
		bad = "model: wrong number of drained nodes";
	for (const struct account *a = s->accounts; a && !bad; a = a->hh.next)
		bad = check_account(s, a);
	if (!bad)
		bad = domain_check(s);
	if (!bad)
		bad = depend_check(s);
	return bad;
}

void sched_destroy(struct sched *s)
{
	struct job *j, *jt;
	struct node *n, *nt;

	if (!s)
		return;
	record_fini(s);
	HASH_ITER (hh, s->jobs, j, jt)
		sched_job_remove(s, j->id);
	HASH_ITER (hh, s->nodes, n, nt) {
		HASH_DELETE(hh, s->nodes, n);
		node_free(s, n);
	}
	plan_fini(s);
	accounts_fini(s);
	lanes_fini(s);
	domains_fini(s);
	free(s->view);
	free(s->runs);
	free(s->bids);
	free(s->sorted);
	free(s);
}
