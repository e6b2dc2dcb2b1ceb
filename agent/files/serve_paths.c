/*
 * serve_paths: requests about one path that a user named: look, open, read, a folder for results, a folder of
 * checkpoints.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/serve_int.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/steps.h"

#define READ_MAX (16u * 1024 * 1024)

int serve_look(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct stat st;
	cleanup_close int fd = fs_open_named(AT_FDCWD, m->texts[0], O_RDONLY, &st, e);

	(void)s;
	if (fd < 0)
		return -1;
	reply->v[1] = S_ISDIR(st.st_mode);
	reply->v[2] = (uint64_t)st.st_size;
	return 0;
}

int serve_open(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	struct stat st;
	int fd = fs_open_named(AT_FDCWD, m->texts[0], O_RDONLY, &st, e);

	(void)s;
	if (fd < 0)
		return -1;
	reply->fd = fd;
	reply->v[1] = (uint64_t)st.st_size;
	return S_ISREG(st.st_mode) ? 0 : err_set(e, ERR_INVALID, "%s: is not a file", m->texts[0]);
}

int serve_read(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	const char *path = m->texts[0];
	size_t max = m->v[0] < READ_MAX ? (size_t)m->v[0] : READ_MAX, n = 0;
	cleanup_free char *text = NULL;
	cleanup_close int fd = -1;
	struct stat st;

	if (m->fd < 0)
		return err_set(e, ERR_PROTOCOL, "%s: its folder is missing", path);
	fd = fs_open_named(m->fd, path, O_RDONLY, &st, e);
	if (fd < 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s: is not a file", path);
	if (fs_read_fd(fd, path, max, &text, &n, e) < 0)
		return -1;
	reply->v[1] = n;
	return server_send_data(s, text, n, e);
}

/* ---- a folder for results --------------------------------------------------------------------------- */

int server_open_output(const char *dir, struct err *e)
{
	struct stat st;
	int fd = fs_open_named(AT_FDCWD, dir, O_PATH, &st, e);

	if (fd < 0 && e->code == ERR_NOT_FOUND) {
		if (fs_mkdir_p(dir, 0755, e) < 0)
			return err_wrap(e, "%s is not there and cannot be made", dir);
		fd = fs_open_named(AT_FDCWD, dir, O_PATH, &st, e);
	}
	if (fd < 0 || S_ISDIR(st.st_mode))
		return fd;
	close(fd);
	return err_set(e, ERR_CONFLICT, "%s is not a folder", dir);
}

/* ERR_CONFLICT: the path itself is wrong. Another attempt may write there: the probe has a name of its own.
 */
int serve_output(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	const char *dir = m->texts[0];
	cleanup_free char *probe =
	    xasprintf(".hearth-%x-%llx", (unsigned)getpid(), (unsigned long long)clock_real_us(clock_real()));
	cleanup_close int fd = -1;
	struct stat st;

	(void)s;
	(void)reply;
	fd = server_open_output(dir, e);
	if (fd < 0)
		return stat(dir, &st) < 0 && errno == ENOTDIR
		           ? err_set(e, ERR_CONFLICT, "%s: a part of its path is not a folder", dir)
		           : -1;
	if (mkdirat(fd, probe, 0700) < 0)
		return err_sys(e, errno, "%s cannot be written", dir);
	return unlinkat(fd, probe, AT_REMOVEDIR) < 0 ? err_sys(e, errno, "%s/%s", dir, probe) : 0;
}

/* ---- a folder of checkpoints ------------------------------------------------------------------------ */

/* Takes dir. Checkpoints of several nodes are in folders algo-K. */
static int add_steps(struct steps *steps, int dir, int depth, struct err *e)
{
	DIR *d = fdopendir(dir);
	const struct dirent *one;
	struct stat st;
	int sub;

	if (!d) {
		err_sys(e, errno, "read folder");
		close(dir);
		return -1;
	}
	while ((one = readdir(d))) {
		if (one->d_name[0] == '.')
			continue; /* hidden ones are no checkpoints (steps_entry) */
		if (depth || strncmp(one->d_name, "algo-", 5) != 0) {
			steps_add(steps, one->d_name, strlen(one->d_name));
			continue;
		}
		sub = fs_open_named(dirfd(d), one->d_name, O_RDONLY, &st, NULL);
		if (sub >= 0 && S_ISDIR(st.st_mode))
			add_steps(steps, sub, 1, NULL);
		else if (sub >= 0)
			close(sub);
	}
	closedir(d);
	return 0;
}

int serve_steps(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e)
{
	const char *dir = m->texts[0];
	struct steps steps = {.want = (int64_t)m->v[0]};
	struct stat st;
	int fd = fs_open_named(AT_FDCWD, dir, O_RDONLY, &st, e), rc;

	(void)s;
	(void)reply;
	if (fd < 0)
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		close(fd);
		return err_set(e, ERR_NOT_FOUND, "%s is not a folder of checkpoints", dir);
	}
	rc = add_steps(&steps, fd, 0, e);
	if (rc == 0 && steps_check(&steps, e) < 0)
		rc = err_wrap(e, "file://%s", dir);
	steps_fini(&steps);
	return rc;
}
