/*
 * What a decision of the scheduler costs: JSON lines.
 *
 * decide: a full cluster of N nodes of 8 GPUs, held by jobs of 1 to WIDE nodes, Q waiting gangs of many
 * shapes; again and again one running job ends, and the next decision (or that there is none) is timed.
 * starts: an empty cluster is filled. queue: memory and time of adding a job. ask: what a question about one
 * waiting job costs, as CPU time: its forecast, its explanation, the cheapest change. pools: most
 * nodes run jobs; again and again one of these ends and leaves a warm pool, the oldest pool ends, a job of
 * one of 100 owners comes, and the next decision is timed. Usage: bench_sched [quick | ask [NODES PENDING
 * WIDE] | pools NODES PENDING POOLS [NODES_A_SWITCH] | POLICY NODES PENDING [WIDE [NODES_A_SWITCH]]]; four
 * switches are a rack.
 */
#include "scheduler/sched.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define GPUS 8

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

/* CPU time: nothing here waits, and what else runs on the machine does not count. */
static double now_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static uint32_t per_switch; /* nodes of one; 0: it is not known where they are */

static struct sched *cluster(uint32_t nodes, struct sched_policy p)
{
	char on[16], in[16];

	struct sched *s = sched_create();
	struct sched_gpu g[GPUS];

	sched_policy_set(s, &p);
	for (uint32_t i = 0; i < GPUS; i++)
		g[i] = (struct sched_gpu){
		    .index = i, .model = "H100", .memory_bytes = 80ull << 30, .numa = i / 4, .link_group = 1};
	for (uint32_t i = 1; i <= nodes; i++) {
		struct sched_node n = {.id = i,
		                       .name = "n",
		                       .instance_type = "t",
		                       .slots = 64,
		                       .memory_bytes = 1ull << 40,
		                       .gpus = g,
		                       .n_gpus = GPUS,
		                       .usable = 1};

		if (per_switch) {
			snprintf(on, sizeof on, "s%u", i / per_switch);
			snprintf(in, sizeof in, "r%u", i / per_switch / 4);
			n.switch_name = on;
			n.rack_name = in;
		}
		sched_node_set(s, &n);
	}
	return s;
}

/* Shapes: instances x GPUs x slots, so that a queue of 10,000 has some thousand of them. */
static void add(struct sched *s, uint64_t id, uint32_t largest, const char *owner)
{
	struct sched_group g = {
	    .instances = 1 + rnd(largest), .gpus = 1 + rnd(GPUS), .ranks = 1, .cpus_per_rank = 1 + rnd(8)};
	struct sched_job j = {
	    .id = id, .order = id, .groups = &g, .n_groups = 1, .owner = owner, .limit_s = 3600 * (1 + rnd(4))};

	sched_job_add(s, &j);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void decide(const char *policy, struct sched_policy p, uint32_t nodes, uint32_t queue, uint32_t wide,
                   uint32_t rounds)
{
	static const char *const owners[4] = {"ann", "bob", "cy", "dee"};
	struct sched *s = cluster(nodes, p);
	double *took = calloc(rounds, sizeof *took), began, ms;
	uint64_t id = 0, *running, n = 0, starts = 0;

	running = calloc((size_t)nodes * GPUS + 1, sizeof *running);
	sched_now(s, 1);
	for (uint32_t i = 0; i < nodes * 8 / (wide + 1); i++) /* about twice as many as the nodes hold */
		add(s, ++id, wide, owners[i % 4]);
	began = now_us();
	for (struct sched_decision *d; (d = sched_step(s)); sched_decision_free(d))
		running[n++] = d->job;
	ms = (now_us() - began) / 1e3;
	printf("{\"bench\": \"starts\", \"policy\": \"%s\", \"nodes\": %u, \"wide\": %u, \"starts\": %llu, "
	       "\"starts_per_s\": %.0f}\n",
	       policy, nodes, wide, (unsigned long long)n, (double)n / ms * 1e3);
	for (uint32_t i = 0; i < queue; i++)
		add(s, ++id, nodes < 64 ? nodes : 64, owners[i % 4]);
	for (uint32_t r = 0; r < rounds && n; r++) {
		uint64_t k = rnd((uint32_t)n);
		struct sched_decision *d;

		sched_now(s, 2 + r);
		sched_job_finished(s, running[k], 1);
		running[k] = running[--n];
		began = now_us();
		d = sched_step(s);
		took[r] = now_us() - began;
		for (; d; d = sched_step(s)) {
			running[n++] = d->job;
			starts++;
			sched_decision_free(d);
		}
	}
	qsort(took, rounds, sizeof *took, by_value);
	printf("{\"bench\": \"decide\", \"policy\": \"%s\", \"nodes\": %u, \"pending\": %u, \"wide\": %u, "
	       "\"p50_us\": %.0f, \"p99_us\": %.0f, \"max_us\": %.0f, \"started\": %llu}\n",
	       policy, nodes, queue, wide, took[rounds / 2], took[rounds * 99 / 100], took[rounds - 1],
	       (unsigned long long)starts);
	fflush(stdout);
	free(took);
	free(running);
	sched_destroy(s);
}

/* ---- warm pools --------------------------------------------------------------------------------- */

#define OWNERS      100
#define POOL_NODES  4 /* of a job at most, and so of a pool */
#define POOL_ROUNDS 2000

struct pools {
	struct sched *s;
	struct sched_decision **running;
	uint32_t n, of, warm, gave_way; /* n: running; of: pools at one time */
	uint64_t last_job, first_pool, last_pool;
	double took[POOL_ROUNDS];
};

static const char *owner_of(uint64_t job)
{
	static char name[16];

	snprintf(name, sizeof name, "@u%llu", (unsigned long long)(job * 2654435761u % OWNERS));
	return name;
}

static void count_lost(struct pools *b)
{
	struct sched_pool_lost l;

	while (sched_pool_lost(b->s, &l)) {
		b->warm += (uint32_t)l.taken;
		b->gave_way += l.job && !l.taken;
	}
}

static void step_all(struct pools *b)
{
	for (struct sched_decision *d; (d = sched_step(b->s));)
		b->running[b->n++] = d;
	count_lost(b);
}

static void small_job(struct pools *b)
{
	struct sched_group g = {1 + rnd(POOL_NODES), GPUS, 1, 1 + rnd(8)};
	struct sched_job j = {.id = ++b->last_job, .groups = &g, .n_groups = 1, .limit_s = 3600 * (1 + rnd(4))};

	j.order = j.id;
	j.owner = owner_of(j.id);
	j.warm = rnd(2) ? "torch" : "jax";
	sched_job_add(b->s, &j);
}

/* Ends the oldest ones until their number is right. Returns it. */
static uint32_t end_pools(struct pools *b)
{
	uint32_t n = 0;

	for (uint64_t id = b->first_pool + 1; id <= b->last_pool; id++)
		n += sched_pool_parts(b->s, id) > 0;
	for (; n > b->of || (b->last_pool > b->first_pool && !sched_pool_parts(b->s, b->first_pool + 1));) {
		n -= sched_pool_parts(b->s, ++b->first_pool) > 0;
		sched_pool_remove(b->s, b->first_pool);
	}
	return n;
}

/* One of those that run ends, and leaves all that it had. */
static void leave_pool(struct pools *b, uint64_t now)
{
	uint32_t k = rnd(b->n);
	struct sched_decision *d = b->running[k];
	struct sched_pool_part parts[POOL_NODES];
	struct sched_pool p = {.id = ++b->last_pool,
	                       .owner = owner_of(d->job),
	                       .warm = "torch",
	                       .idle_since_s = now,
	                       .parts = parts};

	for (; p.n_parts < d->n; p.n_parts++)
		parts[p.n_parts] = (struct sched_pool_part){.node = d->places[p.n_parts].node,
		                                            .n_gpus = d->places[p.n_parts].n_gpus,
		                                            .gpus = d->places[p.n_parts].gpus,
		                                            .n_cpus = d->places[p.n_parts].n_cpus,
		                                            .cpus = d->places[p.n_parts].cpus};
	sched_job_finished(b->s, d->job, 1);
	sched_pool_set(b->s, &p);
	sched_decision_free(d);
	b->running[k] = b->running[--b->n];
}

static void pools(struct sched_policy policy, uint32_t nodes, uint32_t queue, uint32_t of)
{
	struct pools b = {.s = cluster(nodes, policy), .of = of};

	b.running = calloc(nodes + POOL_ROUNDS, sizeof *b.running);
	sched_now(b.s, 1);
	for (uint32_t i = 0; i < nodes * 2 / 5; i++) /* about as many as the nodes hold */
		small_job(&b);
	step_all(&b);
	for (uint32_t i = 0; i < of; i++)
		leave_pool(&b, 1 + i);
	for (uint32_t i = 0; i < queue; i++) { /* none of these fits */
		struct sched_group g = {nodes, 1 + i % GPUS, 1, 1 + i / GPUS % 64};

		sched_job_add(b.s, &(struct sched_job){.id = ++b.last_job,
		                                       .order = 1000000000 + i,
		                                       .groups = &g,
		                                       .n_groups = 1,
		                                       .limit_s = 3600,
		                                       .priority = -1});
	}
	step_all(&b);
	b.warm = b.gave_way = 0;
	for (uint32_t r = 0; r < POOL_ROUNDS; r++) {
		struct sched_decision *d;

		sched_now(b.s, 2000 + r);
		leave_pool(&b, 2000 + r);
		(void)end_pools(&b);
		small_job(&b);
		b.took[r] = now_us();
		d = sched_step(b.s);
		b.took[r] = now_us() - b.took[r];
		if (d)
			b.running[b.n++] = d;
		step_all(&b);
	}
	qsort(b.took, POOL_ROUNDS, sizeof b.took[0], by_value);
	printf("{\"bench\": \"pools\", \"nodes\": %u, \"pending\": %u, \"pools\": %u, \"nodes_a_switch\": %u, "
	       "\"p50_us\": %.0f, \"p99_us\": %.0f, \"max_us\": %.0f, \"warm_places\": %u, \"gave_way\": %u, "
	       "\"pools_at_end\": %u}\n",
	       nodes, queue, of, per_switch, b.took[POOL_ROUNDS / 2], b.took[POOL_ROUNDS * 99 / 100],
	       b.took[POOL_ROUNDS - 1], b.warm, b.gave_way, end_pools(&b));
	fflush(stdout);
	while (b.n)
		sched_decision_free(b.running[--b.n]);
	free(b.running);
	sched_destroy(b.s);
}

/* Checks S-145. */
static void queue_cost(uint32_t jobs)
{
	struct sched *s = cluster(10, (struct sched_policy){.backfill = SCHED_RESERVE});
	struct mallinfo2 before = mallinfo2(), after;
	struct sched_group g = {.instances = 2, .gpus = 8};
	double began = now_us(), us;

	for (uint32_t i = 1; i <= jobs; i++) {
		struct sched_job j = {
		    .id = i, .order = i, .groups = &g, .n_groups = 1, .owner = "ann", .name = "sweep"};

		sched_job_add(s, &j);
	}
	us = now_us() - began;
	after = mallinfo2();
	printf("{\"bench\": \"queue\", \"jobs\": %u, \"bytes_per_job\": %.0f, \"add_us\": %.2f}\n", jobs,
	       (double)(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / jobs, us / jobs);
	sched_destroy(s);
}

/* ---- questions --------------------------------------------------------------------------------- */

/* As a controller's: a look-up by a name that is put together first. */
static double takes(uint64_t job, void *arg)
{
	char key[40];
	uint64_t sum = 0;

	snprintf(key, sizeof key, "owner%llu\njob%llu", (unsigned long long)(job % 100), (unsigned long long)job);
	for (const char *p = key; *p; p++)
		sum = sum * 31 + (unsigned char)*p;
	++*(uint64_t *)arg;
	return sum % 2 ? 0 : (double)(600 + sum % 3000);
}

enum ask { ASK_FORECAST, ASK_EARLIEST, ASK_EXPLAIN, ASK_CHANGE, ASKS };

static void ask(struct sched *s, enum ask what, const struct sched_job *j, uint64_t *called, unsigned *whole)
{
	struct sched_forecast f;
	struct sched_reason r;
	struct sched_change c;

	if (what == ASK_FORECAST) {
		sched_forecast(s, j->id, takes, called, &f);
		*whole += (unsigned)f.whole;
		free(f.places);
	} else if (what == ASK_EARLIEST) {
		(void)sched_earliest(s, j->id);
	} else if (what == ASK_EXPLAIN) {
		sched_explain(s, j->id, &r);
	} else {
		(void)sched_change(s, j, NULL, 0, &c);
	}
}

/* Full of jobs of so many nodes, as after a restart of the controller; 0: of one to three GPUs, four on a
 * node.
 */
static uint64_t fill(struct sched *s, uint32_t nodes, uint32_t wide, const char *const *owners)
{
	uint32_t gpus[GPUS], n = wide ? wide : 1, count = wide ? nodes / wide : nodes * 4;
	struct sched_place *places = calloc(n, sizeof *places);
	uint64_t id = 0;

	for (uint32_t k = 0; k < GPUS; k++)
		gpus[k] = k;
	for (uint32_t i = 0; i < count; i++) {
		struct sched_group g = {n, wide ? GPUS : i % 4 < 2 ? 1 : 3, 1, 2};
		uint32_t at = wide ? 0 : i % 4 < 2 ? i % 4 : i % 4 * 3 - 4, slots[2] = {i % 4 * 2, i % 4 * 2 + 1};
		struct sched_decision d = {.job = ++id, .n = n, .places = places};

		for (uint32_t k = 0; k < n; k++)
			places[k] = (struct sched_place){.node = 1 + (wide ? i * wide + k : i / 4),
			                                 .n_gpus = g.gpus,
			                                 .gpus = gpus + at,
			                                 .n_cpus = 2,
			                                 .cpus = slots};
		sched_job_restore(s,
		                  &(struct sched_job){.id = id,
		                                      .order = id,
		                                      .groups = &g,
		                                      .n_groups = 1,
		                                      .owner = owners[i % 4],
		                                      .limit_s = 600 + rnd(86400)},
		                  &d, 1);
	}
	free(places);
	return id;
}

static void time_questions(struct sched *s, uint32_t nodes, uint32_t queue, uint64_t last, const char *kind)
{
	static const char *const names[ASKS] = {"forecast", "earliest", "explain", "change"};
	enum { ROUNDS = 200 };
	uint64_t called = 0;

	for (int what = 0; what < ASKS; what++) {
		double took[ROUNDS];
		unsigned whole = 0;

		for (uint32_t i = 0; i < ROUNDS; i++) {
			struct sched_group g = {1 + rnd(64), GPUS, 1, 1 + rnd(8)};
			struct sched_job j = {.groups = &g, .n_groups = 1, .limit_s = 3600};

			/* one of the first, or any */
			j.id = last + 1 + rnd(i % 2 ? queue : 20);
			took[i] = now_us();
			ask(s, (enum ask)what, &j, &called, &whole);
			took[i] = now_us() - took[i];
		}
		qsort(took, ROUNDS, sizeof *took, by_value);
		printf("{\"bench\": \"ask\", \"what\": \"%s\", \"nodes\": %u, \"pending\": %u, \"running\": %llu, "
		       "\"kind\": \"%s\", \"cpu_p50_us\": %.0f, \"cpu_p99_us\": %.0f, \"cpu_max_us\": %.0f, "
		       "\"whole\": %u}\n",
		       names[what], nodes, queue, (unsigned long long)last, kind, took[ROUNDS / 2],
		       took[ROUNDS * 99 / 100], took[ROUNDS - 1], whole);
	}
	fflush(stdout);
}

enum kind { MANY_OWNERS, ONE_OWNER, BOOKED, QUOTAS };

static void questions(uint32_t nodes, uint32_t queue, uint32_t wide, enum kind kind)
{
	static const char *const names[] = {"four owners", "one owner", "booked", "quotas"};
	static const char *const owners[4] = {"ann", "bob", "cy", "dee"};
	struct sched *s = cluster(
	    nodes, (struct sched_policy){.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000});
	uint64_t last, some[100];

	sched_now(s, 1);
	last = fill(s, nodes, wide, owners);
	for (uint32_t i = 0; i < queue; i++)
		add(s, last + 1 + i, nodes < 64 ? nodes : 64, owners[kind == ONE_OWNER ? 0 : i % 4]);
	for (uint32_t i = 0; i < 100; i++)
		some[i] = 1 + rnd(nodes);
	for (uint32_t i = 0; kind == BOOKED && i < 20; i++)
		sched_reservation_set(s, &(struct sched_reservation){.id = i + 1,
		                                                     .from_s = 5000 * (uint64_t)i,
		                                                     .to_s = 5000 * (uint64_t)i + 4000,
		                                                     .nodes = some + (size_t)i * 5,
		                                                     .n_nodes = 5});
	for (uint32_t i = 0; kind == QUOTAS && i < 4; i++)
		sched_queue_set(s, &(struct sched_queue){.path = owners[i], .quota_gpus = nodes * 2});
	sched_decision_free(sched_step(s));
	time_questions(s, nodes, queue, last, names[kind]);
	sched_destroy(s);
}

static void all_questions(void)
{
	for (uint32_t nodes = 100; nodes <= 10000; nodes *= 10)
		for (uint32_t wide = 0; wide <= 4; wide += 4)
			questions(nodes, nodes, wide, MANY_OWNERS);
	for (int kind = ONE_OWNER; kind <= QUOTAS; kind++)
		questions(10000, 10000, 4, (enum kind)kind);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		struct sched_policy p;
	} policies[] = {{"block", {.backfill = SCHED_BLOCK}},
	                {"fair+reserve", {.backfill = SCHED_RESERVE, .fair = 1}},
	                {"live", {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1, .effort = 200000}}};
	per_switch = argc == 6 ? (uint32_t)atoi(argv[5]) : 0;
	if (argc >= 5 && strcmp(argv[1], "pools") == 0) {
		pools(policies[2].p, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
		return 0;
	}
	if (argc >= 4 && strcmp(argv[1], "ask") != 0) {
		for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
			if (!strcmp(policies[i].name, argv[1]))
				decide(policies[i].name, policies[i].p, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
				       argc > 4 ? (uint32_t)atoi(argv[4]) : 1, 1000);
		return 0;
	}
	if (argc >= 2 && !strcmp(argv[1], "ask")) {
		if (argc == 5)
			questions((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), MANY_OWNERS);
		else
			all_questions();
		return 0;
	}
	int quick = argc > 1 && !strcmp(argv[1], "quick");

	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		for (uint32_t nodes = 100; nodes <= (quick ? 1000u : 10000u); nodes *= 10)
			decide(policies[i].name, policies[i].p, nodes, quick ? 1000 : 10000, 1, quick ? 100 : 1000);
		for (uint32_t queue = 1000; !quick && queue <= 1000000; queue *= 10)
			decide(policies[i].name, policies[i].p, 1000, queue, 1, 300);
		if (!quick) /* fewer and larger gangs hold a large cluster */
			decide(policies[i].name, policies[i].p, 10000, 10000, 16, 300);
	}
	for (per_switch = 0; per_switch <= 16; per_switch += 16)
		for (uint32_t nodes = 1000; nodes <= (quick ? 1000u : 10000u); nodes *= 10)
			for (uint32_t of = 0; of <= nodes / 10; of += nodes / 10)
				pools(policies[2].p, nodes, nodes / 100, of);
	per_switch = 0;
	for (uint32_t jobs = 1000; jobs <= (quick ? 10000u : 1000000u); jobs *= 10)
		queue_cost(jobs);
	return 0;
}
