/*
 * mounts: see mounts.h.
 */
#include "agent/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fault.h"
#include "common/fsutil.h"
#include "common/log.h"

#define READY_MS 5000 /* less than what a lease leaves: the agent's loop stands still meanwhile */
#define END_MS   500
#define LEFT_MAX 64u

/* Holders that were killed and had not ended yet: one that sleeps in the kernel, on a file server that does
 * not answer, may never. They are children of this process, so their numbers stay theirs until they are
 * reaped. */
static pid_t left[LEFT_MAX];
static unsigned n_left;

unsigned mounts_reap(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_left; i++)
		if (waitpid(left[i], NULL, WNOHANG) == 0)
			left[n++] = left[i];
	n_left = n;
	return n;
}

/* Of our own child: reaped now or later, never waited for. */
static void reap_later(pid_t pid)
{
	if (waitpid(pid, NULL, WNOHANG) != 0)
		return;
	if (n_left < LEFT_MAX)
		left[n_left++] = pid;
	else /* it stays a zombie until this agent ends */
		log_warn("event=holder_left pid=%d", (int)pid);
}

char *mounts_find(const char *libexec_dir)
{
	char *path = libexec_dir ? xasprintf("%s/hearth-hold", libexec_dir) : NULL;

	if (path && access(path, X_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/* What the holder says: one line. */
static int read_word(int fd, char *line, size_t size, struct err *e)
{
	uint64_t end = clock_boot_us(clock_real()) + READY_MS * 1000ull, now;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t n = 0;
	ssize_t got;

	for (;;) {
		now = clock_boot_us(clock_real());
		if (now >= end || poll(&p, 1, (int)((end - now) / 1000 + 1)) == 0)
			return err_set(
			    e, ERR_TIMEOUT,
			    "mounts of the container were not ready after %d s (does a file server not answer, "
			    "of the owner's home or of a linked input?)",
			    READY_MS / 1000);
		got = read(fd, line + n, size - 1 - n);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got > 0)
			n += (size_t)got;
		line[n] = '\0';
		if (got <= 0 || strchr(line, '\n') || n == size - 1)
			break;
	}
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

/* UID:GID[:GROUP]..., malloc'ed. */
static char *account(const struct launch_user *u)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		abort();
	fprintf(f, "%u:%u", (unsigned)u->uid, (unsigned)u->gid);
	for (uint32_t i = 0; i < u->n_groups; i++)
		fprintf(f, ":%u", (unsigned)u->groups[i]);
	fclose(f);
	return text;
}

static void add_links(const struct mounts_params *p, struct strv *argv)
{
	cleanup_free char *as = p->as ? account(p->as) : NULL;

	if (as) {
		strv_add(argv, "--as");
		strv_add(argv, as);
	}
	for (size_t i = 0; p->links && i < p->links->n; i++) {
		strv_add(argv, "--link");
		strv_add(argv, p->links->v[i]);
	}
}

int mounts_start(const struct mounts_params *p, const char *mark, struct proc_id *holder, struct err *e)
{
	struct proc_spawn s = {
	    .path = p->hold_path, .stdin_fd = -1, .stderr_fd = -1, .new_session = 1, .cwd = "/", .quick = 1};
	struct strv argv = {0}, env = {0};
	char line[512] = "";
	int fds[2], rc;
	pid_t pid = -1;

	mounts_reap();
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	strv_add(&argv, "hearth-hold");
	strv_add(&argv, "--tmp");
	strv_add(&argv, p->tmp);
	strv_add(&argv, "--shm-bytes");
	strv_addf(&argv, "%" PRIu64, p->shm_bytes);
	strv_add(&argv, "--ml");
	strv_add(&argv, p->ml);
	if (p->user) {
		strv_add(&argv, "--user");
		strv_add(&argv, "1");
	}
	for (size_t i = 0; p->keep && i < p->keep->n; i++) {
		strv_add(&argv, "--keep");
		strv_add(&argv, p->keep->v[i]);
	}
	add_links(p, &argv);
	strv_addf(&env, "HEARTH_HOLD=%s", mark);
	s.argv = argv.v;
	s.envp = env.v;
	s.stdout_fd = fds[1];
	rc = proc_spawn(&s, &pid, NULL, e);
	close(fds[1]);
	if (rc == 0)
		rc = read_word(fds[0], line, sizeof(line), e);
	close(fds[0]);
	strv_fini(&argv);
	strv_fini(&env);
	if (rc == 0 && strcmp(line, "ok") != 0)
		rc = strstr(line, strerror(EPERM))
		         ? err_set(e, ERR_DENIED, "%s", line)
		         : err_set(e, ERR_IO, "container: %s", *line ? line : "hearth-hold ended");
	if (rc == 0)
		rc = proc_identify(pid, holder, e);
	if (rc < 0 && pid > 0) {
		if (!FAULT("agent.holder"))
			kill(pid, SIGKILL); /* our own child, not yet reaped */
		reap_later(pid);
	}
	return rc;
}

void mounts_stop(const struct proc_id *holder)
{
	cleanup_close int fd = proc_open(holder, NULL);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd >= 0) {
		proc_signal(fd, SIGKILL, NULL);
		poll(&p, 1, END_MS);
	}
	mounts_reap();
	reap_later(holder->pid); /* not our child after a restart: then it is init's */
}
