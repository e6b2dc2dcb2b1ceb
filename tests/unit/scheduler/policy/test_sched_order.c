/* The order of the queue: fair shares, the tree of queues, bounds on waiting, quotas. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/unit/scheduler/policy/policykit.h"

#define RUNNING 64

static void test_fair_share(void)
{
	static const char *const owner[3] = {"ann", "bob", "cy"};
	static const double weight[3] = {1, 2, 5};
	struct sched *s = kit_cluster((struct sched_policy){.fair = 1, .backfill = SCHED_SKIP}, 8, 8);
	static uint32_t size[200000];
	struct {
		uint64_t id, end;
	} run[RUNNING] = {{0, 0}};
	uint64_t id = 0, used[3] = {0}, total = 0, waits[3] = {0};
	double worst = 0;

	for (int i = 0; i < 3; i++)
		sched_queue_set(s, &(struct sched_queue){.path = owner[i], .weight = weight[i]});
	for (uint64_t t = 0; t < DAY; t += 30) {
		sched_now(s, t);
		for (int i = 0; i < RUNNING; i++) {
			if (!run[i].id || run[i].end > t)
				continue;
			sched_job_finished(s, run[i].id, 1);
			run[i].id = 0;
		}
		for (uint32_t i = 0; i < 3; i++) {
			for (; waits[i] < 40; waits[i]++) { /* contention: everybody always has work; ids say whose */
				struct sched_job j = kit_gang(++id * 3 + i, 1, 1 + kit_rnd(4));

				size[id] = kit_group.gpus;
				j.owner = owner[i];
				sched_job_add(s, &j);
			}
		}
		for (uint64_t k; (k = kit_step(s, NULL));) {
			uint64_t took = 60 + kit_rnd(1200), in_day = t + took < DAY ? took : DAY - t;
			int slot = 0;

			while (run[slot].id)
				slot++;
			run[slot].id = k;
			run[slot].end = t + took;
			waits[k % 3]--;
			used[k % 3] += in_day * size[k / 3];
			total += in_day * size[k / 3];
		}
	}
	for (int i = 0; i < 3; i++) {
		double off = (double)used[i] / (double)total / (weight[i] / 8) - 1;

		tap_diag("%s: %.2f %% off", owner[i], off * 100);
		if (off < 0)
			off = -off;
		worst = off > worst ? off : worst;
	}
	ok(worst < 0.05, "a day of contention: shares within 5 %% of the weights");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_tree_of_queues(void)
{
	struct sched *s = kit_cluster((struct sched_policy){.fair = 1, .backfill = SCHED_SKIP}, 1, 8);
	uint32_t by_queue[2] = {0};

	/* Two queues of equal weight; one has four owners: they share its half. */
	for (uint64_t i = 1; i <= 80; i++) {
		struct sched_job j = kit_gang(i, 1, 1);
		char owner[8];

		snprintf(owner, sizeof(owner), "u%u", (unsigned)(i % 5));
		j.queue = i % 5 ? "big" : "small";
		j.owner = owner;
		sched_job_add(s, &j);
	}
	for (uint64_t t = 0; t < 4 * HOUR; t += HOUR) {
		uint64_t k, ran[8];
		uint32_t n = 0;

		sched_now(s, t);
		while ((k = kit_step(s, NULL))) {
			by_queue[k % 5 ? 0 : 1]++;
			ran[n++] = k;
		}
		sched_now(s, t + HOUR);
		while (n)
			sched_job_finished(s, ran[--n], 1);
	}
	is_int(by_queue[0], 16, "a queue of many owners gets the half that its weight says");
	is_int(by_queue[1], 16, "and the queue of one owner the other");
	sched_destroy(s);
}

/* What waits counts for its owner, its queue and the queues above, until it starts, is parked or goes. */
static void test_waiting(void)
{
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_SKIP}, 1, 8);
	struct sched_queue_state q;
	struct sched_job j;

	for (uint64_t i = 1; i <= 6; i++) {
		j = kit_gang(i, 1, i == 6 ? 8 : 3);
		j.queue = i % 2 ? "a/b" : "a";
		j.owner = "@ann";
		sched_job_add(s, &j);
	}
	sched_queue_get(s, "a/b/@ann", &q);
	ok(q.waiting == 3 && q.wants == 9, "half of them wait below");
	is_int(kit_step(s, NULL), 1, "one starts");
	is_int(kit_step(s, NULL), 2, "and another");
	sched_job_park(s, 3);
	j = kit_gang(4, 1, 5);
	j.queue = "a/b";
	sched_job_add(s, &j); /* it moves, and grows */
	sched_queue_get(s, "a", &q);
	ok(q.waiting == 3 && q.wants == 16 && q.gpus == 6, "what started or is parked waits no longer");
	sched_queue_get(s, "a/b", &q);
	ok(q.waiting == 2 && q.wants == 8, "what was moved waits where it went");
	for (uint64_t i = 1; i <= 6; i++)
		sched_job_remove(s, i);
	sched_queue_get(s, "a", &q);
	ok(!q.waiting && !q.wants && !q.gpus && !sched_check(s), "nothing is left");
	sched_destroy(s);
}

static void test_quota(void)
{
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_SKIP}, 2, 8);
	struct sched_victim v[8];
	struct sched_reason r;
	struct sched_job j;

	sched_queue_set(s, &(struct sched_queue){.path = "a", .quota_gpus = 4});
	sched_queue_set(s, &(struct sched_queue){.path = "b", .quota_gpus = 8, .borrow = 1});
	for (uint64_t i = 1; i <= 3; i++) {
		j = kit_gang(i, 1, 2);
		j.queue = "a";
		sched_job_add(s, &j);
	}
	is_int(kit_step(s, NULL), 1, "within quota");
	is_int(kit_step(s, NULL), 2, "up to it");
	is_int(kit_step(s, NULL), 0, "not beyond");
	sched_explain(s, 3, &r);
	is_int(r.why, SCHED_QUOTA, "which is the reason");
	golden("scheduler/policy-a-holds-of-the-gpus-of-its", r.text, "4 GPUs");
	for (uint64_t i = 11; i <= 16; i++) {
		j = kit_gang(i, 1, 2);
		j.queue = "b";
		sched_job_add(s, &j);
	}
	for (uint64_t i = 11; i <= 16; i++)
		is_int(kit_step(s, NULL), i, "one that may borrow takes what nobody else could");
	sched_job_remove(s, 1);
	is_int(kit_step(s, NULL), 3, "within its quota again");
	j = kit_gang(20, 1, 2);
	j.queue = "c";
	j.priority = 0;
	sched_now(s, 100);
	sched_checkpointed(s, 13, 90, 0);
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 0, "all is taken");
	is_int(sched_preempt(s, 20, v, 8), 1, "what is borrowed can be reclaimed");
	is_int(v[0].job, 13, "from the one that loses least");
	is_int(v[0].lost_gpu_s, 20, "namely this");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_quota_random(void)
{
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_SKIP, .fair = 1}, 4, 8);
	static const char *const queue[3] = {"x", "y", "y/z"};
	uint64_t held[3] = {0}, gpus[3001] = {0}, of[3001] = {0};
	int over = 0;

	sched_queue_set(s, &(struct sched_queue){.path = "x", .quota_gpus = 7});
	sched_queue_set(s, &(struct sched_queue){.path = "y", .quota_gpus = 12});
	sched_queue_set(s, &(struct sched_queue){.path = "y/z", .quota_gpus = 5});
	for (uint64_t id = 1; id <= 3000; id++) {
		struct sched_job j = kit_gang(id, 1 + kit_rnd(2), 1 + kit_rnd(3));
		uint64_t k, gone = 1 + kit_rnd((uint32_t)id);

		gpus[id] = (uint64_t)kit_group.instances * kit_group.gpus;
		of[id] = kit_rnd(3);
		j.queue = queue[of[id]];
		sched_job_add(s, &j);
		sched_now(s, id);
		while ((k = kit_step(s, NULL))) {
			held[of[k]] += gpus[k];
			gpus[k] |= 1u << 20;
		}
		over |= held[0] > 7 || held[1] + held[2] > 12 || held[2] > 5;
		if (gpus[gone] >> 20)
			held[of[gone]] -= gpus[gone] & 0xfffff;
		gpus[gone] &= 0xfffff;
		sched_job_finished(s, gone, 1);
	}
	ok(!over, "3,000 random jobs never exceed the quota of a queue or of the one above");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

int main(void)
{
	test_fair_share();
	test_tree_of_queues();
	test_waiting();
	test_quota();
	test_quota_random();
	return tap_done();
}
