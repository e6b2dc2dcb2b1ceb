/*
 * marks: see marks.h. proc_sweep_env and proc_count_env (proc.h) are looks for a single mark.
 */
#include "common/os/marks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <uthash.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"

#define FDS_MAX 64  /* processes that marks_wait waits for */
#define WAIT_MS 100 /* of proc_sweep_env, so that the next round does not find the same ones dying */

struct mark {
	char *value;
	uint32_t found;
	UT_hash_handle hh;
};

struct seen { /* a process that was signalled in any scan */
	pid_t pid;
	UT_hash_handle hh;
};

struct marks {
	char *prefix; /* NAME= */
	size_t prefix_len, n, cap;
	struct mark **v, *by_value;
	struct seen *seen;
	uint32_t strangers;
	int keeps_seen;
	char *environ; /* of the process that is looked at */
	struct pollfd fds[FDS_MAX];
	nfds_t n_fds;
};

/* ---- the set --------------------------------------------------------------------------------------- */

struct marks *marks_create(const char *name)
{
	struct marks *m = xcalloc(1, sizeof(*m));

	m->prefix = xasprintf("%s=", name);
	m->prefix_len = strlen(m->prefix);
	m->environ = xmalloc(MARKS_ENVIRON_MAX);
	return m;
}

static void close_fds(struct marks *m)
{
	for (nfds_t i = 0; i < m->n_fds; i++)
		close(m->fds[i].fd);
	m->n_fds = 0;
}

void marks_destroy(struct marks *m)
{
	struct seen *s, *next;

	if (!m)
		return;
	close_fds(m);
	HASH_CLEAR(hh, m->by_value);
	for (size_t i = 0; i < m->n; i++) {
		free(m->v[i]->value);
		free(m->v[i]);
	}
	HASH_ITER (hh, m->seen, s, next) {
		HASH_DEL(m->seen, s);
		free(s);
	}
	free(m->v);
	free(m->environ);
	free(m->prefix);
	free(m);
}

static struct mark *find_mark(const struct marks *m, const char *value, size_t len)
{
	struct mark *k;

	HASH_FIND(hh, m->by_value, value, len, k);
	return k;
}

size_t marks_add(struct marks *m, const char *value)
{
	size_t len = strlen(value);
	struct mark *k = find_mark(m, value, len);

	for (size_t i = 0; k && i < m->n; i++)
		if (m->v[i] == k)
			return i;
	k = xcalloc(1, sizeof(*k));
	k->value = xstrdup(value);
	HASH_ADD_KEYPTR(hh, m->by_value, k->value, len, k);
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 16;
		m->v = xreallocarray(m->v, m->cap, sizeof(*m->v));
	}
	m->v[m->n] = k;
	return m->n++;
}

uint32_t marks_strangers(const struct marks *m)
{
	return m->strangers;
}

uint32_t marks_found(const struct marks *m, size_t i)
{
	return m->v[i]->found;
}

/* ---- one process ----------------------------------------------------------------------------------- */

/* Counts the marks in an environment. A last string that the bound has cut is not one. */
static int count_marks(struct marks *m, size_t n)
{
	const char *at = m->environ, *end = at + n;
	int found = 0;

	while (at < end) {
		size_t len = strnlen(at, (size_t)(end - at));
		struct mark *k = NULL;

		if (at + len == end && n == MARKS_ENVIRON_MAX)
			break;
		if (len >= m->prefix_len && memcmp(at, m->prefix, m->prefix_len) == 0) {
			k = find_mark(m, at + m->prefix_len, len - m->prefix_len);
			m->strangers += !k;
		}
		if (k) {
			k->found++;
			found = 1;
		}
		at += len + 1;
	}
	return found;
}

/* Bytes read, at most the bound; 0 also for a process that has none or may not be looked at. */
static size_t read_environ(struct marks *m, const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n;

	while (fd >= 0 && have < MARKS_ENVIRON_MAX) {
		n = read(fd, m->environ + have, MARKS_ENVIRON_MAX - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

/* A process whose main thread has ended shows its environment only through another thread. */
static int other_thread_has(struct marks *m, pid_t pid)
{
	const struct dirent *d;
	char path[320];
	int found = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && !found && (d = readdir(tasks))) {
		uint64_t tid;
		size_t n;

		if (str_parse_u64(d->d_name, &tid) < 0 || tid == (uint64_t)pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/environ", (int)pid, d->d_name);
		n = read_environ(m, path);
		found = n > 0 && count_marks(m, n);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static int has_mark(struct marks *m, pid_t pid)
{
	char path[32];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	n = read_environ(m, path);
	return n > 0 ? count_marks(m, n) : other_thread_has(m, pid);
}

static void remember_pid(struct marks *m, pid_t pid)
{
	struct seen *s;

	HASH_FIND(hh, m->seen, &pid, sizeof(pid), s);
	if (s)
		return;
	s = xcalloc(1, sizeof(*s));
	s->pid = pid;
	HASH_ADD(hh, m->seen, pid, sizeof(s->pid), s);
}

static int scan_one(struct marks *m, pid_t pid, int signo)
{
	int fd = signo ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1; /* always close-on-exec */

	if ((signo && fd < 0) || !has_mark(m, pid)) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	if (signo && proc_signal(fd, signo, NULL) == 0 && m->keeps_seen)
		remember_pid(m, pid);
	if (fd >= 0 && m->n_fds < FDS_MAX)
		m->fds[m->n_fds++] = (struct pollfd){.fd = fd, .events = POLLIN};
	else if (fd >= 0)
		close(fd);
	return 1;
}

/* ---- all ------------------------------------------------------------------------------------------- */

int marks_scan(struct marks *m, int signo, struct err *e)
{
	DIR *d = opendir("/proc");
	const struct dirent *entry;
	uint64_t pid;
	int found = 0;

	if (!d)
		return err_sys(e, errno, "/proc");
	close_fds(m);
	m->strangers = 0;
	for (size_t i = 0; i < m->n; i++)
		m->v[i]->found = 0;
	while ((entry = readdir(d)))
		if (str_parse_u64(entry->d_name, &pid) == 0 && pid > 0 && pid < INT32_MAX && (pid_t)pid != getpid())
			found += scan_one(m, (pid_t)pid, signo);
	closedir(d);
	return found;
}

void marks_wait(struct marks *m, uint32_t ms)
{
	uint64_t end = clock_boot_us(clock_real()) + ms * 1000ull, now;

	for (nfds_t i = 0; i < m->n_fds; i++) {
		now = clock_boot_us(clock_real());
		if (now >= end)
			break;
		poll(&m->fds[i], 1, (int)((end - now) / 1000 + 1));
	}
	close_fds(m);
}

/* ---- a single mark --------------------------------------------------------------------------------- */

int proc_sweep_env(const char *name, const char *value, int signo, int max_rounds, struct err *e)
{
	struct marks *m;
	int found = 1, n;

	if (signo <= 0)
		return err_set(e, ERR_INVALID, "%d is not a signal", signo);
	m = marks_create(name);
	m->keeps_seen = 1;
	marks_add(m, value);
	for (int round = 0; found > 0 && round < max_rounds; round++) {
		found = marks_scan(m, signo, e);
		marks_wait(m, WAIT_MS);
	}
	n = (int)HASH_COUNT(m->seen);
	marks_destroy(m);
	return found < 0 ? -1 : n;
}

int proc_count_env(const char *name, const char *value, struct err *e)
{
	struct marks *m = marks_create(name);
	int n;

	marks_add(m, value);
	n = marks_scan(m, 0, e);
	marks_destroy(m);
	return n;
}
