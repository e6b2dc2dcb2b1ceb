/* fsbelow: names in a folder that somebody else writes: links, FIFOs, devices, swapped parents, foreign
 * files. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

typedef int (*open_fn)(int dir, const char *path, int flags, mode_t mode);

static int dir; /* the folder that is held */

static void put(const char *name, const char *text)
{
	cleanup_free char *path = xasprintf("%s/%s", tap_tmpdir(), name);
	struct err e;

	if (fs_replace(path, text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static void refused(open_fn open_below, const char *path, int flags, const char *what)
{
	int fd = open_below(dir, path, flags, 0600);

	ok(fd < 0, "%s: refused (%s)", what, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void test_open(open_fn open_below, const char *how)
{
	struct stat st;
	int fd = open_below(dir, "real/sub/file", O_RDONLY, 0);

	ok(fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode), "%s: a file some folders down", how);
	ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "closed on exec");
	close(fd);
	fd = open_below(dir, "real/sub", O_RDONLY | O_DIRECTORY, 0);
	ok(fd >= 0, "a folder");
	close(fd);
	fd = open_below(dir, "real/sub/new", O_WRONLY | O_CREAT | O_EXCL, 0640);
	ok(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0640, "makes a file with its mode");
	close(fd);
	unlinkat(dir, "real/sub/new", 0);
	refused(open_below, "link", O_RDONLY, "a link");
	refused(open_below, "link", O_WRONLY | O_CREAT, "a link to write through");
	refused(open_below, "dangling", O_WRONLY | O_CREAT, "a link to nothing, to make it");
	refused(open_below, "linked/sub/file", O_RDONLY, "a parent that is a link");
	refused(open_below, "real/sublink/file", O_RDONLY, "a parent further down");
	refused(open_below, "../outside", O_RDONLY, "the way up");
	refused(open_below, "real/../../outside", O_RDONLY, "the way up in the middle");
	refused(open_below, "/etc/passwd", O_RDONLY, "an absolute path");
	refused(open_below, "real/sub/file/x", O_RDONLY, "a file as a folder");
	refused(open_below, "none", O_RDONLY, "nothing");
	fd = openat(dir, "outside2", O_RDONLY);
	ok(fd < 0, "nothing was made behind a link");
	alarm(20); /* one that blocks would never end */
	fd = open_below(dir, "fifo", O_RDONLY, 0);
	ok(fd >= 0, "a FIFO without a writer does not block");
	close(fd);
	refused(open_below, "fifo", O_WRONLY, "nor one without a reader");
	alarm(0);
}

/* One exchanges a folder for a link to a foreign one, as fast as it can, while this opens. */
static void test_race(open_fn open_below, const char *how)
{
	int fd, foreign = 0, good = 0, refusals = 0;
	struct stat st, secret;
	uint64_t end = clock_boot_us(clock_real()) + 30000000;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			if (renameat(dir, "turn", dir, "turn.dir") < 0 || renameat(dir, "turn.link", dir, "turn") < 0 ||
			    renameat(dir, "turn", dir, "turn.link") < 0 || renameat(dir, "turn.dir", dir, "turn") < 0)
				_exit(1);
	}
	fstatat(dir, "../outside/file", &secret, 0);
	/* Beside other work the other one may be kept from its turn for all of these: until both were seen. */
	for (int i = 0; i < 20000 || ((!good || !refusals) && clock_boot_us(clock_real()) < end); i++) {
		fd = open_below(dir, "turn/file", O_RDONLY, 0);
		if (fd < 0) {
			refusals++;
			continue;
		}
		if (fstat(fd, &st) < 0 || st.st_ino == secret.st_ino)
			foreign++;
		else
			good++;
		close(fd);
	}
	ok(waitpid(pid, NULL, WNOHANG) == 0, "%s: the other one was at it all the time", how);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	is_int(foreign, 0, "never the foreign one");
	ok(good > 0, "the right one %d times, refused %d times", good, refusals);
	/* Whatever it was doing when it was killed. */
	unlinkat(dir, "turn.link", 0);
	if (unlinkat(dir, "turn", 0) == 0 || faccessat(dir, "turn", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		renameat(dir, "turn.dir", dir, "turn");
	if (symlinkat("../outside", dir, "turn.link") < 0)
		tap_bail("turn.link");
}

static int reads(const char *path, uid_t owner, char **text)
{
	struct err e = {0};
	size_t n = 0;
	int rc;

	alarm(20);
	rc = fs_read_below(dir, path, owner, 8, text, &n, &e);
	alarm(0);
	if (rc < 0)
		tap_diag("%s", e.text);
	return rc < 0 ? -(int)e.code : (int)n;
}

static void test_read(void)
{
	cleanup_free char *one = NULL, *two = NULL;
	char *none = NULL;
	uid_t me = geteuid();

	is_int(reads("real/sub/file", me, &one), 6, "a file");
	is_str(one, "inner\n", "its content");
	is_int(reads("long", me, &two), 8, "of a long one");
	is_str(two, "12345678", "the beginning");
	ok(reads("link", me, &none) < 0, "a link is not followed");
	ok(reads("linked/sub/file", me, &none) < 0, "nor a parent");
	is_int(reads("fifo", me, &none), -ERR_INVALID, "a FIFO is none");
	is_int(reads("real", me, &none), -ERR_INVALID, "a folder is none");
	is_int(reads("none", me, &none), -ERR_NOT_FOUND, "one that is not there");
	is_int(reads("long", me + 1, &none), -ERR_DENIED, "one of another account");
	if (me == 0 && mknodat(dir, "device", S_IFCHR | 0600, 0x105) == 0) /* zero: without end */
		is_int(reads("device", me, &none), -ERR_INVALID, "a device is none");
	else
		tap_skip("a device: not allowed to make one");
}

int main(void)
{
	cleanup_free char *path = xasprintf("%s/held", tap_tmpdir());

	if (mkdir(path, 0755) < 0 || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		tap_bail("%s", path);
	mkdirat(dir, "real", 0755);
	mkdirat(dir, "real/sub", 0755);
	mkdirat(dir, "turn", 0755);
	mkdirat(dir, "../outside", 0755);
	put("held/real/sub/file", "inner\n");
	put("held/turn/file", "mine\n");
	put("held/long", "1234567890");
	put("outside/file", "secret\n");
	if (symlinkat("../outside/file", dir, "link") < 0 || symlinkat("../outside/new", dir, "dangling") < 0 ||
	    symlinkat("real", dir, "linked") < 0 || symlinkat("sub", dir, "real/sublink") < 0 ||
	    symlinkat("../outside", dir, "turn.link") < 0 || mkfifoat(dir, "fifo", 0600) < 0)
		tap_bail("set up: %s", strerror(errno));
	test_open(fs_open_below, "openat2");
	test_open(fs_open_below_steps, "by steps");
	test_race(fs_open_below, "openat2");
	test_race(fs_open_below_steps, "by steps");
	test_read();
	return tap_done();
}
