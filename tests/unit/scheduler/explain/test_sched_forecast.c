/* When a waiting job is expected to start: with quotas, with a kept place, behind jobs that can never start;
 * and that the work for the answer has a bound, beyond which it says how far was seen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/model/model.h"
#include "tests/lib/tap.h"

static struct sched *cluster(uint32_t nodes, uint32_t n_gpus)
{
	struct sched *s = sched_create();
	struct sched_gpu g[8];

	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1});
	sched_now(s, 1000);
	for (uint32_t k = 0; k < n_gpus; k++)
		g[k] = (struct sched_gpu){.index = k, .model = "g"};
	for (uint64_t id = 1; id <= nodes; id++)
		sched_node_set(s, &(struct sched_node){
		                      .id = id, .name = "n", .slots = 8, .gpus = g, .n_gpus = n_gpus, .usable = 1});
	return s;
}

static void add(struct sched *s, uint64_t id, const char *queue, struct sched_group g, uint64_t limit_s)
{
	sched_job_add(s, &(struct sched_job){.id = id,
	                                     .order = id,
	                                     .groups = &g,
	                                     .n_groups = 1,
	                                     .queue = queue,
	                                     .owner = "@u",
	                                     .limit_s = limit_s});
}

static unsigned run(struct sched *s)
{
	unsigned n = 0;

	for (struct sched_decision *d; (d = sched_step(s)); n++)
		sched_decision_free(d);
	return n;
}

static struct sched_forecast ask(struct sched *s, uint64_t id, sched_takes_fn takes)
{
	struct sched_forecast f;

	sched_forecast(s, id, takes, NULL, &f);
	free(f.places);
	return f;
}

static void quota(struct sched *s, const char *path, uint32_t gpus, int borrow)
{
	sched_queue_set(s, &(struct sched_queue){.path = path, .quota_gpus = gpus, .borrow = borrow});
}

static void test_quota(void)
{
	struct sched *s = cluster(2, 4);
	struct sched_forecast f;

	quota(s, "q", 2, 0);
	add(s, 1, "q", (struct sched_group){1, 2, 1, 1}, 300);
	add(s, 2, "other", (struct sched_group){1, 1, 1, 1}, 100);
	is_int(run(s), 2, "two run");
	add(s, 3, "q", (struct sched_group){1, 1, 1, 1}, 50);
	add(s, 4, "q", (struct sched_group){1, 2, 1, 1}, 60);
	add(s, 5, "q", (struct sched_group){1, 3, 1, 1}, 60);
	is_int(run(s), 0, "the others wait for their quota");
	f = ask(s, 3, NULL);
	ok(f.whole && f.start_s == 1300, "the first of them until the one that holds it ends (%u)",
	   (unsigned)f.start_s);
	f = ask(s, 4, NULL);
	ok(f.whole && f.start_s == 1350 && f.n_first == 1 && f.first[0] == 3,
	   "the next until that has ended (%u)", (unsigned)f.start_s);
	f = ask(s, 5, NULL);
	ok(!f.whole && f.start_s == UINT64_MAX, "one that wants more than its quota never starts");
	add(s, 6, "free", (struct sched_group){2, 3, 1, 1}, 60);
	is_int(run(s), 0, "another waits for room");
	f = ask(s, 6, NULL);
	ok(f.whole && f.start_s == 1300 && !f.n_first, "behind none of those that wait for another quota (%u)",
	   (unsigned)f.start_s);
	sched_queue_close(s, "q", 1);
	f = ask(s, 3, NULL);
	ok(!f.whole && f.start_s == UINT64_MAX, "of a closed queue nothing is known");
	sched_queue_close(s, "q", 0);
	quota(s, "q", 2, 1);
	is_int(run(s), 2, "by borrowing two start");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* Job 2 wants more nodes than there are; job 3 has its place kept, though 4 is before it now. */
static void test_before(void)
{
	struct sched *s = cluster(2, 4);
	struct sched_forecast f;
	uint64_t head = 0;

	add(s, 1, "a", (struct sched_group){1, 4, 1, 1}, 300);
	is_int(run(s), 1, "one runs");
	add(s, 2, "b", (struct sched_group){3, 4, 1, 1}, 50);
	add(s, 3, "a", (struct sched_group){2, 4, 1, 1}, 100);
	is_int(run(s), 0, "the wide ones wait");
	ok(sched_reserved(s, &head) == 1300 && head == 3, "a place is kept for the one that can be");
	f = ask(s, 3, NULL);
	ok(f.whole && f.start_s == 1300, "one ahead that can never start moves no time (%u)",
	   (unsigned)f.start_s);
	add(s, 4, "b", (struct sched_group){1, 4, 1, 1}, 1000);
	is_int(run(s), 0, "one that would be in its way waits");
	f = ask(s, 3, NULL);
	ok(f.whole && f.start_s == 1300 && !f.n_first, "who has a place kept has nobody before it");
	f = ask(s, 4, NULL);
	ok(f.whole && f.start_s == 1400 && f.n_first == 1 && f.first[0] == 3, "the others come after it (%u)",
	   (unsigned)f.start_s);
	sched_destroy(s);
}

static double soon(uint64_t job, void *arg)
{
	(void)arg;
	return job % 2 ? 5 : 0;
}

static void hold_all(struct sched *s, uint32_t nodes)
{
	uint32_t zero = 0;

	for (uint64_t id = 1; id <= nodes; id++) {
		struct sched_group g = {1, 1, 1, 1};
		struct sched_place p = {.node = id, .n_gpus = 1, .gpus = &zero, .n_cpus = 1, .cpus = &zero};

		sched_job_restore(s,
		                  &(struct sched_job){.id = id,
		                                      .order = id,
		                                      .groups = &g,
		                                      .n_groups = 1,
		                                      .queue = "a",
		                                      .owner = "@u",
		                                      .limit_s = 100 + id * 10},
		                  &(struct sched_decision){.job = id, .n = 1, .places = &p}, 1000);
	}
}

/* Many ends at many times: what is said is true as far as it goes. */
static void test_bound(void)
{
	enum { NODES = 6000 };
	struct sched *s = cluster(NODES, 1);
	struct sched_forecast f;
	uint64_t first;

	hold_all(s, NODES);
	add(s, 10001, "a", (struct sched_group){NODES, 1, 1, 1}, 60);
	add(s, 10002, "a", (struct sched_group){1, 1, 1, 1}, 60);
	is_int(run(s), 0, "all is taken");
	first = sched_earliest(s, 10001);
	is_int((int)first, 1000 + 100 + NODES * 10, "the widest could start when the last ends");
	f = ask(s, 10001, NULL);
	ok(!f.whole && f.cut, "so many ends are not looked at");
	ok(f.start_s > 1000 && f.start_s < first, "it is said up to when it cannot start (%u)",
	   (unsigned)f.start_s);
	f = ask(s, 10002, soon);
	ok(!f.whole && f.n_first == 1, "one behind it: only when it cannot start yet");
	ok(f.start_s >= 1110 && f.start_s <= first, "by limits, since of so many no other time is asked for (%u)",
	   (unsigned)f.start_s);
	for (uint64_t id = 20000; id < 20150; id++)
		add(s, id, "a", (struct sched_group){1, 1, 1, 1 + (uint32_t)(id % 7)}, 60);
	add(s, 30000, "a", (struct sched_group){2, 1, 1, 1}, 60);
	f = ask(s, 30000, NULL);
	ok(!f.whole && !f.cut && f.start_s == 1120, "behind a hundred: when it would fit if nobody were (%u)",
	   (unsigned)f.start_s);
	is_int(f.n_first, 5, "the first of those before it are named");
	ok(f.first[0] == 10001 && f.first[1] == 10002 && f.first[2] == 20000 && f.first[4] == 20002, "in order");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* When nothing else happens, everything starts when and where it was foreseen. */
static void test_as_foreseen(uint64_t seed)
{
	enum { MACHINES = 6, SENT = 14 };
	struct sched *s = sched_create();
	struct sched_gpu g[4] = {{.index = 0}, {.index = 1}, {.index = 2}, {.index = 3}};
	struct sched_forecast f[SENT + 1] = {0};
	uint64_t ends[SENT + 1] = {0}, now = 1000, dice = seed * 2654435761u + 1;
	int same = 0, foreseen = 0;

#define ROLL(n) ((uint32_t)((dice = dice * 6364136223846793005u + 1442695040888963407u) >> 33) % (n))
	sched_policy_set(s, &(struct sched_policy){.by_limit = 1});
	sched_now(s, now);
	for (uint64_t i = 1; i <= MACHINES; i++) {
		uint32_t gpus = 2 + 2 * ROLL(2), price = 1 + ROLL(30), doubt = ROLL(4) == 0;

		sched_node_set(s, &(struct sched_node){.id = i,
		                                       .gpus = g,
		                                       .n_gpus = gpus,
		                                       .slots = 8,
		                                       .usable = 1,
		                                       .price_per_hour = price,
		                                       .doubt = doubt});
	}
	for (uint64_t id = 1; id <= SENT; id++) {
		uint32_t instances = 1 + ROLL(3), gpus = 1 + ROLL(2), cpus = 1 + ROLL(2), more = ROLL(9);

		add(s, id, NULL, (struct sched_group){instances, gpus, 1, cpus}, 100 + 10 * id + more);
	}
	for (uint64_t id = 1; id <= SENT; id++) {
		sched_forecast(s, id, NULL, NULL, &f[id]);
		foreseen += f[id].whole;
	}
	while (now < 20000) {
		for (struct sched_decision *d; (d = sched_step(s)); sched_decision_free(d)) {
			int as = f[d->job].whole && f[d->job].start_s == now && f[d->job].n == d->n;

			for (uint32_t i = 0; as && i < d->n; i++)
				as = f[d->job].places[i].node == d->places[i].node;
			same += as;
			ends[d->job] = sched_believed_end(s, d->job);
		}
		sched_now(s, ++now);
		for (uint64_t id = 1; id <= SENT; id++)
			if (ends[id] == now)
				sched_job_finished(s, id, 1);
	}
	ok(foreseen == SENT && same == SENT, "seed %" PRIu64 ": %d of %d start when and where it was foreseen",
	   seed, same, SENT);
	for (uint64_t id = 1; id <= SENT; id++)
		free(f[id].places);
	sched_destroy(s);
}

int main(void)
{
	test_quota();
	test_before();
	test_bound();
	for (uint64_t seed = 1; seed <= 100; seed++)
		test_as_foreseen(seed);
	return tap_done();
}
