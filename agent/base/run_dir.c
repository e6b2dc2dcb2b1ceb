/*
 * run_dir: see run_dir.h. The path is walked by descriptors: what was checked is what the next name is looked
 * for in. Links are followed only where not everybody can make one.
 */
#include "agent/base/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"

/* Below a folder that everybody may write to, others may have made the name first. */
static int check_owner(int fd, const char *path, int last, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (st.st_uid == geteuid() || (st.st_uid == 0 && !last))
		return 0;
	return err_set(e, ERR_DENIED,
	               "%s belongs to the user %u, not to this agent's user %u; remove it or give another --run",
	               path, (unsigned)st.st_uid, (unsigned)geteuid());
}

static int open_below(int at, const char *name, const char *path, int shared, int last, struct err *e)
{
	int fd =
	    openat(at, name, O_DIRECTORY | O_CLOEXEC | (shared ? O_NOFOLLOW : 0) | (last ? O_RDONLY : O_PATH));

	if (fd < 0 && shared && (errno == ELOOP || errno == ENOTDIR))
		return err_set(
		    e, ERR_DENIED,
		    "%s is a link or a file, where everybody can make one; remove it or give another --run", path);
	return fd < 0 ? err_sys(e, errno, "%s", path) : fd;
}

static int is_shared(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IWOTH);
}

int run_dir_make(const char *path, mode_t mode, struct err *e)
{
	cleanup_free char *here = xstrdup(path); /* path so far */
	int at = path[0] == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1, shared = 0, last = 0, rc = 0;

	if (at < 0)
		return err_set(e, ERR_INVALID, "%s is not an absolute path", path);
	for (size_t from = 1, to; rc == 0 && !last; from = to + 1) {
		int fd;

		to = from + strcspn(path + from, "/");
		last = path[to + strspn(path + to, "/")] == '\0';
		if (to == from && !last)
			continue;
		here[to] = '\0';
		shared |= is_shared(at);
		if (mkdirat(at, here + from, shared || last ? mode : 0755) < 0 && errno != EEXIST)
			rc = err_sys(e, errno, "%s", here);
		fd = rc == 0 ? open_below(at, here + from, here, shared, last, e) : -1;
		if (fd < 0 || ((shared || last) && check_owner(fd, here, last, e) < 0))
			rc = -1;
		here[to] = path[to];
		close(at);
		at = fd;
	}
	if (rc == 0 && fchmod(at, mode) < 0)
		rc = err_sys(e, errno, "%s: mode", path);
	if (at >= 0)
		close(at);
	return rc;
}
