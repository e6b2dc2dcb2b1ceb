/*
 * What a suspect node says of itself to agents that were asked: which words end a launch at once, and which
 * prove nothing.
 */
#include "controller/cluster/looks.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#include <string.h>

#define ONE                                                                                                  \
	"{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": "                   \
	"{\"max_attempts\": 0, \"capacity\": 0}}"

static struct world *w;
static uint64_t job;

static void beats(const char *names, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		for (const char *p = names; *p; p++)
			world_beat(w, (char[]){*p, '\0'});
		world_advance(w, 1000000);
	}
}

/* Three nodes; a runs a job, and its connection ends. */
static void begin(uint64_t seed)
{
	w = world_create(seed);
	world_agent_up(w, "a", 1, 1);
	job = world_submit(w, ONE);
	world_begin(w, job);
	world_agent_up(w, "b", 1, 1);
	world_agent_up(w, "c", 1, 1);
	beats("abc", 12);
	world_forget(w);
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "reset");
	world_advance(w, 300000);
}

/* a connects again and reports its launch. */
static void back(void)
{
	uint64_t session = world_agent_connect(w, "a");
	struct wm_sync_begin b = {.instance = 1};
	struct wm_sync_end end = {.instance = 1};

	world_msg(w, "a", session, WM_SYNC_BEGIN, &b);
	world_launch(w, "a", job, 1, LAUNCH_RUNNING, RC_NONE, "");
	world_msg(w, "a", session, WM_SYNC_END, &end);
	world_turn(w);
}

static void finish(void)
{
	world_end_well(w);
}

static uint64_t asked(const char *node)
{
	struct sent *s = world_sent(w, node, WM_NODE_ASK);
	uint64_t ask = s ? ((struct wm_node_ask *)s->msg)->ask : 0;

	if (s)
		sent_free(s);
	return ask;
}

/* by says that a answered so. */
static void says(const char *by, uint64_t ask, uint8_t reach, const char *boot_id, uint64_t instance,
                 int missing)
{
	uint32_t first = 0;
	struct wm_node_seen m = {.ask = ask,
	                         .node = (char *)(uintptr_t) "a",
	                         .reach = reach,
	                         .boot_id = (char *)(uintptr_t)boot_id,
	                         .instance = instance};

	if (missing)
		m.missing = (struct wire_u32v){.v = &first, .n = 1};
	world_msg(w, by, 0, WM_NODE_SEEN, &m);
	world_turn(w);
}

static int is_over(void)
{
	const char *s = world_status(w, job);

	return strcmp(s, "running") != 0;
}

static void test_question(void)
{
	struct sent *s;
	struct wm_node_ask *m;
	uint64_t first;

	begin(1);
	s = world_sent(w, "b", WM_NODE_ASK);
	ok(s != NULL, "an agent is asked as soon as the node is suspect");
	m = s ? s->msg : NULL;
	like(m ? m->peer : NULL, "a 10.77.0", "at the node's peer port");
	ok(m && m->jobs.n == 1 && m->jobs.v[0] == job && m->attempts.v[0] == 1, "about its launch");
	first = m ? m->ask : 0;
	if (s)
		sent_free(s);
	is_int((int64_t)(asked("c") == first), 1, "and another agent");
	is_int(world_count(w, "b", WM_NODE_ASK), 0, "once");
	beats("bc", 3);
	ok(world_count(w, "b", WM_NODE_ASK) == 1 && asked("b") != first, "again after a quarter of a lease");
	is_int(world_count(w, "a", WM_NODE_ASK), 0, "the node itself is not asked");
	back();
	world_forget(w);
	beats("abc", 6);
	is_int(world_count(w, "b", WM_NODE_ASK), 0, "and no more when it is heard");
	finish();
	begin(2);
	world_forget(w);
	says("b", 1, SIGHT_ANSWERED, "other", 7, 1);
	ok(!is_over(), "a number that was not given proves nothing");
	finish();
}

static void test_nobody_there(void)
{
	uint64_t ask;

	begin(3);
	ask = asked("b");
	says("b", ask, SIGHT_AWAY, "", 0, 0);
	says("c", ask, SIGHT_SILENT, "", 0, 0);
	ok(!is_over(), "no answer proves nothing");
	beats("bc", 10);
	ok(!is_over(), "the lease decides");
	beats("bc", 3);
	ok(is_over(), "when it is over");
	finish();
}

static void test_other_boot(void)
{
	begin(4);
	says("b", asked("b"), SIGHT_ANSWERED, "other", 7, 0);
	ok(is_over(), "another boot: the launch is over at once");
	like(world_reason(w, job), "node a was lost: the machine was restarted, its agent said to b",
	     "it says so");
	is_int(node_find(w->core, "a")->r.state, NODE_UP, "the lease goes on for the node itself");
	finish();
}

static void test_other_agent(void)
{
	uint64_t ask;

	begin(5);
	ask = asked("b");
	says("b", ask, SIGHT_ANSWERED, "b", 1, 1);
	ok(!is_over(), "the agent that hearthd knows contradicts itself: no proof");
	says("b", ask, SIGHT_ANSWERED, "b", 7, 0);
	ok(!is_over(), "another agent that does not deny the launch");
	says("b", ask, SIGHT_ANSWERED, "", 0, 1);
	ok(!is_over(), "an agent without a number");
	says("b", ask, SIGHT_ANSWERED, "b", 7, 1);
	ok(is_over(), "another agent that denies it: over at once");
	like(world_reason(w, job), "started again and has nothing of the launch", "it says so");
	finish();
}

static void test_stale_answers(void)
{
	uint64_t ask;

	begin(6);
	ask = asked("b");
	world_agent_up(w, "d", 1, 1);
	says("d", ask, SIGHT_ANSWERED, "other", 7, 1);
	ok(!is_over(), "the word of an agent that was not asked");
	back();
	says("b", ask, SIGHT_ANSWERED, "other", 7, 1);
	ok(!is_over(), "an answer after the node is heard again");
	beats("abc", 12);
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "reset");
	world_advance(w, 300000);
	says("b", ask, SIGHT_ANSWERED, "other", 7, 1);
	ok(!is_over(), "an answer to a question of an earlier silence");
	ask = asked("b");
	beats("bc", 3);
	says("b", ask, SIGHT_ANSWERED, "other", 7, 1);
	ok(!is_over(), "or to one that was asked again since");
	says("b", asked("b"), SIGHT_ANSWERED, "other", 7, 1);
	ok(is_over(), "the present one counts");
	finish();
}

/* A restart of hearthd: it knows no boot and no agent until the node connects. */
static void test_unknown_boot(void)
{
	uint64_t ask;

	begin(7);
	world_restart(w);
	world_agent_up(w, "b", 1, 1);
	world_agent_up(w, "c", 1, 1);
	beats("bc", 6);
	ask = asked("b");
	ok(ask != 0, "hearthd was started again: it asks about the node that does not come");
	says("b", ask, SIGHT_ANSWERED, "other", 7, 1);
	ok(!is_over(), "but knows nothing to compare the answer with");
	finish();
}

static void test_old_agents(void)
{
	begin(8);
	finish();
	w = world_create(9);
	world_agent_up(w, "a", 1, 1);
	job = world_submit(w, ONE);
	world_begin(w, job);
	w->version = 2;
	world_agent_up(w, "b", 1, 1);
	beats("ab", 12);
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "reset");
	world_advance(w, 300000);
	is_int(world_count(w, "b", WM_NODE_ASK), 0, "an agent of the version before is not asked");
	finish();
}

/* The node connects in another boot before its lease is over. */
static void test_hello(void)
{
	begin(10);
	w->boot_id = "other";
	world_agent_up(w, "a", 1, 1);
	ok(is_over(), "it has connected in another boot: the launch is over at once");
	like(world_reason(w, job), "the machine was restarted", "it says so");
	is_int(world_count(w, "a", WM_KILL), 0, "without an order to its agent");
	w->boot_id = NULL;
	finish();
	begin(11);
	w->instance = 7;
	world_agent_up(w, "a", 1, 1);
	ok(!is_over() || world_count(w, "a", WM_KILL) == 1,
	   "another agent in the same boot that reports nothing: it is asked to make sure");
	w->instance = 0;
	finish();
}

/* A cut of two seconds restarts nothing. */
static void test_short_cut(void)
{
	begin(12);
	beats("bc", 2);
	back();
	beats("abc", 20);
	ok(!is_over(), "a node that is back in time goes on");
	is_int(node_find(w->core, "a")->suspect_since_us != 0, 0, "and is not suspect");
	finish();
}

/* A frozen agent accepts connections and answers nobody; a frozen host does not even that. Both come back
 * after the lease, with a launch that is not theirs any more. */
static void test_late_return(uint8_t reach)
{
	struct sent *s;

	begin(13 + reach);
	for (int i = 0; i < 5; i++) {
		uint64_t ask = asked("b");

		if (ask)
			says("b", ask, reach, "", 0, 0);
		ok(!is_over(), "second %d of the silence: not over", 2 * i);
		beats("bc", 2);
	}
	beats("bc", 3);
	ok(is_over(), "over at the end of the lease");
	is_int(node_find(w->core, "a")->r.state, NODE_LOST, "and the node is lost");
	world_forget(w);
	back();
	s = world_sent(w, "a", WM_KILL);
	ok(s && ((struct wm_kill *)s->msg)->job == job, "it comes back: what it has is killed");
	if (s)
		sent_free(s);
	is_int(node_find(w->core, "a")->sched_usable, 0, "and it gets no work");
	world_launch(w, "a", job, 1, LAUNCH_ENDED, RC_NODE_LOST, "");
	world_launch(w, "a", job, 1, LAUNCH_CLEANED, RC_NONE, "");
	world_turn(w);
	is_int(node_find(w->core, "a")->sched_usable, 1, "until nothing is left of it");
	finish();
}

int main(void)
{
	test_question();
	test_nobody_there();
	test_other_boot();
	test_other_agent();
	test_stale_answers();
	test_unknown_boot();
	test_old_agents();
	test_hello();
	test_short_cut();
	test_late_return(SIGHT_SILENT);
	test_late_return(SIGHT_AWAY);
	return tap_done();
}
