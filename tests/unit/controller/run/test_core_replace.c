/*
 * Between two attempts a job keeps its nodes, and waits for others in place of those that it lost: on a full
 * cluster on which fifty other jobs wait. Over restarts, drains, further losses, and requests of its owner.
 */
#include <stdio.h>
#include <string.h>

#include "controller/share/alloc.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define SECOND 1000000ull
#define OTHERS 50

static const char gang[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
                           "{\"instances\": 4, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}";
static const char one[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
                          "{\"instances\": 1, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}";
static const char all[] = "abcd";

static void up(struct world *w, char node)
{
	world_agent_up(w, (char[]){node, '\0'}, 1, 2);
}

static void pass(struct world *w, unsigned seconds)
{
	while (seconds--) {
		for (struct cnode *n = node_first(w->core); n; n = node_next(n))
			if (n->connected)
				world_beat(w, n->name);
		world_advance(w, SECOND);
	}
}

/* The nodes of a job's present attempt, in the order of their ranks; "" it has none. */
static const char *nodes_of(struct world *w, uint64_t id)
{
	static char out[8];
	const struct cjob *j = job_find(w->core, id);
	size_t n = 0;

	for (uint32_t i = 0; j && j->act && i < j->r.att->n_places; i++)
		out[n++] = j->r.att->places[i].node[0];
	out[n] = '\0';
	return out;
}

static unsigned count_waiting(struct world *w)
{
	unsigned n = 0;

	for (uint64_t id = 2; id < 2 + OTHERS; id++)
		n += strcmp(world_status(w, id), "queued") == 0;
	return n;
}

static void begin(struct world *w, uint32_t attempt)
{
	char nodes[8];

	snprintf(nodes, sizeof nodes, "%s", nodes_of(w, 1));
	for (size_t i = 0; nodes[i]; i++)
		world_launch(w, (char[]){nodes[i], '\0'}, 1, attempt, LAUNCH_READY, 0, NULL);
	for (uint32_t i = 0; nodes[i]; i++)
		world_rank(w, (char[]){nodes[i], '\0'}, 1, attempt, i, PS_RUNNING, 0, 0, NULL);
	is_str(world_status(w, 1), "running", "the attempt runs");
}

/* The ranks on these nodes are over, and nothing of them is left. The first of them ended by itself with
 * code; 0: all were killed. */
static void end_on(struct world *w, uint32_t attempt, const char *nodes, uint32_t code)
{
	char had[8];

	snprintf(had, sizeof had, "%s", nodes_of(w, 1));
	for (size_t i = 0; nodes[i]; i++) {
		const char node[] = {nodes[i], '\0'};

		world_rank(w, node, 1, attempt, (uint32_t)(strchr(had, nodes[i]) - had), PS_EXITED, i ? 0 : code,
		           i || !code ? 9 : 0, "it broke\n");
		world_launch(w, node, 1, attempt, LAUNCH_ENDED, 0, NULL);
	}
	for (size_t i = 0; nodes[i]; i++)
		world_launch(w, (char[]){nodes[i], '\0'}, 1, attempt, LAUNCH_CLEANED, 0, NULL);
}

static void lose(struct world *w, const char *node)
{
	core_agent_down(w->core, node, node_find(w->core, node)->session, "reset by peer");
	world_turn(w);
	is_int(world_request(w, REQ_NODE_LOST, 0, node, "{}"), 200, "a node is lost");
}

/* The gang of four runs on a to d, and fifty others wait. e: a spare. */
static struct world *full_cluster(int spare)
{
	struct world *w = world_create(41);

	for (size_t i = 0; all[i]; i++)
		up(w, all[i]);
	if (spare) {
		up(w, 'e');
		is_int(world_request(w, REQ_SPARE, 0, "e", "{}"), 200, "e is a spare");
	}
	world_submit(w, gang);
	for (int i = 0; i < OTHERS; i++)
		world_submit(w, one);
	is_str(nodes_of(w, 1), "abcd", "the gang has its nodes");
	begin(w, 1);
	return w;
}

static struct world *without_b(int spare)
{
	struct world *w = full_cluster(spare);

	lose(w, "b");
	end_on(w, 1, "acd", 0);
	return w;
}

static void test_spare(void)
{
	struct world *w = without_b(1);

	is_str(nodes_of(w, 1), "aecd", "the spare replaces b, and the others keep their ranks");
	is_int(count_waiting(w), OTHERS, "no other job ever had one of them");
	world_end_well(w);
}

/* The first restart after an unknown end is in place: nothing is given back. */
static void test_in_place(void)
{
	struct world *w = full_cluster(0);

	end_on(w, 1, "abcd", 3);
	is_str(nodes_of(w, 1), "abcd", "in place means the same nodes");
	is_int(count_waiting(w), OTHERS, "which nobody else had");
	begin(w, 2);
	end_on(w, 2, "abcd", 3);
	is_str(world_status(w, 1), "recovering", "the next restart has a back-off");
	is_int(count_waiting(w), OTHERS - 1, "the node of the rank that failed is free at once");
	world_restart(w);
	for (size_t i = 0; all[i]; i++)
		up(w, all[i]);
	is_int(count_waiting(w), OTHERS - 1, "the others are kept in the back-off, over a restart");
	up(w, 'e');
	is_int(count_waiting(w), OTHERS - 2, "e is anybody's");
	pass(w, 11);
	up(w, 'f');
	is_str(nodes_of(w, 1), "fbcd", "after it the next free node is the job's");
	world_end_well(w);
}

static uint64_t first_waiting(struct world *w)
{
	uint64_t id = 0;

	sched_waiting(w->core->sched, &id, 1);
	return id;
}

static void test_none_in_time(void)
{
	struct world *w = without_b(0);

	is_str(world_status(w, 1), "recovering", "no node can replace b");
	is_int(count_waiting(w), OTHERS, "the job keeps the others");
	pass(w, 18);
	world_request(w, REQ_WHY, 1, NULL, "{}");
	like(world_text(w, "text"), "waits for 1 node to replace b; keeps 3", "why says what it waits for");
	like(world_text(w, "text"), "in 42s it gives them back", "and for how long");
	pass(w, 41);
	is_int(count_waiting(w), OTHERS, "it keeps them");
	pass(w, 1);
	is_str(world_status(w, 1), "queued", "for a minute");
	like(world_reason(w, 1),
	     "no node replaced b within 1m: the job gave back its other 3 nodes and waits first of its "
	     "priority",
	     "the reason says so");
	is_int(count_waiting(w), OTHERS - 3, "others have them then");
	is_int(first_waiting(w), 1, "and the job waits before all others");
	world_restart(w);
	is_int(first_waiting(w), 1, "over a restart of hearthd");
	world_request(w, REQ_HOLD, 1, NULL, "{}");
	world_request(w, REQ_RELEASE, 1, NULL, "{}");
	is_int(first_waiting(w), 1, "and after its owner held it");
	world_end_well(w);
}

static void test_restart(void)
{
	struct world *w = without_b(0);

	pass(w, 5);
	world_restart(w);
	for (const char *node = "acd"; *node; node++)
		up(w, *node);
	is_str(world_status(w, 1), "recovering", "a new hearthd goes on waiting");
	is_int(count_waiting(w), OTHERS, "nobody else gets what the job keeps");
	up(w, 'e');
	is_str(nodes_of(w, 1), "aecd", "a node that comes replaces b");
	is_int(count_waiting(w), OTHERS, "before all others");
	world_end_well(w);
}

/* What the next attempt begins with is settled when the search for others begins. */
static void test_beginning(int from_start)
{
	struct world *w = full_cluster(0);
	char kind[] = "checkpoint", digest[] = "00aa", empty[] = "";
	struct wm_artifact_report m = {.job = 1,
	                               .attempt = 1,
	                               .epoch = 1,
	                               .kind = kind,
	                               .digest = digest,
	                               .uri = empty,
	                               .files = 1,
	                               .text = empty};

	lose(w, "b");
	for (size_t i = 0; i < 3; i++) {
		const char node[] = {"acd"[i], '\0'};

		world_rank(w, node, 1, 1, i ? (uint32_t)i + 1 : 0, PS_EXITED, 0, 9, "");
		world_launch(w, node, 1, 1, LAUNCH_ENDED, 0, NULL);
	}
	world_msg(w, "a", 0, WM_ARTIFACT_REPORT, &m);
	world_turn(w);
	for (const char *node = "acd"; *node; node++)
		world_launch(w, (char[]){*node, '\0'}, 1, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(job_find(w->core, 1)->r.begins, "attempt:1",
	       "the next attempt is to go on where the first one stood");
	if (from_start)
		world_request(w, REQ_REQUEUE, 1, NULL, "{\"from_start\": true}");
	pass(w, 5);
	world_restart(w);
	for (const char *node = "acde"; *node; node++)
		up(w, *node);
	is_str(nodes_of(w, 1), "aecd", "a new hearthd finds a node for it");
	is_str(job_find(w->core, 1)->r.att->resumed_from, from_start ? NULL : "attempt:1",
	       from_start ? "and it begins from the start, as its owner asked" : "and it goes on there");
	world_end_well(w);
}

static void test_drained(void)
{
	struct world *w = without_b(0);

	is_int(world_request(w, REQ_DRAIN, 0, "c", "{}"), 200, "a kept node is drained");
	world_request(w, REQ_WHY, 1, NULL, "{}");
	like(world_text(w, "text"), "waits for 2 nodes to replace b, c; keeps 2", "it is given back");
	world_request(w, REQ_RESUME, 0, "c", "{}");
	is_int(count_waiting(w), OTHERS - 1, "and is another job's when it is resumed");
	world_restart(w);
	for (const char *node = "acd"; *node; node++)
		up(w, *node);
	is_int(count_waiting(w), OTHERS - 1, "also for a new hearthd");
	lose(w, "d");
	world_request(w, REQ_WHY, 1, NULL, "{}");
	like(world_text(w, "text"), "waits for 3 nodes to replace b, c, d; keeps 1", "a lost node, too");
	world_end_well(w);
}

/* All nodes that are left are avoided ones. */
static void test_returned(void)
{
	struct world *w = without_b(0);

	pass(w, 5);
	up(w, 'b');
	is_str(nodes_of(w, 1), "abcd", "the lost node comes back, and no other could replace it");
	world_end_well(w);
}

static void test_owner(void)
{
	struct world *w = without_b(0);

	world_request(w, REQ_HOLD, 1, NULL, "{}");
	is_int(w->err.code, ERR_CONFLICT, "it cannot be held now");
	world_request(w, REQ_REQUEUE, 1, NULL, "{\"from_start\": true}");
	is_str(world_status(w, 1), "recovering", "a requeue changes where it begins");
	is_int(count_waiting(w), OTHERS, "and it keeps its nodes");
	world_request(w, REQ_STOP, 1, NULL, "{}");
	is_str(world_status(w, 1), "stopped", "a stop ends it at once");
	is_int(count_waiting(w), OTHERS - 3, "and its nodes are others'");
	world_end_well(w);
}

/* The account of what a job keeps follows its queue. */
static void test_other_queue(void)
{
	struct world *w = without_b(0);
	struct sched_queue_state q;

	world_request(w, REQ_QUEUE_SET, 0, "other", "{}");
	is_int(world_request(w, REQ_SET, 1, NULL, "{\"queue\": \"other\"}"), 200, "the job gets another queue");
	sched_queue_get(w->core->sched, "other", &q);
	is_int(q.gpus, 3, "what it keeps counts there");
	is_int(count_waiting(w), OTHERS, "and stays its own");
	world_end_well(w);
}

/* What the owner asks while the outputs are collected decides. */
static void test_requeued_meanwhile(void)
{
	struct world *w = full_cluster(1);

	lose(w, "b");
	for (size_t i = 0; i < 3; i++) {
		const char node[] = {"acd"[i], '\0'};

		world_rank(w, node, 1, 1, (uint32_t)(i ? i + 1 : 0), PS_EXITED, 0, 9, "");
		world_launch(w, node, 1, 1, LAUNCH_ENDED, 0, NULL);
	}
	world_launch(w, "a", 1, 1, LAUNCH_CLEANED, 0, NULL);
	world_request(w, REQ_REQUEUE, 1, NULL, "{}");
	world_launch(w, "c", 1, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "d", 1, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, 1), "queued", "it waits in the queue");
	is_int(count_waiting(w), OTHERS - 3, "and has given back all");
	world_end_well(w);
}

int main(void)
{
	test_spare();
	test_in_place();
	test_none_in_time();
	test_restart();
	test_beginning(0);
	test_beginning(1);
	test_drained();
	test_returned();
	test_owner();
	test_other_queue();
	test_requeued_meanwhile();
	return tap_done();
}
