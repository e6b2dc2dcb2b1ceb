/*
 * mounts: see mounts.h.
 */
#include "agent/container/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define READY_MS 30000u /* a file server that restarts answers within that, mostly */
#define END_MS   100    /* the agent's loop stands still meanwhile; most take one */
#define LEFT_MAX 64u

struct mounts {
	pid_t pid;
	uint32_t ready_ms;
	int fd; /* what it says: one line */
	char line[512];
	size_t n;
	struct loop_fd *input;
	struct loop_timer *late;
	mounts_done done;
	void *arg;
};

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

/* Remembers our own child, to be reaped later: nobody waits for it. */
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

/* UID:GID[:GROUP]..., malloc'ed. */
static char *account_text(const struct launch_user *u)
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
	cleanup_free char *as = p->as ? account_text(p->as) : NULL;

	if (as) {
		strv_add(argv, "--as");
		strv_add(argv, as);
	}
	for (size_t i = 0; p->links && i < p->links->n; i++) {
		strv_add(argv, "--link");
		strv_add(argv, p->links->v[i]);
	}
}

/* ---- a start ------------------------------------------------------------------------------------------ */

static void mounts_free(struct mounts *m)
{
	loop_fd_destroy(m->input);
	loop_timer_destroy(m->late);
	close(m->fd);
	free(m);
}

static void end_holder(pid_t pid)
{
	if (!FAULT("agent.holder"))
		kill(pid, SIGKILL); /* our own child, not yet reaped */
	reap_later(pid);
}

static void finish_mounts(struct mounts *m, struct err *why)
{
	mounts_done done = m->done;
	void *arg = m->arg;
	struct proc_id holder;
	pid_t pid = m->pid;

	mounts_free(m);
	if (!why->code && proc_identify(pid, &holder, why) == 0) {
		done(&holder, NULL, arg);
		return;
	}
	end_holder(pid);
	done(NULL, why, arg);
}

static void on_late(void *arg)
{
	struct mounts *m = arg;
	struct err e = {0};

	err_set(
	    &e, ERR_TIMEOUT,
	    "mounts of the container were not ready after %u s (does a file server not answer, of the owner's "
	    "home or of a linked input?)",
	    m->ready_ms / 1000);
	finish_mounts(m, &e);
}

static void on_word(int fd, int what, void *arg)
{
	struct mounts *m = arg;
	struct err e = {0};
	ssize_t got = read(fd, m->line + m->n, sizeof(m->line) - 1 - m->n);

	(void)what;
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got > 0)
		m->n += (size_t)got;
	m->line[m->n] = '\0';
	if (got > 0 && !strchr(m->line, '\n') && m->n < sizeof(m->line) - 1)
		return;
	m->line[strcspn(m->line, "\n")] = '\0';
	if (strcmp(m->line, "ok") == 0)
		e.code = 0;
	else if (strstr(m->line, strerror(EPERM)))
		err_set(&e, ERR_DENIED, "%s", m->line);
	else
		err_set(&e, ERR_IO, "container: %s", *m->line ? m->line : "hearth-hold ended");
	finish_mounts(m, &e);
}

static void add_args(const struct mounts_params *p, struct strv *argv)
{
	strv_add(argv, "hearth-hold");
	strv_add(argv, "--tmp");
	strv_add(argv, p->tmp);
	strv_add(argv, "--shm-bytes");
	strv_addf(argv, "%" PRIu64, p->shm_bytes);
	strv_add(argv, "--ml");
	strv_add(argv, p->ml);
	if (p->var_tmp) {
		strv_add(argv, "--var-tmp");
		strv_add(argv, p->var_tmp);
	}
	if (p->user) {
		strv_add(argv, "--user");
		strv_add(argv, "1");
	}
	for (size_t i = 0; p->keep && i < p->keep->n; i++) {
		strv_add(argv, "--keep");
		strv_add(argv, p->keep->v[i]);
	}
	for (size_t i = 0; p->layers && i < p->layers->n; i++) {
		strv_add(argv, "--layer");
		strv_add(argv, p->layers->v[i]);
	}
	add_links(p, argv);
}

struct mounts *mounts_start(struct loop *l, const struct mounts_params *p, const char *mark, mounts_done done,
                            void *arg, struct err *e)
{
	struct proc_spawn s = {
	    .path = p->hold_path, .stdin_fd = -1, .stderr_fd = -1, .new_session = 1, .cwd = "/", .quick = 1};
	struct strv argv = {0}, env = {0};
	struct mounts *m;
	int fds[2], rc;
	pid_t pid = -1;

	mounts_reap();
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		err_sys(e, errno, "pipe");
		return NULL;
	}
	add_args(p, &argv);
	strv_addf(&env, "HEARTH_HOLD=%s", mark);
	s.argv = argv.v;
	s.envp = env.v;
	s.stdout_fd = fds[1];
	rc = proc_spawn(&s, &pid, NULL, e);
	close(fds[1]);
	strv_fini(&argv);
	strv_fini(&env);
	if (rc < 0) {
		close(fds[0]);
		return NULL;
	}
	m = xcalloc(1, sizeof(*m));
	*m = (struct mounts){.pid = pid, .fd = fds[0], .done = done, .arg = arg};
	m->ready_ms = p->ready_ms ? p->ready_ms : READY_MS;
	m->input = loop_fd_create(l, m->fd, LOOP_READ, on_word, m);
	m->late = loop_timer_create(l, on_late, m);
	loop_timer_arm(m->late, m->ready_ms * 1000ull);
	return m;
}

void mounts_cancel(struct mounts *m)
{
	if (!m)
		return;
	end_holder(m->pid);
	mounts_free(m);
}

void mounts_leave(struct mounts *m)
{
	if (m)
		mounts_free(m);
}

/* ---- the end ------------------------------------------------------------------------------------------ */

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
