/*
 * What the state thread answers is what /openapi.json says of that address: required members, types, and
 * nothing that is not described; for every operation, in the states that change its answer.
 */
#include "common/base/json.h"
#include "controller/api/api.h"
#include "controller/api/openapi.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include "tests/unit/controller/state/apischema.h"
#include <stdio.h>
#include <string.h>

#define ONE  "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"
#define GPU  "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"gpus_per_instance\": 1}}"
#define JOB  "/api/v1/jobs/{id}"
#define NODE "/api/v1/nodes/{name}"

/* Where the answer of an operation is given as it is. REQ_STATS becomes text. */
static const struct {
	enum request_op op;
	enum http_method method;
	const char *pattern;
} places[] = {
    {REQ_SUBMIT, HTTP_POST, "/api/v1/jobs"},
    {REQ_STOP, HTTP_POST, JOB "/stop"},
    {REQ_HOLD, HTTP_POST, JOB "/hold"},
    {REQ_RELEASE, HTTP_POST, JOB "/release"},
    {REQ_SET, HTTP_PATCH, JOB},
    {REQ_REQUEUE, HTTP_POST, JOB "/requeue"},
    {REQ_CLONE, HTTP_POST, JOB "/clone"},
    {REQ_RETRY, HTTP_POST, JOB "/retry"},
    {REQ_RM, HTTP_DELETE, JOB},
    {REQ_WHY, HTTP_GET, JOB "/why"},
    {REQ_NODES, HTTP_GET, "/api/v1/nodes"},
    {REQ_DRAIN, HTTP_POST, NODE "/drain"},
    {REQ_RESUME, HTTP_POST, NODE "/resume"},
    {REQ_SPARE, HTTP_POST, NODE "/spare"},
    {REQ_NODE_LOST, HTTP_POST, NODE "/lost"},
    {REQ_NODE_RM, HTTP_DELETE, NODE},
    {REQ_QUEUES, HTTP_GET, "/api/v1/queues"},
    {REQ_QUEUE_SET, HTTP_POST, "/api/v1/queues"},
    {REQ_QUEUE_RM, HTTP_DELETE, "/api/v1/queues/{path*}"},
    {REQ_QUOTA_SET, HTTP_POST, "/api/v1/quotas"},
    {REQ_QUOTA_RM, HTTP_DELETE, "/api/v1/quotas/{path*}"},
    {REQ_RESERVES, HTTP_GET, "/api/v1/reservations"},
    {REQ_RESERVE_ADD, HTTP_POST, "/api/v1/reservations"},
    {REQ_RESERVE_SET, HTTP_PATCH, "/api/v1/reservations/{name}"},
    {REQ_RESERVE_RM, HTTP_DELETE, "/api/v1/reservations/{name}"},
    {REQ_POOLS, HTTP_GET, "/api/v1/pools"},
    {REQ_POOL, HTTP_GET, "/api/v1/pools/{name}"},
    {REQ_POOL_KEEP, HTTP_PATCH, "/api/v1/pools/{name}"},
    {REQ_POOL_DROP, HTTP_DELETE, "/api/v1/pools/{name}"},
    {REQ_INSTANCES, HTTP_GET, "/api/v1/instances"},
    {REQ_INSTANCE_SET, HTTP_POST, "/api/v1/instances"},
    {REQ_INSTANCE_RM, HTTP_DELETE, "/api/v1/instances/{name}"},
    {REQ_CHECKPOINT, HTTP_PATCH, JOB "/checkpoints"},
    {REQ_BUDGETS, HTTP_GET, "/api/v1/budgets"},
    {REQ_BUDGET_SET, HTTP_POST, "/api/v1/budgets"},
    {REQ_BUDGET_RM, HTTP_DELETE, "/api/v1/budgets/{path*}"},
    {REQ_TOP, HTTP_GET, "/api/v1/top"},
    {REQ_TOKEN, HTTP_POST, "/api/v1/tokens"},
    {REQ_TOKENS, HTTP_GET, "/api/v1/tokens"},
    {REQ_TOKEN_RM, HTTP_DELETE, "/api/v1/tokens/{name}"},
    {REQ_JOIN, HTTP_POST, "/api/v1/agents/join"},
};

static const cJSON *schemas;

enum {
#define R(op, handler, role, effect, text) N_##op,
	REQUEST_OPS(R)
#undef R
	    N_OPS
};
static unsigned seen[N_OPS];

static const char *shape_of(enum request_op op)
{
	size_t n;
	const struct route *r = route_table(&n);

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		for (size_t k = 0; places[i].op == op && k < n; k++)
			if (r[k].method == places[i].method && strcmp(r[k].pattern, places[i].pattern) == 0)
				return r[k].response;
	return NULL;
}

/* The last answer of w. */
static void check(struct world *w, enum request_op op, const char *when)
{
	const char *shape = shape_of(op);

	seen[op]++;
	ok(w->status >= 200 && w->status < 300 && shape && w->body && api_follows(w->body, shape, schemas, 1),
	   "%s, %s: %d is a %s", request_op_text(op), when, w->status, shape ? shape : "thing without a route");
}

static void ask(struct world *w, enum request_op op, uint64_t job, const char *node, const char *body,
                const char *when)
{
	world_request(w, op, job, node, body);
	check(w, op, when);
}

static void report_checkpoint(struct world *w, uint64_t id)
{
	char name[] = "step-10", empty[] = "";
	struct wm_checkpoint_report m = {.job = id,
	                                 .attempt = 1,
	                                 .epoch = 1,
	                                 .seq = 1,
	                                 .step = 10,
	                                 .name = name,
	                                 .format = empty,
	                                 .step_by = empty,
	                                 .state = CKPT_COPYING,
	                                 .digest = empty,
	                                 .uri = empty,
	                                 .text = empty};

	world_msg(w, "a", 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(w);
}

static void ask_all(struct world *w, const char *when)
{
	ask(w, REQ_NODES, 0, NULL, NULL, when);
	ask(w, REQ_TOP, 0, NULL, NULL, when);
}

static void why(struct world *w, uint64_t job, const char *when)
{
	ask(w, REQ_WHY, job, NULL, NULL, when);
}

static void run_to_end(struct world *w, const char *node, uint64_t id)
{
	world_launch(w, node, id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, node, id, 1, LAUNCH_CLEANED, 0, NULL);
}

static void test_jobs(void)
{
	struct world *w = world_create(1);
	struct request *rq;
	char *text;
	uint64_t id = world_submit(w, GPU), other;

	check(w, REQ_SUBMIT, "a job");
	world_submit_full(w, ONE, "{\"dry_run\": true}", NULL, NULL);
	check(w, REQ_SUBMIT, "a dry run");
	other = world_submit_full(w, ONE, "{\"hold\": true}", "key", "0011");
	check(w, REQ_SUBMIT, "held");
	world_submit_full(w, ONE, "{\"hold\": true}", "key", "0011");
	check(w, REQ_SUBMIT, "a repeated request");
	why(w, id, "without nodes");
	why(w, other, "held");
	ask_all(w, "without nodes");
	ask(w, REQ_RELEASE, other, NULL, NULL, "of a held job");
	why(w, other, "behind another one");
	ask(w, REQ_RELEASE, other, NULL, NULL, "of one that waits");
	ask(w, REQ_REQUEUE, other, NULL, NULL, "of one that waits");
	ask(w, REQ_HOLD, other, NULL, NULL, "of one that waits");
	ask(w, REQ_HOLD, other, NULL, NULL, "again");
	ask(w, REQ_SET, other, NULL, "{\"priority\": 3, \"notes\": \"x\", \"tags\": {\"a\": \"b\"}}",
	    "of a few things");
	world_agent_up(w, "a", 2, 4);
	why(w, id, "while its node gets ready");
	ask_all(w, "while a job starts");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_beat(w, "a");
	why(w, id, "running");
	ask_all(w, "while a job runs");
	report_checkpoint(w, id);
	ask(w, REQ_CHECKPOINT, id, NULL, "{\"step\": 10, \"pinned\": true}", "of a step");
	ask(w, REQ_REQUEUE, id, NULL, NULL, "of one that runs");
	why(w, id, "ending");
	ask(w, REQ_STOP, id, NULL, "{\"grace_s\": 1}", "of one that runs");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 15, NULL);
	run_to_end(w, "a", id);
	is_str(world_status(w, id), "stopped", "it has ended");
	why(w, id, "ended");
	ask(w, REQ_STOP, id, NULL, NULL, "of one that has ended");
	rq = world_rq(w, REQ_CLONE, id);
	rq->text = xstrdup(ONE);
	rq->spec = spec_parse(ONE, strlen(ONE), NULL);
	core_request(w->core, rq);
	world_turn(w);
	check(w, REQ_CLONE, "of one that has ended");
	text = xasprintf("{\"command\": [\"/bin/x\"], \"resume_from\": \"job:%llu\"}", (unsigned long long)id);
	rq = world_rq(w, REQ_RETRY, id);
	rq->text = text;
	rq->spec = spec_parse(text, strlen(text), NULL);
	core_request(w->core, rq);
	world_turn(w);
	check(w, REQ_RETRY, "of one that has ended");
	ask(w, REQ_RM, id, NULL, NULL, "of one that has ended");
	ask(w, REQ_RM, id, NULL, NULL, "again");
	ask(w, REQ_STOP, other, NULL, NULL, "of a held one");
	world_destroy(w);
}

static void test_nodes(void)
{
	struct world *w = world_create(2);
	struct request *rq;
	char token[200], id[24];

	ask(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"join\", \"ttl_s\": 60}", "to join");
	snprintf(token, sizeof token, "%s", world_text(w, "token"));
	ask(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"user\", \"user\": \"bob\", \"scope\": \"read\", \"ttl_s\": 0}",
	    "for a user");
	ask(w, REQ_TOKENS, 0, NULL, NULL, "of both kinds");
	snprintf(id, sizeof id, "%s",
	         cJSON_GetStringValue(
	             cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "tokens"), 1), "id")));
	ask(w, REQ_TOKEN_RM, 0, id, NULL, "of a user");
	rq = world_rq(w, REQ_JOIN, 0);
	rq->role = ROLE_NONE;
	rq->body = cJSON_CreateObject();
	json_add_str(rq->body, "token", token);
	json_add_str(rq->body, "node", "new");
	json_add_str(rq->body, "csr", "csr");
	core_request(w->core, rq);
	world_turn(w);
	check(w, REQ_JOIN, "of a new node");
	ask_all(w, "with a node that was never here");
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 0, 2);
	world_beat(w, "a");
	ask_all(w, "with three");
	ask(w, REQ_DRAIN, 0, "a", "{\"reason\": \"new fan\"}", "for a reason");
	ask_all(w, "with one that is drained");
	ask(w, REQ_RESUME, 0, "a", NULL, "of a drained one");
	ask(w, REQ_RESUME, 0, "a", NULL, "again");
	ask(w, REQ_SPARE, 0, "a", NULL, "of a node in use");
	ask_all(w, "with a spare");
	ask(w, REQ_SPARE, 0, "a", "{\"off\": true}", "no more");
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "connection reset");
	world_turn(w);
	ask_all(w, "with one that is not connected");
	ask(w, REQ_NODE_LOST, 0, "b", "{\"reason\": \"burnt\"}", "of a silent one");
	ask_all(w, "with one that is lost");
	ask(w, REQ_NODE_RM, 0, "b", NULL, "of a lost one");
	ask_all(w, "with one that was removed");
	world_destroy(w);
}

static void test_queues(void)
{
	struct world *w = world_create(4);

	ask(w, REQ_QUEUES, 0, NULL, NULL, "with none");
	ask(w, REQ_QUEUE_SET, 0, "night", "{\"weight\": 2.5}", "of a new one");
	ask(w, REQ_QUOTA_SET, 0, "night", "{\"gpus\": 2, \"borrow\": true}", "of a queue");
	ask(w, REQ_QUOTA_SET, 0, "night/@ada", "{\"gpus\": 1}", "of a user");
	world_agent_up(w, "a", 1, 4);
	world_submit(w, GPU);
	world_submit(w, GPU);
	ask(w, REQ_QUEUES, 0, NULL, NULL, "with jobs");
	ask(w, REQ_QUOTA_RM, 0, "night", NULL, "of a queue");
	ask(w, REQ_QUEUE_RM, 0, "night", NULL, "without jobs");
	world_destroy(w);
}

static void test_reservations(void)
{
	struct world *w = world_create(5);

	world_agent_up(w, "a", 1, 4);
	world_submit(w, GPU);
	ask(w, REQ_RESERVES, 0, NULL, NULL, "with none");
	ask(w, REQ_RESERVE_ADD, 0, "x", "{\"for_s\": 100, \"count\": 1, \"queue\": \"default\"}", "for a queue");
	ask(w, REQ_RESERVE_SET, 0, "x", "{\"maintenance\": true, \"reason\": \"fans\"}", "for maintenance");
	ask(w, REQ_RESERVES, 0, NULL, NULL, "with one");
	ask_all(w, "with a reservation");
	ask(w, REQ_RESERVE_RM, 0, "x", NULL, "of one");
	world_destroy(w);
}

static void test_pools(void)
{
	static const char spec[] = "{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", "
	                           "\"resources\": {\"gpus_per_instance\": 1}, \"warm_pool\": "
	                           "{\"keep_alive_s\": 600}}";
	struct world *w = world_create(9);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	ask(w, REQ_POOLS, 0, NULL, NULL, "with none");
	id = world_submit(w, spec);
	world_begin(w, id);
	world_end_with(w, id, 0);
	ask(w, REQ_POOLS, 0, NULL, NULL, "with one");
	ask_all(w, "with a warm pool");
	world_submit_full(w, spec, "{\"dry_run\": true}", NULL, NULL);
	check(w, REQ_SUBMIT, "a dry run in a warm pool");
	ask(w, REQ_POOL, 0, "p", NULL, "of that name");
	ask(w, REQ_POOL_KEEP, 0, "p", "{\"keep_alive_s\": 900}", "for longer");
	id = world_submit(w, spec);
	why(w, id, "in a warm pool");
	ask_all(w, "while a job uses the pool");
	world_begin(w, id); /* a pool in use cannot be dropped */
	world_end_with(w, id, 0);
	ask(w, REQ_POOL_DROP, 0, "p", NULL, "of that name");
	world_request(w, REQ_POOLS, 0, NULL, "{\"state\": \"all\"}");
	check(w, REQ_POOLS, "with one that has ended");
	world_destroy(w);
}

static void test_instances(void)
{
	struct world *w = world_create(6);

	world_agent_up(w, "a", 1, 4);
	ask(w, REQ_INSTANCES, 0, NULL, NULL, "as shipped");
	ask(w, REQ_INSTANCE_SET, 0, "big",
	    "{\"gpus\": 8, \"gpu_model\": \"H100\", \"price_per_hour\": 30, \"formats\": [\"bf16\"], "
	    "\"as\": [\"ml.p5.48xlarge\"]}",
	    "of a new one");
	ask(w, REQ_INSTANCES, 0, NULL, NULL, "with an own one");
	ask(w, REQ_INSTANCE_RM, 0, "big", NULL, "of the own one");
	world_destroy(w);
}

static void test_budgets(void)
{
	struct world *w = world_create(7);

	ask(w, REQ_BUDGETS, 0, NULL, NULL, "with none");
	ask(w, REQ_BUDGET_SET, 0, "default", "{\"usd\": 10, \"period\": \"week\"}", "of a queue");
	ask(w, REQ_BUDGET_SET, 0, "default/@ada", "{\"usd\": 0.5, \"period\": \"day\"}", "of a user");
	ask(w, REQ_BUDGETS, 0, NULL, NULL, "with two");
	ask(w, REQ_BUDGET_RM, 0, "default", NULL, "of a queue");
	world_destroy(w);
}

/* While the store cannot be written. */
static void test_failing(void)
{
	struct world *w = world_create(3);

	world_agent_up(w, "a", 1, 4);
	w->fail_next = 1;
	world_submit(w, ONE);
	ok(w->core->life.failing, "the store fails");
	ask_all(w, "while the store fails");
	world_destroy(w);
}

/* A check that cannot fail would be none. */
static void test_the_check(void)
{
	cJSON *top = cJSON_Parse(
	    "{\"nodes\":{\"total\":1,\"up\":1,\"gpus\":0,\"gpus_used\":0,\"slots\":1,\"slots_used\":0,"
	    "\"warm_nodes\":0,\"warm_gpus\":0,\"parked_nodes\":0},"
	    "\"jobs\":{\"running\":0,\"starting\":0,\"stopping\":0,\"waiting\":0,\"held\":0},"
	    "\"running\":[],\"waiting\":[]}");

	ok(api_follows(top, "Top", schemas, 1), "an answer in order");
	cJSON_AddStringToObject(top, "extra", "x");
	ok(!api_follows(top, "Top", schemas, 1), "a member that is not described");
	ok(api_follows(top, "Top", schemas, 0), "which those who ignore it may have");
	cJSON_DeleteItemFromObjectCaseSensitive(top, "extra");
	cJSON_AddItemToArray(cJSON_GetObjectItem(top, "waiting"), cJSON_Parse("{\"id\":\"1\"}"));
	ok(!api_follows(top, "Top", schemas, 1), "a wrong type deep inside");
	cJSON_DeleteItemFromArray(cJSON_GetObjectItem(top, "waiting"), 0);
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItem(top, "jobs"), "held");
	ok(!api_follows(top, "Top", schemas, 1), "a member that is missing");
	cJSON_Delete(top);
}

int main(void)
{
	size_t n_routes;
	const struct route *routes = route_table(&n_routes);
	cJSON *document = openapi_build(routes, n_routes);

	schemas = api_schemas(document);
	test_the_check();
	test_jobs();
	test_nodes();
	test_queues();
	test_reservations();
	test_pools();
	test_instances();
	test_budgets();
	test_failing();
	for (int op = 0; op < N_OPS; op++)
		if (op != REQ_STATS && op != REQ_TOKEN_USED && /* nobody reads its answer */
		    op != REQ_BRIEF) /* it completes records of the store: test_core_suggest */
			ok(seen[op], "%s was looked at", request_op_text((enum request_op)op));
	cJSON_Delete(document);
	return tap_done();
}
