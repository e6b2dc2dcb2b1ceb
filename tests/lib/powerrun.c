#include "tests/lib/powerrun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#define FAILED (1ull << 63) /* the last word: how many calls failed */

int power_soak(void)
{
	const char *s = getenv("HEARTH_SOAK");

	return s && *s && strcmp(s, "0") != 0;
}

void power_in_memory(void)
{
	if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
}

void power_tell(struct power *p, uint64_t word)
{
	if (write(p->fd, &word, sizeof(word)) != (ssize_t)sizeof(word))
		_exit(4);
}

static void __attribute__((noreturn)) child(struct power *p)
{
	int status = -1;

	liedisk_start(p->dir, &p->plan);
	status = p->life(p);
	power_tell(p, FAILED | liedisk_failed());
	liedisk_stop();
	exit(status);
}

void power_run(struct power *p)
{
	int fds[2], status = -1;
	uint64_t word;
	struct err e;
	pid_t pid;

	if (fs_rm_rf(p->dir, &e) < 0 || fs_mkdir_p(p->dir, 0700, &e) < 0 || pipe2(fds, O_CLOEXEC) < 0)
		tap_bail("%s: %s", p->dir, strerror(errno));
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		p->fd = fds[1];
		child(p);
	}
	close(fds[1]);
	p->cut = 0;
	p->failed = 0;
	while (read(fds[0], &word, sizeof(word)) == (ssize_t)sizeof(word)) {
		if (word & FAILED)
			p->failed = (unsigned)word;
		else
			p->told(word, p->arg);
	}
	close(fds[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		tap_bail("a life ended with %x", status);
	p->cut = WEXITSTATUS(status) == LIEDISK_CUT;
	if (!p->cut && WEXITSTATUS(status) != 0)
		tap_bail("a life ended with %d (cut at sync %u, failing call %u)", WEXITSTATUS(status),
		         p->plan.cut_sync, p->plan.fail_nth);
}
