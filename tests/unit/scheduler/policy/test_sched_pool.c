/*
 * Warm pools: which nodes a job gets because of them, which parts end, and what is reported. A pool never
 * decides whether a job fits. test_sched_live.c compares the rules with the slow second implementation; here
 * are single cases, each by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/unit/scheduler/policy/policykit.h"

#define MAX_PARTS 8

static struct sched *cluster(uint32_t nodes, uint32_t gpus)
{
	return kit_cluster(sched_policy_live(), nodes, gpus);
}

/* The pool holds the first `gpus` GPUs and no slot of each of these nodes ("1 2 3"). */
static void set_pool(struct sched *s, struct sched_pool p, const char *nodes, uint32_t gpus)
{
	static const uint32_t indexes[] = {0, 1, 2, 3, 4, 5, 6, 7};
	struct sched_pool_part parts[MAX_PARTS];

	p.parts = parts;
	for (const char *c = nodes; *c; c++)
		if (*c != ' ')
			parts[p.n_parts++] =
			    (struct sched_pool_part){.node = (uint64_t)(*c - '0'), .n_gpus = gpus, .gpus = indexes};
	sched_pool_set(s, &p);
}

static void simple_pool(struct sched *s, uint64_t id, const char *owner, const char *nodes, uint32_t gpus)
{
	set_pool(s, (struct sched_pool){.id = id, .owner = owner, .idle_since_s = id}, nodes, gpus);
}

static void add_job(struct sched *s, uint64_t id, const char *owner, uint32_t instances, uint32_t gpus)
{
	struct sched_job j = kit_gang(id, instances, gpus);

	j.owner = owner;
	j.queue = "q";
	sched_job_add(s, &j);
}

/* "2/10 3": node 2, where it uses pool 10, and node 3; "-": nothing starts. */
static const char *starts(struct sched *s)
{
	static char out[128];
	struct sched_decision *d = sched_step(s);
	size_t n = 0;

	snprintf(out, sizeof(out), "%s", d ? "" : "-");
	for (uint32_t i = 0; d && i < d->n; i++) {
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u", i ? " " : "", (unsigned)d->places[i].node);
		if (d->places[i].pool)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "/%u", (unsigned)d->places[i].pool);
	}
	sched_decision_free(d);
	return out;
}

/* "10:2>5 11:3!5": of pool 10 node 2 is used by job 5, node 3 of pool 11 gave way to it. */
static const char *losses(struct sched *s)
{
	static char out[256];
	struct sched_pool_lost l;
	size_t n = 0;

	out[0] = '\0';
	while (sched_pool_lost(s, &l))
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u:%u%c%u", n ? " " : "", (unsigned)l.pool,
		                      (unsigned)l.node, l.taken ? '>' : '!', (unsigned)l.job);
	return out;
}

static void done(struct sched *s, const char *what)
{
	const char *bad = sched_check(s);

	ok(!bad, "%s: consistent%s%s", what, bad ? ": " : "", bad ? bad : "");
	sched_destroy(s);
}

/* Nodes 1.. of four GPUs; pools 10 (left first) and 11; one job. */
static const struct {
	const char *what;
	uint32_t nodes;
	const char *owner10, *pool10, *owner11, *pool11; /* "2 3" of `part` GPUs each */
	uint32_t part, instances, gpus;
	const char *place, *lost;
} cases[] = {
    {"a job fits its own pool", 3, "u", "2 3", NULL, "", 4, 2, 4, "2/10 3/10", "10:2>5 10:3>5"},
    {"half of its pool", 3, "u", "2 3", NULL, "", 4, 1, 4, "2/10", "10:2>5"},
    {"more than its pool: cold nodes are added", 3, "u", "3", NULL, "", 4, 2, 4, "1 3/10", "10:3>5"},
    {"more than its pool: the nodes of others come last", 4, "u", "4", "v", "1", 4, 3, 4, "2 3 4/10",
     "10:4>5"},
    {"others avoid a pool while cold nodes suffice", 3, "v", "1 2", NULL, "", 4, 1, 4, "3", ""},
    {"else the pool that was idle longest gives way", 3, "v", "3", "w", "1 2", 4, 1, 4, "3", "10:3!5"},
    {"and only as much of it as is needed", 3, "v", "2 3", "w", "1", 4, 2, 4, "2 3", "10:2!5 10:3!5"},
    {"of a node the cold GPUs go first", 1, "v", "1", NULL, "", 2, 1, 2, "1", ""},
    {"and then the others", 1, "v", "1", NULL, "", 2, 1, 3, "1", "10:1!5"},
    {"an own part that it fills before cold room, though that fits better", 2, "u", "2", NULL, "", 2, 1, 2,
     "2/10", "10:2>5"},
    {"a part that holds less than it needs is avoided", 2, "u", "2", NULL, "", 2, 1, 4, "1", ""},
    {"else it gives way", 1, "u", "1", NULL, "", 2, 1, 4, "1", "10:1!5"},
    {"so is a part without GPUs", 2, "u", "2", NULL, "", 0, 1, 1, "1", ""},
    {"one pool that is enough before two", 3, "u", "3", "u", "1 2", 4, 2, 4, "1/11 2/11", "11:1>5 11:2>5"},
    {"of two that are enough the smaller one", 5, "u", "1 2 3", "u", "4 5", 4, 2, 4, "4/11 5/11",
     "11:4>5 11:5>5"},
    {"of two that are not enough the larger one", 4, "u", "1", "u", "2 3", 4, 4, 4, "1/10 2/11 3/11 4",
     "10:1>5 11:2>5 11:3>5"},
    {"two pools of one owner in one job", 3, "u", "2", "u", "3", 4, 2, 4, "2/10 3/11", "10:2>5 11:3>5"},
    {"a pool does not hold back others", 1, "v", "1", NULL, "", 4, 1, 4, "1", "10:1!5"},
};

/* Checks S-161 to S-166. */
static void test_cases(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sched *s = cluster(cases[i].nodes, 4);

		simple_pool(s, 10, cases[i].owner10, cases[i].pool10, cases[i].part);
		if (cases[i].owner11)
			simple_pool(s, 11, cases[i].owner11, cases[i].pool11, cases[i].part);
		add_job(s, 5, "u", cases[i].instances, cases[i].gpus);
		is_str(starts(s), cases[i].place, cases[i].what);
		is_str(losses(s), cases[i].lost, "what is reported");
		done(s, cases[i].what);
	}
}

/* Checks S-164: which parts are for a job of another environment, or of the same. */
static void test_fills(void)
{
	static const struct {
		const char *what, *warm;
		int keeps;
		uint32_t gpus;
		uint64_t memory;
		const char *place;
	} jobs[] = {{"a small job of another environment avoids the pool", "f", 0, 1, 0, "1"},
	            {"one that will leave a pool uses it", "f", 1, 1, 0, "2/10"},
	            {"one that fills it does, too", "f", 0, 2, 0, "2/10"},
	            {"a small job of the same environment uses it", "e", 0, 1, 0, "2/10"},
	            {"a job that needs more memory than the part holds does not", "e", 1, 2, 1, "1"}};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct sched *s = cluster(2, 4);
		struct sched_job j = kit_gang(5, 1, jobs[i].gpus);

		for (uint64_t n = 1; n <= 2; n++)
			sched_node_set(s, &(struct sched_node){
			                      .id = n,
			                      .name = n == 1 ? "n1" : "n2",
			                      .slots = 64,
			                      .memory_bytes = 10,
			                      .gpus = (struct sched_gpu[]){{.model = "g"}, {.model = "g", .index = 1}},
			                      .n_gpus = 2,
			                      .usable = 1});
		set_pool(s, (struct sched_pool){.id = 10, .owner = "u", .warm = "e"}, "2", 2);
		j.owner = "u";
		j.warm = jobs[i].warm;
		j.keeps = jobs[i].keeps;
		j.memory_bytes = jobs[i].memory;
		sched_job_add(s, &j);
		is_str(starts(s), jobs[i].place, jobs[i].what);
		done(s, jobs[i].what);
	}
}

static void keeping_job(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus, enum sched_span span)
{
	struct sched_job j = kit_gang(id, instances, gpus);

	j.owner = "u";
	j.queue = "q";
	j.keeps = 1;
	j.span = span;
	sched_job_add(s, &j);
}

/* Checks S-173: what is left over of a pool, and one pool before one switch. */
static void test_turns(void)
{
	static const char *const on[] = {"a", "b", "a"};
	struct sched *s = cluster(3, 4);

	simple_pool(s, 10, "u", "2", 4);
	simple_pool(s, 11, "u", "3", 2);
	keeping_job(s, 5, 1, 1, SCHED_SPAN_ANY);
	is_str(starts(s), "3/11", "of two pools the one of which less is left over");
	done(s, "left over");

	s = sched_create();
	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_RESERVE});
	for (uint64_t i = 1; i <= 3; i++)
		kit_node(s, i, 4, on[i - 1], 0, 0);
	simple_pool(s, 10, "u", "3", 4);
	simple_pool(s, 11, "u", "1 2", 4);
	keeping_job(s, 5, 2, 4, SCHED_SPAN_PREFER);
	is_str(starts(s), "1/11 2/11", "one pool on two switches before two pools on one");
	is_int(sched_pool_parts(s, 10), 1, "the other pool stays whole");
	done(s, "one pool");
}

/* ---- single rules ---------------------------------------------------------------------------------- */

/* Checks S-164: the part of its environment comes first. */
static void test_environment(void)
{
	struct sched *s = cluster(3, 4);
	struct sched_job j = kit_gang(5, 1, 2);

	set_pool(s, (struct sched_pool){.id = 10, .owner = "u", .warm = "e1", .idle_since_s = 1}, "2", 2);
	set_pool(s, (struct sched_pool){.id = 11, .owner = "u", .warm = "e2", .idle_since_s = 2}, "3", 2);
	j.owner = "u";
	j.warm = "e2";
	sched_job_add(s, &j);
	is_str(starts(s), "3/11", "a job goes where its environment is");
	j.id = 6;
	j.queue = "another";
	sched_job_add(s, &j);
	is_str(starts(s), "2/10", "else to another pool of its owner, whatever the queue");
	done(s, "environments");
}

/* Checks S-167. */
static void test_exclusive(void)
{
	struct sched *s = cluster(4, 4);

	set_pool(s, (struct sched_pool){.id = 10, .owner = "u", .exclusive = 1, .idle_since_s = 1}, "1 2", 4);
	add_job(s, 5, "u", 1, 4);
	is_str(starts(s), "3", "an exclusive pool is not split");
	add_job(s, 6, "u", 2, 4);
	is_str(starts(s), "1/10 2/10", "and is used as a whole");
	is_str(losses(s), "10:1>6 10:2>6", "both parts are used");
	done(s, "exclusive");

	s = cluster(3, 4);
	set_pool(s, (struct sched_pool){.id = 10, .owner = "u", .exclusive = 1, .idle_since_s = 1}, "1 2", 4);
	add_job(s, 5, "u", 3, 4);
	is_str(starts(s), "1/10 2/10 3", "with a cold node");
	done(s, "exclusive and cold");

	s = cluster(2, 4);
	set_pool(s, (struct sched_pool){.id = 10, .owner = "u", .exclusive = 1, .idle_since_s = 1}, "1 2", 2);
	add_job(s, 5, "v", 1, 1);
	is_str(starts(s), "1", "nobody finds cold room on its nodes");
	is_str(losses(s), "10:1!5 10:2!5", "if it gives way, all of it does");
	done(s, "exclusive gives way");

	s = cluster(4, 4);
	set_pool(s, (struct sched_pool){.id = 10, .owner = "u", .exclusive = 1, .idle_since_s = 1}, "1 2", 4);
	set_pool(s, (struct sched_pool){.id = 11, .owner = "u", .warm = "e", .idle_since_s = 2}, "3", 4);
	{
		struct sched_job j = kit_gang(5, 2, 4);

		j.owner = "u";
		j.warm = "e";
		sched_job_add(s, &j);
	}
	is_str(starts(s), "3/11 4", "nor by a job as large as it that is warmer elsewhere");
	is_str(losses(s), "11:3>5", "it stays whole");
	done(s, "exclusive and another");
}

/* Checks S-166: warm before near, near before that no other pool gives way. */
static void test_span(void)
{
	static const char *const on[] = {"a", "b", "a", "b"};
	struct sched *s = sched_create();

	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_RESERVE});
	for (uint64_t i = 1; i <= 4; i++)
		kit_node(s, i, 4, on[i - 1], 0, 0);
	simple_pool(s, 10, "u", "1 2", 4);
	add_job(s, 5, "u", 2, 4);
	is_str(starts(s), "1/10 2/10", "a gang that prefers one switch is warm on two");
	done(s, "preferred switch");

	s = sched_create();
	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_RESERVE});
	for (uint64_t i = 1; i <= 4; i++)
		kit_node(s, i, 4, on[i - 1], 0, 0);
	simple_pool(s, 10, "u", "1 2", 4);
	{
		struct sched_job j = kit_gang(5, 2, 4);

		j.owner = "u";
		j.span = SCHED_SPAN_SWITCH;
		sched_job_add(s, &j);
	}
	is_str(starts(s), "1/10 3", "one that needs one switch takes what is warm there");
	done(s, "needed switch");
}

/* Two groups want different things of the warm nodes. Checks S-166. */
static void test_groups(void)
{
	struct sched_group g[] = {{.instances = 1, .gpus = 1, .ranks = 1},
	                          {.instances = 1, .gpus = 4, .ranks = 1}};
	struct sched_job j = {.id = 5, .order = 5, .groups = g, .n_groups = 2, .owner = "u"};
	struct sched *s = cluster(3, 4);

	simple_pool(s, 10, "u", "1", 4);
	simple_pool(s, 11, "u", "2", 1);
	sched_job_add(s, &j);
	is_str(starts(s), "2/11 1/10", "the small group leaves the large part to the other");
	done(s, "two groups");
}

/* Checks S-165 and S-166: health comes first. */
static void test_doubt(void)
{
	struct sched *s = cluster(2, 4);

	kit_node(s, 3, 4, NULL, 1, 0);
	simple_pool(s, 10, "u", "3", 4);
	simple_pool(s, 11, "v", "1 2", 4);
	add_job(s, 5, "u", 1, 4);
	is_str(starts(s), "1", "another's pool on a healthy node gives way before a doubtful warm one is used");
	add_job(s, 6, "u", 2, 4);
	is_str(starts(s), "2 3/10", "if the healthy ones do not suffice it is");
	done(s, "doubt");
}

/* Checks S-133 with pools. */
static void test_reserved(void)
{
	struct sched *s = cluster(2, 4);
	uint64_t node = 2;

	sched_now(s, 100);
	simple_pool(s, 10, "u", "2", 4);
	sched_reservation_set(
	    s, &(struct sched_reservation){.id = 1, .from_s = 90, .to_s = 900, .nodes = &node, .n_nodes = 1});
	add_job(s, 5, "u", 1, 4);
	is_str(starts(s), "1", "a warm node that is reserved for others is not used");
	is_str(losses(s), "", "and its pool stays");
	done(s, "reserved");
}

/* Checks S-168. */
static void test_exchange(void)
{
	struct sched *s = cluster(5, 4);
	struct sched_job j = kit_gang(5, 2, 4);
	uint64_t lost = 1;

	add_job(s, 5, "u", 2, 4);
	is_str(starts(s), "1 2", "a job runs");
	simple_pool(s, 10, "v", "3 4", 4);
	j.owner = "u";
	j.queue = "q";
	sched_node_remove(s, 1);
	sched_job_exchange(s, &j, &lost, 1);
	is_str(starts(s), "2 5", "a lost place is replaced by a cold one");
	lost = 5;
	sched_node_remove(s, 5);
	sched_job_exchange(s, &j, &lost, 1);
	is_str(starts(s), "2 3", "and by another's pool when no cold one is left");
	is_str(losses(s), "10:3!5", "of which only that part gives way");
	done(s, "exchange");
}

/* Checks S-169 and S-172. */
static void test_wanted(void)
{
	struct sched *s = cluster(3, 4);
	struct sched_job j = kit_gang(5, 1, 4);
	struct sched_reason r;
	struct sched_brief b;
	struct sched_forecast f;

	j.owner = "u";
	j.pool = 10;
	sched_job_add(s, &j);
	is_str(starts(s), "-", "a job waits for its pool, though nodes are free");
	sched_explain(s, 5, &r);
	is_int(r.why, SCHED_POOL, "it says so");
	is_str(r.text, "waits for warm pool 10: none of it is free now", "in words");
	sched_brief(s, &j.id, 1, &b);
	is_str(b.text, "waits for warm pool 10", "in a few words");
	sched_forecast(s, 5, NULL, NULL, &f);
	ok(f.start_s == UINT64_MAX && !f.whole && !f.cut, "and its start is not forecast");
	add_job(s, 6, "v", 1, 4);
	is_str(starts(s), "1", "and holds back nobody");
	set_pool(s, (struct sched_pool){.id = 10, .owner = "v"}, "2", 4);
	is_str(starts(s), "-", "another owner's pool is not for it");
	set_pool(s, (struct sched_pool){.id = 10, .owner = "u"}, "3", 2);
	is_str(starts(s), "-", "one that is too small neither");
	sched_explain(s, 5, &r);
	is_str(r.text,
	       "waits for warm pool 10: needs 1 instance with 4 GPUs and 0 CPU slots; its 1 free node holds 0 of "
	       "them",
	       "in words, too");
	set_pool(s, (struct sched_pool){.id = 10, .owner = "u"}, "3", 4);
	is_str(starts(s), "3/10", "it starts as soon as the pool is left");
	done(s, "wanted");
}

/* Checks S-162 and S-163: what ends a part beside its GPUs. */
static void test_ends(void)
{
	struct sched *s = cluster(2, 4);
	uint32_t slots[] = {0, 1}, gpu = 9;
	struct sched_pool_part part = {.node = 1, .n_cpus = 2, .cpus = slots};
	struct sched_pool p = {.id = 10, .owner = "u", .parts = &part, .n_parts = 1};

	sched_pool_set(s, &p);
	is_int(sched_pool_parts(s, 10), 1, "a pool of slots alone");
	sched_node_remove(s, 1);
	is_str(losses(s), "10:1!0", "its node goes");
	is_int(sched_pool_parts(s, 10), 0, "and it is forgotten");
	sched_pool_set(s, &p);
	is_str(losses(s), "", "a node that is not known yet may be named");
	kit_node(s, 1, 4, NULL, 0, 0);
	is_int(sched_pool_parts(s, 10), 1, "the node comes");
	part = (struct sched_pool_part){.node = 2, .n_gpus = 1, .gpus = &gpu};
	p.id = 11;
	sched_pool_set(s, &p);
	is_str(losses(s), "11:2!0", "a GPU that the node has not");
	part = (struct sched_pool_part){.node = 1, .n_cpus = 1, .cpus = slots};
	sched_pool_set(s, &p);
	is_str(losses(s), "11:1!0", "a slot of another pool");
	sched_pool_remove(s, 10);
	is_str(losses(s), "", "a pool that is removed reports nothing");
	done(s, "ends");
}

/* Checks S-113: an answer for a user leaves no trace on the nodes. */
static void test_taken_back(void)
{
	struct sched *s = cluster(2, 4);
	struct sched_job j = kit_gang(5, 2, 4);

	j.owner = "u";
	j.warm = "e";
	sched_job_add(s, &j);
	is_str(starts(s), "1 2", "a job starts");
	sched_job_started(s, 5);
	sched_job_finished(s, 5, 1);
	add_job(s, 6, "u", 1, 4);
	is_str(starts(s), "1", "a decision for another environment");
	sched_job_remove(s, 6);
	j = kit_gang(7, 1, 4);
	j.owner = "u";
	j.warm = "e";
	sched_job_add(s, &j);
	is_str(starts(s), "1", "that is taken back does not make its node less warm");
	done(s, "taken back");
}

/* Two nodes; job 5 keeps node 2 busy until 100, and job 6, which needs both nodes, has a place from then on.
 * The pool of job 7 is on node 1. Checks S-170. */
static void test_reserved_place(void)
{
	static const char *const avoid[] = {"n1", NULL};
	struct sched *s = cluster(3, 4);
	struct sched_job j = kit_gang(5, 1, 4);

	kit_node(s, 1, 4, NULL, 0, 5);
	j.limit_s = 100;
	j.avoid = avoid;
	sched_job_add(s, &j);
	is_str(starts(s), "2", "a job runs until 100");
	simple_pool(s, 10, "u", "1", 4);
	j = kit_gang(6, 2, 4);
	j.limit_s = 100;
	j.avoid = (const char *const[]){"n3", NULL};
	sched_job_add(s, &j);
	is_str(starts(s), "-", "another needs its node and node 1");
	add_job(s, 7, "u", 1, 4);
	is_str(starts(s), "3", "a job does not wait for its warm node, which is reserved: it has a cold one");
	is_int(sched_pool_parts(s, 10), 1, "its pool stays");
	done(s, "reserved place");
}

int main(void)
{
	test_cases();
	test_fills();
	test_turns();
	test_environment();
	test_exclusive();
	test_span();
	test_groups();
	test_doubt();
	test_reserved();
	test_exchange();
	test_wanted();
	test_ends();
	test_reserved_place();
	test_taken_back();
	return tap_done();
}
