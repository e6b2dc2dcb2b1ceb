/*
 * The simulator's own policies and the library that the controller drives decide alike: random traces through
 * both, by fifo and fifo-skip, compared start by start and node by node; and the flat cluster's best fit
 * against a plain scan.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/flat.h"
#include "scheduler/sim/sim.h"
#include "tests/lib/tap.h"

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

static int same(const struct sim_result *a, const struct sim_result *b)
{
	if (a->n != b->n || a->avg_jct_s != b->avg_jct_s || a->max_wait_s != b->max_wait_s)
		return 0;
	for (size_t i = 0; i < a->n; i++) {
		const struct sim_job *x = &a->jobs[i], *y = &b->jobs[i];

		if (x->start_s != y->start_s || x->n_nodes != y->n_nodes ||
		    memcmp(x->nodes, y->nodes, x->n_nodes * sizeof(*x->nodes)) != 0)
			return 0;
	}
	return 1;
}

/* Checks S-418. */
static void test_alike(void)
{
	int alike[2] = {1, 1};

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct trace_job jobs[200];
		char *users[1] = {(char *)(uintptr_t) "u"};
		struct trace t = {jobs, 200, users, 1};
		struct sim_conf c = {.speedup = 1};
		uint64_t at = 0;

		rng = seed * 0x9e3779b97f4a7c15u;
		c.nodes = 1 + rnd(8);
		c.gpus_per_node = 1 + rnd(8);
		for (int i = 0; i < 200; i++) {
			at += rnd(20);
			jobs[i] = (struct trace_job){at, 1 + rnd(200), 1 + rnd(c.nodes * c.gpus_per_node), 0, 0, 0};
		}
		for (int p = 0; p < 2; p++) {
			struct sim_result a, b;

			c.policy = p ? SIM_FIFO_SKIP : SIM_FIFO;
			c.library = 0;
			sim_run(&c, &t, &a);
			c.library = 1;
			sim_run(&c, &t, &b);
			alike[p] = alike[p] && same(&a, &b);
			sim_result_fini(&a);
			sim_result_fini(&b);
		}
	}
	ok(alike[0], "fifo: the library starts the same jobs at the same times on the same nodes");
	ok(alike[1], "fifo-skip: too");
}

static int all_ended(const struct sim_conf *c, const struct trace *t)
{
	struct sim_result r;
	int all;

	sim_run(c, t, &r);
	all = r.ended == r.n && r.n + r.dropped == t->n;
	sim_result_fini(&r);
	return all;
}

/* What is believed of run times changes while places are kept, and jobs may take no time at all. */
static void test_beliefs(void)
{
	static const uint64_t takes[] = {0, 1, 600, 3600, 20000};
	unsigned bad[SIM_ESTIMATES] = {0};

	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct trace_job jobs[60];
		char *users[3] = {(char *)(uintptr_t) "u", (char *)(uintptr_t) "v", (char *)(uintptr_t) "w"};
		struct trace t = {jobs, 0, users, 3};
		struct sim_conf c = {.speedup = 1, .policy = SIM_CONSERVATIVE};
		uint64_t at = 0;

		rng = seed * 0x9e3779b97f4a7c15u;
		c.nodes = 1 + rnd(6);
		c.gpus_per_node = 1u << rnd(4);
		t.n = 1 + rnd(60);
		for (size_t i = 0; i < t.n; i++) {
			at += rnd(2000);
			jobs[i] = (struct trace_job){at, takes[rnd(5)], 1 + rnd(c.nodes * c.gpus_per_node), rnd(3), 0, 0};
		}
		for (int e = SIM_TRUE; e < SIM_ESTIMATES; e++) {
			c.estimate = (enum sim_estimate)e;
			bad[e] += !all_ended(&c, &t);
		}
	}
	for (int e = SIM_TRUE; e < SIM_ESTIMATES; e++)
		ok(!bad[e], "conservative, estimates %s: all jobs end (not in %u of 150 traces)",
		   sim_estimate_name((enum sim_estimate)e), bad[e]);
}

/* A gang of all nodes, which are never up at one time: the run ends all the same. */
static void test_never_up(void)
{
	struct trace_job jobs[2] = {{.duration_s = 60, .gpus = 64}, {.duration_s = 60, .gpus = 1}};
	char *users[1] = {(char *)(uintptr_t) "u"};
	struct trace t = {jobs, 2, users, 1};
	struct sim_conf c = {.nodes = 64, .gpus_per_node = 1, .speedup = 1, .mttf_hours = 0.2, .seed = 3};

	for (int p = SIM_FIFO_SKIP; p < SIM_POLICIES; p += SIM_LIVE - SIM_FIFO_SKIP) {
		struct sim_result r;

		c.policy = (enum sim_policy)p;
		jobs[1].submit_s = 100000;
		jobs[0].submit_s = 90000;
		sim_run(&c, &t, &r);
		ok(r.given_up == 1 && r.ended == 1, "%s: what never starts is given up", sim_policy_name(c.policy));
		sim_result_fini(&r);
	}
}

static void test_flat(void)
{
	struct flat f;
	uint32_t nodes[FLAT_MAX_GPUS], taken[5000] = {0}, on[5000] = {0}, bad = 0;

	rng = 12345;
	flat_init(&f, 5000, 7);
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t k = rnd(5000), best = UINT32_MAX, want;

		if (taken[k]) {
			flat_give(&f, taken[k], &on[k]);
			taken[k] = 0;
			continue;
		}
		want = 1 + rnd(7);
		for (uint32_t i = 0; round % 16 == 0 && i < 5000; i++)
			if (f.free[i] >= want && (best == UINT32_MAX || f.free[i] < f.free[best]))
				best = i;
		if (!flat_fits(&f, want)) {
			bad += best != UINT32_MAX;
			continue;
		}
		flat_find(&f, want, nodes);
		bad += round % 16 == 0 && nodes[0] != best;
		flat_take(&f, want, nodes);
		taken[k] = want;
		on[k] = nodes[0];
	}
	is_int(bad, 0, "best fit of sets equals a plain scan, 20,000 changes of 5,000 nodes");
	flat_fini(&f);
}

int main(void)
{
	test_alike();
	test_beliefs();
	test_never_up();
	test_flat();
	return tap_done();
}
