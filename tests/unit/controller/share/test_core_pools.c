/* Warm pools: a job leaves one, the next job of its owner takes it and gives it back, and it ends; over
 * restarts of the controller. */
#include "tests/unit/controller/share/pool_kit.h"

static void test_life(void)
{
	struct world *w = world_create(71);
	uint64_t id, a, b;
	char wants[24];

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	a = submit(w, 60);
	run_on(w, placed_on(w, a), a);
	is_str(world_status(w, a), "completed", "the first job completes");
	id = number(pool(w, "available", 0), "id");
	ok(id > a, "it leaves a pool with a number of its own");
	is_str(nodes_of(pool(w, "available", 0)), "a", "on its node");
	ok(number(pool(w, "available", 0), "made_by") == a, "the pool names the job");
	pass(w, 30);
	b = submit(w, 20);
	is_str(placed_on(w, b), "a", "the next job of the owner is placed there");
	snprintf(wants, sizeof wants, "%llu", (unsigned long long)id);
	is_str(of_attempt(w, b, "id"), wants, "its attempt names the pool");
	is_str(of_attempt(w, b, "level"), "environment", "and the level");
	is_str(text(pool(w, "in_use", 0), "state"), "in_use", "the pool is in use");
	ok(number(pool(w, "in_use", 0), "used_by") == b, "by that job");
	pass(w, 40);
	is_str(text(pool(w, "in_use", 0), "state"), "in_use", "a pool in use does not expire");
	run_on(w, "a", b);
	ok(number(pool(w, "available", 0), "id") == id, "the job gives the pool back under its number");
	pass(w, 19);
	ok(pool(w, "available", 0) != NULL, "it waits for the time of the second job");
	pass(w, 1);
	ok(pool(w, "available", 0) == NULL, "and expires within a second");
	is_str(text(pool(w, "terminated", 0), "cause"), "expired", "with its cause");
	pass(w, 3601);
	ok(pool(w, "all", 0) == NULL, "an ended pool is listed for an hour");
	world_end_well(w);
}

static void test_restart(void)
{
	struct world *w = world_create(72);
	uint64_t a, b, id;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	run_on(w, "a", a);
	id = number(pool(w, "available", 0), "id");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	ok(number(pool(w, "available", 0), "id") == id, "a restart of hearthd keeps the pool");
	b = submit(w, 60);
	ok(number(pool(w, "in_use", 0), "used_by") == b, "a job takes it afterwards");
	world_restart(w);
	world_agent_connect(w, "a");
	ok(number(pool(w, "in_use", 0), "used_by") == b, "a pool in use survives a restart, too");
	world_end_well(w);
}

static void test_restart_in_use(void)
{
	struct world *w = world_create(73);
	struct wm_sync_begin sync = {.instance = 1, .launches = 1};
	uint64_t a, b, id, s;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	run_on(w, "a", a);
	id = number(pool(w, "available", 0), "id");
	b = submit(w, 60);
	begin(w, "a", b, 0);
	world_restart(w);
	s = world_agent_connect(w, "a");
	world_agent_inventory(w, "a", s, 1, 4);
	world_msg(w, "a", s, WM_SYNC_BEGIN, &sync);
	world_launch(w, "a", b, 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &(struct wm_sync_end){.instance = 1});
	end_with(w, "a", b, 0, 0);
	clean(w, "a", b);
	is_str(world_status(w, b), "completed", "the job that uses the pool ends after a restart of hearthd");
	ok(number(pool(w, "available", 0), "id") == id, "and gives it back");
	pass(w, 61);
	ok(pool(w, "available", 0) == NULL, "until it expires");
	world_end_well(w);
}

static void test_agents(void)
{
	struct world *w = world_create(74);
	struct wm_prepare *prepare;
	struct wm_pools *pools;
	struct sent *s;
	uint64_t a, b, id;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	s = world_sent(w, "a", WM_PREPARE);
	prepare = s->msg;
	ok(prepare->pool == 0 && prepare->pool_keep == 1, "PREPARE says that the job will leave a pool");
	sent_free(s);
	world_forget(w);
	run_on(w, "a", a);
	id = number(pool(w, "available", 0), "id");
	s = world_sent(w, "a", WM_POOLS);
	pools = s ? s->msg : NULL;
	ok(pools && pools->pools.n == 1 && pools->pools.v[0] == id && pools->jobs.v[0] == a &&
	       pools->until_us.v[0],
	   "the agent hears of the pool, its job and its end");
	sent_free(s);
	b = submit(w, 0);
	s = world_sent(w, "a", WM_PREPARE);
	prepare = s->msg;
	ok(prepare->pool == id && prepare->pool_keep == 0, "PREPARE of the next job names the pool");
	sent_free(s);
	world_forget(w);
	run_on(w, "a", b);
	is_str(text(pool(w, "terminated", 0), "cause"), "owner", "without a time of its own the pool ends");
	s = world_sent(w, "a", WM_POOLS);
	pools = s ? s->msg : NULL;
	ok(pools && pools->pools.n == 0, "and the agent hears that");
	sent_free(s);
	world_end_well(w);
}

static void test_gives_way(void)
{
	struct world *w = world_create(75);
	uint64_t a, b;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	run_on(w, "a", a);
	b = submit_as(w, "another", SHORT);
	is_str(placed_on(w, b), "a", "another owner's job gets the node at once");
	is_str(of_attempt(w, b, "id"), "", "without the pool");
	is_str(text(pool(w, "terminated", 0), "cause"), "gave way", "the pool gave way");
	world_end_well(w);
}

static void test_avoided(void)
{
	struct world *w = world_create(77);
	uint64_t a, b;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	a = submit(w, 60);
	run_on(w, "a", a);
	b = submit_as(w, "another", SHORT);
	is_str(placed_on(w, b), "b", "another owner's job is placed beside the pool");
	ok(pool(w, "available", 0) != NULL, "which waits");
	world_end_well(w);
}

/* A question without a job leaves the pool as it is. */
static void test_dry_run(void)
{
	struct world *w = world_create(78);
	uint64_t a, id;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	run_on(w, "a", a);
	id = number(pool(w, "available", 0), "id");
	world_submit_full(w, SHORT, "{\"dry_run\": true}", NULL, NULL);
	ok(number(pool(w, "available", 0), "id") == id, "a dry run changes no pool");
	submit(w, 60);
	ok(number(pool(w, "in_use", 0), "id") == id, "the next job has it");
	world_end_well(w);
}

static void test_requests(void)
{
	struct world *w = world_create(76);
	uint64_t a, id;
	char ref[24];

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	run_on(w, "a", a);
	id = number(pool(w, "available", 0), "id");
	snprintf(ref, sizeof ref, "%llu", (unsigned long long)id);
	ok(world_request(w, REQ_POOL, 0, ref, NULL) == 200, "a pool is shown by its number");
	ok(world_request(w, REQ_POOL, 0, "p", NULL) == 200, "or by its name");
	ok(world_request(w, REQ_POOL, 0, "q", NULL) == 404, "an unknown name is refused");
	ok(world_request(w, REQ_POOL_KEEP, 0, ref, "{\"keep_alive_s\": 100}") == 200, "its time is set");
	pass(w, 90);
	ok(pool(w, "available", 0) != NULL, "it waits longer");
	ok(world_request(w, REQ_POOL_KEEP, 0, ref, "{\"keep_alive_s\": 99999999}") == 422 || w->status >= 400,
	   "above the limit is refused");
	ok(world_request(w, REQ_POOL_DROP, 0, ref, "{\"node\": \"z\"}") == 404,
	   "a node without a part is refused");
	ok(world_request(w, REQ_POOL_DROP, 0, ref, "{}") == 200, "it is dropped");
	is_str(text(pool(w, "terminated", 0), "cause"), "dropped", "with its cause");
	ok(world_request(w, REQ_POOL_DROP, 0, ref, "{}") == 409, "a second time is refused");
	world_end_well(w);
}

static void test_parts(void)
{
	struct world *w = world_create(80);
	uint64_t a, b, c, id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	a = submit_wide(w, 2, 600, "");
	run_wide(w, a);
	id = number(pool(w, "available", 0), "id");
	is_str(nodes_of(pool(w, "available", 0)), "a,b", "a job of two nodes leaves both");
	b = submit(w, 30);
	is_str(nodes_of(pool(w, "available", 0)), strcmp(placed_on(w, b), "a") == 0 ? "b" : "a",
	       "a smaller job takes a part out of the pool");
	ok(n_pools(w, "in_use") == 0, "and uses no pool as a whole");
	run_on(w, placed_on(w, b), b);
	is_int(n_pools(w, "available"), 2, "at its end it leaves a pool of its own");
	c = submit_wide(w, 3, 300, "");
	is_int(n_pools(w, "in_use"), 1, "a larger job joins the pools of its owner");
	is_int(n_pools(w, "terminated"), 1, "one of them lives on");
	is_str(text(pool(w, "terminated", 0), "cause"), "owner", "the other one ends");
	run_wide(w, c);
	is_str(text(pool(w, "available", 0), "state"), "available", "the larger job gives it back");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(pool(w, "available", 0), "nodes")), 3,
	       "with the node that was cold");
	ok(id > 0, "the first pool had a number");
	world_end_well(w);
}

/* Which ends leave a pool. */
static void test_ends(void)
{
	struct world *w = world_create(81);
	uint64_t a;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 60);
	begin(w, "a", a, 0);
	end_with(w, "a", a, 0, 3);
	clean(w, "a", a);
	is_str(world_status(w, a), "failed", "a job fails by an exit code");
	is_int(n_pools(w, "available"), 1, "and leaves a pool");
	world_request(w, REQ_POOL_DROP, 0, "p", "{}");
	a = submit(w, 60);
	begin(w, "a", a, 0);
	world_rank(w, "a", a, 1, 0, PS_EXITED, 0, 11, NULL);
	world_launch(w, "a", a, 1, LAUNCH_ENDED, 0, NULL);
	clean(w, "a", a);
	is_str(world_status(w, a), "failed", "a job ends by a signal");
	is_int(n_pools(w, "available"), 0, "and leaves none");
	a = submit(w, 60);
	begin(w, "a", a, 0);
	world_msg(w, "a", 0, WM_POOL_BAD, &(struct wm_pool_bad){.job = a, .text = (char[]){"a process is left"}});
	end_with(w, "a", a, 0, 0);
	clean(w, "a", a);
	is_str(world_status(w, a), "completed", "a job completes");
	is_int(n_pools(w, "available"), 0, "but leaves none where its agent found something");
	world_end_well(w);
}

/* A job that restarts leaves no pool, and keeps the one that it uses. */
static void test_restarts(void)
{
	static const char spec[] =
	    "{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	    "{\"gpus_per_instance\": 1}, \"limits\": {\"max_runtime_s\": 600}, \"warm_pool\": {\"keep_alive_s\": "
	    "60}}";
	struct world *w = world_create(82);
	uint64_t a, b, id;

	world_agent_up(w, "a", 1, 4);
	a = world_submit(w, spec);
	begin(w, "a", a, 0);
	end_with(w, "a", a, 0, 3);
	clean(w, "a", a);
	is_str(world_status(w, a), "starting", "the job restarts");
	is_int(n_pools(w, "all"), 0, "without a pool between its attempts");
	world_launch(w, "a", a, 2, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", a, 2, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "a", a, 2, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, "a", a, 2, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", a, 2, LAUNCH_CLEANED, 0, NULL);
	id = number(pool(w, "available", 0), "id");
	ok(id > 0, "its last attempt leaves one");
	b = world_submit(w, spec);
	begin(w, "a", b, 0);
	end_with(w, "a", b, 0, 3);
	clean(w, "a", b);
	ok(number(pool(w, "in_use", 0), "id") == id, "a job that restarts keeps the pool that it uses");
	world_request(w, REQ_STOP, b, NULL, NULL);
	world_launch(w, "a", b, 2, LAUNCH_FAILED, 0, "");
	world_launch(w, "a", b, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, b), "stopped", "it is stopped before it runs again");
	is_str(text(pool(w, "all", 0), "cause"), "owner", "and the pool ends with it");
	world_end_well(w);
}

static void test_nodes(void)
{
	struct world *w = world_create(83);
	uint64_t a;
	int64_t now;
	char body[300], from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	a = submit_wide(w, 2, 600, "");
	run_wide(w, a);
	world_request(w, REQ_DRAIN, 0, "a", "{}");
	is_str(nodes_of(pool(w, "available", 0)), "b", "a drain ends the part on that node only");
	now = (int64_t)clock_real_us(&w->clock);
	clock_rfc3339((uint64_t)now + 5 * SECOND, from);
	clock_rfc3339((uint64_t)now + 500 * SECOND, to);
	snprintf(body, sizeof body,
	         "{\"from\": \"%s\", \"to\": \"%s\", \"nodes\": [\"b\"], \"maintenance\": true}", from, to);
	world_request(w, REQ_RESERVE_ADD, 0, "fans", body);
	ok(n_pools(w, "available") == 1, "a planned reservation leaves the pool");
	pass(w, 7);
	is_int(n_pools(w, "available"), 0, "its begin ends the part");
	is_str(text(pool(w, "terminated", 0), "cause"), "node", "with that cause");
	world_end_well(w);
}

static void test_limits(void)
{
	struct world *w = world_create(84);
	const cJSON *first;
	uint64_t a;

	world_agent_up(w, "a", 1, 4);
	w->core->cfg.warm_keep_alive_max_s = 20;
	a = submit(w, 100);
	first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "warnings"), 0);
	like(cJSON_GetStringValue(first) ? cJSON_GetStringValue(first) : "", "shortened from 1m40s to 20s",
	     "a time above the limit is shortened, and the submit says so");
	run_on(w, "a", a);
	pass(w, 21);
	is_int(n_pools(w, "available"), 0, "the pool ends after the shorter time");
	w->core->cfg.warm_chain_max_s = 30;
	a = submit(w, 20);
	run_on(w, "a", a);
	pass(w, 15);
	a = submit(w, 20);
	run_on(w, "a", a);
	pass(w, 16);
	is_int(n_pools(w, "available"), 0, "a chain of pools has a longest life");
	is_str(text(pool(w, "terminated", 1), "cause"), "limit", "with that cause");
	world_end_well(w);
}

/* 3.6 dollars an hour are 0.1 cents a second. */
static void test_budget(void)
{
	struct world *w = world_create(85);
	double spent;
	uint64_t a;

	w->price = 36;
	world_agent_up(w, "a", 1, 4);
	a = submit(w, 600);
	run_on(w, "a", a);
	pass(w, 50);
	ok(cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(pool(w, "available", 0), "idle_usd")) > 0.4,
	   "an idle pool costs the price of its node");
	world_request(w, REQ_BUDGET_SET, 0, "default", "{\"usd\": 1}");
	world_request(w, REQ_BUDGETS, 0, NULL, NULL);
	spent = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(
	    cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "budgets"), 0), "spent_usd"));
	ok(spent > 0.4 && spent < 0.7, "a budget counts it: %f", spent);
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	world_request(w, REQ_BUDGETS, 0, NULL, NULL);
	spent = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(
	    cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "budgets"), 0), "spent_usd"));
	ok(spent > 0.4 && spent < 0.7, "also after a restart of hearthd: %f", spent);
	pass(w, 60);
	is_int(n_pools(w, "available"), 0, "a budget that is used up ends the pool");
	is_str(text(pool(w, "terminated", 0), "cause"), "owner", "with that cause");
	world_end_well(w);
}

/* Each field of the environment changed alone: the miss names it. */
static void test_match(void)
{
	static const struct {
		const char *spec, *source, *field;
	} cases[] = {
	    {"\"requirements\": \"r.txt\", \"inputs\": {\"a\": {\"uri\": \"file:///x\"}}", "s1", ""},
	    {"\"requirements\": \"q.txt\", \"inputs\": {\"a\": {\"uri\": \"file:///x\"}}", "s1", "requirements"},
	    {"\"inputs\": {\"a\": {\"uri\": \"file:///x\"}}", "s1", "requirements"},
	    {"\"requirements\": \"r.txt\", \"inputs\": {\"a\": {\"uri\": \"file:///x\"}}", "s2", "source"},
	    {"\"requirements\": \"r.txt\", \"inputs\": {\"a\": {\"uri\": \"file:///x\"}}", NULL, "source"},
	    {"\"requirements\": \"r.txt\", \"inputs\": {\"a\": {\"uri\": \"file:///y\"}}", "s1", "inputs.a"},
	    {"\"requirements\": \"r.txt\"", "s1", "inputs.a"},
	    {"\"requirements\": \"r.txt\", \"inputs\": {\"a\": {\"uri\": \"file:///x\"}, \"b\": {\"uri\": "
	     "\"file:///z\"}}",
	     "s1", "inputs.b"},
	};
	char *had = NULL;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text_of_spec[400];
		struct job_spec *s;
		cJSON *wants, *missed;
		struct err e;

		snprintf(text_of_spec, sizeof text_of_spec,
		         "{\"command\": [\"/bin/x\"], \"source_dir\": \"/s\", \"launcher\": \"direct\", %s}",
		         cases[i].spec);
		s = spec_parse(text_of_spec, strlen(text_of_spec), &e);
		if (!s)
			tap_bail("%s", e.text);
		wants = pool_environment(s, cases[i].source, NULL);
		if (!had)
			had = json_text(wants);
		missed = pool_missed(had, wants);
		is_str(text(missed, "field"), cases[i].field, "the field that differs in case");
		is_str(text(missed, "level"), *cases[i].field ? "environment" : "", "at level environment");
		cJSON_Delete(missed);
		cJSON_Delete(wants);
		spec_destroy(s);
	}
	free(had);
}

/* What a uri has of a password stays out of what all users see. */
static void test_secrets(void)
{
	struct world *w = world_create(86);
	char *all;
	uint64_t a;

	world_agent_up(w, "a", 1, 4);
	a = submit_wide(w, 1, 600, ", \"inputs\": {\"d\": {\"uri\": \"http://ann:hunter2@data.example/x\"}}");
	run_on(w, "a", a);
	pool(w, "available", 0);
	all = json_text(w->body);
	ok(strstr(all, "data.example/x") && !strstr(all, "hunter2"), "pools show no password of an input: %s",
	   all);
	free(all);
	a = submit(w, 600);
	world_request(w, REQ_WHY, a, NULL, NULL);
	all = json_text(w->body);
	ok(strstr(all, "data.example/x") && !strstr(all, "hunter2"), "and neither does a miss: %s", all);
	free(all);
	world_end_well(w);
}

/* 1: the last list that the node got names the pool. */
static int is_named(struct world *w, const char *node, uint64_t id)
{
	const struct sent *s;
	int named = 0;

	for (s = w->sent; s; s = s->next) {
		const struct wm_pools *m = s->msg;

		if (s->type != WM_POOLS || strcmp(s->node, node) != 0)
			continue;
		named = 0;
		for (uint32_t i = 0; i < m->pools.n; i++)
			named |= m->pools.v[i] == id;
	}
	return named;
}

/* The agent removes the folder of a pool that the list does not name. */
static void test_part_is_named(void)
{
	struct world *w = world_create(87);
	uint64_t a, b, id;
	char on[16];

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	a = submit_wide(w, 2, 600, "");
	run_wide(w, a);
	id = number(pool(w, "available", 0), "id");
	world_forget(w);
	b = submit(w, 0);
	snprintf(on, sizeof on, "%s", placed_on(w, b));
	ok(is_named(w, on, id), "a node keeps the pool of which a job there took the part");
	run_on(w, on, b);
	ok(!is_named(w, on, id), "until the job has ended");
	world_end_well(w);
}

int main(void)
{
	test_match();
	test_secrets();
	test_part_is_named();
	test_life();
	test_restart();
	test_restart_in_use();
	test_agents();
	test_gives_way();
	test_avoided();
	test_dry_run();
	test_requests();
	test_parts();
	test_ends();
	test_restarts();
	test_nodes();
	test_limits();
	test_budget();
	return tap_done();
}
