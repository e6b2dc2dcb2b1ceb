/* hearth-shim: the kill ladder, strays, deaths of shim and client, out of memory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

static uint64_t now_ms(void)
{
	return clock_boot_us(clock_real()) / 1000;
}

static void test_term(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL;

	lab_init(&x, "handler", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	is_int(lab_quit(&x, LAB_MS), 0, "quit");
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "SIGTERM was caught and the exit is the handler's");
	is_str(st->text, "ended after SIGTERM", "text");
	is_int(st->ended_by, BY_ORDER, "by order");
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "ready\nsaved\n", "with its last words");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_stopped(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, "stopped", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, LAB_MS);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "a stopped process gets SIGTERM too");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_stubborn(void)
{
	struct wm_shim_status *st;
	struct lab x;
	uint64_t since;

	lab_init(&x, "tree", "stubborn", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	ok(lab_count(&x) >= 7, "a tree of stubborn processes");
	since = now_ms();
	lab_quit(&x, 300);
	st = lab_wait(&x, PS_EXITED);
	is_int(lab_count(&x), 0, "when the end is recorded nobody is left");
	ok(now_ms() - since >= 300, "after the grace time");
	is_int(st->signal, SIGKILL, "ended by SIGKILL");
	is_str(st->text, "ended by SIGKILL after 300 ms of grace", "text");
	is_int(st->oom, 0, "which is not the kernel's");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_second_quit(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL;

	lab_init(&x, "count", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, LAB_MS * 10);
	lab_wait_output(&x, "term\n");
	lab_quit(&x, LAB_MS * 20);
	lab_quit(&x, 100);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->signal, SIGKILL, "a shorter grace time shortens the ladder");
	is_str(st->text, "ended by SIGKILL after 100 ms of grace", "text");
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "ready\nterm\n", "SIGTERM was sent once");
	is_int(lab_quit(&x, 0), 0, "quit after the end is fine");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* SIGTERM that came by the signal verb counts for the ladder. */
static void test_term_before_quit(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL;

	lab_init(&x, "count", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	is_int(lab_signal(&x, SIGTERM, 0), 0, "SIGTERM by the signal verb");
	lab_wait_output(&x, "term\n");
	lab_quit(&x, 100);
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "ready\nterm\n", "is not sent again by the ladder");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_slow_save(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL;

	lab_init(&x, "shell", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, LAB_MS);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->signal, SIGTERM, "the shell died at once");
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, "ready\nsaved slowly\n", "its program had the rest of the grace time");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_strays(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, "tree", "exit", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 5, "the exit is the main process's");
	is_int(lab_count(&x), 0, "what it left behind is gone when that is recorded");
	is_str(st->text, "", "no text");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_late_writer(const char *ms, const char *want)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *out = NULL;
	uint64_t since;

	lab_init(&x, "late", ms, NULL);
	since = now_ms();
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	tap_diag("recorded after %" PRIu64 " ms", now_ms() - since);
	is_int(st->exit_code, 3, "exit");
	out = lab_output(&x, 0, NULL, NULL);
	is_str(out, want, "output of a stray that held the pipes");
	is_int((int64_t)st->out_bytes, (int64_t)strlen(want), "out_bytes is final");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* A stray holds the pipes: its end is reported after that of the process. */
static void test_end_told_first(void)
{
	struct wm_shim_status *st;
	struct shim_state s;
	struct lab x;
	cleanup_free char *before = NULL, *after = NULL;
	uint64_t late_us, id;
	uint16_t type;
	void *msg;

	lab_init(&x, "late", "400", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_RUNNING);
	while (!st->ended_us) {
		wire_free(WM_SHIM_STATUS, st);
		if (shim_recv(x.fd, &type, &id, &msg, LAB_MS, NULL) <= 0 || type != WM_SHIM_STATUS)
			tap_bail("no status of the end came");
		st = msg;
	}
	late_us = clock_real_us(clock_real()) - st->ended_us;
	tap_diag("told after %" PRIu64 " us", late_us);
	ok(late_us < 300000, "a watch learns of the end while a stray holds the pipes");
	is_int(st->state, PS_RUNNING, "which the state does not show yet");
	is_int(st->exit_code, 3, "with its exit code");
	is_int((int64_t)st->out_bytes, 6, "and all of its own output is counted");
	before = lab_output(&x, 0, NULL, NULL);
	is_str(before, "early\n", "and in the file");
	if (shim_state_read(x.dir, &s, NULL) < 0)
		tap_bail("no state file");
	ok(s.st.ended_us == st->ended_us && s.st.exit_code == 3, "the state file has it for the next agent");
	shim_state_fini(&s);
	wire_free(WM_SHIM_STATUS, st);
	st = lab_wait(&x, PS_EXITED);
	after = lab_output(&x, 0, NULL, NULL);
	is_str(after, "early\nlate\n", "the stray's output is read all the same");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_chain(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, "chain", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, 0);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->signal, SIGKILL, "killed at once");
	is_int(lab_count(&x), 0, "also a chain of processes that never stands still");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_quit_before_start(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, "ready", NULL);
	x.l.wait_go = 1;
	lab_start(&x);
	st = lab_wait(&x, PS_WAITING);
	is_int(st->pid, 0, "no process yet");
	wire_free(WM_SHIM_STATUS, st);
	lab_quit(&x, 1000);
	st = lab_wait(&x, PS_FAILED);
	is_str(st->text, "stopped before it was started", "quit before go");
	wire_free(WM_SHIM_STATUS, st);
	is_int(lab_go(&x), ERR_CONFLICT, "and go is refused then");
	lab_end(&x);
}

/* A child that hangs before exec (here in a fifo that nobody reads; in life a dead network file system). */
static void test_hangs_before_exec(int mirror)
{
	struct wm_shim_status *st;
	struct wm_shim_go go = {.cwd = (char[]){""}, .mirror = (uint8_t)mirror};
	struct lab x;
	struct err e;
	cleanup_free char *fifo = NULL;
	int fd;

	lab_init(&x, "ready", NULL);
	x.l.wait_go = 1;
	fifo = xasprintf("%s/fifo", x.dir);
	if (mkfifo(fifo, 0600) < 0)
		tap_bail("mkfifo");
	strv_add(&x.l.cgroup_procs, fifo);
	lab_start(&x);
	fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
	shim_send(fd, WM_SHIM_GO, &go, 5, NULL, 0, LAB_MS, &e);
	do {
		st = lab_wait(&x, PS_WAITING);
		ok(st->started_us == 0, "not started yet");
		if (st->pid)
			break;
		wire_free(WM_SHIM_STATUS, st);
	} while (1);
	wire_free(WM_SHIM_STATUS, st);
	is_int(lab_signal(&x, SIGUSR1, 0), ERR_CONFLICT, "there is nobody to signal yet");
	if (mirror)
		close(fd);
	else
		lab_quit(&x, LAB_MS);
	st = lab_wait(&x, PS_FAILED);
	is_str(st->text, "ended by SIGTERM before it was executed", "a start that hangs can be ended");
	wire_free(WM_SHIM_STATUS, st);
	if (!mirror)
		close(fd);
	lab_end(&x);
}

static int rank_gone(void *arg)
{
	return proc_alive(arg, NULL) == 0;
}

static void test_shim_killed(void)
{
	struct shim_state s;
	struct lab x;
	struct err e;

	lab_init(&x, "tree", "stubborn", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_reap(&x);
	is_int(shim_state_read(x.dir, &s, &e), 0, "the state of a shim that was killed");
	is_int(s.st.state, PS_RUNNING, "says running");
	is_int(proc_alive(&s.shim, &e), 0, "but the shim is dead: lost");
	ok(lab_until(rank_gone, &s.child), "its process ends with it");
	shim_state_fini(&s);
	ok(shim_connect(x.dir, x.l.shim_token, 1000, &e) < 0 && e.code == ERR_UNAVAILABLE, "nobody answers");
	ok(shim_start(lab_shim(), x.dir, LAB_MS, &x.id, &e) < 0, "and no other shim takes its place");
	like(e.text, "record of an earlier shim", "because of the record");
	/* What stayed behind is found by the token. */
	ok(proc_sweep_env("HEARTH_TOKEN_LAUNCH", x.l.token, SIGKILL, 20, &e) > 0,
	   "strays are found by the sweep");
	x.id.pid = 0;
	lab_end(&x);
}

/* No signal but SIGKILL ends a shim, and none of them reaches its process. */
static void test_shim_signals(void)
{
	struct wm_shim_status *st;
	struct lab x;

	if (getenv("HEARTH_TEST_SHIM")) {
		tap_skip("valgrind takes all signals itself");
		return;
	}
	lab_init(&x, "ready", NULL);
	lab_start(&x);
	for (int i = 1; i <= 64; i++)
		if (i != SIGKILL && i != SIGSTOP && i != 32 && i != 33 && i != SIGILL && i != SIGTRAP &&
		    i != SIGABRT && i != SIGBUS && i != SIGFPE && i != SIGSEGV && i != SIGSYS && i != SIGSTKFLT)
			kill(x.id.pid, i);
	st = lab_wait(&x, PS_RUNNING);
	ok(st->state == PS_RUNNING && proc_alive(&x.id, NULL) == 1, "a shim ignores what can be ignored");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* The agent may die in every phase; the next one finds the shim and learns the end. */
static void test_agent_dies(void)
{
	struct wm_shim_status *st;
	struct lab x;
	pid_t agent;
	int status;

	lab_init(&x, "handler", NULL);
	x.l.wait_go = 1;
	/* An agent that starts a shim, says go and is gone without waiting for anything. */
	agent = fork();
	if (agent == 0) {
		struct err e;
		char none[] = "";
		struct wm_shim_go go = {.cwd = none};

		if (shim_launch_write(x.dir, &x.l, &e) < 0 || shim_start(lab_shim(), x.dir, LAB_MS, &x.id, &e) < 0)
			_exit(1);
		x.fd = shim_connect(x.dir, x.l.shim_token, LAB_MS, &e);
		_exit(x.fd >= 0 && shim_send(x.fd, WM_SHIM_GO, &go, 1, NULL, 0, LAB_MS, &e) == 0 ? 0 : 2);
	}
	waitpid(agent, &status, 0);
	is_int(status, 0, "an agent said go and died");
	lab_connect(&x);
	st = lab_wait(&x, PS_RUNNING);
	wire_free(WM_SHIM_STATUS, st);
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, LAB_MS);
	close(x.fd); /* and the next one right after quit */
	x.fd = -1;
	lab_connect(&x);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "a later one learns the exit");
	wire_free(WM_SHIM_STATUS, st);
	/* Not our child: released by hand. */
	{
		struct wm_shim_release m = {0};
		struct shim_state s;
		struct err e;

		if (shim_state_read(x.dir, &s, &e) < 0)
			tap_bail("%s", e.text);
		is_int(lab_ok(&x, WM_SHIM_RELEASE, &m, NULL), 0, "released");
		ok(lab_until(rank_gone, &s.shim), "the shim ends");
		shim_state_fini(&s);
	}
	x.id.pid = 0;
	lab_end(&x);
}

static void test_idle(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *path = NULL, *before = NULL, *after = NULL;
	struct err e;

	lab_init(&x, "exit", "0", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	wire_free(WM_SHIM_STATUS, st);
	close(x.fd);
	x.fd = -1;
	path = xasprintf("/proc/%d/schedstat", (int)x.id.pid);
	/* Sleeping for good: the number of times it was put on a CPU does not change any more. */
	for (int same = 0; same < 3;) {
		free(before);
		free(after);
		before = after = NULL;
		poll(NULL, 0, 50);
		if (fs_read_file(path, 4096, &before, NULL, &e) < 0)
			tap_bail("%s", e.text);
		poll(NULL, 0, 200);
		if (fs_read_file(path, 4096, &after, NULL, &e) < 0)
			tap_bail("%s", e.text);
		same = strcmp(before, after) == 0 ? 3 : same + 1;
	}
	is_str(after, before, "a shim that waits for release uses no CPU");
	lab_end(&x);
}

/* ---- out of memory, in a memory cgroup (v1 or v2) ------------------------------------------------- */

static int put_text(const char *dir, const char *file, const char *text)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, file);
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static char *memory_cgroup(const char **events)
{
	char *dir = xasprintf("/sys/fs/cgroup/memory/hearth-test-%d", (int)getpid());

	*events = "memory.oom_control";
	if (mkdir(dir, 0755) == 0) {
		if (put_text(dir, "memory.limit_in_bytes", "67108864") == 0) {
			put_text(dir, "memory.memsw.limit_in_bytes", "67108864");
			return dir;
		}
		rmdir(dir);
	}
	free(dir);
	dir = xasprintf("/sys/fs/cgroup/hearth-test-%d", (int)getpid());
	*events = "memory.events";
	if (mkdir(dir, 0755) == 0) {
		if (put_text(dir, "memory.max", "67108864") == 0) {
			put_text(dir, "memory.swap.max", "0");
			return dir;
		}
		rmdir(dir);
	}
	free(dir);
	return NULL;
}

static void oom_case(const char *dir, const char *events, const char *command, int want_oom, const char *what)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, NULL);
	lab_argv(&x, "/bin/sh", "-c", command, lab_victim(), NULL);
	strv_addf(&x.l.cgroup_procs, "%s/cgroup.procs", dir);
	strv_addf(&x.l.oom_files, "%s/%s", dir, events);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	tap_diag("exit %u signal %u oom %u: %s", st->exit_code, st->signal, st->oom, st->text);
	is_int(st->oom, want_oom, what);
	if (want_oom)
		is_int(st->exit_code, 137, "exit code 137");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_oom(void)
{
	const char *events;
	cleanup_free char *dir = memory_cgroup(&events);

	if (!dir) {
		tap_skip("no memory cgroup can be made here");
		return;
	}
	oom_case(dir, events, "exec $0 eat 200", 1, "the process itself was killed for lack of memory");
	oom_case(dir, events, "$0 eat 200; exit $?", 1, "a shell's 137 for it");
	oom_case(dir, events, "$0 eat 200; exit 1", 0, "another exit is no OOM of the process");
	oom_case(dir, events, "kill -KILL $$", 0, "SIGKILL alone is none");
	oom_case(dir, events, "exec $0 eat 5", 0, "enough memory");
	if (rmdir(dir) < 0)
		tap_diag("rmdir %s: %s", dir, strerror(errno));
}

static void test_only_if_caught(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, "ready", NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	is_int(lab_signal(&x, SIGUSR1, 1), ERR_UNSUPPORTED, "SIGUSR1 without a handler is not sent");
	is_int(lab_signal(&x, 0, 0), ERR_INVALID, "signal 0");
	is_int(lab_signal(&x, 65, 0), ERR_INVALID, "signal 65");
	is_int(lab_signal(&x, SIGUSR1, 0), 0, "but it is when that is wanted");
	st = lab_wait(&x, PS_EXITED);
	is_int(st->signal, SIGUSR1, "and kills");
	is_int(lab_signal(&x, SIGTERM, 0), ERR_CONFLICT, "after the end there is nobody to signal");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	lab_init(&x, NULL);
	lab_argv(&x, "/bin/sh", "-c", "$0 handler; exit $?", lab_victim(), NULL);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	is_int(lab_signal(&x, SIGUSR1, 1), 0, "it reaches a descendant that catches it");
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 7, "and not the shell");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* ---- a container, and a cgroup of the process's own ------------------------------------------------ */

/* An ordinary user may have these namespaces below a user namespace of his, in which he is himself. */
static int own_user_namespace(void)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (uid == 0)
		return 0;
	if (unshare(CLONE_NEWUSER) < 0 || put_text("/proc/self", "setgroups", "deny") < 0)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (put_text("/proc/self", "uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return put_text("/proc/self", "gid_map", map);
}

/* A process in mount and IPC namespaces of its own, where /mnt has a file that nobody else sees. */
static pid_t holder(int *ready_fd)
{
	int p[2];
	pid_t pid;

	if (pipe(p) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		close(p[0]);
		if (own_user_namespace() < 0 || unshare(CLONE_NEWNS | CLONE_NEWIPC) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("hearth-test", "/mnt", "tmpfs", 0, NULL) < 0 || !fopen("/mnt/inside", "we"))
			_exit(1);
		(void)!write(p[1], "", 1);
		for (;;)
			pause();
	}
	close(p[1]);
	*ready_fd = p[0];
	return pid;
}

static void test_container(void)
{
	struct wm_shim_status *st;
	struct proc_id id;
	struct lab x;
	cleanup_free char *out = NULL;
	char link[64], seen[128];
	struct err e;
	ssize_t n;
	int ready;
	pid_t pid;
	char c;

	if (getenv("HEARTH_TEST_SHIM")) {
		tap_skip("valgrind has no pidfds, and a container is not entered without");
		return;
	}
	pid = holder(&ready);
	if (read(ready, &c, 1) != 1 || proc_identify(pid, &id, &e) < 0) {
		tap_skip("mount and IPC namespaces cannot be made here");
		close(ready);
		waitpid(pid, NULL, 0);
		return;
	}
	close(ready);
	snprintf(link, sizeof(link), "/proc/%d/ns/ipc", (int)pid);
	n = readlink(link, seen, sizeof(seen) - 1);
	seen[n > 0 ? n : 0] = '\0';
	lab_init(&x, NULL);
	lab_argv(&x, "ls", "inside", NULL);
	free(x.l.cwd);
	x.l.cwd = xstrdup("/mnt");
	x.l.container_pid = (uint32_t)pid;
	x.l.container_start = id.start_ticks;
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 0, "the process runs in the container's mount namespace, directory included");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	lab_init(&x, NULL);
	lab_argv(&x, "readlink", "/proc/self/ns/ipc", NULL);
	x.l.container_pid = (uint32_t)pid;
	x.l.container_start = id.start_ticks;
	x.l.set_ids = getuid() == 0;
	x.l.uid = x.l.gid = 12345;
	free(x.l.cwd);
	x.l.cwd = xstrdup("/");
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	out = lab_output(&x, 0, NULL, NULL);
	like(out, seen, "and in its IPC namespace, also as another user");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	lab_init(&x, "exit", "0", NULL);
	x.l.container_pid = (uint32_t)pid;
	x.l.container_start = id.start_ticks;
	lab_start(&x);
	st = lab_wait(&x, PS_FAILED);
	like(st->text, "is gone", "a container that is gone is an error");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* Where the kernel can kill a whole cgroup, a chain that forks as fast as it can does not escape either. */
static void test_cgroup_kill(void)
{
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct wm_shim_status *st;
	struct lab x;
	char *dir = NULL;

	for (size_t i = 0; !dir && i < sizeof(roots) / sizeof(roots[0]); i++) {
		cleanup_free char *file = NULL;

		dir = xasprintf("%s/hearth-kill-%d", roots[i], (int)getpid());
		file = xasprintf("%s/cgroup.kill", dir);
		if (mkdir(dir, 0755) == 0 && access(file, W_OK) == 0)
			break;
		rmdir(dir);
		free(dir);
		dir = NULL;
	}
	if (!dir) {
		tap_skip("no cgroup v2 can be made here");
		return;
	}
	lab_init(&x, "tree", "stubborn", NULL);
	strv_addf(&x.l.cgroup_procs, "%s/cgroup.procs", dir);
	free(x.l.cgroup_kill);
	x.l.cgroup_kill = xasprintf("%s/cgroup.kill", dir);
	lab_start(&x);
	lab_wait_output(&x, "ready\n");
	lab_quit(&x, 0);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->signal, SIGKILL, "killed by its cgroup");
	is_int(lab_count(&x), 0, "and all that was in it");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
	if (rmdir(dir) < 0)
		tap_diag("rmdir %s: %s", dir, strerror(errno));
	free(dir);
}

int main(void)
{
	test_term();
	test_stopped();
	test_stubborn();
	test_second_quit();
	test_term_before_quit();
	test_slow_save();
	test_strays();
	test_late_writer("100", "early\nlate\n");
	test_late_writer("20000", "early\n");
	test_end_told_first();
	test_chain();
	test_quit_before_start();
	test_hangs_before_exec(0);
	test_hangs_before_exec(1);
	test_only_if_caught();
	test_shim_killed();
	test_shim_signals();
	test_agent_dies();
	test_idle();
	test_oom();
	test_container();
	test_cgroup_kill();
	return tap_done();
}
