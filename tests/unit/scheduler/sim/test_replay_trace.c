/*
 * A recorded cluster, told again and simulated: figures that can be worked out by hand, what other weights,
 * nodes and policies change, and what is no record.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/sim/replay.h"
#include "tests/lib/tap.h"

/* One node of two GPUs. At 10 s three jobs come: 1 takes both GPUs for 20 s, 2 (both) waits for it and takes
 * 5.5 s; 3 (one GPU, limit 100 s) waits for both: a place is kept for 2. Somebody asks for a fourth. */
static const char head[] = "hearth-history 1 cluster=x began=2026-01-02T00:00:00Z\nat 9000\n"
                           "policy backfill=2 fair=1 by_limit=1 effort=200000\nnow 9\n"
                           "node 7 name=h1 usable=1 slots=8 gpu=0,0,0,0 gpu=1,0,0,0\n";
static const char jobs[] =
    "at 10000\nnow 10\n"
    "job 1 group=1,2,1,1 queue=q owner=@a order=1 submit=10 limit=50\n"
    "job 2 group=1,2,1,1 queue=q owner=@b order=2 submit=10 limit=50\n"
    "job 3 group=1,1,1,1 queue=q owner=@b order=3 submit=10 limit=100\n"
    "step 1 on=7,0,0+1,0\nstarted 1\nstep 0\n"
    "try\njob 4 group=1,1,1,1 queue=q owner=@c order=4 submit=10 limit=5\nstep 0\nremove 4\ntried\n"
    "at 30000\nnow 30\nrelease 1 7\nend 1 1\nstep 2 on=7,0,0+1,0\nstarted 2\nstep 0\n"
    "at 35500\nnow 35\nrelease 2 7\nend 2 1\nstep 3 on=7,0,0,0\nstarted 3\nstep 0\n"
    "at 40000\nnow 40\nrelease 3 7\nend 3 0\nstep 0\n";

static char *text_of(const char *more)
{
	size_t n = sizeof(head) + sizeof(jobs) + strlen(more);
	char *t = malloc(n);

	snprintf(t, n, "%s%s%s", head, jobs, more);
	return t;
}

static struct replay_result simulated(const struct replay_conf *c, const char *more)
{
	char *text = text_of(more);
	struct replay_result r = {0};
	struct replay_mistake m = {0};

	if (replay_simulate(c, text, strlen(text), &r, &m) < 0)
		tap_bail("line %zu: %s", m.line, m.what);
	free(text);
	return r;
}

static struct replay_compared compared(const struct replay_conf *c, const char *more)
{
	char *text = text_of(more);
	struct replay_compared r = {0};
	struct replay_mistake m = {0};

	if (replay_compare(c, text, strlen(text), &r, &m) < 0)
		tap_bail("line %zu: %s", m.line, m.what);
	free(text);
	return r;
}

static int near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static const struct replay_conf same;

static void test_compare(void)
{
	const struct replay_weight weights[] = {{"q/@b", 1}, {"q/@a", 1}};
	enum sched_backfill skip = SCHED_SKIP;
	struct replay_conf c = {.backfill = &skip};
	struct replay_compared r = compared(&same, "");

	ok(!r.differs && r.starts == 3, "three starts are decided again");
	replay_compared_fini(&r);
	r = compared(&(struct replay_conf){.weights = weights, .n_weights = 2}, "");
	ok(!r.differs, "with weights as they were, too");
	replay_compared_fini(&r);
	r = compared(&(struct replay_conf){.more_nodes = 1}, "");
	ok(r.differs && r.starts == 1 && r.was.job == 0 && r.is.job == 2 && r.at_ms == 10000,
	   "with one node more job 2 would have started at once");
	is_str(r.is.n == 1 ? r.is.nodes[0] : "-", "more-1", "on the added node");
	replay_compared_fini(&r);
	r = compared(
	    &c, "at 50000\njob 8 group=1,2,1,1 order=8 limit=9\njob 9 group=1,1,1,1 order=9 limit=900\n"
	        "job 10 group=1,1,1,1 order=10 limit=900\nstep 8 on=7,0,0+1,0\nstep 0\nrelease 8 7\nend 8 1\n"
	        "step 10 on=7,0,0,0\n");
	ok(r.differs && r.starts == 4 && r.was.job == 10 && r.is.job == 9, "the first difference is named: %d",
	   (int)r.is.job);
	replay_compared_fini(&r);
}

static int has(char **paths, const char *path)
{
	while (*paths && strcmp(*paths, path) != 0)
		paths++;
	return *paths != NULL;
}

static void test_figures(void)
{
	struct replay_result r = simulated(&same, "");

	is_int(r.n, 3, "three jobs: what was only asked is none");
	is_int(r.nodes, 1, "one node");
	ok(has(r.paths, "q") && has(r.paths, "q/@a") && has(r.paths, "q/@b") && !has(r.paths, "q/@@a") &&
	       !has(r.paths, "nope"),
	   "who may be given a weight");
	is_int(r.gpus, 2, "two GPUs");
	ok(near(r.is.avg_jct, (20 + 25.5 + 30) / 3.0) && near(r.is.avg_wait, (0 + 20 + 25.5) / 3.0),
	   "simulated as it was: %g %g", r.is.avg_jct, r.is.avg_wait);
	ok(near(r.is.avg_jct, r.was.avg_jct) && near(r.is.max_wait, 25.5) && near(r.was.max_wait, 25.5) &&
	       near(r.is.p50_jct, 25.5) && near(r.is.makespan, 30) && near(r.is.utilization, r.was.utilization),
	   "and both figures are equal");
	ok(near(r.is.utilization, (20 * 2 + 5.5 * 2 + 4.5) / 60), "use: %g", r.is.utilization);
	ok(r.jobs[2].start_ms == 35500 && r.jobs[2].end_ms == 40000 && strcmp(r.jobs[2].nodes[0], "h1") == 0,
	   "each job has its times and nodes");
	replay_result_fini(&r);
}

static void test_whatif(void)
{
	const char *const without[] = {"h1", NULL};
	struct sched_policy skip = {.backfill = SCHED_SKIP, .by_limit = 1};
	struct replay_result r = simulated(&(struct replay_conf){.more_nodes = 2}, "");

	ok(near(r.is.avg_wait, 0) && near(r.is.avg_jct, (20 + 5.5 + 4.5) / 3.0) && r.nodes == 3 && r.gpus == 6,
	   "two nodes more: nobody waits");
	ok(r.was_nodes == 1 && r.was_gpus == 2 && near(r.was.utilization, (20 * 2 + 5.5 * 2 + 4.5) / 60),
	   "the use of what there was does not change: %g", r.was.utilization);
	ok(near(r.was.avg_wait, (0 + 20 + 25.5) / 3.0), "what was stays");
	replay_result_fini(&r);
	r = simulated(&(struct replay_conf){.without = without}, "");
	ok(r.is.jobs == 0 && r.dropped == 3, "without the only node nothing starts");
	ok(r.nodes == 0 && r.gpus == 0 && r.was_nodes == 1 && r.was_gpus == 2, "nodes: %u here, %u there were",
	   r.nodes, r.was_nodes);
	ok(r.was.jobs == 3 && near(r.was.utilization, (20 * 2 + 5.5 * 2 + 4.5) / 60), "what was stays: %g",
	   r.was.utilization);
	replay_result_fini(&r);
	/* A job of one GPU for 10 s that comes at 12 s beside a long one: easy keeps the place, skip does not. */
	r = simulated(&(struct replay_conf){.policy = &skip}, "");
	ok(r.is.jobs == 3 && near(r.is.makespan, 30), "another policy");
	replay_result_fini(&r);
	r = simulated(&(struct replay_conf){.estimate = REPLAY_TRUE}, "");
	ok(r.is.jobs == 3, "true run times are believed");
	replay_result_fini(&r);
	r = simulated(&(struct replay_conf){.estimate = REPLAY_LEARNED}, "");
	ok(r.is.jobs == 3, "or learned ones");
	replay_result_fini(&r);
}

static void test_unfinished(void)
{
	static const char more[] =
	    "at 50000\nnow 50\njob 5 group=1,1,1,1 order=5 submit=50 limit=9\nstep 5 on=7,0,0,0\nstarted 5\n"
	    "job 6 group=1,2,1,1 order=6 submit=50 limit=9\nstep 0\n"
	    "at 60000\nnow 60\nend 6 0\n"; /* stopped while it waited */
	struct replay_result r = simulated(&same, more);

	ok(r.n == 5 && r.unfinished == 2 && r.is.jobs == 3,
	   "one that runs on, and one that never ran, are not in the figures");
	replay_result_fini(&r);
	r = simulated(&(struct replay_conf){.more_nodes = 1}, more);
	ok(r.jobs[4].id == 6 && r.jobs[4].start_ms == 50000 && r.jobs[4].end_ms == 60000,
	   "where it could start it runs until it was stopped");
	replay_result_fini(&r);
}

/* A gang of two loses a node after 10 s and runs on for 20 s with the other and a spare. */
static void test_exchange(void)
{
	static const char more[] =
	    "at 50000\nnow 50\nnode 8 name=h2 usable=1 slots=8 gpu=0,0,0,0 gpu=1,0,0,0\n"
	    "node 9 name=h3 usable=1 spare=1 slots=8 gpu=0,0,0,0 gpu=1,0,0,0\n"
	    "job 5 group=2,2,1,1 order=5 submit=50 limit=90\nstep 5 on=7,0,0+1,0 on=8,0,0+1,0\nstarted 5\n"
	    "at 60000\nnow 60\ngone 8\nexchange 5 group=2,2,1,1 order=5 submit=50 limit=90 avoid=h2 drop=8\n"
	    "step 5 on=7,0,0+1,0 on=9,0,0+1,0\nstarted 5\nstep 0\nat 80000\nnow 80\nend 5 1\n";
	struct replay_compared c = compared(&same, more);
	struct replay_result r = simulated(&same, more);

	ok(!c.differs && c.starts == 5, "replaced places are decided again: %zu starts", c.starts);
	ok(r.jobs[3].id == 5 && r.jobs[3].run_ms == 30000 && r.jobs[3].end_ms == 80000,
	   "its run is one, as long as it held nodes: %d ms", (int)r.jobs[3].run_ms);
	replay_compared_fini(&c);
	replay_result_fini(&r);
}

/* It runs when the record begins, is requeued once, and another depends on it. */
static void test_before(void)
{
	static const char text[] =
	    "hearth-history 1\nat 1000\npolicy backfill=2 by_limit=1\nnow 1\nnode 7 name=h1 usable=1 slots=8 "
	    "gpu=0,0,0,0\n"
	    "restore 1 start=1 group=1,1,1,1 order=1 limit=50 on=7,0,0,0\n"
	    "job 2 group=1,1,1,1 order=2 submit=1 limit=50\njob 3 group=1,1,1,1 order=3 submit=1 limit=50 "
	    "after=2,1\nstep 0\n"
	    "at 5000\nnow 5\nrelease 1 7\nend 1 1\nstep 2 on=7,0,0,0\nstarted 2\nstep 0\n"
	    "at 7000\nnow 7\nrelease 2 7\npark 2\nat 7500\njob 2 group=1,1,1,1 order=2 submit=1 limit=50\n"
	    "step 2 on=7,0,0,0\nstarted 2\nat 9500\nnow 9\nrelease 2 7\nend 2 1\nstep 3 on=7,0,0,0\nstarted 3\n"
	    "at 10500\nnow 10\nend 3 1\n";
	struct replay_result r = {0};
	struct replay_compared same_again = {0};
	struct replay_mistake m = {0};

	is_int(replay_simulate(&same, text, sizeof(text) - 1, &r, &m), 0, "a record that begins in the middle");
	ok(r.before == 1 && r.n == 2 && r.is.jobs == 2, "who ran before is not in the figures");
	ok(r.jobs[0].run_ms == 4000 && r.jobs[0].start_ms == 5000 && r.jobs[0].end_ms == 9000,
	   "two runs are one of their length");
	ok(r.jobs[1].start_ms == 9000, "and who waits for its end starts then");
	is_int(replay_compare(&same, text, sizeof(text) - 1, &same_again, &m), 0, "compared");
	ok(!same_again.differs && same_again.starts == 3, "%zu starts are the same", same_again.starts);
	replay_compared_fini(&same_again);
	replay_result_fini(&r);
}

static void test_no_record(void)
{
	static const struct {
		const char *text, *what;
		size_t line;
	} bad[] = {
	    {"submit_s,duration_s,gpus\n", "the first line has to begin with \"hearth-history 1\"", 1},
	    {"hearth-history 1\nat 5\nat 4\n", "the time goes back", 3},
	    {"hearth-history 1\nhearth-history 1\n", "a second record begins here: one file is one part", 2},
	    {"hearth-history 1\n\nnode x", "expected a whole number", 3},
	    {"hearth-history 2\n", "the first line has to begin with \"hearth-history 1\"", 1},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct replay_result r = {0};
		struct replay_compared x = {0};
		struct replay_mistake m = {0};
		size_t n = strlen(bad[i].text);

		ok(replay_simulate(&same, bad[i].text, n, &r, &m) < 0 && m.line == bad[i].line &&
		       strcmp(m.what, bad[i].what) == 0,
		   "line %zu: %s", bad[i].line, bad[i].what);
		ok(replay_compare(&same, bad[i].text, n, &x, &m) < 0, "and it is not compared");
	}
}

/* Job 5 wants the one GPU that job 3 left warm. */
static void test_pools(void)
{
	static const char more[] =
	    "at 50000\nnow 50\npool 9 owner=@b idle=40 part=7,1,1,0,0\n"
	    "job 5 group=1,1,1,1 queue=q owner=@b order=5 submit=50 limit=50 pool=9\n"
	    "step 5 on=7,0,1,1,9\nstarted 5\nstep 0\nat 60000\nnow 60\nrelease 5 7\nend 5 1\nstep 0\n";
	struct replay_compared c = compared(&same, more);
	struct replay_result r;

	ok(!c.differs && c.starts == 4, "a record with warm pools is decided in the same way");
	replay_compared_fini(&c);
	r = simulated(&same, more);
	ok(r.n == 4 && !r.dropped && r.jobs[3].start_ms == 50000 && r.jobs[3].end_ms == 60000,
	   "simulated, a job does not wait for a pool, because pools are not simulated");
	replay_result_fini(&r);
}

int main(void)
{
	test_compare();
	test_figures();
	test_whatif();
	test_unfinished();
	test_exchange();
	test_pools();
	test_before();
	test_no_record();
	return tap_done();
}
