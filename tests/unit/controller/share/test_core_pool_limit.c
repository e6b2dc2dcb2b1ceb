/* What a queue may keep idle in warm pools: the oldest pool above the limit ends. */
#include "tests/unit/controller/share/pool_kit.h"

static const cJSON *queue_named(struct world *w, const char *name)
{
	const cJSON *q;

	world_request(w, REQ_QUEUES, 0, NULL, NULL);
	cJSON_ArrayForEach (q, cJSON_GetObjectItemCaseSensitive(w->body, "queues"))
		if (strcmp(text(q, "name"), name) == 0)
			return q;
	return NULL;
}

static void four_nodes(struct world *w)
{
	for (int i = 0; i < 4; i++)
		world_agent_up(w, (const char *[]){"a", "b", "c", "d"}[i], 1, 4);
}

/* Makes n pools of a node each: their jobs run at the same time and end one after the other. */
static void make_pools(struct world *w, int n, uint64_t jobs[])
{
	for (int i = 0; i < n; i++)
		jobs[i] = submit(w, 600);
	for (int i = 0; i < n; i++) {
		char on[16];

		snprintf(on, sizeof on, "%s", placed_on(w, jobs[i]));
		run_on(w, on, jobs[i]);
		pass(w, 2);
	}
}

static void test_nodes(void)
{
	struct world *w = world_create(60);
	const cJSON *p;
	uint64_t jobs[3];

	four_nodes(w);
	is_int(world_request(w, REQ_QUOTA_SET, 0, "default", "{\"warm_nodes\": 2}"), 200,
	       "a queue gets a limit of warm nodes without a quota of GPUs");
	ok(number(w->body, "quota_warm_nodes") == 2, "the answer has it");
	make_pools(w, 3, jobs);
	is_int(n_pools(w, "available"), 2, "two pools are idle");
	p = pool(w, "terminated", 0);
	ok(number(p, "made_by") == jobs[0], "the oldest one has ended");
	is_str(text(p, "cause"), "limit", "its cause is the limit");
	is_str(text(p, "cause_text"), "queue default keeps at most 2 idle nodes warm (warm_nodes)",
	       "and the text names it");
	ok(number(queue_named(w, "default"), "warm_nodes") == 2, "the queue has two warm nodes");
	world_restart(w);
	ok(number(queue_named(w, "default"), "quota_warm_nodes") == 2, "hearthd restart: the limit stays");
	four_nodes(w);
	is_int(world_request(w, REQ_QUOTA_SET, 0, "default", "{\"warm_nodes\": 1}"), 200, "a smaller limit");
	is_int(n_pools(w, "available"), 1, "ends the next one at once");
	is_int(world_request(w, REQ_QUOTA_RM, 0, "default", NULL), 200, "the limits are removed");
	ok(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(w->body, "quota_warm_nodes")), "none is left");
	make_pools(w, 3, jobs);
	is_int(n_pools(w, "available"), 3, "without a limit all pools stay");
	world_end_well(w);
}

static void test_gpus_of_users(void)
{
	struct world *w = world_create(61);
	uint64_t jobs[2], id;

	four_nodes(w);
	world_request(w, REQ_QUOTA_SET, 0, "default", "{\"gpus\": 4}");
	is_int(world_request(w, REQ_QUOTA_SET, 0, "default", "{\"warm_gpus\": 1}"), 200, "a limit of warm GPUs");
	ok(number(w->body, "quota_gpus") == 4, "leaves the quota");
	make_pools(w, 2, jobs);
	is_int(n_pools(w, "available"), 1, "one pool of a GPU stays");
	id = number(pool(w, "available", 0), "id");
	ok(number(pool(w, "available", 0), "made_by") == jobs[1], "the newest one");
	run_wide(w, submit_wide(w, 2, 600, ""));
	is_int(n_pools(w, "available"), 0, "a pool that is larger than the limit ends");
	is_str(text(pool(w, "terminated", 1), "cause"), "limit", "with that cause");
	ok(number(pool(w, "terminated", 1), "id") == id, "under its number");
	is_int(world_request(w, REQ_QUOTA_SET, 0, "default", "{\"warm_gpus\": 0}"), 400, "0 is refused");
	is_int(world_request(w, REQ_QUOTA_SET, 0, "default", "{\"warm_nodes\": -1}"), 400, "so is less");
	world_end_well(w);
}

/* A pool of another queue does not count, one of a queue below does. */
static void test_below(void)
{
	struct world *w = world_create(62);

	four_nodes(w);
	world_request(w, REQ_QUEUE_SET, 0, "a", "{}");
	world_request(w, REQ_QUEUE_SET, 0, "a/b", "{}");
	world_request(w, REQ_QUOTA_SET, 0, "a", "{\"warm_nodes\": 1}");
	run_on(w, "a", submit(w, 600));
	is_int(n_pools(w, "available"), 1, "a pool of another queue");
	for (int i = 0; i < 2; i++) {
		uint64_t j = submit_wide(w, 2, 600, ", \"queue\": \"a/b\"");

		run_wide(w, j);
	}
	is_int(n_pools(w, "available"), 0, "a wide job of a queue below takes it, and its own pool is too large");
	for (int i = 0; i < 2; i++) {
		uint64_t j = submit_wide(w, 1, 600, ", \"queue\": \"a/b\"");
		char on[16];

		snprintf(on, sizeof on, "%s", placed_on(w, j));
		run_on(w, on, j);
	}
	is_int(n_pools(w, "available"), 1, "a job of one node leaves a pool within the limit");
	world_end_well(w);
}

int main(void)
{
	test_nodes();
	test_gpus_of_users();
	test_below();
	return tap_done();
}
