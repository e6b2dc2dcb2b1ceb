/*
 * inside: a program by a shim, from a thread: its end exactly, its output, its last word; what it leaves
 * running, a stop and a deadline. There is no container around it here (t0327 has one).
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/stage/inside.h"
#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"

#define MARK "inside-mark-of-the-test"

static char *dir, *logdir;
static struct strv env;
static char *out;
static size_t n_out;
static int ticks, tick_answer, busy_seen;

static void take_output(const char *p, size_t n, void *arg)
{
	(void)arg;
	out = xrealloc(out, n_out + n + 1);
	memcpy(out + n_out, p, n);
	n_out += n;
	out[n_out] = '\0';
}

static int count_tick(uint64_t silent_ms, void *arg)
{
	(void)silent_ms;
	(void)arg;
	ticks++;
	return tick_answer;
}

static struct inside *make_inside(void)
{
	cleanup_free char *shim = xasprintf("%s/shim/hearth-shim", getenv("HEARTH_TOP_BUILDDIR"));
	struct shim_launch order = {.token = xstrdup(MARK)};

	return inside_create(shim, dir, logdir, &order);
}

/* A script of the shell; the output is in `out`. */
static int run_sh(struct inside *in, struct inside_run *r, const char *script, struct err *e)
{
	const char *argv[] = {"/bin/sh", "-c", script, NULL};

	free(out);
	out = xstrdup("");
	n_out = 0;
	*e = (struct err){0};
	r->argv = argv;
	r->env = &env;
	r->cwd = "/";
	r->output = take_output;
	return inside_run(in, r, e);
}

static void test_ends(struct inside *in)
{
	struct inside_run r = {.timeout_ms = 60000};
	const char *argv[] = {"/nonexistent/program", NULL};
	struct err e;

	is_int(run_sh(in, &r, "echo one; echo $HEARTH_TOKEN_LAUNCH; printf three", &e), 0, "a success");
	is_str(out, "one\n" MARK "\nthree", "all of its output, and it carries the mark");
	is_str(r.last_line, "three", "its last line");
	run_sh(in, &r, "echo two >&2", &e);
	is_str(out, "two\n", "standard error, too");
	is_int(run_sh(in, &r, "echo ERROR: why; echo more; exit 3", &e), -1, "a failure");
	like(e.text, "/bin/sh: exit status 3", "its exit status");
	is_str(r.last_line, "ERROR: why", "a line of an error stays");
	is_int(run_sh(in, &r, "kill -KILL $$", &e), -1, "ended by a signal");
	like(e.text, "ended by SIGKILL", "by its name");
	r.argv = argv;
	is_int(inside_run(in, &r, &e), -1, "a program that is missing");
	like(e.text, "command not found: /nonexistent/program", "by its name");
	ok(access(dir, F_OK) < 0 && access(logdir, F_OK) < 0, "no folder is left");
	is_int(inside_busy(in), 0, "nothing runs");
}

static void test_much(struct inside *in)
{
	struct inside_run r = {.timeout_ms = 120000};
	struct err e;

	is_int(run_sh(in, &r, "yes abcdefghi | head -n 600000; echo end", &e), 0, "6 MB of output");
	is_str(r.last_line, "end", "to its end");
	ok(n_out == 6000004 || strstr(out, "bytes of output were dropped"),
	   "whole, or with a line about what is missing");
}

static int is_left(void)
{
	uint64_t end = clock_boot_us(clock_real()) + 5000000;
	struct err e;
	int n;

	while ((n = proc_count_env("HEARTH_TOKEN_LAUNCH", MARK, &e)) > 0 && clock_boot_us(clock_real()) < end)
		poll(NULL, 0, 20);
	return n;
}

static void test_daemon(struct inside *in)
{
	struct inside_run r = {.timeout_ms = 60000};
	struct err e;

	is_int(run_sh(in, &r, "setsid sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 & sleep 1000 & :'; echo left",
	              &e),
	       0, "a program that leaves others running");
	is_int(proc_count_env("HEARTH_TOKEN_LAUNCH", MARK, &e), 0, "they are gone when it is said to have ended");
}

static void test_late(struct inside *in)
{
	struct inside_run r = {.timeout_ms = 1500, .tick = count_tick};
	struct err e;

	is_int(run_sh(in, &r, "trap '' TERM; sleep 1000", &e), -1, "a deadline");
	is_int(e.code, ERR_TIMEOUT, "as such");
	ok(ticks >= 1, "it was looked after meanwhile");
	tick_answer = -1;
	r.timeout_ms = 60000;
	is_int(run_sh(in, &r, "sleep 1000", &e), -1, "the caller ends it");
	is_int(e.code, ERR_UNAVAILABLE, "as such");
	is_int(is_left(), 0, "nothing is left of either");
}

static void *stop_soon(void *arg)
{
	struct err e;

	while (proc_count_env("HEARTH_TOKEN_LAUNCH", MARK, &e) == 0)
		poll(NULL, 0, 10);
	busy_seen = inside_busy(arg);
	inside_stop(arg);
	return NULL;
}

static void test_stop(struct inside *in)
{
	struct inside_run r = {.timeout_ms = 60000};
	pthread_t other;
	struct err e;

	pthread_create(&other, NULL, stop_soon, in);
	is_int(run_sh(in, &r, "trap '' TERM; sleep 1000", &e), -1, "another thread stops it");
	pthread_join(other, NULL);
	is_int(busy_seen, 1, "while it runs, it is busy");
	is_int(e.code, ERR_UNAVAILABLE, "as such");
	is_int(inside_busy(in), 0, "it is over");
	is_int(is_left(), 0, "nothing is left");
	is_int(run_sh(in, &r, "echo again", &e), -1, "nothing starts after a stop");
	is_str(out, "", "not for a moment");
}

int main(void)
{
	struct inside *in;

	signal(SIGPIPE, SIG_IGN);
	dir = xasprintf("%s/shim", tap_tmpdir());
	logdir = xasprintf("%s/logs/shim", tap_tmpdir());
	strv_add(&env, "PATH=/usr/local/bin:/usr/bin:/bin");
	in = make_inside();
	test_ends(in);
	test_much(in);
	test_daemon(in);
	test_late(in);
	test_stop(in);
	inside_destroy(in);
	strv_fini(&env);
	free(dir);
	free(logdir);
	free(out);
	return tap_done();
}
