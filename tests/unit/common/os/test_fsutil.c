/* fsutil and fstree: whole files, folders, locks, and trees made to hurt. */
#include "common/os/fsutil.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

/* A path in the test's folder; eight may be in use at a time. */
static const char *in(const char *name)
{
	static char paths[8][4400];
	static unsigned next;
	char *p = paths[next++ % 8];

	snprintf(p, sizeof(paths[0]), "%s/%s", tap_tmpdir(), name);
	return p;
}

static void put(const char *name, const char *text)
{
	struct err e;

	if (fs_replace(in(name), text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static int collect(const char *name, void *arg)
{
	char *all = arg;

	if (strcmp(name, "stop") == 0)
		return -1;
	snprintf(all + strlen(all), 100 - strlen(all), "%s ", name);
	return 0;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void test_write(void)
{
	char *text, names[100] = "";
	struct err e;
	size_t n;

	umask(077);
	is_int(fs_write_atomic(in("w"), "one", 3, 0644, &e), 0, "write");
	is_int(mode_of(in("w")), 0644, "the exact mode, whatever the umask");
	umask(022);
	is_int(fs_write_atomic(in("w"), "two\0three", 9, 0600, &e), 0, "write again");
	is_int(mode_of(in("w")), 0600, "the new mode");
	is_int(fs_read_file(in("w"), 9, &text, &n, &e), 0, "read");
	ok(n == 9 && memcmp(text, "two\0three", 10) == 0, "its content, terminated");
	free(text);
	is_int(fs_read_file(in("w"), 8, &text, &n, &e), -1, "larger than allowed");
	is_int(e.code, ERR_LIMIT, "limit");
	is_int(fs_write_atomic(in("none/w"), "x", 1, 0600, &e), -1, "no such folder");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	is_int(fs_write_atomic(tap_tmpdir(), "x", 1, 0600, &e), -1, "over a folder");
	fs_each(tap_tmpdir(), collect, names, &e);
	is_str(names, "w ", "no temporary file is left");
	is_int(fs_read_file(in("none"), 8, &text, &n, &e), -1, "no such file");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	is_int(fs_read_file(tap_tmpdir(), 8, &text, &n, &e), -1, "a folder is no file");
	is_int(fs_read_file("/proc/self/stat", 8192, &text, &n, &e), 0,
	       "a file of /proc, whose size is said to be 0");
	ok(n > 20, "its content");
	free(text);
	put("empty", "");
	ok(fs_read_file(in("empty"), 0, &text, NULL, &e) == 0 && *text == '\0', "an empty file");
	free(text);
}

static void test_each(void)
{
	char names[100] = "";
	struct err e;

	fs_mkdir_p(in("each"), 0755, &e);
	put("each/b", "");
	put("each/A", "");
	put("each/a", "");
	is_int(fs_each(in("each"), collect, names, &e), 0, "each");
	is_str(names, "A a b ", "sorted by bytes");
	put("each/aa", "");
	put("each/stop", "");
	put("each/z", "");
	names[0] = '\0';
	is_int(fs_each(in("each"), collect, names, &e), -1, "stops");
	is_str(names, "A a aa b ", "where it was told to");
	is_int(fs_each(in("none"), collect, names, &e), -1, "no such folder");
}

static void test_mkdir(void)
{
	struct err e;

	is_int(fs_mkdir_p(in("m/a//b/c/"), 0750, &e), 0, "make a path");
	is_int(mode_of(in("m/a/b/c")), 0750, "its mode");
	is_int(fs_mkdir_p(in("m/a/b"), 0700, &e), 0, "there already");
	is_int(mode_of(in("m/a/b")), 0750, "is left as it is");
	put("m/file", "");
	is_int(fs_mkdir_p(in("m/file/x"), 0700, &e), -1, "through a file");
	is_int(e.code, ERR_CONFLICT, "conflict");
	is_int(fs_mkdir_p(in("m/file"), 0700, &e), -1, "a file");
	symlink("a", in("m/link"));
	is_int(fs_mkdir_p(in("m/link/d"), 0700, &e), 0, "through a link");
	is_int(fs_mkdir_p("", 0700, &e), -1, "empty");
	is_int(fs_mkdir_p("/", 0700, &e), 0, "the root");
}

static void test_lock(void)
{
	char want[64];
	struct err e;
	int fd, other, status;

	fd = fs_lock(in("lock"), &e);
	ok(fd >= 0, "lock");
	other = fs_lock(in("lock"), &e);
	is_int(other, -1, "twice");
	is_int(e.code, ERR_BUSY, "busy");
	snprintf(want, sizeof(want), "locked by process %d", (int)getpid());
	like(e.text, want, "by whom");
	close(fd);
	fd = fs_lock(in("lock"), &e);
	ok(fd >= 0, "again after close");
	if (fork() == 0)
		_exit(fs_lock(in("lock"), NULL) < 0 ? 7 : 0);
	wait(&status);
	is_int(WEXITSTATUS(status), 7, "not in another process");
	close(fd);
	put("lock", "nonsense");
	fd = fs_lock(in("lock"), &e);
	ok(fd >= 0, "whatever stands in the file");
	close(fd);
}

static int exists(const char *path)
{
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static void test_rm(void)
{
	struct err e;

	is_int(fs_rm_rf(in("r/none"), &e), 0, "missing is fine");
	fs_mkdir_p(in("r/a/b"), 0755, &e);
	fs_mkdir_p(in("r/ro"), 0755, &e);
	fs_mkdir_p(in("outside"), 0755, &e);
	put("outside/keep", "x");
	put("r/a/f", "x");
	put("r/ro/f", "x");
	symlink(in("outside"), in("r/link"));
	symlink("nowhere", in("r/dangling"));
	mkfifo(in("r/fifo"), 0600);
	chmod(in("r/ro"), 0);
	if (!is_int(fs_rm_rf(in("r"), &e), 0, "a tree with everything"))
		tap_diag("%s", e.text);
	ok(!exists(in("r")), "is gone");
	ok(exists(in("outside/keep")), "links were not followed");
	symlink(in("outside"), in("toplink"));
	is_int(fs_rm_rf(in("toplink"), &e), 0, "a link at the top");
	ok(!exists(in("toplink")) && exists(in("outside/keep")), "only the link is gone");
	is_int(fs_rm_rf(in("outside/keep"), &e), 0, "a file");
	ok(!exists(in("outside/keep")), "is gone");
}

/* Thousands of levels: neither the stack, nor the descriptors, nor PATH_MAX may be the limit. */
static void make_deep(const char *top, int levels)
{
	int fd, next;

	mkdir(top, 0755);
	fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < levels; i++) {
		mkdirat(fd, "some-long-name-for-a-folder", 0755);
		next = openat(fd, "some-long-name-for-a-folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
}

static void test_deep(void)
{
	struct err e;

	make_deep(in("deep"), 2000);
	is_int(fs_tree_bytes(in("deep"), &e), -1, "measuring stops");
	is_int(e.code, ERR_LIMIT, "with an error");
	is_int(fs_copy_tree(in("deep"), in("deep2"), &e), -1, "copying stops");
	is_int(e.code, ERR_LIMIT, "with an error");
	like(e.text, "deeper than", "that says so");
	if (!is_int(fs_rm_rf(in("deep"), &e), 0, "2000 levels are removed"))
		tap_diag("%s", e.text);
	ok(!exists(in("deep")), "and gone");
	is_int(fs_rm_rf(in("deep2"), &e), 0, "the copy too");
}

static void test_mount(void)
{
	struct err e;

	fs_mkdir_p(in("mnt/a/point"), 0755, &e);
	fs_mkdir_p(in("data"), 0755, &e);
	put("data/keep", "x");
	if (mount(in("data"), in("mnt/a/point"), NULL, MS_BIND, NULL) < 0) {
		tap_skip("bind mounts need root");
		fs_rm_rf(in("mnt"), &e);
		return;
	}
	is_int(fs_rm_rf(in("mnt"), &e), -1, "a tree with a mount of the same device in it");
	is_int(e.code, ERR_CONFLICT, "is refused");
	like(e.text, "mount point", "and says why");
	ok(exists(in("data/keep")), "what is mounted stays");
	umount(in("mnt/a/point"));
	is_int(fs_rm_rf(in("mnt"), &e), 0, "without the mount it goes");
}

static void test_copy(void)
{
	char target[64] = "", *text;
	struct stat a, b;
	struct err e;
	int fd;

	fs_mkdir_p(in("c/src/sub"), 0750, &e);
	put("c/src/f", "hello");
	put("c/src/empty", "");
	chmod(in("c/src/f"), 04751);
	symlink("../f", in("c/src/sub/l"));
	fd = open(in("c/src/big"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	is_int(ftruncate(fd, 3000000), 0, "a file with a hole");
	is_int(pwrite(fd, "end", 3, 3000000), 3, "and an end");
	close(fd);
	utimensat(AT_FDCWD, in("c/src/f"), (struct timespec[]){{1000, 5}, {2000, 7}}, 0);
	utimensat(AT_FDCWD, in("c/src/sub"), (struct timespec[]){{1000, 5}, {3000, 7}}, 0);

	if (!is_int(fs_copy_tree(in("c/src"), in("c/dst"), &e), 0, "copy"))
		tap_diag("%s", e.text);
	ok(fs_read_file(in("c/dst/f"), 100, &text, NULL, &e) == 0 && strcmp(text, "hello") == 0, "content");
	free(text);
	is_int(mode_of(in("c/dst/f")), 0751, "mode, without setuid");
	stat(in("c/dst/f"), &a);
	is_int(a.st_mtim.tv_sec, 2000, "time of a file");
	is_int(a.st_mtim.tv_nsec, 7, "to the nanosecond");
	stat(in("c/dst/sub"), &a);
	is_int(a.st_mtim.tv_sec, 3000, "time of a folder");
	is_int(mode_of(in("c/dst/sub")), 0750, "mode of a folder");
	ok(readlink(in("c/dst/sub/l"), target, sizeof(target) - 1) == 4 && strcmp(target, "../f") == 0, "link");
	stat(in("c/src/big"), &a);
	stat(in("c/dst/big"), &b);
	is_int(b.st_size, a.st_size, "size of the large file");
	is_int(fs_copy_tree(in("c/src"), in("c/dst"), &e), -1, "over what is there");
	is_int(e.code, ERR_CONFLICT, "conflict");
	is_int(fs_copy_tree(in("c/src/f"), in("c/one"), &e), 0, "a single file");
	is_int(fs_copy_tree(in("c/src"), in("c/src/sub/in"), &e), -1, "into itself");
	like(e.text, "into itself", "says so");
	is_int(fs_copy_tree(in("c/none"), in("c/x"), &e), -1, "no source");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	mkfifo(in("c/src/fifo"), 0600);
	is_int(fs_copy_tree(in("c/src"), in("c/dst3"), &e), -1, "a fifo");
	is_int(e.code, ERR_UNSUPPORTED, "is refused, and does not hang");
}

static void test_measure(void)
{
	static char data[100000];
	uint64_t free_bytes = 0, total = 0;
	struct err e;
	int64_t one, two;

	memset(data, 'x', sizeof(data));
	fs_mkdir_p(in("s/sub"), 0755, &e);
	fs_replace(in("s/sub/f"), data, sizeof(data), 0600, &e);
	one = fs_tree_bytes(in("s"), &e);
	ok(one >= 100000 && one < 200000, "bytes of a tree");
	link(in("s/sub/f"), in("s/hard"));
	symlink("/", in("s/link"));
	two = fs_tree_bytes(in("s"), &e);
	ok(two >= one && two < one + 20000, "a file with two names counts once, links are not followed");
	is_int(fs_tree_bytes(in("none"), &e), -1, "no such tree");
	is_int(fs_disk_free(tap_tmpdir(), &free_bytes, &total, &e), 0, "free space");
	ok(total > 0 && free_bytes <= total, "is at most all");
	is_int(fs_disk_free(in("none"), &free_bytes, &total, &e), -1, "of nothing");
}

int main(void)
{
	test_write();
	test_each();
	test_mkdir();
	test_lock();
	test_rm();
	test_deep();
	test_mount();
	test_copy();
	test_measure();
	return tap_done();
}
