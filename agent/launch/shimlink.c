/*
 * shimlink: see shimlink.h. Nothing here blocks: the socket is non-blocking, the death of the shim comes
 * through its pidfd.
 */
#include "agent/launch/shimlink.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "shim/shim.h"

#define IN_LIMIT     (WIRE_HEADER_SIZE + WIRE_MAX_BODY)
#define OUT_LIMIT    (SHIM_LAUNCH_MAX + 65536u) /* a start, and small orders before it */
#define RETRY_MIN_MS 20u
#define RETRY_MAX_MS 2000u
#define READ_CHUNK   16384

enum link_state { LINK_DOWN, LINK_HELLO, LINK_UP, LINK_GONE };

struct shimlink {
	struct agent_env *env;
	char *dir, *token;
	struct proc_id id;
	const struct shimlink_ops *ops;
	void *arg;
	enum link_state state;
	int fd, pidfd;
	struct loop_fd *watch, *pid_watch;
	struct loop_timer *retry, *refuse;
	uint16_t dropped; /* order that could not be sent, to be refused; 0 none */
	struct err dropped_why;
	unsigned failures;
	struct buf in, out;
	uint64_t next_id;
	uint16_t pending_type; /* order kept until hello is answered; 0 none */
	void *pending;
	int want_quit, ended, released;
	int asked; /* by shimlink_probe; cleared by any state */
	uint32_t quit_grace_ms;
	enum ended_by quit_by;
};

static void dial_shim(void *arg);

static void drop_connection(struct shimlink *l)
{
	loop_fd_destroy(l->watch);
	l->watch = NULL;
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	buf_reset(&l->in);
	buf_reset(&l->out);
	if (l->state != LINK_GONE)
		l->state = LINK_DOWN;
}

static int is_end(uint8_t state)
{
	return state == PS_EXITED || state == PS_FAILED || state == PS_LOST;
}

/* The last word is in the file: states that were written after our connection ended. */
static int read_record(struct shimlink *l)
{
	struct shim_state s;
	struct err e = {0};
	int end;

	if (shim_state_read(l->dir, &s, &e) < 0) {
		log_warn("event=shim_state_unreadable dir=%s reason=\"%s\"", l->dir, e.text);
		return 0;
	}
	end = is_end(s.st.state);
	if (end)
		l->ended = 1;
	if (end || s.st.ended_us)
		l->ops->status(&s.st, l->arg);
	shim_state_fini(&s);
	return end;
}

static void shim_is_gone(struct shimlink *l)
{
	int lost = 0;

	if (l->state == LINK_GONE)
		return;
	drop_connection(l);
	l->state = LINK_GONE;
	loop_timer_cancel(l->retry);
	loop_fd_destroy(l->pid_watch);
	l->pid_watch = NULL;
	if (l->pidfd >= 0)
		close(l->pidfd);
	l->pidfd = -1;
	waitpid(l->id.pid, NULL, WNOHANG); /* ours when this agent started it; else ECHILD, which is fine */
	if (!l->ended && !l->released)
		lost = !read_record(l);
	l->ops->gone(lost, l->arg);
}

static void retry_later(struct shimlink *l)
{
	uint32_t ms = RETRY_MIN_MS << (l->failures < 7 ? l->failures : 7);

	drop_connection(l);
	l->failures++;
	if (l->failures == 8)
		log_warn("event=shim_unreachable dir=%s tries=%u", l->dir, l->failures);
	loop_timer_arm(l->retry, (uint64_t)(ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS) * 1000);
}

/* ---- sending ----------------------------------------------------------------------------------------------
 */

static void flush_orders(struct shimlink *l)
{
	while (buf_left(&l->out)) {
		ssize_t n = send(l->fd, buf_head(&l->out), buf_left(&l->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_fd_set(l->watch, LOOP_READ | LOOP_WRITE);
			return;
		}
		if (n < 0)
			return; /* the reader sees the end of the connection */
		buf_skip(&l->out, (size_t)n);
	}
	buf_reset(&l->out);
	loop_fd_set(l->watch, LOOP_READ);
}

static void refuse_dropped(void *arg)
{
	struct shimlink *l = arg;
	uint16_t type = l->dropped;

	l->dropped = 0;
	if (l->ops->refused)
		l->ops->refused(type, l->dropped_why.code, l->dropped_why.text, l->arg);
}

/* Not at once: the caller is at work with the process. */
static void drop_order(struct shimlink *l, uint16_t type, const struct err *why)
{
	log_error("event=shim_order_dropped order=%s reason=\"%s\"", wire_name(type), why->text);
	l->dropped = type;
	l->dropped_why = *why;
	loop_timer_arm(l->refuse, 0);
}

static int encode_order(struct shimlink *l, uint16_t type, const void *msg, struct err *e)
{
	if (type == WM_SHIM_START && FAULT("agent.start_dropped"))
		return err_set(e, ERR_BUSY, "injected");
	/* The id tells which order a refusal answers. */
	return wire_encode(type, msg, ++l->next_id << 16 | type, &l->out, e);
}

static void send_now(struct shimlink *l, uint16_t type, const void *msg)
{
	struct err e = {0};

	if (encode_order(l, type, msg, &e) < 0)
		drop_order(l, type, &e);
	else
		flush_orders(l);
}

static void send_quit(struct shimlink *l)
{
	struct wm_shim_quit m = {.grace_ms = l->quit_grace_ms, .by = (uint8_t)l->quit_by};

	send_now(l, WM_SHIM_QUIT, &m);
}

/* go, start and release: at most one of them waits at a time, the later one replaces. */
static void send_or_keep(struct shimlink *l, uint16_t type, const void *msg)
{
	if (l->state == LINK_GONE)
		return;
	if (l->state == LINK_UP) {
		send_now(l, type, msg);
		return;
	}
	wire_free(l->pending_type, l->pending);
	l->pending_type = type;
	l->pending = wire_copy(type, msg);
}

/* ---- receiving -------------------------------------------------------------------------------------- */

static void hello_answered(struct shimlink *l)
{
	struct wm_shim_query q = {.watch = 1};
	uint16_t type = l->pending_type;
	void *msg = l->pending;

	l->state = LINK_UP;
	l->failures = 0;
	send_now(l, WM_SHIM_QUERY, &q);
	l->pending_type = 0;
	l->pending = NULL;
	if (msg)
		send_now(l, type, msg);
	wire_free(type, msg);
	if (l->want_quit && !l->ended)
		send_quit(l);
}

static void got_ok(struct shimlink *l, const struct wm_shim_ok *m, uint64_t id)
{
	if (m->code == 0)
		return;
	if (l->state == LINK_HELLO) {
		log_warn("event=shim_refused_hello dir=%s reason=\"%s\"", l->dir, m->text);
		retry_later(l);
		return;
	}
	if (l->ops->refused)
		l->ops->refused((uint16_t)(id & 0xffff), (enum err_code)m->code, m->text, l->arg);
}

static void got_frame(struct shimlink *l, const struct wire_frame *f)
{
	struct err e = {0};
	void *msg;

	if (!wire_allowed(f->type, WIRE_FROM_SHIM, WIRE_LOCAL) ||
	    wire_decode(f->type, f->body, f->n, &msg, &e) < 0) {
		log_warn("event=shim_bad_frame dir=%s type=%u", l->dir, f->type);
		retry_later(l);
		return;
	}
	if (f->type == WM_SHIM_OK) {
		got_ok(l, msg, f->id);
	} else if (f->type == WM_SHIM_STATUS) {
		const struct wm_shim_status *st = msg;

		l->asked = 0;

		if (l->state == LINK_HELLO)
			hello_answered(l);
		if (is_end(st->state))
			l->ended = 1;
		l->ops->status(st, l->arg);
	}
	wire_free(f->type, msg);
}

static void on_readable(struct shimlink *l)
{
	struct wire_frame f;
	struct err e = {0};
	uint8_t *room;
	ssize_t n;
	int rc;

	if (buf_reserve(&l->in, READ_CHUNK, &room) < 0) {
		retry_later(l);
		return;
	}
	n = recv(l->fd, room, READ_CHUNK, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		retry_later(l); /* its pidfd tells soon when it is gone */
		return;
	}
	l->in.len += (size_t)n;
	while (l->fd >= 0 && (rc = wire_next(&l->in, &f, &e)) != 0) {
		if (rc < 0) {
			log_warn("event=shim_bad_frame dir=%s reason=\"%s\"", l->dir, e.text);
			retry_later(l);
			return;
		}
		got_frame(l, &f);
	}
	if (l->fd >= 0 && buf_left(&l->in) == 0)
		buf_reset(&l->in);
}

static void on_socket(int fd, int what, void *arg)
{
	struct shimlink *l = arg;

	(void)fd;
	if (what & LOOP_READ)
		on_readable(l);
	if ((what & LOOP_WRITE) && l->fd >= 0)
		flush_orders(l);
}

static void on_pidfd(int fd, int what, void *arg)
{
	(void)fd;
	(void)what;
	shim_is_gone(arg);
}

static void dial_shim(void *arg)
{
	struct shimlink *l = arg;
	struct wm_shim_hello hello = {.version = SHIM_VERSION, .token = l->token};
	struct err e = {0};

	if (l->pidfd < 0) {
		l->pidfd = proc_open(&l->id, &e);
		if (l->pidfd < 0 && e.code == ERR_NOT_FOUND) {
			shim_is_gone(l);
			return;
		}
		if (l->pidfd >= 0)
			l->pid_watch = loop_fd_create(l->env->loop, l->pidfd, LOOP_READ, on_pidfd, l);
	}
	l->fd = shim_dial(l->dir, &e);
	if (l->fd < 0) {
		retry_later(l);
		return;
	}
	l->state = LINK_HELLO;
	l->watch = loop_fd_create(l->env->loop, l->fd, LOOP_READ, on_socket, l);
	send_now(l, WM_SHIM_HELLO, &hello);
}

/* ---- outside ----------------------------------------------------------------------------------------------
 */

struct shimlink *shimlink_create(struct agent_env *env, const char *dir, const char *token,
                                 const struct proc_id *id, const struct shimlink_ops *ops, void *arg)
{
	struct shimlink *l = xcalloc(1, sizeof(*l));

	l->env = env;
	l->dir = xstrdup(dir);
	l->token = xstrdup(token);
	l->id = *id;
	l->ops = ops;
	l->arg = arg;
	l->fd = l->pidfd = -1;
	buf_init(&l->in, IN_LIMIT);
	buf_init(&l->out, OUT_LIMIT);
	l->retry = loop_timer_create(env->loop, dial_shim, l);
	l->refuse = loop_timer_create(env->loop, refuse_dropped, l);
	loop_timer_arm(l->retry, 0); /* not at once: no callback before the caller has the link */
	return l;
}

void shimlink_destroy(struct shimlink *l)
{
	if (!l)
		return;
	drop_connection(l);
	loop_fd_destroy(l->pid_watch);
	if (l->pidfd >= 0)
		close(l->pidfd);
	loop_timer_destroy(l->retry);
	loop_timer_destroy(l->refuse);
	wire_free(l->pending_type, l->pending);
	buf_fini(&l->in);
	buf_fini(&l->out);
	free(l->dir);
	free(l->token);
	free(l);
}

static void borrow_words(struct wire_strv *to, const struct strv *from)
{
	if (!from || from->n == 0)
		return;
	to->v = from->v;
	to->n = (uint32_t)from->n;
}

void shimlink_go(struct shimlink *l, const struct strv *argv, const struct strv *envp)
{
	char empty[] = "";
	struct wm_shim_go m = {.cwd = empty};

	borrow_words(&m.argv, argv);
	borrow_words(&m.env, envp);
	send_or_keep(l, WM_SHIM_GO, &m);
}

static struct wm_shim_start start_of(const struct strv *argv, const struct strv *envp, const char *cwd)
{
	struct wm_shim_start m = {.cwd = (char *)(uintptr_t)(cwd ? cwd : "")};

	borrow_words(&m.argv, argv);
	borrow_words(&m.env, envp);
	return m;
}

void shimlink_start(struct shimlink *l, const struct strv *argv, const struct strv *envp, const char *cwd,
                    int preloaded)
{
	struct wm_shim_start m = start_of(argv, envp, cwd);

	m.preloaded = preloaded != 0;
	send_or_keep(l, WM_SHIM_START, &m);
}

int shimlink_check_start(const struct strv *argv, const struct strv *envp, const char *cwd, struct err *e)
{
	struct wm_shim_start m = start_of(argv, envp, cwd);
	struct buf b;
	int rc;

	buf_init(&b, FAULT("agent.start_large") ? WIRE_HEADER_SIZE : SHIM_LAUNCH_MAX);
	rc = wire_encode(WM_SHIM_START, &m, 0, &b, NULL);
	buf_fini(&b);
	return rc == 0 ? 0
	               : err_set(e, ERR_LIMIT, "arguments and environment of a rank are larger than %u bytes",
	                         SHIM_LAUNCH_MAX);
}

void shimlink_signal(struct shimlink *l, int signo, int only_if_caught)
{
	struct wm_shim_signal m = {.signal = (uint32_t)signo, .only_if_caught = only_if_caught != 0};

	if (l->state == LINK_UP)
		send_now(l, WM_SHIM_SIGNAL, &m);
}

void shimlink_quit(struct shimlink *l, uint32_t grace_ms, enum ended_by by)
{
	if (l->ended || l->state == LINK_GONE)
		return;
	l->want_quit = 1;
	l->quit_grace_ms = grace_ms;
	l->quit_by = by;
	if (l->state == LINK_UP)
		send_quit(l);
}

void shimlink_release(struct shimlink *l)
{
	struct wm_shim_release m = {0};

	l->released = 1;
	send_or_keep(l, WM_SHIM_RELEASE, &m);
}

int shimlink_probe(struct shimlink *l)
{
	struct wm_shim_query m = {.watch = 1};

	if (l->asked || l->state == LINK_GONE)
		return 0;
	l->asked = 1;
	if (l->state == LINK_UP) /* else the next hello asks */
		send_now(l, WM_SHIM_QUERY, &m);
	return 1;
}

int shimlink_has_answered(const struct shimlink *l)
{
	return !l->asked;
}

int shimlink_is_gone(const struct shimlink *l)
{
	return l->state == LINK_GONE;
}
