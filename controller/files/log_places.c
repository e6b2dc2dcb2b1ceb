/*
 * log_places: a cache of attempts' nodes. A gang of thousands of nodes asks once for each of its streams, so
 * the nodes of the attempts asked about last are stored here, sorted.
 */
#include "controller/files/log_places.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/read/query.h"

#define KEPT 64

struct attempt_nodes {
	uint64_t job; /* 0 none */
	uint32_t attempt;
	struct strv nodes; /* sorted */
};

struct log_places {
	struct attempt_nodes kept[KEPT];
	unsigned next; /* the oldest */
};

struct log_places *log_places_create(void)
{
	return xcalloc(1, sizeof(struct log_places));
}

void log_places_destroy(struct log_places *p)
{
	for (unsigned i = 0; p && i < KEPT; i++)
		strv_fini(&p->kept[i].nodes);
	free(p);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct attempt_nodes *remember_nodes(struct log_places *p, uint64_t job, uint32_t attempt,
                                            const cJSON *places)
{
	struct attempt_nodes *k = &p->kept[p->next++ % KEPT];
	const cJSON *o;

	strv_fini(&k->nodes);
	k->job = job;
	k->attempt = attempt;
	cJSON_ArrayForEach (o, places)
		strv_add(&k->nodes, json_str_or(o, "node", ""));
	if (k->nodes.n)
		qsort(k->nodes.v, k->nodes.n, sizeof(*k->nodes.v), by_name);
	return k;
}

int log_places_has(struct log_places *p, struct store_reader *r, uint64_t job, uint32_t attempt,
                   const char *node)
{
	const struct attempt_nodes *k = NULL;

	for (unsigned i = 0; i < KEPT && !k; i++)
		if (p->kept[i].job == job && p->kept[i].attempt == attempt)
			k = &p->kept[i];
	if (!k) {
		struct err e = {0};
		cJSON *places = store_placement_json(r, job, attempt, &e);

		/* Not remembered: its row may be on its way to a backup that is put back. */
		if (!places)
			return e.code == ERR_NOT_FOUND ? 0 : -1;
		k = remember_nodes(p, job, attempt, places);
		cJSON_Delete(places);
	}
	return k->nodes.n && bsearch(&node, k->nodes.v, k->nodes.n, sizeof(*k->nodes.v), by_name) != NULL;
}
