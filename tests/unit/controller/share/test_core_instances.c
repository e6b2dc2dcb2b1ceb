/* Instance types in the core: prices of nodes, what jobs may run on, changes while jobs wait, restarts. */
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void node(struct world *w, const char *name, const char *type, double price)
{
	w->type = type;
	w->price = price;
	world_agent_up(w, name, 4, 8);
}

static int ask(struct world *w, enum request_op op, const char *name, const char *body)
{
	return world_request(w, op, 0, name, body);
}

static uint64_t submit(struct world *w, const char *types, unsigned gpus, const char *more)
{
	char spec[400];

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"instance_type\": %s, "
	         "\"gpus_per_instance\": %u, \"ranks_per_instance\": 1%s}}",
	         types, gpus, more);
	return world_submit(w, spec);
}

static const char *place(const struct world *w, uint64_t job)
{
	const struct cjob *j = job_find(w->core, job);

	return j && j->r.att && j->r.att->n_places ? j->r.att->places[0].node : "";
}

static double node_number(struct world *w, const char *name, const char *key)
{
	const cJSON *n, *v;

	ask(w, REQ_NODES, name, NULL);
	n = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "nodes"), 0);
	v = cJSON_GetObjectItemCaseSensitive(n, key);
	return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

static const cJSON *listed(struct world *w, const char *name)
{
	const cJSON *t;

	ask(w, REQ_INSTANCES, NULL, NULL);
	cJSON_ArrayForEach (t, cJSON_GetObjectItemCaseSensitive(w->body, "instances"))
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(t, "name")), name) == 0)
			return t;
	return NULL;
}

static void test_objects(void)
{
	struct world *w = world_create(1);

	node(w, "a", "ml.p4d.24xlarge", 0);
	node(w, "b", "cabin", 2);
	node(w, "c", "cabin", 0);
	is_int((int)cJSON_GetObjectItemCaseSensitive(listed(w, "p4d.24xlarge"), "nodes")->valuedouble, 1,
	       "a node is counted at its type");
	ok(listed(w, "cabin") != NULL, "a type that only nodes name is listed");
	is_int(ask(w, REQ_INSTANCE_SET, "cabin", "{\"price_per_hours\": 3}"), 400, "a key that there is not");
	like(w->err.text, "price_per_hour", "with the nearest");
	is_int(ask(w, REQ_INSTANCE_SET, "a b", "{\"gpus\": 3}"), 400, "a name that is none");
	is_int(ask(w, REQ_INSTANCE_SET, "cabin", "{\"price_per_hour\": 3, \"gpus\": 4}"), 200, "a price is set");
	ok(node_number(w, "c", "price_per_hour") == 3, "a node without a price takes its type's");
	ok(node_number(w, "b", "price_per_hour") == 2, "one with a price keeps it");
	is_int(ask(w, REQ_INSTANCES, "ml.cabin", NULL), 200, "one type is shown by its name");
	is_int(ask(w, REQ_INSTANCES, "cabim", NULL), 404, "one that there is not");
	like(w->err.text, "did you mean \"cabin\"?", "with the nearest");
	world_restart(w);
	node(w, "c", "cabin", 0);
	ok(node_number(w, "c", "price_per_hour") == 3, "all of it outlives a restart");
	is_int(ask(w, REQ_INSTANCE_RM, "cabin", NULL), 200, "it is taken back");
	ok(node_number(w, "c", "price_per_hour") == 0, "and with it the price");
	is_int(ask(w, REQ_INSTANCE_RM, "cabin", NULL), 404, "once");
	world_restart(w);
	node(w, "c", "cabin", 0);
	ok(node_number(w, "c", "price_per_hour") == 0, "that outlives a restart, too");
	world_end_well(w);
}

/* Of nodes that cost the same the one that needs less power. */
static void test_power(void)
{
	struct world *w = world_create(7);

	node(w, "a", "hot", 0);
	node(w, "b", "cool", 0);
	is_int(ask(w, REQ_INSTANCE_SET, "hot", "{\"power_w\": 6500}"), 200, "what a type needs is set");
	is_int(ask(w, REQ_INSTANCE_SET, "cool", "{\"power_w\": 3000.5}"), 200, "of another, too");
	is_int(ask(w, REQ_INSTANCE_SET, "cool", "{\"power_w\": -1}"), 400, "not less than nothing");
	ok(node_number(w, "a", "power_w") == 6500 && node_number(w, "b", "power_w") == 3000.5, "nodes show it");
	is_str(place(w, submit(w, "\"any\"", 4, "")), "b", "the second needs less");
	is_str(place(w, submit(w, "\"any\"", 4, "")), "a", "then the first");
	world_end_well(w);
}

static void test_preference(void)
{
	struct world *w = world_create(2);
	uint64_t first, second, third;

	node(w, "a", "slow", 0);
	node(w, "b", "ml.p4d.24xlarge", 0);
	first = submit(w, "[\"ml.p4d.24xlarge\", \"slow\"]", 4, "");
	is_str(place(w, first), "b", "the first of the list that can take it");
	second = submit(w, "[\"ml.p4d.24xlarge\", \"slow\"]", 4, "");
	is_str(place(w, second), "a", "then the next one");
	third = submit(w, "\"p4d.24xlarge\"", 1, "");
	is_str(world_status(w, third), "queued", "a job of one type waits for that type");
	is_int(world_request(w, REQ_WHY, third, NULL, "{}"), 200, "and why says so");
	like(world_text(w, "text"), "b: 0 of 4 GPUs free", "by its nodes alone");
	world_end_well(w);
}

static void test_refusals(void)
{
	struct world *w = world_create(3);

	is_int((int)submit(w, "\"ml.p4d.24xlrge\"", 1, ""), 0, "an unknown type is refused");
	is_int(w->status, 409, "as other impossible requests are");
	golden("hearthd/instances-no-instance-type-ml-p-d-xlrge", w->err.text, "\"ml.p4d.24xlrge\"",
	       "\"p4d.24xlarge\"");
	ok(submit(w, "\"ml.p4d.24xlarge\"", 1, "") > 0, "a known one waits while no node has joined");
	node(w, "a", "cabin", 0);
	ok(submit(w, "\"cabin\"", 1, "") > 0, "a name that a node gives is known");
	is_int((int)submit(w, "[\"ml.p4d.24xlarge\", \"p5.48xlarge\"]", 1, ""), 0, "a type that no node is of");
	golden("hearthd/instances-no-node-is-of-type-ml-p", w->err.text, "resources.instance_type", "4d.24xlarge",
	       "jobctl instances set TYPE");
	golden("hearthd/instances-the-types-here-are-cabin", w->err.text, "resources.instance_type",
	       "4d.24xlarge", "jobctl instances set TYPE");
	is_int((int)submit(w, "[\"p5.48xlarge\", \"cabbin\"]", 1, ""), 0, "each name of a list is looked at");
	like(w->err.text, "did you mean \"cabin\"?", "and the wrong one is named");
	world_end_well(w);
}

static void test_mapping(void)
{
	struct world *w = world_create(4);
	uint64_t waiting, other;

	waiting = submit(w, "[\"ml.p4d.24xlarge\"]", 2, "");
	node(w, "a", "cabin", 0);
	is_str(world_status(w, waiting), "queued", "no node is of its type");
	is_int(ask(w, REQ_INSTANCE_SET, "cabin", "{\"as\": [\"ml.p4d.24xlarge\"]}"), 200,
	       "own nodes stand in for it");
	is_str(place(w, waiting), "a", "the waiting job starts there at once");
	other = submit(w, "\"p4d.24xlarge\"", 2, "");
	is_str(place(w, other), "a", "and so do later ones");
	ok(submit(w, "\"p4d.24xlarge\"", 4, "") > 0, "one more waits");
	is_int(ask(w, REQ_INSTANCE_SET, "cabin", "{\"as\": null}"), 200, "taken back");
	is_int((int)submit(w, "\"p4d.24xlarge\"", 1, ""), 0, "it is impossible again");
	world_restart(w);
	node(w, "a", "cabin", 0);
	is_int((int)submit(w, "\"p4d.24xlarge\"", 1, ""), 0, "after a restart, too");
	world_destroy(w);
}

static void test_formats(void)
{
	struct world *w = world_create(5);
	uint64_t id;

	node(w, "a", "p3.2xlarge", 0);
	node(w, "b", "g5.xlarge", 0);
	id = submit(w, "\"any\"", 1, ", \"requires\": [\"bf16\"]");
	is_str(place(w, id), "b", "number formats can be required");
	is_int((int)submit(w, "\"any\"", 1, ", \"requires\": [\"fp8\"]"), 0, "none has that one");
	is_int(ask(w, REQ_INSTANCE_SET, "p3.2xlarge", "{\"formats\": [\"fp8\"]}"), 200, "until it is said");
	id = submit(w, "\"any\"", 1, ", \"requires\": [\"fp8\"]");
	is_str(place(w, id), "a", "of a node");
	world_end_well(w);
}

int main(void)
{
	test_objects();
	test_power();
	test_preference();
	test_refusals();
	test_mapping();
	test_formats();
	return tap_done();
}
