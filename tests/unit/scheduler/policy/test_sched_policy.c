/* What the policy promises: placement, reservations, bounds, victims of least cost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/unit/scheduler/policy/policykit.h"

/* ---- placement ------------------------------------------------------------------------------- */

static void test_best_fit(void)
{
	struct sched *s = kit_cluster((struct sched_policy){0}, 3, 8);
	struct sched_decision *d;
	uint64_t node = 0;

	kit_add(s, 1, 1, 2);
	is_int(kit_step(s, &node), 1, "the first job");
	is_int(node, 1, "goes to the first of equal nodes");
	kit_add(s, 2, 1, 6);
	kit_step(s, &node);
	is_int(node, 1, "what still fits a used node goes there");
	kit_add(s, 3, 1, 4);
	kit_step(s, &node);
	kit_add(s, 4, 2, 8);
	is_int(kit_step(s, NULL), 0, "a gang of two whole nodes waits for the second");
	sched_job_remove(s, 3);
	d = sched_step(s);
	ok(d && d->n == 2 && d->places[0].node == 2 && d->places[1].node == 3, "and takes both at once");
	sched_decision_free(d);
	sched_destroy(s);

	s = sched_create();
	kit_node(s, 1, 4, NULL, 2, 1);
	kit_node(s, 2, 4, NULL, 0, 9);
	kit_node(s, 3, 4, NULL, 0, 5);
	kit_add(s, 1, 1, 4);
	kit_step(s, &node);
	is_int(node, 3, "the cheapest of the healthy nodes");
	kit_add(s, 2, 1, 1);
	kit_step(s, &node);
	is_int(node, 2, "a healthy one before a cheaper doubtful one");
	kit_add(s, 3, 1, 4);
	kit_step(s, &node);
	is_int(node, 1, "a doubtful one when nothing else is left");
	sched_destroy(s);
}

static void test_switches(void)
{
	struct sched *s = sched_create();
	struct sched_decision *d;
	struct sched_job j;

	for (uint64_t i = 1; i <= 6; i++)
		kit_node(s, i, 4, i % 2 ? "a" : "b", 0, 0);
	kit_add(s, 1, 1, 4);
	kit_step(s, NULL);
	kit_add(s, 2, 2, 4);
	d = sched_step(s);
	ok(d && d->places[0].node % 2 && d->places[1].node % 2, "a gang goes to the switch that it just fills");
	sched_decision_free(d);
	kit_add(s, 3, 2, 4);
	kit_step(s, NULL);
	sched_job_remove(s, 1);
	j = kit_gang(4, 2, 4);
	j.span = SCHED_SPAN_SWITCH;
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 0, "one that must be on one switch waits");
	sched_job_remove(s, 4);
	kit_add(s, 5, 2, 4);
	is_int(kit_step(s, NULL), 5, "one that would like to be does not");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

static void test_gpus_together(void)
{
	struct sched *s = kit_cluster((struct sched_policy){0}, 1, 8);
	struct sched_decision *d;

	kit_add(s, 1, 1, 1);
	kit_step(s, NULL);
	kit_add(s, 2, 1, 4);
	d = sched_step(s);
	ok(d && d->places[0].gpus[0] == 4 && d->places[0].gpus[3] == 7, "GPUs of one socket");
	sched_decision_free(d);
	sched_destroy(s);
}

/* ---- backfill -------------------------------------------------------------------------------- */

static void add_limited(struct sched *s, uint64_t id, uint32_t instances, uint32_t gpus, uint64_t limit_s)
{
	struct sched_job j = kit_gang(id, instances, gpus);

	j.limit_s = limit_s;
	sched_job_add(s, &j);
}

static void test_reserve(void)
{
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_RESERVE}, 2, 8);
	uint64_t head = 0;

	add_limited(s, 1, 1, 8, 100);
	is_int(kit_step(s, NULL), 1, "one node is taken for 100 s");
	add_limited(s, 2, 2, 8, 50);
	add_limited(s, 3, 1, 4, 101);
	add_limited(s, 4, 1, 4, 100);
	is_int(kit_step(s, NULL), 4, "only what is gone in time goes before the gang");
	is_int(kit_step(s, NULL), 0, "nothing else");
	is_int(sched_reserved(s, &head), 100, "its place is kept for then");
	is_int(head, 2, "namely this gang's");
	is_int(sched_earliest(s, 2), 100, "no earlier start is expected of it");
	is_int(sched_earliest(s, 3), 0, "of what only the gang holds back one now");
	is_int(sched_preempt(s, 2, &(struct sched_victim){0, 0}, 1), 0, "nobody may go for it");
	add_limited(s, 5, 1, 4, 101);
	is_int(kit_step(s, NULL), 0, "after such questions its place is still kept");
	sched_job_remove(s, 5);
	sched_now(s, 100);
	sched_job_finished(s, 1, 1);
	sched_job_finished(s, 4, 1);
	is_int(kit_step(s, NULL), 2, "it starts at that time");
	sched_destroy(s);
}

/* With time limits that hold, the first blocked job never starts after the time that was first told for it.
 */
static void test_promise(void)
{
	for (uint32_t seed = 1; seed <= 6; seed++) {
		struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_RESERVE}, 4, 4);
		static uint64_t end[2001], takes[2001], promised[2001];
		uint64_t late = 0, id = 0;

		memset(end, 0, sizeof(end));
		memset(promised, 0, sizeof(promised));
		kit_rng = seed * 0x9e3779b97f4a7c15u;
		for (uint64_t t = 1; t < 1500; t++) {
			uint64_t k, head = 0, shadow;

			sched_now(s, t);
			for (k = 1; k <= id; k++) {
				if (end[k] == t) {
					sched_job_finished(s, k, 1);
					end[k] = 0;
				}
			}
			if (id < 300 && kit_rnd(3) == 0) {
				takes[++id] = 10 + 10 * kit_rnd(8);
				add_limited(s, id, 1 + kit_rnd(4), 1 + kit_rnd(4), takes[id] + 10 * kit_rnd(4));
			}
			while ((k = kit_step(s, NULL))) {
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
	    kit_cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .starve_s = 1000}, 4, 8);
	static uint64_t end[100001];
	uint64_t id = 1, started = 0;
	struct sched_job j = kit_gang(1, 4, 8);

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
			add_limited(s, ++id, 1, 1 + kit_rnd(4), 200);
		for (uint64_t k; (k = kit_step(s, NULL));) {
			end[k] = t + 100 + kit_rnd(100);
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
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_RESERVE}, 1, 1);
	struct sched_job j;
	uint64_t t = 0;

	for (uint64_t i = 1; i <= 20; i++) { /* "long" takes 1000 s, "short" 10 s */
		j = kit_gang(i, 1, 1);
		j.owner = "ann";
		j.name = i % 2 ? "long" : "short";
		sched_now(s, t);
		sched_job_add(s, &j);
		is_int(kit_step(s, NULL), i, "alone");
		sched_now(s, t += i % 2 ? 1000 : 10);
		sched_job_finished(s, i, 1);
	}
	for (uint64_t i = 31; i <= 34; i++) {
		j = kit_gang(i, 1, 1);
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
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_SKIP}, 2, 4);
	const uint64_t nodes[1] = {2};
	struct sched_job j;

	sched_reservation_set(
	    s, &(struct sched_reservation){
	           .id = 7, .from_s = 100, .to_s = 200, .queue = "vip", .nodes = nodes, .n_nodes = 1});
	add_limited(s, 1, 1, 4, 1000);
	is_int(kit_step(s, NULL), 1, "on the node that is not kept");
	add_limited(s, 2, 1, 4, 101);
	is_int(kit_step(s, NULL), 0, "one that would run into the time waits");
	add_limited(s, 3, 1, 4, 100);
	is_int(kit_step(s, NULL), 3, "one that ends in time does not");
	sched_now(s, 100);
	sched_job_finished(s, 3, 1);
	is_int(kit_step(s, NULL), 0, "the time has begun");
	j = kit_gang(4, 1, 4);
	j.queue = "vip/x";
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 4, "it is for whom it is kept");
	sched_job_finished(s, 4, 1);
	sched_now(s, 200);
	is_int(kit_step(s, NULL), 2, "afterwards for all");
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
	    kit_cluster((struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1}, 2, 8);
	struct sched_forecast f;
	struct sched_job j;

	sched_now(s, 1000);
	for (uint64_t i = 1; i <= 2; i++) { /* one on each node */
		j = kit_gang(i, 1, 8);
		j.limit_s = 100 * i;
		sched_job_add(s, &j);
		kit_step(s, NULL);
	}
	j = kit_gang(3, 2, 8);
	j.limit_s = 50;
	sched_job_add(s, &j);
	j = kit_gang(4, 1, 8);
	j.limit_s = 1000;
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 0, "all is taken");
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
	j = kit_gang(5, 1, 8);
	j.limit_s = 90;
	sched_job_add(s, &j);
	sched_now(s, 1005);
	sched_job_finished(s, 1, 1);
	is_int(kit_step(s, NULL), 5, "a short one passes the gang");
	is_int(kit_step(s, NULL), 0, "a long one does not: it would hold it up");
	sched_job_remove(s, 3);
	is_int(kit_step(s, NULL), 0, "nothing is free");
	sched_forecast(s, 99, NULL, NULL, &f);
	ok(f.start_s == UINT64_MAX && !f.n, "of a job that does not wait nothing is known");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* Bounded work: after so many kinds that do not fit none behind is tried, until something changes. */
static void test_effort(uint64_t effort, int fourth_starts)
{
	struct sched *s =
	    kit_cluster((struct sched_policy){.backfill = SCHED_RESERVE, .by_limit = 1, .effort = effort}, 2, 8);
	struct sched_job j;

	sched_now(s, 10);
	j = kit_gang(1, 1, 8);
	j.limit_s = 100;
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 1, "one node is taken");
	for (uint64_t i = 2; i <= 4; i++) { /* a gang of both; two that would hold it up; one that would not */
		j = kit_gang(i, i == 2 ? 2 : 1, i == 2 ? 8 : (uint32_t)i);
		j.limit_s = i < 4 ? 1000 : 50;
		sched_job_add(s, &j);
	}
	ok(kit_step(s, NULL) == (fourth_starts ? 4 : 0), "with an effort of %d", (int)effort);
	sched_destroy(s);
}

static void test_preempt(void)
{
	struct sched *s = kit_cluster((struct sched_policy){.backfill = SCHED_SKIP}, 2, 8);
	struct sched_victim v[8];
	struct sched_job j;
	uint64_t id;

	for (uint64_t i = 1; i <= 4; i++) { /* 1, 2 on the first node, 3, 4 on the second */
		j = kit_gang(i, 1, 4);
		j.firm = i == 2;
		sched_job_add(s, &j);
		sched_now(s, i * 10);
		kit_step(s, NULL);
	}
	sched_now(s, 1000);
	sched_checkpointed(s, 3, 990, 5);
	j = kit_gang(9, 1, 4);
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 9, v, 8), 0, "nobody goes for one of equal priority");
	j.priority = 1;
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 9, v, 8), 1, "one goes for a higher one");
	is_int(v[0].job, 3, "the one with a fresh checkpoint");
	is_int(v[0].lost_gpu_s, 40, "of which the work since is lost, without the restart");
	j = kit_gang(10, 1, 8);
	j.priority = 1;
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 10, v, 8), 2, "a whole node: both of the second, since one of the first is firm");
	ok(v[0].job + v[1].job == 7, "these two");
	j = kit_gang(11, 2, 8);
	j.priority = 1;
	sched_job_add(s, &j);
	is_int(sched_preempt(s, 11, v, 8), 0, "what cannot be had by that is left");
	j = kit_gang(12, 1, 1);
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
	test_reserve();
	test_promise();
	test_no_starvation();
	test_learned();
	test_books();
	test_forecast();
	test_effort(0, 1);
	test_effort(1000, 1);
	test_effort(404, 0); /* two nodes and 200, twice: the gang itself, then the first that would hold it up */
	test_preempt();
	return tap_done();
}
