/* What a decision says of itself: how the job came to its turn. */
#include <inttypes.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

static struct sched *cluster(struct sched_policy p, uint32_t nodes)
{
	struct sched *s = sched_create();
	struct sched_gpu g[8];

	for (uint32_t i = 0; i < 8; i++)
		g[i] = (struct sched_gpu){.index = i};
	sched_policy_set(s, &p);
	for (uint32_t i = 1; i <= nodes; i++)
		sched_node_set(s, &(struct sched_node){.id = i, .slots = 64, .gpus = g, .n_gpus = 8, .usable = 1});
	return s;
}

static void add(struct sched *s, uint64_t id, const char *queue, uint32_t instances, uint32_t gpus,
                uint64_t limit_s)
{
	struct sched_group g = {.instances = instances, .gpus = gpus};

	sched_job_add(
	    s, &(struct sched_job){
	           .id = id, .order = id, .groups = &g, .n_groups = 1, .queue = queue, .limit_s = limit_s});
}

static void starts(struct sched *s, uint64_t id, enum sched_turn turn, uint64_t passed, const char *what)
{
	struct sched_decision *d = sched_step(s);

	ok(d && d->job == id && d->turn == turn && d->passed == passed,
	   "%s: job %" PRIu64 ", turn %d, passed %" PRIu64, what, d ? d->job : 0, d ? (int)d->turn : -1,
	   d ? d->passed : 0);
	if (d)
		sched_decision_free(d);
}

static void test_live(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1}, 2);

	sched_now(s, 10);
	add(s, 1, "a", 1, 8, 100);
	starts(s, 1, SCHED_TURN_FIRST, 0, "nobody is before it");
	add(s, 2, "a", 2, 4, 1000); /* a gang of both nodes waits for the first */
	add(s, 3, "a", 1, 4, 50);
	add(s, 4, "a", 1, 4, 5000);
	starts(s, 3, SCHED_TURN_BEFORE, 2, "one that ends before the gang starts");
	starts(s, 4, SCHED_TURN_BESIDE, 2, "one that leaves it its half");
	sched_now(s, 60);
	sched_job_finished(s, 3, 1);
	ok(!sched_step(s), "the gang still waits");
	sched_now(s, 110);
	sched_job_finished(s, 1, 1);
	starts(s, 2, SCHED_TURN_KEPT, 0, "then its place is free");
	sched_destroy(s);
}

static void test_more(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_CONSERVATIVE}, 1);
	struct sched_decision *d;

	sched_now(s, 10);
	add(s, 1, "a", 1, 8, 100);
	starts(s, 1, SCHED_TURN_PLANNED, 0, "with a place for everybody");
	sched_destroy(s);

	s = cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .starve_s = 50},
	            1);
	sched_queue_set(s, &(struct sched_queue){.path = "a", .quota_gpus = 4, .borrow = 1});
	sched_now(s, 10);
	add(s, 1, "a", 1, 4, 100);
	add(s, 2, "a", 1, 4, 100);
	add(s, 3, "a", 1, 4, 100);
	d = sched_step(s);
	ok(d && d->job == 1 && !d->borrows && !d->due, "within its quota, in time");
	sched_decision_free(d);
	d = sched_step(s);
	ok(d && d->job == 2 && d->borrows, "beyond its quota");
	sched_decision_free(d);
	sched_now(s, 100);
	sched_job_finished(s, 1, 1);
	sched_job_finished(s, 2, 1);
	d = sched_step(s);
	ok(d && d->job == 3 && d->due && !d->borrows, "one that has waited so long that it is due");
	sched_decision_free(d);
	sched_destroy(s);
}

int main(void)
{
	test_live();
	test_more();
	return tap_done();
}
