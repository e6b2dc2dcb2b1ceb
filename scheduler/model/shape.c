/*
 * shape: what a gang asks for, kept once for all jobs that ask for the same.
 */
#include "scheduler/model/job.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"

struct bytes {
	char *p;
	size_t n, cap;
};

static void add_bytes(struct bytes *b, const void *p, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		b->p = mem_resize(b->p, b->cap, 1);
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

/* With its length in front: "a","b" and "ab" must not be one key. */
static void add_str(struct bytes *b, const char *s)
{
	uint32_t n = s ? (uint32_t)strlen(s) + 1 : 0;

	add_bytes(b, &n, sizeof(n));
	if (n)
		add_bytes(b, s, n);
}

static void add_list(struct bytes *b, const char *const *v)
{
	for (; v && *v; v++)
		add_str(b, *v);
	add_str(b, NULL);
}

static void key_make(const struct sched_job *j, struct bytes *b)
{
	uint64_t exclusive = (j->exclusive ? 1 : 0) | (uint64_t)j->span << 1;

	for (uint32_t i = 0; i < j->n_groups; i++) {
		const struct sched_group *g = &j->groups[i];
		uint32_t v[4] = {g->instances, g->gpus, g->ranks, g->cpus_per_rank};

		add_bytes(b, v, sizeof(v));
	}
	add_bytes(b, &j->n_groups, sizeof(j->n_groups));
	add_bytes(b, &j->memory_bytes, sizeof(j->memory_bytes));
	add_bytes(b, &j->disk_bytes, sizeof(j->disk_bytes));
	add_bytes(b, &j->gpu_memory_bytes, sizeof(j->gpu_memory_bytes));
	add_bytes(b, &exclusive, sizeof(exclusive));
	add_bytes(b, &j->limit_s, sizeof(j->limit_s));
	add_bytes(b, &j->believed_s, sizeof(j->believed_s));
	add_bytes(b, &j->pool, sizeof(j->pool));
	add_str(b, j->gpu_model);
	add_list(b, j->instance_types);
	add_list(b, j->requires);
	add_list(b, j->avoid);
}

static char **list_copy(const char *const *v)
{
	size_t n = 0;
	char **out;

	while (v && v[n])
		n++;
	out = mem_alloc(n + 1, sizeof(*out));
	for (size_t i = 0; i < n; i++)
		out[i] = mem_copy(v[i]);
	return out;
}

static void list_free(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
}

/* Follows S-104 and S-107. */
struct shape *shape_get(struct sched *s, const struct sched_job *j)
{
	struct bytes key = {NULL, 0, 0};
	struct shape *sh;

	key_make(j, &key);
	HASH_FIND(hh, s->shapes, key.p, key.n, sh);
	if (sh) {
		free(key.p);
		sh->users++;
		return sh;
	}
	sh = mem_alloc(1, sizeof(*sh));
	sh->key = key.p;
	sh->key_n = key.n;
	sh->n_groups = j->n_groups;
	sh->groups = mem_alloc(j->n_groups ? j->n_groups : 1, sizeof(*sh->groups));
	if (j->n_groups)
		memcpy(sh->groups, j->groups, j->n_groups * sizeof(*sh->groups));
	for (uint32_t i = 0; i < j->n_groups; i++)
		sh->instances += j->groups[i].instances;
	for (uint32_t i = 0; i < j->n_groups; i++)
		sh->gpus += (uint64_t)j->groups[i].instances * j->groups[i].gpus;
	for (uint32_t i = 0; i < j->n_groups && !sh->gpus; i++)
		sh->cpus += (uint64_t)j->groups[i].instances * j->groups[i].ranks * j->groups[i].cpus_per_rank;
	sh->span = j->span;
	sh->pool = j->pool;
	sh->memory = j->memory_bytes;
	sh->disk = j->disk_bytes;
	sh->gpu_memory = j->gpu_memory_bytes;
	sh->exclusive = !!j->exclusive;
	sh->gpu_model = mem_copy(j->gpu_model);
	sh->types = list_copy(j->instance_types);
	sh->requires = list_copy(j->requires);
	sh->avoid = list_copy(j->avoid);
	sh->users = 1;
	HASH_ADD_KEYPTR(hh, s->shapes, sh->key, sh->key_n, sh);
	return sh;
}

void shape_put(struct sched *s, struct shape *sh)
{
	if (--sh->users)
		return;
	HASH_DELETE(hh, s->shapes, sh);
	free(sh->key);
	free(sh->groups);
	free(sh->gpu_model);
	list_free(sh->types);
	list_free(sh->requires);
	list_free(sh->avoid);
	free(sh);
}
