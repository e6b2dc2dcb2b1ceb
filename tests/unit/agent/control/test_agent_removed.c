/*
 * A real hearth-agent whose node was removed from the cluster: it gives up what it has only when it is told
 * so by the one code that means it, and its folder then joins again by a new token.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 30000 /* ms; a deadline, not a time that is waited */

static struct ctl *c;
static struct ctl_agent *a;

static char *below(const char *name)
{
	return xasprintf("%s/%s", a->dir, name);
}

static int exists(const char *name)
{
	cleanup_free char *path = below(name);

	return access(path, F_OK) == 0;
}

static char *content(const char *name)
{
	cleanup_free char *path = below(name);
	char *text = NULL;

	fs_read_file(path, 65536, &text, NULL, NULL);
	return text ? text : xstrdup("");
}

static int alive(uint64_t job)
{
	cleanup_free char *token = xasprintf("token-%d-%llu-1-0", (int)getpid(), (unsigned long long)job);

	return proc_count_env("HEARTH_TOKEN_LAUNCH", token, NULL);
}

static void start(void)
{
	cleanup_free char *run = xasprintf("%s/run", tap_tmpdir());
	const char *const more[] = {"--run", run, NULL};

	a = ctl_agent_start(c, 0, "n1", more);
}

static int connected_again(struct ctl *x, void *arg)
{
	(void)x;
	return a->synced >= *(int *)arg;
}

static void begin_job(uint64_t job, const char *shell)
{
	ctl_prepare_shell(c, a, job, 2, shell);
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job %d is ready", (int)job);
	ctl_go(a, job, 1, 1);
}

static void run_job(uint64_t job, const char *shell)
{
	begin_job(job, shell);
	ok(ctl_wait_proc(a, PROC_RANK, 1, PS_RUNNING, LONG), "and runs");
}

static int has_ended(struct ctl *x, void *status)
{
	(void)x;
	if (waitpid(a->pid, status, WNOHANG) != a->pid)
		return 0;
	a->pid = 0;
	return 1;
}

/* Every refusal but the one: by an error of ours, of a proxy's, of a data base that was put back. */
static void test_others(void)
{
	static const int codes[] = {ERR_DENIED, ERR_NOT_FOUND, ERR_CONFLICT, ERR_UNAUTHORIZED, ERR_INTERNAL};
	cleanup_free char *was = content("agent.pem"), *now = NULL;

	run_job(21, "exec sleep 600");
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		int want = a->connections + 1;

		c->refused_as = codes[i];
		c->refusals = 0;
		ctl_refuse(c, a);
		ok(ctl_wait_refusals(c, 2, LONG), "refused by %s, it comes again",
		   err_code_name((enum err_code)codes[i]));
		ctl_refuse(c, NULL);
		ok(ctl_wait(c, LONG, connected_again, &want), "and is let in");
	}
	is_int(alive(21), 2, "its ranks run on");
	ok(exists("jobs/21.1/ml"), "its folders are there");
	now = content("agent.pem");
	is_str(now, was, "with the same certificate");
}

static void test_removed(void)
{
	cleanup_free char *was = content("agent.key"), *key = NULL;
	int status = 0;

	memcpy(c->token, "hj1-ffffffffffffffff", 20); /* what it was given is used up */
	c->refused_as = ERR_GONE;
	ctl_refuse(c, a);
	ok(ctl_wait(c, LONG, has_ended, &status), "removed: the agent ends");
	is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 1, "with a failure");
	ok(ctl_wait_log(a, "event=removed node=n1 launches=1", LONG), "its log says why");
	ok(ctl_wait_log(a, "this token is not known", LONG), "and that the old token is of no use");
	is_int(alive(21), 0, "no process of its launch is left");
	ok(!exists("jobs/21.1") && !exists("agent.pem"), "no folder, and no certificate");
	key = content("agent.key");
	ok(strcmp(was, key) != 0, "and the old key is gone");
	ok(exists("node"), "the name stays");
}

static void test_again(void)
{
	int want = a->connections + 1;

	memcpy(c->token, c->given, sizeof(c->token)); /* that is, the agent gets a token that is good */
	c->joins = 0;
	start();
	ok(ctl_wait(c, LONG, connected_again, &want), "with a new token the same folder joins again");
	is_int(c->joins, 1, "by one request");
	ok(exists("agent.pem") && exists("agent.key"), "and has a certificate");
	run_job(22, "exec sleep 600");
}

/* The usual way: the machine is off, the node is removed, and it comes back with a token for a new start. */
static void test_away(void)
{
	cleanup_free char *was = content("agent.pem"), *now = NULL;
	int want = a->connections + 1;

	ctl_agent_kill(a, SIGKILL);
	c->refused_as = ERR_GONE;
	c->joins = 0;
	ctl_refuse(c, a);
	start();
	ok(ctl_wait(c, LONG, connected_again, &want), "removed while it was away, with a new token: it is back");
	is_int(c->joins, 1, "it has joined");
	now = content("agent.pem");
	ok(strcmp(was, now) != 0, "with another certificate");
	is_int(alive(22), 0, "what it had adopted is gone");
	ok(!exists("jobs/22.1"), "with its folder");
	begin_job(23, "exit 3");
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "a new launch runs there");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 3, "to its end");
	ctl_collect(a, 23, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and is cleaned");
}

int main(void)
{
	cleanup_free char *program = xasprintf(
	    "%s/agent/hearth-agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");

	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	c->lease_ms = 600000; /* nothing is to end because of it */
	start();
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	test_others();
	test_removed();
	test_again();
	test_away();
	ctl_stop(c);
	return tap_done();
}
