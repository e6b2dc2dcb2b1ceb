/* What the policy promises: shares, quotas, reservations, dependencies, bounds on waiting, victims of least
 * cost. */
#include "tests/lib/golden.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

#define HOUR 3600u
#define DAY  86400u

static void node_of(struct sched *s, uint64_t id, uint32_t gpus, const char *on, uint32_t doubt, double price)
{
	struct sched_gpu g[16];
	char name[16];
	struct sched_node n = {.id = id,
	                       .name = name,
	                       .slots = 64,
	                       .gpus = g,
	                       .n_gpus = gpus,
	                       .usable = 1,
	                       .doubt = doubt,
	                       .switch_name = on,
	                       .price_per_hour = price};

	snprintf(name, sizeof(name), "n%u", (unsigned)id);
	for (uint32_t i = 0; i < gpus; i++)
		g[i] = (struct sched_gpu){.index = i, .numa = i / (gpus / 2 ? gpus / 2 : 1)};
	sched_node_set(s, &n);
}

static struct sched *cluster(struct sched_policy p, uint32_t nodes, uint32_t gpus)
{
	struct sched *s = sched_create();

	sched_policy_set(s, &p);
	for (uint32_t i = 1; i <= nodes; i++)
		node_of(s, i, gpus, NULL, 0, 0);
	return s;
}

static struct sched_group one_group;

static struct sched_job gang(uint64_t id, uint32_t instances, uint32_t gpus)
{
	one_group = (struct sched_group){.instances = instances, .gpus = gpus};
	return (struct sched_job){.id = id, .order = id, .groups = &one_group, .n_groups = 1};
}

static void add(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus)
{
	struct sched_job j = gang(id, instances, gpus);

	sched_job_add(s, &j);
}

static uint64_t step(struct sched *s, uint64_t *node)
{
	struct sched_decision *d = sched_step(s);
	uint64_t id = d ? d->job : 0;

	if (d && node)
		*node = d->places[0].node;
	sched_decision_free(d);
	sched_job_started(s, id);
	return id;
}

static uint64_t rng = 88172645463325252u;
static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

/* ---- placement ------------------------------------------------------------------------------- */

static void test_best_fit(void)
{
	struct sched *s = cluster((struct sched_policy){0}, 3, 8);
	struct sched_decision *d;
	uint64_t node = 0;

	add(s, 1, 1, 2);
	is_int(step(s, &node), 1, "the first job");
	is_int(node, 1, "goes to the first of equal nodes");
	add(s, 2, 1, 6);
	step(s, &node);
	is_int(node, 1, "what still fits a used node goes there");
	add(s, 3, 1, 4);
	step(s, &node);
	add(s, 4, 2, 8);
	is_int(step(s, NULL), 0, "a gang of two whole nodes waits for the second");
	sched_job_remove(s, 3);
	d = sched_step(s);
	ok(d && d->n == 2 && d->places[0].node == 2 && d->places[1].node == 3, "and takes both at once");
	sched_decision_free(d);
	sched_destroy(s);

	s = sched_create();
	node_of(s, 1, 4, NULL, 2, 1);
	node_of(s, 2, 4, NULL, 0, 9);
	node_of(s, 3, 4, NULL, 0, 5);
	add(s, 1, 1, 4);
	step(s, &node);
	is_int(node, 3, "the cheapest of the healthy nodes");
	add(s, 2, 1, 1);
	step(s, &node);
	is_int(node, 2, "a healthy one before a cheaper doubtful one");
	add(s, 3, 1, 4);
	step(s, &node);
	is_int(node, 1, "a doubtful one when nothing else is left");
	sched_destroy(s);
}

static void test_switches(void)
{
	struct sched *s = sched_create();
	struct sched_decision *d;
	struct sched_job j;

	for (uint64_t i = 1; i <= 6; i++)
		node_of(s, i, 4, i % 2 ? "a" : "b", 0, 0);
	add(s, 1, 1, 4);
	step(s, NULL);
	add(s, 2, 2, 4);
	d = sched_step(s);
	ok(d && d->places[0].node % 2 && d->places[1].node % 2, "a gang goes to the switch that it just fills");
	sched_decision_free(d);
	add(s, 3, 2, 4);
	step(s, NULL);
	sched_job_remove(s, 1);
	j = gang(4, 2, 4);
	j.span = SCHED_SPAN_SWITCH;
	sched_job_add(s, &j);
	is_int(step(s, NULL), 0, "one that must be on one switch waits");
	sched_job_remove(s, 4);
	add(s, 5, 2, 4);
	is_int(step(s, NULL), 5, "one that would like to be does not");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_gpus_together(void)
{
	struct sched *s = cluster((struct sched_policy){0}, 1, 8);
	struct sched_decision *d;

	add(s, 1, 1, 1);
	step(s, NULL);
	add(s, 2, 1, 4);
	d = sched_step(s);
	ok(d && d->places[0].gpus[0] == 4 && d->places[0].gpus[3] == 7, "GPUs of one socket");
	sched_decision_free(d);
	sched_destroy(s);
}

/* ---- order ----------------------------------------------------------------------------------- */

#define RUNNING 64

static void test_fair_share(void)
{
	static const char *const owner[3] = {"ann", "bob", "cy"};
	static const double weight[3] = {1, 2, 5};
	struct sched *s = cluster((struct sched_policy){.fair = 1, .backfill = SCHED_SKIP}, 8, 8);
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
				struct sched_job j = gang(++id * 3 + i, 1, 1 + rnd(4));

				size[id] = one_group.gpus;
				j.owner = owner[i];
				sched_job_add(s, &j);
			}
		}
		for (uint64_t k; (k = step(s, NULL));) {
			uint64_t took = 60 + rnd(1200), in_day = t + took < DAY ? took : DAY - t;
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
	struct sched *s = cluster((struct sched_policy){.fair = 1, .backfill = SCHED_SKIP}, 1, 8);
	uint32_t by_queue[2] = {0};

	/* Two queues of equal weight; one has four owners: they share its half. */
	for (uint64_t i = 1; i <= 80; i++) {
		struct sched_job j = gang(i, 1, 1);
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
		while ((k = step(s, NULL))) {
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
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_SKIP}, 1, 8);
	struct sched_queue_state q;
	struct sched_job j;

	for (uint64_t i = 1; i <= 6; i++) {
		j = gang(i, 1, i == 6 ? 8 : 3);
		j.queue = i % 2 ? "a/b" : "a";
		j.owner = "@ann";
		sched_job_add(s, &j);
	}
	sched_queue_get(s, "a/b/@ann", &q);
	ok(q.waiting == 3 && q.wants == 9, "half of them wait below");
	is_int(step(s, NULL), 1, "one starts");
	is_int(step(s, NULL), 2, "and another");
	sched_job_park(s, 3);
	j = gang(4, 1, 5);
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
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_SKIP}, 2, 8);
	struct sched_victim v[8];
	struct sched_reason r;
	struct sched_job j;

	sched_queue_set(s, &(struct sched_queue){.path = "a", .quota_gpus = 4});
	sched_queue_set(s, &(struct sched_queue){.path = "b", .quota_gpus = 8, .borrow = 1});
	for (uint64_t i = 1; i <= 3; i++) {
		j = gang(i, 1, 2);
		j.queue = "a";
		sched_job_add(s, &j);
	}
	is_int(step(s, NULL), 1, "within quota");
	is_int(step(s, NULL), 2, "up to it");
	is_int(step(s, NULL), 0, "not beyond");
	sched_explain(s, 3, &r);
	is_int(r.why, SCHED_QUOTA, "which is the reason");
	golden("scheduler/policy-a-holds-of-the-gpus-of-its", r.text, "4 GPUs");
	for (uint64_t i = 11; i <= 16; i++) {
		j = gang(i, 1, 2);
		j.queue = "b";
		sched_job_add(s, &j);
	}
	for (uint64_t i = 11; i <= 16; i++)
		is_int(step(s, NULL), i, "one that may borrow takes what nobody else could");
	sched_job_remove(s, 1);
	is_int(step(s, NULL), 3, "within its quota again");
	j = gang(20, 1, 2);
	j.queue = "c";
	j.priority = 0;
	sched_now(s, 100);
	sched_checkpointed(s, 13, 90, 0);
	sched_job_add(s, &j);
	is_int(step(s, NULL), 0, "all is taken");
	is_int(sched_preempt(s, 20, v, 8), 1, "what is borrowed can be reclaimed");
	is_int(v[0].job, 13, "from the one that loses least");
	is_int(v[0].lost_gpu_s, 20, "namely this");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_quota_random(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_SKIP, .fair = 1}, 4, 8);
	static const char *const queue[3] = {"x", "y", "y/z"};
	uint64_t held[3] = {0}, gpus[3001] = {0}, of[3001] = {0};
	int over = 0;

	sched_queue_set(s, &(struct sched_queue){.path = "x", .quota_gpus = 7});
	sched_queue_set(s, &(struct sched_queue){.path = "y", .quota_gpus = 12});
	sched_queue_set(s, &(struct sched_queue){.path = "y/z", .quota_gpus = 5});
	for (uint64_t id = 1; id <= 3000; id++) {
		struct sched_job j = gang(id, 1 + rnd(2), 1 + rnd(3));
		uint64_t k, gone = 1 + rnd((uint32_t)id);

		gpus[id] = (uint64_t)one_group.instances * one_group.gpus;
		of[id] = rnd(3);
		j.queue = queue[of[id]];
		sched_job_add(s, &j);
		sched_now(s, id);
		while ((k = step(s, NULL))) {
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

/* ---- backfill -------------------------------------------------------------------------------- */

static void add_limited(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus, uint64_t limit_s)
{
	struct sched_job j = gang(id, instances, gpus);

	j.limit_s = limit_s;
	sched_job_add(s, &j);
}

static void test_reserve(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_RESERVE}, 2, 8);
	uint64_t head = 0;

	add_limited(s, 1, 1, 8, 100);
	is_int(step(s, NULL), 1, "one node is taken for 100 s");
	add_limited(s, 2, 2, 8, 50);
	add_limited(s, 3, 1, 4, 101);
	add_limited(s, 4, 1, 4, 100);
	is_int(step(s, NULL), 4, "only what is gone in time goes before the gang");
	is_int(step(s, NULL), 0, "nothing else");
	is_int(sched_reserved(s, &head), 100, "its place is kept for then");
	is_int(head, 2, "namely this gang's");
	is_int(sched_earliest(s, 2), 100, "no earlier start is expected of it");
	is_int(sched_earliest(s, 3), 0, "of what only the gang holds back one now");
	is_int(sched_preempt(s, 2, &(struct sched_victim){0, 0}, 1), 0, "nobody may go for it");
	add_limited(s, 5, 1, 4, 101);
	is_int(step(s, NULL), 0, "after such questions its place is still kept");
	sched_job_remove(s, 5);
	sched_now(s, 100);
	sched_job_finished(s, 1, 1);
	sched_job_finished(s, 4, 1);
	is_int(step(s, NULL), 2, "it starts at that time");
	sched_destroy(s);
}

/* With time limits that hold, the first blocked job never starts after the time that was first told for it.
 */
static void test_promise(void)
{
	for (uint32_t seed = 1; seed <= 6; seed++) {
		struct sched *s = cluster((struct sched_policy){.backfill = SCHED_RESERVE}, 4, 4);
		static uint64_t end[2001], takes[2001], promised[2001];
		uint64_t late = 0, id = 0;

		memset(end, 0, sizeof(end));
		memset(promised, 0, sizeof(promised));
		rng = seed * 0x9e3779b97f4a7c15u;
		for (uint64_t t = 1; t < 1500; t++) {
			uint64_t k, head = 0, shadow;

			sched_now(s, t);
			for (k = 1; k <= id; k++) {
				if (end[k] == t) {
					sched_job_finished(s, k, 1);
					end[k] = 0;
				}
			}
			if (id < 300 && rnd(3) == 0) {
				takes[++id] = 10 + 10 * rnd(8);
				add_limited(s, id, 1 + rnd(4), 1 + rnd(4), takes[id] + 10 * rnd(4));
			}
			while ((k = step(s, NULL))) {
				end[k] = t + takes[k];
				late += promised[k] && t > promised[k];
			}
			shadow = sched_reserved(s, &head);
			if (head && !promised[head])
				promised[head] = shadow;
		}
		is_int(late, 0, "no head starts after its first shadow time");
		ok(!sched_check(s), "consistent");
		sched_destroy(s);
	}
}

/*
 * Starvation: a stream of small jobs that would fill the cluster for ever, and one gang of all nodes. Bound:
 * from the time at which it is due it waits at most for what ran then, and for what was let past it: that
 * ends by the shadow time.
 * Checks S-245 and S-246.
 */
static void test_no_starvation(void)
{
	struct sched *s =
	    cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .starve_s = 1000}, 4, 8);
	static uint64_t end[100001];
	uint64_t id = 1, started = 0;
	struct sched_job j = gang(1, 4, 8);

	memset(end, 0, sizeof(end));
	j.limit_s = 100;
	for (uint64_t t = 0; t < 20000 && !started; t++) {
		sched_now(s, t);
		if (t == 500)
			sched_job_add(s, &j);
		for (uint64_t k = 1; k <= id; k++)
			if (end[k] == t && t) {
				sched_job_finished(s, k, 1);
				end[k] = 0;
			}
		if (t % 8 == 0)
			add_limited(s, ++id, 1, 1 + rnd(4), 200);
		for (uint64_t k; (k = step(s, NULL));) {
			end[k] = t + 100 + rnd(100);
			if (k == 1)
				started = t;
		}
	}
	tap_diag("due at 1500, started at %" PRIu64, started);
	ok(started && started <= 500 + 1000 + 2 * 200, "a gang of all nodes starts within its bound");
	sched_destroy(s);
}

static void test_learned(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_RESERVE}, 1, 1);
	struct sched_job j;
	uint64_t t = 0;

	for (uint64_t i = 1; i <= 20; i++) { /* "long" takes 1000 s, "short" 10 s */
		j = gang(i, 1, 1);
		j.owner = "ann";
		j.name = i % 2 ? "long" : "short";
		sched_now(s, t);
		sched_job_add(s, &j);
		is_int(step(s, NULL), i, "alone");
		sched_now(s, t += i % 2 ? 1000 : 10);
		sched_job_finished(s, i, 1);
	}
	for (uint64_t i = 31; i <= 34; i++) {
		j = gang(i, 1, 1);
		j.owner = "ann";
		j.name = i < 33 ? "long" : "short";
		sched_job_add(s, &j);
	}
	ok(sched_expected(s, 31) > 600 && sched_expected(s, 33) < 300, "run times are learned by owner and name");
	sched_destroy(s);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void test_books(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_SKIP}, 2, 4);
	const uint64_t nodes[1] = {2};
	struct sched_job j;

	sched_reservation_set(
	    s, &(struct sched_reservation){
	           .id = 7, .from_s = 100, .to_s = 200, .queue = "vip", .nodes = nodes, .n_nodes = 1});
	add_limited(s, 1, 1, 4, 1000);
	is_int(step(s, NULL), 1, "on the node that is not kept");
	add_limited(s, 2, 1, 4, 101);
	is_int(step(s, NULL), 0, "one that would run into the time waits");
	add_limited(s, 3, 1, 4, 100);
	is_int(step(s, NULL), 3, "one that ends in time does not");
	sched_now(s, 100);
	sched_job_finished(s, 3, 1);
	is_int(step(s, NULL), 0, "the time has begun");
	j = gang(4, 1, 4);
	j.queue = "vip/x";
	sched_job_add(s, &j);
	is_int(step(s, NULL), 4, "it is for whom it is kept");
	sched_job_finished(s, 4, 1);
	sched_now(s, 200);
	is_int(step(s, NULL), 2, "afterwards for all");
	sched_destroy(s);
}

static void test_after(void)
{
	struct sched *s = cluster((struct sched_policy){0}, 1, 8);
	struct sched_dep on[2] = {{1, SCHED_AFTER_OK}, {2, SCHED_AFTER_ANY}};
	struct sched_reason r;
	struct sched_job j;

	add(s, 1, 1, 1);
	add(s, 2, 1, 1);
	j = gang(3, 1, 1);
	j.after = on;
	j.n_after = 2;
	sched_job_add(s, &j);
	j = gang(4, 1, 1);
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	on[0].kind = SCHED_AFTER_START;
	j = gang(5, 1, 1);
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	is_int(step(s, NULL), 1, "the first");
	is_int(step(s, NULL), 2, "the second");
	is_int(step(s, NULL), 5, "what waited for a start");
	is_int(step(s, NULL), 0, "the others wait for ends");
	sched_explain(s, 3, &r);
	golden("scheduler/policy-waits-for-job-to-end-well", r.text, "job 1");
	sched_job_finished(s, 1, 0);
	is_int(step(s, NULL), 0, "it did not end well");
	sched_explain(s, 4, &r);
	is_int(r.why, SCHED_NEVER, "so what needs that never starts");
	sched_job_remove(s, 3);
	sched_job_remove(s, 4);
	sched_job_finished(s, 2, 0);
	on[0] = (struct sched_dep){2, SCHED_AFTER_ANY};
	j = gang(6, 1, 1);
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	is_int(step(s, NULL), 6, "what is long over holds nobody");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* A job that is held or sent back has not ended; what is decided later is told, once. */
static void test_after_told(void)
{
	struct sched *s = cluster((struct sched_policy){0}, 1, 8);
	struct sched_dep on[2] = {{1, SCHED_AFTER_OK}, {7, SCHED_AFTER_START}};
	struct sched_settled told;
	struct sched_reason r;
	struct sched_job j;

	add(s, 1, 1, 1);
	sched_job_know(s, 7); /* held from the beginning */
	j = gang(3, 1, 1);
	j.after = on;
	j.n_after = 2;
	sched_job_add(s, &j);
	sched_explain(s, 3, &r);
	golden("scheduler/policy-waits-for-job-to-end-well-job", r.text, "job 1", "job 7");
	is_int(step(s, NULL), 1, "the first starts");
	sched_job_park(s, 1);
	is_int(step(s, NULL), 0, "sent back, it has not ended");
	ok(!sched_settled(s, &told), "and nobody is told that");
	add(s, 1, 1, 1);
	is_int(step(s, NULL), 1, "it starts once more");
	sched_job_finished(s, 1, 1);
	ok(sched_settled(s, &told) && told.job == 3 && told.on == 1 && told.met && told.open == 1,
	   "its good end is told, and that something is still open");
	ok(!sched_settled(s, &told), "once");
	is_int(step(s, NULL), 0, "a held one has not started");
	add(s, 7, 1, 1);
	is_int(step(s, NULL), 7, "released, it starts");
	ok(sched_settled(s, &told) && told.on == 7 && told.met && !told.open, "which is told");
	is_int(step(s, NULL), 3, "and lets the other go");
	j = gang(8, 1, 1);
	on[0] = (struct sched_dep){7, SCHED_AFTER_OK};
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	j.id = j.order = 9;
	sched_job_add(s, &j);
	sched_job_remove(s, 9); /* gone before it is told */
	sched_job_finished(s, 7, 0);
	ok(sched_settled(s, &told) && told.job == 8 && !told.met, "a bad end is told, too");
	ok(!sched_settled(s, &told) && !sched_check(s), "of one that is gone nothing");
	sched_destroy(s);
}

/* What was decided and is not carried out was no start. */
static void test_after_taken_back(void)
{
	struct sched *s = cluster((struct sched_policy){0}, 1, 8);
	struct sched_dep on = {1, SCHED_AFTER_START};
	struct sched_settled told;
	struct sched_decision *d;
	struct sched_job j;

	add(s, 1, 1, 1);
	j = gang(2, 1, 1);
	j.after = &on;
	j.n_after = 1;
	sched_job_add(s, &j);
	d = sched_step(s);
	ok(d && d->job == 1, "the first is decided");
	sched_decision_free(d);
	is_int(step(s, NULL), 0, "what waits for its start does not go before it is carried out");
	sched_job_park(s, 1);
	sched_job_started(s, 1);
	is_int(step(s, NULL), 0, "nor when it is taken back");
	add(s, 1, 1, 1);
	ok(!sched_settled(s, &told), "of which nobody is told");
	is_int(step(s, NULL), 1, "decided again and carried out");
	ok(sched_settled(s, &told) && told.job == 2 && told.on == 1 && told.met, "it is told");
	is_int(step(s, NULL), 2, "and the other goes");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static double takes_ten(uint64_t job, void *arg)
{
	(void)arg;
	return job == 1 ? 10 : 0;
}

/* Limits alone say what ends when; a forecast goes by what is learned elsewhere, too. */
static void test_forecast(void)
{
	struct sched *s =
	    cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1}, 2, 8);
	struct sched_forecast f;
	struct sched_job j;

	sched_now(s, 1000);
	for (uint64_t i = 1; i <= 2; i++) { /* one on each node */
		j = gang(i, 1, 8);
		j.limit_s = 100 * i;
		sched_job_add(s, &j);
		step(s, NULL);
	}
	j = gang(3, 2, 8);
	j.limit_s = 50;
	sched_job_add(s, &j);
	j = gang(4, 1, 8);
	j.limit_s = 1000;
	sched_job_add(s, &j);
	is_int(step(s, NULL), 0, "all is taken");
	sched_forecast(s, 3, NULL, NULL, &f);
	is_int((int)f.start_s, 1200, "the gang starts when both have ended");
	ok(f.whole && f.n == 2 && f.n_first == 0, "on both nodes, nobody before it");
	free(f.places);
	sched_forecast(s, 4, NULL, NULL, &f);
	is_int((int)f.start_s, 1250, "the next one after that");
	ok(f.n == 1 && f.n_first == 1 && f.first[0] == 3, "and knows who is before it");
	free(f.places);
	sched_forecast(s, 3, takes_ten, NULL, &f);
	is_int((int)f.start_s, 1200, "one that ends sooner changes nothing when the other does not");
	free(f.places);
	j = gang(5, 1, 8);
	j.limit_s = 90;
	sched_job_add(s, &j);
	sched_now(s, 1005);
	sched_job_finished(s, 1, 1);
	is_int(step(s, NULL), 5, "a short one passes the gang");
	is_int(step(s, NULL), 0, "a long one does not: it would hold it up");
	sched_job_remove(s, 3);
	is_int(step(s, NULL), 0, "nothing is free");
	sched_forecast(s, 99, NULL, NULL, &f);
	ok(f.start_s == UINT64_MAX && !f.n, "of a job that does not wait nothing is known");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* Bounded work: after so many kinds that do not fit none behind is tried, until something changes. */
static void test_effort(uint64_t effort, int fourth_starts)
{
	struct sched *s =
	    cluster((struct sched_policy){.backfill = SCHED_RESERVE, .by_limit = 1, .effort = effort}, 2, 8);
	struct sched_job j;

	sched_now(s, 10);
	j = gang(1, 1, 8);
	j.limit_s = 100;
	sched_job_add(s, &j);
	is_int(step(s, NULL), 1, "one node is taken");
	for (uint64_t i = 2; i <= 4; i++) { /* a gang of both; two that would hold it up; one that would not */
		j = gang(i, i == 2 ? 2 : 1, i == 2 ? 8 : (uint32_t)i);
		j.limit_s = i < 4 ? 1000 : 50;
		sched_job_add(s, &j);
	}
	ok(step(s, NULL) == (fourth_starts ? 4 : 0), "with an effort of %d", (int)effort);
	sched_destroy(s);
}

static void test_preempt(void)
{
	struct sched *s = cluster((struct sched_policy){.backfill = SCHED_SKIP}, 2, 8);
	struct sched_victim v[8];
	struct sched_job j;
	uint64_t id;

	for (uint64_t i = 1; i <= 4; i++) { /* 1, 2 on the first node, 3, 4 on the second */
		j = gang(i, 1, 4);
		j.firm = i == 2;
		sched_job_add(s, &j);
		sched_now(s, i * 10);
		step(s, NULL);
	}
	sched_now(s, 1000);
	sched_checkpointed(s, 3, 990, 5);
	j = gang(9, 1, 4);
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 9, v, 8), 0, "nobody goes for one of equal priority");
	j.priority = 1;
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 9, v, 8), 1, "one goes for a higher one");
	is_int(v[0].job, 3, "the one with a fresh checkpoint");
	is_int(v[0].lost_gpu_s, 40, "of which the work since is lost, without the restart");
	j = gang(10, 1, 8);
	j.priority = 1;
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 10, v, 8), 2, "a whole node: both of the second, since one of the first is firm");
	ok(v[0].job + v[1].job == 7, "these two");
	j = gang(11, 2, 8);
	j.priority = 1;
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 11, v, 8), 0, "what cannot be had by that is left");
	j = gang(12, 1, 1);
	j.max_wait_s = 50;
	sched_job_add(s, &j);
	is_int(sched_expired(s, &id, 1), 0, "its wait is not over");
	sched_now(s, 1050);
	is_int(sched_expired(s, &id, 1), 1, "now it is");
	is_int(id, 12, "of this job");
	sched_destroy(s);
}

int main(void)
{
	test_best_fit();
	test_switches();
	test_gpus_together();
	test_fair_share();
	test_tree_of_queues();
	test_waiting();
	test_quota();
	test_quota_random();
	test_reserve();
	test_promise();
	test_no_starvation();
	test_learned();
	test_books();
	test_after();
	test_after_told();
	test_after_taken_back();
	test_forecast();
	test_effort(0, 1);
	test_effort(1000, 1);
	test_effort(404, 0); /* two nodes and 200, twice: the gang itself, then the first that would hold it up */
	test_preempt();
	return tap_done();
}
