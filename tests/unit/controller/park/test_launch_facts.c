/* What a launch and a job must have in common: versions of each node, and the order of places. */
#include "common/base/clock.h"
#include "controller/state/launch_facts.h"
#include "tests/unit/controller/share/pool_kit.h"

/* Versions of the agents of three nodes, one letter each, as the record has them; static. */
static const char *versions_of(struct world *w, const char *letters)
{
	static char out[80];
	static const char *const names[] = {"a", "b", "c"};
	struct sched_place at[3] = {0};
	struct err e;
	struct job_spec *s = spec_parse(SHORT, strlen(SHORT), &e);
	cJSON *facts;
	char *text;

	for (int i = 0; i < 3; i++) {
		struct cnode *n = node_find(w->core, names[i]);

		at[i].node = n->r.id;
		snprintf(n->software, sizeof n->software, "%c", letters[i]);
		snprintf(n->inv.software, sizeof n->inv.software, "x");
	}
	facts = launch_facts_of_places(w->core, s, "x", at, 3);
	text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(facts, "versions"));
	snprintf(out, sizeof out, "%s", text);
	free(text);
	cJSON_Delete(facts);
	spec_destroy(s);
	return out;
}

static void test_versions(void)
{
	struct world *w = world_create(290);

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	is_str(versions_of(w, "111"), "[\"1 x\"]", "equal versions are one entry");
	is_str(versions_of(w, "112"), "[\"1 x\",\"1 x\",\"2 x\"]", "others are one for each node");
	is_str(versions_of(w, "122"), "[\"1 x\",\"2 x\",\"2 x\"]", "so an upgrade of one is seen");
	world_destroy(w);
}

#define NODES 512

static void test_order(void)
{
	struct world *w = world_create(291);
	struct sched_place *v = xcalloc(NODES, sizeof *v);
	struct pool_rec p = {.parked = 1};
	cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "nodes");
	uint64_t *ids = xcalloc(NODES, sizeof *ids);
	unsigned good = 0;
	uint64_t took;

	for (unsigned i = 0; i < NODES; i++) {
		char name[64];

		snprintf(name, sizeof name, "gpu-node-rack12-%04u.cluster.example", i);
		world_agent_up(w, name, 1, 4);
		cJSON_AddItemToArray(list, cJSON_CreateString(name));
		ids[i] = node_find(w->core, name)->r.id;
		v[NODES - 1 - i].node = ids[i];
		v[i].group = i >= 100;
	}
	p.launch = cJSON_PrintUnformatted(o);
	took = clock_thread_cpu_us();
	pool_order(w->core, &p, v, NODES);
	took = clock_thread_cpu_us() - took;
	for (unsigned i = 0; i < NODES; i++) /* each group by itself: the first 100 places are the last nodes */
		good += v[i].node == ids[i < 100 ? NODES - 100 + i : i - 100] && v[i].group == (i >= 100);
	is_int((int)good, NODES, "places get the order of the launch that waits, group by group");
	ok(took < 50000, "512 nodes in reverse order: %llu us", (unsigned long long)took);
	cJSON_free(p.launch);
	cJSON_Delete(o);
	free(v);
	free(ids);
	world_destroy(w);
}

int main(void)
{
	test_versions();
	test_order();
	return tap_done();
}
