/*
 * container: control groups as mounted here (or as a made-up machine has them), limits, the holder's
 * namespaces, kill, adoption. What needs root or a controller says so when it is skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/container/cgroup.h"
#include "agent/container/container.h"
#include "agent/container/limits.h"
#include "agent/container/sweeper.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/container/containerkit.h"

#define WAIT_MS 20000
#ifdef __SANITIZE_THREAD__ /* its helper thread runs in forked children, too, and only a process of one      \
                              thread may change its mounts */
#define HAS_HELPER_THREAD 1
#else
#define HAS_HELPER_THREAD 0
#endif

static struct loop *loop;
static struct agent_env env;
static struct launch_paths paths;
static struct launch_user user = {.name = (char *)(uintptr_t) "root", .home = (char *)(uintptr_t) "/root"};

static char *in_tmp(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

static void put(const char *path, const char *text)
{
	struct err e;

	if (fs_replace(path, text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static void make_dir(const char *path)
{
	struct err e;

	if (fs_mkdir_p(path, 0755, &e) < 0)
		tap_bail("%s", e.text);
}

static int run_until(const int *flag)
{
	uint64_t end = clock_boot_us(clock_real()) + WAIT_MS * 1000;

	while (!*flag && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 50);
	return *flag;
}

static int until_zero(int (*fn)(void *), void *arg)
{
	uint64_t end = clock_boot_us(clock_real()) + WAIT_MS * 1000;

	while (fn(arg) != 0 && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 5);
	return fn(arg);
}

/* ---- a made-up machine ---- */

static void test_layout(void)
{
	cleanup_free char *v2 = in_tmp("u/user/z"), *v1 = in_tmp("m/y"), *mounts = in_tmp("mountinfo"),
	                  *self = in_tmp("self");
	cleanup_free char *want = NULL, *text = NULL, *cpu = in_tmp("c");
	struct cg_layout l;

	make_dir(v2);
	make_dir(v1);
	make_dir(cpu);
	text = xasprintf("22 1 0:20 / /proc rw - proc proc rw\n"
	                 "30 1 0:30 / %s/u rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	                 "31 1 0:31 /docker/x %s/m rw - cgroup cgroup rw,memory\n"
	                 "32 1 0:32 / %s/c rw - cgroup cgroup rw,cpuacct,cpu\n"
	                 "33 1 0:33 / /nonexistent rw - cgroup cgroup rw,freezer\nbroken line\n",
	                 tap_tmpdir(), tap_tmpdir(), tap_tmpdir());
	put(mounts, text);
	put(self, "5:memory:/docker/x/y\n4:cpuacct,cpu:/\n0::/user/z\n");
	cg_layout_read(&l, mounts, self, 1);
	want = in_tmp("u");
	is_str(l.base[CG_V2], want, "root: version 2 from the top");
	free(want);
	want = in_tmp("m");
	is_str(l.base[CG_MEMORY], want, "root: memory from the top");
	is_str(l.base[CG_CPU], cpu, "cpu among others in one mount");
	ok(l.base[CG_CPUSET] == NULL, "cpuset is not cpu");
	ok(l.base[CG_FREEZER] == NULL, "what cannot be written to is not there");
	cg_layout_fini(&l);
	cg_layout_read(&l, mounts, self, 0);
	is_str(l.base[CG_V2], v2, "others: below the own group");
	is_str(l.base[CG_MEMORY], v1, "of the part that is mounted");
	is_str(l.base[CG_CPU], cpu, "at the top when that is the own one");
	cg_layout_fini(&l);
	cg_layout_read(&l, "/nonexistent", self, 1);
	ok(l.base[CG_V2] == NULL, "no mounts at all");
	cg_layout_fini(&l);
}

static void test_record(void)
{
	static const char *const others[] = {"cgroup pids /", "cgroup pids /sys/fs/cgroup/pids/system.slice",
	                                     "cgroup pids /a/hearth/n/17.3", "cgroup pids a/hearth/n/17.2",
	                                     "cgroup pony /a/hearth/n/17.2"};
	struct cgroup cg = {.memory_limited = 1}, back = {0};
	struct strv lines = {0};

	cg.dir[CG_V2] = xstrdup("/sys/x y/hearth/n/17.2");
	cg.dir[CG_CPU] = xstrdup("/a/hearth/n/17.2");
	cg.dir[CG_CPUSET] = xstrdup("/b/hearth/n/17.2");
	cgroup_save(&cg, &lines);
	for (size_t i = 0; i < lines.n; i++)
		is_int(cgroup_load_line(&back, "17.2", lines.v[i]), 0, lines.v[i]);
	is_str(back.dir[CG_V2], "/sys/x y/hearth/n/17.2", "v2");
	is_str(back.dir[CG_CPU], "/a/hearth/n/17.2", "cpu");
	is_str(back.dir[CG_CPUSET], "/b/hearth/n/17.2", "cpuset");
	is_int(back.memory_limited, 1, "memory is limited");
	is_int(cgroup_load_line(&back, "17.2", "cgroup v2 /again/hearth/n/17.2"), -1, "twice");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		is_int(cgroup_load_line(&back, "17.2", others[i]), -1, others[i]);
	is_int(cgroup_load_line(&back, NULL, "cgroup pids /a/hearth/n/17.3"), 0, "of any, when asked so");
	strv_fini(&lines);
	cgroup_fini(&cg);
	cgroup_fini(&back);
}

/* ---- processes inside ---- */

struct inside {
	struct strv procs;
	uint32_t holder;
};

/* As a shim does it: async-signal-safe. */
static int enter(void *arg)
{
	const struct inside *in = arg;
	char path[64];
	int fd;

	for (size_t i = 0; i < in->procs.n; i++) {
		fd = open(in->procs.v[i], O_WRONLY);
		if (fd < 0 || write(fd, "0", 1) < 0)
			return -1;
		close(fd);
	}
	if (!in->holder || HAS_HELPER_THREAD)
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/ns/user", in->holder);
	fd = open(path, O_RDONLY);
	if (geteuid() != 0 && (fd < 0 || setns(fd, CLONE_NEWUSER) < 0))
		return -1;
	close(fd);
	snprintf(path, sizeof(path), "/proc/%u/ns/ipc", in->holder);
	fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWIPC) < 0)
		return -1;
	close(fd);
	snprintf(path, sizeof(path), "/proc/%u/ns/mnt", in->holder);
	fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWNS) < 0 || chdir("/") < 0)
		return -1;
	close(fd);
	return 0;
}

static pid_t start_sh(const struct container *c, const char *token, const char *script, int out_fd)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	cleanup_free char *mark = xasprintf("HEARTH_TOKEN_LAUNCH=%s", token);
	const char *envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", mark, NULL};
	struct proc_spawn s = {.path = "/bin/sh",
	                       .argv = (char *const *)(uintptr_t)argv,
	                       .envp = (char *const *)(uintptr_t)envp,
	                       .stdin_fd = -1,
	                       .stdout_fd = out_fd,
	                       .stderr_fd = out_fd,
	                       .new_session = 1};
	struct strv oom = {0};
	struct inside in = {{0}, 0};
	struct err e;
	uint64_t start;
	pid_t pid;

	if (c) {
		container_shim(c, &in.procs, &oom, &in.holder, &start);
		s.pre_exec = enter;
		s.pre_exec_arg = &in;
	}
	if (proc_spawn(&s, &pid, NULL, &e) < 0)
		tap_bail("%s", e.text);
	strv_fini(&in.procs);
	strv_fini(&oom);
	return pid;
}

/* Output of a script inside, malloc'ed; *status is its exit status. */
static char *run_sh(const struct container *c, const char *token, const char *script, int *status)
{
	char *out = xcalloc(1, 65537);
	size_t n = 0;
	ssize_t got;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		tap_bail("pipe");
	pid = start_sh(c, token, script, fds[1]);
	close(fds[1]);
	while (n < 65536 && (got = read(fds[0], out + n, 65536 - n)) > 0)
		n += (size_t)got;
	close(fds[0]);
	waitpid(pid, status, 0);
	return out;
}

static void set_up(const char *launch)
{
	free(paths.run);
	free(paths.work);
	free(paths.ml);
	paths.run = xasprintf("%s/run/%s", tap_tmpdir(), launch);
	paths.work = xasprintf("%s/data/jobs/%s", tap_tmpdir(), launch);
	paths.ml = xasprintf("%s/ml", paths.work);
	make_dir(paths.run);
	make_dir(paths.ml);
}

static struct {
	int called, oom;
	char text[256];
} limit;

static void on_limit(const char *text, int oom, void *arg)
{
	(void)arg;
	limit.called++;
	limit.oom = oom;
	snprintf(limit.text, sizeof(limit.text), "%s", text);
}

static int gone(void *pid)
{
	waitpid(*(pid_t *)pid, NULL, WNOHANG);
	return kill(*(pid_t *)pid, 0) == 0;
}

/* Inside the user namespace of an ordinary user, who has no control groups here. */
static void test_ordinary(struct container *c, const char *token)
{
	cleanup_free char *me = xasprintf("%u %u\n", (unsigned)geteuid(), (unsigned)getegid());
	char *got;
	int status;
	pid_t pid;

	got = run_sh(c, token, "echo $(id -u) $(id -g); grep CapEff /proc/self/status; ls /opt", &status);
	like(got, me, "that user and no other");
	like(got, "CapEff:\t0000000000000000", "without any right of root");
	if (getenv("TEST_OPT_WITHOUT_ML")) {
		like(got, "\nlink\n", "a link in /opt is still there");
		like(got, "ml\n", "beside /opt/ml");
		free(got);
		got = run_sh(c, token,
		             "cat /opt/there/file /opt/plain /opt/link; touch /opt/new 2>&1 | grep -c Read-only",
		             &status);
		is_str(got, "in there\nplain\nplain\n1\n",
		       "what /opt held is in its place, and nothing can be added");
	}
	free(got);
	/* Seen, marked and ended from outside; inside, one may look into the other as shared memory of MPI does.
	 */
	pid = start_sh(c, token,
	               "trap '' TERM; sleep 1000 & cat /proc/$!/environ >/tmp/peer; : >/tmp/up; wait; wait", -1);
	got = xasprintf("%s/private/tmp/up", paths.work);
	for (int i = 0; i < 2000 && access(got, F_OK) < 0; i++)
		loop_run_once(loop, 5);
	free(got);
	is_int(container_processes(c), 2, "both are found by their mark from outside");
	got = run_sh(c, token, "tr '\\0' '\\n' </tmp/peer | grep -c TOKEN_LAUNCH", &status);
	is_str(got, "1\n", "a process inside may look into another");
	free(got);
	is_int(sweep_now(token, c, 5000), 0, "and both can be killed");
	ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "killed");
}

static void test_isolation(void)
{
	struct container_params p = {
	    .name = "1.1", .token = "iso-token", .paths = &paths, .user = &user, .memory_bytes = 256 << 20};
	struct container *c, *again;
	struct proc_id holder = {0};
	cleanup_free char *marker = NULL, *link = in_tmp("outside"), *links = NULL;
	struct strv procs = {0}, oom = {0};
	struct err e = {0};
	char *out;
	int status;

	set_up("1.1");
	marker = xasprintf("%s/run/seen", tap_tmpdir());
	put(marker, "x");
	make_dir(link);
	links = xasprintf("%s/links", paths.work);
	put(links, link);
	out = xasprintf("%s/hello", paths.ml);
	put(out, "from ml\n");
	free(out);
	out = in_tmp("hidden");
	put(out, "host\n");
	free(out);
	c = kit_container(&env, &p, &e);
	if (!c)
		tap_bail("container: %s", e.text);
	for (size_t i = 0; i < container_notes(c)->n; i++)
		tap_diag("note: %s", container_notes(c)->v[i]);
	container_shim(c, &procs, &oom, (uint32_t *)&holder.pid, &holder.start_ticks);
	if (!container_isolated(c)) {
		tap_skip("no right to make namespaces");
		goto out;
	}
	out = xasprintf("cat /opt/ml/hello; ls -d %s %s; test -e %s/hidden || echo hidden; echo x >/tmp/mine; "
	                "stat -c %%a /tmp /dev/shm;"
	                "stat -f -c %%T /dev/shm; ls /dev/shm | wc -l; stat -f -c '%%b %%S' /dev/shm",
	                marker, link, tap_tmpdir());
	char *got = run_sh(c, p.token, out, &status);
	free(out);
	like(got, "from ml", "/opt/ml is there");
	like(got, marker, "the agent's folders stay visible although they lie in /tmp");
	like(got, link, "so does a linked input");
	like(got, "\nhidden\n1777\n1777\ntmpfs\n0\n65536 4096\n", "private /tmp, /dev/shm of the right size");
	free(got);
	out = xasprintf("%s/private/tmp/mine", paths.work);
	ok(access(out, F_OK) == 0, "/tmp is the launch's folder");
	ok(access("/tmp/mine", F_OK) < 0, "and not the host's");
	free(out);
	got = run_sh(c, p.token,
	             "ls /dev/pts; if command -v python3 >/dev/null; then /usr/bin/python3 -c 'import os,pty\n"
	             "os.setgid(65534); os.setuid(65534); m,s=pty.openpty(); print(os.ttyname(s), "
	             "os.stat(os.ttyname(s)).st_gid)';"
	             "else echo /dev/pts/0 5; fi",
	             &status);
	like(got, env.is_root ? "/dev/pts/0 5" : "/dev/pts/0", "an ordinary user gets a terminal");
	free(got);
	if (!env.is_root)
		test_ordinary(c, p.token);
	out = run_sh(NULL, "host", "grep -c hearth /proc/self/mountinfo", &status);
	is_str(out, "0\n", "no mount has come out");
	free(out);

	/* Another agent takes over. */
	container_forget(c);
	again = container_adopt(&env, &p, &kit_ops, NULL, &e);
	ok(again != NULL, "adopted");
	c = again;
	got = run_sh(c, p.token, "cat /tmp/mine", &status);
	is_str(got, "x\n", "and processes go to the same place");
	free(got);
	is_int(container_processes(c), 0, "the holder is not counted");
out:
	status = (int)holder.pid;
	container_destroy(c);
	if (status) {
		pid_t pid = (pid_t)status;
		is_int(until_zero(gone, &pid), 0, "the holder is gone");
	}
	for (size_t i = 0; i < procs.n; i++)
		ok(access(procs.v[i], F_OK) < 0, "group removed");
	is_int(access(paths.ml, F_OK), 0, "the folders stay");
	strv_fini(&procs);
	strv_fini(&oom);
	is_int(container_adopt(&env, &p, &kit_ops, NULL, &e) == NULL, 1, "nothing to adopt any more");
	is_int(e.code, ERR_NOT_FOUND, "says so");
}

/* An agent that dies while the holder exists and no record names it yet: the next one finds it by its mark.
 */
static void test_orphan(void)
{
	struct container_params p = {.name = "6.1", .token = "orphan-token", .paths = &paths, .user = &user};
	struct container *c;
	cleanup_free char *record = NULL;
	struct strv procs = {0}, oom = {0};
	uint32_t holder;
	uint64_t start;
	struct err e = {0};
	pid_t pid;

	set_up("6.1");
	record = xasprintf("%s/container", paths.run);
	c = kit_container(&env, &p, &e);
	if (!c)
		tap_bail("container: %s", e.text);
	container_shim(c, &procs, &oom, &holder, &start);
	container_forget(c);
	put(record, "making\n");
	c = kit_container(&env, &p, &e);
	ok(c != NULL, "made again");
	pid = (pid_t)holder;
	if (holder)
		is_int(until_zero(gone, &pid), 0, "the holder that no record named is gone");
	else
		tap_skip("no right to make namespaces");
	container_destroy(c);
	strv_fini(&procs);
	strv_fini(&oom);
}

static void test_turned_off(void)
{
	struct container_params p = {.name = "7.1", .token = "off-token", .paths = &paths, .user = &user};
	struct container *c;
	struct err e = {0};
	int said = 0;

	set_up("7.1");
	env.cfg.no_namespaces = 1;
	c = kit_container(&env, &p, &e);
	env.cfg.no_namespaces = 0;
	is_int(container_isolated(c), 0, "nothing of its own when that is turned off");
	for (size_t i = 0; i < container_notes(c)->n; i++)
		said |= strstr(container_notes(c)->v[i], "--no-namespaces") != NULL;
	ok(said, "which is said");
	container_destroy(c);
}

/* ---- the same as an ordinary user ------------------------------------------------------------------- */

/* The machine's /opt, or one that holds a few things but no ml. */
static void other_opt(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/opt", "tmpfs", 0, "mode=755") < 0 || mkdir("/opt/there", 0755) < 0 ||
	    symlink("plain", "/opt/link") < 0)
		_exit(99);
	put("/opt/there/file", "in there\n");
	put("/opt/plain", "plain\n");
	setenv("TEST_OPT_WITHOUT_ML", "1", 1);
}

/* This program again, as nobody, with output of its own: its result is one test here. */
static void test_as_nobody(const char *what, int without_ml)
{
	cleanup_free char *out = in_tmp("nobody.out"), *tmp = in_tmp("nobody"), *text = NULL;
	int status, fd;
	pid_t pid;

	make_dir(tmp);
	if (chmod(tap_tmpdir(), 0755) < 0 || chmod(tmp, 01777) < 0)
		tap_bail("chmod");
	pid = fork();
	if (pid == 0) {
		fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
			_exit(99);
		if (without_ml)
			other_opt();
		if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
		    setresuid(65534, 65534, 65534) < 0)
			_exit(99);
		setenv("TMPDIR", tmp, 1);
		execl("/proc/self/exe", "test_container", (char *)NULL);
		_exit(98);
	}
	waitpid(pid, &status, 0);
	fs_read_file(out, 1 << 20, &text, NULL, NULL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 98) {
		tap_skip("the build folder is not readable for an ordinary user");
		return;
	}
	if (text && strstr(text, "# SKIP no right to make namespaces")) {
		tap_skip("an ordinary user may not make namespaces");
		return;
	}
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", what);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		tap_diag("%s", text ? text : "no output");
}

static void test_kill(int as_root)
{
	struct container_params p = {
	    .name = "2.1", .token = as_root ? "kill-token" : "kill-token-user", .paths = &paths, .user = &user};
	struct container *c;
	struct err e = {0};
	pid_t pid, stubborn;
	int status;

	set_up("2.1");
	env.is_root = as_root;
	container_env_fini(&env); /* it holds for one kind of account */
	c = kit_container(&env, &p, &e);
	if (!c)
		tap_bail("container: %s", e.text);
	pid = start_sh(
	    c, p.token,
	    "setsid sleep 1000 & (setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &) ; sleep 1000", -1);
	stubborn = start_sh(c, p.token, "trap '' TERM; while :; do sleep 1000; done", -1);
	for (int i = 0; i < 2000 && container_processes(c) < 6; i++)
		loop_run_once(loop, 5);
	ok(container_processes(c) >= 6, "six processes in five sessions");
	is_int(sweep_now(p.token, c, 5000), 0, "none is left");
	is_int(container_processes(c), 0, "none is counted");
	ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "killed");
	ok(waitpid(stubborn, &status, 0) == stubborn && WIFSIGNALED(status), "also the stubborn one");
	is_int(sweep_now(p.token, c, 5000), 0, "twice does no harm");
	container_destroy(c);
	env.is_root = geteuid() == 0;
	container_env_fini(&env);
}

static void test_oom(void)
{
	struct container_params p = {
	    .name = "3.1", .token = "oom-token", .paths = &paths, .user = &user, .memory_bytes = 48 << 20};
	struct container *c;
	struct strv procs = {0}, oom = {0};
	struct err e = {0};
	uint32_t holder;
	uint64_t start;
	char *out;
	int status;

	set_up("3.1");
	c = kit_container(&env, &p, &e);
	container_shim(c, &procs, &oom, &holder, &start);
	if (!oom.n) {
		tap_skip("no memory controller that may be used");
	} else {
		is_int(container_oom_seen(c), 0, "nothing yet");
		out = run_sh(c, p.token, "exec head -c 200000000 /dev/zero | tail -c 190000000 | wc -c", &status);
		free(out);
		is_int(container_oom_seen(c), 1, "the kernel killed for memory");
	}
	strv_fini(&procs);
	strv_fini(&oom);
	container_destroy(c);
}

static void test_confined(void)
{
	const uint32_t cpus[] = {0};
	struct container_params p = {.name = "4.1",
	                             .token = "cpu-token",
	                             .paths = &paths,
	                             .user = &user,
	                             .cpus = cpus,
	                             .n_cpus = 1,
	                             .cpu_quota = 0.5};
	struct container *c;
	struct err e = {0};
	char *out;
	int status, refused = 0;

	set_up("4.1");
	c = kit_container(&env, &p, &e);
	for (size_t i = 0; i < container_notes(c)->n; i++)
		refused |= strstr(container_notes(c)->v[i], "CPUs") != NULL;
	out = run_sh(c, p.token, "grep Cpus_allowed_list /proc/self/status", &status);
	if (refused)
		tap_skip("no cpuset controller that may be used");
	else
		like(out, "\t0\n", "one CPU only");
	free(out);
	container_destroy(c);
}

/* Times that the kernel held the group back; -1 it does not count. */
static long throttled(const struct strv *procs)
{
	for (size_t i = 0; i < procs->n; i++) {
		cleanup_free char *dir = xstrndup(procs->v[i], (size_t)(strrchr(procs->v[i], '/') - procs->v[i])),
		                  *path = xasprintf("%s/cpu.stat", dir), *text = NULL;
		const char *at;

		if (fs_read_file(path, 4096, &text, NULL, NULL) == 0 && (at = strstr(text, "nr_throttled ")))
			return atol(at + strlen("nr_throttled "));
	}
	return -1;
}

/* A loop that would take a whole CPU is held back in every period. */
static void test_quota(void)
{
	struct container_params p = {
	    .name = "5.1", .token = "quota-token", .paths = &paths, .user = &user, .cpu_quota = 0.2};
	struct container *c;
	struct strv procs = {0}, oom = {0};
	struct err e = {0};
	uint32_t holder;
	uint64_t start;
	int status, refused = 0;
	pid_t pid;

	set_up("5.1");
	c = kit_container(&env, &p, &e);
	for (size_t i = 0; i < container_notes(c)->n; i++)
		refused |= strstr(container_notes(c)->v[i], "quota") != NULL;
	container_shim(c, &procs, &oom, &holder, &start);
	if (refused || throttled(&procs) < 0) {
		tap_skip("no cpu controller that may be used");
	} else {
		pid = start_sh(c, p.token, "while :; do :; done", -1);
		for (int i = 0; i < 2000 && throttled(&procs) < 3; i++)
			loop_run_once(loop, 10);
		ok(throttled(&procs) >= 3, "held back %ld times", throttled(&procs));
		is_int(sweep_now(p.token, c, 5000), 0, "killed");
		waitpid(pid, &status, 0);
	}
	strv_fini(&procs);
	strv_fini(&oom);
	container_destroy(c);
}

/* ---- watched limits ---- */

static void test_watch(void)
{
	struct cgroup none = {0};
	cleanup_free char *dir = in_tmp("watched"), *file = in_tmp("watched/big");
	struct limits_params p = {.loop = loop,
	                          .token = "watch-token",
	                          .cg = &none,
	                          .dir = dir,
	                          .memory_bytes = 64 << 20,
	                          .period_ms = 20,
	                          .on_limit = on_limit};
	struct limits *l;
	struct err e;
	pid_t pid, *list = NULL;
	char *big = xcalloc(1, 3 << 20);

	make_dir(dir);
	ok(limits_start(&(struct limits_params){.loop = loop, .cg = &none}, &e) == NULL, "nothing to watch");
	limit.called = 0;
	pid = start_sh(NULL, "watch-token", "head -c 100000000 /dev/zero | tail -c 90000000 | sleep 1000", -1);
	l = limits_start(&p, &e);
	ok(run_until(&limit.called), "memory passed");
	is_int(limit.oom, 1, "as memory");
	like(limit.text, "64.0MiB allowed", "with the limit");
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, 5);
	is_int(limit.called, 1, "told once");
	limits_stop(l);
	ok(limits_pids_of("watch-token", &list) >= 3, "processes found by the mark");
	free(list);
	list = NULL;
	is_int(limits_pids_of("watch-toke", &list), 0, "the whole mark only");
	free(list);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);

	limit.called = 0;
	p.memory_bytes = 0;
	p.disk_bytes = 1 << 20;
	l = limits_start(&p, &e);
	fs_write_atomic(file, big, 3 << 20, 0644, NULL);
	ok(run_until(&limit.called), "disk passed");
	is_int(limit.oom, 0, "not memory");
	like(limit.text, "disk", "named");
	limits_stop(l);
	free(big);
}

/* ---- devices ---- */

static void devices_of(const char *what, const char *dir,
                       int (*apply)(const char *, const struct strv *, struct err *))
{
	struct strv allowed = {0};
	struct inside in = {{0}, 0};
	const char *argv[] = {"sh", "-c",
	                      "echo x >/dev/null && echo null; (: </dev/mem) 2>/dev/null || echo no mem; (: "
	                      "</dev/kmsg) && echo kmsg",
	                      NULL};
	struct proc_spawn s = {.path = "/bin/sh",
	                       .argv = (char *const *)(uintptr_t)argv,
	                       .stdin_fd = -1,
	                       .stderr_fd = -1,
	                       .pre_exec = enter,
	                       .pre_exec_arg = &in};
	char out[256] = "";
	struct err e;
	size_t n = 0;
	ssize_t got;
	pid_t pid;
	int fds[2];

	strv_add(&allowed, "/dev/kmsg");
	strv_add(&allowed, "/dev/not-there");
	strv_addf(&in.procs, "%s/cgroup.procs", dir);
	if (apply(dir, &allowed, &e) < 0) {
		tap_diag("%s", e.text);
		tap_skip("devices cannot be confined here");
		goto out;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		tap_bail("pipe");
	s.stdout_fd = fds[1];
	if (proc_spawn(&s, &pid, NULL, &e) < 0)
		tap_bail("%s", e.text);
	close(fds[1]);
	while (n < sizeof(out) - 1 && (got = read(fds[0], out + n, sizeof(out) - 1 - n)) > 0)
		n += (size_t)got;
	close(fds[0]);
	waitpid(pid, NULL, 0);
	is_str(out, "null\nno mem\nkmsg\n", what);
out:
	strv_fini(&allowed);
	strv_fini(&in.procs);
}

static void test_devices(void)
{
	const struct cg_limits lim = {0};
	struct cg_layout l;
	struct cgroup cg;
	struct strv notes = {0};
	cleanup_free char *node = xasprintf("unit-devices-%d", getpid());
	struct err e;

	cg_layout_read(&l, "/proc/self/mountinfo", "/proc/self/cgroup", 1);
	cgroup_create(&cg, &l, node, "x", &lim, &notes);
	if (cg.dir[CG_DEVICES])
		devices_of("version 1: standard ones and the one allowed", cg.dir[CG_DEVICES], cgroup_dev_v1);
	else
		tap_skip("no devices controller of version 1");
	if (cg.dir[CG_V2])
		devices_of("version 2: standard ones and the one allowed", cg.dir[CG_V2], cgroup_dev_v2);
	else
		tap_skip("no cgroup of version 2");
	is_int(cgroup_remove(&cg, &e), 0, "removed");
	cgroup_fini(&cg);
	cg_layout_fini(&l);
	strv_fini(&notes);
}

int main(void)
{
	cleanup_free char *data = in_tmp("data"), *run = in_tmp("run"), *libexec = NULL;

	kit_ops.limit = on_limit;
	loop = loop_create();
	libexec = xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	env = (struct agent_env){
	    .loop = loop,
	    .clock = clock_real(),
	    .is_root = geteuid() == 0,
	    .cfg = {.data_dir = data, .run_dir = run, .node = (char *)(uintptr_t) "n1", .libexec_dir = libexec}};
	make_dir(data);
	make_dir(run);
	test_layout();
	test_record();
	test_watch();
	test_kill(0);
	if (env.is_root) {
		if (HAS_HELPER_THREAD)
			tap_skip("entering a mount namespace under the thread sanitizer");
		else
			test_isolation();
		test_kill(1);
		test_oom();
		test_confined();
		test_quota();
		test_devices();
		test_as_nobody("all of it as an ordinary user", 0);
		test_as_nobody("and where there is no /opt/ml", 1);
	} else {
		if (HAS_HELPER_THREAD)
			tap_skip("entering a mount namespace under the thread sanitizer");
		else
			test_isolation();
		tap_skip("control groups: not root");
	}
	test_orphan();
	test_turned_off();
	container_env_fini(&env);
	free(paths.run);
	free(paths.work);
	free(paths.ml);
	loop_destroy(loop);
	return tap_done();
}
