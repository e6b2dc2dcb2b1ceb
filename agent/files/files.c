/*
 * files: see files.h. The life of a helper, and the way of one request.
 */
#include "agent/files/files.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/files/files_int.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"

#define STEP_MS  200
#define HELLO_MS 30000 /* as for an exec: the program may be on a slow disk */
#define CLEAN_MS 2000  /* for a request that was stopped, to remove what it began */
#define END_MS   500
#define KILL_MS  5000 /* on a busy machine the end of a killed process takes more than a moment */
#define LEFT_MAX 64

struct files {
	struct files_params p;
	pid_t pid; /* 0 none */
	int pidfd;
	struct files_channel channel;
};

/* ---- the end of a helper ---------------------------------------------------------------------------- */

/* Helpers that were killed and had not ended: one that sleeps in the kernel, on a file server that does not
 * answer, may never. They are our children, so their numbers stay theirs until they are reaped. */
static _Atomic pid_t left[LEFT_MAX];

static void reap_left(void)
{
	pid_t pid;

	for (int i = 0; i < LEFT_MAX; i++) {
		pid = atomic_exchange(&left[i], 0);
		if (pid && waitpid(pid, NULL, WNOHANG) == 0)
			atomic_store(&left[i],
			             pid); /* the slot may hold another's by now: then that one stays a zombie */
	}
}

static void leave_helper(pid_t pid)
{
	pid_t none;

	for (int i = 0; i < LEFT_MAX; i++) {
		none = 0;
		if (atomic_compare_exchange_strong(&left[i], &none, pid))
			return;
	}
	log_warn("event=files_helper_left pid=%d", (int)pid); /* a zombie until this agent ends */
}

/* Waits wait_ms for its own end, then kills it. Returns its wait status; -1: it has not ended. */
static int end_helper(struct files *f, int wait_ms)
{
	struct pollfd p = {.fd = f->pidfd, .events = POLLIN};
	int status = -1;

	if (f->pid == 0)
		return -1;
	if (poll(&p, 1, wait_ms) <= 0)
		kill(f->pid, SIGKILL); /* our own child, not yet reaped: the number cannot be another's */
	if (poll(&p, 1, KILL_MS) <= 0 || waitpid(f->pid, &status, WNOHANG) != f->pid) {
		leave_helper(f->pid);
		status = -1;
	}
	close(f->pidfd);
	close(f->channel.fd);
	files_channel_fini(&f->channel);
	f->pid = 0;
	return status;
}

/* The request is not wanted any more: the helper removes what it began, then it ends. */
static void stop_helper(struct files *f)
{
	uint64_t end = clock_boot_us(clock_real()) + CLEAN_MS * 1000u;
	struct files_msg m;
	struct err e = {0};

	shutdown(f->channel.fd, SHUT_WR);
	while (clock_boot_us(clock_real()) < end) {
		if (files_recv(&f->channel, STEP_MS, &m, &e) == 0) {
			if (m.fd >= 0)
				close(m.fd);
			if (m.type == FILES_END)
				break;
		} else if (e.code != ERR_TIMEOUT) {
			break;
		}
	}
	end_helper(f, 0);
}

/* ---- its start -------------------------------------------------------------------------------------- */

/* UID:GID[:GROUP]..., malloc'ed. */
static char *account_text(const struct launch_user *u)
{
	char *text = xasprintf("%u:%u", (unsigned)u->uid, (unsigned)u->gid);

	for (uint32_t i = 0; i < u->n_groups; i++)
		xappendf(&text, ":%u", (unsigned)u->groups[i]);
	return text;
}

static int spawn_helper(struct files *f, int channel, struct err *e)
{
	const char *dir = f->p.env->cfg.libexec_dir;
	cleanup_free char *path = xasprintf("%s/hearth-files", dir ? dir : "(unset)");
	struct proc_spawn s = {.path = path,
	                       .stdin_fd = channel,
	                       .stdout_fd = -1,
	                       .stderr_fd = -1,
	                       .new_session = 1,
	                       .cwd = "/",
	                       .quick = 1};
	struct strv argv = {0};
	int rc;

	strv_add(&argv, "hearth-files");
	strv_add(&argv, f->p.env->is_root ? "--as" : "--self");
	if (f->p.env->is_root) {
		cleanup_free char *as = account_text(f->p.user);

		strv_add(&argv, as);
	}
	s.argv = argv.v;
	rc = proc_spawn(&s, &f->pid, &f->pidfd, e);
	strv_fini(&argv);
	if (rc == 0)
		return 0;
	f->pid = 0;
	return e->code == ERR_NOT_FOUND
	           ? err_set(e, ERR_UNAVAILABLE, "hearth-files is not in %s: install Hearth again on this node",
	                     dir ? dir : "(unset)")
	           : -1;
}

static int await_hello(struct files *f, struct err *e)
{
	struct files_msg m = {.fd = -1};

	if (files_recv(&f->channel, HELLO_MS, &m, e) < 0) {
		if (e->code == ERR_PROTOCOL)
			err_set(e, ERR_UNAVAILABLE,
			        "hearth-files is of another version than this agent: restart the agent");
		return err_wrap(e, "hearth-files");
	}
	if (m.fd >= 0)
		close(m.fd);
	if (m.type == FILES_HELLO)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, "hearth-files as account %u: %s", (unsigned)f->p.user->uid,
	               m.texts[0]);
}

static int start_helper(struct files *f, struct err *e)
{
	int ends[2];

	reap_left();
	if (files_channel_pair(ends, e) < 0)
		return -1;
	if (spawn_helper(f, ends[1], e) < 0) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	close(ends[1]);
	files_channel_init(&f->channel, ends[0]);
	if (await_hello(f, e) == 0)
		return 0;
	end_helper(f, 0);
	return -1;
}

struct files *files_create(const struct files_params *p)
{
	struct files *f = xcalloc(1, sizeof(*f));

	f->p = *p;
	f->pidfd = -1;
	return f;
}

void files_destroy(struct files *f)
{
	if (!f)
		return;
	end_helper(f, 0); /* between two requests it has nothing to lose */
	free(f);
}

/* ---- a request -------------------------------------------------------------------------------------- */

static int take_end(const struct files_msg *m, struct err *e)
{
	if (m->v[0] == ERR_NONE)
		return 0;
	return err_set(e, m->v[0] <= ERR_GONE ? (enum err_code)m->v[0] : ERR_INTERNAL, "%s", m->texts[0]);
}

static int take_progress(struct files *f, const struct files_msg *m, struct err *e)
{
	if (m->v[1] && f->p.total)
		f->p.total(m->v[1], f->p.arg);
	return f->p.step(m->v[0], f->p.arg) < 0 ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
}

/* 1: it was the end. */
static int take_message(struct files *f, const struct files_msg *m, files_more_fn more, void *arg,
                        struct err *e)
{
	int rc;

	if (m->type == FILES_END)
		return 1;
	if (m->type == FILES_PROGRESS)
		rc = take_progress(f, m, e);
	else
		rc = more ? more(f, m, arg, e)
		          : err_set(e, ERR_PROTOCOL, "hearth-files: unexpected message %d", m->type);
	if (m->fd >= 0)
		close(m->fd);
	return rc;
}

/* Its account may end it, as any process of its own. */
static int is_gone(struct files *f, struct err *e)
{
	int status = end_helper(f, END_MS);

	if (status >= 0 && WIFSIGNALED(status))
		return err_set(e, ERR_UNAVAILABLE, "hearth-files, which works as account %u, was ended by %s",
		               (unsigned)f->p.user->uid, proc_signal_name(WTERMSIG(status)));
	return err_set(e, ERR_UNAVAILABLE, "hearth-files, which works as account %u, has ended",
	               (unsigned)f->p.user->uid);
}

static int await_end(struct files *f, files_more_fn more, void *arg, struct files_msg *m, struct err *e)
{
	uint64_t heard = clock_boot_us(clock_real());
	uint32_t silent_ms = f->p.silent_ms ? f->p.silent_ms : FILES_SILENT_MS;
	int rc;

	for (;;) {
		rc = files_recv(&f->channel, STEP_MS, m, e);
		if (rc == 0) {
			rc = take_message(f, m, more, arg, e);
			heard = clock_boot_us(clock_real());
			if (rc > 0)
				return 0;
		} else if (e->code == ERR_UNAVAILABLE) {
			return is_gone(f, e);
		} else if (e->code == ERR_TIMEOUT) {
			rc = f->p.step(0, f->p.arg) < 0 ? err_set(e, ERR_UNAVAILABLE, "cancelled") : 0;
			if (rc == 0 && clock_boot_us(clock_real()) - heard > silent_ms * 1000ull)
				rc = err_set(e, ERR_TIMEOUT, "no progress within %u s (does a file server not answer?)",
				             silent_ms / 1000);
		}
		if (rc < 0) {
			stop_helper(f);
			return -1;
		}
	}
}

int files_ask(struct files *f, const struct files_msg *m, files_more_fn more, void *arg,
              struct files_msg *end, struct err *e)
{
	struct files_msg last = {.fd = -1};

	if (f->pid == 0 && start_helper(f, e) < 0)
		return -1;
	if (files_send(&f->channel, m, e) < 0)
		return e->code == ERR_UNAVAILABLE ? is_gone(f, e) : -1;
	if (await_end(f, more, arg, &last, e) < 0)
		return -1;
	if (take_end(&last, e) < 0 || !end) {
		if (last.fd >= 0)
			close(last.fd);
		return last.v[0] == ERR_NONE ? 0 : -1;
	}
	*end = last;
	return 0;
}

int files_tell(struct files *f, const struct files_msg *m, struct err *e)
{
	return files_send(&f->channel, m, e);
}
