/*
 * Spares get the trees of running jobs ahead: which jobs, how many, how often; the newest checkpoint when a
 * node is suspect; an end to what nobody needs any more.
 */
#include "controller/cluster/prefetch.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define SECOND 1000000ull
#define BUNDLE "{\"bundle\": \"1111111111111111111111111111111111111111111111111111111111111111\"}"
#define KEPT   "2222222222222222222222222222222222222222222222222222222222222222"

static const char two[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
                          "{\"instances\": 2, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}";
static struct world *w;

static void pass(unsigned seconds, const char *silent)
{
	while (seconds--) {
		for (struct cnode *n = node_first(w->core); n; n = node_next(n))
			if (n->connected && !strstr(silent, n->name))
				world_beat(w, n->name);
		world_advance(w, SECOND);
	}
}

static void start(uint64_t id, const char *const *nodes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		world_launch(w, nodes[i], id, 1, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; i < n; i++) {
		world_launch(w, nodes[i], id, 1, LAUNCH_RUNNING, 0, NULL);
		world_rank(w, nodes[i], id, 1, i, PS_RUNNING, 0, 0, NULL);
	}
}

/* The next order to c: "JOB TREES", with a mark for an urgent one; "" none. */
static const char *next_order(void)
{
	static char text[512];
	struct sent *s = world_sent(w, "c", WM_PREFETCH);
	const struct wm_prefetch *m = s ? s->msg : NULL;
	size_t n = 0;

	text[0] = '\0';
	if (!m)
		return text;
	n += (size_t)snprintf(text, sizeof(text), "%s%d", m->urgent ? "!" : "", (int)m->job);
	for (uint32_t i = 0; i < m->trees.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %.1s", m->trees.v[i]);
	sent_free(s);
	return text;
}

static void checkpoint(uint64_t id)
{
	struct wm_checkpoint_report m = {.job = id,
	                                 .attempt = 1,
	                                 .epoch = 1,
	                                 .seq = 1,
	                                 .step = 10,
	                                 .name = (char *)(uintptr_t) "ckpt",
	                                 .format = (char *)(uintptr_t) "plain",
	                                 .step_by = (char *)(uintptr_t) "name",
	                                 .state = CKPT_VERIFIED,
	                                 .size_bytes = 10,
	                                 .files = 1,
	                                 .digest = (char *)(uintptr_t)KEPT,
	                                 .uri = (char *)(uintptr_t)CKPT_URI_STORE,
	                                 .text = (char *)(uintptr_t) ""};

	world_msg(w, "a", 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(w);
}

/* a and b run job 1; c is a spare. */
static uint64_t begin_spec(uint64_t seed, uint32_t version, const char *spec)
{
	uint64_t id;

	w = world_create(seed);
	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	w->version = version;
	world_agent_up(w, "c", 1, 4);
	w->version = 0;
	is_int(world_request(w, REQ_SPARE, 0, "c", "{}"), 200, "c is a spare");
	id = world_submit_full(w, spec, BUNDLE, NULL, NULL);
	start(id, (const char *const[]){"a", "b"}, 2);
	is_str(world_status(w, id), "running", "a job runs");
	pass(2, "");
	return id;
}

static uint64_t begin(uint64_t seed, uint32_t version)
{
	return begin_spec(seed, version, two);
}

static void is_order(const char *holds, const char *name)
{
	struct sent *s = world_sent(w, "c", WM_PREFETCH);
	const struct wm_prefetch *m = s ? s->msg : NULL;

	ok(m && strstr(m->spec, holds) && (*holds ? m->account[0] && m->bundle[0] == '1' : !m->spec[0]), "%s",
	   name);
	sent_free(s);
}

static void test_environment(void)
{
	static const char wheels[] =
	    "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"source_dir\": \"src\", "
	    "\"requirements\": \"req.txt\", \"resources\": "
	    "{\"instances\": 2, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}";

	begin(7, 0);
	is_order("", "a job without requirements needs only its trees");
	world_end_well(w);
	begin_spec(8, 0, wheels);
	is_order("\"req.txt\"", "a spare gets what it needs to make the environment of a running job");
	is_str(next_order(), "", "once");
	world_end_well(w);
}

static void test_running(void)
{
	uint64_t id = begin(1, 0);

	is_str(next_order(), "1 1", "a spare gets the source tree of a running job");
	pass(5, "");
	is_str(next_order(), "", "once");
	is_int(world_count(w, "a", WM_PREFETCH) + world_count(w, "b", WM_PREFETCH), 0, "other nodes get nothing");
	world_agent_up(w, "c", 1, 4);
	pass(2, "");
	is_str(next_order(), "1 1", "again when it connects again");
	world_request(w, REQ_STOP, id, NULL, "{}");
	for (uint32_t i = 0; i < 2; i++) {
		world_rank(w, i ? "b" : "a", id, 1, i, PS_EXITED, 0, 15, NULL);
		world_launch(w, i ? "b" : "a", id, 1, LAUNCH_ENDED, 0, NULL);
	}
	for (uint32_t i = 0; i < 2; i++)
		world_launch(w, i ? "b" : "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	pass(2, "");
	is_str(next_order(), "1", "the end of the job ends its order");
	is_str(next_order(), "", "once");
	world_end_well(w);
}

static void test_suspect(void)
{
	uint64_t id = begin(2, 0);

	next_order();
	checkpoint(id);
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "reset by peer");
	pass(1, "b");
	is_str(next_order(), "!1 1 2", "a suspect node: its spare gets source tree and checkpoint first");
	pass(2, "b");
	is_str(next_order(), "", "once");
	world_end_well(w);
}

static void test_left_out(void)
{
	begin(3, 2);
	is_str(next_order(), "", "an agent of the version before gets none");
	world_end_well(w);
	begin(4, 0);
	next_order();
	world_request(w, REQ_SPARE, 0, "c", "{\"off\": true}");
	world_agent_up(w, "c", 1, 4);
	pass(2, "");
	is_str(next_order(), "", "an ordinary node gets none");
	world_end_well(w);
}

static void test_bounds(void)
{
	static const char one[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
	                          "{\"instances\": 1, \"ranks_per_instance\": 1}}";
	unsigned n;

	w = world_create(5);
	world_agent_up(w, "a", 0, 32);
	for (int i = 0; i < 20; i++)
		start(world_submit_full(w, one, BUNDLE, NULL, NULL), (const char *const[]){"a"}, 1);
	world_agent_up(w, "c", 0, 32);
	world_request(w, REQ_SPARE, 0, "c", "{}");
	pass(3, "");
	n = world_count(w, "c", WM_PREFETCH);
	is_int(n, PREFETCH_JOBS, "a spare gets the trees of sixteen jobs");
	is_str(next_order(), "20 1", "the newest of equal ones first");
	world_end_well(w);
}

int main(void)
{
	test_running();
	test_environment();
	test_suspect();
	test_left_out();
	test_bounds();
	return tap_done();
}
