/* Warm pools that end by themselves, wide ones, and what hearthd keeps of them. */
#include "tests/unit/controller/share/pool_kit.h"

/* Ended pools are kept without their environment: 16 of an owner, for an hour. */
static void test_ended_are_few(void)
{
	struct world *w = world_create(88);
	const struct pool_rec *p;
	uint64_t a;
	int n = 0;

	world_agent_up(w, "a", 1, 4);
	for (int i = 0; i < 20; i++) {
		a = submit(w, 60);
		run_on(w, "a", a);
		world_request(w, REQ_POOL_DROP, 0, "p", "{}");
	}
	pass(w, 3);
	is_int(n_pools(w, "all"), 16, "hearthd lists the 16 newest ended pools of an owner");
	ok(number(pool(w, "all", 15), "made_by") == a, "with the last one");
	for (p = (struct pool_rec *)w->core->records.all[CLUSTER_POOL]; p; p = p->head.hh.next)
		n += !p->ended_us || p->environment != NULL;
	is_int(n, 0, "and keeps no environment of them");
	world_request(w, REQ_POOLS, 0, NULL, "{\"state\": \"all\", \"limit\": 5}");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(w->body, "pools")), 5, "a list has a limit");
	ok(number(w->body, "total") == 16, "and says how many there are");
	pass(w, 3601);
	is_int(n_pools(w, "all"), 0, "all are gone after an hour");
	world_end_well(w);
}

/* Events of the type, and those of them whose data has the word. */
struct counted {
	const char *type, *word;
	int n, with;
};

static void count_event(struct world *w, const struct event_row *ev, void *arg)
{
	struct counted *x = arg;

	(void)w;
	if (strcmp(ev->type, x->type) != 0)
		return;
	x->n++;
	x->with += ev->data && strstr(ev->data, x->word);
}

static void test_environment_once(void)
{
	struct world *w = world_create(89);
	struct counted x = {"pool_given", "environment", 0, 0};
	uint64_t a;

	w->on_event = count_event;
	w->arg = &x;
	for (int i = 0; i < 4; i++)
		world_agent_up(w, (const char *[]){"a", "b", "c", "d"}[i], 1, 4);
	a = submit_wide(w, 4, 600, "");
	run_wide(w, a);
	a = submit_wide(w, 4, 600, "");
	run_wide(w, a);
	is_int(x.n, 7, "each node of two jobs joins the pool");
	is_int(x.with, 1, "the environment of a job is given once");
	world_forget(w);
	world_request(w, REQ_POOL_DROP, 0, "p", "{\"node\": \"b\"}");
	ok(world_count(w, "b", WM_POOLS) == 1 && !world_count(w, "a", WM_POOLS),
	   "only the node of an ended part hears of it");
	world_end_well(w);
}

static uint64_t fail_wide(struct world *w, char nodes[2][16])
{
	uint64_t a = submit_wide(w, 2, 60, "");

	for (int i = 0; i < 2; i++)
		snprintf(nodes[i], 16, "%s", job_find(w->core, a)->r.att->places[i].node);
	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], a, 1, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < 2; i++)
		world_rank(w, nodes[i], a, 1, i, PS_RUNNING, 0, 0, NULL);
	for (uint32_t i = 0; i < 2; i++)
		end_with(w, nodes[i], a, i, 3);
	clean(w, nodes[0], a);
	return a;
}

/* A user queues the job again while its nodes join the pool. */
static void test_requeued(void)
{
	struct world *w = world_create(90);
	char nodes[2][16];
	const cJSON *p;
	uint64_t a;

	w->price = 36;
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	a = fail_wide(w, nodes);
	is_int(n_pools(w, "available"), 1, "the first node of a failed job joins a pool");
	is_int(world_request(w, REQ_REQUEUE, a, NULL, "{}"), 200, "the job is queued again");
	clean(w, nodes[1], a);
	is_int(n_pools(w, "available"), 0, "the pool ends: its job goes on");
	for (int i = 0; i < 2; i++)
		snprintf(nodes[i], 16, "%s", job_find(w->core, a)->r.att->places[i].node);
	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], a, 2, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < 2; i++)
		world_rank(w, nodes[i], a, 2, i, PS_RUNNING, 0, 0, NULL);
	for (uint32_t i = 0; i < 2; i++) {
		world_rank(w, nodes[i], a, 2, i, PS_EXITED, 0, 0, NULL);
		world_launch(w, nodes[i], a, 2, LAUNCH_ENDED, 0, NULL);
	}
	for (int i = 0; i < 2; i++)
		world_launch(w, nodes[i], a, 2, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, a), "completed", "its second attempt completes");
	pass(w, 30);
	p = pool(w, "available", 0);
	is_str(nodes_of(p), "a,b", "and leaves a pool");
	ok(cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(p, "idle_usd")) > 0.4,
	   "whose idle time is paid");
	pass(w, 31);
	is_int(n_pools(w, "available"), 0, "it expires");
	world_end_well(w);
}

static void test_reserved(void)
{
	struct world *w = world_create(91);
	int64_t now;
	char body[300], from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];
	uint64_t a;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 600);
	begin(w, "a", a, 0);
	now = (int64_t)clock_real_us(&w->clock);
	clock_rfc3339((uint64_t)now + 5 * SECOND, from);
	clock_rfc3339((uint64_t)now + 5000 * SECOND, to);
	snprintf(body, sizeof body,
	         "{\"from\": \"%s\", \"to\": \"%s\", \"nodes\": [\"a\"], \"maintenance\": true, \"force\": true}",
	         from, to);
	world_request(w, REQ_RESERVE_ADD, 0, "fans", body);
	pass(w, 10);
	end_with(w, "a", a, 0, 0);
	clean(w, "a", a);
	is_str(world_status(w, a), "completed", "a job ends on a node that is reserved meanwhile");
	is_int(n_pools(w, "available"), 0, "and leaves no pool there");
	world_end_well(w);
}

/* The budget is used up while hearthd is down. */
static void test_budget_down(void)
{
	struct world *w = world_create(92);
	uint64_t a;

	w->price = 36;
	world_agent_up(w, "a", 1, 4);
	world_request(w, REQ_BUDGET_SET, 0, "default", "{\"usd\": 0.5}");
	a = submit(w, 6000);
	run_on(w, "a", a);
	is_int(n_pools(w, "available"), 1, "a pool waits");
	w->clock.fake_real_us += 100 * SECOND;
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	pass(w, 2);
	is_int(n_pools(w, "available"), 0, "it ends when hearthd finds the budget used up");
	is_str(text(pool(w, "terminated", 0), "cause"), "owner", "with that cause");
	world_end_well(w);
}

static void test_names(void)
{
	struct world *w = world_create(93);
	uint64_t a, b, id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	b = submit_as(w, "another",
	              "{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	              "{\"gpus_per_instance\": 1}, \"limits\": {\"max_runtime_s\": 600}, \"warm_pool\": "
	              "{\"keep_alive_s\": 600}}");
	a = submit(w, 600);
	run_on(w, placed_on(w, b), b);
	run_on(w, placed_on(w, a), a);
	is_int(n_pools(w, "available"), 2, "two users have a pool of the same name");
	is_int(world_request(w, REQ_POOL, 0, "p", NULL), 200, "a name means the user's own");
	ok(number(w->body, "made_by") == a, "and not that of another one");
	id = number(w->body, "id");
	is_int(world_request(w, REQ_POOL_DROP, 0, "p", "{\"node\": \",\"}"), 400,
	       "an empty list of nodes is refused");
	a = submit(w, 600);
	ok(number(pool(w, "in_use", 0), "id") == id, "a job uses the pool");
	is_int(world_request(w, REQ_POOL_KEEP, 0, "p", "{\"keep_alive_s\": 100}"), 409,
	       "the time of a pool in use cannot be set");
	world_end_well(w);
}

/* The report is confirmed, so it counts also after a restart of hearthd. */
static void test_bad_is_kept(void)
{
	struct world *w = world_create(94);
	struct wm_sync_begin sync = {.instance = 1, .launches = 1};
	uint64_t a, s;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 600);
	begin(w, "a", a, 0);
	end_with(w, "a", a, 0, 0);
	world_msg(w, "a", 0, WM_POOL_BAD, &(struct wm_pool_bad){.job = a, .text = (char[]){"a process is left"}});
	world_turn(w); /* it is stored */
	world_restart(w);
	s = world_agent_connect(w, "a");
	world_agent_inventory(w, "a", s, 1, 4);
	world_msg(w, "a", s, WM_SYNC_BEGIN, &sync);
	world_launch(w, "a", a, 1, LAUNCH_ENDED, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &(struct wm_sync_end){.instance = 1});
	clean(w, "a", a);
	is_str(world_status(w, a), "completed", "a job completes after a restart of hearthd");
	is_int(n_pools(w, "available"), 0, "and leaves no pool where its agent found something before");
	world_end_well(w);
}

int main(void)
{
	test_bad_is_kept();
	test_environment_once();
	test_requeued();
	test_reserved();
	test_budget_down();
	test_names();
	test_ended_are_few();
	return tap_done();
}
