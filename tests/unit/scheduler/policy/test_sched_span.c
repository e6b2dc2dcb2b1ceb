/* Gangs within one switch or rack: where they go, that hard ones wait, what is said of them, and what is kept
 * for them. Random worlds with switches and racks: unit/scheduler/test_sched_live,
 * unit/scheduler/explain/test_sched_change. */
#include "tests/lib/golden.h"
#include <stdio.h>
#include <string.h>

#include "scheduler/model/model.h"
#include "tests/lib/tap.h"

#define GPUS 2

/* Of one instance of GPUS a node. */
static void node(struct sched *s, uint64_t id, const char *on, const char *in)
{
	static const struct sched_gpu gpus[GPUS] = {{.index = 0, .model = "g"}, {.index = 1, .model = "g"}};
	char name[16];

	snprintf(name, sizeof(name), "n%u", (unsigned)id);
	sched_node_set(s, &(struct sched_node){.id = id,
	                                       .name = name,
	                                       .slots = 8,
	                                       .gpus = gpus,
	                                       .n_gpus = GPUS,
	                                       .usable = 1,
	                                       .switch_name = on,
	                                       .rack_name = in});
}

/* Two racks of two switches of two nodes: s1 n1 n2, s2 n3 n4 in r1; s3 n5 n6, s4 n7 n8 in r2. */
static struct sched *cluster(enum sched_backfill way)
{
	static const char *const on[] = {"s1", "s2", "s3", "s4"}, *const in[] = {"r1", "r2"};
	struct sched *s = sched_create();

	sched_policy_set(s, &(struct sched_policy){.backfill = way, .by_limit = 1});
	sched_now(s, 1000);
	for (uint64_t i = 1; i <= 8; i++)
		node(s, i, on[(i - 1) / 2], in[(i - 1) / 4]);
	return s;
}

static struct sched_job gang(uint64_t id, uint32_t instances, enum sched_span span)
{
	static struct sched_group g[16];
	static unsigned at;
	struct sched_group *mine = &g[at++ % 16];

	*mine = (struct sched_group){instances, GPUS, 1, 1};
	return (struct sched_job){
	    .id = id, .order = id, .groups = mine, .n_groups = 1, .span = span, .limit_s = 100 * id};
}

static void add(struct sched *s, uint64_t id, uint32_t instances, enum sched_span span)
{
	struct sched_job j = gang(id, instances, span);

	sched_job_add(s, &j);
}

/* The nodes of the next decision, as "3+4"; "": none. */
static const char *step(struct sched *s, uint64_t *job)
{
	static char out[64];
	struct sched_decision *d = sched_step(s);
	uint64_t ids[8] = {0};
	size_t n = 0;

	for (uint32_t i = 0; d && i < d->n; i++) {
		uint32_t at = i;

		for (; at && ids[at - 1] > d->places[i].node; at--)
			ids[at] = ids[at - 1];
		ids[at] = d->places[i].node;
	}
	out[0] = '\0';
	for (uint32_t i = 0; d && i < d->n; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u", i ? "+" : "", (unsigned)ids[i]);
	if (job)
		*job = d ? d->job : 0;
	sched_decision_free(d);
	return out;
}

static const char *goes(struct sched *s, uint64_t id, uint32_t instances, enum sched_span span)
{
	add(s, id, instances, span);
	return step(s, NULL);
}

/* One job on one node, for so long: as if it had been placed there before a restart. */
static void hold_for(struct sched *s, uint64_t id, uint64_t at, uint64_t limit_s)
{
	uint32_t gpus[GPUS] = {0, 1}, slot = 0;
	struct sched_place p = {.node = at, .n_gpus = GPUS, .gpus = gpus, .n_cpus = 1, .cpus = &slot};
	struct sched_decision d = {.job = id, .n = 1, .places = &p};
	struct sched_job j = gang(id, 1, SCHED_SPAN_PREFER);

	j.limit_s = limit_s;
	sched_job_restore(s, &j, &d, 1000);
}

static void hold(struct sched *s, uint64_t id, uint64_t at)
{
	hold_for(s, id, at, 1000);
}

static void test_nearest(void)
{
	struct sched *s = cluster(SCHED_SKIP);

	is_str(goes(s, 1, 3, SCHED_SPAN_PREFER), "1+2+3", "no switch holds three: one rack");
	is_str(goes(s, 2, 2, SCHED_SPAN_PREFER), "5+6", "two go to one switch that is whole");
	hold(s, 50, 7);
	is_str(goes(s, 3, 2, SCHED_SPAN_PREFER), "4+8", "nothing near is left: anywhere");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);

	s = cluster(SCHED_SKIP);
	hold(s, 50, 1);
	hold(s, 51, 3);
	is_str(goes(s, 1, 2, SCHED_SPAN_PREFER), "5+6", "one switch before the fuller rack");
	is_str(goes(s, 2, 2, SCHED_SPAN_PREFER), "7+8", "and another one");
	is_str(goes(s, 3, 2, SCHED_SPAN_RACK), "2+4", "then one rack");
	sched_destroy(s);

	s = cluster(SCHED_SKIP);
	is_str(goes(s, 1, 5, SCHED_SPAN_PREFER), "1+2+3+4+5", "larger than any rack");
	is_str(goes(s, 2, 2, SCHED_SPAN_ANY), "6+7", "whom it does not matter goes by best fit");
	sched_destroy(s);
}

static void test_hard(void)
{
	struct sched *s = cluster(SCHED_SKIP);

	hold(s, 50, 1);
	hold(s, 51, 3);
	hold(s, 52, 5);
	hold(s, 53, 7);
	is_str(goes(s, 1, 2, SCHED_SPAN_SWITCH), "", "no switch has two nodes free: it waits");
	is_str(goes(s, 2, 2, SCHED_SPAN_RACK), "2+4", "a rack has");
	sched_job_remove(s, 50);
	sched_job_remove(s, 53);
	is_str(step(s, NULL), "7+8", "now a switch has");
	is_str(goes(s, 3, 3, SCHED_SPAN_RACK), "", "three in one rack: not now");
	sched_job_remove(s, 2);
	is_str(step(s, NULL), "1+2+4", "now");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* A gang that must be in one rack is not put on a switch that reaches over two. */
static void test_over_racks(void)
{
	struct sched *s = sched_create();

	for (uint64_t i = 1; i <= 6; i++)
		node(s, i, i < 3 ? "long" : NULL, i == 1 || i > 3 ? "r1" : "r2");
	is_str(goes(s, 1, 2, SCHED_SPAN_RACK), "2+3", "the rack with the fewest, not the switch");
	sched_job_remove(s, 1);
	is_str(goes(s, 2, 2, SCHED_SPAN_SWITCH), "1+2", "the switch for one that must be on one");
	sched_job_remove(s, 2);
	node(s, 2, "long", "r1");
	is_str(goes(s, 3, 2, SCHED_SPAN_RACK), "1+2", "it lies in one rack now");
	sched_job_remove(s, 3);
	node(s, 2, NULL, "r1");
	is_str(goes(s, 4, 2, SCHED_SPAN_SWITCH), "", "it has one node left");
	sched_node_remove(s, 1);
	ok(!sched_check(s), "consistent when the last node of a switch is gone");
	sched_destroy(s);
}

/* Groups that want different things: the switch with the fewest nodes for the first one cannot take both. */
static void test_groups(void)
{
	struct sched *s = sched_create();
	struct sched_group g[2] = {{1, 0, 1, 4}, {1, GPUS, 1, 1}};
	struct sched_job j = {.id = 1, .groups = g, .n_groups = 2, .span = SCHED_SPAN_SWITCH};

	for (uint64_t i = 1; i <= 5; i++)
		node(s, i, i < 3 ? "a" : "b", NULL);
	hold(s, 50, 1);
	hold(s, 51, 2);
	sched_job_add(s, &j);
	is_str(step(s, NULL), "3+4", "both are on the other one");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void said(const char *text, const char *part)
{
	ok(strstr(text, part) != NULL, "%s", part);
	if (!strstr(text, part))
		tap_diag("%s", text);
}

static void test_said(void)
{
	struct sched *s = cluster(SCHED_SKIP);
	struct sched_job j = gang(9, 3, SCHED_SPAN_SWITCH);
	struct sched_brief b;
	struct sched_reason r;
	struct sched_change c;
	uint64_t id = 1;

	ok(!sched_possible(s, &j, &r), "three on one switch of two");
	is_int(r.why, SCHED_IMPOSSIBLE, "so it is");
	is_int(r.possible_instances, 2, "two would be possible");
	golden("scheduler/span-needs-instances-with-gpus-and-cpu-slot", r.text, "3 instances", "2 GPUs", "1 CPU",
	       "2 instances");
	is_int(sched_change(s, &j, NULL, 1, &c), 1, "a change");
	is_int(c.kind, SCHED_CHANGE_SPAN, "not hard");
	j.span = SCHED_SPAN_RACK;
	ok(sched_possible(s, &j, &r), "in one rack they could be");
	j = gang(9, 9, SCHED_SPAN_RACK);
	ok(!sched_possible(s, &j, &r), "nine nowhere");
	said(r.text, "all in one rack; only 8 known nodes are there");

	hold(s, 50, 1);
	hold(s, 51, 3);
	hold(s, 52, 5);
	hold(s, 53, 7);
	add(s, 1, 2, SCHED_SPAN_SWITCH);
	is_str(step(s, NULL), "", "it waits");
	sched_explain(s, 1, &r);
	is_int(r.why, SCHED_BUSY, "since they are held");
	golden("scheduler/span-needs-instances-with-gpus-and-cpu-slot-2", r.text, "2 instances", "2 GPUs",
	       "1 CPU", "1 free");
	sched_brief(s, &id, 1, &b);
	golden("scheduler/span-needs-gpus-free-but-not-on-one", b.text, "4 GPUs", "8 free");
	j = gang(1, 2, SCHED_SPAN_SWITCH);
	is_int(sched_change(s, &j, NULL, 0, &c), 1, "a change with which it would fit now");
	is_int(c.kind, SCHED_CHANGE_SPAN, "not hard");
	sched_destroy(s);

	s = sched_create();
	node(s, 1, NULL, "");
	node(s, 2, NULL, "r1");
	j = gang(9, 2, SCHED_SPAN_SWITCH);
	ok(!sched_possible(s, &j, &r), "nobody says which switch it is on");
	said(r.text,
	     "no node has a label switch=NAME (it is given to each agent: hearth-agent --labels switch=NAME)");
	j = gang(9, 2, SCHED_SPAN_RACK);
	ok(!sched_possible(s, &j, &r), "one node has a rack");
	said(r.text, "nearest is rack r1, where 1 of 1 known node could take one: 1 instance at most");
	j = gang(9, 1, SCHED_SPAN_SWITCH);
	ok(sched_possible(s, &j, &r), "one instance is on one switch wherever it is");
	sched_destroy(s);
}

/* A place in time is kept on one switch; nobody starts who would be in its way. n2 and n8 are free, n1 and n7
 * will be at 2000, the others later. */
static void test_kept(enum sched_backfill way)
{
	struct sched *s = cluster(way);
	struct sched_forecast f;
	int on_s1;

	for (uint64_t i = 1; i <= 7; i++)
		if (i != 2)
			hold_for(s, 50 + i, i, i == 1 || i == 7 ? 1000 : 9000);
	add(s, 1, 2, SCHED_SPAN_SWITCH);
	add(s, 20, 1, SCHED_SPAN_PREFER); /* these take 2000 s */
	add(s, 21, 1, SCHED_SPAN_PREFER);
	on_s1 = strcmp(step(s, NULL), "8") == 0;
	is_str(step(s, NULL), "", "one behind it starts, not two: one of two switches is left to it");
	if (way == SCHED_CONSERVATIVE)
		is_int(sched_kept(s, 1), 2000, "a place is kept for the gang");
	sched_forecast(s, 1, NULL, NULL, &f);
	ok(f.whole && f.start_s == 2000 && f.n == 2, "it is expected then");
	free(f.places);
	is_int(sched_earliest(s, 1), 2000, "and not before");
	sched_now(s, 1500);
	sched_job_remove(s, on_s1 ? 51 : 57);
	is_str(step(s, NULL), on_s1 ? "1+2" : "7+8", "earlier when something ends earlier");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* Those go without whom one switch has room. */
static void test_victims(void)
{
	struct sched *s = cluster(SCHED_SKIP);
	struct sched_job j = gang(1, 2, SCHED_SPAN_SWITCH);
	struct sched_victim v[8];

	for (uint64_t i = 1; i <= 8; i++)
		if (i % 3 != 1) /* n1, n4 and n7 are free */
			hold(s, 50 + i, i);
	j.priority = 5;
	sched_job_add(s, &j);
	is_str(step(s, NULL), "", "it waits");
	is_int(sched_preempt(s, 1, v, 8), 1, "one has to go");
	is_int((int)v[0].job, 52, "beside a free node");
	sched_destroy(s);
}

int main(void)
{
	test_nearest();
	test_hard();
	test_over_racks();
	test_groups();
	test_said();
	test_kept(SCHED_RESERVE);
	test_kept(SCHED_CONSERVATIVE);
	test_victims();
	return tap_done();
}
