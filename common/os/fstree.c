/*
 * fstree: trees of files. Trees come from jobs, so they are hostile: every step is relative to an open
 * folder, never follows a link, and neither the depth nor the number of entries may hurt the caller.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/base/hashtable.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

/* One descriptor a level is open while a tree is walked. */
#define DEPTH_MAX 128

/* Returns the kernel's number of the mount that holds a descriptor; -1: unknown. */
static long mount_id(int fd)
{
	cleanup_free char *text = NULL;
	char path[48];
	const char *line;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fs_read_file(path, 4096, &text, NULL, NULL) < 0)
		return -1;
	line = strstr(text, "mnt_id:");
	return line ? strtol(line + 7, NULL, 10) : -1;
}

/* Opens the folder `name` of `at`; not through a link, not into another mount (EXDEV). */
static int open_dir(int at, const char *name)
{
	struct open_how how = {
	    .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	    .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
	};
	int fd = (int)syscall(SYS_openat2, at, name, &how, sizeof(how));
	long outer;

	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd;
	/* Before Linux 5.6, or forbidden by a container's filter. The device number would miss bind mounts. */
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || at == AT_FDCWD) /* the way to the top of a tree may cross mounts */
		return fd;
	outer = mount_id(at);
	if (outer >= 0 && outer == mount_id(fd))
		return fd;
	close(fd);
	errno = EXDEV;
	return -1;
}

static int is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* The path of an entry for messages: the kernel knows the folder's, and only its end matters when it is long.
 */
struct place {
	char text[320];
};

static const char *place_path(struct place *p, int at, const char *name)
{
	char proc[40], dir[4096];
	const char *tail = dir;
	int saved_errno = errno; /* the caller's next argument may be errno */
	ssize_t n = -1;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", at);
	if (at != AT_FDCWD)
		n = readlink(proc, dir, sizeof(dir) - 1);
	dir[n > 0 ? n : 0] = '\0';
	if (n > 200)
		tail = dir + n - 200;
	snprintf(p->text, sizeof(p->text), "%s%.200s%s%.100s", tail == dir ? "" : "...", tail, n > 0 ? "/" : "",
	         name);
	errno = saved_errno;
	return p->text;
}

/* ---- removing ---------------------------------------------------------------------------------- */

struct remover {
	int top_fd;
	unsigned moved; /* folders taken up to the top, for unique names */
	int (*stop)(void *arg);
	void *arg;
	struct err *e;
};

/* Opens a folder that is to be emptied; as an ordinary user its mode may have to be widened first. */
static int open_to_empty(int at, const char *name)
{
	char proc[40];
	int fd = open_dir(at, name), path_fd, saved;

	if (fd < 0 && errno == EACCES) {
		path_fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (path_fd < 0)
			return -1;
		/* chmod by /proc: the descriptor is surely this folder, the name may have become a link. */
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path_fd);
		if (chmod(proc, 0700) == 0)
			fd = open_dir(at, name);
		saved = errno;
		close(path_fd);
		errno = saved;
	}
	return fd;
}

static int empty_dir(struct remover *r, int fd, const char *name, int depth);

static int remove_dir(struct remover *r, int at, const char *name, int depth)
{
	struct place p;
	char unique[32];
	int fd;

	if (depth >= DEPTH_MAX) {
		/* Too deep to go on with one descriptor a level: take it up; the top is read until empty. */
		snprintf(unique, sizeof(unique), ".deep-%u", r->moved++);
		if (renameat(at, name, r->top_fd, unique) < 0)
			return err_sys(r->e, errno, "%s: move", place_path(&p, at, name));
		return 0;
	}
	fd = open_to_empty(at, name);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno == EXDEV)
		return err_set(r->e, ERR_CONFLICT, "%s: is a mount point", place_path(&p, at, name));
	if (fd < 0)
		return err_sys(r->e, errno, "%s: open", place_path(&p, at, name));
	if (empty_dir(r, fd, name, depth) < 0)
		return -1;
	if (unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(r->e, errno, "%s: remove", place_path(&p, at, name));
	return 0;
}

static int remove_entry(struct remover *r, int at, const char *name, int depth)
{
	struct place p;

	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EISDIR || errno == EPERM)
		return remove_dir(r, at, name, depth);
	if (errno == EACCES && fchmod(at, 0700) == 0) { /* we own the folder, it was read-only */
		if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
			return 0;
		if (errno == EISDIR || errno == EPERM)
			return remove_dir(r, at, name, depth);
	}
	return err_sys(r->e, errno, "%s: remove", place_path(&p, at, name));
}

/* Takes fd. */
static int empty_dir(struct remover *r, int fd, const char *name, int depth)
{
	DIR *d = fdopendir(fd);
	const struct dirent *entry;
	int rc = 0;

	if (!d) {
		err_sys(r->e, errno, "%s: read", name);
		close(fd);
		return -1;
	}
	while (rc == 0 && (entry = readdir(d))) {
		if (is_dots(entry->d_name))
			continue;
		if (r->stop && r->stop(r->arg))
			rc = err_set(r->e, ERR_UNAVAILABLE, "stopped");
		else
			rc = remove_entry(r, dirfd(d), entry->d_name, depth + 1);
	}
	closedir(d);
	return rc;
}

int fs_rm_rf(const char *path, struct err *e)
{
	return fs_rm_rf_while(path, NULL, NULL, e);
}

int fs_rm_rf_while(const char *path, int (*stop)(void *arg), void *arg, struct err *e)
{
	struct remover r = {.e = e, .stop = stop, .arg = arg};
	unsigned moved;
	int fd, rc;

	if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_sys(e, errno, "%s: remove", path);
	fd = open_to_empty(AT_FDCWD, path);
	if (fd < 0 && (errno == EXDEV || errno == ELOOP)) /* the way to the top may cross both */
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s: open", path);
	r.top_fd = fd;
	do {
		moved = r.moved;
		fd = dup(r.top_fd);
		if (fd >= 0)
			lseek(fd, 0, SEEK_SET);
		rc = fd < 0 ? err_sys(e, errno, "dup") : empty_dir(&r, fd, path, 0);
	} while (rc == 0 && r.moved != moved);
	close(r.top_fd);
	if (rc < 0)
		return -1;
	if (rmdir(path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "%s: remove", path);
	return 0;
}

/* ---- copying ----------------------------------------------------------------------------------- */

struct copier {
	dev_t top_dev; /* the folder that is being made: it may lie inside the source */
	ino_t top_ino;
	struct err *e;
};

static int copy_bytes(int in, int out, struct err *e)
{
	char chunk[32768];
	ssize_t n;

	if (ioctl(out, FICLONE, in) == 0)
		return 0;
	do
		n = copy_file_range(in, NULL, out, NULL, 1u << 30, 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0 && lseek(out, 0, SEEK_CUR) > 0)
		return 0;
	/* Not between these file systems, or nothing copied (special files of some kernels): by hand. */
	for (;;) {
		n = read(in, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read");
		if (n == 0)
			return 0;
		if (fs_write_all(out, chunk, (size_t)n, e) < 0)
			return -1;
	}
}

static int set_times(int fd, const struct stat *st, struct err *e)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	/* No setuid or setgid: the copy may belong to somebody else than the original. */
	if (fchmod(fd, st->st_mode & 01777) < 0 || futimens(fd, times) < 0)
		return err_sys(e, errno, "set mode and times");
	return 0;
}

static int copy_file(int from_at, const char *from, int to_at, const char *to, struct err *e)
{
	cleanup_close int in = openat(from_at, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_close int out = -1;
	struct stat st;
	struct place p;

	if (in < 0 || fstat(in, &st) < 0)
		return err_sys(e, errno, "%s: open", place_path(&p, from_at, from));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_UNSUPPORTED, "%s: neither file, folder nor symbolic link",
		               place_path(&p, from_at, from));
	out = openat(to_at, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s: is there already", place_path(&p, to_at, to))
		                       : err_sys(e, errno, "%s: create", place_path(&p, to_at, to));
	if (copy_bytes(in, out, e) < 0 || set_times(out, &st, e) < 0)
		return err_wrap(e, "%s", place_path(&p, from_at, from));
	return 0;
}

static int copy_link(int from_at, const char *from, int to_at, const char *to, const struct stat *st,
                     struct err *e)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	char target[4097];
	struct place p;
	ssize_t n = readlinkat(from_at, from, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, errno, "%s: read link", place_path(&p, from_at, from));
	target[n] = '\0';
	if (symlinkat(target, to_at, to) < 0)
		return errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s: is there already", place_path(&p, to_at, to))
		                       : err_sys(e, errno, "%s: create link", place_path(&p, to_at, to));
	utimensat(to_at, to, times, AT_SYMLINK_NOFOLLOW); /* a link's time is decoration */
	return 0;
}

static int copy_entry(const struct copier *c, int from_at, const char *from, int to_at, const char *to,
                      int depth);

/* Takes from_fd. */
static int copy_entries(const struct copier *c, int from_fd, int to_fd, int depth)
{
	DIR *d = fdopendir(from_fd);
	const struct dirent *entry;
	int rc = 0;

	if (!d) {
		err_sys(c->e, errno, "read folder");
		close(from_fd);
		return -1;
	}
	while (rc == 0 && (entry = readdir(d)))
		if (!is_dots(entry->d_name))
			rc = copy_entry(c, dirfd(d), entry->d_name, to_fd, entry->d_name, depth + 1);
	closedir(d);
	return rc;
}

static int copy_dir(const struct copier *top, int from_at, const char *from, int to_at, const char *to,
                    int depth)
{
	int in = openat(from_at, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int out = -1;
	struct copier c = *top;
	struct stat st, made;
	struct place p;

	if (in < 0)
		return err_sys(c.e, errno, "%s: open", place_path(&p, from_at, from));
	if (fstat(in, &st) < 0 || (mkdirat(to_at, to, 0700) < 0 && (errno != EEXIST || depth > 0))) {
		err_sys(c.e, errno, "%s: make folder", place_path(&p, to_at, to));
		close(in);
		return -1;
	}
	out = openat(to_at, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0 || fstat(out, &made) < 0) {
		err_sys(c.e, errno, "%s: open", place_path(&p, to_at, to));
		close(in);
		return -1;
	}
	if (depth == 0) {
		c.top_dev = made.st_dev;
		c.top_ino = made.st_ino;
	}
	if (copy_entries(&c, in, out, depth) < 0)
		return -1;
	/* Last: a read-only folder could not be filled, and filling it changes its time. */
	return set_times(out, &st, c.e) < 0 ? err_wrap(c.e, "%s", place_path(&p, to_at, to)) : 0;
}

static int copy_entry(const struct copier *c, int from_at, const char *from, int to_at, const char *to,
                      int depth)
{
	struct stat st;
	struct place p;

	if (depth > DEPTH_MAX)
		return err_set(c->e, ERR_LIMIT, "%s: deeper than %d folders", place_path(&p, from_at, from),
		               DEPTH_MAX);
	if (fstatat(from_at, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(c->e, errno, "%s", place_path(&p, from_at, from));
	if (S_ISLNK(st.st_mode))
		return copy_link(from_at, from, to_at, to, &st, c->e);
	if (!S_ISDIR(st.st_mode))
		return copy_file(from_at, from, to_at, to, c->e);
	if (depth > 0 && st.st_dev == c->top_dev && st.st_ino == c->top_ino)
		return err_set(c->e, ERR_INVALID, "%s: a folder cannot be copied into itself",
		               place_path(&p, from_at, from));
	return copy_dir(c, from_at, from, to_at, to, depth);
}

int fs_copy_tree(const char *from, const char *to, struct err *e)
{
	struct copier c = {.e = e};

	return copy_entry(&c, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---- measuring --------------------------------------------------------------------------------- */

struct inode {
	ino_t ino;
	UT_hash_handle hh;
};

struct meter {
	dev_t dev;
	int64_t blocks;
	struct inode *linked; /* files with several names that were counted */
	struct err *e;
};

static int count_once(struct meter *m, ino_t ino)
{
	struct inode *i;

	HASH_FIND(hh, m->linked, &ino, sizeof(ino), i);
	if (i)
		return 0;
	i = xcalloc(1, sizeof(*i));
	i->ino = ino;
	HASH_ADD(hh, m->linked, ino, sizeof(i->ino), i);
	return 1;
}

static int measure_dir(struct meter *m, int fd, int depth);

static int measure_entry(struct meter *m, int at, const char *name, int depth)
{
	struct stat st;
	struct place p;
	int fd;

	/* The tree is in use while it is measured: what is gone is gone. */
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(m->e, errno, "%s", place_path(&p, at, name));
	if (st.st_dev != m->dev)
		return 0;
	if (S_ISDIR(st.st_mode) || st.st_nlink < 2 || count_once(m, st.st_ino))
		m->blocks += st.st_blocks;
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (depth >= DEPTH_MAX)
		return err_set(m->e, ERR_LIMIT, "%s: deeper than %d folders", place_path(&p, at, name), DEPTH_MAX);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR
		           ? 0
		           : err_sys(m->e, errno, "%s: open", place_path(&p, at, name));
	return measure_dir(m, fd, depth + 1);
}

/* Takes fd. */
static int measure_dir(struct meter *m, int fd, int depth)
{
	DIR *d = fdopendir(fd);
	const struct dirent *entry;
	int rc = 0;

	if (!d) {
		err_sys(m->e, errno, "read folder");
		close(fd);
		return -1;
	}
	while (rc == 0 && (entry = readdir(d)))
		if (!is_dots(entry->d_name))
			rc = measure_entry(m, dirfd(d), entry->d_name, depth);
	closedir(d);
	return rc;
}

int64_t fs_tree_bytes(const char *path, struct err *e)
{
	struct meter m = {.e = e};
	struct inode *i, *next;
	struct stat st;
	int rc;

	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "%s", path);
	m.dev = st.st_dev;
	rc = measure_entry(&m, AT_FDCWD, path, 0);
	HASH_ITER (hh, m.linked, i, next) {
		HASH_DEL(m.linked, i);
		free(i);
	}
	return rc < 0 ? -1 : m.blocks * 512;
}
