/*
 * spawn: fork and exec out of a program with threads.
 *
 * Everything that may allocate, lock or look something up (groups, /dev/null) is done before the fork;
 * between fork and exec only async-signal-safe calls are made. All signals are blocked around the fork, so
 * that no handler of the parent ever runs in the child. A failure in the child comes back through a
 * close-on-exec pipe: end of file means that exec has happened.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/os/proc.h"

#define EXEC_DEADLINE_MS 30000 /* a hung network file system may hold exec for ever */
#define GROUPS_MAX       65536 /* the kernel's NGROUPS_MAX */

enum step { STEP_FDS, STEP_SESSION, STEP_IDS, STEP_CWD, STEP_HOOK, STEP_EXEC };
static const char *const step_names[] = {"descriptors",       "new session", "change user",
                                         "working directory", "preparation", "execute"};

struct failure {
	int step, errnum;
};

struct plan {
	const struct proc_spawn *s;
	int fds[3];    /* what becomes 0, 1, 2; all above 2 */
	int report_fd; /* write end of the error pipe, above 2 */
	gid_t *groups;
	int n_groups;
};

/* ---- in the child: async-signal-safe only ------------------------------------------------------ */

static void fail_child(const struct plan *p, enum step step, int errnum) __attribute__((noreturn));
static void fail_child(const struct plan *p, enum step step, int errnum)
{
	struct failure f = {.step = (int)step, .errnum = errnum};

	(void)!write(p->report_fd, &f, sizeof(f));
	_exit(127);
}

/*
 * By the bare system call: libc refuses to touch its own two (32 and 33), which may have been inherited as
 * ignored. The kernel's struct for "default, no flags, empty mask" is all zeros on every architecture; 64
 * bytes hold any of them.
 */
static void reset_signals(void)
{
	static const uint64_t by_default[8];

	for (int i = 1; i <= 64; i++)
		syscall(SYS_rt_sigaction, i, by_default, NULL, (size_t)8); /* refused for KILL and STOP */
}

/* Without close_range(CLOEXEC), before Linux 5.11: by /proc, with the bare system call. */
static int mark_by_proc(void)
{
	struct entry {
		uint64_t ino, off;
		unsigned short len;
		unsigned char type;
		char name[];
	};
	char list[4096] __attribute__((aligned(8)));
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	long n;

	if (dir < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, dir, list, sizeof(list))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *d = (const struct entry *)(list + at);

			fd = 0;
			for (const char *c = d->name; *c >= '0' && *c <= '9'; c++)
				fd = fd * 10 + (*c - '0');
			if (fd > 2)
				fcntl(fd, F_SETFD, FD_CLOEXEC);
			at += d->len;
		}
	}
	close(dir);
	return n < 0 ? -1 : 0;
}

static int arrange_fds(const struct plan *p)
{
	for (int i = 0; i < 3; i++)
		if (dup2(p->fds[i], i) < 0)
			return -1;
	if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) < 0 && mark_by_proc() < 0)
		return -1;
	for (unsigned i = 0; i < p->s->n_extra_fds; i++)
		if (fcntl(p->s->extra_fds[i], F_SETFD, 0) < 0)
			return -1;
	return 0;
}

static int change_ids(const struct plan *p)
{
	/* Bare system calls: libc's versions ask all threads to follow, but fork copied none of them. */
	if (syscall(SYS_setgroups, (size_t)p->n_groups, p->groups) < 0)
		return -1;
	if (syscall(SYS_setresgid, p->s->gid, p->s->gid, p->s->gid) < 0)
		return -1;
	if (syscall(SYS_setresuid, p->s->uid, p->s->uid, p->s->uid) < 0)
		return -1;
	/* It works on files of that user, which may be set-uid programs. */
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L);
}

static void run_child(const struct plan *p) __attribute__((noreturn));
static void run_child(const struct plan *p)
{
	static char *const no_env[] = {NULL};
	const struct proc_spawn *s = p->s;
	sigset_t none;

	reset_signals();
	if (arrange_fds(p) < 0)
		fail_child(p, STEP_FDS, errno);
	if (s->new_session && setsid() < 0)
		fail_child(p, STEP_SESSION, errno);
	if (s->set_ids && change_ids(p) < 0)
		fail_child(p, STEP_IDS, errno);
	/* After the change of user: a directory that the user may not enter is an error, not a gift. */
	if (s->cwd && chdir(s->cwd) < 0)
		fail_child(p, STEP_CWD, errno);
	errno = 0;
	if (s->pre_exec && s->pre_exec(s->pre_exec_arg) < 0)
		fail_child(p, STEP_HOOK, errno);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(s->path, s->argv, s->envp ? s->envp : no_env);
	fail_child(p, STEP_EXEC, errno);
}

/* ---- in the parent ----------------------------------------------------------------------------- */

/* A copy above 2 (and above all extra descriptors is not needed: those are never overwritten). */
static int copy_high(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Before any descriptor of our own is opened, which could take the number of one that is not open. */
static int check_extra(const struct proc_spawn *s, struct err *e)
{
	for (unsigned i = 0; i < s->n_extra_fds; i++)
		if (s->extra_fds[i] < 3 || fcntl(s->extra_fds[i], F_GETFD) < 0)
			return err_set(e, ERR_INVALID, "descriptor %d cannot be passed on", s->extra_fds[i]);
	return 0;
}

static int plan_fds(struct plan *p, struct err *e)
{
	const int wanted[3] = {p->s->stdin_fd, p->s->stdout_fd, p->s->stderr_fd};
	cleanup_close int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd < 0)
		return err_sys(e, errno, "/dev/null");
	for (int i = 0; i < 3; i++) {
		p->fds[i] = copy_high(wanted[i] < 0 ? null_fd : wanted[i]);
		if (p->fds[i] < 0)
			return err_sys(e, errno, "descriptor %d for the child's %d", wanted[i], i);
	}
	return 0;
}

static int plan_groups(struct plan *p, struct err *e)
{
	const struct proc_spawn *s = p->s;
	int n = 32;

	p->groups = xcalloc((size_t)n, sizeof(*p->groups));
	p->groups[0] = s->gid;
	p->n_groups = 1;
	if (!s->user)
		return 0;
	while (getgrouplist(s->user, s->gid, p->groups, &n) < 0) {
		if (n <= 0 || n > GROUPS_MAX)
			return err_set(e, ERR_LIMIT, "user %s is in too many groups", s->user);
		p->groups = xreallocarray(p->groups, (size_t)n, sizeof(*p->groups));
	}
	p->n_groups = n;
	return 0;
}

/* Waits for the child's word. 0: exec has happened. */
static int await_exec(int fd, const char *path, struct err *e)
{
	uint64_t now = clock_boot_us(clock_real()), end = now + EXEC_DEADLINE_MS * 1000u;
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	struct failure f;
	ssize_t n;
	int rc;

	do {
		rc = poll(&pfd, 1, (int)((end - now) / 1000u));
		now = clock_boot_us(clock_real());
	} while (rc < 0 && errno == EINTR && now < end);
	if (rc <= 0)
		return err_set(e, ERR_TIMEOUT, "%s: not executed after %d s", path, EXEC_DEADLINE_MS / 1000);
	do
		n = read(fd, &f, sizeof(f));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(f) || f.step < 0 || f.step > STEP_EXEC)
		return err_set(e, ERR_INTERNAL, "%s: the child sent no clear word", path);
	if (f.step == STEP_HOOK && f.errnum == 0)
		return err_set(e, ERR_IO, "%s: preparation failed", path);
	return err_sys(e, f.errnum, "%s: %s", path, step_names[f.step]);
}

static pid_t fork_blocked(struct plan *p)
{
	sigset_t all, before;
	pid_t pid;
	int why;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (FAULT("proc.fork")) {
		errno = EAGAIN;
		pid = -1;
	} else if (p->s->quick) {
		/* The child uses our stack and memory while we stand still: it may only read what is ours. */
		pid = vfork();
	} else {
		pid = fork();
	}
	if (pid == 0)
		run_child(p);
	why = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = why;
	return pid;
}

/* The child did not get as far as exec: it is ended and reaped here. */
static void discard_child(pid_t pid)
{
	int status;

	kill(pid, SIGKILL); /* our own child, not yet reaped: the number cannot be another's */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
}

static int start_child(struct plan *p, pid_t *pid, int *pidfd, struct err *e)
{
	int pipe_fds[2], fd = -1, rc;
	pid_t child_pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	p->report_fd = copy_high(pipe_fds[1]); /* 0-2 may have been free */
	close(pipe_fds[1]);
	if (p->report_fd < 0) {
		rc = err_sys(e, errno, "pipe");
		goto out;
	}
	child_pid = fork_blocked(p);
	if (child_pid < 0) {
		rc = err_sys(e, errno, "%s: fork", p->s->path);
		goto out;
	}
	close(p->report_fd);
	p->report_fd = -1;
	rc = 0;
	if (pidfd) {
		if (FAULT("proc.pidfd"))
			errno = EMFILE;
		else
			fd = (int)syscall(SYS_pidfd_open, child_pid, 0u);
		if (fd < 0)
			rc = err_sys(e, errno, "%s: pidfd", p->s->path);
	}
	if (rc == 0)
		rc = await_exec(pipe_fds[0], p->s->path, e);
	if (rc < 0) {
		discard_child(child_pid);
		if (fd >= 0)
			close(fd);
		goto out;
	}
	*pid = child_pid;
	if (pidfd)
		*pidfd = fd;
out:
	close(pipe_fds[0]);
	if (p->report_fd >= 0)
		close(p->report_fd);
	return rc;
}

int proc_spawn(const struct proc_spawn *s, pid_t *pid, int *pidfd, struct err *e)
{
	struct plan p = {.s = s, .fds = {-1, -1, -1}, .report_fd = -1};
	int rc;

	if (FAULT("proc.spawn"))
		return err_sys(e, EAGAIN, "%s: fork", s->path);
	if (!s->path || s->path[0] != '/')
		return err_set(e, ERR_INVALID, "'%s' is not an absolute path", s->path ? s->path : "");
	assert(!s->quick ||
	       (!s->set_ids && !s->pre_exec)); /* a change of user would be seen in our memory's rights */
	rc = check_extra(s, e);
	if (rc == 0)
		rc = plan_fds(&p, e);
	if (rc == 0 && s->set_ids)
		rc = plan_groups(&p, e);
	if (rc == 0)
		rc = start_child(&p, pid, pidfd, e);
	for (int i = 0; i < 3; i++)
		if (p.fds[i] >= 0)
			close(p.fds[i]);
	free(p.groups);
	return rc;
}

void proc_main_init(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;
	int fd;

	do
		fd = open("/dev/null", O_RDWR); /* inheritable on purpose: it stands for a standard descriptor */
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
	sigaction(SIGCHLD, &sa, NULL);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
