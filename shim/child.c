/*
 * child: see child.h. setup.c has what happens between fork and exec.
 */
#include "shim/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/fault.h"
#include "shim/setup.h"
#include "shim/tree.h"

void child_init(struct child *c)
{
	*c = (struct child){.hold_fd = -1, .report_fd = -1};
}

static void drop_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void child_fini(struct child *c)
{
	drop_fd(&c->hold_fd);
	drop_fd(&c->report_fd);
}

/* The child's side of the first wait: end of file is the word to go on. A shim that dies here leaves an end
 * of file too; the check of the parent in setup_exec catches that. */
static void wait_for_release(int hold_fd)
{
	char byte;
	ssize_t n;

	do
		n = read(hold_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
}

static pid_t fork_child(const struct shim_launch *l, const struct child_io *io, const int hold[2],
                        const int report[2])
{
	pid_t shim = getpid(), pid;
	sigset_t all, before;
	int why;

	/* The shim ignores SIGTERM, and so does its copy until it has taken the defaults back. A signal that
	 * comes before is not lost when it is blocked: it waits. setup_exec unblocks. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		close(report[0]);
		wait_for_release(hold[0]);
		close(hold[0]);
		setup_exec(l, io, shim, report[1]);
	}
	why = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = why;
	return pid;
}

int child_fork(struct child *c, const struct shim_launch *l, const struct child_io *io, struct err *e)
{
	int hold[2], report[2];
	pid_t pid;
	int why;

	if (pipe2(hold, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	if (pipe2(report, O_CLOEXEC) < 0) {
		err_sys(e, errno, "pipe");
		close(hold[0]);
		close(hold[1]);
		return -1;
	}
	fcntl(report[0], F_SETFL, O_NONBLOCK);
	errno = EAGAIN;
	pid = FAULT("shim.spawn") ? -1 : fork_child(l, io, hold, report);
	why = errno;
	close(hold[0]);
	close(report[1]);
	c->hold_fd = hold[1];
	c->report_fd = report[0];
	if (pid < 0) {
		child_fini(c);
		return err_sys(e, why, "cannot start a process: fork");
	}
	/* Not reaped yet: the number is this child's, whatever has become of it. */
	c->running = 1;
	if (proc_identify(pid, &c->id, e) == 0)
		return 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	child_fini(c);
	c->running = 0;
	c->id = (struct proc_id){0};
	return -1;
}

void child_release(struct child *c)
{
	drop_fd(&c->hold_fd);
}

int child_report(struct child *c, char *text)
{
	ssize_t n;

	for (;;) {
		n = read(c->report_fd, text, CHILD_TEXT_MAX - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return 0;
		if (n > 0 && text[0] == SETUP_AT_EXEC) {
			c->at_exec = 1;
			n--;
			memmove(text, text + 1, (size_t)n);
			if (n == 0)
				continue;
		}
		break;
	}
	text[n] = '\0'; /* the child wrote it at once, less than PIPE_BUF: it comes whole */
	drop_fd(&c->report_fd);
	return n == 0 && c->at_exec ? 1 : -1;
}

void child_await(struct child *c)
{
	int status;
	pid_t pid = -1;

	if (!c->running)
		return;
	child_signal_group(c, SIGKILL);
	do
		pid = waitpid(c->id.pid, &status, 0);
	while (pid < 0 && errno == EINTR);
	c->running = 0;
	if (pid > 0)
		c->raw_status = status;
}

int child_reap(struct child *c)
{
	int status;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			return pid < 0 && errno == ECHILD;
		if (c->running && pid == c->id.pid) {
			c->running = 0;
			c->raw_status = status;
		}
	}
}

int child_signal_group(struct child *c, int signo)
{
	pid_t pid = c->id.pid;

	if (!c->running)
		return -1;
	/* Not reaped, so neither the process's number nor its group's can be another's: no pidfd is needed. It
	 * may not lead a group yet, or have moved to another one. */
	if (kill(-pid, signo) == 0 && getpgid(pid) == pid)
		return 0;
	return kill(pid, signo);
}

struct signal_arg {
	int signo, only_if_caught;
};

static int signal_one(pid_t pid, int pidfd, void *arg)
{
	const struct signal_arg *a = arg;

	if (a->only_if_caught && !tree_catches(pid, a->signo))
		return 0;
	return pidfd < 0 ? kill(pid, a->signo) == 0
	                 : syscall(SYS_pidfd_send_signal, pidfd, a->signo, NULL, 0u) == 0;
}

int child_signal_all(int signo, int only_if_caught)
{
	struct signal_arg a = {.signo = signo, .only_if_caught = only_if_caught};

	return tree_walk(signal_one, &a);
}

struct list_arg {
	char *text;
	size_t size, used;
};

static int list_one(pid_t pid, int pidfd, void *arg)
{
	struct list_arg *a = arg;
	int n;

	(void)pidfd;
	n = snprintf(a->text + a->used, a->size - a->used, "%s%d", a->used ? ", " : "", (int)pid);
	if (n > 0 && (size_t)n < a->size - a->used)
		a->used += (size_t)n;
	else
		a->text[a->used] = '\0'; /* no half numbers */
	return 1;
}

int child_list(char *text, size_t size)
{
	struct list_arg a = {.text = text, .size = size};

	text[0] = '\0';
	return tree_walk(list_one, &a);
}
