/*
 * Believed run times beside limits: a job that is believed to be short passes one that a place is kept for;
 * one that outlives that is believed to take as long again, up to its limit; and however wrong beliefs are,
 * who has a place kept starts at the latest its longest neighbour's limit after it was first promised.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

static const struct sched_policy easy = {
    .backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000};
static const struct sched_policy conservative = {
    .backfill = SCHED_CONSERVATIVE, .fair = 1, .by_limit = 1, .effort = 200000};

static struct sched *cluster(const struct sched_policy *p, uint32_t nodes, uint32_t gpus)
{
	struct sched *s = sched_create();
	struct sched_gpu g[8];

	sched_policy_set(s, p);
	for (uint32_t i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i};
	for (uint32_t i = 1; i <= nodes; i++)
		sched_node_set(s, &(struct sched_node){.id = i, .gpus = g, .n_gpus = gpus, .usable = 1});
	sched_now(s, 1000);
	return s;
}

#define GANG 100000 /* came first */

static void add(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus, uint64_t limit_s,
                uint64_t believed_s)
{
	struct sched_group g = {.instances = instances, .gpus = gpus};

	sched_job_add(s, &(struct sched_job){.id = id,
	                                     .order = id == GANG ? 1 : id,
	                                     .groups = &g,
	                                     .n_groups = 1,
	                                     .limit_s = limit_s,
	                                     .believed_s = believed_s});
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

static void test_passes(const struct sched_policy *p)
{
	struct sched *s = cluster(p, 2, 4);

	add(s, 1, 1, 4, 500, 0);
	is_int(step(s), 1, "one node is busy for 500 s");
	add(s, 2, 2, 4, 900, 0);
	is_int(step(s), 0, "a gang waits for both");
	add(s, 3, 1, 4, 86400, 0);
	is_int(step(s), 0, "one that may take a day stays behind it");
	add(s, 4, 1, 4, 86400, 300);
	is_int(step(s), 4, "one that may as well, but is believed to take 300 s, passes");
	is_int(sched_believed_end(s, 4), 1300, "it is believed to end then");
	sched_now(s, 1300);
	is_int(sched_believed_end(s, 4), 1600, "it has outlived that: as long again");
	sched_now(s, 1000 + 80000);
	is_int(sched_believed_end(s, 4), 1000 + 86400, "and again, at most until its limit");
	sched_now(s, 1000 + 90000);
	is_int(sched_believed_end(s, 4), 1000 + 90000, "later than that it ends any moment");
	is_str(sched_check(s), NULL, "consistent");
	sched_destroy(s);
}

/* Small jobs come all the time, are believed to end at once, and take as long as they may. Checks S-237. */
static void test_bound(const struct sched_policy *p, const char *name, int fades)
{
	enum { LIMIT = 700 };
	static uint64_t ends[GANG];
	struct sched *s = cluster(p, 2, 4);
	uint64_t id = 10, promised = 0, started = 0, passed = 0, now = 1000;

	for (int i = 0; i < 8; i++, id++) {
		add(s, id, 1, 1, LIMIT, 40);
		ok(step(s) == id, "%s: a small one runs", name);
		ends[id] = now + LIMIT;
	}
	add(s, GANG, 2, 4, 900, 0);
	while (!started && now < 20000) {
		for (uint64_t i = 10; i < id; i++)
			if (ends[i] && ends[i] <= now) {
				sched_job_finished(s, i, 1);
				ends[i] = 0;
			}
		for (int i = 0; i < 2; i++, id++)
			add(s, id, 1, 1, LIMIT, i ? 5 : 20);
		for (uint64_t d; (d = step(s));) {
			started = d == GANG ? now : started;
			passed += d != GANG;
			if (d != GANG)
				ends[d] = now + LIMIT;
		}
		if (!promised && p->backfill == SCHED_RESERVE)
			promised = sched_reserved(s, NULL);
		else if (!promised)
			promised = sched_kept(s, GANG);
		if (fades) /* another node, which nobody here could use, is doubted, and trusted again */
			sched_node_set(s, &(struct sched_node){.id = 99, .name = "n99", .usable = 1, .doubt = now % 2});
		sched_now(s, now += 3);
	}
	ok(promised == 1040, "%s: the gang is promised the time at which they are believed to end", name);
	ok(started && started <= promised + LIMIT + 3,
	   "%s: it starts at %" PRIu64 ", at most a limit later (%" PRIu64 " went before)", name, started,
	   passed);
	is_str(sched_check(s), NULL, "consistent");
	sched_destroy(s);
}

static void test_reservation(void)
{
	struct sched *s = cluster(&easy, 1, 4);
	struct sched_forecast f;

	sched_reservation_set(s,
	                      &(struct sched_reservation){
	                          .id = 1, .from_s = 2000, .to_s = 3000, .nodes = (uint64_t[]){1}, .n_nodes = 1});
	add(s, 1, 1, 4, 86400, 100);
	is_int(step(s), 0, "a reservation of nodes goes by limits");
	add(s, 2, 1, 4, 900, 100);
	is_int(step(s), 2, "one whose limit is over before starts");
	sched_job_remove(s, 1);
	add(s, 3, 1, 4, 900, 0);
	sched_forecast(s, 3, NULL, NULL, &f);
	is_int(f.start_s, 1100, "a forecast believes");
	free(f.places);
	sched_destroy(s);
}

int main(void)
{
	test_passes(&easy);
	test_passes(&conservative);
	test_bound(&easy, "easy", 0);
	test_bound(&easy, "easy, a node fades", 1);
	test_bound(&conservative, "conservative", 0);
	test_bound(&conservative, "conservative, a node fades", 1);
	test_reservation();
	return tap_done();
}
