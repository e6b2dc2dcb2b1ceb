/* Warm pools in other answers: nodes, the overview, why, dry runs; and which stopped jobs leave one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define JOB                                                                                                  \
	"{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "                 \
	"{\"gpus_per_instance\": 2, \"ranks_per_instance\": 1}, \"retry\": {\"max_attempts\": 0}, "              \
	"\"warm_pool\": {\"keep_alive_s\": "                                                                     \
	"600}%s}"

static char *spec(const char *more)
{
	return xasprintf(JOB, more);
}

static uint64_t submit(struct world *w, const char *more)
{
	cleanup_free char *s = spec(more);

	return world_submit(w, s);
}

static const cJSON *answer(struct world *w, enum request_op op, uint64_t job, const char *key)
{
	world_request(w, op, job, NULL, NULL);
	return cJSON_GetObjectItemCaseSensitive(w->body, key);
}

static const cJSON *node_pools(struct world *w, int node)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(answer(w, REQ_NODES, 0, "nodes"), node),
	                                        "pools");
}

static void dry_run(struct world *w, const char *more)
{
	cleanup_free char *s = spec(more);

	world_submit_full(w, s, "{\"dry_run\": true}", NULL, NULL);
}

/* Returns a world with nodes a and b, and the pool of a job that has run on a. */
static struct world *with_pool(uint64_t seed)
{
	struct world *w = world_create(seed);
	uint64_t id;

	world_agent_up(w, "a", 2, 4);
	world_agent_up(w, "b", 2, 4);
	id = submit(w, "");
	world_begin(w, id);
	world_end_with(w, id, 0);
	is_str(world_status(w, id), "completed", "the job completes");
	return w;
}

static void test_idle(void)
{
	struct world *w = with_pool(91);
	const cJSON *p = cJSON_GetArrayItem(node_pools(w, 0), 0), *top;

	is_int(json_whole(p, "pool", 0), 2, "the node names its pool");
	is_str(json_str_or(p, "owner", ""), "ada", "with its owner");
	is_str(json_str_or(p, "state", ""), "available", "and its state");
	ok(*json_str_or(p, "expires_at", ""), "and when it expires");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(p, "gpus")), 2, "and the GPUs");
	is_int(cJSON_GetArraySize(node_pools(w, 1)), 0, "the other node has none");
	top = answer(w, REQ_TOP, 0, "nodes");
	is_int(json_whole(top, "warm_nodes", 9), 1, "top counts the idle warm node");
	is_int(json_whole(top, "warm_gpus", 9), 2, "and its GPUs");
	dry_run(w, "");
	p = cJSON_GetObjectItemCaseSensitive(w->body, "pool");
	is_int(json_whole(p, "id", 0), 2, "a dry run names the pool");
	like(json_str_or(w->body, "text", ""), "would start now on a in warm pool 2 (level environment)",
	     "in a sentence");
	dry_run(w, ", \"inputs\": {\"train\": {\"uri\": \"file:///data\"}}");
	p = cJSON_GetObjectItemCaseSensitive(w->body, "pool");
	is_str(json_str_or(cJSON_GetObjectItemCaseSensitive(p, "missed"), "field", ""), "inputs.train",
	       "with the first field that differs");
	like(json_str_or(w->body, "text", ""), "(level node: inputs.train differs)", "in a sentence, too");
	dry_run(w, ", \"output_uri\": null, \"queue\": \"default\", \"priority\": 1");
	ok(json_whole(answer(w, REQ_TOP, 0, "nodes"), "warm_nodes", 9) == 1, "a dry run changes no pool");
	world_end_well(w);
}

static void test_used(void)
{
	struct world *w = with_pool(92);
	uint64_t id = submit(w, ""), more;
	const cJSON *p = answer(w, REQ_WHY, id, "pool");

	is_int(json_whole(p, "id", 0), 2, "why names the pool that a job uses");
	like(json_str_or(w->body, "text", ""), "it uses warm pool 2 (level environment)", "in a sentence");
	is_str(json_str_or(cJSON_GetArrayItem(node_pools(w, 0), 0), "state", ""), "in_use", "its node says so");
	is_int(json_whole(answer(w, REQ_TOP, 0, "nodes"), "warm_nodes", 9), 0, "top counts idle nodes only");
	dry_run(w, "");
	ok(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(w->body, "pool")), "a cold start has no pool");
	submit(w, "");
	more = submit(w, "");
	ok(cJSON_IsNull(answer(w, REQ_WHY, more, "pool")), "a job that waits uses none");
	ok(!strstr(json_str_or(w->body, "text", ""), "warm pools of its owner"), "and no pool is idle");
	world_end_well(w);
}

/* A wide job takes a pool on one node, and a cold one. */
static void test_partly_warm(void)
{
	struct world *w = with_pool(95);
	const cJSON *p;
	uint64_t id;

	dry_run(w, ", \"groups\": [{\"name\": \"w\", \"instances\": 2}]");
	like(json_str_or(w->body, "text", ""), "in warm pool 2 (level environment) on a; 1 node is cold",
	     "a dry run says which nodes are warm, and how many are cold");
	p = cJSON_GetObjectItemCaseSensitive(w->body, "pool");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(p, "nodes")), 1,
	       "and has the warm ones as JSON");
	id = submit(w, ", \"groups\": [{\"name\": \"w\", \"instances\": 2}]");
	world_request(w, REQ_WHY, id, NULL, NULL);
	like(json_str_or(w->body, "text", ""), "uses warm pool 2 (level environment) on a; 1 node is cold",
	     "why says the same");
	world_end_well(w);
}

/* Hearth itself ends the ranks of a stopped job by a signal: a node has no part in that. */
static void test_stopped(void)
{
	struct world *w = world_create(93);
	uint64_t id;

	world_agent_up(w, "a", 2, 4);
	id = submit(w, "");
	world_begin(w, id);
	world_request(w, REQ_STOP, id, NULL, NULL);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 15, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "stopped", "a stopped job");
	is_int(json_whole(answer(w, REQ_TOP, 0, "nodes"), "warm_nodes", 9), 1, "leaves a pool");
	world_end_well(w);
}

/* A job that waits although its owner has an idle pool: the pool does not suffice. */
static void test_waiting(void)
{
	struct world *w = with_pool(94);
	uint64_t id;

	world_request(w, REQ_DRAIN, 0, "b", NULL);
	id = submit(w, ", \"groups\": [{\"name\": \"w\", \"instances\": 2}]");
	world_request(w, REQ_WHY, id, NULL, NULL);
	like(json_str_or(w->body, "text", ""), "warm pools of its owner: 2 (1 node)", "why names the idle pool");
	world_end_well(w);
}

int main(void)
{
	test_idle();
	test_used();
	test_stopped();
	test_partly_warm();
	test_waiting();
	return tap_done();
}
