/*
 * fsutil: single files. New content is made beside the old one under a temporary name (".NAME.XXXXXX")
 * and renamed over it; a crash leaves at most such a temporary file behind. Trees: fstree.c.
 */
#include "common/os/fsutil.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/base/fault.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

int fs_write_all(int fd, const void *p, size_t n, struct err *e)
{
	const char *at = p;
	ssize_t done;

	while (n) {
		done = write(fd, at, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_sys(e, errno, "write");
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

/* "a/b" -> "a", "b" -> ".", "/b" -> "/". */
static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static int sync_parent(const char *path, struct err *e)
{
	cleanup_free char *dir = parent_of(path);
	cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "%s: fsync", dir);
	return 0;
}

static int fill_temp(int fd, const void *data, size_t n, mode_t mode, int durable, struct err *e)
{
	if (FAULT("fs.write"))
		return err_sys(e, ENOSPC, "write");
	if (fs_write_all(fd, data, n, e) < 0)
		return -1;
	/* Exactly the mode that was asked for: a umask must not open or close a secret. */
	if (fchmod(fd, mode) < 0)
		return err_sys(e, errno, "chmod");
	if (durable && FAULT("fs.fsync"))
		return err_sys(e, EIO, "fsync");
	if (durable && fsync(fd) < 0)
		return err_sys(e, errno, "fsync");
	return 0;
}

static int replace_file(const char *path, const void *data, size_t n, mode_t mode, int durable, struct err *e)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	cleanup_free char *temp = xasprintf("%.*s.%s.XXXXXX", (int)(base - path), path, base);
	int fd = mkostemp(temp, O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "%s: create", path);
	if (fill_temp(fd, data, n, mode, durable, e) < 0) {
		err_wrap(e, "%s", path);
		close(fd);
		unlink(temp);
		return -1;
	}
	close(fd);
	if (FAULT("fs.rename"))
		errno = EIO;
	else if (rename(temp, path) == 0)
		return durable ? sync_parent(path, e) : 0;
	err_sys(e, errno, "%s: rename", path);
	unlink(temp);
	return -1;
}

int fs_write_atomic(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
	return replace_file(path, data, n, mode, 1, e);
}

int fs_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
	return replace_file(path, data, n, mode, 0, e);
}

int fs_read_fd(int fd, const char *path, size_t max, char **data, size_t *n, struct err *e)
{
	size_t cap = 4096, len = 0;
	struct stat st;
	ssize_t got;
	char *p;

	/* st_size is a hint only: files of /proc say 0, and a file may grow while it is read. */
	if (fstat(fd, &st) == 0 && st.st_size > 0 && (uintmax_t)st.st_size <= max)
		cap = (size_t)st.st_size + 2;
	p = xmalloc(cap);
	for (;;) {
		if (len + 1 == cap) {
			cap *= 2;
			p = xrealloc(p, cap);
		}
		got = read(fd, p + len, cap - len - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		len += (size_t)got;
		if (len > max) {
			free(p);
			return err_set(e, ERR_LIMIT, "%s: larger than %zu bytes", path, max);
		}
	}
	if (got < 0) {
		err_sys(e, errno, "%s: read", path);
		free(p);
		return -1;
	}
	p[len] = '\0';
	*data = p;
	if (n)
		*n = len;
	return 0;
}

int fs_read_file(const char *path, size_t max, char **data, size_t *n, struct err *e)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	return fs_read_fd(fd, path, max, data, n, e);
}

int fs_replace_changed(const char *path, const void *data, size_t n, mode_t mode, struct err *e)
{
	char *old = NULL;
	size_t len = 0;
	int same = fs_read_file(path, n, &old, &len, NULL) == 0 && len == n && (!n || memcmp(old, data, n) == 0);

	free(old);
	return same ? 0 : fs_replace(path, data, n, mode, e);
}

static int make_one(const char *path, mode_t mode, int durable, struct err *e)
{
	struct stat st;
	int why;

	if (mkdir(path, mode) == 0) {
		if (!durable || sync_parent(path, e) == 0)
			return 0;
		/* Else the next attempt would find it and take its name for durable. */
		rmdir(path);
		return -1;
	}
	why = errno;
	/* Not only EEXIST: on a read-only or foreign parent the answer is EROFS or EACCES though it is there. */
	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : err_set(e, ERR_CONFLICT, "%s: is there and is not a folder", path);
	return err_sys(e, why, "%s: make folder", path);
}

static int make_all(const char *path, mode_t mode, int durable, struct err *e)
{
	/* Nearly always all but the last is there, or all of it. */
	if (make_one(path, mode, durable, e) == 0)
		return 0;
	cleanup_free char *copy = xstrdup(path);

	for (char *p = copy + 1; *copy && *p; p++) {
		if (*p != '/' || p[-1] == '/')
			continue;
		*p = '\0';
		if (make_one(copy, mode, durable, e) < 0)
			return -1;
		*p = '/';
	}
	return make_one(copy, mode, durable, e);
}

int fs_mkdir_p(const char *path, mode_t mode, struct err *e)
{
	return make_all(path, mode, 0, e);
}

int fs_mkdir_durable(const char *path, mode_t mode, struct err *e)
{
	return make_all(path, mode, 1, e);
}

static int lock_busy(int fd, const char *path, struct err *e)
{
	char pid[16];
	ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);
	uint64_t number;

	if (n > 0) {
		pid[n] = '\0';
		pid[strcspn(pid, "\n")] = '\0';
		if (str_parse_u64(pid, &number) == 0)
			return err_set(e, ERR_BUSY, "%s: locked by process %s", path, pid);
	}
	return err_set(e, ERR_BUSY, "%s: locked by another process", path);
}

int fs_lock(const char *path, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	char pid[16];
	int n;

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			lock_busy(fd, path, e);
		else
			err_sys(e, errno, "%s: lock", path);
		close(fd);
		return -1;
	}
	/* For people only, so a full disk does not fail the call: the lock is held. */
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, pid, (size_t)n, 0);
	return fd;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name); /* bytes, not the locale's order: the same everywhere */
}

static int not_dots(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

int fs_each(const char *dir, int (*fn)(const char *name, void *arg), void *arg, struct err *e)
{
	struct dirent **list;
	int n = scandir(dir, &list, not_dots, by_name), rc = 0;

	if (n < 0)
		return err_sys(e, errno, "%s", dir);
	for (int i = 0; i < n; i++) {
		if (rc == 0 && fn(list[i]->d_name, arg) < 0)
			rc = -1;
		free(list[i]);
	}
	free(list);
	return rc;
}

int fs_disk_free(const char *path, uint64_t *free_bytes, uint64_t *total_bytes, struct err *e)
{
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return err_sys(e, errno, "%s", path);
	/* f_bavail: what an ordinary user may still take, without root's reserve. */
	*free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	*total_bytes = (uint64_t)st.f_blocks * st.f_frsize;
	return 0;
}
