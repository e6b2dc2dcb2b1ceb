/* For tests of warm pools: jobs that leave some, and what hearthd says of pools. */
#ifndef HEARTH_TESTS_POOL_KIT_H
#define HEARTH_TESTS_POOL_KIT_H

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/share/pools.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define SECOND 1000000ull

static inline uint64_t submit_wide(struct world *w, unsigned nodes, unsigned keep_s, const char *more)
{
	char spec[600];

	snprintf(spec, sizeof spec,
	         "{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	         "{\"instances\": "
	         "%u, \"gpus_per_instance\": 1}, \"limits\": {\"max_runtime_s\": 600}, \"retry\": "
	         "{\"max_attempts\": 0}, "
	         "\"warm_pool\": {\"keep_alive_s\": %u}%s}",
	         nodes, keep_s, more);
	return world_submit(w, spec);
}

/* The same by another user. */
static inline uint64_t submit_as(struct world *w, const char *user, const char *spec)
{
	struct request *rq = world_rq(w, REQ_SUBMIT, 0);
	const cJSON *id;
	struct err e;

	free(rq->user);
	rq->user = xstrdup(user);
	rq->text = xstrdup(spec);
	rq->spec = spec_parse(spec, strlen(spec), &e);
	rq->body = cJSON_CreateObject();
	core_request(w->core, rq);
	world_turn(w);
	id = cJSON_GetObjectItemCaseSensitive(w->body, "id");
	return cJSON_IsNumber(id) ? (uint64_t)id->valuedouble : 0;
}

#define SHORT                                                                                                \
	"{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"gpus_per_instance\": 1}, "      \
	"\"limits\": {\"max_runtime_s\": 600}}"

static inline uint64_t submit(struct world *w, unsigned keep_s)
{
	return submit_wide(w, 1, keep_s, "");
}

static inline void begin(struct world *w, const char *on, uint64_t id, uint32_t rank)
{
	world_launch(w, on, id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, on, id, 1, rank, PS_RUNNING, 0, 0, NULL);
}

static inline void end_with(struct world *w, const char *on, uint64_t id, uint32_t rank, uint32_t code)
{
	world_rank(w, on, id, 1, rank, PS_EXITED, code, 0, code ? "Traceback\n" : NULL);
	world_launch(w, on, id, 1, LAUNCH_ENDED, 0, NULL);
}

static inline void clean(struct world *w, const char *on, uint64_t id)
{
	world_launch(w, on, id, 1, LAUNCH_CLEANED, 0, NULL);
}

/* A job of one node runs to its end. */
static inline void run_on(struct world *w, const char *on, uint64_t id)
{
	begin(w, on, id, 0);
	end_with(w, on, id, 0, 0);
	clean(w, on, id);
}

static inline void pass(struct world *w, unsigned seconds)
{
	while (seconds--) {
		for (const struct cnode *n = node_first(w->core); n; n = node_next(n))
			if (n->connected)
				world_beat(w, n->name);
		world_advance(w, SECOND);
	}
}

/* The n-th pool of the list; NULL none. */
static inline const cJSON *pool(struct world *w, const char *state, int n)
{
	char body[60];

	snprintf(body, sizeof body, "{\"state\": \"%s\"}", state);
	world_request(w, REQ_POOLS, 0, NULL, body);
	return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "pools"), n);
}

static inline const char *text(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	return s ? s : "";
}

static inline uint64_t number(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) ? (uint64_t)v->valuedouble : 0;
}

/* "a,b": the nodes of the pool; static. */
static inline const char *nodes_of(const cJSON *p)
{
	static char all[200];
	const cJSON *n;

	all[0] = '\0';
	cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(p, "nodes"))
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? "," : "", text(n, "node"));
	return all;
}

/* A member of attempts[0].pool of the job, as the API shows it; numbers as text. */
static inline const char *of_attempt(struct world *w, uint64_t id, const char *key)
{
	static char out[80];
	cJSON *list = store_attempts_json(w->reader, id, NULL);
	const cJSON *p = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, 0), "pool"),
	            *v = cJSON_GetObjectItemCaseSensitive(p, key);

	out[0] = '\0';
	if (cJSON_IsNumber(v))
		snprintf(out, sizeof out, "%.0f", v->valuedouble);
	else if (cJSON_GetStringValue(v))
		snprintf(out, sizeof out, "%s", cJSON_GetStringValue(v));
	cJSON_Delete(list);
	return out;
}

static inline const char *placed_on(struct world *w, uint64_t id)
{
	const struct cjob *j = job_find(w->core, id);

	return j && j->r.att ? j->r.att->places[0].node : "";
}

/* Two ranks, one on each node, in the order of the attempt's places. */
static inline void run_wide(struct world *w, uint64_t id)
{
	const struct attempt_rec *a = job_find(w->core, id)->r.att;
	char nodes[4][16];
	uint32_t n = a->n_places;

	for (uint32_t i = 0; i < n; i++)
		snprintf(nodes[i], sizeof nodes[i], "%s", a->places[i].node);
	for (uint32_t i = 0; i < n; i++)
		world_launch(w, nodes[i], id, 1, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < n; i++)
		world_rank(w, nodes[i], id, 1, i, PS_RUNNING, 0, 0, NULL);
	for (uint32_t i = 0; i < n; i++)
		end_with(w, nodes[i], id, i, 0);
	for (uint32_t i = 0; i < n; i++)
		clean(w, nodes[i], id);
}

static inline int n_pools(struct world *w, const char *state)
{
	pool(w, state, 0);
	return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(w->body, "pools"));
}

#endif
