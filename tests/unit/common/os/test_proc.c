/* proc: identity, spawning with every option, descriptors, signals, failures, the sweep by environment. */
#include "common/os/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#define DEADLINE_MS 20000

/* Waits for the end of a child by its pidfd; the status of waitpid. */
static int await(pid_t pid, int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int status = -1;

	if (poll(&p, 1, DEADLINE_MS) != 1)
		tap_bail("child %d did not end", (int)pid);
	waitpid(pid, &status, 0);
	close(pidfd);
	return status;
}

static int quick; /* start programs without a copy of our memory */

/* Runs sh -c script with stdout into *out; its wait status, or -1. */
static int shell(const char *script, struct proc_spawn s, char *out, size_t size, struct err *e)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)script, NULL};
	int fds[2], pidfd;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		tap_bail("pipe");
	s.path = "/bin/sh";
	s.argv = argv;
	s.stdin_fd = s.stderr_fd = -1;
	s.stdout_fd = fds[1];
	s.quick = quick && !s.set_ids && !s.pre_exec;
	if (proc_spawn(&s, &pid, &pidfd, e) < 0) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	close(fds[1]);
	while (n + 1 < size && (got = read(fds[0], out + n, size - n - 1)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	close(fds[0]);
	return await(pid, pidfd);
}

static void test_spawn(void)
{
	char *const env[] = {(char *)"A=1", (char *)"B=two words", NULL};
	char out[4096], want[4300];
	struct proc_spawn s = {0};
	struct err e;

	is_int(shell("echo hello; exit 3", s, out, sizeof(out), &e), 3 << 8, "exit status");
	is_str(out, "hello\n", "output");
	is_int(shell("kill -9 $$", s, out, sizeof(out), &e), SIGKILL, "end by signal");
	shell("cat /proc/self/environ | tr '\\0' ' '", s, out, sizeof(out), &e);
	ok(strstr(out, "HOME=") == NULL && strstr(out, "PATH=") == NULL, "nothing of our environment");
	s.envp = env;
	shell("echo $A:$B", s, out, sizeof(out), &e);
	is_str(out, "1:two words\n", "its own environment");
	s.cwd = tap_tmpdir();
	shell("pwd -P", s, out, sizeof(out), &e);
	snprintf(want, sizeof(want), "%s\n", tap_tmpdir());
	is_str(out, want, "working directory");
	s.cwd = NULL;
	shell("cat | wc -c", s, out, sizeof(out), &e);
	like(out, "0", "stdin is empty");
	s.new_session = 1;
	shell("read -r p c st pp pg sid r </proc/self/stat; [ $sid = $$ ] && [ $pg = $$ ] && echo leader", s, out,
	      sizeof(out), &e);
	is_str(out, "leader\n", "a session of its own");
}

static void test_fds(void)
{
	struct proc_spawn s = {0};
	int fds[2], extra[1], saved, spare;
	char out[4096], script[200];
	struct err e;

	/* Inheritable on purpose: the child must get none of these but the listed one. */
	if (pipe(fds) < 0 || (spare = dup(fds[1])) < 0)
		tap_bail("pipe");
	extra[0] = fds[1];
	s.extra_fds = extra;
	s.n_extra_fds = 1;
	snprintf(script, sizeof(script), "for f in /proc/$$/fd/*; do echo ${f##*/}; done; echo x >&%d", fds[1]);
	is_int(shell(script, s, out, sizeof(out), &e), 0, "the listed descriptor is open in the child");
	snprintf(script, sizeof(script), "0\n1\n2\n%d\n", fds[1]);
	if (strlen(out) > strlen(script)) /* the shell keeps one of its own for the list */
		tap_diag("%s", out);
	ok(strncmp(out, "0\n1\n2\n", 6) == 0 && !strstr(out, "\n7777\n"), "0 to 2");
	snprintf(script, sizeof(script),
	         "[ -e /proc/$$/fd/%d ] || [ -e /proc/$$/fd/%d ] && echo leak || echo none", fds[0], spare);
	shell(script, s, out, sizeof(out), &e);
	is_str(out, "none\n", "no other descriptor");
	extra[0] = 999;
	is_int(shell("true", s, out, sizeof(out), &e), -1, "an extra descriptor that is not open");
	extra[0] = 1;
	is_int(shell("true", s, out, sizeof(out), &e), -1, "an extra descriptor below 3");
	s.n_extra_fds = 0;

	/* With 0 closed here, the pipes of the spawner take that number. */
	saved = fcntl(0, F_DUPFD_CLOEXEC, 10);
	close(0);
	is_int(shell("cat; echo ok", s, out, sizeof(out), &e), 0, "with our stdin closed");
	is_str(out, "ok\n", "all is as ever");
	dup2(saved, 0);
	close(saved);
	close(fds[0]);
	close(fds[1]);
	close(spare);
}

/* 0, 1 and 2 of the child taken from our 1, 2 and 0, in a circle. */
static void test_circle(void)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo out; echo err >&2; cat >&2", NULL};
	struct proc_spawn s = {
	    .path = "/bin/sh", .argv = argv, .stdin_fd = 2, .stdout_fd = 0, .stderr_fd = 1, .quick = quick};
	char path[3][4200], *text;
	int saved[3], fd, pidfd, status;
	struct err e;
	pid_t pid;

	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/circle%d", tap_tmpdir(), i);
		fs_replace(path[i], i == 2 ? "input\n" : "", i == 2 ? 6 : 0, 0600, &e);
		fd = open(path[i], O_RDWR | O_CLOEXEC);
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
		dup2(fd, i);
		close(fd);
	}
	if (proc_spawn(&s, &pid, &pidfd, &e) < 0)
		_exit(99);
	status = await(pid, pidfd);
	for (int i = 0; i < 3; i++) {
		dup2(saved[i], i);
		close(saved[i]);
	}
	is_int(status, 0, "descriptors in a circle");
	fs_read_file(path[0], 100, &text, NULL, &e);
	is_str(text, "out\n", "its stdout is our 0");
	free(text);
	fs_read_file(path[1], 100, &text, NULL, &e);
	is_str(text, "err\ninput\n", "its stderr is our 1, its stdin our 2");
	free(text);
}

static int count_fds(void)
{
	struct err e;
	int n = 0;

	for (int i = 0; i < 256; i++)
		n += fcntl(i, F_GETFD) >= 0;
	(void)e;
	return n;
}

static int failing_hook(void *arg)
{
	errno = *(int *)arg;
	return -1;
}

static void test_failures(void)
{
	char *argv[] = {(char *)"x", NULL};
	struct proc_spawn s = {.path = "/no/such/program",
	                       .argv = argv,
	                       .stdin_fd = -1,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1,
	                       .quick = quick};
	int pidfd = 77, before = count_fds(), errnum = EBUSY;
	pid_t pid = 77;
	struct err e;

	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "no such program");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	like(e.text, "/no/such/program: execute: No such file", "says what failed");
	s.path = "relative";
	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "a relative path");
	s.path = tap_tmpdir();
	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "a folder");
	is_int(e.code, ERR_DENIED, "denied");
	s.path = "/bin/true";
	s.cwd = "/no/such/folder";
	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "no such working directory");
	like(e.text, "/bin/true: working directory: No such file", "says so");
	s.cwd = NULL;
	s.quick = 0;
	s.pre_exec = failing_hook;
	s.pre_exec_arg = &errnum;
	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "a hook that fails");
	like(e.text, "preparation: Device or resource busy", "with its errno");
	errnum = 0;
	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "a hook that fails without errno");
	s.pre_exec = NULL;
	s.quick = quick;
	s.stdout_fd = 999;
	is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, "a descriptor that is not open");
	ok(pid == 77 && pidfd == 77, "nothing written by failed calls");
	is_int(count_fds(), before, "no descriptor leaked");
	is_int(waitpid(-1, NULL, WNOHANG), -1, "no child left behind");
	is_int(errno, ECHILD, "none at all");
}

/* One more descriptor each time until there are enough: each failure is named, and leaves nothing behind. */
static void test_few_descriptors(void)
{
	char *argv[] = {(char *)"true", NULL};
	struct proc_spawn s = {
	    .path = "/bin/true", .argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
	int before = count_fds(), first = dup(0), rc, pidfd, n = 0, bad = 0;
	struct rlimit old, few;
	pid_t pid;
	struct err e;

	close(first);
	getrlimit(RLIMIT_NOFILE, &old);
	do {
		few = old;
		few.rlim_cur = (rlim_t)(first + n);
		setrlimit(RLIMIT_NOFILE, &few);
		rc = proc_spawn(&s, &pid, &pidfd, &e);
		setrlimit(RLIMIT_NOFILE, &old);
		n++;
		if (rc < 0)
			bad += !strstr(e.text, "Too many open files") || count_fds() != before ||
			       waitpid(-1, NULL, WNOHANG) != -1;
	} while (rc < 0 && n < 50);
	ok(!bad && n > 4 && n < 50, "%d times too few descriptors: named, nothing is left behind", n - 1);
	if (rc == 0) {
		close(pidfd);
		is_int(waitpid(pid, NULL, 0), pid, "then it works");
	}
	is_int(count_fds(), before, "no descriptor leaked");
}

#ifdef HEARTH_FAULTS
static void test_nth_step(void)
{
	static const char *const points[] = {"proc.spawn", "proc.fork", "proc.pidfd"};
	char *argv[] = {(char *)"true", NULL};
	struct proc_spawn s = {
	    .path = "/bin/true", .argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
	int before = count_fds(), pidfd = 77;
	pid_t pid = 77;
	struct err e;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		fault_arm(points[i], 1, 1);
		is_int(proc_spawn(&s, &pid, &pidfd, &e), -1, points[i]);
		like(e.text, "/bin/true: ", "named");
		ok(pid == 77 && pidfd == 77 && waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
		   "no child is left behind");
	}
	fault_clear();
	is_int(count_fds(), before, "no descriptor either");
}
#endif

static void on_usr1(int signo)
{
	(void)signo;
}

static void test_signals(void)
{
	struct sigaction sa = {.sa_handler = SIG_IGN}, old;
	const uint64_t ignored[8] = {1 /* SIG_IGN */}, by_default[8] = {0};
	struct proc_spawn s = {0};
	sigset_t set, before, after;
	char out[4096];
	struct err e;

	sigaction(SIGPIPE, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sa.sa_handler = on_usr1;
	sigaction(SIGUSR1, &sa, NULL);
	syscall(SYS_rt_sigaction, 33, ignored, NULL, (size_t)8); /* libc would not let us */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &before);
	shell("grep -E 'SigBlk|SigIgn|SigCgt' /proc/self/status | tr -d '\\t'; cat /dev/null", s, out,
	      sizeof(out), &e);
	sigprocmask(SIG_SETMASK, NULL, &after);
	sigprocmask(SIG_SETMASK, &before, NULL);
	like(out, "SigBlk:0000000000000000\nSigIgn:0000000000000000\n", "nothing blocked, nothing ignored");
	ok(sigismember(&after, SIGTERM) && !sigismember(&after, SIGINT), "our own mask is as it was");
	sigaction(SIGUSR1, NULL, &old);
	ok(old.sa_handler == on_usr1, "our handlers too");
	syscall(SYS_rt_sigaction, 33, by_default, NULL, (size_t)8);
	sa.sa_handler = SIG_DFL;
	sigaction(SIGPIPE, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
}

static void test_ids(void)
{
	struct proc_spawn s = {.set_ids = 1, .uid = 65534, .gid = 65534};
	char out[4096];
	struct err e;

	if (geteuid() != 0) {
		is_int(shell("id -u", s, out, sizeof(out), &e), -1, "another user, not as root");
		is_int(e.code, ERR_DENIED, "denied");
		like(e.text, "change user", "says so");
		tap_skip("changing the user needs root");
		return;
	}
	shell("grep -E '^(Uid|Gid|Groups|CapEff)' /proc/self/status | tr '\\t' ' ' | tr -s ' '", s, out,
	      sizeof(out), &e);
	like(out, "Uid: 65534 65534 65534 65534\nGid: 65534 65534 65534 65534\nGroups: 65534",
	     "all ids are changed");
	like(out, "CapEff: 0000000000000000", "no capability is left");
	s.user = "nobody";
	is_int(shell("true", s, out, sizeof(out), &e), 0, "with the groups of a user");
	s.cwd = tap_tmpdir(); /* 0700 and ours */
	is_int(shell("true", s, out, sizeof(out), &e), -1, "a directory that the user may not enter");
	is_int(e.code, ERR_DENIED, "denied");
}

/* In a child of ours, which has lost its descriptors and ignores what it must not. */
static void test_main_init(void)
{
	sigset_t set;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		close(0);
		close(1);
		close(2);
		signal(SIGCHLD, SIG_IGN);
		signal(SIGPIPE, SIG_DFL);
		sigfillset(&set);
		sigprocmask(SIG_SETMASK, &set, NULL);
		proc_main_init();
		sigprocmask(SIG_SETMASK, NULL, &set);
		_exit(fcntl(0, F_GETFD) == 0 && fcntl(1, F_GETFD) == 0 && fcntl(2, F_GETFD) == 0 &&
		              signal(SIGCHLD, SIG_DFL) == SIG_DFL && signal(SIGPIPE, SIG_DFL) == SIG_IGN &&
		              !sigismember(&set, SIGTERM)
		          ? 0
		          : 1);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "a main starts from known ground");
}

static void *spawn_many(void *arg)
{
	char *argv[] = {(char *)"true", NULL};
	struct proc_spawn s = {
	    .path = "/bin/true", .argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
	int *good = arg, pidfd;
	pid_t pid;

	for (int i = 0; i < 40; i++) {
		void *memory = malloc(1000); /* another thread may hold malloc's lock at the fork */

		*good &= proc_spawn(&s, &pid, &pidfd, NULL) == 0 && await(pid, pidfd) == 0;
		free(memory);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[4];
	int good[4] = {1, 1, 1, 1};

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, spawn_many, &good[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ok(good[0] && good[1] && good[2] && good[3], "from four threads at once");
}

static pid_t sleeper(const char *token, int *pidfd)
{
	char *argv[] = {(char *)"a) b (c", (char *)"600", NULL}, entry[100];
	char *env[] = {(char *)"X=1", entry, NULL};
	struct proc_spawn s = {
	    .path = "/bin/sleep", .argv = argv, .envp = env, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
	struct err e;
	pid_t pid;

	snprintf(entry, sizeof(entry), "HEARTH_TEST_TOKEN=%s", token);
	if (proc_spawn(&s, &pid, pidfd, &e) < 0)
		tap_bail("%s", e.text);
	return pid;
}

static void test_identity(void)
{
	struct proc_id id, other, kept = {.pid = 77};
	int pidfd, fd, status;
	struct err e;
	pid_t pid = sleeper("none", &pidfd);

	is_int(proc_identify(pid, &id, &e), 0, "identify");
	is_int(id.pid, pid, "pid");
	is_int(strlen(id.boot_id), 36, "boot id");
	ok(id.start_ticks > 0, "start time");
	is_int(proc_alive(&id, &e), 1, "alive");
	other = id;
	other.start_ticks++;
	is_int(proc_alive(&other, &e), 0, "another start time is another process");
	is_int(proc_open(&other, &e), -1, "which cannot be opened");
	is_int(e.code, ERR_NOT_FOUND, "it is gone");
	setenv("HEARTH_TEST_BOOT_ID", "11111111-2222-3333-4444-555555555555", 1);
	is_int(proc_alive(&id, &e), 0, "after a reboot it is gone");
	unsetenv("HEARTH_TEST_BOOT_ID");
	fd = proc_open(&id, &e);
	ok(fd >= 0, "open");
	ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "close-on-exec");
	is_int(proc_signal(fd, 0, &e), 0, "signal 0");
	is_int(proc_signal(fd, SIGKILL, &e), 0, "kill");
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	is_int(poll(&p, 1, DEADLINE_MS), 1, "it ends");
	is_int(proc_alive(&id, &e), 0, "a zombie is not alive");
	is_int(proc_open(&id, &e), -1, "nor to be opened");
	status = await(pid, pidfd);
	is_int(status, SIGKILL, "killed");
	is_int(proc_alive(&id, &e), 0, "gone");
	is_int(proc_signal(fd, SIGKILL, &e), -1, "no signal reaches it");
	is_int(e.code, ERR_NOT_FOUND, "it is gone");
	is_int(proc_identify(pid, &kept, &e), -1, "no identity of a gone process");
	is_int(kept.pid, 77, "nothing written");
	is_int(e.code, ERR_NOT_FOUND, "it is gone");
	close(fd);
	is_int(proc_identify(0, &id, &e), -1, "pid 0");
	is_int(proc_identify(-1, &id, &e), -1, "pid -1");
	id = (struct proc_id){0};
	is_int(proc_open(&id, &e), -1, "an empty identity");
}

static void *sleep_on(void *arg)
{
	poll(NULL, 0, *(int *)arg);
	return NULL;
}

/* A process whose main thread has ended while another runs on: still alive, still found. */
static void test_leaderless(const char *token)
{
	char *argv[] = {(char *)"test_proc", (char *)"leaderless", NULL}, entry[100];
	char *env[] = {entry, NULL};
	struct proc_spawn s = {.path = "/proc/self/exe",
	                       .argv = argv,
	                       .envp = env,
	                       .stdin_fd = -1,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1};
	uint64_t deadline = 2000;
	struct proc_id id;
	char path[64], *text = NULL;
	int pidfd, zombie = 0;
	struct err e;
	pid_t pid;

	snprintf(entry, sizeof(entry), "HEARTH_TEST_TOKEN=%s", token);
	if (proc_spawn(&s, &pid, &pidfd, &e) < 0)
		tap_bail("%s", e.text);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (; deadline && !zombie; deadline--) {
		poll(NULL, 0, 5); /* no event tells that a main thread has ended */
		if (fs_read_file(path, 8192, &text, NULL, &e) == 0) {
			zombie = strstr(text, ") Z ") != NULL;
			free(text);
		}
	}
	ok(zombie, "the main thread has ended");
	proc_identify(pid, &id, &e);
	is_int(proc_alive(&id, &e), 1, "the process has not");
	is_int(proc_count_env("HEARTH_TEST_TOKEN", token, &e), 1, "it is found by its environment");
	is_int(proc_sweep_env("HEARTH_TEST_TOKEN", token, SIGKILL, 20, &e), 1, "and swept");
	is_int(await(pid, pidfd), SIGKILL, "by the signal");
}

static void test_sweep(void)
{
	char token[33], longer[40], path[4200];
	int pidfds[5], other_fd, good = 1;
	pid_t pids[5], other;
	struct err e;

	random_hex(token, 32);
	snprintf(longer, sizeof(longer), "%sx", token);
	for (int i = 0; i < 5; i++)
		pids[i] = sleeper(token, &pidfds[i]);
	other = sleeper(longer, &other_fd);
	is_int(proc_count_env("HEARTH_TEST_TOKEN", token, &e), 5, "count");
	is_int(proc_count_env("TEST_TOKEN", token, &e), 0, "the end of a name is not the name");
	is_int(proc_count_env("HEARTH_TEST_TOKEN", "", &e), 0, "the start of a value is not the value");
	is_int(proc_sweep_env("HEARTH_TEST_TOKEN", token, SIGKILL, 20, &e), 5, "sweep");
	for (int i = 0; i < 5; i++)
		good &= await(pids[i], pidfds[i]) == SIGKILL;
	ok(good, "all five were killed");
	is_int(proc_count_env("HEARTH_TEST_TOKEN", token, &e), 0, "none is left");
	is_int(proc_sweep_env("HEARTH_TEST_TOKEN", token, SIGKILL, 20, &e), 0, "nothing more to sweep");
	is_int(proc_count_env("HEARTH_TEST_TOKEN", longer, &e), 1, "the other one runs");
	is_int(proc_sweep_env("HEARTH_TEST_TOKEN", longer, SIGTERM, 1, &e), 1, "until it is swept, too");
	is_int(await(other, other_fd), SIGTERM, "by the signal that was asked for");
	is_int(proc_sweep_env("X", "y", 0, 1, &e), -1, "signal 0 is no sweep");

	/* Processes that beget others all the time: a sweep must still come to an end with none left. */
	snprintf(path, sizeof(path), "HEARTH_TEST_TOKEN=%s", token);
	{
		char *argv[] = {
		    (char *)"sh", (char *)"-c",
		    (char *)"while :; do (sleep 600 &) ; (sh -c 'sleep 600 & sleep 0.01' &); sleep 0.02; done", NULL};
		char *env[] = {path, (char *)"PATH=/usr/bin:/bin", NULL};
		struct proc_spawn s = {.path = "/bin/sh",
		                       .argv = argv,
		                       .envp = env,
		                       .stdin_fd = -1,
		                       .stdout_fd = -1,
		                       .stderr_fd = -1,
		                       .new_session = 1};
		int pidfd, n;
		pid_t pid;

		if (proc_spawn(&s, &pid, &pidfd, &e) < 0)
			tap_bail("%s", e.text);
		for (int i = 0; i < 2000 && proc_count_env("HEARTH_TEST_TOKEN", token, &e) < 10; i++)
			poll(NULL, 0, 5);
		n = proc_sweep_env("HEARTH_TEST_TOKEN", token, SIGKILL, 50, &e);
		ok(n >= 5, "a family of %d", n);
		is_int(proc_count_env("HEARTH_TEST_TOKEN", token, &e), 0, "is swept to the last");
		await(pid, pidfd);
	}
	test_leaderless(token);
}

static void test_names(void)
{
	is_str(proc_signal_name(9), "SIGKILL", "KILL");
	is_str(proc_signal_name(SIGUSR1), "SIGUSR1", "USR1");
	is_str(proc_signal_name(99), "signal 99", "unknown");
	is_int(proc_signal_parse("SIGUSR1"), SIGUSR1, "SIGUSR1");
	is_int(proc_signal_parse("usr1"), SIGUSR1, "usr1");
	is_int(proc_signal_parse("10"), 10, "10");
	is_int(proc_signal_parse("0"), -1, "0");
	is_int(proc_signal_parse("65"), -1, "65");
	is_int(proc_signal_parse("SIGNOPE"), -1, "SIGNOPE");
	is_int(proc_signal_parse("SIG"), -1, "SIG");
	is_int(proc_signal_parse(""), -1, "empty");
}

int main(int argc, char **argv)
{
	int forever = 600000;
	pthread_t thread;

	if (argc == 2 && strcmp(argv[1], "leaderless") == 0) {
		pthread_create(&thread, NULL, sleep_on, &forever);
		pthread_exit(NULL);
	}
	proc_main_init();
	test_main_init();
	for (quick = 0; quick < 2; quick++) {
		test_spawn();
		test_fds();
		test_circle();
		test_failures();
	}
	quick = 0;
	test_few_descriptors();
#ifdef HEARTH_FAULTS
	test_nth_step();
#endif
	test_signals();
	test_ids();
	test_threads();
	test_identity();
	test_sweep();
	test_names();
	return tap_done();
}
