/*
 * sweeper: many requests at once, a request during a round, processes that beget others, cancelled requests,
 * and the proof: the answer "none" comes when nothing is left.
 */
#include "agent/container/sweeper.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"

#define MARK        "HEARTH_TOKEN_LAUNCH"
#define DEADLINE_MS 30000
#define MANY        40

static struct loop *loop;
static struct sweeper *sweeper;
static char base[33];

struct asked {
	char token[48];
	int answers, left, alive; /* alive: with the mark, when the answer came */
	struct sweep_ask *ask;
	struct asked *next; /* to be asked for by the answer */
};

static void on_done(int left, void *arg);

static void ask_for(struct asked *a, uint32_t timeout_ms)
{
	struct sweep_params p = {.token = a->token, .timeout_ms = timeout_ms, .done = on_done, .arg = a};

	a->ask = sweeper_ask(sweeper, &p);
}

static void on_done(int left, void *arg)
{
	struct asked *a = arg;

	a->answers++;
	a->left = left;
	a->alive = proc_count_env(MARK, a->token, NULL);
	if (a->next)
		ask_for(a->next, DEADLINE_MS);
}

static void name_token(struct asked *a, const char *what, int i)
{
	snprintf(a->token, sizeof(a->token), "%.24s-%s%d", base, what, i);
}

static pid_t start_sh(const struct asked *a, const char *script)
{
	cleanup_free char *mark = xasprintf(MARK "=%s", a->token);
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)script, NULL};
	char *env[] = {mark, (char *)"PATH=/usr/bin:/bin", NULL};
	struct proc_spawn s = {.path = "/bin/sh",
	                       .argv = argv,
	                       .envp = env,
	                       .stdin_fd = -1,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1,
	                       .new_session = 1};
	struct err e = {0};
	pid_t pid;

	if (proc_spawn(&s, &pid, NULL, &e) < 0)
		tap_bail("%s", e.text);
	return pid;
}

/* 1: all have an answer. The tokens' first processes are reaped meanwhile. */
static int wait_answers(struct asked *list, int n)
{
	for (int i = 0; i < DEADLINE_MS / 10; i++) {
		int have = 0;

		while (waitpid(-1, NULL, WNOHANG) > 0)
			continue;
		for (int k = 0; k < n; k++)
			have += list[k].answers > 0;
		if (have == n)
			return 1;
		loop_run_once(loop, 10);
	}
	return 0;
}

static void test_many(void)
{
	static struct asked list[MANY];
	int none = 0, once = 0, alive = 0;

	for (int i = 0; i < MANY; i++) {
		name_token(&list[i], "m", i);
		start_sh(&list[i], "sleep 600 & setsid sleep 600 & sleep 600");
	}
	for (int i = 0; i < MANY; i++)
		ask_for(&list[i], DEADLINE_MS);
	ok(wait_answers(list, MANY), "40 requests at once are answered");
	for (int i = 0; i < MANY; i++) {
		none += list[i].left == 0;
		once += list[i].answers == 1;
		alive += list[i].alive;
	}
	is_int(none, MANY, "with none left");
	is_int(once, MANY, "once each");
	is_int(alive, 0, "which is true");
}

static void test_family(void)
{
	struct asked a = {0}, b = {0};

	name_token(&a, "f", 0);
	name_token(&b, "g", 0);
	start_sh(&a, "while :; do (sleep 600 &) ; (sh -c 'sleep 600 & sleep 0.01' &); sleep 0.02; done");
	for (int i = 0; i < 2000 && proc_count_env(MARK, a.token, NULL) < 10; i++)
		loop_run_once(loop, 5);
	start_sh(&b, "sleep 600");
	a.next = &b;
	ask_for(&a, DEADLINE_MS);
	ok(wait_answers(&a, 1), "processes that beget others are answered for");
	is_int(a.left, 0, "none of them is left");
	is_int(a.alive, 0, "which is true");
	ok(wait_answers(&b, 1) && b.left == 0, "a request that an answer made is served, too");
}

static void test_cancel(void)
{
	struct asked a = {0}, b = {0}, c = {0};

	name_token(&a, "c", 0);
	name_token(&b, "c", 1);
	name_token(&c, "c", 2);
	start_sh(&a, "sleep 600");
	start_sh(&b, "sleep 600");
	ask_for(&a, DEADLINE_MS);
	ask_for(&b, DEADLINE_MS);
	loop_run_once(loop, 0); /* the round begins */
	sweep_cancel(a.ask);
	ask_for(&c, 0);
	ok(wait_answers(&b, 1) && b.left == 0, "another request of the same round is answered");
	ok(wait_answers(&c, 1) && c.left == 0, "so is one that came during it, for nothing that runs");
	is_int(a.answers, 0, "the cancelled one is not");
	is_int(sweep_now(a.token, NULL, DEADLINE_MS), 0, "without a loop: none is left either");
	is_int(proc_count_env(MARK, a.token, NULL), 0, "which is true");
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	start_sh(&a, "sleep 600");
	ask_for(&a, DEADLINE_MS);
	loop_run_once(loop, 0);
	sweeper_destroy(sweeper);
	is_int(a.answers, 0, "a request may be under way at the end");
	is_int(sweep_now(a.token, NULL, DEADLINE_MS), 0, "it is swept");
	waitpid(-1, NULL, 0);
}

int main(void)
{
	random_hex(base, 32);
	loop = loop_create();
	sweeper = sweeper_create(loop, clock_real());
	test_many();
	test_family();
	test_cancel();
	loop_destroy(loop);
	return tap_done();
}
