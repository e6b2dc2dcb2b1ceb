/* Placement: one case after the other, with the decision and the sentence that a user would read. */
#include "tests/lib/golden.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

#define GIB ((uint64_t)1 << 30)

static void node(struct sched *s, uint64_t id, const char *name, uint32_t gpus, uint32_t slots, int usable)
{
	struct sched_gpu g[16];
	struct sched_node n = {.id = id,
	                       .name = name,
	                       .instance_type = "box",
	                       .slots = slots,
	                       .memory_bytes = 64 * GIB,
	                       .disk_bytes = 100 * GIB,
	                       .gpus = g,
	                       .n_gpus = gpus,
	                       .usable = usable};

	for (uint32_t i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i, .model = "A100", .memory_bytes = 80 * GIB};
	sched_node_set(s, &n);
}

static void job(struct sched *s, uint64_t id, int64_t prio, uint32_t instances, uint32_t gpus, uint32_t cpus)
{
	struct sched_group g = {instances, gpus, 1, cpus};
	struct sched_job j = {.id = id, .priority = prio, .order = id, .groups = &g, .n_groups = 1};

	sched_job_add(s, &j);
}

static uint64_t step(struct sched *s)
{
	struct sched_decision *d = sched_step(s);
	uint64_t id = d ? d->job : 0;

	sched_decision_free(d);
	return id;
}

static void test_order(void)
{
	struct sched *s = sched_create();
	struct sched_reason r;

	job(s, 1, 0, 1, 1, 1);
	is_int(step(s), 0, "nothing starts without nodes");
	sched_explain(s, 1, &r);
	is_int(r.why, SCHED_NO_NODES, "no nodes: said so");
	golden("scheduler/sched-no-node-has-joined-yet", r.text);
	node(s, 1, "a", 1, 4, 1);
	node(s, 2, "b", 1, 4, 1);
	job(s, 2, 0, 1, 1, 1);
	job(s, 3, 5, 2, 1, 1);
	is_int(step(s), 3, "priority first");
	is_int(step(s), 0, "both GPUs are taken");
	sched_explain(s, 1, &r);
	is_int(r.why, SCHED_BUSY, "the first one waits for GPUs");
	golden("scheduler/sched-needs-instance-with-gpu-and-cpu-slot", r.text, "1 instance", "1 CPU", "0 free",
	       "1 GPUs");
	sched_explain(s, 2, &r);
	is_int(r.ahead, 1, "one is ahead of the second");
	sched_job_release_place(s, 3, 2);
	is_int(step(s), 1, "a place given back is used, first come first");
	sched_job_remove(s, 3);
	is_int(step(s), 2, "then the next");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_blocked(void)
{
	struct sched *s = sched_create();
	struct sched_reason r;

	node(s, 1, "a", 2, 4, 1);
	node(s, 2, "b", 2, 4, 1);
	job(s, 1, 0, 1, 2, 1);
	is_int(step(s), 1, "one runs on a");
	job(s, 2, 0, 2, 2, 1);
	job(s, 3, 0, 1, 1, 1);
	is_int(step(s), 0, "the head needs both nodes and holds back the small one");
	sched_explain(s, 3, &r);
	is_int(r.why, SCHED_BEHIND, "which is told");
	is_int(r.behind, 2, "with the job ahead");
	like(r.text, "job 2 (priority 0) is ahead", "in words");
	job(s, 4, 9, 1, 2, 1);
	is_int(step(s), 4, "a job of higher priority may pass");
	sched_job_remove(s, 4);
	sched_job_remove(s, 2);
	is_int(step(s), 3, "without the head the small one starts");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_hopeless(void)
{
	struct sched *s = sched_create();
	struct sched_reason r;

	node(s, 1, "a", 2, 4, 1);
	node(s, 2, "b", 2, 4, 0);
	job(s, 1, 0, 2, 1, 1);
	job(s, 2, 0, 1, 1, 1);
	is_int(step(s), 2, "a job that waits for nodes holds nobody back");
	sched_explain(s, 1, &r);
	is_int(r.why, SCHED_IMPOSSIBLE, "it cannot start on the nodes that are up");
	golden("scheduler/sched-only-usable-node-is-there", r.text, "2", "1");
	node(s, 2, "b", 2, 4, 1);
	is_int(step(s), 1, "it starts when the node is back");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_possible(void)
{
	struct sched *s = sched_create();
	struct sched_reason r;
	struct sched_group g = {2, 4, 4, 1};
	const char *const types[] = {"dgx", NULL}, *const labels[] = {"nvlink", NULL},
	                  *const avoid[] = {"a", NULL};
	struct sched_job j = {.id = 9, .groups = &g, .n_groups = 1};

	ok(!sched_possible(s, &j, &r), "nothing is possible on no nodes");
	is_int(r.why, SCHED_NO_NODES, "why");
	node(s, 1, "a", 2, 8, 1);
	node(s, 2, "b", 4, 8, 0);
	ok(!sched_possible(s, &j, &r), "only one node has four GPUs");
	is_int(r.possible_instances, 1, "one instance would fit");
	golden("scheduler/sched-only-known-node-with-such-gpus-the", r.text, "2", "4", "1");
	g.gpus = 2;
	ok(sched_possible(s, &j, &r), "two GPUs each: possible");
	ok(!sched_placeable(s, &j, &r), "but not on the nodes that are up");
	g.cpus_per_rank = 4;
	ok(!sched_possible(s, &j, &r), "too many slots");
	golden("scheduler/sched-needs-instances-with-gpus-and-cpu-slots", r.text, "ranks_per_instance",
	       "cpus_per_rank", "2 instances", "2 GPUs", "16");
	g.cpus_per_rank = 9;
	ok(!sched_possible(s, &j, &r), "not even one rank");
	like(r.text, ". cpus_per_rank can be 8 at most", "says so");
	g.cpus_per_rank = 1;
	j.instance_types = types;
	ok(!sched_possible(s, &j, &r), "unknown type");
	golden("scheduler/sched-no-known-node-of-type-dgx-there", r.text, "2", "4");
	j.instance_types = NULL;
	j.requires = labels;
	ok(!sched_possible(s, &j, &r), "unknown label");
	golden("scheduler/sched-no-known-node-with-what-is-required", r.text, "2", "4");
	j.requires = NULL;
	j.gpu_model = "H100";
	ok(!sched_possible(s, &j, &r), "unknown model");
	golden("scheduler/sched-no-known-node-with-a-gpu-h", r.text, "2", "100", "4");
	j.gpu_model = NULL;
	j.gpu_memory_bytes = 90 * GIB;
	ok(!sched_possible(s, &j, &r), "too much GPU memory");
	golden("scheduler/sched-no-known-node-with-a-gpu-of", r.text, "90.0 GiB", "80.0 GiB");
	j.gpu_memory_bytes = 0;
	j.memory_bytes = 65 * GIB;
	ok(!sched_possible(s, &j, &r), "too much memory");
	golden("scheduler/sched-no-known-node-with-gib-memory-the", r.text, "65.0 GiB", "64.0 GiB");
	j.memory_bytes = 0;
	j.avoid = avoid;
	ok(!sched_possible(s, &j, &r), "one node is to be avoided");
	golden("scheduler/sched-only-known-node-that-did-not-fail", r.text, "2", "4", "1");
	sched_destroy(s);
}

static void test_groups(void)
{
	struct sched *s = sched_create();
	struct sched_group g[2] = {{1, 0, 1, 1}, {1, 2, 1, 1}};
	struct sched_job j = {.id = 1, .groups = g, .n_groups = 2};
	struct sched_decision *d;

	node(s, 1, "a", 2, 4, 1);
	node(s, 2, "b", 0, 4, 1);
	sched_job_add(s, &j);
	d = sched_step(s);
	ok(d && d->n == 2, "unequal groups are placed although first fit alone would give the GPU node away");
	if (d) {
		is_int(d->places[0].group, 0, "node ranks in the order of the groups");
		is_int(d->places[0].node, 2, "the group without GPUs is moved to the other node");
		is_int(d->places[1].node, 1, "the GPU group has its GPUs");
		is_int(d->places[1].n_gpus, 2, "both");
	}
	sched_decision_free(d);
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_types(void)
{
	struct sched *s = sched_create();
	const char *const types[] = {"fast", "slow", NULL};
	struct sched_group g = {2, 0, 1, 1};
	struct sched_job j = {.id = 1, .groups = &g, .n_groups = 1, .instance_types = types};
	struct sched_node n = {.slots = 4, .usable = 1, .memory_bytes = GIB, .disk_bytes = GIB};
	struct sched_decision *d;
	static const char *const kinds[] = {"fast", "slow", "slow", "fast"};

	for (unsigned i = 0; i < 3; i++) {
		n.id = i + 1;
		n.name = "n";
		n.instance_type = kinds[i];
		sched_node_set(s, &n);
	}
	sched_job_add(s, &j);
	d = sched_step(s);
	ok(d && d->places[0].node == 2 && d->places[1].node == 3,
	   "a gang is of one type: the second choice, whole, before a mixture");
	sched_decision_free(d);
	sched_job_remove(s, 1);
	n.id = 4;
	n.instance_type = kinds[3];
	sched_node_set(s, &n);
	sched_job_add(s, &j);
	d = sched_step(s);
	ok(d && d->places[0].node == 1 && d->places[1].node == 4, "the first choice when it is there");
	sched_decision_free(d);
	sched_destroy(s);
}

static void test_exclusive(void)
{
	struct sched *s = sched_create();
	struct sched_group g = {1, 0, 1, 1};
	struct sched_job j = {.id = 1, .groups = &g, .n_groups = 1, .exclusive = 1};
	struct sched_reason r;

	node(s, 1, "a", 0, 4, 1);
	sched_job_add(s, &j);
	is_int(step(s), 1, "alone on a");
	job(s, 2, 0, 1, 0, 1);
	is_int(step(s), 0, "nobody else comes in");
	sched_explain(s, 2, &r);
	golden("scheduler/sched-a-held-by-job-for-itself-alone", r.text, "job 1");
	sched_job_remove(s, 1);
	is_int(step(s), 2, "when it is gone");
	j.id = 3;
	sched_job_add(s, &j);
	is_int(step(s), 0, "and it does not come in where others are");
	sched_explain(s, 3, &r);
	like(r.text, "a: 1 job there", "and why");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* What is named in the place of something that no node has. */
static void test_others(void)
{
	static const char *const bare[] = {NULL},
	                         *const racks[][4] = {{"rack=1", "ib", NULL},
	                                              {"rack=2", "rack=1", "nvlink", NULL}},
	                         *wants[] = {"rack=9", NULL}, *feature[] = {"nvlnik", NULL},
	                         *both[] = {"ib", "rack=9", NULL}, *apart[] = {"ib", "nvlink", NULL};
	struct sched_group g = {1, 1, 1, 1};
	struct sched_job j = {.id = 9, .groups = &g, .n_groups = 1, .requires = wants};
	struct sched_gpu gpu = {.model = "A"};
	struct sched_node n = {.slots = 8, .usable = 1, .gpus = &gpu, .n_gpus = 1};
	struct sched *s = sched_create();
	struct sched_reason r;
	char model[8], name[8];

	for (unsigned i = 0; i < 7; i++) {
		n.id = i + 1;
		n.name = name;
		n.labels = i < 2 ? racks[i] : bare;
		gpu.model = model;
		gpu.memory_bytes = i * GIB;
		snprintf(name, sizeof(name), "n%u", i);
		snprintf(model, sizeof(model), "M%u", i % 6);
		n.n_gpus = i < 6;
		sched_node_set(s, &n);
	}
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-what-is-required-2", r.text, "1", "9", "2");
	j.requires = feature;
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-what-is-required-3", r.text, "1");
	j.requires = both;
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-what-is-required-4", r.text, "1", "9", "2");
	j.requires = apart;
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-what-is-required-5", r.text, "1");
	j.requires = NULL;
	j.gpu_model = "H100";
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-a-gpu-h-2", r.text, "1", "100");
	j.gpu_model = "M2";
	j.gpu_memory_bytes = 3 * GIB;
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-a-gpu-of-2", r.text, "3.0 GiB", "2.0 GiB");
	sched_destroy(s);
	s = sched_create();
	n.id = 1;
	n.n_gpus = 0;
	sched_node_set(s, &n);
	sched_possible(s, &j, &r);
	golden("scheduler/sched-no-known-node-with-a-gpu-m", r.text, "1");
	sched_destroy(s);
}

static void test_links(void)
{
	struct sched *s = sched_create();
	struct sched_gpu g[6];
	struct sched_node n = {.id = 1, .name = "a", .slots = 8, .usable = 1, .gpus = g, .n_gpus = 6};
	struct sched_decision *d;

	for (uint32_t i = 0; i < 6; i++)
		g[i] = (struct sched_gpu){.index = i, .model = "A100", .link_group = i == 1 || i == 4 ? 2 : 1};
	sched_node_set(s, &n);
	job(s, 1, 0, 1, 2, 1);
	d = sched_step(s);
	ok(d && d->places[0].gpus[0] == 1 && d->places[0].gpus[1] == 4,
	   "two GPUs that are linked, from the smallest group that has them");
	sched_decision_free(d);
	sched_destroy(s);
}

/* Checks S-148. */
static void test_holds(void)
{
	struct sched *s = sched_create();
	uint32_t gpus[] = {0, 7}, cpus[] = {3};
	struct sched_place p = {.node = 5, .n_gpus = 2, .gpus = gpus, .n_cpus = 1, .cpus = cpus};
	struct sched_decision d = {.job = 8, .n = 1, .places = &p};
	uint32_t free_gpus, free_slots;
	uint64_t memory;

	sched_job_holds(s, 8, &d, GIB, 0, 0);
	ok(!sched_check(s), "held on a node that is not known yet");
	is_int(sched_node_free(s, 5, &free_gpus, &free_slots, &memory), -1, "which is not shown");
	node(s, 5, "e", 2, 4, 1);
	is_int(sched_node_free(s, 5, &free_gpus, &free_slots, &memory), 0, "known now");
	is_int(free_gpus, 1, "one of two GPUs is held; the third is gone from the machine");
	is_int(free_slots, 3, "one slot too");
	ok(memory == 63 * GIB, "memory too");
	sched_node_remove(s, 5);
	ok(!sched_check(s), "the node is removed while held");
	node(s, 5, "e", 2, 4, 1);
	sched_job_remove(s, 8);
	sched_node_free(s, 5, &free_gpus, &free_slots, &memory);
	is_int(free_gpus, 2, "all is free at the end");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

int main(void)
{
	test_order();
	test_blocked();
	test_hopeless();
	test_possible();
	test_groups();
	test_types();
	test_exclusive();
	test_others();
	test_links();
	test_holds();
	return tap_done();
}
