/* metrics: patterns and JSON lines into points: numbers, steps, cuts at every byte, long lines, bad patterns,
 * full batches. */
#include "agent/logs/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

struct got {
	char text[65536];
	size_t n;
	int points, stop_at;
};

static void on_point(const struct metric_point *p, void *arg)
{
	struct got *g = arg;

	g->points++;
	if (g->n < sizeof(g->text) - 200)
		g->n += (size_t)snprintf(g->text + g->n, sizeof(g->text) - g->n, "%s%s=%g@%lld", g->n ? " " : "",
		                         p->name, p->value, (long long)p->step);
}

static int full(void *arg)
{
	const struct got *g = arg;

	return g->stop_at && g->points >= g->stop_at;
}

static struct metric_set *set_of(const char *const *names_and_patterns)
{
	struct spec_metric m[8];
	struct job_spec spec = {.metrics = m};

	for (; names_and_patterns[2 * spec.n_metrics]; spec.n_metrics++)
		m[spec.n_metrics] =
		    (struct spec_metric){.name = (char *)(uintptr_t)names_and_patterns[2 * spec.n_metrics],
		                         .regex = (char *)(uintptr_t)names_and_patterns[2 * spec.n_metrics + 1]};
	return metric_set_create(&spec);
}

static const char *const usual[] = {"loss", "loss[=:] *(\\S+)", "step", "step=([0-9]+)",
                                    "acc",  "acc ([0-9.]+)%",   NULL};

/* Points of a text that comes in pieces of `cut` bytes. */
static void points_of(struct metric_set *set, const char *text, size_t len, size_t cut, struct got *g)
{
	struct metric_scan m;

	memset(g, 0, sizeof(*g));
	metric_scan_init(&m, set);
	for (size_t at = 0; at < len; at += cut)
		metric_scan_feed(&m, text + at, len - at < cut ? len - at : cut, 1000, on_point, NULL, g);
	metric_scan_end(&m, 1000, on_point, g);
	metric_scan_fini(&m);
}

static void check(const char *const *patterns, const char *text, const char *want)
{
	struct metric_set *set = patterns ? set_of(patterns) : NULL;
	struct got *g = xcalloc(1, sizeof(*g));
	size_t len = strlen(text);
	int bad = 0;

	points_of(set, text, len, len ? len : 1, g);
	is_str(g->text, want, text);
	for (size_t cut = 1; cut < len; cut++) {
		points_of(set, text, len, cut, g);
		bad += strcmp(g->text, want) != 0;
	}
	is_int(bad, 0, "  the same however it is cut");
	metric_set_destroy(set);
	free(g);
}

static void test_patterns(void)
{
	check(usual, "", "");
	check(usual, "nothing here\n", "");
	check(usual, "loss=0.5\n", "loss=0.5@-1");
	check(usual, "loss=0.5", "loss=0.5@-1");
	check(usual, "step=3 loss=0.5\nloss=0.25\n", "step=3@3 loss=0.5@3 loss=0.25@3");
	check(usual, "loss: 2 then step=4\n", "step=4@4 loss=2@4");
	check(usual, "loss=nan\nloss=inf\nloss=-inf\nloss=1e-3\nloss=-4\n",
	      "loss=nan@-1 loss=inf@-1 loss=-inf@-1 loss=0.001@-1 loss=-4@-1");
	check(usual, "loss=0.5, acc 97.5%\n", "loss=0.5@-1 acc=97.5@-1");
	check(usual, "loss=high\nloss=1x\n", "");
	check(usual, "  3%|x | step=1 loss=9\r  6%|x | step=2 loss=8\r\n", "step=1@1 loss=9@1 step=2@2 loss=8@2");
	check(usual, "loss=0x10\n", "loss=16@-1");
	check((const char *const[]){"a", "a(=)?(x)?", "b", "b=()", NULL}, "a b=\n", "");
	check((const char *const[]){"v", "^v=(.*)$", NULL}, "v= 7 \nv=7 8\n", "v=7@-1");
}

static void test_json(void)
{
	check(NULL, "{\"step\":3,\"loss\":0.5,\"name\":\"x\",\"on\":true,\"list\":[1],\"none\":null}\n",
	      "step=3@3 loss=0.5@3");
	check(NULL, "{\"loss\":NaN,\"a\":Infinity,\"b\":-Infinity,\"c\":\"NaN of Infinity\"}\n",
	      "loss=nan@-1 a=inf@-1 b=-inf@-1");
	check(NULL, "{\"Na\\\"N\":1,\"NaN\":2}\n", "Na\"N=1@-1 NaN=2@-1");
	check(NULL, "not json\n{\"a\":1}\n[1]\n{\"a\":\n{\"a\":2}", "a=1@-1 a=2@-1");
	check(NULL, "{\"step\":1}\n{\"x\":5}\n", "step=1@1 x=5@1");
	check(NULL, "{\"\":1,\"ok\":2}\n\n\r\n", "ok=2@-1");
}

static void test_long_lines(void)
{
	struct metric_set *set = set_of(usual);
	struct got *g = xcalloc(1, sizeof(*g));
	size_t len = 300000;
	char *text = xmalloc(len + 64);
	struct metric_scan m;

	memset(text, 'x', len);
	memcpy(text + METRIC_LINE_MAX - 20, "loss=7 ", 7);
	memcpy(text + METRIC_LINE_MAX + 20, "acc 99% ", 8);
	memcpy(text + len, "\nloss=8\n", 9);
	points_of(set, text, strlen(text), strlen(text), g);
	is_str(g->text, "loss=7@-1 loss=8@-1", "a long line is searched in its beginning");
	points_of(set, text, strlen(text), 1000, g);
	is_str(g->text, "loss=7@-1 loss=8@-1", "in pieces too");
	metric_scan_init(&m, set);
	metric_scan_feed(&m, text, len, 0, on_point, NULL, g);
	is_int(metric_scan_pending(&m), len, "the unfinished line is counted whole");
	metric_scan_fini(&m);
	metric_set_destroy(set);
	free(text);
	free(g);
}

static void test_stop(void)
{
	static const char text[] = "loss=1\nnothing\nloss=2\nloss=3\n";
	struct metric_set *set = set_of(usual);
	struct got *g = xcalloc(1, sizeof(*g));
	struct metric_scan m;
	size_t took;

	metric_scan_init(&m, set);
	g->stop_at = 2;
	took = metric_scan_feed(&m, text, strlen(text), 0, on_point, full, g);
	is_int(took, 22, "stops behind the line that filled it");
	is_int(metric_scan_pending(&m), 0, "with nothing pending");
	g->stop_at = 0;
	metric_scan_feed(&m, text + took, strlen(text) - took, 0, on_point, full, g);
	is_str(g->text, "loss=1@-1 loss=2@-1 loss=3@-1", "and goes on there");
	metric_scan_fini(&m);
	metric_set_destroy(set);
	free(g);
}

static void test_bad_pattern(void)
{
	static const char *const evil[] = {"evil", "^(a+)+$", "fine", "n=([0-9]+)", NULL};
	struct metric_set *set = set_of(evil);
	struct got *g = xcalloc(1, sizeof(*g));
	char line[64];
	uint64_t start = clock_boot_us(clock_real());
	struct metric_scan m;

	snprintf(line, sizeof(line), "%s n=1\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");
	metric_scan_init(&m, set);
	for (int i = 0; i < 300; i++)
		metric_scan_feed(&m, line, strlen(line), 0, on_point, NULL, g);
	is_int(g->points, 300, "other patterns go on");
	ok(clock_boot_us(clock_real()) - start < 10000000, "an exponential one is bounded");
	metric_scan_fini(&m);
	metric_set_destroy(set);
	ok(metric_set_create(NULL) == NULL, "no specification, no patterns");
	free(g);
}

/* Empty lines end with a carriage return, and no newline follows: each byte is looked at a few times. */
static void test_empty_lines(void)
{
	size_t n = 1024u * 1024;
	char *text = xmalloc(n);
	struct metric_set *set = set_of(usual);
	struct got *g = xcalloc(1, sizeof(*g));
	uint64_t cpu_us = clock_thread_cpu_us();

	memset(text, '\r', n);
	points_of(set, text, n, n, g);
	cpu_us = clock_thread_cpu_us() - cpu_us;
	ok(cpu_us < 1000000, "a million empty lines take %llu us", (unsigned long long)cpu_us);
	is_int(g->points, 0, "and give no point");
	metric_set_destroy(set);
	free(text);
	free(g);
}

/* A rule's line needs no number, and counts once a second. Rules on metrics bring no pattern. */
static void test_rule_lines(void)
{
	char name[] = "nccl", pattern[] = "NCCL WARN", metric[] = "m";
	struct watch_rule rules[] = {{.name = name, .metric = metric, .above = 1},
	                             {.name = name, .pattern = pattern}};
	struct job_spec spec = {.rules = rules, .n_rules = 1};
	static const char text[] = "NCCL WARN a\nstep=7\nNCCL WARN b\n";
	struct metric_set *set;
	struct metric_scan m;
	struct got g = {0};

	ok(metric_set_create(&spec) == NULL, "a rule on a metric has no pattern");
	spec.n_rules = 2;
	set = metric_set_create(&spec);
	is_int(metric_set_count(set), 1, "a rule on a line has one");
	metric_scan_init(&m, set);
	metric_scan_feed(&m, text, sizeof(text) - 1, 5000000, on_point, NULL, &g);
	metric_scan_feed(&m, text, sizeof(text) - 1, 5900000, on_point, NULL, &g);
	is_str(g.text, "rule:nccl=1@-1", "lines within a second count once");
	metric_scan_feed(&m, text, sizeof(text) - 1, 6000000, on_point, NULL, &g);
	is_str(g.text, "rule:nccl=1@-1 rule:nccl=1@-1", "a line after it counts again");
	metric_scan_fini(&m);
	metric_set_destroy(set);
}

int main(void)
{
	test_patterns();
	test_json();
	test_long_lines();
	test_stop();
	test_bad_pattern();
	test_empty_lines();
	test_rule_lines();
	return tap_done();
}
