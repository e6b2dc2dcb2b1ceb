/*
 * fsbelow: files below a folder that another account writes. A path through such a folder means whatever that
 * account wants at this moment, so everything starts from a descriptor that is held, and no step is a link, a
 * way up or another mount (a file system of that account's own could answer never).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define RACES_MAX 16

/* Never blocking (FIFOs, terminals), never becoming the controlling terminal. */
#define ALWAYS (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

static int not_allowed(const char *part)
{
	return part[0] == '\0' || strcmp(part, ".") == 0 || strcmp(part, "..") == 0;
}

int fs_open_below_steps(int dir, const char *path, int flags, mode_t mode)
{
	cleanup_free char *copy = xstrdup(path);
	char *part = copy, *slash;
	int at = dir, next, saved;

	for (;;) {
		slash = strchr(part, '/');
		if (slash)
			*slash = '\0';
		if (not_allowed(part)) {
			next = -1;
			errno = EXDEV;
		} else if (slash) {
			next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		} else {
			next = openat(at, part, flags | ALWAYS, mode);
		}
		saved = errno;
		if (at != dir)
			close(at);
		errno = saved;
		if (next < 0 || !slash)
			return next;
		at = next;
		part = slash + 1;
	}
}

int fs_open_below(int dir, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
	    .flags = (uint64_t)(unsigned)(flags | ALWAYS),
	    .mode = flags & O_CREAT ? mode : 0,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	int fd = -1;

	/* EAGAIN: something was renamed meanwhile, and the kernel is not sure. */
	for (int i = 0; i < RACES_MAX; i++) {
		fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	/* Before Linux 5.6, or forbidden by a container's filter: mounts are crossed then. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return fs_open_below_steps(dir, path, flags, mode);
	return fd;
}

int fs_read_below(int dir, const char *path, uid_t owner, size_t max, char **data, size_t *n, struct err *e)
{
	cleanup_close int fd = fs_open_below(dir, path, O_RDONLY, 0);
	struct stat st;
	size_t len = 0;
	ssize_t got;
	char *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s: not a regular file", path);
	/* A second name (hard link) of somebody else's file is not this account's to show. */
	if (st.st_uid != owner)
		return err_set(e, ERR_DENIED, "%s: belongs to account %u, not %u", path, (unsigned)st.st_uid,
		               (unsigned)owner);
	p = xmalloc(max + 1);
	while (len < max && (got = read(fd, p + len, max - len)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			err_sys(e, errno, "%s: read", path);
			free(p);
			return -1;
		}
		len += (size_t)got;
	}
	p[len] = '\0';
	*data = p;
	*n = len;
	return 0;
}
