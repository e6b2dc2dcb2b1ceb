/*
 * The reserved place of a gang where much runs and much waits. The first job has the place when it is free,
 * even if so many jobs are before it that not all are tried. Of jobs that ask for the same, one starts by the
 * time that was believed first, although the place is not searched again at each end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

static struct sched *cluster(struct sched_policy p, uint32_t nodes, uint32_t gpus)
{
	struct sched *s = sched_create();
	struct sched_gpu g[64];

	sched_policy_set(s, &p);
	for (uint32_t i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i};
	for (uint32_t i = 1; i <= nodes; i++)
		sched_node_set(s, &(struct sched_node){.id = i, .gpus = g, .n_gpus = gpus, .usable = 1});
	return s;
}

static void add(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus, const char *owner,
                uint64_t limit_s)
{
	struct sched_group g = {.instances = instances, .gpus = gpus};

	sched_job_add(s, &(struct sched_job){.id = id,
	                                     .order = id,
	                                     .groups = &g,
	                                     .n_groups = 1,
	                                     .queue = "q",
	                                     .owner = owner,
	                                     .limit_s = limit_s});
}

static uint64_t step(struct sched *s)
{
	struct sched_decision *d = sched_step(s);
	uint64_t id = d ? d->job : 0;

	sched_decision_free(d);
	if (id)
		sched_job_started(s, id);
	return id;
}

/* Job 2 waits for the whole node; ann's three kinds come later, would each take a part of it, and have used
 * less. One of them is tried, then the effort is used up. */
static void test_effort(uint64_t effort)
{
	struct sched *s = cluster(
	    (struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = effort}, 1, 8);

	sched_now(s, 100);
	add(s, 1, 1, 8, "bob", 50);
	is_int(step(s), 1, "bob's first job has the node");
	add(s, 2, 1, 8, "bob", 900);
	is_int(step(s), 0, "his second waits, a place is kept for it");
	for (uint32_t i = 1; i <= 3; i++)
		add(s, 2 + i, 1, i, "ann", 900);
	is_int(step(s), 0, "ann's would be in its way");
	sched_now(s, 140);
	sched_job_finished(s, 1, 1);
	is_int(step(s), 2,
	       effort ? "the place is there: it starts, though not all before it were tried"
	              : "the place is there: it starts");
	is_int(step(s), 0, "and the others wait");
	is_str(sched_check(s), NULL, "consistent");
	sched_destroy(s);
}

/* So many run that the place is kept over some ends; two of the same shape, of users who take turns in having
 * used less. Small jobs with longer limits come all the time. */
#define NODES 70
#define WIDE  64
#define FIRST (NODES * WIDE)

static void test_many(void)
{
	struct sched *s =
	    cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000},
	            NODES, WIDE);
	static uint64_t ends[FIRST + 1];
	static const char *const owners[] = {"ann", "bob"};
	uint64_t now = 1000, shadow = 0, head = 0, next = FIRST + 10, started = 0, small = 0;

	sched_now(s, now);
	for (uint64_t id = 1; id <= FIRST; id++) {
		add(s, id, 1, 1, owners[id % 2], 500 + id % 1000);
		ends[id] = now + 500 + id % 1000;
		if (step(s) != id)
			tap_bail("job %" PRIu64 " does not start", id);
	}
	add(s, FIRST + 1, 2, WIDE, "ann", 300);
	add(s, FIRST + 2, 2, WIDE, "bob", 300);
	while (!started && now < 4000) {
		sched_now(s, now += 10);
		for (uint64_t id = 1; id <= FIRST; id++)
			if (ends[id] && ends[id] <= now) {
				sched_job_finished(s, id, 1);
				ends[id] = 0;
			}
		for (int i = 0; i < 2; i++, next++)
			add(s, next, 1, 1, owners[next / 7 % 2], 5000);
		for (uint64_t id; (id = step(s));) {
			if (id == FIRST + 1 || id == FIRST + 2)
				started = id;
			else
				small++;
		}
		if (!shadow)
			shadow = sched_reserved(s, &head);
	}
	ok(shadow && (head == FIRST + 1 || head == FIRST + 2), "a place is kept for one of the two gangs");
	ok(started && now <= shadow + 10, "one of them starts at %" PRIu64 ", believed first: %" PRIu64, now,
	   shadow);
	ok(small > 20, "%" PRIu64 " small ones went before, beside the place", small);
	is_str(sched_check(s), NULL, "consistent");
	sched_destroy(s);
}

int main(void)
{
	test_effort(0);
	test_effort(1);
	test_many();
	return tap_done();
}
