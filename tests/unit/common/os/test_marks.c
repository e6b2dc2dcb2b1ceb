/* marks: many marks in one look, the bound of what is read of an environment, and what is signalled. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/marks.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"

#define NAME "HEARTH_TEST_MARK"

static char token[33];

static pid_t sleeper(const char *const *env)
{
	static char *const argv[] = {(char *)"sleep", (char *)"600", NULL};
	struct proc_spawn s = {.path = "/bin/sleep",
	                       .argv = argv,
	                       .envp = (char *const *)(uintptr_t)env,
	                       .stdin_fd = -1,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1};
	struct err e = {0};
	pid_t pid;

	if (proc_spawn(&s, &pid, NULL, &e) < 0)
		tap_bail("%s", e.text);
	return pid;
}

static pid_t marked(unsigned i)
{
	cleanup_free char *entry = xasprintf(NAME "=%s-%u", token, i);
	const char *env[] = {"A=1", entry, "Z=2", NULL};

	return sleeper(env);
}

static int ended_by(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void test_many(void)
{
	struct marks *m = marks_create(NAME);
	struct err e = {0};
	pid_t pids[6];
	int killed = 0;

	for (unsigned i = 0; i < 200; i++) {
		cleanup_free char *value = xasprintf("%s-%u", token, i);

		if (marks_add(m, value) != i || marks_add(m, value) != i)
			ok(0, "mark %u has another number", i);
	}
	for (unsigned i = 0; i < 6; i++)
		pids[i] = marked(i / 2 * 50); /* two each of 0, 50, 100 */
	is_int(marks_scan(m, 0, &e), 6, "one look for 200 marks finds six processes");
	is_int(marks_found(m, 0), 2, "two of the first mark");
	is_int(marks_found(m, 100), 2, "two of another one");
	is_int(marks_found(m, 199), 0, "none of the last");
	is_int(marks_scan(m, SIGKILL, &e), 6, "the next look kills them");
	for (unsigned i = 0; i < 6; i++)
		killed += ended_by(pids[i]) == SIGKILL;
	is_int(killed, 6, "all six");
	marks_wait(m, 1000);
	is_int(marks_scan(m, SIGKILL, &e), 0, "and nothing is left");
	marks_destroy(m);
}

/* A user may give processes any environment: a look reads no more than the bound. */
static void test_bound(void)
{
	cleanup_free char *entry = xasprintf(NAME "=%s-big", token), *value = xasprintf("%s-big", token);
	char *big[4];
	const char *first[] = {entry, NULL, NULL, NULL, NULL, NULL},
	           *last[] = {NULL, NULL, NULL, NULL, entry, NULL};
	struct err e = {0};
	pid_t pid;

	for (int i = 0; i < 4; i++) {
		big[i] = xcalloc(1, 60001);
		memset(big[i], 'x', 60000);
		memcpy(big[i], "B", 1);
		big[i][1] = '=';
		first[i + 1] = last[i] = big[i];
	}
	pid = sleeper(first);
	is_int(proc_count_env(NAME, value, &e), 1, "a mark before 240 KB of environment is found");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	pid = sleeper(last);
	is_int(proc_count_env(NAME, value, &e), 0, "after them nobody looks");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 4; i++)
		free(big[i]);
}

int main(void)
{
	random_hex(token, 32);
	test_many();
	test_bound();
	return tap_done();
}
