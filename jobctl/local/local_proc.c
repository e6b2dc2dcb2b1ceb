/*
 * local_proc: see local_proc.h.
 *
 * A killed process ends thread by thread, and its last thread frees the lock of its data folder. A process
 * with a pending SIGKILL therefore counts as gone, and its successor starts only when the lock is free.
 */
#include "jobctl/local/local_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "jobctl/client/client.h"
#include "jobctl/show/print.h"

#define DOWN_GRACE_S 10
#define LOCK_WAIT_S  30

char *local_dir(void)
{
	const char *xdg = getenv("XDG_DATA_HOME");
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/hearth/local", xdg);
	char *home = client_home(), *dir = xasprintf("%s/.local/share/hearth/local", home);
	free(home);
	return dir;
}

int local_make_dirs(const char *dir, struct err *e)
{
	static const char *const subs[] = {"run", "log", "hearthd", NULL};
	for (const char *const *s = subs; *s; s++) {
		char *path = xasprintf("%s/%s", dir, *s);
		int rc = fs_mkdir_p(path, 0700, e);
		free(path);
		if (rc)
			return -1;
	}
	return 0;
}

int local_lock(const char *dir, struct err *e)
{
	char *path = xasprintf("%s/lock", dir);
	int fd = fs_lock(path, e);
	free(path);
	return fd < 0 ? err_wrap(e, "another `jobctl local` runs") : fd;
}

/* ---- who runs ---- */

static int id_write(const char *dir, const char *name, const struct proc_id *id, struct err *e)
{
	char *path = xasprintf("%s/run/%s", dir, name);
	char *text = xasprintf("%s %d %" PRIu64 "\n", id->boot_id, (int)id->pid, id->start_ticks);
	int rc = fs_replace(path, text, strlen(text), 0600, e);
	free(text);
	free(path);
	return rc;
}

static int id_read(const char *dir, const char *name, struct proc_id *id)
{
	char *path = xasprintf("%s/run/%s", dir, name), *text = NULL;
	size_t n;
	int pid, rc = -1;
	uint64_t ticks;
	memset(id, 0, sizeof(*id));
	if (!fs_read_file(path, 256, &text, &n, NULL) &&
	    sscanf(text, "%39s %d %" SCNu64, id->boot_id, &pid, &ticks) == 3) {
		id->pid = pid;
		id->start_ticks = ticks;
		rc = 0;
	}
	free(text);
	free(path);
	return rc;
}

/* Returns whether SIGKILL is pending, for its first thread or for the whole process. */
static int is_killed(pid_t pid)
{
	char *path = xasprintf("/proc/%d/status", (int)pid), *text = NULL;
	static const char *const sets[] = {"\nSigPnd:", "\nShdPnd:"};
	size_t n;
	int killed = 0;
	if (!fs_read_file(path, 65536, &text, &n, NULL)) {
		for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
			const char *at = strstr(text, sets[i]);
			if (at)
				killed |= (int)(strtoull(at + strlen(sets[i]), NULL, 16) >> (SIGKILL - 1) & 1);
		}
	}
	free(text);
	free(path);
	return killed;
}

int local_is_up(const char *dir, const char *name)
{
	struct proc_id id;
	return !id_read(dir, name, &id) && proc_alive(&id, NULL) == 1 && !is_killed(id.pid);
}

/* ---- starting ---- */

char *local_program(const char *build_path, const char *installed_path, struct err *e)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0) {
		err_sys(e, errno, "/proc/self/exe");
		return NULL;
	}
	self[n] = 0;
	char *dir = dirname(self);
	char *a = xasprintf("%s/../%s", dir, build_path), *b = xasprintf("%s/../%s", dir, installed_path);
	if (!access(a, X_OK)) {
		free(b);
		return a;
	}
	if (access(b, X_OK)) {
		err_set(e, ERR_NOT_FOUND, "neither %s nor %s exists; build or install Hearth first", a, b);
		free(b);
		b = NULL;
	}
	free(a);
	return b;
}

struct cpus {
	cpu_set_t set;
};

static int use_cpus(void *arg)
{
	const struct cpus *c = arg;
	return CPU_COUNT(&c->set) ? sched_setaffinity(0, sizeof(c->set), &c->set) : 0;
}

/* Finds an agent's share of the CPUs: each gets CPUs of its own if there are enough. */
static void share_cpus(unsigned index, unsigned of, struct cpus *out)
{
	cpu_set_t all;
	CPU_ZERO(&out->set);
	if (of < 2 || sched_getaffinity(0, sizeof(all), &all) || (unsigned)CPU_COUNT(&all) < of)
		return;
	unsigned k = 0;
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && k++ % of == index)
			CPU_SET(cpu, &out->set);
	}
}

int local_share_differs(const char *dir, const char *name, unsigned index, unsigned of)
{
	struct proc_id id;
	cpu_set_t has;
	struct cpus share;
	share_cpus(index, of, &share);
	if (!CPU_COUNT(&share.set) && sched_getaffinity(0, sizeof(share.set), &share.set))
		return 0;
	return !id_read(dir, name, &id) && proc_alive(&id, NULL) == 1 &&
	       !sched_getaffinity(id.pid, sizeof(has), &has) && !CPU_EQUAL(&has, &share.set);
}

int local_is_locked(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s/lock", dir, name);
	struct err e = {0};
	int fd = access(path, F_OK) ? -1 : fs_lock(path, &e);
	if (fd >= 0)
		close(fd);
	free(path);
	return e.code == ERR_BUSY;
}

/* Waits for the holder of the folder's lock to end; after that the program itself reports the lock. */
static void wait_unlocked(const char *dir, const char *name)
{
	uint64_t end = clock_boot_us(clock_real()) + LOCK_WAIT_S * 1000000ull;
	while (local_is_locked(dir, name) && clock_boot_us(clock_real()) <= end)
		poll(NULL, 0, 10);
}

int local_log(const char *dir, const char *name, struct err *e)
{
	char *log = xasprintf("%s/log/%s.log", dir, name);
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		err_sys(e, errno, "%s", log);
	free(log);
	return fd;
}

int local_spawn(const char *dir, const char *name, const char *path, const struct strv *args, unsigned index,
                unsigned of, struct err *e)
{
	extern char **environ;
	cleanup_close int fd = local_log(dir, name, e);
	if (fd < 0)
		return -1;
	struct cpus cpus;
	share_cpus(index, of, &cpus);
	struct proc_spawn s = {.path = path,
	                       .argv = args->v,
	                       .envp = environ,
	                       .cwd = "/",
	                       .stdin_fd = -1,
	                       .stdout_fd = fd,
	                       .stderr_fd = fd,
	                       .new_session = 1,
	                       .pre_exec = use_cpus,
	                       .pre_exec_arg = &cpus};
	pid_t pid;
	struct proc_id id;
	wait_unlocked(dir, name);
	if (proc_spawn(&s, &pid, NULL, e) || proc_identify(pid, &id, e))
		return -1;
	return id_write(dir, name, &id, e);
}

/* ---- ending, and what they said ---- */

void local_end(const char *dir, const char *name)
{
	struct proc_id id;
	if (id_read(dir, name, &id))
		return;
	cleanup_close int fd = proc_open(&id, NULL);
	if (fd >= 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		proc_signal(fd, SIGTERM, NULL);
		if (poll(&p, 1, DOWN_GRACE_S * 1000) == 0) {
			fprintf(stderr, "jobctl: %s does not end; killing it\n", name);
			proc_signal(fd, SIGKILL, NULL);
			poll(&p, 1, 5000);
		}
	}
	char *path = xasprintf("%s/run/%s", dir, name);
	unlink(path);
	free(path);
}

void local_show_log(const char *dir, const char *name)
{
	char *path = xasprintf("%s/log/%s.log", dir, name), *text = NULL;
	size_t n;
	if (!fs_read_file(path, 64 * 1024 * 1024, &text, &n, NULL)) {
		size_t at = n > 1500 ? n - 1500 : 0;
		const char *nl = at ? strchr(text + at, '\n') : NULL;
		char *safe = print_safe(nl ? nl + 1 : text + at);
		fprintf(stderr, "%s", safe);
		free(safe);
	}
	fprintf(stderr, "(%s)\n", path);
	free(text);
	free(path);
}
