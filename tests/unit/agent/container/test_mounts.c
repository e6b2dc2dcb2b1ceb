/*
 * Holders of namespaces that do not answer and do not end: nobody waits for them without a limit, and they
 * are reaped once they have ended. A program that reads a FIFO for ever stands in for one that hangs on a
 * file server; the failpoint takes the place of a SIGKILL that has no effect on it.
 */
#include "agent/container/mounts.h"
#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_US 60000000ull /* a deadline, not a time that is waited */

static struct loop *loop;
static char *fifo, *program, *pid_file;

static void write_program(void)
{
	cleanup_free char *text = xasprintf("#!/bin/sh\necho $$ >%s\nread x <%s\nexit 0\n", pid_file, fifo);
	struct err e = {0};

	if (fs_replace(program, text, strlen(text), 0755, &e) < 0 || chmod(program, 0755) < 0)
		tap_bail("%s", e.text);
}

struct said {
	int called, rc;
	struct err e;
};

static void on_done(const struct proc_id *holder, const struct err *why, void *arg)
{
	struct said *said = arg;

	said->called++;
	said->rc = holder ? 0 : -1;
	if (why)
		said->e = *why;
}

static struct mounts *begin(uint32_t ready_ms, struct said *said)
{
	struct mounts_params p = {
	    .hold_path = program, .tmp = tap_tmpdir(), .ml = tap_tmpdir(), .ready_ms = ready_ms};

	*said = (struct said){0};
	return mounts_start(loop, &p, "token", on_done, said, &said->e);
}

/* From the start to the answer. */
static int start(struct err *e)
{
	uint64_t end = clock_boot_us(clock_real()) + LONG_US;
	struct said said;

	unlink(pid_file);
	if (!begin(3000, &said))
		tap_bail("%s", said.e.text);
	while (!said.called && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 100);
	*e = said.e;
	is_int(said.called, 1, "it is told once");
	return said.rc;
}

static pid_t its_pid(void)
{
	char *text = NULL;
	pid_t pid = 0;

	if (fs_read_file(pid_file, 64, &text, NULL, NULL) == 0)
		pid = (pid_t)atoi(text);
	free(text);
	return pid;
}

static int reaped(void)
{
	uint64_t end = clock_boot_us(clock_real()) + LONG_US;

	while (mounts_reap() > 0 && clock_boot_us(clock_real()) < end)
		poll(NULL, 0, 20);
	return mounts_reap() == 0;
}

static void test_hangs(void)
{
	struct err e = {0};
	pid_t pid;

	ok(start(&e) < 0 && e.code == ERR_TIMEOUT, "a holder that says nothing is given up");
	like(e.text, "does a file server not answer", "and the text says where to look");
	pid = its_pid();
	ok(pid > 0 && reaped(), "it was killed, and is reaped");
	ok(kill(pid, 0) < 0, "gone");
}

static int written(void)
{
	uint64_t end = clock_boot_us(clock_real()) + LONG_US;

	while (its_pid() <= 0 && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 10);
	return its_pid() > 0;
}

static void on_timer(void *arg)
{
	*(int *)arg = 1;
}

/* The loop has beats to send while a file server does not answer; and the launch may be ended meanwhile. */
static void test_cancel(void)
{
	uint64_t end = clock_boot_us(clock_real()) + LONG_US;
	struct loop_timer *t;
	struct mounts *m;
	struct said said;
	int fired = 0;

	unlink(pid_file);
	m = begin(60000, &said);
	t = loop_timer_create(loop, on_timer, &fired);
	ok(m && written(), "one that hangs is started");
	loop_timer_arm(t, 1000);
	while (!fired && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 100);
	loop_timer_destroy(t);
	ok(fired && !said.called, "the loop goes on meanwhile");
	mounts_cancel(m);
	ok(reaped(), "cancelled, it is ended and reaped");
	ok(kill(its_pid(), 0) < 0, "gone");
	loop_run_once(loop, 0);
	is_int(said.called, 0, "and nothing is told");
	mounts_cancel(NULL);
}

/* An agent that ends leaves it to the next one. */
static void test_leave(void)
{
	struct mounts *m;
	struct said said;
	pid_t pid;

	unlink(pid_file);
	m = begin(60000, &said);
	ok(m && written(), "another one is started");
	mounts_leave(m);
	mounts_leave(NULL);
	pid = its_pid();
	ok(pid > 0 && kill(pid, 0) == 0, "left, it is there still");
	kill(pid, SIGKILL);
	ok(waitpid(pid, NULL, 0) == pid, "until somebody ends it");
	is_int(said.called, 0, "nothing is told");
}

#ifdef HEARTH_FAULTS
static void test_does_not_end(void)
{
	struct err e = {0};
	pid_t pid;
	int fd;

	fault_arm("agent.holder", 1, 1);
	ok(start(&e) < 0 && e.code == ERR_TIMEOUT, "one that cannot be killed is given up, too");
	fault_clear();
	pid = its_pid();
	is_int(mounts_reap(), 1, "it is remembered");
	ok(pid > 0 && kill(pid, 0) == 0, "as it is there still");
	ok(start(&e) < 0, "the next one is not kept from its start by it");
	is_int(kill(pid, 0), 0, "it stands still");
	fd = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ok(fd >= 0 && write(fd, "go\n", 3) == 3, "its file server answers");
	ok(reaped(), "it ends, and is reaped");
	close(fd);
}
#endif

int main(void)
{
	fifo = xasprintf("%s/fifo", tap_tmpdir());
	program = xasprintf("%s/hold", tap_tmpdir());
	pid_file = xasprintf("%s/pid", tap_tmpdir());
	if (mkfifo(fifo, 0600) < 0)
		tap_bail("mkfifo");
	write_program();
	loop = loop_create();
	test_hangs();
	test_cancel();
	test_leave();
#ifdef HEARTH_FAULTS
	test_does_not_end();
#else
	tap_skip("built without failpoints");
#endif
	loop_destroy(loop);
	free(fifo);
	free(program);
	free(pid_file);
	return tap_done();
}
