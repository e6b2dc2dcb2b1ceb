/* What a thread of root may touch while it acts as an account: what the account may, and no more. */
#include "agent/base/asuser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#define ACCOUNT 65534
#define OTHER   54321

/* A process of another account that stands below its closed folder. */
static pid_t stand_in(const char *dir)
{
	int fds[2];
	char c;
	pid_t pid;

	if (pipe(fds) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		if (setresgid(OTHER, OTHER, OTHER) < 0 || setresuid(OTHER, OTHER, OTHER) < 0 || chdir(dir) < 0)
			_exit(1);
		if (write(fds[1], "x", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)
		tap_bail("no process stands in %s", dir);
	close(fds[0]);
	return pid;
}

/* 0: it opens; else errno. */
static int tried(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

int main(void)
{
	const struct launch_user u = {.uid = ACCOUNT, .gid = ACCOUNT};
	struct asuser a;
	struct err e;
	char *dir, *inner, *file, *open_dir, *open_file, *by_cwd, *by_root;
	pid_t pid;

	if (geteuid() != 0)
		tap_skip_all("only root can act as another account");
	chmod(tap_tmpdir(), 0755);
	dir = xasprintf("%s/closed", tap_tmpdir());
	inner = xasprintf("%s/inner", dir);
	file = xasprintf("%s/secret", inner);
	open_dir = xasprintf("%s/open", tap_tmpdir());
	open_file = xasprintf("%s/file", open_dir);
	if (fs_mkdir_p(dir, 0755, &e) < 0 || fs_mkdir_p(inner, 0755, &e) < 0 ||
	    fs_mkdir_p(open_dir, 0755, &e) < 0 || fs_replace(file, "x", 1, 0644, &e) < 0 ||
	    fs_replace(open_file, "x", 1, 0644, &e) < 0)
		tap_bail("%s", e.text);
	chmod(file, 0644);
	chmod(dir, 0700);
	if (chown(dir, OTHER, OTHER) < 0)
		tap_bail("chown");
	pid = stand_in(inner);
	by_cwd = xasprintf("/proc/%d/cwd/secret", (int)pid);
	by_root = xasprintf("/proc/%d/root%s", (int)pid, open_file);
	asuser_init(&a, 1, &u);
	is_int(tried(by_cwd), 0, "root goes everywhere");
	is_int(asuser_enter(&a, &e), 0, "acts as the account");
	is_int(tried(open_file), 0, "what is open to it, it opens");
	is_int(tried(file), EACCES, "what is closed is closed");
	is_int(tried(by_cwd), EACCES, "by the way of a process that stands in it, too");
	is_int(tried(by_root), EACCES, "and another account's root is not its to look into");
	asuser_leave(&a);
	is_int(tried(by_cwd), 0, "root again");
	asuser_fini(&a);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(dir);
	free(inner);
	free(file);
	free(open_dir);
	free(open_file);
	free(by_cwd);
	free(by_root);
	return tap_done();
}
