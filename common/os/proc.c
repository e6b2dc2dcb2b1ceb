/*
 * proc: identity and signals. Starting processes: spawn.c; finding them by a mark: marks.c.
 *
 * Order matters everywhere: first a pidfd, then the check who it is, then the signal. In this order a
 * pid that was reused in between can only make the signal miss, never hit somebody else.
 */
#include "common/os/proc.h"

#include <errno.h>
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
