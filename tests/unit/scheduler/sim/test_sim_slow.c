/*
 * The simulator's own policies start the same jobs at the same times on the same nodes as sched_slow.c, the
 * slow second implementation of the rules: random traces, seeded (HEARTH_SEED replays one).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/sim.h"
#include "tests/lib/tap.h"
#include "tests/unit/scheduler/sched_slow.h"

#define JOBS 150

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

struct world {
	struct sim_conf conf;
	struct trace trace;
	struct trace_job jobs[JOBS];
	int kind[JOBS]; /* index in shapes */
	struct slow slow;
	uint64_t start_s[JOBS + 1], end_s[JOBS + 1];
	uint32_t nodes[JOBS + 1][SLOW_NODES], n_nodes[JOBS + 1];
	unsigned late; /* jobs that started after the time that was first reserved for them */
};

/* A kind of job: so many GPUs for so long. */
static void kind_init(struct world *w, unsigned i, uint32_t gpus, uint64_t duration_s)
{
	struct slow_shape *sh = &w->slow.shapes[i];
	uint32_t whole = gpus / w->conf.gpus_per_node, rest = gpus % w->conf.gpus_per_node;

	*sh = (struct slow_shape){.avoid = -1, .span = SCHED_SPAN_ANY, .gpus = gpus};
	if (whole)
		sh->g[sh->n_groups++] = (struct sched_group){.instances = whole, .gpus = w->conf.gpus_per_node};
	if (rest || !whole)
		sh->g[sh->n_groups++] = (struct sched_group){.instances = 1, .gpus = rest};
	sh->instances = whole + (rest || !whole);
	sh->limit_s = duration_s * (w->conf.estimate == SIM_X3 ? 3 : 1);
}

static void random_trace(struct world *w, uint64_t seed)
{
	uint32_t gpus[SLOW_SHAPES], span;
	uint64_t duration_s[SLOW_SHAPES], at = 1000;
	static char *users[1] = {(char *)(uintptr_t) "u"};

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	memset(w, 0, sizeof(*w));
	w->conf =
	    (struct sim_conf){.nodes = 1 + rnd(SLOW_NODES), .gpus_per_node = 1 + rnd(SLOW_GPUS), .speedup = 1};
	span = 1 + rnd(40);
	for (unsigned i = 0; i < SLOW_SHAPES; i++) {
		gpus[i] = rnd(w->conf.nodes * w->conf.gpus_per_node + 1);
		duration_s[i] = 1 + rnd(i % 2 ? 30 : 400);
	}
	for (unsigned i = 0; i < JOBS; i++) {
		w->kind[i] = (int)rnd(SLOW_SHAPES);
		at += rnd(span);
		w->jobs[i] = (struct trace_job){
		    .submit_s = at, .duration_s = duration_s[w->kind[i]], .gpus = gpus[w->kind[i]]};
	}
	w->trace = (struct trace){.jobs = w->jobs, .n = JOBS, .users = users, .n_users = 1};
}

static uint64_t order_of(const struct world *w, unsigned i)
{
	const struct trace_job *j = &w->jobs[i];
	enum sim_policy p = w->conf.policy;
	uint64_t key = 0;

	if (p == SIM_SJF || p == SIM_SJF_SKIP)
		key = j->duration_s;
	else if (p == SIM_SAF || p == SIM_SAF_SKIP)
		key = j->duration_s * j->gpus;
	return key * JOBS + i;
}

static void slow_init(struct world *w)
{
	enum sim_policy p = w->conf.policy;

	memset(&w->slow, 0, sizeof(w->slow));
	w->late = 0;
	slow_accounts(&w->slow);
	w->slow.backfill = p == SIM_EASY                                                  ? SCHED_RESERVE
	                   : p == SIM_FIFO_SKIP || p == SIM_SJF_SKIP || p == SIM_SAF_SKIP ? SCHED_SKIP
	                                                                                  : SCHED_BLOCK;
	for (unsigned i = 0; i < w->conf.nodes; i++)
		w->slow.nodes[i] = (struct slow_node){.known = 1, .usable = 1, .gpus = w->conf.gpus_per_node};
	for (unsigned i = 0; i < JOBS; i++) {
		kind_init(w, (unsigned)w->kind[i], w->jobs[i].gpus, w->jobs[i].duration_s);
		w->end_s[i + 1] = w->start_s[i + 1] = SIM_NEVER;
		w->n_nodes[i + 1] = 0;
	}
}

static void start_job(struct world *w, unsigned id, const int *place)
{
	struct slow_job *j = &w->slow.jobs[id];
	const struct slow_shape *sh = &w->slow.shapes[j->shape];

	for (unsigned g = 0; g < sh->n_groups; g++)
		for (unsigned n = 0; n < w->conf.nodes; n++)
			if (place[n] == (int)g) {
				j->holds[j->n_holds++] = (struct slow_hold){(int)n, g, (1u << sh->g[g].gpus) - 1, 0};
				w->nodes[id][w->n_nodes[id]++] = n;
			}
	w->start_s[id] = w->slow.now_s;
	w->late += j->promise_s && w->slow.now_s > j->promise_s;
	w->end_s[id] = w->slow.now_s + w->jobs[id - 1].duration_s;
	slow_started(&w->slow, id);
}

static void end_job(struct world *w, unsigned id)
{
	struct slow_job *j = &w->slow.jobs[id];

	while (j->n_holds)
		slow_gives_back(&w->slow, id, j->n_holds - 1);
	j->state = SLOW_OVER;
	slow_lane_left(&w->slow, j->shape, j->account);
}

static void add_job(struct world *w, unsigned id)
{
	w->slow.n_jobs = id;
	w->slow.jobs[id] = (struct slow_job){
	    .order = order_of(w, id - 1), .submit_s = w->jobs[id - 1].submit_s, .shape = w->kind[id - 1]};
	slow_waits(&w->slow, id);
}

static uint64_t next_time(const struct world *w, unsigned came)
{
	uint64_t at = came < JOBS ? w->jobs[came].submit_s : SIM_NEVER;

	for (unsigned id = 1; id <= came; id++)
		if (w->slow.jobs[id].state == SLOW_RUNS && w->end_s[id] < at)
			at = w->end_s[id];
	return at;
}

static void run_slow(struct world *w)
{
	unsigned came = 0, id;
	uint64_t at;
	int place[SLOW_NODES];

	slow_init(w);
	while ((at = next_time(w, came)) != SIM_NEVER) {
		w->slow.now_s = at;
		for (id = 1; id <= came; id++)
			if (w->slow.jobs[id].state == SLOW_RUNS && w->end_s[id] == at)
				end_job(w, id);
		while (came < JOBS && w->jobs[came].submit_s == at)
			add_job(w, ++came);
		while ((id = slow_step(&w->slow, place)))
			start_job(w, id, place);
	}
}

/* The first job that differs, from 1; 0 none. */
static unsigned difference(const struct world *w, const struct sim_result *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct sim_job *j = &r->jobs[i];

		if (j->start_s != w->start_s[j->row + 1] || j->n_nodes != w->n_nodes[j->row + 1] ||
		    memcmp(j->nodes, w->nodes[j->row + 1], j->n_nodes * sizeof(*j->nodes)) != 0)
			return j->row + 1;
	}
	return r->n == JOBS ? 0 : JOBS;
}

static void compare(struct world *w, uint64_t seed, enum sim_policy policy, enum sim_estimate estimate)
{
	struct sim_result r;
	unsigned bad;

	w->conf.policy = policy;
	w->conf.estimate = estimate;
	run_slow(w);
	sim_run(&w->conf, &w->trace, &r);
	bad = difference(w, &r);
	if (!ok(!bad && !w->late && !slow_doubt(), "seed %" PRIu64 ", %s %s: equal to the slow scheduler", seed,
	        sim_policy_name(policy), sim_estimate_name(estimate)))
		tap_diag("job %u: start %" PRIu64 ", slow %" PRIu64, bad, bad ? r.jobs[bad - 1].start_s : 0,
		         w->start_s[bad]);
	sim_result_fini(&r);
}

int main(void)
{
	const char *given = getenv("HEARTH_SEED");
	uint64_t from = given ? strtoull(given, NULL, 10) : 1, to = given ? from : 40;
	static struct world w;

	for (uint64_t seed = from; seed <= to; seed++) {
		random_trace(&w, seed);
		for (int p = SIM_FIFO; p <= SIM_SAF_SKIP; p++)
			compare(&w, seed, (enum sim_policy)p, SIM_TRUE);
		compare(&w, seed, SIM_EASY, SIM_X3);
	}
	return tap_done();
}
