/*
 * fsnamed: paths that a user names. Links are followed, because a user may lay out files with them; but not
 * those of procfs, which lead to whatever a process holds open. A file must be on a file system that holds
 * data: the files of procfs and its like show the kernel and its processes, not what a user stored.
 *
 * The caller must have become that user (agent/files/identity.h): the kernel then decides the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

static const struct {
	uint32_t magic;
	const char *name;
} no_data[] = {
    {PROC_SUPER_MAGIC, "procfs"},
    {SYSFS_MAGIC, "sysfs"},
    {CGROUP_SUPER_MAGIC, "cgroup"},
    {CGROUP2_SUPER_MAGIC, "cgroup2"},
    {DEVPTS_SUPER_MAGIC, "devpts"},
    {DEBUGFS_MAGIC, "debugfs"},
    {TRACEFS_MAGIC, "tracefs"},
    {SECURITYFS_MAGIC, "securityfs"},
    {SELINUX_MAGIC, "selinuxfs"},
    {BPF_FS_MAGIC, "bpf"},
    {EFIVARFS_MAGIC, "efivarfs"},
    {PSTOREFS_MAGIC, "pstore"},
    {BINFMTFS_MAGIC, "binfmt_misc"},
    {NSFS_MAGIC, "nsfs"},
    {PIPEFS_MAGIC, "pipefs"},
    {SOCKFS_MAGIC, "sockfs"},
    {ANON_INODE_FS_MAGIC, "anon_inodefs"},
};

int fs_check_data(int fd, const char *shown, struct err *e)
{
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return err_sys(e, errno, "%s", shown);
	for (size_t i = 0; i < sizeof(no_data) / sizeof(no_data[0]); i++)
		if ((uint32_t)st.f_type == no_data[i].magic)
			return err_set(e, ERR_INVALID,
			               "%s: is on %s, which shows the kernel and its processes; name a file or folder of "
			               "a file system that stores data",
			               shown, no_data[i].name);
	return 0;
}

static int open_named(int at, const char *path, int flags, struct err *e)
{
	struct open_how how = {.flags = (uint64_t)(unsigned)flags, .resolve = RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, at, path, &how, sizeof(how));

	if (fd >= 0)
		return fd;
	/* Looking (O_PATH) needs no right that could be missing, so EPERM is a filter's. */
	if (errno == ENOSYS || (errno == EPERM && (flags & O_PATH)))
		/* Without it a link of procfs is like any other. */
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "%s: this node cannot open files of users safely: openat2 is missing (Linux before 5.6) "
		    "or forbidden (a container's filter)",
		    path);
	/* Descriptors of other processes by their numbers, too, which this process may lack. */
	if (errno == ELOOP || strncmp(path, "/proc/", 6) == 0)
		return err_set(
		    e, ERR_INVALID,
		    "%s: leads through a link of procfs (/proc/PID/fd, cwd, root, exe), or through too many "
		    "links; name the file by its own path",
		    path);
	return err_sys(e, errno, "%s", path);
}

static int check_named(int fd, const char *path, struct stat *st, struct err *e)
{
	if (fstat(fd, st) < 0)
		return err_sys(e, errno, "%s", path);
	if (fs_check_data(fd, path, e) < 0)
		return -1;
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return err_set(e, ERR_INVALID, "%s: is neither a file nor a folder", path);
	return 0;
}

int fs_open_named(int at, const char *path, int flags, struct stat *st, struct err *e)
{
	/* First without opening it: to open a device may do things. */
	int fd = open_named(at, path, O_PATH | O_CLOEXEC, e);

	if (fd >= 0 && check_named(fd, path, st, e) == 0) {
		if (flags & O_PATH)
			return fd;
		close(fd);
		fd = open_named(at, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, e);
		if (fd < 0 || check_named(fd, path, st, e) == 0) /* again: another one may have its name by now */
			return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}
