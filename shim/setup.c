/*
 * setup: the steps between fork and exec, in an order that is forced by what each takes away:
 *
 * 1. session, signals: first, so that the kill ladder reaches the child from here on
 * 2. control groups, OOM score, limits: need the shim's rights and the host's /proc and /sys
 * 3. supplementary groups: read the host's user database
 * 4. namespaces: by a pidfd that was checked against pid and start time; afterwards paths are the container's
 * 5. user: gives up the rights that all of the above needed; no program gives any back
 * 6. directory, PATH, exec: with the user's rights and the container's files, as the program would see them
 *
 * The shim has one thread, so this child may use all of libc. Whatever it allocates is its own and ends with
 * exec. The text of a failure is what the job's owner reads first: it names the thing and what was expected.
 */
#include "shim/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define HIGH_FD      16 /* our own descriptors move above whatever the program gets */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define CPU_LIMIT    65536u

static int report = -1;

static void fail_setup(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail_setup(const char *fmt, ...)
{
	char text[CHILD_TEXT_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(text)) {
		memcpy(text + sizeof(text) - 4, "...", 4);
		n = (int)sizeof(text) - 1;
	}
	if (n > 0)
		(void)!write(report, text, (size_t)n);
	_exit(127);
}

/* ---- session and signals ------------------------------------------------------------------------ */

static void fresh_signals(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int i = 1; i <= 64; i++)
		sigaction(i, &sa, NULL); /* refused for KILL, STOP and libc's own two */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A shim that dies takes its process with it: nobody would read its output or learn of its end any more. Must
 * follow the change of user, which clears it. */
static void die_with(pid_t shim)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != shim)
		_exit(127);
}

/* ---- limits ------------------------------------------------------------------------------------- */

static int write_text(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	return fd >= 0 && write(fd, text, n) == (ssize_t)n ? 0 : -1;
}

static void join_cgroups(const struct shim_launch *l)
{
	for (size_t i = 0; i < l->cgroup_procs.n; i++)
		/* "0" is the writer itself, in whatever pid namespace it is. */
		if (write_text(l->cgroup_procs.v[i], "0") < 0)
			fail_setup("cannot join the cgroup: %s: %s", l->cgroup_procs.v[i], strerror(errno));
}

/* As asked where that is permitted, else as much as is. */
static void raise_limit(int what, rlim_t wanted)
{
	struct rlimit r = {.rlim_cur = wanted, .rlim_max = wanted};

	if (setrlimit((__rlimit_resource_t)what, &r) == 0 || getrlimit((__rlimit_resource_t)what, &r) < 0)
		return;
	r.rlim_cur = wanted < r.rlim_max ? wanted : r.rlim_max;
	setrlimit((__rlimit_resource_t)what, &r);
}

static void set_limits(const struct shim_launch *l)
{
	struct rlimit as = {.rlim_cur = l->limit_as, .rlim_max = l->limit_as}, none = {0};
	char score[16];

	snprintf(score, sizeof(score), "%d", (int)l->oom_score_adj);
	/* Only the shim's own -1000 must not be passed on; if it never got that, nothing needs to be said. */
	(void)write_text("/proc/self/oom_score_adj", score);
	if (l->limit_nofile)
		raise_limit(RLIMIT_NOFILE, l->limit_nofile);
	if (l->memlock_unlimited)
		raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
	/* A core file holds what the process was given, its token included. */
	if (!l->core_files && setrlimit(RLIMIT_CORE, &none) < 0)
		fail_setup("cannot turn core files off: %s", strerror(errno));
	if (l->limit_as && setrlimit(RLIMIT_AS, &as) < 0)
		fail_setup("cannot limit memory to %" PRIu64 " bytes: %s", l->limit_as, strerror(errno));
}

static void set_cpus(const struct shim_launch *l)
{
	uint32_t top = 0;
	cpu_set_t *set;
	size_t size;
	int rc;

	if (!l->cpus.n)
		return;
	for (uint32_t i = 0; i < l->cpus.n; i++)
		top = l->cpus.v[i] > top ? l->cpus.v[i] : top;
	if (top >= CPU_LIMIT)
		fail_setup("cannot bind to CPU %u: no such number", top);
	set = CPU_ALLOC(top + 1);
	if (!set)
		fail_setup("cannot bind to CPUs: out of memory");
	size = CPU_ALLOC_SIZE(top + 1);
	CPU_ZERO_S(size, set);
	for (uint32_t i = 0; i < l->cpus.n; i++)
		CPU_SET_S(l->cpus.v[i], size, set);
	rc = sched_setaffinity(0, size, set);
	CPU_FREE(set);
	if (rc < 0)
		fail_setup("cannot bind to the job's %u CPUs (first %u, last %u): %s", l->cpus.n, l->cpus.v[0], top,
		           strerror(errno));
}

/* ---- user and namespaces ------------------------------------------------------------------------- */

static void set_groups(const struct shim_launch *l)
{
	gid_t gid = l->gid;

	if (!l->set_ids)
		return;
	if ((l->user && l->user[0] ? initgroups(l->user, gid) : setgroups(1, &gid)) < 0)
		fail_setup("cannot take the groups of user %s: %s", l->user ? l->user : "?", strerror(errno));
}

static void set_user(const struct shim_launch *l)
{
	if (!l->set_ids)
		return;
	if (setresgid(l->gid, l->gid, l->gid) < 0 || setresuid(l->uid, l->uid, l->uid) < 0)
		fail_setup("cannot become user %u: %s", l->uid, strerror(errno));
}

/* From here on nothing that the process or its descendants execute gives them rights, not even a set-uid
 * program that the owner brought along. */
static void give_up_gains(const struct shim_launch *l)
{
	if (!l->allow_setuid && prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0)
		fail_setup("cannot give up new privileges: %s", strerror(errno));
}

/* The flag when the other process is in another namespace of this kind. */
static int namespace_differs(pid_t pid, const char *kind, int flag)
{
	struct stat mine, other;
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &mine) < 0)
		fail_setup("cannot see the namespaces: %s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	if (stat(path, &other) < 0)
		fail_setup("cannot see the container's namespaces: %s: %s", path, strerror(errno));
	return mine.st_ino == other.st_ino && mine.st_dev == other.st_dev ? 0 : flag;
}

static void enter_container(const struct shim_launch *l)
{
	struct proc_id id = {.pid = (pid_t)l->container_pid, .start_ticks = l->container_start};
	struct err why;
	int fd, flags;

	if (!l->container_pid)
		return;
	if (proc_boot_id(id.boot_id, &why) < 0)
		fail_setup("%s", why.text);
	fd = proc_open(&id, &why);
	if (fd < 0)
		fail_setup("the container's process %u is gone: %s", l->container_pid, why.text);
	/* Read while the pidfd proves that the process lives: were it gone, setns would fail. An ordinary user
	 * needs the user namespace for the right to enter the others; the kernel joins it first. */
	flags = namespace_differs(id.pid, "mnt", CLONE_NEWNS) | namespace_differs(id.pid, "ipc", CLONE_NEWIPC) |
	        namespace_differs(id.pid, "user", CLONE_NEWUSER);
	if (flags && setns(fd, flags) < 0)
		fail_setup("cannot enter the container (process %u): %s", l->container_pid, strerror(errno));
	close(fd);
}

/* ---- descriptors --------------------------------------------------------------------------------- */

static int move_high(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	if (copy < 0)
		fail_setup("cannot arrange descriptors: %s", strerror(errno));
	return copy;
}

static void put_fd(int from, int to)
{
	if (dup2(from, to) < 0)
		fail_setup("cannot arrange descriptor %d: %s", to, strerror(errno));
}

static void arrange_fds(const struct child_io *io)
{
	int in = io->in_fd, metrics = io->metrics_fd, parked = io->park_fd, out, err;

	if (in < 0)
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in < 0)
		fail_setup("cannot open /dev/null: %s", strerror(errno));
	/* All above what will be overwritten, then down to their numbers. */
	report = move_high(report);
	in = move_high(in);
	out = move_high(io->out_fd);
	err = move_high(io->err_fd);
	if (metrics >= 0)
		metrics = move_high(metrics);
	if (parked >= 0)
		parked = move_high(parked);
	put_fd(in, 0);
	put_fd(out, 1);
	put_fd(err, 2);
	/* All of the shim's are close-on-exec already; this is for what somebody may have left open in the shim.
	 */
	syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
	if (metrics >= 0)
		put_fd(metrics, SHIM_METRICS_FD);
	if (parked >= 0)
		put_fd(parked, SHIM_PARK_FD);
}

/* ---- exec ---------------------------------------------------------------------------------------- */

static void fail_interpreter(const char *path) __attribute__((noreturn));
static void fail_exec(const char *path, int why) __attribute__((noreturn));

/* exec says ENOENT for a file that is there when its interpreter is not. */
static void fail_interpreter(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char line[256];
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	char *name;

	if (n > 2 && line[0] == '#' && line[1] == '!') {
		line[n] = '\0';
		name = line + 2 + strspn(line + 2, " \t");
		name[strcspn(name, " \t\r\n")] = '\0';
		if (memchr(line, '\r', (size_t)n))
			fail_setup(
			    "%s: bad interpreter: '%s' not found (the first line ends in a carriage return, as files "
			    "written on "
			    "Windows do)",
			    path, name);
		fail_setup("%s: bad interpreter: '%s' not found", path, name);
	}
	fail_setup("%s: bad interpreter: the program needs a loader that is not here", path);
}

static void fail_exec(const char *path, int why)
{
	struct stat st;
	int there = stat(path, &st) == 0;

	if (why == ENOENT && there)
		fail_interpreter(path);
	if (why == ENOENT)
		fail_setup("command not found: %s", path);
	if (why == EACCES && there && S_ISDIR(st.st_mode))
		fail_setup("permission denied: %s is a directory", path);
	if (why == EACCES && there && !(st.st_mode & 0111))
		fail_setup(
		    "permission denied: %s is not executable (chmod +x, or name its interpreter in the command)",
		    path);
	if (why == EACCES)
		fail_setup("permission denied: %s", path);
	if (why == ENOEXEC)
		fail_setup("exec format error: %s is neither a program for this machine nor a script with a #! line",
		           path);
	if (why == E2BIG)
		fail_setup("argument list too long: arguments and environment of %s", path);
	fail_setup("cannot execute %s: %s", path, strerror(why));
}

/* Each folder of PATH in turn; an empty one is the working directory. Goes on after EACCES, as shells do, but
 * then that is the answer. */
static void search_path(const struct shim_launch *l, char *const *envp)
{
	const char *path = strv_getenv(&l->env, "PATH"), *name = l->argv.v[0], *denied = NULL;
	const char *at;
	char *full = NULL;
	size_t len;

	if (!path)
		path = DEFAULT_PATH;
	for (at = path;; at += len + 1) {
		len = strcspn(at, ":");
		full = len ? xasprintf("%.*s/%s", (int)len, at, name) : xasprintf("./%s", name);
		execve(full, l->argv.v, envp);
		if (errno == EACCES)
			denied = full;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG)
			fail_exec(full, errno);
		else if (access(full, F_OK) == 0)
			fail_exec(full, ENOENT); /* it is its interpreter that is missing */
		if (!at[len])
			break;
	}
	if (denied)
		fail_exec(denied, EACCES);
	fail_setup("command not found: %s (searched PATH=%s)", name, path);
}

static void enter_cwd(const struct shim_launch *l)
{
	const char *cwd = l->cwd && l->cwd[0] ? l->cwd : "/";

	if (chdir(cwd) == 0)
		return;
	if (errno == ENOENT)
		fail_setup("no such directory: %s", cwd);
	if (errno == ENOTDIR)
		fail_setup("not a directory: %s", cwd);
	if (errno == EACCES)
		fail_setup("permission denied: cannot enter directory %s", cwd);
	fail_setup("cannot enter directory %s: %s", cwd, strerror(errno));
}

void setup_exec(const struct shim_launch *l, const struct child_io *io, pid_t shim, int report_fd)
{
	static char *const no_env[] = {NULL};
	const char at_exec = SETUP_AT_EXEC;
	char *const *envp = l->env.v ? l->env.v : no_env;

	report = report_fd;
	setsid(); /* fails only for a group leader, which a forked child is not */
	fresh_signals();
	join_cgroups(l);
	set_limits(l);
	set_cpus(l);
	set_groups(l);
	enter_container(l);
	set_user(l);
	give_up_gains(l);
	die_with(shim);
	enter_cwd(l);
	arrange_fds(io);
	umask(022);
	if (!l->argv.n)
		fail_setup("no command was given");
	(void)!write(report, &at_exec, 1);
	if (!strchr(l->argv.v[0], '/'))
		search_path(l, envp);
	execve(l->argv.v[0], l->argv.v, envp);
	fail_exec(l->argv.v[0], errno);
}
