/*
 * A job that keeps some of its places and waits for others instead of the rest: nobody else gets what it
 * keeps, spares are for it alone, and it comes before all that wait. test_sched_live.c compares the rules
 * with the slow second implementation; here are single cases, each by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/unit/scheduler/policy/policykit.h"

static void set_spare(struct sched *s, uint64_t id, uint32_t gpus, int spare)
{
	struct sched_gpu g[16];
	char name[] = {'n', (char)('0' + id), '\0'};

	for (uint32_t i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i};
	sched_node_set(
	    s, &(struct sched_node){
	           .id = id, .name = name, .slots = 64, .gpus = g, .n_gpus = gpus, .usable = 1, .spare = spare});
}

/* Nodes 1.. of `gpus` GPUs; the last is a spare. */
static struct sched *with_spare(uint32_t nodes, uint32_t gpus)
{
	struct sched *s = kit_cluster(sched_policy_live(), nodes - 1, gpus);

	set_spare(s, nodes, gpus, 1);
	return s;
}

static int replace(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus, uint64_t lost)
{
	struct sched_job j = kit_gang(id, instances, gpus);

	return sched_job_exchange(s, &j, &lost, lost != 0);
}

/* "1 2 5": the nodes of the next decision, which is that job's; "" none. */
static const char *nodes_of(struct sched *s, uint64_t job)
{
	static char out[64];
	struct sched_decision *d = sched_step(s);
	size_t n = 0;

	out[0] = '\0';
	for (uint32_t i = 0; d && d->job == job && i < d->n; i++) {
		out[n++] = (char)('0' + d->places[i].node);
		out[n++] = ' ';
	}
	out[n ? n - 1 : 0] = '\0';
	if (d && d->job != job)
		snprintf(out, sizeof(out), "another job");
	sched_decision_free(d);
	return out;
}

static void is_free(struct sched *s, uint64_t node, uint32_t gpus, const char *what)
{
	uint32_t have = UINT32_MAX;

	sched_node_free(s, node, &have, NULL, NULL);
	ok(have == gpus, "%s", what);
}

/* A gang of four on a full cluster; fifty others wait. Checks S-150, S-151, S-152 and S-154. */
static void test_full_cluster(void)
{
	struct sched *s = with_spare(5, 2);

	kit_add(s, 1, 4, 2);
	is_int(kit_step(s, NULL), 1, "a gang of four has the cluster");
	for (uint64_t id = 2; id < 52; id++)
		kit_add(s, id, 1, 1);
	is_int(kit_step(s, NULL), 0, "fifty others wait: the spare is not for them");
	is_int(replace(s, 1, 4, 2, 2), 0, "its second node is lost");
	sched_node_remove(s, 2);
	is_free(s, 1, 0, "what it keeps stays held");
	is_str(nodes_of(s, 1), "1 3 4 5", "it goes on with its three nodes and the spare");
	is_int(kit_step(s, NULL), 0, "and nobody else started");
	is_str(sched_check(s) ? sched_check(s) : "fine", "fine", "all adds up");
	sched_destroy(s);
}

/* Checks S-150 and S-159. */
static void test_no_spare(void)
{
	struct sched *s = kit_cluster(sched_policy_live(), 4, 2);
	struct sched_reason why;
	struct sched_job j;

	kit_add(s, 1, 4, 2);
	kit_step(s, NULL);
	for (uint64_t id = 2; id < 52; id++)
		kit_add(s, id, 1, 1);
	sched_node_remove(s, 4);
	replace(s, 1, 4, 2, 4);
	is_int(kit_step(s, NULL), 0, "without a spare it waits, and nobody gets what it keeps");
	sched_job_park(s, 1);
	j = kit_gang(1, 4, 2);
	j.order = 99;
	j.first = 1;
	sched_job_add(s, &j);
	sched_explain(s, 1, &why);
	is_int(why.ahead, 0, "a job that goes first of its priority has no job ahead");
	kit_node(s, 4, 2, NULL, 0, 0);
	is_str(nodes_of(s, 1), "1 2 3 4", "it gave up, and is the first of its priority");
	sched_destroy(s);
}

static void test_in_place(void)
{
	struct sched *s = kit_cluster(sched_policy_live(), 2, 2);

	kit_add(s, 1, 2, 1);
	kit_step(s, NULL);
	is_int(replace(s, 1, 2, 1, 0), 0, "it gives nothing back");
	is_str(nodes_of(s, 1), "1 2", "and has its places again at once");
	is_int(replace(s, 1, 2, 2, 0), -1, "other wishes do not suit what it holds");
	is_free(s, 1, 1, "and nothing happened");
	sched_destroy(s);
}

/* Checks S-153. */
static void test_kept_node_down(void)
{
	struct sched *s = with_spare(3, 2);

	kit_add(s, 1, 2, 2);
	kit_step(s, NULL);
	replace(s, 1, 2, 2, 1);
	sched_node_remove(s, 2);
	is_str(nodes_of(s, 1), "", "a node that it keeps is down: it waits, although a spare is there");
	kit_node(s, 2, 2, NULL, 0, 0);
	is_str(nodes_of(s, 1), "2 3", "until the node is back");
	sched_destroy(s);
}

/* Checks S-155: what it lacks counts for its account. */
static void test_quota(void)
{
	struct sched *s = kit_cluster(sched_policy_live(), 3, 2);
	struct sched_job j = kit_gang(1, 2, 2);

	sched_queue_set(s, &(struct sched_queue){.path = "q", .quota_gpus = 4});
	j.queue = "q";
	sched_job_add(s, &j);
	kit_step(s, NULL);
	sched_node_remove(s, 3);
	sched_node_remove(s, 2);
	sched_job_exchange(s, &j, (const uint64_t[]){2}, 1);
	j = kit_gang(2, 1, 1);
	j.queue = "q";
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 0, "another job of its queue does not take its part of the quota");
	kit_node(s, 3, 2, NULL, 0, 0);
	is_str(nodes_of(s, 1), "1 3", "so that it is not kept back by it");
	sched_destroy(s);
}

/* Nothing that it had is left, as of a job on one node. */
static void test_all_lost(void)
{
	struct sched *s = with_spare(2, 2);

	kit_add(s, 1, 1, 2);
	kit_step(s, NULL);
	kit_add(s, 2, 1, 2);
	sched_node_remove(s, 1);
	sched_job_release_place(s, 1, 1);
	replace(s, 1, 1, 2, 1);
	is_str(nodes_of(s, 1), "2", "a job on one node that lost it has the spare");
	sched_destroy(s);
}

static void test_spare(void)
{
	struct sched *s = with_spare(2, 2);
	struct sched_job j = kit_gang(1, 2, 1);
	struct sched_reason r;

	is_int(sched_possible(s, &j, &r), 0, "a spare does not count for a new job");
	ok(strstr(r.text, "1 node is a spare") != NULL, "and the reason says so: %s", r.text);
	sched_job_add(s, &j);
	sched_explain(s, 1, &r);
	ok(strstr(r.text, "1 node is a spare") != NULL, "so does that of a waiting job: %s", r.text);
	set_spare(s, 2, 2, 0);
	is_str(nodes_of(s, 1), "1 2", "a spare no more: it is one as any");
	sched_destroy(s);
}

/* Checks S-156. */
static void test_explain(void)
{
	struct sched *s = kit_cluster(sched_policy_live(), 4, 2);
	struct sched_reason r;
	struct sched_brief b;
	uint64_t id = 1;

	kit_add(s, 1, 4, 2);
	kit_step(s, NULL);
	replace(s, 1, 4, 2, 2);
	set_spare(s, 2, 1, 0);
	sched_explain(s, 1, &r);
	is_int(r.why, SCHED_REPLACING, "it replaces places");
	ok(strstr(r.text, "waits for 1 node to replace n2; keeps 3") == r.text, "and why says so: %s", r.text);
	sched_brief(s, &id, 1, &b);
	is_str(b.text, "waits for 1 node to replace n2; keeps 3", "in a few words, too");
	sched_destroy(s);
}

int main(void)
{
	test_full_cluster();
	test_no_spare();
	test_in_place();
	test_kept_node_down();
	test_quota();
	test_all_lost();
	test_spare();
	test_explain();
	return tap_done();
}
