/*
 * capture: see capture.h. The child gets a session of its own, so that capture can end the processes that
 * it leaves running.
 */
#include "agent/base/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"

static char *const plain_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
                                  NULL};

char *capture_find(const char *program)
{
	const char *path = getenv("PATH");
	cleanup_free char *list = xasprintf("%s:/usr/local/bin:/usr/bin:/bin", path ? path : "");
	char *save = NULL, *full;

	for (char *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		full = xasprintf("%s/%s", dir, program);
		if (full[0] == '/' && access(full, X_OK) == 0)
			return full;
		free(full);
	}
	return NULL;
}

/* Reads until the end of file or the deadline. 0 end, -1 deadline. */
static int drain_output(int fd, const struct capture *c, char *buf, size_t *n)
{
	uint64_t end = clock_boot_us(clock_real()) + c->timeout_ms * 1000ull, now;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char waste[4096];
	ssize_t got;

	for (;;) {
		now = clock_boot_us(clock_real());
		if (now >= end || (poll(&p, 1, (int)((end - now) / 1000 + 1)) == 0))
			return -1;
		got = *n < c->max ? read(fd, buf + *n, c->max - *n) : read(fd, waste, sizeof(waste));
		if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
			return 0;
		if (got > 0 && *n < c->max)
			*n += (size_t)got;
	}
}

/* Waits for the end by the deadline that is left after its output ended, else kills. */
static int reap_child(pid_t pid, int pidfd, int kill_now, int *status)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	if (kill_now || poll(&p, 1, 5000) <= 0) {
		kill(-pid, SIGKILL); /* our child, not reaped: its session's number cannot be another's */
		kill(pid, SIGKILL);
		kill_now = 1;
	}
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		continue;
	return kill_now ? -1 : 0;
}

int capture_run(const struct capture *c, char **out, size_t *n, struct err *e)
{
	struct proc_spawn s = {.path = c->argv[0],
	                       .argv = (char *const *)c->argv,
	                       .envp = c->envp ? c->envp : plain_env,
	                       .cwd = c->cwd,
	                       .stdin_fd = -1,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1,
	                       .new_session = 1};
	int fds[2], pidfd = -1, status = 0, late;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	s.stdout_fd = fds[1];
	s.stderr_fd = c->with_stderr ? fds[1] : -1;
	if (c->user) {
		s.set_ids = 1;
		s.uid = c->user->uid;
		s.gid = c->user->gid;
		s.user = c->user->name;
	}
	if (proc_spawn(&s, &pid, &pidfd, e) < 0) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	close(fds[1]);
	*out = xcalloc(1, c->max + 1);
	*n = 0;
	late = drain_output(fds[0], c, *out, n) < 0;
	close(fds[0]);
	late = reap_child(pid, pidfd, late, &status) < 0 || late;
	close(pidfd);
	if (late)
		return err_set(e, ERR_TIMEOUT, "%s: still running after %u s", c->argv[0], c->timeout_ms / 1000);
	if (WIFSIGNALED(status))
		return err_set(e, ERR_IO, "%s: ended by %s", c->argv[0], proc_signal_name(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		return err_set(e, ERR_IO, "%s: exit status %d", c->argv[0], WEXITSTATUS(status));
	return 0;
}
