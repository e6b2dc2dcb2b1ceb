/* Jobs within one switch or rack, as users see it: labels of nodes, soft and hard spans, why, refusals. */
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define GANG(n, placement)                                                                                   \
	"{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"instances\": " #n               \
	", \"gpus_per_instance\": 2, \"ranks_per_instance\": 1, \"placement\": {" placement "}}}"
#define PIN(label)                                                                                           \
	"{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"instances\": 1, "               \
	"\"gpus_per_instance\": 2, \"ranks_per_instance\": 1, \"requires\": [\"" label "\"]}}"
#define SWITCH "\"span\": \"switch\", \"hard\": true"
#define RACK   "\"span\": \"rack\", \"hard\": true"

static void node(struct world *w, const char *name, const char *on, const char *in, const char *own)
{
	const char *labels[4] = {own, on ? on : in, on ? in : NULL, NULL};

	w->labels = labels;
	world_agent_up(w, name, 2, 8);
	w->labels = NULL;
}

/* a, b on s1, c, d on s2; a, b, c in r1. */
static struct world *cluster(uint64_t seed)
{
	struct world *w = world_create(seed);

	node(w, "a", "switch=s1", "rack=r1", "me=a");
	node(w, "b", "switch=s1", "rack=r1", "me=b");
	node(w, "c", "switch=s2", "rack=r1", "me=c");
	node(w, "d", "switch=s2", NULL, "me=d");
	return w;
}

static const char *text_of(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	return s ? s : "";
}

/* Of the answer to GET /nodes. */
static const cJSON *shown(const struct world *w, const char *name)
{
	const cJSON *n;

	cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(w->body, "nodes"))
		if (strcmp(text_of(n, "name"), name) == 0)
			return n;
	return NULL;
}

static void refused(struct world *w, const char *spec, const char *part)
{
	is_int((int)world_submit(w, spec), 0, "refused");
	like(w->err.text, part, "it says why");
}

static void test_shown(void)
{
	struct world *w = cluster(1);

	node(w, "e", NULL, NULL, "fast");
	world_request(w, REQ_NODES, 0, NULL, "{}");
	is_str(text_of(shown(w, "a"), "switch"), "s1", "the switch of a node");
	is_str(text_of(shown(w, "a"), "rack"), "r1", "its rack");
	ok(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(shown(w, "d"), "rack")), "one has none");
	ok(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(shown(w, "e"), "switch")), "nor has one without labels");
	world_end_well(w);
}

static void test_hard(void)
{
	struct world *w = cluster(2);
	uint64_t a = world_submit(w, PIN("me=a")), c = world_submit(w, PIN("me=c")), soft, hard;

	world_turn(w);
	soft = world_submit(w, GANG(2, "\"span\": \"switch\""));
	world_turn(w);
	ok(strcmp(world_status(w, soft), "queued") != 0, "a soft span spreads: %s", world_status(w, soft));
	world_request(w, REQ_STOP, soft, NULL, "{}");
	world_turn(w);
	hard = world_submit(w, GANG(2, SWITCH));
	world_turn(w);
	is_str(world_status(w, hard), "queued", "a hard one waits");
	world_request(w, REQ_WHY, hard, NULL, "{}");
	like(world_text(w, "text"), "all on one switch", "why says for what");
	(void)a;
	(void)c;
	world_end_well(w);
}

static void test_refused(void)
{
	struct world *w = cluster(3);

	refused(w, GANG(3, SWITCH), "nearest is switch s1, where 2 of 2 known nodes could take one: 2 instances");
	refused(w, GANG(3, SWITCH), "it would be possible with resources.placement.hard=false");
	refused(w, GANG(4, RACK), "nearest is rack r1, where 3 of 3 known nodes could take one: 3 instances");
	world_submit_full(w, GANG(3, RACK), "{\"dry_run\": true}", NULL, NULL);
	like(world_text(w, "text"), "start", "three are in one rack");
	ok(world_submit(w, GANG(3, RACK)) > 0, "which is taken");
	ok(world_submit(w, GANG(4, "\"span\": \"rack\"")) > 0, "so is a soft span that none could hold");
	world_end_well(w);

	w = world_create(4);
	node(w, "a", NULL, NULL, "fast");
	node(w, "b", NULL, NULL, "fast");
	refused(w, GANG(2, SWITCH), "hearth-agent --labels switch=NAME");
	ok(world_submit(w, GANG(2, "\"span\": \"node\"")) > 0, "a soft span is taken without labels");
	world_end_well(w);
}

/* An agent that comes back with another label. */
static void test_labels_change(void)
{
	struct world *w = cluster(5);

	refused(w, GANG(3, SWITCH), "2 instances at most");
	node(w, "c", "switch=s1", "rack=r1", "me=c");
	ok(world_submit(w, GANG(3, SWITCH)) > 0, "now three are on one switch");
	world_turn(w);
	node(w, "b", NULL, "rack=r1", "me=b");
	refused(w, GANG(3, SWITCH), "2 instances at most");
	world_end_well(w);
}

int main(void)
{
	test_shown();
	test_hard();
	test_refused();
	test_labels_change();
	return tap_done();
}
