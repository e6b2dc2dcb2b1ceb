/* Which pool a job gets: a dry run and the job itself agree, and both compare what the job really uses. */
#include "tests/unit/controller/share/pool_kit.h"

#include <inttypes.h>

static const char one_gpu[] =
    "{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"instances\": "
    "1, "
    "\"gpus_per_instance\": 1}, \"limits\": {\"max_runtime_s\": 600}, \"retry\": {\"max_attempts\": 0}, "
    "\"warm_pool\": {\"keep_alive_s\": 60}%s}";

/* A dry run of a job, then the job itself, which runs to its end. Returns its id. */
static uint64_t ask_and_run(struct world *w, const char *more, const char *what)
{
	cleanup_free char *s = xasprintf(one_gpu, more);
	char node[40], pool[40], level[40];
	const cJSON *p;
	uint64_t id;

	world_submit_full(w, s, "{\"dry_run\": true}", NULL, NULL);
	snprintf(node, sizeof node, "%s",
	         cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "expected_nodes"), 0)));
	p = cJSON_GetObjectItemCaseSensitive(w->body, "pool");
	snprintf(pool, sizeof pool, "%" PRIu64, number(p, "id"));
	snprintf(level, sizeof level, "%s", text(p, "level"));
	id = world_submit(w, s);
	is_str(placed_on(w, id), node, what);
	is_str(of_attempt(w, id, "id"), pool, "the same pool");
	is_str(of_attempt(w, id, "level"), level, "the same level");
	run_on(w, node, id);
	return id;
}

static void test_dry_run(void)
{
	struct world *w = world_create(201);

	for (int i = 0; i < 3; i++)
		world_agent_up(w, (const char *[]){"a", "b", "c"}[i], 2, 4);
	run_on(w, "a", submit(w, 600));
	run_wide(w, submit_wide(w, 3, 600, ""));
	ask_and_run(w, "", "a job gets the node that a dry run named");
	ask_and_run(w, "", "also when that left a second pool");
	ask_and_run(w, ", \"priority\": 1", "and again");
	world_end_well(w);
}

static void left_model(struct world *w, uint64_t id, const char *digest)
{
	struct wm_artifact_report m = {.job = id,
	                               .attempt = 1,
	                               .epoch = 1,
	                               .kind = (char *)(uintptr_t) "model",
	                               .digest = (char *)(uintptr_t)digest,
	                               .uri = (char *)(uintptr_t) "",
	                               .size_bytes = 5,
	                               .text = (char *)(uintptr_t) ""};

	begin(w, "a", id, 0);
	world_msg(w, "a", 0, WM_ARTIFACT_REPORT, &m);
	end_with(w, "a", id, 0, 0);
	clean(w, "a", id);
}

/* An input that is a reference counts as what it refers to. */
static void test_reference(void)
{
	static const char digest[] = "0123456789012345678901234567890123456789012345678901234567890123";
	struct world *w = world_create(202);
	cleanup_free char *more = NULL;
	uint64_t id, plain, wants;
	char word[24];

	world_agent_up(w, "a", 1, 4);
	id = submit(w, 0);
	left_model(w, id, digest);
	is_str(world_status(w, id), "completed", "a job leaves a model");
	more = xasprintf(", \"inputs\": {\"m\": {\"uri\": \"job:%" PRIu64 "/model\"}}", id);
	world_agent_up(w, "b", 1, 4);
	plain = submit(w, 600);
	id = submit_wide(w, 1, 600, more);
	is_str(placed_on(w, id), "b", "a job that reads it runs next to another one");
	run_on(w, "a", plain);
	pass(w, 2);
	run_on(w, "b", id);
	is_int(n_pools(w, "available"), 2, "both leave a pool");
	wants = number(pool(w, "available", 1), "id");
	id = ask_and_run(w, more, "a dry run and a job that read it again agree");
	snprintf(word, sizeof word, "%" PRIu64, wants);
	is_str(of_attempt(w, id, "id"), word, "they prefer the younger pool, which has it");
	is_str(of_attempt(w, id, "level"), "environment", "at level environment");
	world_end_well(w);
}

/* A short job gains nothing from a pool of another environment, and a large one does not fit into it. */
static void test_avoided(void)
{
	struct world *w = world_create(203);
	uint64_t id;

	world_agent_up(w, "a", 2, 4);
	world_agent_up(w, "b", 2, 4);
	run_on(w, "a", submit(w, 600));
	id = world_submit(w, "{\"command\": [\"/bin/true\"], \"launcher\": \"direct\", \"inputs\": {\"d\": "
	                     "{\"uri\": \"file:///d\"}}, \"limits\": {\"max_runtime_s\": 600}}");
	is_str(of_attempt(w, id, "id"), "", "a small job of another environment uses no pool");
	run_on(w, placed_on(w, id), id);
	id = world_submit(w, "{\"command\": [\"/bin/true\"], \"launcher\": \"direct\", \"limits\": "
	                     "{\"max_runtime_s\": 600}}");
	is_str(of_attempt(w, id, "id"), "", "nor one that names no files, as the pool");
	run_on(w, placed_on(w, id), id);
	id = world_submit(w, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                     "{\"gpus_per_instance\": 2, \"ranks_per_instance\": 1}, \"limits\": "
	                     "{\"max_runtime_s\": 600}, \"warm_pool\": {\"keep_alive_s\": 60}}");
	is_str(placed_on(w, id), "b", "so does a job that needs more than the pool has there");
	is_int(n_pools(w, "available"), 1, "the pool stays");
	world_end_well(w);
}

int main(void)
{
	test_avoided();
	test_dry_run();
	test_reference();
	return tap_done();
}
