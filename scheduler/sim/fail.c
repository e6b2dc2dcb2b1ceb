/*
 * fail: nodes that fail and come back, for `--failures`.
 *
 * The time to the failure of a node has an exponential distribution with the given mean, and counts from the
 * node's last return. The node is back after SIM_REPAIR_S. Jobs on it lose their work and wait again in their
 * old place. The draws come from the seed alone, so two policies see the same failures as long as they take
 * the same time.
 */
#include "scheduler/sim/sim_int.h"

#include <math.h>

/* Follows S-436. */
static uint64_t draw_number(uint64_t *state)
{
	/* splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014) */
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Follows S-433. */
static void plan_failure(struct sim *s, uint32_t node)
{
	double u = ((double)(draw_number(&s->rng) >> 11) + 1) / 9007199254740992.0; /* in (0, 1] */
	double after = -log(u) * s->conf->mttf_hours * 3600;

	if (after < 1e12)
		sim_heap_push(&s->failing, (struct sim_key){s->now + 1 + (uint64_t)after, node * 2, node});
}

void fail_init(struct sim *s)
{
	if (s->conf->mttf_hours <= 0)
		return;
	s->rng = s->conf->seed;
	s->down = mem_alloc(s->conf->nodes, 1);
	s->now = s->n ? s->jobs[0].submit_s : 0;
	for (uint32_t i = 0; i < s->conf->nodes; i++)
		plan_failure(s, i);
}

uint64_t fail_next(const struct sim *s)
{
	return s->failing.n ? s->failing.v[0].k : SIM_NEVER;
}

static int is_on(const struct sim_job *j, uint32_t node)
{
	for (uint32_t i = 0; i < j->n_nodes; i++)
		if (j->nodes[i] == node)
			return 1;
	return 0;
}

/* Follows S-434. */
static void node_down(struct sim *s, uint32_t node)
{
	for (size_t i = 0; i < s->ends.n; i++) {
		const struct sim_live *l = &s->live[s->ends.v[i].job];

		if (l->running && l->attempt == s->ends.v[i].row && is_on(&s->jobs[s->ends.v[i].job], node))
			sim_kill(s, s->ends.v[i].job);
	}
	flat_take(&s->flat, s->flat.per_node, &node);
	if (s->rule->node)
		s->rule->node(s, node, 0);
	s->down[node] = 1;
	s->changed = 1;
	s->out->node_failures++;
	sim_heap_push(&s->failing, (struct sim_key){s->now + SIM_REPAIR_S, node * 2 + 1, node});
}

static void node_up(struct sim *s, uint32_t node)
{
	flat_give(&s->flat, s->flat.per_node, &node);
	if (s->rule->node)
		s->rule->node(s, node, 1);
	s->down[node] = 0;
	s->changed = 1;
	plan_failure(s, node);
}

void fail_step(struct sim *s)
{
	while (s->failing.n && s->failing.v[0].k <= s->now) {
		uint32_t node = sim_heap_pop(&s->failing).job;

		if (s->down[node])
			node_up(s, node);
		else
			node_down(s, node);
	}
}
