/*
 * Control groups that fail: every n-th mkdir, open, write and rmdir below .../hearth, n = 1, 2, ... until
 * none is left. What is not in force is in the notes; what is inside is killed all the same, and in the end
 * nothing is left of any group; the next launch has its groups as if nothing had been.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/container/cgroup.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* ---- the n-th call ------------------------------------------------------------------------------------- */

enum op { OP_MKDIR, OP_OPEN, OP_WRITE, OP_RMDIR, N_OPS };
static const char *const op_names[] = {"mkdir", "open", "write", "rmdir"};

static struct {
	int on;
	enum op op;
	unsigned nth, count, failed;
	int watched; /* the descriptor that was opened last */
} faults = {.watched = -1};

static int fails(enum op op, const char *path)
{
	if (!faults.on || faults.op != op || (path && !strstr(path, "/hearth")) || ++faults.count != faults.nth)
		return 0;
	faults.failed++;
	errno = ENOSPC;
	return 1;
}

int __real_mkdir(const char *path, mode_t mode);
int __real_rmdir(const char *path);
int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *p, size_t n);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_rmdir(const char *path);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *p, size_t n);

int __wrap_mkdir(const char *path, mode_t mode)
{
	return fails(OP_MKDIR, path) ? -1 : __real_mkdir(path, mode);
}

int __wrap_rmdir(const char *path)
{
	return fails(OP_RMDIR, path) ? -1 : __real_rmdir(path);
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;
	int mode, fd;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	if ((flags & O_ACCMODE) != O_RDONLY && fails(OP_OPEN, path))
		return -1;
	fd = __real_open(path, flags, mode);
	if ((flags & O_ACCMODE) != O_RDONLY && strstr(path, "/hearth"))
		faults.watched = fd;
	return fd;
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
	return fd == faults.watched && fails(OP_WRITE, NULL) ? -1 : __real_write(fd, p, n);
}

static void arm(enum op op, unsigned nth)
{
	faults.on = 1;
	faults.op = op;
	faults.nth = nth;
	faults.count = faults.failed = 0;
}

/* ---- a launch's groups --------------------------------------------------------------------------------- */

static struct cg_layout layout;
static char node[40];
static uint32_t cpus[] = {0};
static const struct cg_limits limits = {
    .memory_bytes = 256u << 20, .cpus = cpus, .n_cpus = 1, .cpu_quota = 0.5, .pids_max = 300};

static int holds(const char *of, const char *file, const char *want)
{
	char *path = xasprintf("%s/%s", of ? of : "/nonexistent", file), *text = NULL;
	int yes = fs_read_file(path, 4096, &text, NULL, NULL) == 0 && strncmp(text, want, strlen(want)) == 0;

	free(text);
	free(path);
	return yes;
}

static unsigned in_force(const struct cgroup *cg)
{
	return (unsigned)(holds(cg->dir[CG_MEMORY], "memory.limit_in_bytes", "268435456") ||
	                  holds(cg->dir[CG_V2], "memory.max", "268435456")) +
	       (unsigned)(holds(cg->dir[CG_CPUSET], "cpuset.cpus", "0") ||
	                  holds(cg->dir[CG_V2], "cpuset.cpus", "0")) +
	       (unsigned)(holds(cg->dir[CG_CPU], "cpu.cfs_quota_us", "50000") ||
	                  holds(cg->dir[CG_V2], "cpu.max", "50000")) +
	       (unsigned)(holds(cg->dir[CG_PIDS], "pids.max", "300") || holds(cg->dir[CG_V2], "pids.max", "300"));
}

/* Folders that are there of this test's node. */
static unsigned left(void)
{
	unsigned n = 0;

	for (int i = 0; i < CG_N; i++) {
		char *path = layout.base[i] ? xasprintf("%s/hearth/%s", layout.base[i], node) : NULL;

		n += path && access(path, F_OK) == 0;
		free(path);
	}
	return n;
}

static int clear(struct cgroup *cg, unsigned tries)
{
	struct err e = {0};
	int rc = -1;

	for (; rc < 0 && tries; tries--)
		rc = cgroup_remove(cg, &e);
	return rc;
}

/* A process in all of them; *out: of how many it could not be made one. */
static pid_t member(const struct cgroup *cg, unsigned *out)
{
	struct strv files = {0};
	char text[20];
	pid_t pid = fork();

	if (pid < 0)
		tap_bail("fork: %s", strerror(errno));
	if (pid == 0) {
		for (;;)
			pause();
	}
	snprintf(text, sizeof(text), "%d", (int)pid);
	cgroup_procs_files(cg, &files);
	for (size_t i = 0; i < files.n; i++) {
		int fd = __real_open(files.v[i], O_WRONLY | O_CLOEXEC);

		*out += fd < 0 || __real_write(fd, text, strlen(text)) < 0;
		if (fd >= 0)
			close(fd);
	}
	strv_fini(&files);
	return pid;
}

static int enters_all(const struct cgroup *cg)
{
	unsigned out = 0;
	pid_t pid = member(cg, &out);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return out == 0;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static unsigned base_notes, base_force;

static void test_sound(void)
{
	struct strv notes = {0};
	struct cgroup cg;

	cgroup_create(&cg, &layout, node, "1.1", &limits, &notes);
	base_notes = (unsigned)notes.n;
	base_force = in_force(&cg);
	for (size_t i = 0; i < notes.n; i++)
		tap_diag("here: %s", notes.v[i]);
	ok(base_force > 0, "%u of 4 limits are in force here", base_force);
	is_int(clear(&cg, 1), 0, "and go again");
	is_int((int)left(), 0, "whole");
	strv_fini(&notes);
}

static void test_making(enum op op)
{
	unsigned n, silent = 0, kept = 0, other = 0, shut = 0;

	for (n = 1;; n++) {
		struct strv notes = {0};
		struct cgroup cg;

		arm(op, n);
		cgroup_create(&cg, &layout, node, "1.1", &limits, &notes);
		faults.on = 0;
		if (notes.n < base_notes + (base_force - in_force(&cg))) {
			silent++;
			tap_diag("the %u. %s: %u limits in force, %zu notes", n, op_names[op], in_force(&cg), notes.n);
		}
		shut += !enters_all(&cg);
		kept += clear(&cg, 1) < 0 || left() > 0;
		strv_fini(&notes);
		cgroup_create(&cg, &layout, node, "1.1", &limits, &notes);
		other += notes.n != base_notes || in_force(&cg) != base_force;
		clear(&cg, 1);
		strv_fini(&notes);
		if (!faults.failed)
			break;
	}
	ok(n > 3, "each of %u calls of %s fails while groups are made", n - 1, op_names[op]);
	is_int((int)silent, 0, "what is not in force is in the notes");
	is_int((int)shut, 0, "those that were made can be entered");
	is_int((int)kept, 0, "no group is left");
	is_int((int)other, 0, "the next ones are whole");
}

/* As an agent does it: again until nothing is inside, and nothing is there. */
static void test_ending(enum op op)
{
	unsigned n, alive = 0, kept = 0, unnamed = 0, out = 0;

	for (n = 1; n < 200; n++) {
		struct strv notes = {0};
		struct cgroup cg;
		struct err e = {0};
		pid_t pid;
		int status, rc;

		cgroup_create(&cg, &layout, node, "1.1", &limits, &notes);
		pid = member(&cg, &out);
		arm(op, n);
		cgroup_kill(&cg);
		cgroup_kill(&cg);
		if (waitpid(pid, &status, WNOHANG) == 0) {
			struct timespec pause_ns = {.tv_nsec = 1000000};

			for (int i = 0; i < 30000 && waitpid(pid, &status, WNOHANG) == 0; i++) {
				nanosleep(&pause_ns, NULL);
				alive += i == 29999;
				cgroup_kill(&cg);
			}
		}
		rc = cgroup_remove(&cg, &e);
		unnamed += rc < 0 && (!strstr(e.text, strerror(ENOSPC)) || !strstr(e.text, "/hearth/"));
		faults.on = 0;
		/* A level that could not be removed goes with the next launch. */
		kept += clear(&cg, 1) < 0;
		strv_fini(&notes);
		cgroup_create(&cg, &layout, node, "1.1", &limits, &notes);
		kept += clear(&cg, 1) < 0 || left() > 0;
		strv_fini(&notes);
		if (!faults.failed)
			break;
	}
	ok(n > 1 && n < 200, "each of %u calls of %s fails while a process is ended", n - 1, op_names[op]);
	is_int((int)out, 0, "of all of them");
	is_int((int)alive, 0, "what is inside is killed");
	is_int((int)unnamed, 0, "what cannot be removed is named, with the cause");
	is_int((int)kept, 0, "and is gone with the next try");
}

int main(void)
{
	int any = 0;

	snprintf(node, sizeof(node), "nth-%d", (int)getpid());
	cg_layout_read(&layout, "/proc/self/mountinfo", "/proc/self/cgroup", geteuid() == 0);
	for (int i = 0; i < CG_N; i++)
		any |= layout.base[i] != NULL;
	if (!any)
		tap_skip_all("no control groups can be made here");
	test_sound();
	test_making(OP_MKDIR);
	test_making(OP_OPEN);
	test_making(OP_WRITE);
	test_ending(OP_OPEN);
	test_ending(OP_WRITE);
	test_ending(OP_RMDIR);
	cg_layout_fini(&layout);
	return tap_done();
}
