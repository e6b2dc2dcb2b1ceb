/*
 * proc: identity, signals and the sweep. Starting processes: spawn.c.
 *
 * Order matters everywhere: first a pidfd, then the check who it is, then the signal. In this order a
 * pid that was reused in between can only make the signal miss, never hit somebody else.
 */
#include "common/os/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/base/strutil.h"
#include "common/os/fsutil.h"

/* ---- identity ---------------------------------------------------------------------------------- */

int proc_boot_id(char out[PROC_BOOT_ID_SIZE], struct err *e)
{
	const char *test = getenv("HEARTH_TEST_BOOT_ID");
	cleanup_free char *text = NULL;
	size_t n;

	if (test)
		text = xstrdup(test);
	else if (fs_read_file("/proc/sys/kernel/random/boot_id", 256, &text, NULL, e) < 0)
		return -1;
	n = strcspn(text, "\n");
	if (n == 0 || n >= PROC_BOOT_ID_SIZE)
		return err_set(e, ERR_IO, "boot id has %zu characters", n);
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

struct stat_line {
	char state;
	uint64_t threads, start_ticks;
};

/* /proc/PID/stat. The name of the program, in brackets, may hold anything: look from the last ')'. */
static int read_stat(pid_t pid, struct stat_line *out, struct err *e)
{
	cleanup_free char *text = NULL;
	char path[32], *p, *save = NULL, *word;
	struct stat_line line = {0};
	int field = 3;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read_file(path, 8192, &text, NULL, e) < 0) {
		/* Read of a process that ends meanwhile gives ESRCH. */
		if (e && kill(pid, 0) < 0 && errno == ESRCH)
			err_set(e, ERR_NOT_FOUND, "process %d is gone", (int)pid);
		return -1;
	}
	p = strrchr(text, ')');
	for (word = p ? strtok_r(p + 1, " ", &save) : NULL; word; word = strtok_r(NULL, " ", &save), field++) {
		if (field == 3)
			line.state = word[0];
		else if (field == 20 && str_parse_u64(word, &line.threads) < 0)
			break;
		else if (field == 22) {
			if (str_parse_u64(word, &line.start_ticks) < 0)
				break;
			*out = line;
			return 0;
		}
	}
	return err_set(e, ERR_IO, "%s: not understood", path);
}

/* Dead and only waiting for its parent. A main thread that ended before the others also shows Z. */
static int is_dead(const struct stat_line *line)
{
	return line->state == 'X' || (line->state == 'Z' && line->threads <= 1);
}

int proc_identify(pid_t pid, struct proc_id *out, struct err *e)
{
	struct proc_id id = {.pid = pid};
	struct stat_line line;

	if (pid <= 0)
		return err_set(e, ERR_INVALID, "%d is not a process id", (int)pid);
	if (proc_boot_id(id.boot_id, e) < 0 || read_stat(pid, &line, e) < 0)
		return -1;
	id.start_ticks = line.start_ticks;
	*out = id;
	return 0;
}

int proc_alive(const struct proc_id *id, struct err *e)
{
	char boot_id[PROC_BOOT_ID_SIZE];
	struct stat_line line;
	struct err why;

	if (id->pid <= 0)
		return err_set(e, ERR_INVALID, "%d is not a process id", (int)id->pid);
	if (proc_boot_id(boot_id, e) < 0)
		return -1;
	if (strcmp(boot_id, id->boot_id) != 0)
		return 0;
	if (read_stat(id->pid, &line, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		if (e)
			*e = why;
		return -1;
	}
	return line.start_ticks == id->start_ticks && !is_dead(&line);
}

static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0u); /* always close-on-exec */
}

int proc_open(const struct proc_id *id, struct err *e)
{
	int fd, alive;

	if (id->pid <= 0)
		return err_set(e, ERR_INVALID, "%d is not a process id", (int)id->pid);
	fd = pidfd_of(id->pid);
	if (fd < 0 && errno == ESRCH)
		return err_set(e, ERR_NOT_FOUND, "process %d is gone", (int)id->pid);
	if (fd < 0)
		return err_sys(e, errno, "pidfd of process %d", (int)id->pid);
	alive = proc_alive(id, e);
	if (alive == 1)
		return fd;
	close(fd);
	return alive < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "process %d is gone", (int)id->pid);
}

int proc_signal(int pidfd, int signo, struct err *e)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0u) == 0)
		return 0;
	if (errno == ESRCH)
		return err_set(e, ERR_NOT_FOUND, "the process is gone");
	return err_sys(e, errno, "send %s", proc_signal_name(signo));
}

/* ---- the sweep --------------------------------------------------------------------------------- */

#define SWEEP_FDS  64  /* processes of one round that are waited for */
#define SWEEP_WAIT 100 /* ms, so that the next round does not find the same ones dying */

/* Is `entry` one of the NUL-separated strings of this file? Read in pieces: an environment has no bound. */
static int file_has_entry(const char *path, const char *entry, size_t len)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[8192];
	size_t at = 0; /* bytes of entry that match so far, len + 1: this string does not match */
	ssize_t n;

	if (fd < 0)
		return 0;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (chunk[i] == '\0') {
				if (at == len)
					return 1;
				at = 0;
			} else {
				at = at < len && chunk[i] == entry[at] ? at + 1 : len + 1;
			}
		}
	}
	return at == len;
}

/* A process whose main thread has ended shows its environment only through another thread. */
static int other_thread_has(pid_t pid, const char *entry, size_t len)
{
	const struct dirent *d;
	struct stat_line line;
	char path[320];
	int found = 0;
	DIR *tasks;

	if (read_stat(pid, &line, NULL) < 0 || line.state != 'Z' || line.threads < 2)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && !found && (d = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/environ", (int)pid, d->d_name);
		found = isdigit((unsigned char)d->d_name[0]) && file_has_entry(path, entry, len);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static int has_entry(pid_t pid, const char *entry, size_t len)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	return file_has_entry(path, entry, len) || other_thread_has(pid, entry, len);
}

static pid_t pid_of_name(const char *name)
{
	uint64_t v;

	return str_parse_u64(name, &v) == 0 && v > 0 && v < INT32_MAX ? (pid_t)v : -1;
}

struct sweep {
	char *entry;
	size_t len;
	int signo;                    /* 0: count only */
	pid_t *seen;                  /* signalled in any round */
	int n_seen, found;            /* found: in this round */
	struct pollfd fds[SWEEP_FDS]; /* of this round */
	nfds_t n_fds;
};

static int remember_pid(struct sweep *s, pid_t pid)
{
	for (int i = 0; i < s->n_seen; i++)
		if (s->seen[i] == pid)
			return 0;
	s->seen = xreallocarray(s->seen, (size_t)s->n_seen + 1, sizeof(*s->seen));
	s->seen[s->n_seen++] = pid;
	return 1;
}

static void sweep_one(struct sweep *s, pid_t pid)
{
	int fd = s->signo ? pidfd_of(pid) : -1;

	if ((s->signo && fd < 0) || !has_entry(pid, s->entry, s->len)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (s->signo && proc_signal(fd, s->signo, NULL) == 0)
		remember_pid(s, pid);
	s->found++;
	if (fd >= 0 && s->n_fds < SWEEP_FDS)
		s->fds[s->n_fds++] = (struct pollfd){.fd = fd, .events = POLLIN};
	else if (fd >= 0)
		close(fd);
}

static int sweep_round(struct sweep *s, struct err *e)
{
	DIR *d = opendir("/proc");
	const struct dirent *entry;
	pid_t pid;

	if (!d)
		return err_sys(e, errno, "/proc");
	s->found = 0;
	while ((entry = readdir(d))) {
		pid = pid_of_name(entry->d_name);
		if (pid > 0 && pid != getpid())
			sweep_one(s, pid);
	}
	closedir(d);
	return 0;
}

/* Until all of this round have ended, but each at most SWEEP_WAIT in all. */
static void sweep_wait(struct sweep *s)
{
	for (nfds_t i = 0; i < s->n_fds; i++) {
		poll(&s->fds[i], 1, SWEEP_WAIT / (int)s->n_fds + 1);
		close(s->fds[i].fd);
	}
	s->n_fds = 0;
}

int proc_sweep_env(const char *name, const char *value, int signo, int max_rounds, struct err *e)
{
	struct sweep s = {.signo = signo};
	int rc = 0, n;

	if (signo <= 0)
		return err_set(e, ERR_INVALID, "%d is not a signal", signo);
	s.entry = xasprintf("%s=%s", name, value);
	s.len = strlen(s.entry);
	for (int round = 0; rc == 0 && round < max_rounds; round++) {
		rc = sweep_round(&s, e);
		sweep_wait(&s);
		if (s.found == 0)
			break;
	}
	n = s.n_seen;
	free(s.seen);
	free(s.entry);
	return rc < 0 ? -1 : n;
}

int proc_count_env(const char *name, const char *value, struct err *e)
{
	struct sweep s = {.signo = 0};
	int rc;

	s.entry = xasprintf("%s=%s", name, value);
	s.len = strlen(s.entry);
	rc = sweep_round(&s, e);
	free(s.entry);
	return rc < 0 ? -1 : s.found;
}

/* ---- names of signals -------------------------------------------------------------------------- */

static const struct {
	int number;
	const char *name;
} signals[] = {
#define S(name)                                                                                              \
	{                                                                                                        \
		name, #name                                                                                          \
	}
    S(SIGHUP),  S(SIGINT),    S(SIGQUIT), S(SIGILL),   S(SIGTRAP), S(SIGABRT), S(SIGBUS),  S(SIGFPE),
    S(SIGKILL), S(SIGUSR1),   S(SIGSEGV), S(SIGUSR2),  S(SIGPIPE), S(SIGALRM), S(SIGTERM), S(SIGSTKFLT),
    S(SIGCHLD), S(SIGCONT),   S(SIGSTOP), S(SIGTSTP),  S(SIGTTIN), S(SIGTTOU), S(SIGURG),  S(SIGXCPU),
    S(SIGXFSZ), S(SIGVTALRM), S(SIGPROF), S(SIGWINCH), S(SIGIO),   S(SIGPWR),  S(SIGSYS),
#undef S
};
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

const char *proc_signal_name(int signo)
{
	static __thread char unknown[24];

	for (size_t i = 0; i < N_SIGNALS; i++)
		if (signals[i].number == signo)
			return signals[i].name;
	snprintf(unknown, sizeof(unknown), "signal %d", signo);
	return unknown;
}

int proc_signal_parse(const char *name)
{
	uint64_t number;

	if (str_parse_u64(name, &number) == 0)
		return number >= 1 && number <= 64 ? (int)number : -1;
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (strcasecmp(signals[i].name, name) == 0 || strcasecmp(signals[i].name + 3, name) == 0)
			return signals[i].number;
	return -1;
}
