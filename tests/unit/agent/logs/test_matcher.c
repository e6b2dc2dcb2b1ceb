/* matcher: points in order, the budget of a launch, turns between launches, a metrics file without end. */
#include "agent/logs/matcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static struct loop *loop;
static struct agent_env env;
static struct match_pool *pool;

struct feed { /* bytes in memory, given again and again */
	const char *text;
	size_t n, at;
	unsigned repeats; /* that are left */
	struct match_feed *f;
	unsigned points, tasks, offs;
	double last, sum;
	int rest, ending, ended;
	uint64_t bytes, done_us;     /* when all was searched */
	char off[64], failures[512]; /* failures: "LINE;" of each */
};

static int fill(struct match_chunk *c, void *arg)
{
	struct feed *f = arg;

	if (f->at == f->n && f->repeats) {
		f->repeats--;
		f->at = 0;
	}
	if (f->at == f->n) {
		c->end = f->ending && !f->ended && f->rest;
		return c->end;
	}
	c->at = f->bytes;
	c->n = f->n - f->at < MATCH_CHUNK ? f->n - f->at : MATCH_CHUNK;
	memcpy(c->data, f->text + f->at, c->n);
	return 1;
}

static void on_point(const struct metric_point *p, void *arg)
{
	struct feed *f = arg;

	f->points++;
	f->last = p->value;
	f->sum += p->value;
}

static void searched(const struct match_result *r, void *arg)
{
	struct feed *f = arg;

	f->rest = r->rest;
	f->ended = r->ended;

	f->tasks++;
	f->at += r->took;
	f->bytes += r->took;
	if (f->at == f->n && !f->repeats)
		f->done_us = clock_boot_us(clock_real());
}

static void on_off(const struct match_off *o, void *arg)
{
	struct feed *f = arg;

	f->offs++;
	snprintf(f->off, sizeof(f->off), "%s %u", o->metric, o->gave_up);
}

static void on_failure(const struct cause *c, void *arg)
{
	struct feed *f = arg;
	size_t n = strlen(f->failures);

	snprintf(f->failures + n, sizeof(f->failures) - n, "%.*s;", (int)c->n, c->line);
}

static const struct match_feed_ops ops = {
    .fill = fill, .point = on_point, .searched = searched, .off = on_off, .failure = on_failure};

static struct matcher *launch(const char *const *names_and_patterns, const char *dir)
{
	struct matcher *m = matcher_create(pool, dir);
	struct spec_metric metrics[8];
	struct job_spec spec = {.metrics = metrics};

	for (; names_and_patterns && names_and_patterns[2 * spec.n_metrics]; spec.n_metrics++)
		metrics[spec.n_metrics] =
		    (struct spec_metric){.name = (char *)(uintptr_t)names_and_patterns[2 * spec.n_metrics],
		                         .regex = (char *)(uintptr_t)names_and_patterns[2 * spec.n_metrics + 1]};
	matcher_patterns(m, &spec);
	return m;
}

static void open_feed(struct feed *f, struct matcher *m, enum match_kind kind, const char *text, size_t n,
                      unsigned repeats)
{
	*f = (struct feed){.text = text, .n = n, .at = n, .repeats = repeats};
	f->f = match_feed_create(m, kind, 0, METRIC_NO_STEP, &ops, f);
	match_feed_want(f->f);
}

#define UNTIL(cond, seconds)                                                                                 \
	do {                                                                                                     \
		for (uint64_t end_us_ = clock_boot_us(clock_real()) + (seconds)*1000000ull;                          \
		     !(cond) && clock_boot_us(clock_real()) < end_us_;)                                              \
			loop_run_once(loop, 10);                                                                         \
	} while (0)

static const char *const loss[] = {"loss", "loss=([0-9]+)", NULL};

static void test_points(void)
{
	struct matcher *m = launch(loss, tap_tmpdir());
	char *text = xcalloc(20000, 16), *at = text;
	struct feed f;

	for (int i = 0; i < 20000; i++)
		at += snprintf(at, 16, "loss=%d\n", i);
	open_feed(&f, m, MATCH_OUTPUT, text, (size_t)(at - text), 1);
	UNTIL(f.done_us, 20);
	is_int(f.points, 20000, "one point a line");
	is_int((int64_t)f.sum, 20000 / 2 * 19999, "each line once");
	is_int((int64_t)f.last, 19999, "in order");
	ok(f.tasks >= 20, "in tasks of 1,000 points (%u)", f.tasks);
	match_feed_destroy(f.f);
	matcher_destroy(m);
	free(text);
}

static char *lines_of(char letter, size_t size, size_t n)
{
	char *text = xmalloc(size * n);

	memset(text, letter, size * n);
	for (size_t i = 1; i <= n; i++)
		text[size * i - 1] = '\n';
	return text;
}

/* No search gives up, but all together cost more than the launch may spend. */
static void test_budget(void)
{
	static const char *const dear[] = {"cheap", "x=([0-9]+)", "dear", "b{0,1}b{0,2}([xy])", NULL};
	char *text = lines_of('b', 4096, 32);
	struct matcher *m;
	struct feed f;

	match_pool_set_budget(pool, 200000, 1000);
	m = launch(dear, tap_tmpdir());
	open_feed(&f, m, MATCH_OUTPUT, text, 32 * 4096, 1000);
	UNTIL(f.offs, 30);
	is_str(f.off, "dear 0", "the costly pattern is switched off, by the budget");
	ok(f.points == 0 && !f.done_us, "before all was searched");
	UNTIL(f.done_us, 30);
	is_int(f.bytes, 32 * 4096 * 1000, "the rest is searched");
	is_int(f.offs, 1, "and the cheap pattern is not blamed");
	match_feed_destroy(f.f);
	open_feed(&f, m, MATCH_OUTPUT, "x=7\n", 4, 1);
	UNTIL(f.done_us, 30);
	is_int(f.points, 1, "the cheap pattern goes on");
	match_feed_destroy(f.f);
	matcher_destroy(m);
	match_pool_set_budget(pool, MATCH_BURST_US, MATCH_SHARE);
	free(text);
}

/* Four launches whose patterns burn all that they may, and one that is as it should be. */
static void test_turns(void)
{
	static const char *const evil[] = {"evil", "a*a*a*([xy])", NULL};
	char *text = lines_of('a', 65536, 4);
	struct matcher *m[4], *mine;
	struct feed f[4], good;
	uint64_t start_us;
	unsigned off = 0;

	for (int i = 0; i < 4; i++) {
		cleanup_free char *dir = xasprintf("%s/evil-%d", tap_tmpdir(), i);

		m[i] = launch(evil, dir);
		open_feed(&f[i], m[i], MATCH_OUTPUT, text, 4 * 65536, 100000);
	}
	UNTIL(f[0].tasks && f[3].tasks, 20);
	mine = launch(loss, tap_tmpdir());
	start_us = clock_boot_us(clock_real());
	open_feed(&good, mine, MATCH_OUTPUT, "loss=1\n", 7, 1);
	UNTIL(good.done_us, 20);
	is_int(good.points, 1, "the neighbour has its point");
	ok(good.done_us - start_us < 2000000, "after %llu us", (unsigned long long)(good.done_us - start_us));
	for (int i = 0; i < 4; i++) {
		UNTIL(f[i].offs, 30);
		off += f[i].offs;
	}
	is_int(off, 4, "each of the others is switched off");
	is_str(f[0].off, "evil 100", "by its searches that came to no end");
	for (int i = 0; i < 4; i++) {
		match_feed_destroy(f[i].f);
		matcher_destroy(m[i]);
	}
	match_feed_destroy(good.f);
	matcher_destroy(mine);
	free(text);
}

/* A metrics file costs the same for each line: nothing is switched off, but it waits. */
static void test_json_waits(void)
{
	static const char line[] = "{\"step\": 1, \"loss\": 0.5, \"a\": [1, 2, 3, 4, 5, 6, 7, 8]}\n";
	char *text = xmalloc(2000 * (sizeof(line) - 1));
	struct matcher *m;
	struct feed json, out;

	for (size_t i = 0; i < 2000; i++)
		memcpy(text + i * (sizeof(line) - 1), line, sizeof(line) - 1);
	match_pool_set_budget(pool, 20000, 1000);
	m = launch(loss, tap_tmpdir());
	open_feed(&json, m, MATCH_JSON, text, 2000 * (sizeof(line) - 1), 1000);
	UNTIL(json.tasks > 10, 2);
	open_feed(&out, m, MATCH_OUTPUT, "loss=1\n", 7, 1);
	UNTIL(out.done_us, 10);
	is_int(out.points, 1, "the patterns of the launch go on");
	ok(!json.done_us && json.points, "the metrics file waits for its budget");
	is_int(json.offs, 0, "and nothing is blamed");
	match_feed_destroy(json.f);
	match_feed_destroy(out.f);
	matcher_destroy(m);
	match_pool_set_budget(pool, MATCH_BURST_US, MATCH_SHARE);
	free(text);
}

static uint64_t process_cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Empty lines cost time, but no pattern costs anything: the search waits. */
static void test_empty_lines(void)
{
	char *text = xmalloc(MATCH_CHUNK);
	uint64_t cpu_us = process_cpu_us();
	struct matcher *m;
	struct feed f;

	memset(text, '\r', MATCH_CHUNK);
	match_pool_set_budget(pool, 20000, 1000);
	m = launch(loss, tap_tmpdir());
	open_feed(&f, m, MATCH_OUTPUT, text, MATCH_CHUNK, 100000);
	UNTIL(f.done_us, 3);
	cpu_us = process_cpu_us() - cpu_us;
	ok(f.tasks > 0 && cpu_us < 200000, "3 s of empty lines cost %llu us", (unsigned long long)cpu_us);
	ok(!f.done_us, "the search waits for its budget");
	is_int(f.offs, 0, "no pattern is blamed");
	match_feed_destroy(f.f);
	matcher_destroy(m);
	match_pool_set_budget(pool, 20, 4);
	m = launch(loss, tap_tmpdir());
	open_feed(&f, m, MATCH_OUTPUT, text, MATCH_CHUNK, 8);
	UNTIL(f.done_us, 30);
	is_int(f.bytes, 8 * MATCH_CHUNK, "and goes on as the budget fills");
	match_feed_destroy(f.f);
	matcher_destroy(m);
	match_pool_set_budget(pool, MATCH_BURST_US, MATCH_SHARE);
	free(text);
}

static void end_feed(struct feed *f)
{
	f->ending = 1;
	match_feed_want(f->f);
	UNTIL(f->ended, 5);
}

/* Feeds a text as the output of one rank, to its end. Returns the lines that were reported. */
static const char *failures_of(const char *text)
{
	static struct feed f;
	struct matcher *m = launch(NULL, tap_tmpdir());

	open_feed(&f, m, MATCH_PLAIN, text, strlen(text), 1);
	UNTIL(f.done_us, 5);
	if (f.rest)
		end_feed(&f);
	match_feed_destroy(f.f);
	matcher_destroy(m);
	return f.failures;
}

static void test_failures(void)
{
	char *text = lines_of('b', 60, 2000), *big = NULL;

	is_str(failures_of("a\nGPU is lost\nKeyError: 'x'\n"), "GPU is lost;",
	       "a line, and not the weaker ones after it");
	is_str(failures_of("Connection reset by peer\nKeyError: 'x'\nGPU is lost\n"), "GPU is lost;",
	       "the strongest of a task");
	is_str(failures_of("Connection reset by peer\n"), "Connection reset by peer;", "a symptom, at the end");
	is_str(failures_of("Connection reset by peer"), "Connection reset by peer;",
	       "a last line without newline");
	is_str(failures_of("10%\r20%\rGPU is lost\r\n"), "GPU is lost;", "behind a progress bar");
	big = xasprintf("%.*sGPU is lost\n%.*s", 120000, text, 120000, text);
	is_str(failures_of(big), "GPU is lost;", "a line far from the end");
	free(big);
	free(text);
}

/* Lines that are dear to read: the budget ends, and the end of the stream is read all the same. */
static void test_failure_budget(void)
{
	char *line = lines_of('X', 4000, 1), *text = NULL;
	struct matcher *m = launch(NULL, tap_tmpdir());
	struct feed f;
	struct rusage began, ended;
	double cpu;

	for (char *c = line; c + 4 < line + 4000; c += 4)
		memcpy(c, "Xid ", 4);
	text = xasprintf("%.*s%.*s", 4000, line, 4000, line);
	getrusage(RUSAGE_SELF, &began);
	open_feed(&f, m, MATCH_PLAIN, text, strlen(text), 4000);
	UNTIL(f.done_us, 60);
	getrusage(RUSAGE_SELF, &ended);
	cpu = (double)(ended.ru_utime.tv_sec - began.ru_utime.tv_sec) +
	      (double)(ended.ru_utime.tv_usec - began.ru_utime.tv_usec) / 1e6;
	ok(f.done_us != 0, "all was handed over");
	ok(cpu < 10, "within the budget (%.1f s of CPU time)", cpu);
	f.text = "GPU is lost\n";
	f.n = 12;
	f.at = 0;
	f.done_us = 0;
	match_feed_want(f.f);
	UNTIL(f.done_us, 5);
	end_feed(&f);
	like(f.failures, "GPU is lost;", "the end of the stream is read");
	match_feed_destroy(f.f);
	matcher_destroy(m);
	free(text);
	free(line);
}

/* Each session sends the rules again: what was found before it stays. */
static void test_same_rules(void)
{
	static const char rule[] = "drain gpu \"our rule\" zebra: BAD\n";
	struct matcher *m = launch(NULL, tap_tmpdir());
	struct feed f;

	match_pool_set_rules(pool, rule);
	UNTIL(*failures_of("zebra: bad\n"), 5);
	open_feed(&f, m, MATCH_PLAIN, "Connection reset by peer\n", 25, 1);
	UNTIL(f.done_us, 5);
	match_pool_set_rules(pool, rule);
	for (int i = 0; i < 30; i++)
		loop_run_once(loop, 20);
	f.text = "more\n";
	f.n = 5;
	f.at = 0;
	f.done_us = 0;
	match_feed_want(f.f);
	UNTIL(f.done_us, 5);
	end_feed(&f);
	is_str(f.failures, "Connection reset by peer;", "the same rules again forget no symptom");
	match_feed_destroy(f.f);
	matcher_destroy(m);
}

/* Rules of an administrator, while a launch runs. */
static void test_rules(void)
{
	match_pool_set_rules(pool, "drain gpu \"our rule\" zebra: BAD\n");
	UNTIL(*failures_of("zebra: bad\n"), 5);
	is_str(failures_of("zebra: bad\n"), "zebra: bad;", "a rule of the administrator");
	match_pool_set_rules(pool, "nonsense\n");
	is_str(failures_of("zebra: bad\n"), "zebra: bad;", "wrong rules change nothing");
	match_pool_set_rules(pool, NULL);
	UNTIL(*failures_of("zebra: bad\n") == '\0', 5);
	is_str(failures_of("zebra: bad\n"), "", "no rules any more");
}

int main(void)
{
	loop = loop_create();
	env = (struct agent_env){.loop = loop, .clock = clock_real()};
	pool = match_pool_create(&env);
	test_points();
	test_budget();
	test_turns();
	test_json_waits();
	test_empty_lines();
	test_failures();
	test_failure_budget();
	test_same_rules();
	test_rules();
	match_pool_destroy(pool);
	loop_destroy(loop);
	return tap_done();
}
