/* The least change of what a node must be (model and memory of its GPUs, labels, disk) with which a job would
 * fit: against trying every value on small random clusters. The other kinds: test_sched_change. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

#define GIB      ((uint64_t)1 << 30)
#define NODES    6
#define CASES    3000
#define PER_KIND 10 /* each kind is to come up so often */

static uint64_t seed = 4711;
static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

struct kind { /* a node */
	char model[8], rack[8];
	uint64_t gpu_memory, disk;
	int ib;
	double price;
};

/* In how many of them does it have a place? Each has two GPUs. */
static uint32_t suited(const struct kind *v, uint32_t n, const struct sched_job *j)
{
	uint32_t c = 0;

	for (uint32_t i = 0; i < n; i++) {
		int ok =
		    j->groups[0].gpus <= 2 && v[i].disk >= j->disk_bytes && v[i].gpu_memory >= j->gpu_memory_bytes;

		ok = ok && (!j->gpu_model || strcmp(j->gpu_model, v[i].model) == 0);
		for (const char *const *r = j->requires; r && *r; r++)
			ok = ok && (strcmp(*r, v[i].rack) == 0 || (v[i].ib && strcmp(*r, "ib") == 0));
		c += (uint32_t)ok;
	}
	return c;
}

static int would(const struct kind *v, uint32_t n, const struct sched_job *j)
{
	return suited(v, n, j) >= j->groups[0].instances;
}

/* One of the required: each rack that there is, else without it. */
static struct sched_change label_by_trial(const struct kind *v, uint32_t n, const struct sched_job *asked)
{
	const char *list[4] = {NULL};
	struct sched_job j = *asked;

	j.requires = list;
	for (uint32_t k = 0; asked->requires[k]; k++)
		for (uint32_t i = 0; i < n && strncmp(asked->requires[k], "rack=", 5) == 0; i++) {
			for (uint32_t x = 0; asked->requires[x]; x++)
			list[x] = x == k ? v[i].rack : asked->requires[x];
			if (would(v, n, &j))
				return (struct sched_change){SCHED_CHANGE_LABEL, k, v[i].rack};
		}
	for (uint32_t k = 0; asked->requires[k]; k++) {
		uint32_t m = 0;

		for (uint32_t x = 0; asked->requires[x]; x++)
			if (x != k)
		list[m++] = asked->requires[x];
		list[m] = NULL;
		if (would(v, n, &j))
			return (struct sched_change){SCHED_CHANGE_LABEL, k, NULL};
	}
	return (struct sched_change){0};
}

static struct sched_change kind_by_trial(const struct kind *v, uint32_t n, const struct sched_job *asked)
{
	struct sched_change c = {0};
	struct sched_group g = asked->groups[0];
	struct sched_job j = *asked;
	double price = 1e9;

	j.groups = &g;
	for (uint32_t i = 0; asked->gpu_model && i < n; i++) {
		j.gpu_model = v[i].model;
		if (would(v, n, &j) && v[i].price < price) {
			c = (struct sched_change){SCHED_CHANGE_MODEL, 0, v[i].model};
			price = v[i].price;
		}
	}
	if (!c.kind)
		c = label_by_trial(v, n, asked);
	/* There are whole GiB only. */
	j = *asked;
	while (!c.kind && j.gpu_memory_bytes && (j.gpu_memory_bytes = (j.gpu_memory_bytes - 1) / GIB * GIB) > 0)
		if (would(v, n, &j))
			c = (struct sched_change){SCHED_CHANGE_GPU_MEMORY, j.gpu_memory_bytes, NULL};
	j = *asked;
	while (!c.kind && j.disk_bytes && (j.disk_bytes = (j.disk_bytes - 1) / GIB * GIB) > 0)
		if (would(v, n, &j))
			c = (struct sched_change){SCHED_CHANGE_DISK, j.disk_bytes, NULL};
	j = *asked;
	j.groups = &g;
	while (!c.kind && --g.gpus)
		if (would(v, n, &j))
			c = (struct sched_change){SCHED_CHANGE_GPUS, g.gpus, NULL};
	g = asked->groups[0];
	while (!c.kind && --g.instances)
		if (would(v, n, &j))
			c = (struct sched_change){SCHED_CHANGE_INSTANCES, g.instances, NULL};
	return c;
}

static void kinds_make(struct sched *s, struct kind *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *labels[] = {v[i].rack, "ib", NULL};
		struct sched_gpu gpus[2];
		char name[8];
		struct sched_node x = {.id = i + 1,
		                       .name = name,
		                       .slots = 8,
		                       .memory_bytes = GIB,
		                       .labels = labels,
		                       .gpus = gpus,
		                       .n_gpus = 2,
		                       .usable = 1};

		snprintf(name, sizeof(name), "n%u", i);
		snprintf(v[i].model, sizeof(v[i].model), "m%u", rnd(3));
		snprintf(v[i].rack, sizeof(v[i].rack), "rack=%u", rnd(3));
		v[i].gpu_memory = rnd(4) * GIB;
		v[i].disk = rnd(4) * GIB;
		v[i].ib = (int)rnd(2);
		v[i].price = 1 + v[i].model[1]; /* a model has one here */
		labels[1] = v[i].ib ? labels[1] : NULL;
		x.disk_bytes = v[i].disk;
		x.price_per_hour = v[i].price;
		for (uint32_t k = 0; k < 2; k++)
			gpus[k] = (struct sched_gpu){.index = k, .model = v[i].model, .memory_bytes = v[i].gpu_memory};
		sched_node_set(s, &x);
	}
}

static void test_asked(void)
{
	static const char *const lists[][3] = {{NULL},           {"rack=0"},       {"rack=9"}, {"ib"},
	                                       {"ib", "rack=9"}, {"rack=1", "ib"}, {"nvlink"}};
	unsigned seen[SCHED_CHANGE_INSTANCES + 1] = {0}, wrong = 0;

	for (unsigned i = 0; i < CASES; i++) {
		struct kind v[NODES];
		uint32_t n = 1 + rnd(NODES);
		struct sched *s = sched_create();
		char model[8];
		struct sched_group g = {1 + rnd(3), 1 + rnd(3), 1, 1};
		struct sched_job j = {.id = 999, .groups = &g, .n_groups = 1, .requires = lists[rnd(7)]};
		struct sched_change got, want;

		snprintf(model, sizeof(model), "m%u", rnd(4));
		j.gpu_model = rnd(2) ? model : NULL;
		j.gpu_memory_bytes = rnd(2) ? rnd(6) * GIB + rnd(2) : 0;
		j.disk_bytes = rnd(2) ? rnd(6) * GIB + rnd(2) : 0;
		kinds_make(s, v, n);
		want = would(v, n, &j) ? (struct sched_change){0} : kind_by_trial(v, n, &j);
		sched_change(s, &j, NULL, (int)rnd(2), &got);
		seen[want.kind]++;
		if (got.kind != want.kind || got.value != want.value ||
		    strcmp(want.name ?: "-", got.name ?: "-") != 0) {
			tap_diag("case %u: kind %d value %" PRIu64 " name %s, by trial %d %" PRIu64 " %s", i, got.kind,
			         got.value, got.name ?: "-", want.kind, want.value, want.name ?: "-");
			wrong++;
		}
		if (sched_check(s))
			tap_bail("%s", sched_check(s));
		sched_destroy(s);
	}
	is_int(wrong, 0, "model, labels, memory of GPUs and disk: the same as by trying every value");
	for (int k = SCHED_CHANGE_TYPE; k <= SCHED_CHANGE_INSTANCES; k++)
		if (k == SCHED_CHANGE_MODEL || k == SCHED_CHANGE_LABEL || k == SCHED_CHANGE_GPU_MEMORY ||
		    k == SCHED_CHANGE_DISK)
			ok(seen[k] >= PER_KIND, "kind %d came up %u times", k, seen[k]);
}

/* Of the models the one that is meant, before a cheaper one. */
static void test_meant(void)
{
	static const char *const models[] = {"NVIDIA A100", "NVIDIA H100 80GB HBM3"};
	struct sched *s = sched_create();
	struct sched_group g = {1, 1, 1, 1};
	struct sched_job j = {.id = 9, .groups = &g, .n_groups = 1, .gpu_model = "h100"};
	struct sched_change c;

	for (uint32_t i = 0; i < 2; i++) {
		struct sched_gpu gpu = {.model = models[i]};
		struct sched_node x = {.id = i + 1,
		                       .name = "n",
		                       .slots = 8,
		                       .gpus = &gpu,
		                       .n_gpus = 1,
		                       .usable = 1,
		                       .price_per_hour = i};

		sched_node_set(s, &x);
	}
	sched_change(s, &j, NULL, 1, &c);
	is_int(c.kind, SCHED_CHANGE_MODEL, "another model");
	is_str(c.name, models[1], "the one whose name has in it what was asked, though it is dearer");
	j.gpu_model = "V100";
	sched_change(s, &j, NULL, 1, &c);
	is_str(c.name, models[0], "else the cheapest");
	sched_destroy(s);
}

int main(void)
{
	test_asked();
	test_meant();
	return tap_done();
}
