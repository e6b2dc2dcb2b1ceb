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
    {"own parts before cold room, though that fits better", 2, "u", "2", NULL, "", 2, 1, 1, "2/10", "10:2>5"},
    {"own parts and cold room of one node", 2, "u", "2", NULL, "", 2, 1, 4, "2/10", "10:2>5"},
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

int main(void)
{
	test_cases();
	return tap_done();
}
