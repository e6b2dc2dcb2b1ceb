/* What a warm pool says of its life: costs, name, why it and its parts ended, and the jobs involved. */
#include "tests/unit/controller/share/pool_kit.h"

static const cJSON *member(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static double usd(const cJSON *p)
{
	const cJSON *v = member(p, "idle_usd");

	return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

/* The pool of that id, whatever its state is. */
static const cJSON *pool_of(struct world *w, uint64_t id)
{
	char ref[24];

	snprintf(ref, sizeof ref, "%llu", (unsigned long long)id);
	world_request(w, REQ_POOL, 0, ref, NULL);
	return w->body;
}

static uint64_t submit_named(struct world *w, const char *name, unsigned nodes, unsigned keep_s)
{
	char spec[500];

	snprintf(
	    spec, sizeof spec,
	    "{\"name\": \"%s\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	    "{\"instances\": %u, \"gpus_per_instance\": 1}, \"limits\": {\"max_runtime_s\": 600}, \"retry\": "
	    "{\"max_attempts\": 0}, \"warm_pool\": {\"keep_alive_s\": %u}}",
	    name, nodes, keep_s);
	return world_submit(w, spec);
}

/* 36 dollars an hour are one in 100 seconds. */
static void test_costs_of_a_life(void)
{
	struct world *w = world_create(70);
	uint64_t id;
	double first, second;

	w->price = 36;
	world_agent_up(w, "a", 1, 4);
	run_on(w, "a", submit(w, 600));
	id = number(pool(w, "available", 0), "id");
	pass(w, 100);
	first = usd(pool_of(w, id));
	ok(first > 0.9 && first < 1.1, "a pool costs while it waits");
	run_on(w, "a", submit(w, 600));
	pass(w, 50);
	second = usd(pool_of(w, id));
	ok(second > first + 0.4, "its second wait adds to the first one (%g after %g)", second, first);
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	ok(usd(pool_of(w, id)) >= second, "hearthd restart: the costs stay");
	pass(w, 600);
	is_str(text(pool_of(w, id), "cause"), "expired", "the pool expires");
	ok(usd(w->body) > 6.9 && usd(w->body) < 7.1, "an expired pool has its costs (%g)", usd(w->body));
	world_restart(w);
	ok(usd(pool_of(w, id)) > 6.9, "and has them after a restart of hearthd");
	world_end_well(w);
}

static void test_price_set_later(void)
{
	struct world *w = world_create(71);
	const cJSON *p;
	uint64_t id;
	int rc;

	world_agent_up(w, "a", 1, 4);
	run_on(w, "a", submit(w, 600));
	p = pool(w, "available", 0);
	id = number(p, "id");
	ok(usd(p) < 0, "a pool on a node without a price has no costs");
	rc = world_request(w, REQ_INSTANCE_SET, 0, "box", "{\"price_per_hour\": 36}");
	is_int(rc, 200, "an administrator sets a price");
	pass(w, 100);
	ok(usd(pool_of(w, id)) > 0.9 && usd(w->body) < 1.1, "the pool costs from then on (%g)", usd(w->body));
	world_request(w, REQ_INSTANCE_SET, 0, "box", "{\"price_per_hour\": 72}");
	pass(w, 100);
	ok(usd(pool_of(w, id)) > 2.9 && usd(w->body) < 3.1, "another price counts from then on (%g)",
	   usd(w->body));
	world_end_well(w);
}

static void test_name_follows(void)
{
	struct world *w = world_create(72);
	uint64_t a, b, id;

	world_agent_up(w, "a", 1, 4);
	a = submit_named(w, "first", 1, 600);
	run_on(w, "a", a);
	id = number(pool(w, "available", 0), "id");
	b = submit_named(w, "second", 1, 600);
	is_str(text(pool_of(w, id), "name"), "second", "a pool has the name of the job that uses it");
	run_on(w, "a", b);
	is_int(world_request(w, REQ_POOL, 0, "second", NULL), 200,
	       "the pool is found by the name of its last job");
	ok(number(w->body, "id") == id, "it is the same pool");
	is_int(world_request(w, REQ_POOL, 0, "first", NULL), 404, "and no longer by that of an earlier one");
	world_end_well(w);
}

/* The n-th part that ended. */
static const cJSON *ended_part(const cJSON *p, int n)
{
	return cJSON_GetArrayItem(member(p, "ended_nodes"), n);
}

static void test_why_parts_ended(void)
{
	struct world *w = world_create(73);
	const cJSON *p;
	uint64_t id;

	for (int i = 0; i < 3; i++)
		world_agent_up(w, (const char *[]){"a", "b", "c"}[i], 1, 1);
	run_wide(w, submit_wide(w, 3, 600, ""));
	id = number(pool(w, "available", 0), "id");
	world_request(w, REQ_DRAIN, 0, "b", "{\"reason\": \"a fan\"}");
	world_turn(w);
	p = pool_of(w, id);
	is_str(nodes_of(p), "a,c", "the part on a drained node ends");
	is_str(text(ended_part(p, 0), "node"), "b", "the pool still names it");
	is_str(text(ended_part(p, 0), "cause"), "node", "with the cause");
	is_str(text(ended_part(p, 0), "cause_text"), "the node is drained", "as a sentence, too");
	ok(*text(ended_part(p, 0), "at"), "and when that was");
	submit_as(w, "another", SHORT);
	p = pool_of(w, id);
	is_str(text(ended_part(p, 1), "cause"), "gave way", "a part that gave way is named");
	like(text(ended_part(p, 1), "cause_text"), "could not start without it", "with the job");
	submit_wide(w, 1, 0, "");
	p = pool_of(w, id);
	is_str(text(p, "state"), "in_use", "a job takes the rest");
	world_restart(w);
	is_str(text(ended_part(pool_of(w, id), 0), "node"), "b", "hearthd restart: the ended parts stay");
	world_end_well(w);
}

static void test_sentences(void)
{
	struct world *w = world_create(74);
	uint64_t id, job;

	world_agent_up(w, "a", 1, 4);
	run_on(w, "a", submit(w, 20));
	id = number(pool(w, "available", 0), "id");
	pass(w, 30);
	is_str(text(pool_of(w, id), "cause_text"), "no job of its owner came within 20s", "why a pool expired");
	run_on(w, "a", submit(w, 600));
	id = number(pool(w, "available", 0), "id");
	run_on(w, "a", submit(w, 0));
	is_str(text(pool_of(w, id), "cause"), "owner", "a job without keep_alive_s ends the pool that it used");
	like(text(w->body, "cause_text"), "used it and has no keep_alive_s", "and the sentence says so");
	run_on(w, "a", submit(w, 600));
	id = number(pool(w, "available", 0), "id");
	world_request(w, REQ_POOL_DROP, 0, "p", "{}");
	like(text(pool_of(w, id), "cause_text"), "dropped by ", "who dropped a pool");
	run_on(w, "a", submit(w, 600));
	id = number(pool(w, "available", 0), "id");
	job = submit(w, 600);
	world_request(w, REQ_STOP, job, NULL, NULL);
	world_launch(w, "a", job, 1, LAUNCH_ENDED, 0, NULL);
	clean(w, "a", job);
	like(text(pool_of(w, id), "cause_text"), "used it and ended before its ranks started",
	     "a job that is stopped early leaves none");
	world_end_well(w);
}

/* The job shows why its pool ended. */
static void test_job_says_why(void)
{
	struct world *w = world_create(75);
	uint64_t a;
	cJSON *job;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 20);
	run_on(w, "a", a);
	pass(w, 30);
	job = store_job_json(w->reader, a, NULL);
	is_str(text(member(job, "warm_pool"), "status"), "terminated", "the pool of a job ended");
	is_str(text(member(job, "warm_pool"), "cause"), "expired", "the job has the cause");
	is_str(text(member(job, "warm_pool"), "cause_text"), "no job of its owner came within 20s",
	       "and the sentence");
	cJSON_Delete(job);
	world_end_well(w);
}

/* "type,type": the pool events of the job; static. */
static const char *pool_events(struct world *w, uint64_t job)
{
	static char out[300];
	cJSON *all = store_events_json(w->reader, job, 0, 0, NULL);
	const cJSON *ev;

	out[0] = '\0';
	cJSON_ArrayForEach (ev, member(all, "events"))
		if (strncmp(text(ev, "type"), "pool_", 5) == 0)
			snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", *out ? "," : "", text(ev, "type"));
	cJSON_Delete(all);
	return out;
}

/* Digits of one id may be another one. */
static void test_events_of_other_ids(void)
{
	struct world *w = world_create(331);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	for (int i = 0; i < 9; i++)
		run_on(w, "a", submit(w, 0));
	run_on(w, "a", submit(w, 600));
	id = number(pool(w, "available", 0), "id");
	ok(id > 10 && id < 20, "a pool's id ends in a job's");
	is_str(pool_events(w, id % 10), "", "its events are not that job's");
	world_end_well(w);
}

static void test_events_of_jobs(void)
{
	struct world *w = world_create(76);
	uint64_t a, b, other;

	world_agent_up(w, "a", 1, 4);
	a = submit(w, 600);
	run_on(w, "a", a);
	b = submit(w, 600);
	run_on(w, "a", b);
	world_request(w, REQ_POOL_DROP, 0, "p", "{}");
	world_turn(w);
	other = submit(w, 0);
	world_turn(w);
	is_str(pool_events(w, a), "pool_made,pool_taken", "events of the job that made a pool");
	is_str(pool_events(w, b), "pool_taken,pool_given,pool_ended", "events of the job that used it last");
	is_str(pool_events(w, other), "", "another job has none of them");
	world_end_well(w);
}

/* The job that runs would lose the pool without a word. */
static void test_drop_in_use(void)
{
	struct world *w = world_create(77);
	uint64_t a, id;

	world_agent_up(w, "a", 1, 4);
	run_on(w, "a", submit(w, 600));
	id = number(pool(w, "available", 0), "id");
	a = submit(w, 600);
	is_int(world_request(w, REQ_POOL_DROP, 0, "p", "{}"), 409, "drop of a pool in use is refused");
	like(w->err.text, "drop it after that: jobctl wait ", "with the job and the next step");
	is_int(world_request(w, REQ_POOL_DROP, 0, "p", "{\"node\": \"a\"}"), 409, "drop of its node, too");
	run_on(w, "a", a);
	is_str(text(pool_of(w, id), "state"), "available", "the job gives the pool back");
	is_int(world_request(w, REQ_POOL_DROP, 0, "p", "{}"), 200, "then it can be dropped");
	world_end_well(w);
}

static void test_kept_by(void)
{
	struct world *w = world_create(78);
	uint64_t a;

	world_agent_up(w, "a", 1, 4);
	run_on(w, "a", submit(w, 60));
	ok(cJSON_IsNull(member(pool(w, "available", 0), "kept_by")), "the job gave a pool its time");
	world_request(w, REQ_POOL_KEEP, 0, "p", "{\"keep_alive_s\": 600}");
	ok(*text(pool(w, "available", 0), "kept_by"), "a user set another one");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	ok(*text(pool(w, "available", 0), "kept_by"), "hearthd restart: the user stays named");
	a = submit(w, 60);
	run_on(w, "a", a);
	ok(cJSON_IsNull(member(pool(w, "available", 0), "kept_by")), "the next job gives the pool its own time");
	world_end_well(w);
}

/* A job joins two pools: each node hears of its own pool, and all are listed. */
static void test_joined(void)
{
	struct world *w = world_create(79);
	uint64_t a, b, id, pools[2];
	int seen = 0;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	a = submit(w, 600);
	b = submit(w, 600);
	run_on(w, "a", a);
	run_on(w, "b", b);
	pools[0] = number(pool(w, "available", 0), "id");
	pools[1] = number(pool(w, "available", 1), "id");
	id = submit_wide(w, 2, 600, "");
	like(job_find(w->core, id)->r.att->pool, "\"nodes\":[\"a\",\"b\"]",
	     "a job in two pools lists the warm nodes of both");
	like(job_find(w->core, id)->r.att->pool, "\"others\":[{\"id\":", "and which one is in another pool");
	for (uint32_t i = 0; i < 2; i++)
		seen += job_find(w->core, id)->act->rt[i].warm == pools[i];
	is_int(seen, 2, "each node hears of its own pool");
	world_restart(w);
	for (uint32_t i = 0; i < 2; i++)
		seen += job_find(w->core, id)->act->rt[i].warm == pools[i];
	is_int(seen, 4, "hearthd restart: it still does");
	world_end_well(w);
}

int main(void)
{
	test_costs_of_a_life();
	test_price_set_later();
	test_name_follows();
	test_why_parts_ended();
	test_sentences();
	test_job_says_why();
	test_events_of_jobs();
	test_events_of_other_ids();
	test_drop_in_use();
	test_kept_by();
	test_joined();
	return tap_done();
}
