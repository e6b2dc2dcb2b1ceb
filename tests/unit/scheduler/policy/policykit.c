#include "tests/unit/scheduler/policy/policykit.h"

#include <stdio.h>

void kit_node(struct sched *s, uint64_t id, uint32_t gpus, const char *on, uint32_t doubt, double price)
{
	struct sched_gpu g[16];
	char name[16];
	struct sched_node n = {.id = id,
	                       .name = name,
	                       .slots = 64,
	                       .gpus = g,
	                       .n_gpus = gpus,
	                       .usable = 1,
	                       .doubt = doubt,
	                       .switch_name = on,
	                       .price_per_hour = price};

	snprintf(name, sizeof(name), "n%u", (unsigned)id);
	for (uint32_t i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i, .numa = i / (gpus / 2 ? gpus / 2 : 1)};
	sched_node_set(s, &n);
}

struct sched *kit_cluster(struct sched_policy p, uint32_t nodes, uint32_t gpus)
{
	struct sched *s = sched_create();

	sched_policy_set(s, &p);
	for (uint32_t i = 1; i <= nodes; i++)
		kit_node(s, i, gpus, NULL, 0, 0);
	return s;
}

struct sched_group kit_group;

struct sched_job kit_gang(uint64_t id, uint32_t instances, uint32_t gpus)
{
	kit_group = (struct sched_group){.instances = instances, .gpus = gpus};
	return (struct sched_job){.id = id, .order = id, .groups = &kit_group, .n_groups = 1};
}

void kit_add(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus)
{
	struct sched_job j = kit_gang(id, instances, gpus);

	sched_job_add(s, &j);
}

uint64_t kit_step(struct sched *s, uint64_t *node)
{
	struct sched_decision *d = sched_step(s);
	uint64_t id = d ? d->job : 0;

	if (d && node)
		*node = d->places[0].node;
	sched_decision_free(d);
	sched_job_started(s, id);
	return id;
}

uint64_t kit_rng = 88172645463325252u;
uint32_t kit_rnd(uint32_t n)
{
	kit_rng ^= kit_rng << 13;
	kit_rng ^= kit_rng >> 7;
	kit_rng ^= kit_rng << 17;
	return (uint32_t)(kit_rng >> 11) % n;
}
