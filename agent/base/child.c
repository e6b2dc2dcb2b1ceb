/*
 * child: see child.h.
 */
#include "agent/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/base/last_line.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"

#define TICK_MS 1000
#define END_MS  5000 /* from the end of its output to its own */

static int open_umask(void *arg)
{
	(void)arg;
	umask(022);
	return 0;
}

/* 0: the output has ended. */
static int follow_output(int fd, struct child *c, struct last_line *l, struct err *e)
{
	uint64_t start = clock_boot_us(clock_real()), now = start, heard = start, ticked = start;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char buf[16384];
	ssize_t n;

	for (;;) {
		n = poll(&p, 1, TICK_MS) > 0 ? read(fd, buf, sizeof(buf)) : -1;
		now = clock_boot_us(clock_real());
		if (n == 0)
			return 0;
		if (n > 0) {
			heard = now;
			last_line_take(l, buf, (size_t)n);
			if (c->output)
				c->output(buf, (size_t)n, c->arg);
		}
		if (c->timeout_ms && now - start > c->timeout_ms * 1000)
			return err_set(e, ERR_TIMEOUT, "%s: still running after %" PRIu64 " s", c->argv[0],
			               (uint64_t)(c->timeout_ms / 1000));
		if (now - ticked < TICK_MS * 1000)
			continue;
		ticked = now;
		if (c->tick && c->tick((now - heard) / 1000, c->arg) < 0)
			return err_set(e, ERR_UNAVAILABLE, "%s: stopped", c->argv[0]);
	}
}

static int start_child(struct child *c, int out_fd, pid_t *pid, int *pidfd, struct err *e)
{
	struct proc_spawn s = {.path = c->argv[0],
	                       .argv = (char *const *)(uintptr_t)c->argv,
	                       .envp = c->envp,
	                       .cwd = c->cwd,
	                       .stdin_fd = c->stdin_fd,
	                       .stdout_fd = out_fd,
	                       .stderr_fd = out_fd,
	                       .new_session = 1,
	                       .pre_exec = open_umask};

	if (c->user) {
		s.set_ids = 1;
		s.uid = c->user->uid;
		s.gid = c->user->gid;
		s.user = c->user->name;
	}
	return proc_spawn(&s, pid, pidfd, e);
}

int child_run(struct child *c, struct err *e)
{
	struct last_line l = {.n = 0};
	int fds[2], pidfd = -1, status = 0, rc;
	struct pollfd p = {.events = POLLIN};
	pid_t pid;

	c->last_line[0] = '\0';
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	rc = start_child(c, fds[1], &pid, &pidfd, e);
	close(fds[1]);
	if (rc < 0) {
		close(fds[0]);
		return -1;
	}
	rc = follow_output(fds[0], c, &l, e);
	close(fds[0]);
	last_line_end(&l);
	memcpy(c->last_line, l.text, sizeof(c->last_line));
	p.fd = pidfd;
	if (rc < 0 || poll(&p, 1, END_MS) <= 0)
		kill(pid, SIGKILL); /* our child, not reaped yet: the numbers are its own */
	kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	close(pidfd);
	if (rc < 0)
		return -1;
	if (WIFSIGNALED(status))
		return err_set(e, ERR_IO, "%s: ended by %s", c->argv[0], proc_signal_name(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		return err_set(e, ERR_IO, "%s: exit status %d", c->argv[0], WEXITSTATUS(status));
	return 0;
}
