/*
 * Conservative backfill: random clusters and jobs, seeded (HEARTH_SEED replays one). Limits hold and jobs
 * often end sooner. While no job takes longer than its limit, none starts later than the first time that was
 * kept for it; with little effort, too. unit/scheduler/sim/simulate_tests.py compares whole schedules with a
 * second, slow implementation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/model/model.h"
#include "tests/lib/tap.h"

#define JOBS 150

static uint64_t rng_state;

static uint32_t rnd(uint32_t n)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 11) % n;
}

static void node(struct sched *s, uint64_t id, uint32_t n_gpus, int usable)
{
	struct sched_gpu g[8];
	char name[16];

	snprintf(name, sizeof(name), "n%u", (unsigned)id);
	for (uint32_t i = 0; i < n_gpus; i++)
		g[i] = (struct sched_gpu){.index = i, .model = "g"};
	sched_node_set(s, &(struct sched_node){.id = id,
	                                       .name = name,
	                                       .slots = 8,
	                                       .memory_bytes = 100,
	                                       .gpus = g,
	                                       .n_gpus = n_gpus,
	                                       .usable = usable});
}

struct run {
	struct sched *s;
	uint64_t now;
	struct {
		uint64_t limit_s, end_s, promised_s, started_s;
		int state; /* 1 waits, 2 runs, 3 over */
	} jobs[JOBS + 1];
	unsigned kept, late, started;
};

static struct run *run_new(uint64_t effort, int fair)
{
	struct run *r = calloc(1, sizeof(*r));
	struct sched_policy p = {.backfill = SCHED_CONSERVATIVE, .by_limit = 1, .effort = effort, .fair = fair};

	r->s = sched_create();
	sched_policy_set(r->s, &p);
	r->now = 1000;
	sched_now(r->s, r->now);
	return r;
}

static void run_free(struct run *r)
{
	sched_destroy(r->s);
	free(r);
}

static void add(struct run *r, uint64_t id, uint32_t instances, uint32_t gpus, uint32_t limit_s,
                int64_t priority, const char *owner)
{
	struct sched_group g = {instances, gpus, 1, 1 + (uint32_t)id % 3};

	r->jobs[id].limit_s = limit_s;
	r->jobs[id].state = 1;
	r->jobs[id].promised_s = UINT64_MAX;
	sched_job_add(r->s, &(struct sched_job){.id = id,
	                                        .order = id,
	                                        .priority = priority,
	                                        .groups = &g,
	                                        .n_groups = 1,
	                                        .memory_bytes = id % 4 * 10,
	                                        .exclusive = id % 11 == 0,
	                                        .owner = owner,
	                                        .limit_s = limit_s});
}

static void step(struct run *r)
{
	struct sched_decision *d;

	while ((d = sched_step(r->s))) {
		uint64_t id = d->job, limit = r->jobs[id].limit_s;

		r->jobs[id].state = 2;
		r->jobs[id].started_s = r->now;
		r->jobs[id].end_s = r->now + (rnd(3) ? 1 + rnd((uint32_t)limit) : limit);
		r->started++;
		if (r->now > r->jobs[id].promised_s)
			r->late++;
		sched_job_started(r->s, id);
		sched_decision_free(d);
	}
	for (uint64_t id = 1; id <= JOBS; id++) {
		uint64_t at = r->jobs[id].state == 1 ? sched_kept(r->s, id) : UINT64_MAX;

		r->kept += at != UINT64_MAX;
		if (at < r->jobs[id].promised_s && r->jobs[id].promised_s == UINT64_MAX)
			r->jobs[id].promised_s = at;
	}
}

static void pass(struct run *r)
{
	r->now++;
	sched_now(r->s, r->now);
	for (uint64_t id = 1; id <= JOBS; id++) {
		if (r->jobs[id].state != 2 || r->jobs[id].end_s != r->now)
			continue;
		r->jobs[id].state = 3;
		sched_job_finished(r->s, id, 1);
	}
}

static void random_run(unsigned seed, uint64_t effort)
{
	struct run *r;
	uint32_t nodes, next = 1;
	const char *bad = NULL;

	rng_state = seed * 0x9e3779b97f4a7c15u + 1;
	nodes = 2 + rnd(4);
	r = run_new(effort, 0);
	for (uint32_t i = 0; i < nodes; i++)
		node(r->s, i + 1, 1 + rnd(8), 1);
	while (!bad && r->now < 200000) {
		pass(r);
		for (uint32_t k = rnd(3); next <= JOBS && k; k--, next++)
			add(r, next, 1 + rnd(nodes), rnd(4), 1 + rnd(60), 0, NULL);
		step(r);
		bad = sched_check(r->s);
		for (uint64_t id = 1; next > JOBS && id <= JOBS && r->jobs[id].state == 1; id++)
			;
		if (next > JOBS && r->started == JOBS)
			break;
		if (next > JOBS && r->now > 50000)
			break; /* some want what no node has */
	}
	ok(!bad, "seed %u, effort %" PRIu64 ": consistent (%s)", seed, effort, bad ? bad : "");
	ok(!r->late, "of %u starts %u were later than first promised; places were kept %u times", r->started,
	   r->late, r->kept);
	ok(r->kept > 0 && r->started > JOBS / 4, "and there was something to keep");
	run_free(r);
}

static uint64_t start_of(const struct run *r, uint64_t id)
{
	return r->jobs[id].started_s ? r->jobs[id].started_s - 1000 : UINT64_MAX;
}

/* EASY keeps a place for the first only: the second would wait for the third. */
static void test_second(void)
{
	struct run *r = run_new(0, 0);

	node(r->s, 1, 4, 1);
	add(r, 1, 1, 3, 100, 0, NULL);
	step(r);
	add(r, 2, 1, 2, 100, 0, NULL); /* head: at 100, with two GPUs to spare */
	add(r, 3, 1, 4, 100, 0, NULL); /* second: at 200 */
	add(r, 4, 1, 1, 250, 0, NULL); /* beside the first, but in the way of the second */
	add(r, 5, 1, 1, 200, 0, NULL); /* in nobody's way */
	step(r);
	ok(start_of(r, 4) == UINT64_MAX, "what would delay the second does not start");
	ok(start_of(r, 5) == 0, "what delays nobody does");
	is_int((long long)sched_kept(r->s, 2), 1100, "the first has its place");
	is_int((long long)sched_kept(r->s, 3), 1200, "the second, too");
	is_int((long long)sched_kept(r->s, 4), 1300, "and the third behind it");
	run_free(r);
}

static void test_promises(void)
{
	struct run *r = run_new(0, 0);

	node(r->s, 1, 4, 1);
	node(r->s, 2, 4, 1);
	add(r, 1, 2, 4, 100, 0, NULL);
	step(r);
	add(r, 2, 2, 4, 50, 0, NULL);
	step(r);
	is_int((long long)sched_kept(r->s, 2), 1100, "a place is kept");
	add(r, 3, 2, 4, 50, 0, NULL);
	step(r);
	is_int((long long)sched_kept(r->s, 3), 1150, "one behind it");
	add(r, 4, 2, 4, 10, 5, NULL);
	step(r);
	is_int((long long)sched_kept(r->s, 4), 1100, "a job of higher priority takes the first");
	is_int((long long)sched_kept(r->s, 2), 1110, "the others come after it");
	sched_job_remove(r->s, 4);
	step(r);
	is_int((long long)sched_kept(r->s, 2), 1100, "when it goes they take a sooner one");
	node(r->s, 2, 4, 0);
	step(r);
	ok(sched_kept(r->s, 2) == UINT64_MAX, "without the node there is no place to keep");
	node(r->s, 2, 4, 1);
	sched_reservation_set(r->s,
	                      &(struct sched_reservation){
	                          .id = 1, .from_s = 1120, .to_s = 1200, .nodes = (uint64_t[]){2}, .n_nodes = 1});
	step(r);
	is_int((long long)sched_kept(r->s, 2), 1200, "nodes that are reserved are no place either");
	run_free(r);
}

/* Weights of 1 to 3 among those that come at one time. Checks S-253. */
static void test_shares(void)
{
	struct run *r = run_new(0, 1);
	unsigned of_b = 0;

	node(r->s, 1, 1, 1);
	sched_queue_set(r->s, &(struct sched_queue){.path = "b", .weight = 3});
	for (uint64_t id = 1; id <= 40; id++)
		add(r, id, 1, 1, 10, 0, id <= 20 ? "a" : "b");
	step(r);
	for (uint64_t id = 1; id <= 40; id++)
		of_b += id > 20 && (start_of(r, id) == 0 || sched_kept(r->s, id) < 1000 + 160);
	ok(of_b >= 11 && of_b <= 13, "of the first 16 places about 12 are of the weight 3 (%u)", of_b);
	run_free(r);
}

/* ---- EASY with shares --------------------------------------------------------------------------- */

enum beside { NOBODY, CLOSED, CLOSED_ALIKE, TOO_LARGE, BOOKED, PASSING };

static void send(struct sched *s, uint64_t id, const char *owner, struct sched_group g, int64_t priority,
                 uint64_t limit_s)
{
	static const char *const sixth[] = {"n6", NULL};

	sched_job_add(s, &(struct sched_job){.id = id,
	                                     .order = id,
	                                     .priority = priority,
	                                     .groups = &g,
	                                     .n_groups = 1,
	                                     .avoid = g.gpus == 2 ? NULL : sixth,
	                                     .owner = owner,
	                                     .limit_s = limit_s});
}

/* Another waits that cannot start, or, PASSING, one of higher priority for a while. */
static void send_beside(struct sched *s, enum beside b)
{
	const uint64_t sixth = 6;

	if (b == CLOSED || b == CLOSED_ALIKE)
		sched_queue_close(s, "z", 1);
	if (b == CLOSED)
		send(s, 3, "z", (struct sched_group){1, 1, 0, 0}, 5, 60);
	if (b == CLOSED_ALIKE)
		send(s, 3, "z", (struct sched_group){4, 1, 0, 0}, 0, 60);
	if (b == TOO_LARGE)
		send(s, 3, "z", (struct sched_group){7, 1, 0, 0}, 5, 60);
	if (b == BOOKED) {
		sched_reservation_set(
		    s, &(struct sched_reservation){.id = 1, .to_s = 1000000, .nodes = &sixth, .n_nodes = 1});
		send(s, 3, "z", (struct sched_group){1, 2, 0, 0}, 5, 60);
	}
	if (b == PASSING)
		send(s, 3, "z", (struct sched_group){3, 1, 0, 0}, 5, 60);
}

/* Jobs of one whose share is always less come without end; the gang of another, which is first now and then
 * only, gets all nodes all the same. */
static void test_gang_among_shares(enum beside b)
{
	static const char *const of[] = {
	    "nobody",        "one of a closed account", "one alike of a closed account",
	    "one too large", "one that is booked out",  "one of higher priority that goes"};
	struct sched_policy p = {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .half_life_s = 10};
	struct sched *s = sched_create();
	uint64_t next = 100, gang = 0, first = 0, next_of_gang = 0, ends[5] = {0}, holder[5] = {0};

	sched_policy_set(s, &p);
	for (uint64_t id = 1; id <= 5; id++)
		node(s, id, 1, 1);
	if (b == BOOKED)
		node(s, 6, 2, 1);
	sched_queue_set(s, &(struct sched_queue){.path = "a", .weight = 3});
	/* What b holds weighs as much as about two and a half of a's. */
	send(s, 2, "b", (struct sched_group){1, 1, 0, 0}, 0, 100000);
	for (uint64_t now = 1; now <= 2000 && !gang; now++) {
		struct sched_decision *d;

		sched_now(s, now);
		for (unsigned i = 0; i < 5; i++) {
			if (!holder[i] || ends[i] > now)
				continue;
			sched_job_finished(s, holder[i], 1);
			holder[i] = 0;
		}
		for (size_t waiting = 0; sched_count(s, &waiting, NULL, NULL), waiting < 9; next++)
			send(s, next, "a", (struct sched_group){1, 1, 0, 0}, 0, 60);
		if (now == 10) {
			send_beside(s, b == PASSING ? NOBODY : b);
			send(s, 1, "b", (struct sched_group){4, 1, 0, 0}, 0, 60);
		}
		if (b == PASSING && first && now == first + 1)
			send_beside(s, b);
		if (b == PASSING && first && now == first + 2)
			sched_job_remove(s, 3);
		while ((d = sched_step(s))) {
			unsigned at = (unsigned)d->places[0].node - 1;

			sched_job_started(s, d->job);
			gang = d->job == 1 ? now : gang;
			holder[at] = d->job;
			ends[at] = d->job == 2 ? 100000 : now + 2 + at; /* never all at once */
			sched_decision_free(d);
		}
		if (!first && sched_reserved(s, &next_of_gang) && next_of_gang == 1)
			first = now;
	}
	ok(first, "beside %s: the gang is first some day (%u)", of[b], (unsigned)first);
	ok(gang && gang <= first + 60, "and starts within the longest limit from then on (%u)", (unsigned)gang);
	sched_destroy(s);
}

/* What runs costs effort by the times at which it ends, not by the head: while nodes are free, who fits
 * starts. */
static void test_free_nodes(void)
{
	struct run *r = run_new(40, 0);

	for (uint64_t id = 1; id <= 100; id++)
		node(r->s, id, 1, 1);
	for (uint64_t id = 1; id <= 100; id++)
		add(r, id, 1, 1, (uint32_t)(100 + id % 3), 0, NULL);
	step(r);
	is_int(r->started, 100, "jobs for all nodes start, with the effort for less than one look at them");
	run_free(r);
}

/* As a controller: a look at each event, no more. wake: kept places are events. In the end nothing waits. */
static unsigned left_over(unsigned seed, uint64_t effort, int wake)
{
	struct run *r;
	uint32_t nodes, next = 1;
	uint64_t arrives = 1000;
	size_t waiting;

	rng_state = seed * 0x9e3779b97f4a7c15u + 77;
	nodes = 3 + rnd(6);
	r = run_new(effort, 1);
	for (uint32_t i = 0; i < nodes; i++)
		node(r->s, i + 1, 4, 1);
	for (;;) {
		uint64_t at = next <= JOBS / 2 ? arrives : UINT64_MAX;

		for (uint64_t id = 1; id <= JOBS; id++)
			at = r->jobs[id].state == 2 && r->jobs[id].end_s < at ? r->jobs[id].end_s : at;
		at = wake && sched_next_kept(r->s) < at ? sched_next_kept(r->s) : at;
		if (at == UINT64_MAX)
			break;
		r->now = (at > r->now ? at : r->now) - 1;
		pass(r);
		while (next <= JOBS / 2 && arrives <= r->now) {
			add(r, next, 1 + rnd(nodes), rnd(5), 1 + rnd(400), rnd(10) ? 0 : 5, rnd(2) ? "a" : "b");
			arrives += rnd(60);
			next++;
		}
		step(r);
	}
	sched_count(r->s, &waiting, NULL, NULL);
	run_free(r);
	return (unsigned)waiting;
}

static void test_nothing_stays(void)
{
	static const uint64_t efforts[] = {1, 10, 60, 500, 0};
	unsigned left = 0;

	for (unsigned seed = 1; seed <= 20; seed++)
		for (unsigned i = 0; i < 5; i++)
			left += left_over(seed, efforts[i], 0) + left_over(seed, efforts[i], 1);
	is_int(left, 0, "looks at events alone start all, whatever the effort");
}

/* Work is bounded where nodes are booked, and what was found out there lasts: each look gets further. */
static void test_booked(void)
{
	struct sched_policy p = {.backfill = SCHED_RESERVE, .by_limit = 1, .effort = 404};
	struct sched *s = sched_create();
	const uint64_t both[] = {1, 2};
	struct sched_decision *d = NULL;
	unsigned looks = 0, over = 0;

	sched_policy_set(s, &p);
	sched_now(s, 1000);
	node(s, 1, 4, 1);
	node(s, 2, 4, 1);
	sched_reservation_set(
	    s, &(struct sched_reservation){.id = 1, .from_s = 2000, .to_s = 3000, .nodes = both, .n_nodes = 2});
	for (uint64_t id = 1; id <= 20; id++)
		send(s, id, "a", (struct sched_group){1, 1, 0, 0}, 0, 2000 + id);
	send(s, 21, "a", (struct sched_group){1, 1, 0, 0}, 0, 500);
	for (; !d && looks < 30; looks++) {
		d = sched_step(s);
		over += s->effort > 404;
		send(s, 100 + looks, "a", (struct sched_group){1, 1, 0, 0}, 0, 5000);
	}
	ok(looks > 1 && !over, "a look tries no more than its effort, and is over");
	ok(d && d->job == 21, "later ones go on behind those that are known to be booked out (%u)", looks);
	sched_decision_free(d);
	sched_now(s, 3000);
	d = sched_step(s);
	ok(d && d->job == 1, "when the time is over they start");
	sched_decision_free(d);
	sched_job_remove(s, 21);
	sched_node_remove(s, 2);
	is_int(s->n_reservations, 1, "a node that goes takes what was booked of it along");
	sched_destroy(s);
}

/* What an account holds beyond its quota may be taken back, also when it is closed, or its quota was lowered.
 */
static void test_over_quota(int closed, uint32_t quota)
{
	struct sched_policy p = {.backfill = SCHED_RESERVE, .by_limit = 1};
	struct sched *s = sched_create();
	struct sched_victim v[4];
	size_t n;

	sched_policy_set(s, &p);
	node(s, 1, 4, 1);
	sched_queue_set(s, &(struct sched_queue){.path = "a", .quota_gpus = closed ? quota : 0, .borrow = 1});
	send(s, 1, "a", (struct sched_group){1, 4, 0, 0}, 0, 1000);
	sched_decision_free(sched_step(s));
	if (closed)
		sched_queue_close(s, "a", 1);
	else
		sched_queue_set(s, &(struct sched_queue){.path = "a", .quota_gpus = quota});
	send(s, 2, "b", (struct sched_group){1, 4, 0, 0}, 0, 1000);
	n = sched_preempt(s, 2, v, 4);
	ok(n == (quota < 4) && (!n || v[0].job == 1), "%s, with a quota of %u", closed ? "closed" : "lowered",
	   quota);
	sched_destroy(s);
}

/* Too many pieces of time for memory: then it is EASY. */
static void test_large(void)
{
	struct run *r = run_new(0, 0);
	uint64_t head = 0;

	for (uint64_t id = 1; id <= 6000; id++)
		node(r->s, id, 1, 1);
	for (uint64_t id = 1; id <= 110; id++)
		add(r, id, 1, 1, (uint32_t)(1000 + id * 7), 0, NULL);
	step(r);
	add(r, 120, 6000, 1, 100, 0, NULL);
	add(r, 121, 1, 1, 50, 0, NULL);
	step(r);
	ok(start_of(r, 121) == 0, "a short job passes");
	ok(sched_kept(r->s, 120) == UINT64_MAX && sched_reserved(r->s, &head) == 2770 && head == 120,
	   "the first has a place kept as EASY does it");
	run_free(r);
}

int main(void)
{
	const char *seed = getenv("HEARTH_SEED");

	for (unsigned i = seed ? (unsigned)atoi(seed) : 1, last = seed ? i : 12; i <= last; i++) {
		random_run(i, 0);
		random_run(i, 60);
	}
	test_second();
	test_promises();
	test_shares();
	for (int b = NOBODY; b <= PASSING; b++)
		test_gang_among_shares((enum beside)b);
	for (int closed = 0; closed < 2; closed++) {
		test_over_quota(closed, 2);
		test_over_quota(closed, 4);
	}
	test_booked();
	test_free_nodes();
	test_nothing_stays();
	test_large();
	return tap_done();
}
