/*
 * tree: see tree.h.
 *
 * A number read from /proc is not a process. First a pidfd, then the check that its parent is still the one
 * in whose list it stood (or this process, which inherits orphans): a number that was used again in between
 * fails the check, and one that is used again later leaves the pidfd without effect.
 *
 * No memory is taken (hence getdents64 and not opendir): the shim walks when it ends things, possibly because
 * memory is out.
 */
#include "shim/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/xalloc.h"

#define DEPTH_MAX 128 /* what is deeper moves up when those above are gone */
#define PID_MAX   4194304

struct walk {
	int (*fn)(pid_t pid, int pidfd, void *arg);
	void *arg;
	int sum;
};

static void walk_below(struct walk *w, pid_t pid, int depth);

/* Reads a whole small file of /proc; terminated. */
static ssize_t read_proc(const char *path, char *out, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n, have = 0;

	if (fd < 0)
		return -1;
	while ((size_t)have < size - 1) {
		n = read(fd, out + have, size - 1 - (size_t)have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		have += n;
	}
	out[have] = '\0';
	return have;
}

/* Out of /proc/PID/stat; the name may hold anything, so look from its last bracket. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_proc(path, text, sizeof(text)) < 0)
		return -1;
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || !p[2] || p[3] != ' ')
		return -1;
	return (pid_t)strtol(p + 4, NULL, 10);
}

static void visit_process(struct walk *w, pid_t pid, pid_t listed_by, int depth)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0u);
	pid_t parent;

	/* Tools that run programs on a processor of their own (valgrind) have no pidfds. */
	if (fd < 0 && errno != ENOSYS)
		return;
	parent = parent_of(pid);
	if (parent == listed_by || parent == getpid()) {
		w->sum += w->fn(pid, fd, w->arg);
		walk_below(w, pid, depth + 1);
	}
	if (fd >= 0)
		close(fd);
}

/* One list "12 13 14 "; numbers may be cut by the end of a read. */
static void walk_list(struct walk *w, const char *path, pid_t parent, int depth)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[512];
	int64_t pid = 0;
	ssize_t n;

	if (fd < 0)
		return;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (chunk[i] >= '0' && chunk[i] <= '9' && pid <= PID_MAX) {
				pid = pid * 10 + (chunk[i] - '0');
			} else if (pid) {
				visit_process(w, (pid_t)pid, parent, depth);
				pid = 0;
			}
		}
	}
	if (pid)
		visit_process(w, (pid_t)pid, parent, depth);
}

struct entry { /* of getdents64 */
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Every thread has a list of its own. */
static void walk_below(struct walk *w, pid_t pid, int depth)
{
	char path[64], list[1024] __attribute__((aligned(8)));
	cleanup_close int dir = -1;
	const struct entry *d;
	long n;

	if (depth > DEPTH_MAX)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (dir >= 0 && (n = syscall(SYS_getdents64, dir, list, sizeof(list))) > 0) {
		for (long at = 0; at < n; at += d->len) {
			d = (const struct entry *)(list + at);
			if (d->name[0] < '0' || d->name[0] > '9')
				continue;
			snprintf(path, sizeof(path), "/proc/%d/task/%.12s/children", (int)pid, d->name);
			walk_list(w, path, pid, depth);
		}
	}
}

int tree_walk(int (*fn)(pid_t pid, int pidfd, void *arg), void *arg)
{
	struct walk w = {.fn = fn, .arg = arg};

	walk_below(&w, getpid(), 0);
	return w.sum;
}

int tree_catches(pid_t pid, int signo)
{
	char path[32], text[4096];
	const char *p;
	uint64_t mask;

	if (signo < 1 || signo > 64)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (read_proc(path, text, sizeof(text)) < 0)
		return 0;
	p = strstr(text, "\nSigCgt:");
	if (!p)
		return 0;
	mask = strtoull(p + 8, NULL, 16);
	return (int)(mask >> (signo - 1) & 1);
}
