/*
 * rshd: see rshd.h. A session outlives its connection by REATTACH_MS, because its hearth-rsh may come back.
 * It does not outlive its hearth-rsh, which rshd watches by a pidfd, and it ends when its hearth-rsh has the
 * end of the command. hearthd remembers ends, so a hearth-rsh that asks once more gets the same one.
 */
#include "agent/control/rshd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/launch/launches.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"

#define SESSIONS_MAX 4096          /* an account may have as many as are free: see explain_crowd */
#define RSH_PER_NODE 4             /* sessions of a launch, as in hearthd; mpirun asks once for each node */
#define CONNS_MAX    1024          /* that have not said what they want */
#define CONNS_USER   160           /* the same, of one account: mpirun asks for 128 at once */
#define FRAME_MAX    (512u * 1024) /* orted's arguments grow with the number of nodes */
#define HELLO_MS     5000
#define REATTACH_MS  60000
#define BACK_OFF_US  100000u /* without descriptors there is nothing to do but wait for some */

struct rsh_session {
	char *rsh_id, *host;
	uint64_t job;
	uint32_t attempt;
	uid_t uid; /* of the first hearth-rsh */
	struct wire_strv argv;
	uint8_t state; /* last known: enum proc_state */
	uint32_t exit_code, signal;
	char *text;
	struct rsh_conn *conn; /* NULL: gone, maybe back soon */
	int pidfd;
	struct loop_fd *pid_watch;
	struct loop_timer *timer; /* REATTACH_MS without a connection */
	struct rshd *owner;
	struct rsh_session *prev, *next;
};

struct rsh_conn {
	struct rshd *owner;
	int fd;
	pid_t pid;
	uid_t uid;
	struct loop_fd *watch;
	struct loop_timer *timer;
	struct buf in, out;
	struct rsh_session *session;
	int over; /* has the end of its command; it has HELLO_MS to leave */
	struct rsh_conn *prev, *next;
};

struct rshd {
	struct loop *loop;
	struct launches *launches;
	const struct rshd_ops *ops;
	void *arg;
	int fd;
	struct loop_fd *watch;
	struct loop_timer *back_off;
	struct rsh_session *sessions;
	struct rsh_conn *conns;
	unsigned n_sessions;
	struct log_limit strangers;
};

static void session_free(struct rsh_session *s)
{
	struct rshd *r = s->owner;

	DL_DELETE(r->sessions, s);
	r->n_sessions--;
	if (s->conn)
		s->conn->session = NULL;
	loop_fd_destroy(s->pid_watch);
	if (s->pidfd >= 0)
		close(s->pidfd);
	loop_timer_destroy(s->timer);
	for (uint32_t i = 0; i < s->argv.n; i++)
		free(s->argv.v[i]);
	free(s->argv.v);
	free(s->rsh_id);
	free(s->host);
	free(s->text);
	free(s);
}

/* ---- connections ------------------------------------------------------------------------------------ */

static void conn_end(struct rsh_conn *c)
{
	struct rshd *r = c->owner;

	if (c->session) {
		c->session->conn = NULL;
		loop_timer_arm(c->session->timer, (uint64_t)REATTACH_MS * 1000);
	}
	DL_DELETE(r->conns, c);
	loop_fd_destroy(c->watch);
	loop_timer_destroy(c->timer);
	close(c->fd);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

static int is_end(uint8_t state)
{
	return state == PS_EXITED || state == PS_FAILED || state == PS_LOST;
}

/* All that was to send is sent. */
static void conn_sent(struct rsh_conn *c)
{
	buf_reset(&c->out);
	loop_fd_set(c->watch, LOOP_READ);
	if (!c->session || !is_end(c->session->state))
		return;
	c->over = 1;
	loop_timer_arm(c->timer, (uint64_t)HELLO_MS * 1000);
	session_free(c->session);
}

/* A reader that takes nothing for so long that the buffer is full is dropped; it may connect again. 0, or -1:
 * c is gone. */
static int conn_flush(struct rsh_conn *c)
{
	while (buf_left(&c->out)) {
		ssize_t n = send(c->fd, buf_head(&c->out), buf_left(&c->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_fd_set(c->watch, LOOP_READ | LOOP_WRITE);
			return 0;
		}
		if (n < 0) {
			conn_end(c);
			return -1;
		}
		buf_skip(&c->out, (size_t)n);
	}
	conn_sent(c);
	return 0;
}

static void send_state(struct rsh_conn *c, const char *rsh_id, uint8_t state, uint32_t exit_code,
                       uint32_t signal, const char *text)
{
	struct wm_local_rsh_state m = {.rsh_id = (char *)(uintptr_t)rsh_id,
	                               .state = state,
	                               .exit_code = exit_code,
	                               .signal = signal,
	                               .text = (char *)(uintptr_t)(text ? text : "")};

	if (wire_encode(WM_LOCAL_RSH_STATE, &m, 0, &c->out, NULL) < 0)
		conn_end(c);
	else
		conn_flush(c);
}

/* ---- sessions --------------------------------------------------------------------------------------- */

static void request_orted(struct rsh_session *s)
{
	const struct rshd *r = s->owner;
	struct wm_rsh_request m = {
	    .job = s->job, .attempt = s->attempt, .rsh_id = s->rsh_id, .host = s->host, .argv = s->argv};

	if (launches_epoch(r->launches, s->job, s->attempt, &m.epoch))
		r->ops->send(WM_RSH_REQUEST, &m, r->arg);
}

/* hearth-rsh is gone before its command ended: the command's lifeline is cut. */
static void cancel_session(struct rsh_session *s)
{
	const struct rshd *r = s->owner;
	struct wm_rsh_cancel m = {.job = s->job, .attempt = s->attempt, .rsh_id = s->rsh_id};

	if (!is_end(s->state) && launches_epoch(r->launches, s->job, s->attempt, &m.epoch)) {
		log_info("event=rsh_cancelled job=%" PRIu64 " attempt=%u host=%s", s->job, s->attempt, s->host);
		r->ops->send(WM_RSH_CANCEL, &m, r->arg);
	}
	session_free(s);
}

static void on_rsh_death(int fd, int what, void *arg)
{
	(void)fd;
	(void)what;
	cancel_session(arg);
}

static void on_not_back(void *arg)
{
	cancel_session(arg);
}

/* By launch and id: a caller chooses its id, so one of another launch is another session. */
static struct rsh_session *session_find(struct rshd *r, uint64_t job, uint32_t attempt, const char *rsh_id)
{
	struct rsh_session *s;

	DL_FOREACH (r->sessions, s)
		if (s->job == job && s->attempt == attempt && strcmp(s->rsh_id, rsh_id) == 0)
			return s;
	return NULL;
}

static void watch_process(struct rsh_session *s, pid_t pid)
{
	/* The number came from the kernel with the connection that is still open, so it is that process. */
	int fd = (int)syscall(SYS_pidfd_open, pid, 0u);

	if (fd < 0)
		return; /* another PID namespace: the end of the connection and REATTACH_MS must do */
	loop_fd_destroy(s->pid_watch);
	if (s->pidfd >= 0)
		close(s->pidfd);
	s->pidfd = fd;
	s->pid_watch = loop_fd_create(s->owner->loop, fd, LOOP_READ, on_rsh_death, s);
}

static struct rsh_session *session_new(struct rshd *r, struct wm_local_rsh *m, uid_t uid, uint64_t job,
                                       uint32_t attempt)
{
	struct rsh_session *s = xcalloc(1, sizeof(*s));

	s->owner = r;
	s->uid = uid;
	s->rsh_id = xstrdup(m->rsh_id);
	s->host = xstrdup(m->host);
	s->job = job;
	s->attempt = attempt;
	s->argv = m->argv;
	m->argv = (struct wire_strv){0};
	s->pidfd = -1;
	s->timer = loop_timer_create(r->loop, on_not_back, s);
	DL_APPEND(r->sessions, s);
	r->n_sessions++;
	return s;
}

static void attach_session(struct rsh_conn *c, struct rsh_session *s)
{
	if (s->conn && s->conn != c) {
		s->conn->session = NULL; /* the older connection of the same hearth-rsh: it is done with it */
		conn_end(s->conn);
	}
	loop_timer_cancel(s->timer);
	loop_timer_cancel(c->timer);
	s->conn = c;
	c->session = s;
	watch_process(s, c->pid);
}

/* Adds why a further session of this account and launch is refused. An account may have as many sessions as
 * are free, so each account finds some free, and one alone may use half of them. */
static void explain_crowd(struct rshd *r, uid_t uid, uint64_t job, uint32_t attempt, struct text *refusal)
{
	uint32_t most = launches_nodes(r->launches, job, attempt) * RSH_PER_NODE, of_launch = 0, of_user = 0;
	struct rsh_session *s;

	DL_FOREACH (r->sessions, s) {
		of_launch += s->job == job && s->attempt == attempt;
		of_user += s->uid == uid;
	}
	if (of_launch >= most)
		text_add(refusal, "this launch has %u remote commands, which is the limit; let some end first",
		         of_launch);
	else if (of_user >= SESSIONS_MAX - r->n_sessions)
		text_add(refusal,
		         "your account has %u remote commands on this node, which is its share; let some end first",
		         of_user);
}

static void on_local_rsh(struct rsh_conn *c, struct wm_local_rsh *m)
{
	struct rshd *r = c->owner;
	TEXT(refusal);
	uint32_t attempt;
	uint64_t job;
	int known = launches_by_token(r->launches, m->token, c->uid, &job, &attempt) == 0;
	struct rsh_session *s = known ? session_find(r, job, attempt, m->rsh_id) : NULL;

	if (!known)
		text_add(&refusal, "this agent runs no launch with that token for your account");
	else if (!launches_has_node(r->launches, job, attempt, m->host))
		text_add(&refusal, "'%.100s' is not a node of this launch", m->host);
	else if (strlen(m->rsh_id) < 8 || strlen(m->rsh_id) > 64)
		text_add(&refusal, "rsh_id must have 8 to 64 characters");
	else if (!s)
		explain_crowd(r, c->uid, job, attempt, &refusal);
	if (!text_is_empty(&refusal)) {
		log_warn("event=rsh_refused reason=\"%s\"", refusal.at);
		send_state(c, m->rsh_id, PS_FAILED, 0, 0, refusal.at);
		return;
	}
	if (!s)
		s = session_new(r, m, c->uid, job, attempt);
	attach_session(c, s);
	if (s->state != PS_UNKNOWN)
		send_state(c, s->rsh_id, s->state, s->exit_code, s->signal, s->text);
	else
		request_orted(s);
}

static void on_readable(struct rsh_conn *c)
{
	struct wire_frame f;
	struct err e = {0};
	uint8_t *room;
	ssize_t n;
	void *msg;
	int rc;

	if (buf_reserve(&c->in, 16384, &room) < 0) {
		conn_end(c);
		return;
	}
	n = recv(c->fd, room, 16384, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_end(c);
		return;
	}
	c->in.len += (size_t)n;
	rc = wire_next(&c->in, &f, &e);
	if (rc == 0)
		return;
	/* One order a connection: more would be a mistake of ours. */
	if (rc < 0 || c->session || c->over || !wire_allowed(f.type, WIRE_FROM_RSH, WIRE_LOCAL) ||
	    f.type != WM_LOCAL_RSH || wire_decode(f.type, f.body, f.n, &msg, &e) < 0) {
		log_warn("event=rsh_bad_frame pid=%d", (int)c->pid);
		conn_end(c);
		return;
	}
	on_local_rsh(c, msg);
	wire_free(WM_LOCAL_RSH, msg);
}

static void on_socket(int fd, int what, void *arg)
{
	struct rsh_conn *c = arg;

	(void)fd;
	if ((what & LOOP_WRITE) && conn_flush(c) < 0)
		return;
	if (what & LOOP_READ)
		on_readable(c);
}

static void on_silent(void *arg)
{
	conn_end(arg);
}

/* Returns 1 for an account that may have a hearth-rsh here. */
static int is_served(struct rshd *r, uid_t uid)
{
	return uid == 0 || uid == geteuid() || launches_has_user(r->launches, uid);
}

/* Makes room for a connection of that account: the oldest one of it that said nothing yet leaves. Returns 0
 * when all places are in use by others. */
static int make_room(struct rshd *r, uid_t uid)
{
	struct rsh_conn *c, *oldest = NULL;
	unsigned of_user = 0, of_all = 0;

	DL_FOREACH (r->conns, c) {
		if (c->session)
			continue;
		of_all++;
		of_user += c->uid == uid;
		if (c->uid == uid && !oldest)
			oldest = c;
	}
	if (of_user < CONNS_USER && of_all < CONNS_MAX)
		return 1;
	if (oldest)
		conn_end(oldest);
	return oldest != NULL;
}

static void conn_begin(struct rshd *r, int fd, const struct ucred *cred)
{
	struct rsh_conn *c = xcalloc(1, sizeof(*c));

	c->owner = r;
	c->fd = fd;
	c->pid = cred->pid;
	c->uid = cred->uid;
	buf_init(&c->in, FRAME_MAX);
	buf_init(&c->out, FRAME_MAX);
	c->watch = loop_fd_create(r->loop, fd, LOOP_READ, on_socket, c);
	c->timer = loop_timer_create(r->loop, on_silent, c);
	loop_timer_arm(c->timer, (uint64_t)HELLO_MS * 1000);
	DL_APPEND(r->conns, c);
}

static void on_accept(int fd, int what, void *arg)
{
	struct rshd *r = arg;
	struct ucred cred;
	socklen_t n = sizeof(cred);
	unsigned held = 0;
	int s = -1;

	(void)what;
	errno = EMFILE;
	if (!FAULT("agent.rsh_accept"))
		s = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (s < 0) {
		/* The caller stays in the queue, so the socket stays readable: asked again at once, this would be
		 * all that the loop does. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			log_warn("event=rsh_accept_failed reason=\"%s\"", strerror(errno));
			loop_fd_set(r->watch, 0);
			loop_timer_arm(r->back_off, BACK_OFF_US);
		}
		return;
	}
	if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 && is_served(r, cred.uid) &&
	    make_room(r, cred.uid)) {
		conn_begin(r, s, &cred);
		return;
	}
	if (log_limit_ok(&r->strangers, clock_boot_us(clock_real()), &held))
		log_warn(
		    "event=rsh_stranger uid=%u pid=%d suppressed=%u text=\"only accounts with a launch on this node "
		    "may use the agent's socket\"",
		    (unsigned)cred.uid, (int)cred.pid, held);
	close(s);
}

static void on_back_off(void *arg)
{
	loop_fd_set(((struct rshd *)arg)->watch, LOOP_READ);
}

/* ---- outside ----------------------------------------------------------------------------------------------
 */

void rshd_state(struct rshd *r, const struct wm_rsh_state *m)
{
	struct rsh_session *s = session_find(r, m->job, m->attempt, m->rsh_id);

	if (!s || is_end(s->state))
		return;
	s->state = m->state;
	s->exit_code = m->exit_code;
	s->signal = m->signal;
	free(s->text);
	s->text = xstrdup(m->text);
	if (s->conn)
		send_state(s->conn, s->rsh_id, s->state, s->exit_code, s->signal, s->text);
}

void rshd_reconnected(struct rshd *r)
{
	struct rsh_session *s;

	/* Also for those that run: hearthd sends an end again that came while nobody listened. */
	DL_FOREACH (r->sessions, s)
		if (!is_end(s->state))
			request_orted(s);
}

void rshd_launch_renamed(struct rshd *r, uint64_t job, uint32_t attempt, uint64_t to_job, uint32_t to_attempt)
{
	struct rsh_session *s;

	DL_FOREACH (r->sessions, s)
		if (s->job == job && s->attempt == attempt) {
			s->job = to_job;
			s->attempt = to_attempt;
		}
}

void rshd_ask(struct rshd *r, uint64_t job, uint32_t attempt)
{
	struct rsh_session *s;

	DL_FOREACH (r->sessions, s)
		if (s->job == job && s->attempt == attempt && !is_end(s->state))
			request_orted(s);
}

void rshd_launch_over(struct rshd *r, uint64_t job, uint32_t attempt)
{
	struct rsh_session *s, *next;

	DL_FOREACH_SAFE (r->sessions, s, next) {
		if (s->job != job || s->attempt != attempt)
			continue;
		if (s->conn && !is_end(s->state))
			send_state(s->conn, s->rsh_id, PS_LOST, 0, 0, "the launch is over");
		session_free(s);
	}
}

struct rshd *rshd_create(struct loop *loop, const char *sock_path, struct launches *launches,
                         const struct rshd_ops *ops, void *arg, struct err *e)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct rshd *r = xcalloc(1, sizeof(*r));

	r->loop = loop;
	r->launches = launches;
	r->ops = ops;
	r->arg = arg;
	r->strangers.per_minute = 6;
	if (strlen(sock_path) >= sizeof(sa.sun_path)) {
		err_set(e, ERR_INVALID, "%s: too long for a socket; give a shorter --run", sock_path);
		free(r);
		return NULL;
	}
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", sock_path);
	unlink(sock_path);
	r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* Everybody may connect; the kernel names the account, which must have a launch here, and the launch's
	 * token must fit. */
	if (r->fd < 0 || bind(r->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || chmod(sock_path, 0666) < 0 ||
	    listen(r->fd, 128) < 0) {
		err_sys(e, errno, "%s", sock_path);
		if (r->fd >= 0)
			close(r->fd);
		free(r);
		return NULL;
	}
	r->watch = loop_fd_create(loop, r->fd, LOOP_READ, on_accept, r);
	r->back_off = loop_timer_create(loop, on_back_off, r);
	return r;
}

void rshd_destroy(struct rshd *r)
{
	if (!r)
		return;
	/* No cancel: the next agent gets them back. */
	while (r->sessions)
		session_free(r->sessions);
	while (r->conns)
		conn_end(r->conns);
	loop_fd_destroy(r->watch);
	loop_timer_destroy(r->back_off);
	close(r->fd);
	free(r);
}
