/*
 * copy: see copy.h. Every step is relative to an open folder and follows no link below the top; the depth is
 * bounded.
 */
#include "agent/base/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define DEPTH_MAX 128
#define PIECE     (8u * 1024 * 1024) /* between two looks at cancel and progress */
#define BUFFER    (256u * 1024)
#define SPARSE    (64u * 1024) /* a file with so many bytes fewer on disk has holes */

struct place { /* where in the source, for messages and skip */
	char path[4096];
	size_t n, root; /* root: length of the part that is `from` */
};

static int copy_entry(struct copy *c, struct place *p, int from_at, const char *from, int to_at,
                      const char *to, int depth, struct err *e);

static int push_name(struct place *p, const char *name, struct err *e)
{
	size_t len = strlen(name);

	if (p->n + 1 + len >= sizeof(p->path))
		return err_set(e, ERR_LIMIT, "%s/...: the path is too long", p->path);
	p->path[p->n] = '/';
	memcpy(p->path + p->n + 1, name, len + 1);
	p->n += 1 + len;
	return 0;
}

static void pop_name(struct place *p, size_t n)
{
	p->n = n;
	p->path[n] = '\0';
}

/* ---- files ----------------------------------------------------------------------------------------------
 */

static int count_bytes(struct copy *c, uint64_t n, struct err *e)
{
	c->bytes += n;
	if (c->limit && c->bytes > c->limit)
		return err_set(e, ERR_LIMIT, "more than the %" PRIu64 " bytes that are allowed", c->limit);
	if (c->step && c->step(n, c->arg) < 0)
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	return 0;
}

static int by_hand(struct copy *c, int in, int out, struct err *e)
{
	char *buf = xmalloc(BUFFER);
	ssize_t n;
	int rc = 0;

	while (rc == 0) {
		n = read(in, buf, BUFFER);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = err_sys(e, errno, "read");
		if (n <= 0)
			break;
		rc = fs_write_all(out, buf, (size_t)n, e);
		if (rc == 0)
			rc = count_bytes(c, (uint64_t)n, e);
	}
	free(buf);
	return rc;
}

static int copy_piece(int in, int out, off_t *at, off_t end, char *buf, struct err *e)
{
	off_t from = *at, to = *at;
	size_t want = end - from < (off_t)PIECE ? (size_t)(end - from) : PIECE;
	ssize_t n = copy_file_range(in, &from, out, &to, want, 0);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG))
		return err_sys(e, errno, "write");
	if (n <= 0) {
		n = pread(in, buf, want < BUFFER ? want : BUFFER, *at);
		if (n < 0)
			return errno == EINTR ? 0 : err_sys(e, errno, "read");
		if (n == 0)
			return err_set(e, ERR_CONFLICT, "was cut while it was copied");
		n = pwrite(out, buf, (size_t)n, *at);
		if (n < 0)
			return errno == EINTR ? 0 : err_sys(e, errno, "write");
	}
	*at += n;
	return 0;
}

/* Its data alone: a hole takes no room, and all of its bytes count. */
static int copy_sparse(struct copy *c, int in, int out, off_t size, struct err *e)
{
	cleanup_free char *buf = xmalloc(BUFFER);
	off_t at = 0, counted = 0, end;
	int rc = 0;

	while (rc == 0 && (at = lseek(in, at, SEEK_DATA)) >= 0 && at < size) {
		end = lseek(in, at, SEEK_HOLE);
		end = end < 0 || end > size ? size : end;
		while (rc == 0 && at < end) {
			rc = copy_piece(in, out, &at, end, buf, e);
			if (rc == 0 && at > counted) {
				rc = count_bytes(c, (uint64_t)(at - counted), e);
				counted = at;
			}
		}
	}
	if (rc == 0 && ftruncate(out, size) < 0)
		rc = err_sys(e, errno, "write");
	return rc < 0 || counted == size ? rc : count_bytes(c, (uint64_t)(size - counted), e);
}

static int copy_contents(struct copy *c, int in, int out, const struct stat *st, struct err *e)
{
	uint64_t size = (uint64_t)st->st_size;
	ssize_t n;

	if (c->limit && c->bytes + size > c->limit) /* before the disk is filled */
		return count_bytes(c, size, e);
	if (size && lseek(out, 0, SEEK_CUR) == 0 && ioctl(out, FICLONE, in) == 0)
		return count_bytes(c, size, e);
	if (lseek(out, 0, SEEK_CUR) == 0 && (uint64_t)st->st_blocks * 512 + SPARSE < size)
		return copy_sparse(c, in, out, st->st_size, e);
	for (;;) {
		n = copy_file_range(in, NULL, out, NULL, PIECE, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG))
			return err_sys(e, errno, "write");
		if (n <= 0)
			break;
		if (count_bytes(c, (uint64_t)n, e) < 0)
			return -1;
	}
	/* Not between these file systems, or (some kernels, special files) nothing although there is something.
	 */
	return n < 0 || (lseek(out, 0, SEEK_CUR) == 0 && size > 0) ? by_hand(c, in, out, e) : 0;
}

/* What an earlier copy left of the file: it goes on at the last whole piece. 1: all of it is there. */
static int resume_file(struct copy *c, int in, int out, const struct stat *st, struct err *e)
{
	struct stat had;
	off_t at;

	if (fstat(out, &had) < 0)
		return err_sys(e, errno, "look");
	if (had.st_size == st->st_size && had.st_mtim.tv_sec == st->st_mtim.tv_sec &&
	    had.st_mtim.tv_nsec == st->st_mtim.tv_nsec) {
		c->resumed += (uint64_t)had.st_size;
		c->bytes += (uint64_t)had.st_size;
		return 1;
	}
	at = (uint64_t)st->st_blocks * 512 + SPARSE < (uint64_t)st->st_size || had.st_size > st->st_size
	         ? 0
	         : had.st_size / (off_t)PIECE * (off_t)PIECE;
	if (ftruncate(out, at) < 0 || lseek(out, at, SEEK_SET) < 0 || lseek(in, at, SEEK_SET) < 0)
		return err_sys(e, errno, "go on with the copy");
	c->resumed += (uint64_t)at;
	c->bytes += (uint64_t)at;
	return 0;
}

static int finish_file(struct copy *c, int fd, const struct stat *st, struct err *e)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (c->set_owner && fchown(fd, c->uid, c->gid) < 0)
		return err_sys(e, errno, "owner");
	if (fchmod(fd, (st->st_mode & 0777) | (S_ISDIR(st->st_mode) ? 0700 : 0)) < 0)
		return err_sys(e, errno, "mode");
	futimens(fd, times);
	if (c->sync && fsync(fd) < 0)
		return err_sys(e, errno, "sync");
	return 0;
}

static int copy_open_file(struct copy *c, int in, int to_at, const char *to, struct err *e)
{
	cleanup_close int out = -1;
	struct stat st;
	int whole = 0;

	if (fstat(in, &st) < 0)
		return err_sys(e, errno, "open");
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFLICT, "was replaced while it was copied");
	if (c->resume)
		out = openat(to_at, to, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (out >= 0 && (whole = resume_file(c, in, out, &st, e)) < 0)
		return -1;
	if (out < 0)
		out = openat(to_at, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0 && errno == EEXIST && unlinkat(to_at, to, 0) == 0)
		out = openat(to_at, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, errno, "create the copy");
	if (!whole && copy_contents(c, in, out, &st, e) < 0)
		return -1;
	c->files++;
	return finish_file(c, out, &st, e);
}

/* 1: it is there, and no byte was copied. */
static int share_file(int in, int from_at, const char *from, int to_at, const char *to)
{
	cleanup_close int out = openat(to_at, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int cloned = out >= 0 && ioctl(out, FICLONE, in) == 0;

	/* copy_open_file replaces what is there and clones again: this one lacks times and mode. */
	return !cloned && out >= 0 && unlinkat(to_at, to, 0) == 0 && linkat(from_at, from, to_at, to, 0) == 0;
}

static int copy_file(struct copy *c, int from_at, const char *from, int to_at, const char *to, struct err *e)
{
	cleanup_close int in = openat(from_at, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (in < 0)
		return err_sys(e, errno, "open");
	if (!c->hard_links || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) ||
	    !share_file(in, from_at, from, to_at, to))
		return copy_open_file(c, in, to_at, to, e);
	c->files++;
	return count_bytes(c, (uint64_t)st.st_size, e);
}

static int link_of(struct copy *c, int from_at, const char *from, int to_at, const char *to, struct err *e)
{
	char target[4097];
	ssize_t n = readlinkat(from_at, from, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, errno, "read link");
	target[n] = '\0';
	if (symlinkat(target, to_at, to) < 0 &&
	    (errno != EEXIST || unlinkat(to_at, to, 0) < 0 || symlinkat(target, to_at, to) < 0))
		return err_sys(e, errno, "create link");
	if (c->set_owner && fchownat(to_at, to, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "owner of link");
	c->files++;
	return 0;
}

/* ---- folders ----------------------------------------------------------------------------------------------
 */

static int open_folder(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Takes in. */
static int copy_entries(struct copy *c, struct place *p, int in, int out, int depth, struct err *e)
{
	DIR *d = fdopendir(in);
	const struct dirent *entry_;
	size_t before = p->n;
	int rc = 0;

	if (!d) {
		err_sys(e, errno, "read folder");
		close(in);
		return -1;
	}
	while (rc == 0 && (entry_ = readdir(d))) {
		const char *name = entry_->d_name;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		rc = push_name(p, name, e);
		if (rc == 0 && !(c->skip && c->skip(p->path + p->root + 1, c->arg)))
			rc = copy_entry(c, p, dirfd(d), name, out, name, depth + 1, e);
		if (rc == 0)
			pop_name(p, before);
	}
	closedir(d);
	return rc;
}

static int copy_folder(struct copy *c, struct place *p, int from_at, const char *from, int to_at,
                       const char *to, int depth, struct err *e)
{
	int in = open_folder(from_at, from);
	cleanup_close int out = -1;
	struct stat st;

	if (in < 0)
		return err_sys(e, errno, "open folder");
	if (fs_check_data(in, "folder", e) < 0) {
		close(in);
		return -1;
	}
	if (fstat(in, &st) < 0 || (mkdirat(to_at, to, 0700) < 0 && errno != EEXIST) ||
	    (out = open_folder(to_at, to)) < 0) {
		err_sys(e, errno, "make the copy of the folder");
		close(in);
		return -1;
	}
	if (copy_entries(c, p, in, out, depth, e) < 0)
		return -1;
	return finish_file(c, out, &st,
	                   e); /* last: a read-only folder could not be filled, and filling it changes its time */
}

static int copy_entry(struct copy *c, struct place *p, int from_at, const char *from, int to_at,
                      const char *to, int depth, struct err *e)
{
	struct stat st;

	if (depth > DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "deeper than %d folders", DEPTH_MAX);
	if (fstatat(from_at, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look");
	if (S_ISREG(st.st_mode))
		return copy_file(c, from_at, from, to_at, to, e);
	if (S_ISLNK(st.st_mode))
		return link_of(c, from_at, from, to_at, to, e);
	if (S_ISDIR(st.st_mode))
		return copy_folder(c, p, from_at, from, to_at, to, depth, e);
	c->special++;
	return 0;
}

static int place_init(struct place *p, const char *from, struct err *e)
{
	if (snprintf(p->path, sizeof(p->path), "%s", from) >= (int)sizeof(p->path))
		return err_set(e, ERR_LIMIT, "%.100s...: the path is too long", from);
	p->n = p->root = strlen(p->path);
	return 0;
}

/* p still says where it stopped. */
static int at_place(const struct place *p, int rc, struct err *e)
{
	if (rc < 0 && p->n > 300)
		err_wrap(e, "...%s", p->path + p->n - 300);
	else if (rc < 0)
		err_wrap(e, "%s", p->path);
	return rc;
}

int copy_tree(struct copy *c, const char *from, int to_dir, const char *name, struct err *e)
{
	struct place p;
	struct err why = {0};
	char *real;
	int rc;

	if (place_init(&p, from, e) < 0)
		return -1;
	real = realpath(from, NULL);
	if (!real) {
		err_sys(&why, errno, "look");
		rc = -1;
	} else {
		rc = copy_entry(c, &p, AT_FDCWD, real, to_dir, name, 0, &why);
	}
	free(real);
	if (at_place(&p, rc, &why) < 0)
		return err_set(e, why.code, "%s", why.text);
	return 0;
}

int copy_into(struct copy *c, const char *from, int to_dir, struct err *e)
{
	int in = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return in < 0 ? err_sys(e, errno, "%s: open folder", from) : copy_open(c, in, from, to_dir, NULL, e);
}

int copy_open(struct copy *c, int in, const char *shown, int to_dir, const char *name, struct err *e)
{
	struct place p;
	struct err why = {0};
	int rc;

	if (place_init(&p, shown, e) < 0) {
		close(in);
		return -1;
	}
	if (name) {
		rc = copy_open_file(c, in, to_dir, name, &why);
		close(in);
	} else {
		rc = copy_entries(c, &p, in, to_dir, 0, &why);
	}
	if (at_place(&p, rc, &why) < 0)
		return err_set(e, why.code, "%s", why.text);
	return 0;
}

int copy_at(struct copy *c, int from, const char *name, const char *shown, int to_dir, struct err *e)
{
	struct place p;
	struct err why = {0};

	if (place_init(&p, shown, e) < 0)
		return -1;
	if (at_place(&p, copy_entry(c, &p, from, name, to_dir, name, 0, &why), &why) < 0)
		return err_set(e, why.code, "%s", why.text);
	return 0;
}
