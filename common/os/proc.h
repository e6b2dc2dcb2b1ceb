/*
 * proc: starting processes and knowing them again.
 *
 * A process is known by boot id + pid + start time, never by pid alone: pids are reused, also after a
 * reboot. Signals go through a pidfd that was opened and checked against that identity.
 */
#ifndef HEARTH_COMMON_OS_PROC_H
#define HEARTH_COMMON_OS_PROC_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/xalloc.h"

#define PROC_BOOT_ID_SIZE 40 /* 36 characters + NUL */

struct proc_id {
	pid_t pid;
	uint64_t start_ticks;            /* field 22 of /proc/PID/stat */
	char boot_id[PROC_BOOT_ID_SIZE]; /* /proc/sys/kernel/random/boot_id */
};

int proc_boot_id(char out[PROC_BOOT_ID_SIZE], struct err *e); /* HEARTH_TEST_BOOT_ID overrides in tests */
int proc_identify(pid_t pid, struct proc_id *out, struct err *e);
/* 1: that very process runs; 0: gone (or another boot, or the pid is another process); -1 error. */
int proc_alive(const struct proc_id *id, struct err *e);
/* pidfd of that very process, or -1 (ERR_NOT_FOUND when gone). Caller closes. */
int proc_open(const struct proc_id *id, struct err *e);
int proc_signal(int pidfd, int signo, struct err *e); /* ERR_NOT_FOUND when gone */

struct proc_spawn {
	const char *path; /* absolute */
	char *const *argv;
	char *const *envp;                  /* NULL: empty environment */
	const char *cwd;                    /* NULL: keep */
	int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null */
	const int *extra_fds;               /* inherited under the same number, in addition to 0-2 */
	unsigned n_extra_fds;
	int new_session; /* setsid() */
	int set_ids; /* setgroups(initgroups)+setgid+setuid to the following before exec; no new privileges then
	              */
	uid_t uid;
	gid_t gid;
	const char *user;           /* for initgroups; NULL: only gid */
	int (*pre_exec)(void *arg); /* runs in the child just before exec, async-signal-safe; <0 aborts */
	void *pre_exec_arg;
	/* vfork in place of fork: no copy of this process's memory is made, but the calling thread stands still
	 * until exec, without a deadline. For programs on a local disk; not with set_ids or pre_exec. */
	int quick;
};
/* fork + exec; an exec failure is reported as an error here, not as an exit status. All signals are
 * reset to default and unblocked in the child, every descriptor not listed is closed. *pidfd (may be
 * NULL) is close-on-exec, caller closes. Order in the child: descriptors, session, ids, cwd, pre_exec.
 * The caller reaps: until it has waited for the child, no other process gets that pid. ERR_TIMEOUT when
 * exec hangs for 30 s. */
int proc_spawn(const struct proc_spawn *s, pid_t *pid, int *pidfd, struct err *e);

/* Sends signo to every process whose environment holds "name=value" and is not this one; repeats until
 * a scan finds none, at most max_rounds (each waits up to 100 ms for those it hit). Returns how many
 * different ones were signalled, -1 on error; whether any is left tells proc_count_env. */
int proc_sweep_env(const char *name, const char *value, int signo, int max_rounds, struct err *e);
/* Number of processes whose environment holds name=value. */
int proc_count_env(const char *name, const char *value, struct err *e);
/* First call of every main: what may have been inherited and would break us. Opens /dev/null where 0, 1 or 2
 * is closed, unblocks all signals, SIGCHLD to default (ignored, no exit status would ever reach us), SIGPIPE
 * ignored. */
void proc_main_init(void);
/* "SIGKILL" for 9, "signal 99" when unknown (static storage per thread). */
const char *proc_signal_name(int signo);
int proc_signal_parse(const char *name); /* "SIGUSR1", "USR1" or "10" -> 10, else -1 */

#endif
