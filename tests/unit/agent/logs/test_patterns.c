/*
 * matcher, scanner: users' patterns that cost too much. The loop goes on, log bytes and the neighbour's
 * points arrive, the pattern is switched off with a sentence, and stays off for the next agent.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/link/data_link.h"
#include "agent/logs/metrics.h"
#include "agent/logs/nodelog.h"
#include "agent/logs/tailer.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/logs/data_link_ctl.h"

#define LINE  (64u * 1024)
#define LINES 200u
#define EVIL  "a{0,300}a{0,300}([bc])"

static struct data_link_ctl ctl;
static struct agent_env env;
static struct data_link *data_link;
static struct tailer *tailer;
static char warned[2048], keys[1024];
static unsigned warnings;
static uint64_t longest_us; /* turn of the loop */

static void on_warn(const char *key, const char *text, void *arg)
{
	(void)arg;
	warnings++;
	snprintf(warned, sizeof(warned), "%s", text);
	snprintf(keys, sizeof(keys), "%s", key);
}

static void agent_start(void)
{
	data_link = data_link_create(&env, tls_ca_pem(ca), cert_path, key_path);
	tailer = tailer_create(&env, data_link);
	warnings = 0;
	warned[0] = '\0';
}

static void agent_stop(void)
{
	tailer_destroy(tailer);
	data_link_destroy(data_link);
	loop_run_once(loop, 0);
}

static char *logdir(const char *stream)
{
	return xasprintf("%s/jobs/%s/logs/%s", env.cfg.data_dir, stream, stream); /* a job of its own each */
}

static struct tail *start(uint64_t job, const char *stream, const struct job_spec *spec)
{
	cleanup_free char *dir = logdir(stream);
	struct tail_params p = {.job = job,
	                        .epoch = 1,
	                        .attempt = 1,
	                        .rank = 3,
	                        .stream = stream,
	                        .logdir = dir,
	                        .spec = spec,
	                        .warn = on_warn};

	return tail_start(tailer, &p);
}

/* One turn, measured. */
static void turn(void)
{
	struct loop_turns t;

	loop_run_once(loop, 10);
	loop_turns(loop, &t);
	longest_us = t.longest_us > longest_us ? t.longest_us : longest_us;
}

#define TURNS_UNTIL(cond, seconds)                                                                           \
	do {                                                                                                     \
		for (uint64_t end_us_ = clock_boot_us(clock_real()) + (seconds)*1000000ull;                          \
		     !(cond) && clock_boot_us(clock_real()) < end_us_;)                                              \
			turn();                                                                                          \
	} while (0)

static void set_done(void *arg)
{
	(*(int *)arg)++;
}

static void write_lines(struct nodelog *n, char letter, size_t size, unsigned lines)
{
	char *line = xmalloc(size);

	memset(line, letter, size);
	line[size - 1] = '\n';
	for (unsigned i = 0; i < lines; i++)
		nodelog_bytes(n, line, size);
	free(line);
}

static void forget_points(void)
{
	ctl.points[0] = '\0';
	ctl.points_n = ctl.n_points = 0;
}

static struct spec_metric evil_metrics[] = {
    {(char *)(uintptr_t) "evil", (char *)(uintptr_t)EVIL},
    {(char *)(uintptr_t) "fine", (char *)(uintptr_t) "fine=([0-9]+)"},
};
static const struct job_spec evil_spec = {.metrics = evil_metrics, .n_metrics = 2};
static struct spec_metric good_metrics[] = {{(char *)(uintptr_t) "loss", (char *)(uintptr_t) "loss=(\\S+)"}};
static const struct job_spec good_spec = {.metrics = good_metrics, .n_metrics = 1};

static void test_evil(void)
{
	cleanup_free char *dir = logdir("evil"), *good_dir = logdir("good");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL), *g = nodelog_open(good_dir, env.clock, NULL);
	struct data_link_ctl_stream *s = data_link_ctl_stream(&ctl, "30.1/evil");
	struct tail *tl, *good;
	uint64_t start_us;
	int done = 0;

	UNTIL(ctl.opened);
	write_lines(n, 'a', LINE, LINES);
	nodelog_bytes(n, "fine=7\n", 7);
	longest_us = 0;
	start_us = clock_boot_us(clock_real());
	tl = start(30, "evil", &evil_spec);
	good = start(31, "good", &good_spec);
	nodelog_bytes(g, "loss=1\n", 7);
	TURNS_UNTIL(ctl.n_points, 20);
	is_str(ctl.points, "3:loss=1@-1 ", "the neighbour's point arrives first");
	ok(clock_boot_us(clock_real()) - start_us < 2000000, "and within 2 s");
	forget_points();
	ctl.last_seq = 0; /* the controller of these tests numbers the batches of one launch only */
	TURNS_UNTIL(s->n == LINES * LINE + 7, 20);
	is_int(s->n, LINES * LINE + 7, "all bytes of the log are sent");
	ok(!warnings, "before the searches are through");
	TURNS_UNTIL(warnings, 20);
	is_int(warnings, 1, "one sentence about the pattern");
	like(warned, "rank 3: ", "names the rank");
	like(warned, "metric \"evil\" is no longer read: its pattern '" EVIL "' took over 4 ms",
	     "names metric and pattern");
	like(warned, "or use hearth.log()", "says what to do");
	is_str(keys, "pattern evil " EVIL, "has a key of its own");
	TURNS_UNTIL(ctl.n_points, 20);
	is_str(ctl.points, "3:fine=7@-1 ", "the other pattern goes on");
	tail_finish(tl, set_done, &done);
	tail_finish(good, set_done, &done);
	TURNS_UNTIL(done == 2, 20);
	is_int(done, 2, "both streams end");
	tap_diag("longest turn: %llu us", (unsigned long long)longest_us);
	ok(longest_us < 1000000, "no turn of the loop takes long");
	tail_destroy(tl);
	tail_destroy(good);
	nodelog_close(n);
	nodelog_close(g);
}

/* The next agent knows that the pattern is off. */
static void test_next_agent(void)
{
	cleanup_free char *dir = logdir("evil");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct tail *tl;
	int done = 0;

	agent_stop();
	agent_start();
	forget_points();
	tl = start(30, "evil", &evil_spec);
	write_lines(n, 'a', LINE, LINES);
	nodelog_bytes(n, "fine=8\n", 7);
	tail_finish(tl, set_done, &done);
	TURNS_UNTIL(done, 20);
	is_int(done, 1, "the next agent ends the stream");
	is_int(warnings, 0, "without a word about the pattern");
	is_str(ctl.points, "3:fine=8@-1 ", "and reads the other one");
	tail_destroy(tl);
	nodelog_close(n);
}

/* An owner that goes while a thread searches. */
static void test_destroyed_meanwhile(void)
{
	cleanup_free char *dir = logdir("gone");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	int some = 0;

	write_lines(n, 'a', LINE, LINES);
	for (int i = 0; i < 30; i++) {
		struct tail *tl = start(33, "gone", &evil_spec);

		for (int k = 0; k < i; k++)
			loop_run_once(loop, 1);
		tail_destroy(tl);
		some++;
	}
	is_int(some, 30, "streams whose search is under way are destroyed");
	agent_stop(); /* with a search under way */
	agent_start();
	nodelog_close(n);
}

static void count_failure(const char *stream, uint32_t rank, const struct cause *c, void *arg)
{
	(void)stream;
	(void)rank;
	(void)c;
	(*(unsigned *)arg)++;
}

/* The end of a launch waits for the line that names its failure. */
static void test_read_rest(void)
{
	cleanup_free char *dir = logdir("rest");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	unsigned failures = 0;
	struct tail_params p = {.job = 40,
	                        .epoch = 1,
	                        .attempt = 1,
	                        .rank = 3,
	                        .stream = "rest",
	                        .logdir = dir,
	                        .warn = on_warn,
	                        .failure = count_failure,
	                        .arg = &failures};
	struct tail *tl;

	write_lines(n, 'a', 1000, 300);
	nodelog_bytes(n, "ImportError: no such name\n", 26);
	tl = tail_start(tailer, &p);
	ok(!tail_read_rest(tl) && !failures, "a stream that nobody has read has a rest");
	TURNS_UNTIL(tail_read_rest(tl), 20);
	is_int(failures, 1, "when the rest is read, the line that names the failure is reported");
	nodelog_bytes(n, "GPU is lost\n", 12);
	ok(!tail_read_rest(tl), "more output is a rest again");
	TURNS_UNTIL(tail_read_rest(tl), 20);
	is_int(failures, 2, "and its line is reported, too");
	tail_destroy(tl);
	nodelog_close(n);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* as the agent does */
	ends_start();
	data_link_ctl_start(&ctl);
	data_link_ctl_env(&ctl, &env, "agent");
	agent_start();
	test_evil();
	test_next_agent();
	test_destroyed_meanwhile();
	test_read_rest();
	agent_stop();
	data_link_ctl_stop(&ctl);
	data_link_ctl_env_fini(&env);
	ends_stop();
	return tap_done();
}
