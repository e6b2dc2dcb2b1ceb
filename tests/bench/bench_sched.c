/*
 * What a decision of the scheduler costs: JSON lines.
 *
 * decide: a full cluster of N nodes of 8 GPUs, Q waiting gangs of many shapes; again and again one running
 * job ends, and the next decision (or that there is none) is timed. starts: an empty cluster is filled.
 * queue: memory and time of adding a job. Usage: bench_sched [quick | POLICY NODES PENDING]
 */
#include "common/clock.h"
#include "scheduler/sched.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 8

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

static double now_us(void)
{
	static uint64_t first;
	uint64_t t = clock_boot_us(clock_real());

	if (!first)
		first = t;
	return (double)(t - first);
}

static struct sched *cluster(uint32_t nodes, struct sched_policy p)
{
	struct sched *s = sched_create();
	struct sched_gpu g[GPUS];

	sched_policy_set(s, &p);
	for (uint32_t i = 0; i < GPUS; i++)
		g[i] = (struct sched_gpu){
		    .index = i, .model = "H100", .memory_bytes = 80ull << 30, .numa = i / 4, .link_group = 1};
	for (uint32_t i = 1; i <= nodes; i++) {
		struct sched_node n = {.id = i,
		                       .name = "n",
		                       .instance_type = "t",
		                       .slots = 64,
		                       .memory_bytes = 1ull << 40,
		                       .gpus = g,
		                       .n_gpus = GPUS,
		                       .usable = 1};

		sched_node_set(s, &n);
	}
	return s;
}

/* Shapes: instances x GPUs x slots, so that a queue of 10,000 has some thousand of them. */
static void add(struct sched *s, uint64_t id, uint32_t largest, const char *owner)
{
	struct sched_group g = {
	    .instances = 1 + rnd(largest), .gpus = 1 + rnd(GPUS), .ranks = 1, .cpus_per_rank = 1 + rnd(8)};
	struct sched_job j = {
	    .id = id, .order = id, .groups = &g, .n_groups = 1, .owner = owner, .limit_s = 3600 * (1 + rnd(4))};

	sched_job_add(s, &j);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void decide(const char *policy, struct sched_policy p, uint32_t nodes, uint32_t queue, uint32_t rounds)
{
	static const char *const owners[4] = {"ann", "bob", "cy", "dee"};
	struct sched *s = cluster(nodes, p);
	double *took = calloc(rounds, sizeof *took), began, ms;
	uint64_t id = 0, *running, n = 0, starts = 0;

	running = calloc((size_t)nodes * GPUS + 1, sizeof *running);
	sched_now(s, 1);
	for (uint32_t i = 0; i < nodes * 4; i++) /* many small jobs hold the nodes */
		add(s, ++id, 1, owners[i % 4]);
	began = now_us();
	for (struct sched_decision *d; (d = sched_step(s)); sched_decision_free(d))
		running[n++] = d->job;
	ms = (now_us() - began) / 1e3;
	printf("{\"bench\": \"starts\", \"policy\": \"%s\", \"nodes\": %u, \"starts\": %llu, \"starts_per_s\": "
	       "%.0f}\n",
	       policy, nodes, (unsigned long long)n, (double)n / ms * 1e3);
	for (uint32_t i = 0; i < queue; i++)
		add(s, ++id, nodes < 64 ? nodes : 64, owners[i % 4]);
	for (uint32_t r = 0; r < rounds && n; r++) {
		uint64_t k = rnd((uint32_t)n);
		struct sched_decision *d;

		sched_now(s, 2 + r);
		sched_job_finished(s, running[k], 1);
		running[k] = running[--n];
		began = now_us();
		d = sched_step(s);
		took[r] = now_us() - began;
		for (; d; d = sched_step(s)) {
			running[n++] = d->job;
			starts++;
			sched_decision_free(d);
		}
	}
	qsort(took, rounds, sizeof *took, by_value);
	printf("{\"bench\": \"decide\", \"policy\": \"%s\", \"nodes\": %u, \"pending\": %u, \"p50_us\": %.0f, "
	       "\"p99_us\": %.0f, "
	       "\"max_us\": %.0f, \"started\": %llu}\n",
	       policy, nodes, queue, took[rounds / 2], took[rounds * 99 / 100], took[rounds - 1],
	       (unsigned long long)starts);
	fflush(stdout);
	free(took);
	free(running);
	sched_destroy(s);
}

static void queue_cost(uint32_t jobs)
{
	struct sched *s = cluster(10, (struct sched_policy){.backfill = SCHED_RESERVE, .learned = 1});
	struct mallinfo2 before = mallinfo2(), after;
	struct sched_group g = {.instances = 2, .gpus = 8};
	double began = now_us(), us;

	for (uint32_t i = 1; i <= jobs; i++) {
		struct sched_job j = {
		    .id = i, .order = i, .groups = &g, .n_groups = 1, .owner = "ann", .name = "sweep"};

		sched_job_add(s, &j);
	}
	us = now_us() - began;
	after = mallinfo2();
	printf("{\"bench\": \"queue\", \"jobs\": %u, \"bytes_per_job\": %.0f, \"add_us\": %.2f}\n", jobs,
	       (double)(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / jobs, us / jobs);
	sched_destroy(s);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		struct sched_policy p;
	} policies[] = {{"block", {.backfill = SCHED_BLOCK}},
	                {"fair+reserve", {.backfill = SCHED_RESERVE, .fair = 1}},
	                {"live", {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000}},
	                {"default", {.backfill = SCHED_RESERVE, .learned = 1}}};
	if (argc == 4) {
		for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
			if (!strcmp(policies[i].name, argv[1]))
				decide(policies[i].name, policies[i].p, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
				       300);
		return 0;
	}
	int quick = argc > 1 && !strcmp(argv[1], "quick");

	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		for (uint32_t nodes = 100; nodes <= (quick ? 1000u : 10000u); nodes *= 10)
			decide(policies[i].name, policies[i].p, nodes, quick ? 1000 : 10000, quick ? 100 : 1000);
		for (uint32_t queue = 1000; !quick && queue <= 1000000; queue *= 10)
			decide(policies[i].name, policies[i].p, 1000, queue, 300);
	}
	for (uint32_t jobs = 1000; jobs <= (quick ? 10000u : 1000000u); jobs *= 10)
		queue_cost(jobs);
	return 0;
}
