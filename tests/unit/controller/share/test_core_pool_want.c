/* Jobs that name a warm pool (`warm_pool.pool`): they use it, or wait for it, and never in vain. */
#include "tests/unit/controller/share/pool_kit.h"

#include <inttypes.h>

#define WANTS                                                                                                \
	"{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"instances\": " \
	"%d, \"gpus_per_instance\": %d}, \"limits\": {\"max_runtime_s\": 600}, \"retry\": {\"max_attempts\": "   \
	"0}, \"warm_pool\": {\"keep_alive_s\": 60, \"pool\": %s}}"

static char *spec_wanting(int nodes, int gpus, const char *pool)
{
	return xasprintf(WANTS, nodes, gpus, pool);
}

static uint64_t submit_wanting(struct world *w, int nodes, int gpus, const char *pool)
{
	cleanup_free char *s = spec_wanting(nodes, gpus, pool);

	return world_submit(w, s);
}

/* What a refused submit says. */
static const char *refusal(struct world *w, int nodes, int gpus, const char *pool)
{
	ok(!submit_wanting(w, nodes, gpus, pool), "refused: pool %s, %d nodes, %d GPUs", pool, nodes, gpus);
	return w->err.text;
}

/* Nodes a, b, c; a pool on a, or on a and b. Returns its id. */
static uint64_t with_pool(struct world *w, unsigned nodes, unsigned keep_s)
{
	for (int i = 0; i < 3; i++)
		world_agent_up(w, (const char *[]){"a", "b", "c"}[i], 1, 4);
	if (nodes == 1)
		run_on(w, "a", submit(w, keep_s));
	else
		run_wide(w, submit_wide(w, nodes, keep_s, ""));
	return number(pool(w, "available", 0), "id");
}

static const char *why(struct world *w, uint64_t id)
{
	world_request(w, REQ_WHY, id, NULL, NULL);
	return text(w->body, "text");
}

static void test_uses(void)
{
	struct world *w = world_create(211);
	uint64_t id = with_pool(w, 1, 600), first, second;
	cleanup_free char *number_ = xasprintf("%" PRIu64, id), *said = NULL, *s = NULL;

	first = submit_wanting(w, 1, 1, number_);
	is_str(of_attempt(w, first, "id"), number_, "a job uses the pool whose number it names");
	second = submit_wanting(w, 1, 1, "\"p\"");
	is_str(world_status(w, second), "queued", "one that gives its name waits, though nodes are free");
	said = xasprintf("waits for warm pool %" PRIu64 ": none of it is free now; job %" PRIu64 " uses it", id,
	                 first);
	like(why(w, second), said, "why names the pool, and the job that uses it");
	is_int(number(w->body, "wants_pool"), (int)id, "as data, too");
	s = spec_wanting(1, 1, "\"p\"");
	world_submit_full(w, s, "{\"dry_run\": true}", NULL, NULL);
	like(text(w->body, "text"), said, "so does a dry run");
	world_restart(w);
	world_agent_connect(w, "b");
	is_str(world_status(w, second), "queued", "a new hearthd knows what it waits for");
	is_int((int)job_find(w->core, second)->r.wants_pool, (int)id, "and which pool");
	world_end_well(w);
}

static void test_follows(void)
{
	struct world *w = world_create(212);
	uint64_t id = with_pool(w, 1, 600), first, second;
	cleanup_free char *name = xasprintf("%" PRIu64, id);

	first = submit_wanting(w, 1, 1, name);
	second = submit_wanting(w, 1, 1, name);
	run_on(w, "a", first);
	is_str(of_attempt(w, second, "id"), name, "the pool is given back: the job that waits uses it");
	is_str(placed_on(w, second), "a", "on its node");
	world_end_well(w);
}

/* Warnings of jobs, and those that have the word. */
struct counted {
	const char *word;
	int n, with;
};

static void count_warning(struct world *w, const struct event_row *ev, void *arg)
{
	struct counted *x = arg;

	(void)w;
	if (strcmp(ev->type, "warning") != 0)
		return;
	x->n++;
	x->with += ev->data && strstr(ev->data, x->word);
}

static void test_gone(void)
{
	struct world *w = world_create(213);
	uint64_t id = with_pool(w, 1, 600), first, second;
	cleanup_free char *name = xasprintf("%" PRIu64, id), *word = xasprintf("pool %" PRIu64 " has ended", id);
	struct counted x = {word, 0, 0};

	w->on_event = count_warning;
	w->arg = &x;
	first = submit(w, 0);
	second = submit_wanting(w, 1, 1, name);
	is_str(world_status(w, second), "queued", "a job waits for a pool that another one uses");
	run_on(w, "a", first);
	ok(*placed_on(w, second), "that one leaves none: the job runs without it");
	is_int((int)job_find(w->core, second)->r.wants_pool, 0, "and names it no longer");
	is_int(x.n, 1, "a warning says so");
	is_int(x.with, 1, "with the pool");
	world_end_well(w);
}

static void test_shrinks(void)
{
	struct world *w = world_create(214);
	uint64_t id = with_pool(w, 2, 600), first, second;
	cleanup_free char *name = xasprintf("%" PRIu64, id);

	first = submit_wide(w, 2, 600, "");
	second = submit_wanting(w, 2, 1, name);
	is_str(world_status(w, second), "queued", "a job of two nodes waits for a pool of two");
	world_request(w, REQ_DRAIN, 0, "b", NULL);
	run_wide(w, first);
	is_int((int)job_find(w->core, second)->r.wants_pool, 0,
	       "a node does not come back to it: the job waits for any nodes");
	is_str(placed_on(w, second), "a", "and runs");
	world_end_well(w);
}

/* The first of a list of texts. */
static const char *text_of(const cJSON *list)
{
	const char *s = cJSON_GetStringValue(cJSON_GetArrayItem(list, 0));

	return s ? s : "";
}

static void test_refused(void)
{
	struct world *w = world_create(215);
	uint64_t id = with_pool(w, 1, 600), copy;
	cleanup_free char *name = xasprintf("%" PRIu64, id), *others = NULL, *s = NULL;
	struct request *rq;

	like(refusal(w, 1, 1, "\"nobody\""), "you have no warm pool \"nobody\"; jobctl pool ls",
	     "an unknown name");
	like(refusal(w, 1, 1, "77777"), "pool 77777 is unknown", "an unknown number");
	like(refusal(w, 2, 1, name), "has 1 node, the job 2", "a pool with too few nodes");
	like(refusal(w, 1, 0, "\"a b\""), "no warm pool", "a strange name");
	like(refusal(w, 1, 1, "\"p\"}, \"sweep\": {\"lr\": [1, 2]"), "not for a sweep", "a sweep");
	s = spec_wanting(1, 1, name);
	submit_as(w, "bob", s);
	others = xasprintf("pool %" PRIu64 " belongs to ", id);
	like(w->err.text, others, "another user's pool");
	copy = submit_wanting(w, 1, 1, name);
	run_on(w, "a", copy);
	world_request(w, REQ_POOL_DROP, 0, "p", "{}");
	like(refusal(w, 1, 1, name), "has ended (dropped)", "a pool that has ended");
	rq = world_rq(w, REQ_CLONE, copy);
	rq->text = xstrdup(s);
	rq->spec = spec_parse(s, strlen(s), NULL);
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 201, "a copy of a job whose pool has ended is taken");
	is_int((int)job_find(w->core, number(w->body, "id"))->r.wants_pool, 0, "it waits for none");
	like(text_of(cJSON_GetObjectItem(w->body, "warnings")), "has ended (dropped)", "and says so");
	world_end_well(w);
}

/* A held job whose pool ends while hearthd is down. */
static void test_held(void)
{
	struct world *w = world_create(216);
	uint64_t id = with_pool(w, 1, 60), job;
	cleanup_free char *name = xasprintf("%" PRIu64, id), *s = spec_wanting(1, 1, name);

	job = world_submit_full(w, s, "{\"hold\": true}", NULL, NULL);
	is_int((int)job_find(w->core, job)->r.wants_pool, (int)id, "a held job names a pool");
	w->clock.fake_real_us += 100 * SECOND;
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	pass(w, 2);
	is_int(n_pools(w, "available"), 0, "the pool expires while hearthd is down");
	world_request(w, REQ_RELEASE, job, NULL, NULL);
	ok(*placed_on(w, job), "the job runs when it is released");
	world_end_well(w);
}

int main(void)
{
	test_uses();
	test_follows();
	test_gone();
	test_shrinks();
	test_refused();
	test_held();
	return tap_done();
}
