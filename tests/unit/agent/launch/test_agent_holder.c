/*
 * A real hearth-agent whose holder of namespaces hangs, as on a file server that does not answer: it stays a
 * member of the cluster and beats, the launch may be stopped meanwhile, and an agent that comes after it
 * leaves nothing of it behind. A program that reads a FIFO for ever stands in for the holder.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG  60000 /* ms; a deadline, not a time that is waited */
#define BEATS 4

static struct ctl *c;
static struct ctl_agent *a;
static char *libexec, *pid_file, *build;

static void write_holder(void)
{
	cleanup_free char *path = xasprintf("%s/hearth-hold", libexec), *fifo = xasprintf("%s/fifo", libexec),
	                  *text = xasprintf("#!/bin/sh\necho $$ >%s\nread x <%s\n", pid_file, fifo);
	struct err e = {0};

	if (mkfifo(fifo, 0600) < 0 || fs_replace(path, text, strlen(text), 0755, &e) < 0 || chmod(path, 0755) < 0)
		tap_bail("the holder: %s", e.text);
}

/* The agent's programs, but for the holder. */
static void make_libexec(void)
{
	static const char *const programs[] = {"agent/hearth-rank", "agent/hearth-rsh", "shim/hearth-shim"};

	if (mkdir(libexec, 0755) < 0)
		tap_bail("mkdir");
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		cleanup_free char *from = xasprintf("%s/%s", build, programs[i]),
		                  *to = xasprintf("%s%s", libexec, strchr(programs[i], '/'));

		if (symlink(from, to) < 0)
			tap_bail("symlink");
	}
	write_holder();
}

static void start(void)
{
	cleanup_free char *run = xasprintf("%s/run", tap_tmpdir());
	const char *const more[] = {"--run", run, "--libexec", libexec, NULL};

	a = ctl_agent_start(c, 0, "n1", more);
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "the agent is connected");
}

static pid_t holder(void)
{
	char *text = NULL;
	pid_t pid = 0;

	if (fs_read_file(pid_file, 64, &text, NULL, NULL) == 0)
		pid = (pid_t)atoi(text);
	free(text);
	return pid;
}

static int is_started(struct ctl *x, void *arg)
{
	(void)x;
	(void)arg;
	return holder() > 0;
}

static int is_gone(struct ctl *x, void *arg)
{
	const pid_t *pid = arg;

	(void)x;
	return kill(*pid, 0) < 0 || ctl_is_zombie((uint32_t)*pid);
}

static int is_reaped(struct ctl *x, void *arg)
{
	const pid_t *pid = arg;

	(void)x;
	return kill(*pid, 0) < 0;
}

static int has_beaten(struct ctl *x, void *arg)
{
	(void)arg;
	return a->beats >= x->want_beats;
}

/* Up to the holder that hangs. */
static pid_t hang(uint64_t job)
{
	unlink(pid_file);
	ctl_prepare_shell(c, a, job, 1, "true");
	ok(ctl_wait(c, LONG, is_started, NULL), "job %d: its holder hangs", (int)job);
	return holder();
}

static void over(uint64_t job, pid_t pid)
{
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "it is stopped");
	ctl_collect(a, job, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and cleaned");
	ok(ctl_wait(c, LONG, is_gone, &pid), "its holder is gone");
}

static void test_stopped(void)
{
	pid_t pid = hang(81);

	c->want_beats = a->beats + BEATS;
	ok(ctl_wait(c, LONG, has_beaten, NULL), "the node beats meanwhile");
	is_int(a->connections, 1, "and was never disconnected");
	ctl_kill(a, 81, 1, 1, 1000);
	over(81, pid);
	ok(ctl_wait(c, LONG, is_reaped, &pid), "and reaped, though no other launch follows");
}

/* An agent that dies while it is being stopped: the next one goes on with that, and takes it away. */
static void test_taken_over(void)
{
	pid_t pid = hang(82);

	ctl_kill(a, 82, 1, 1, 1000);
	ctl_agent_kill(a, SIGKILL);
	start();
	over(82, pid);
}

/* The same where nobody stopped it: it is prepared anew, with another holder. */
static void test_again(void)
{
	pid_t pid = hang(83), next;

	ctl_agent_kill(a, SIGKILL);
	unlink(pid_file);
	start();
	ok(ctl_wait(c, LONG, is_started, NULL), "the next agent begins anew");
	next = holder();
	ok(ctl_wait(c, LONG, is_gone, &pid), "and ends the first holder");
	ctl_kill(a, 83, 1, 1, 1000);
	over(83, next);
}

int main(void)
{
	cleanup_free char *program = NULL;

	build = xasprintf("%s", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");
	program = xasprintf("%s/agent/hearth-agent", build);
	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	libexec = xasprintf("%s/libexec", tap_tmpdir());
	pid_file = xasprintf("%s/holder.pid", tap_tmpdir());
	make_libexec();
	c = ctl_start(tap_tmpdir());
	start();
	test_stopped();
	test_taken_over();
	test_again();
	ctl_agent_kill(a, SIGKILL);
	ctl_stop(c);
	free(libexec);
	free(pid_file);
	free(build);
	return tap_done();
}
