/*
 * Placement under random input, seeded (HEARTH_SEED replays one). After each step the library is consistent,
 * and by this test's own account no GPU or slot was given twice, and no exclusive job shares a node. Equal
 * input gives equal decisions. Whether the decisions follow the rules is compared in test_sched_live.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

#define NODES 5
#define GPUS  4
#define SLOTS 6
#define JOBS  400

static uint64_t rng_state;

static uint32_t rnd(uint32_t n)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 11) % n;
}

struct model_job {
	uint64_t id;
	int64_t prio;
	struct sched_group g[2];
	uint32_t n_groups;
	int exclusive, state; /* 0 none, 1 waiting, 2 holding */
	struct sched_decision *d;
};
struct model_node {
	uint32_t gpus, slots;
	int usable, known;
	uint64_t gpu_owner[GPUS], slot_owner[SLOTS];
};
struct world {
	struct sched *s;
	struct model_job jobs[JOBS];
	struct model_node nodes[NODES];
	uint64_t digest; /* of all decisions */
	int skip;        /* policy: pass over what does not fit */
	const char *bad;
};

static void set_node(struct world *w, uint32_t i)
{
	struct sched_gpu g[GPUS];
	char name[8];
	struct model_node *m = &w->nodes[i];
	struct sched_node n = {.id = i + 1,
	                       .name = name,
	                       .instance_type = "x",
	                       .slots = m->slots,
	                       .gpus = g,
	                       .n_gpus = m->gpus,
	                       .usable = m->usable};

	snprintf(name, sizeof(name), "n%u", i + 1);
	for (uint32_t k = 0; k < m->gpus; k++)
		g[k] = (struct sched_gpu){.index = k, .model = "g", .link_group = k / 2 + 1};
	m->known = 1;
	sched_node_set(w->s, &n);
}

static uint32_t holders(const struct world *w, uint32_t node, int *exclusive)
{
	uint32_t n = 0;

	*exclusive = 0;
	for (uint32_t i = 0; i < JOBS; i++) {
		for (uint32_t p = 0; w->jobs[i].state == 2 && p < w->jobs[i].d->n; p++) {
			if (w->jobs[i].d->places[p].node != node + 1)
				continue;
			n++;
			*exclusive |= w->jobs[i].exclusive;
		}
	}
	return n;
}

static void take(struct world *w, struct model_job *j)
{
	unsigned seen = 0;

	for (uint32_t p = 0; p < j->d->n; p++) {
		struct sched_place *pl = &j->d->places[p];
		struct model_node *n = &w->nodes[pl->node - 1];

		if (seen & 1u << pl->node)
			w->bad = "two instances of a gang on one node";
		seen |= 1u << pl->node;
		if (!n->usable || pl->n_gpus != j->g[pl->group].gpus ||
		    pl->n_cpus != j->g[pl->group].ranks * j->g[pl->group].cpus_per_rank)
			w->bad = "wrong amount, or an unusable node";
		for (uint32_t k = 0; k < pl->n_gpus; k++) {
			if (pl->gpus[k] >= n->gpus || n->gpu_owner[pl->gpus[k]])
				w->bad = "a GPU was given twice";
			else
				n->gpu_owner[pl->gpus[k]] = j->id;
		}
		for (uint32_t k = 0; k < pl->n_cpus; k++) {
			if (pl->cpus[k] >= n->slots || n->slot_owner[pl->cpus[k]])
				w->bad = "a slot was given twice";
			else
				n->slot_owner[pl->cpus[k]] = j->id;
		}
		w->digest =
		    (w->digest ^ (j->id * 1000003 + pl->node * 97 + (pl->n_gpus ? pl->gpus[0] : 9))) * 0x100000001b3u;
	}
}

static void forget(struct world *w, struct model_job *j, uint32_t p)
{
	struct sched_place *pl = &j->d->places[p];
	struct model_node *n = &w->nodes[pl->node - 1];

	for (uint32_t k = 0; k < pl->n_gpus; k++)
		n->gpu_owner[pl->gpus[k]] = 0;
	for (uint32_t k = 0; k < pl->n_cpus; k++)
		n->slot_owner[pl->cpus[k]] = 0;
	free(pl->gpus);
	free(pl->cpus);
	*pl = j->d->places[--j->d->n];
}

static void check_exclusive(struct world *w, const struct sched_decision *d)
{
	for (uint32_t p = 0; p < d->n; p++) {
		int exclusive;
		uint32_t n = holders(w, (uint32_t)d->places[p].node - 1, &exclusive);

		if (exclusive && n > 1)
			w->bad = "an exclusive job shares a node";
	}
}

static void settle(struct world *w)
{
	for (;;) {
		struct sched_decision *d = sched_step(w->s);

		if (!d)
			return;
		w->jobs[d->job - 1].d = d;
		take(w, &w->jobs[d->job - 1]);
		w->jobs[d->job - 1].state = 2;
		check_exclusive(w, d);
	}
}

static void add_job(struct world *w)
{
	for (uint32_t i = 0; i < JOBS; i++) {
		struct model_job *j = &w->jobs[i];
		struct sched_job in = {.id = i + 1, .order = i + 1, .groups = j->g};

		if (j->id)
			continue;
		j->id = i + 1;
		j->prio = in.priority = (int64_t)rnd(3);
		j->n_groups = in.n_groups = 1 + rnd(2);
		j->exclusive = in.exclusive = rnd(10) == 0;
		for (uint32_t g = 0; g < j->n_groups; g++)
			j->g[g] = (struct sched_group){1 + rnd(2), rnd(3), 1 + rnd(2), 1 + rnd(2)};
		j->state = 1;
		sched_job_add(w->s, &in);
		return;
	}
}

static void end_job(struct world *w)
{
	struct model_job *j = &w->jobs[rnd(JOBS)];

	if (j->state == 2 && j->d->n > 1 && rnd(2)) {
		uint32_t p = rnd(j->d->n);

		sched_job_release_place(w->s, j->id, j->d->places[p].node);
		forget(w, j, p);
		return;
	}
	if (j->state == 2) {
		while (j->d->n)
			forget(w, j, 0);
		sched_decision_free(j->d);
	}
	if (j->state)
		sched_job_remove(w->s, j->id);
	j->state = j->id ? 3 : 0;
}

static void change_node(struct world *w)
{
	uint32_t i = rnd(NODES);
	struct model_node *n = &w->nodes[i];

	if (!n->known) {
		n->gpus = rnd(GPUS + 1);
		n->slots = 1 + rnd(SLOTS);
	}
	n->usable = rnd(4) != 0;
	set_node(w, i);
}

static void run(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	rng_state = seed * 0x9e3779b97f4a7c15u + 1;
	w->s = sched_create();
	w->skip = seed % 4 == 3;
	sched_policy_set(w->s, &(struct sched_policy){.backfill = w->skip ? SCHED_SKIP : SCHED_BLOCK});
	for (int t = 0; t < 900 && !w->bad; t++) {
		switch (rnd(5)) {
		case 0:
		case 1:
			add_job(w);
			break;
		case 2:
		case 3:
			end_job(w);
			break;
		default:
			if (rnd(4) == 0)
				change_node(w);
		}
		settle(w);
		if (!w->bad)
			w->bad = sched_check(w->s);
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		struct sched_reason r;

		if (w->jobs[i].state == 1) {
			sched_explain(w->s, i + 1, &r);
			if (!r.text[0] || r.why == SCHED_FITS)
				w->bad = "a waiting job has no reason";
		}
		if (w->jobs[i].state == 2)
			sched_decision_free(w->jobs[i].d);
	}
	sched_destroy(w->s);
}

static void test_long_queue(void)
{
	/* 10,000 waiting behind a blocked one, of 100 shapes: 100,000 steps must not look at them again. */
	struct sched *s = sched_create();
	struct sched_node n = {.id = 1, .name = "a", .slots = 200, .usable = 1};
	unsigned decided = 0;

	sched_node_set(s, &n);
	for (uint64_t i = 1; i <= 10000; i++) {
		struct sched_group g = {1, 0, 1, 101 + (uint32_t)(i % 100)};
		struct sched_job j = {.id = i, .order = i, .groups = &g, .n_groups = 1};

		sched_job_add(s, &j);
	}
	for (int i = 0; i < 100000; i++) {
		struct sched_decision *d = sched_step(s);

		decided += !!d;
		sched_decision_free(d);
	}
	is_int(decided, 1, "one fits, the queue waits");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

int main(void)
{
	const char *given = getenv("HEARTH_SEED");
	uint64_t from = given ? strtoull(given, NULL, 10) : 1, to = given ? from : 120; /* 108,000 steps */
	static struct world a, b;

	for (uint64_t seed = from; seed <= to; seed++) {
		run(&a, seed);
		if (!ok(!a.bad, "seed %" PRIu64 ": no GPU or slot was given twice", seed))
			tap_diag("seed %" PRIu64 ": %s", seed, a.bad);
		if (seed % 10 == 1) {
			run(&b, seed);
			ok(a.digest == b.digest, "seed %" PRIu64 ": the same decisions again", seed);
		}
	}
	test_long_queue();
	return tap_done();
}
