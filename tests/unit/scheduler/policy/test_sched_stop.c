/* Reclaim: what an account holds within its quota is safe, firm jobs are so up to it; what jobs that borrow
 * may take. (unit/scheduler/test_sched_live compares victims with a slow implementation.) */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

static struct sched *cluster(uint32_t nodes)
{
	struct sched *s = sched_create();
	struct sched_gpu g[8];

	for (uint32_t i = 0; i < 8; i++)
		g[i] = (struct sched_gpu){.index = i};
	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_SKIP});
	for (uint32_t i = 1; i <= nodes; i++)
		sched_node_set(s, &(struct sched_node){.id = i, .slots = 64, .gpus = g, .n_gpus = 8, .usable = 1});
	return s;
}

static void quota(struct sched *s, const char *path, uint32_t gpus)
{
	sched_queue_set(s, &(struct sched_queue){.path = path, .quota_gpus = gpus, .borrow = 1});
}

static void job(struct sched *s, uint64_t id, const char *queue, uint32_t gpus, int64_t priority, int firm)
{
	struct sched_group g = {.instances = 1, .gpus = gpus};
	struct sched_decision *d;

	sched_job_add(s, &(struct sched_job){.id = id,
	                                     .order = id,
	                                     .groups = &g,
	                                     .n_groups = 1,
	                                     .queue = queue,
	                                     .priority = priority,
	                                     .firm = firm});
	while ((d = sched_step(s)))
		sched_decision_free(d);
}

/* "1 3": the victims, in order. */
static const char *victims(struct sched *s, uint64_t id)
{
	static char out[200];
	struct sched_victim v[16];
	size_t n = sched_preempt(s, id, v, 16), at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(out + at, sizeof(out) - at, "%s%" PRIu64, i ? " " : "", v[i].job);
	ok(!sched_check(s), "a question changes nothing");
	return out;
}

static void test_reclaim(void)
{
	struct sched *s = cluster(2);

	quota(s, "a", 8);
	quota(s, "b", 8);
	job(s, 1, "a", 4, 0, 0);
	job(s, 2, "a", 4, 0, 0);
	job(s, 3, "a", 3, 0, 0);
	job(s, 4, "b", 4, 0, 0);
	job(s, 5, "b", 4, 0, 0); /* waits: one GPU is free */
	sched_now(s, 100);
	sched_checkpointed(s, 3, 100, 0);
	is_str(victims(s, 5), "3", "one that is over its quota gives back what is beyond it");
	job(s, 6, "b", 8, 0, 0);
	is_str(victims(s, 6), "", "one that would have to borrow takes nothing of others");
	sched_job_remove(s, 4);
	sched_job_remove(s, 5); /* five are free */
	is_str(victims(s, 6), "3", "within its quota it takes what is beyond theirs, and no more");
	sched_destroy(s);

	s = cluster(2);
	quota(s, "a", 8);
	quota(s, "b", 8);
	job(s, 1, "a", 8, 0, 0);
	job(s, 2, "a", 8, 0, 0);
	job(s, 3, "b", 8, 0, 0);
	is_str(victims(s, 3), "1", "of two whole nodes one is borrowed, and only one goes");
	job(s, 4, "b", 1, 9, 0);
	is_str(victims(s, 4), "1", "also for a higher priority, within the quota");
	sched_destroy(s);
}

static void test_firm(void)
{
	struct sched *s = cluster(2);

	quota(s, "a", 4);
	quota(s, "b", 8);
	for (uint64_t i = 1; i <= 4; i++)
		job(s, i, "a", 4, 0, i != 2);
	job(s, 10, "b", 4, 0, 0);
	is_str(victims(s, 10), "2", "who is not firm goes first");
	sched_job_remove(s, 10);
	job(s, 11, "b", 8, 0, 0);
	is_str(victims(s, 11), "2 1", "then firm ones, for what is beyond the quota");
	job(s, 12, "c", 8, 5, 0);
	sched_job_remove(s, 11);
	quota(s, "a", 16);
	is_str(victims(s, 12), "", "within the quota they are safe from any priority");
	sched_destroy(s);
}

/* A queue with parts: a has 8, of which x 4 and y 4; b has 8. */
static void test_tree(void)
{
	struct sched *s = cluster(2);

	quota(s, "a", 8);
	quota(s, "a/x", 4);
	quota(s, "a/y", 4);
	quota(s, "b", 8);
	job(s, 1, "a/x", 4, 0, 0);
	job(s, 2, "a/x", 4, 0, 0);
	job(s, 3, "b", 8, 0, 0);
	job(s, 4, "b", 8, 0, 0);
	is_str(victims(s, 4), "", "b has what it may: what x borrowed from y is nothing of its");
	job(s, 5, "a/y", 4, 0, 0);
	is_str(victims(s, 5), "1", "y takes back from x what is y's");
	sched_destroy(s);

	s = cluster(2);
	quota(s, "a", 8);
	quota(s, "a/x", 4);
	quota(s, "a/y", 8);
	quota(s, "b", 8);
	job(s, 1, "a/y", 4, 0, 0);
	job(s, 2, "a/y", 4, 0, 0);
	job(s, 3, "a/x", 4, 0, 0);
	job(s, 4, "a/x", 4, 0, 0);
	job(s, 5, "b", 4, 0, 0);
	is_str(victims(s, 5), "3", "in a queue that has too much the part that has too much gives first");
	sched_job_remove(s, 5);
	job(s, 6, "b", 8, 0, 0);
	is_str(victims(s, 6), "3 4", "both of its, on one node, before any of the other part");
	sched_destroy(s);
}

static void test_borrowers(void)
{
	struct sched *s = cluster(2);

	quota(s, "a", 8);
	quota(s, "b", 4);
	job(s, 1, "a", 8, 0, 0);
	job(s, 2, "b", 4, 0, 0);
	job(s, 3, "b", 4, 0, 0); /* borrowed */
	job(s, 4, "b", 4, 5, 0);
	is_str(victims(s, 4), "2", "a higher priority takes of its own account");
	job(s, 5, "c", 4, 0, 0);
	is_str(victims(s, 5), "2", "and one without a quota what is borrowed");
	sched_job_remove(s, 5);
	job(s, 5, "c", 4, -1, 0);
	is_str(victims(s, 5), "", "but not of a higher priority, which would go before it again");
	sched_queue_set(s, &(struct sched_queue){.path = "d", .quota_gpus = 2});
	job(s, 6, "d", 4, 9, 0);
	is_str(victims(s, 6), "", "nobody goes for one that its quota keeps out");
	sched_destroy(s);
}

int main(void)
{
	test_reclaim();
	test_firm();
	test_tree();
	test_borrowers();
	return tap_done();
}
