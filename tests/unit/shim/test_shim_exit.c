/* hearth-shim: exact ends, failures to start in words, and what the process gets from us. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/os/fsutil.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

/* Through the shell's own loop this would be 256 shims; a shim each is what is under test. */
static void test_exit_codes(void)
{
	int exact = 0, recorded = 0;

	for (int code = 0; code < 256; code++) {
		struct shim_state s;
		struct wm_shim_status *st;
		char arg[8];
		struct lab x;
		struct err e;

		snprintf(arg, sizeof(arg), "%d", code);
		lab_init(&x, "exit", arg, NULL);
		lab_start(&x);
		st = lab_wait(&x, PS_EXITED);
		exact += st->exit_code == (uint32_t)code && st->signal == 0 && st->oom == 0;
		if (shim_state_read(x.dir, &s, &e) == 0) {
			recorded +=
			    s.st.state == PS_EXITED && s.st.exit_code == (uint32_t)code && s.child.pid == (pid_t)st->pid;
			shim_state_fini(&s);
		}
		wire_free(WM_SHIM_STATUS, st);
		/* No assertion of lab_end for each: one line for all. */
		lab_quit(&x, 0);
		lab_reap(&x);
		close(x.fd);
		shim_launch_fini(&x.l);
		if (getenv("HEARTH_TEST_SHIM") && code >= 2 && code < 250)
			code = 250; /* each costs a second there */
	}
	is_int(exact, getenv("HEARTH_TEST_SHIM") ? 8 : 256, "exit codes are exact");
	is_int(recorded, exact, "and stand in the state file");
}

static void test_signals(void)
{
	static const int signals[] = {SIGHUP,  SIGINT,  SIGILL,  SIGABRT, SIGFPE, SIGKILL,
	                              SIGSEGV, SIGPIPE, SIGTERM, SIGUSR1, SIGBUS};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct wm_shim_status *st;
		struct lab x;
		char arg[8];

		snprintf(arg, sizeof(arg), "%d", signals[i]);
		lab_init(&x, "signal", arg, NULL);
		lab_start(&x);
		st = lab_wait(&x, PS_EXITED);
		ok(st->signal == (uint32_t)signals[i] && st->exit_code == 128 + (uint32_t)signals[i] && !st->oom,
		   "ended by %s", proc_signal_name(signals[i]));
		is_int(st->ended_by, BY_ITSELF, "which is not Hearth's");
		wire_free(WM_SHIM_STATUS, st);
		lab_end(&x);
	}
}

/* The text of a launch that cannot start. */
static void failed(struct lab *x, const char *want, const char *what)
{
	struct wm_shim_status *st;
	struct shim_state s;
	struct err e;

	lab_start(x);
	st = lab_wait(x, PS_FAILED);
	like(st->text, want, what);
	is_int((int64_t)st->started_us, 0, "it was never started");
	if (shim_state_read(x->dir, &s, &e) < 0)
		tap_bail("%s", e.text);
	is_str(s.st.text, st->text, "the state file says the same");
	shim_state_fini(&s);
	wire_free(WM_SHIM_STATUS, st);
	lab_end(x);
}

static char *script(struct lab *x, const char *name, const char *text, mode_t mode)
{
	char *path = xasprintf("%s/%s", x->dir, name);

	if (fs_replace(path, text, strlen(text), mode, NULL) < 0)
		tap_bail("%s", path);
	return path;
}

/* valgrind executes by itself and finds out too late that an interpreter is missing. */
static void no_interpreter(struct lab *x, const char *want, const char *what)
{
	if (!getenv("HEARTH_TEST_SHIM")) {
		failed(x, want, what);
		return;
	}
	tap_skip("valgrind cannot see a missing interpreter");
	lab_end(x);
}

static void test_not_started(void)
{
	cleanup_free char *a = NULL, *b = NULL, *c = NULL, *d = NULL, *f = NULL;
	struct lab x;

	lab_init(&x, NULL);
	lab_argv(&x, "no-such-program", "x", NULL);
	failed(&x, "command not found: no-such-program (searched PATH=/usr/local/bin:/usr/bin:/bin)",
	       "not in PATH");
	lab_init(&x, NULL);
	lab_argv(&x, "./train.py", NULL);
	failed(&x, "command not found: ./train.py", "not in the directory");
	lab_init(&x, NULL);
	a = script(&x, "plain.txt", "hello", 0644);
	lab_argv(&x, "./plain.txt", NULL);
	failed(&x, "permission denied: ./plain.txt is not executable", "no x bit");
	lab_init(&x, NULL);
	lab_argv(&x, "./log", NULL);
	failed(&x, "permission denied: ./log is a directory", "a directory");
	lab_init(&x, NULL);
	b = script(&x, "bad.py", "#! /no/such/python3 -u\n", 0755);
	lab_argv(&x, "./bad.py", NULL);
	no_interpreter(&x, "bad interpreter: '/no/such/python3' not found", "bad interpreter");
	lab_init(&x, NULL);
	c = script(&x, "crlf.sh", "#!/bin/sh\r\necho\r\n", 0755);
	lab_argv(&x, "./crlf.sh", NULL);
	no_interpreter(&x, "carriage return", "a script from Windows");
	lab_init(&x, NULL);
	d = script(&x, "noexec", "this is no program", 0755);
	lab_argv(&x, "./noexec", NULL);
	no_interpreter(&x, "exec format error: ./noexec", "no #! line");
	lab_init(&x, NULL);
	f = script(&x, "inpath", "#!/no/such/sh\n", 0755);
	strv_setenv(&x.l.env, "PATH", x.dir);
	lab_argv(&x, "inpath", NULL);
	no_interpreter(&x, "bad interpreter: '/no/such/sh' not found", "bad interpreter, through PATH");
	lab_init(&x, NULL);
	lab_argv(&x, NULL);
	failed(&x, "no command was given", "an empty command");
}

static void test_not_started_places(void)
{
	struct lab x;

	lab_init(&x, "exit", "0", NULL);
	free(x.l.cwd);
	x.l.cwd = xstrdup("/no/such/place");
	failed(&x, "no such directory: /no/such/place", "cwd is missing");
	lab_init(&x, "exit", "0", NULL);
	free(x.l.cwd);
	x.l.cwd = xstrdup("/dev/null");
	failed(&x, "not a directory: /dev/null", "cwd is a file");
	lab_init(&x, "exit", "0", NULL);
	free(x.l.logdir);
	x.l.logdir = xstrdup("/no/such/log");
	failed(&x, "log directory /no/such/log", "no log directory");
	lab_init(&x, "exit", "0", NULL);
	strv_add(&x.l.cgroup_procs, "/no/such/cgroup.procs");
	failed(&x, "cannot join the cgroup: /no/such/cgroup.procs", "no cgroup");
	lab_init(&x, "exit", "0", NULL);
	wire_u32v_add(&x.l.cpus, 9999);
	failed(&x, "cannot bind to the job's 1 CPUs", "no such CPU");
	lab_init(&x, "exit", "0", NULL);
	x.l.container_pid = (uint32_t)getpid();
	x.l.container_start = 1;
	failed(&x, "the container's process", "another process than the container's");
}

static void test_environment(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL, *want = NULL;

	setenv("HEARTH_TEST_LEAK", "1", 1);
	lab_init(&x, "env", NULL);
	strv_add(&x.l.env, "EMPTY=");
	strv_add(&x.l.env, "ODD=a=b \"c\"\n");
	want = xasprintf("PATH=/usr/local/bin:/usr/bin:/bin\nHEARTH_TOKEN_LAUNCH=%s\nEMPTY=\nODD=a=b \"c\"\n\n",
	                 x.l.token);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, want, "the environment is what was given, in order, and nothing else");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_descriptors(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL, *out9 = NULL, *metrics = NULL, *path = NULL;
	/* Neither close-on-exec nor known to anybody: must not get through. */
	int leak = open("/dev/null", O_RDONLY), high;
	struct err e;

	high = fcntl(leak, F_DUPFD, 200);
	lab_init(&x, "fds", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "fd 0\nfd 1\nfd 2\n", "three descriptors");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	lab_init(&x, "fds", NULL);
	x.l.metrics = 1;
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	out9 = lab_output(&x, 0, NULL, NULL);
	is_str(out9, "fd 0\nfd 1\nfd 2\nfd 9\n", "and the one for metrics");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	lab_init(&x, "metrics", NULL);
	x.l.metrics = 1;
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 0, "HEARTH_METRICS_FD is usable");
	path = xasprintf("%s/metrics.jsonl", x.logdir);
	is_int(fs_read_file(path, 1000, &metrics, NULL, &e), 0, "the metrics file is there");
	is_str(metrics, "{\"step\": 1, \"loss\": 0.5}\n", "with what was written");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	close(leak);
	close(high);
}

static void test_process_state(void)
{
	struct wm_shim_status *st;
	cleanup_free char *out = NULL, *cpus = NULL;
	cpu_set_t set;
	uint32_t cpu = 0;
	struct lab x;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		tap_bail("sched_getaffinity");
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	signal(SIGUSR2, SIG_IGN); /* must not be inherited */
	lab_init(&x, "self", NULL);
	x.l.limit_nofile = 777;
	x.l.limit_as = 1ull << 46; /* a sanitizer's shadow must fit */
	wire_u32v_add(&x.l.cpus, cpu);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	like(out, "SigBlk:\t0000000000000000", "no signal is blocked");
	like(out, "SigIgn:\t0000000000000000", "none is ignored");
	if (!getenv("HEARTH_TEST_SHIM")) /* valgrind only pretends to set it */
		like(out, "nofile: 777\n", "number of open files");
	like(out, "as: 70368744177664\n", "address space");
	like(out, "pgid_is_pid: 1\nsid_is_pid: 1\n", "own session and group");
	like(out, "umask: 022", "usual umask");
	like(out, "oom_score_adj: 0\n", "the shim's protection is not inherited");
	cpus = xasprintf("Cpus_allowed_list:\t%u\n", cpu);
	like(out, cpus, "bound to its CPUs");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	signal(SIGUSR2, SIG_DFL);
}

static void test_user(void)
{
	struct wm_shim_status *st;
	cleanup_free char *out = NULL;
	struct lab x;

	if (getuid() != 0) {
		tap_skip("changing the user needs root");
		return;
	}
	lab_init(&x, "self", NULL);
	x.l.set_ids = 1;
	x.l.uid = 12345;
	x.l.gid = 12346;
	free(x.l.cwd);
	x.l.cwd = xstrdup("/");
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	like(out, "Uid:\t12345\t12345\t12345\t12345\n", "all user ids");
	like(out, "Gid:\t12346\t12346\t12346\t12346\n", "all group ids");
	like(out, "Groups:\t12346 \n", "no group of root's");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	lab_init(&x, "exit", "0", NULL);
	x.l.set_ids = 1;
	x.l.uid = 12345;
	x.l.gid = 12346;
	if (chmod(x.dir, 0700) < 0)
		tap_bail("chmod");
	failed(&x, "permission denied: cannot enter directory", "the user may not enter the directory");
}

/* No program gives the process more rights than it starts with, and a crash leaves no copy of its secrets. */
static void test_rights(void)
{
	cleanup_free char *out = NULL, *allowed = NULL, *core = NULL;
	struct rlimit before;
	struct lab x;

	lab_init(&x, "self", NULL);
	lab_start(&x);
	wire_free(WM_SHIM_STATUS, lab_wait(&x, PS_EXITED));
	out = lab_output(&x, 0, NULL, NULL);
	like(out, "NoNewPrivs:\t1\n", "no new privileges");
	like(out, "core: 0 0\n", "no core files, also not by its own wish");
	lab_end(&x);
	getrlimit(RLIMIT_CORE, &before);
	core = xasprintf("core: %lld %lld\n", (long long)before.rlim_cur, (long long)before.rlim_max);
	lab_init(&x, "self", NULL);
	x.l.allow_setuid = x.l.core_files = 1;
	lab_start(&x);
	wire_free(WM_SHIM_STATUS, lab_wait(&x, PS_EXITED));
	allowed = lab_output(&x, 0, NULL, NULL);
	like(allowed, "NoNewPrivs:\t0\n", "set-uid programs, where they are allowed");
	like(allowed, core, "the core limit stays, where core files are allowed");
	lab_end(&x);
}

static void test_times(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, "exit", "0", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	ok(st->started_us > 1500000000000000ull && st->ended_us >= st->started_us,
	   "start and end are wall-clock times");
	is_int(st->kind, PROC_RANK, "kind");
	is_str(st->token, x.l.shim_token, "token");
	ok(st->pid > 0 && st->start_ticks > 0, "pid and start time stay readable after the end");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

int main(void)
{
	test_exit_codes();
	test_signals();
	test_not_started();
	test_not_started_places();
	test_environment();
	test_descriptors();
	test_process_state();
	test_user();
	test_rights();
	test_times();
	return tap_done();
}
