/*
 * faultlibc: by the linker's --wrap. Every call is made, and told to liedisk, under its lock.
 */
#include "tests/lib/faultlibc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/lib/liedisk.h"

#define REAL(type, name, ...)                                                                                \
	type __real_##name(__VA_ARGS__);                                                                         \
	type __wrap_##name(__VA_ARGS__)

REAL(int, open, const char *path, int flags, ...);
REAL(int, openat, int at, const char *path, int flags, ...);
REAL(ssize_t, read, int fd, void *data, size_t n);
REAL(ssize_t, pread, int fd, void *data, size_t n, off_t at);
REAL(ssize_t, write, int fd, const void *data, size_t n);
REAL(ssize_t, pwrite, int fd, const void *data, size_t n, off_t at);
REAL(int, fsync, int fd);
REAL(int, fdatasync, int fd);
REAL(int, ftruncate, int fd, off_t size);
REAL(int, rename, const char *from, const char *to);
REAL(int, renameat, int from_at, const char *from, int to_at, const char *to);
REAL(int, link, const char *from, const char *to);
REAL(int, unlink, const char *path);
REAL(int, unlinkat, int at, const char *path, int flags);
REAL(int, mkdir, const char *path, mode_t mode);
REAL(int, mkdirat, int at, const char *path, mode_t mode);
REAL(int, rmdir, const char *path);
REAL(int, renameat2, int from_at, const char *from, int to_at, const char *to, unsigned flags);
REAL(int, mkostemp, char *path, int flags);

/* The path as liedisk knows it, with its folder resolved; out has PATH_MAX bytes. */
static const char *whole(int at, const char *path, char *out)
{
	char dir[PATH_MAX], real[PATH_MAX], proc[64];
	const char *base = strrchr(path, '/');
	ssize_t n;

	if (*path != '/' && at != AT_FDCWD) {
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", at);
		n = readlink(proc, dir, sizeof(dir) - 1);
		if (n < 0)
			return path;
		dir[n] = '\0';
		if ((size_t)snprintf(out, PATH_MAX, "%s/%s", dir, path) >= PATH_MAX)
			return path;
		return out;
	}
	if (!base || base == path || strlen(path) >= sizeof(dir))
		return path;
	memcpy(dir, path, (size_t)(base - path));
	dir[base - path] = '\0';
	if (!realpath(dir, real) || (size_t)snprintf(out, PATH_MAX, "%s%s", real, base) >= PATH_MAX)
		return path;
	return out;
}

static int fail(int err)
{
	errno = err;
	return -1;
}

/* Ends the lock without losing errno. */
static int done(int rc)
{
	int saved = errno;

	liedisk_unlock();
	errno = saved;
	return rc;
}

static int open_it(int at, const char *path, int flags, mode_t mode)
{
	char buf[PATH_MAX];
	const char *p;
	int fresh, rc, err;

	liedisk_lock();
	p = whole(at, path, buf);
	fresh = (flags & O_CREAT) && !liedisk_of_path(p);
	err = fresh ? liedisk_op(LIE_NAME, p) : 0;
	if (err)
		return done(fail(err));
	rc = __real_openat(at, path, flags, mode);
	if (rc >= 0 && (flags & O_CREAT))
		liedisk_created(p);
	if (rc >= 0 && (flags & O_TRUNC) && !fresh && liedisk_of_path(p))
		liedisk_truncated(liedisk_of_path(p), 0);
	return done(rc);
}

int __wrap_mkostemp(char *path, int flags)
{
	char buf[PATH_MAX];
	int rc, err;

	liedisk_lock();
	err = liedisk_op(LIE_NAME, whole(AT_FDCWD, path, buf));
	rc = err ? fail(err) : __real_mkostemp(path, flags);
	if (rc >= 0)
		liedisk_created(whole(AT_FDCWD, path, buf));
	return done(rc);
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(ap, int) : 0;
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return open_it(AT_FDCWD, path, flags, mode);
}

int __wrap_openat(int at, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return open_it(at, path, flags, mode);
}

ssize_t __wrap_read(int fd, void *data, size_t n)
{
	int err;

	liedisk_lock();
	err = liedisk_of_fd(fd) ? liedisk_op(LIE_READ, NULL) : 0;
	done(0);
	return err ? fail(err) : __real_read(fd, data, n);
}

ssize_t __wrap_pread(int fd, void *data, size_t n, off_t at)
{
	int err;

	liedisk_lock();
	err = liedisk_of_fd(fd) ? liedisk_op(LIE_READ, NULL) : 0;
	done(0);
	return err ? fail(err) : __real_pread(fd, data, n, at);
}

/* at -1: where the descriptor stands, which moves on. */
static ssize_t write_it(int fd, const void *data, size_t n, off_t at)
{
	struct lie_file *f;
	off_t from = at;
	ssize_t rc;
	int err;

	liedisk_lock();
	f = liedisk_of_fd(fd);
	err = f ? liedisk_op(LIE_WRITE, NULL) : 0;
	if (err && (n < 2 || liedisk_failed() > 1))
		return done((int)fail(err));
	/* The first one that fails takes as much as there is room for; the next hears why. */
	if (err)
		n /= 2;
	if (f && at < 0)
		from = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
	rc = at < 0 ? __real_write(fd, data, n) : __real_pwrite(fd, data, n, at);
	if (f && rc > 0)
		liedisk_wrote(f, (uint64_t)from, data, (size_t)rc);
	done(0);
	return rc;
}

ssize_t __wrap_write(int fd, const void *data, size_t n)
{
	return write_it(fd, data, n, -1);
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
	return write_it(fd, data, n, at);
}

static int sync_it(int fd)
{
	char link[64], path[PATH_MAX];
	struct lie_file *f;
	struct stat st;
	ssize_t n;
	int err;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	liedisk_lock();
	f = liedisk_of_fd(fd);
	err = f || liedisk_watches(path) || liedisk_is_root(path) ? liedisk_op(LIE_SYNC, NULL) : 0;
	if (err) {
		if (f)
			liedisk_sync_failed(f);
		return done(fail(err));
	}
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		liedisk_sync_dir(path);
	else if (f)
		liedisk_sync_file(f);
	return done(f || liedisk_is_root(path) ? 0 : __real_fsync(fd));
}

int __wrap_fsync(int fd)
{
	return sync_it(fd);
}

int __wrap_fdatasync(int fd)
{
	return sync_it(fd);
}

int __wrap_ftruncate(int fd, off_t size)
{
	struct lie_file *f;
	int rc, err;

	liedisk_lock();
	f = liedisk_of_fd(fd);
	err = f ? liedisk_op(LIE_WRITE, NULL) : 0;
	rc = err ? fail(err) : __real_ftruncate(fd, size);
	if (rc == 0 && f)
		liedisk_truncated(f, (uint64_t)size);
	return done(rc);
}

int __wrap_renameat(int from_at, const char *from, int to_at, const char *to)
{
	char from_buf[PATH_MAX], to_buf[PATH_MAX];
	const char *f, *t;
	int rc, err;

	liedisk_lock();
	f = whole(from_at, from, from_buf);
	t = whole(to_at, to, to_buf);
	err = liedisk_op(LIE_NAME, t);
	rc = err ? fail(err) : __real_renameat(from_at, from, to_at, to);
	if (rc == 0)
		liedisk_renamed(f, t);
	return done(rc);
}

/* An exchange: both names stay, which is all that a disk without a cut needs to know. */
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
	char buf[PATH_MAX];
	int rc, err;

	liedisk_lock();
	err = liedisk_op(LIE_NAME, whole(to_at, to, buf));
	rc = err ? fail(err) : __real_renameat2(from_at, from, to_at, to, flags);
	return done(rc);
}

int __wrap_rename(const char *from, const char *to)
{
	return __wrap_renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int __wrap_link(const char *from, const char *to)
{
	char from_buf[PATH_MAX], to_buf[PATH_MAX];
	int rc, err;

	liedisk_lock();
	err = liedisk_op(LIE_NAME, whole(AT_FDCWD, to, to_buf));
	rc = err ? fail(err) : __real_link(from, to);
	if (rc == 0)
		liedisk_linked(whole(AT_FDCWD, from, from_buf), whole(AT_FDCWD, to, to_buf));
	return done(rc);
}

int __wrap_unlinkat(int at, const char *path, int flags)
{
	char buf[PATH_MAX];
	const char *p;
	int rc, err;

	liedisk_lock();
	p = whole(at, path, buf);
	err = liedisk_of_path(p) ? liedisk_op(LIE_NAME, p) : 0;
	rc = err ? fail(err) : __real_unlinkat(at, path, flags);
	if (rc == 0)
		liedisk_removed(p);
	return done(rc);
}

int __wrap_unlink(const char *path)
{
	return __wrap_unlinkat(AT_FDCWD, path, 0);
}

int __wrap_rmdir(const char *path)
{
	return __wrap_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int __wrap_mkdirat(int at, const char *path, mode_t mode)
{
	char buf[PATH_MAX];
	const char *p;
	int rc, err;

	liedisk_lock();
	p = whole(at, path, buf);
	err = liedisk_watches(p) && !liedisk_of_path(p) ? liedisk_op(LIE_NAME, p) : 0;
	rc = err ? fail(err) : __real_mkdirat(at, path, mode);
	if (rc == 0)
		liedisk_created(p);
	return done(rc);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	return __wrap_mkdirat(AT_FDCWD, path, mode);
}

int faultlibc_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}
