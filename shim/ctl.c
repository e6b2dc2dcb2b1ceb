/*
 * ctl: see ctl.h. One table of verbs; a frame that is not in it, not allowed, too long or malformed gets one
 * answer that says so, and the end of the connection.
 */
#include "shim/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "shim/core.h"

#define GUESTS_MAX  (SHIM_MAX_CONNS / 2) /* the job must not be able to shut out the agent */
#define READ_CHUNK  16384
#define IN_STRANGER 4096            /* largest frame before hello, */
#define IN_WAITING  (1024 * 1024)   /* while go with its environment is expected, */
#define IN_PARKED   SHIM_LAUNCH_MAX /* while start with the whole order is expected from the agent, */
#define IN_STARTED  65536           /* and afterwards */
#define OUT_MAX     (256 * 1024)    /* replies that wait for a slow reader */
#define HELLO_US    10000000
#define CLOSING_US  1000000 /* time to read the last answer */
#define ACCEPT_US   200000  /* pause when there is no descriptor left, instead of a spin */
#define FDS_MAX     3

struct conn {
	int fd; /* -1: free slot */
	struct buf in, out;
	int fds[FDS_MAX]; /* came by SCM_RIGHTS and wait for their go */
	unsigned n_fds;
	int guest, greeted, watch, mirror, go_pending, closing;
	uint64_t watch_id, go_id;
	uint64_t deadline_us; /* boot time at which it is closed, 0 none */
};

struct ctl {
	struct shim *s;
	int fd;
	uint64_t accept_at_us; /* boot time before which nobody is let in, 0 none */
	struct conn conns[SHIM_MAX_CONNS];
	struct conn *polled[SHIM_MAX_CONNS]; /* of the last ctl_poll, in its order */
	uint8_t tail[SHIM_TAIL_MAX];
};

static uint64_t now_us(const struct ctl *c)
{
	return clock_boot_us(c->s->clock);
}

/* ---- connections -------------------------------------------------------------------------------- */

static void drop_fds(struct conn *k)
{
	for (unsigned i = 0; i < k->n_fds; i++)
		if (k->fds[i] >= 0)
			close(k->fds[i]);
	k->n_fds = 0;
}

static void conn_close(struct ctl *c, struct conn *k)
{
	int mirror = k->mirror;

	close(k->fd);
	drop_fds(k);
	buf_fini(&k->in);
	buf_fini(&k->out);
	*k = (struct conn){.fd = -1};
	/* The stub is gone, and with it the launcher's hold on the process. */
	if (mirror && c->s->phase < SP_ENDING)
		shim_mirror_ended(c->s);
}

/* A connection that fails here is only marked: the caller may still be using it. */
static void conn_end(struct ctl *c, struct conn *k)
{
	k->closing = 1;
	k->deadline_us = now_us(c);
	buf_reset(&k->out);
}

static void flush_conn(struct ctl *c, struct conn *k)
{
	ssize_t n;

	while (buf_left(&k->out)) {
		n = send(k->fd, buf_head(&k->out), buf_left(&k->out), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			conn_end(c, k);
			return;
		}
		buf_skip(&k->out, (size_t)n);
	}
	if (k->closing)
		k->deadline_us = now_us(c);
}

static void send_reply(struct ctl *c, struct conn *k, uint16_t type, const void *msg, uint64_t id)
{
	struct err why;

	if (FAULT("shim.reply")) {
		conn_end(c, k);
		return;
	}
	if (wire_encode(type, msg, id, &k->out, &why) < 0) {
		log_warn("event=reader_too_slow reason=\"%s\"", why.text);
		conn_end(c, k);
		return;
	}
	flush_conn(c, k);
}

static void reply_ok(struct ctl *c, struct conn *k, uint64_t id, enum err_code code, const char *text)
{
	struct wm_shim_ok m = {.code = (uint32_t)code, .text = (char *)(uintptr_t)text};

	send_reply(c, k, WM_SHIM_OK, &m, id);
}

static void reply_err(struct ctl *c, struct conn *k, uint64_t id, const struct err *e)
{
	reply_ok(c, k, id, e->code, e->text);
}

static void reply_status(struct ctl *c, struct conn *k, uint64_t id)
{
	struct wm_shim_status st;

	shim_status(c->s, &st);
	send_reply(c, k, WM_SHIM_STATUS, &st, id);
}

/* Answers and closes once the answer is out. */
static void refuse_order(struct ctl *c, struct conn *k, uint64_t id, enum err_code code, const char *text)
{
	k->closing = 1;
	k->deadline_us = now_us(c) + CLOSING_US;
	reply_ok(c, k, id, code, text);
}

/* ---- the verbs ---------------------------------------------------------------------------------- */

/* In constant time, as far as a compiler lets it: the token is a secret. */
static int same_token(const char *a, const char *b)
{
	size_t n = strlen(a);
	unsigned diff = 0;

	if (n != strlen(b))
		return 0; /* its length differs */
	for (size_t i = 0; i < n; i++)
		diff |= (unsigned char)(a[i] ^ b[i]);
	return diff == 0;
}

static void on_hello(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	const struct wm_shim_hello *m = msg;
	TEXT(text);

	if (m->version != SHIM_VERSION) {
		text_add(&text, "this shim speaks version %d, not %u", SHIM_VERSION, m->version);
		refuse_order(c, k, id, ERR_PROTOCOL, text.at);
		return;
	}
	if (!same_token(m->token, c->s->l.shim_token)) {
		refuse_order(c, k, id, ERR_DENIED, "wrong token");
		return;
	}
	k->greeted = 1;
	k->deadline_us = 0;
	reply_status(c, k, id);
}

static void on_query(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	const struct wm_shim_query *m = msg;

	k->watch = m->watch != 0;
	k->watch_id = id;
	reply_status(c, k, id);
}

static void on_signal(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	const struct wm_shim_signal *m = msg;
	struct err why = {0};

	if (m->signal > 64)
		err_set(&why, ERR_INVALID, "%u is not a signal", m->signal);
	else if (shim_signal(c->s, (int)m->signal, m->only_if_caught, &why) == 0 && k->mirror)
		c->s->passed_on = (int)m->signal;
	reply_err(c, k, id, &why);
}

static void on_tail(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	const struct wm_shim_tail *m = msg;
	struct wm_shim_data d = {.data = {.data = c->tail}};

	if (c->s->out)
		d.data.n = (uint32_t)out_tail(c->s->out, c->tail,
		                              m->max_bytes < SHIM_TAIL_MAX ? m->max_bytes : SHIM_TAIL_MAX);
	send_reply(c, k, WM_SHIM_DATA, &d, id);
}

/* A connection has one answer to wait for. */
static int is_pending(struct ctl *c, struct conn *k, uint64_t id)
{
	if (k->go_pending)
		reply_ok(c, k, id, ERR_CONFLICT, "the go before is not answered yet");
	return k->go_pending;
}

static void on_go(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	const struct wm_shim_go *m = msg;
	int in_fd = k->n_fds ? k->fds[0] : -1, mirror_before = k->mirror;
	struct err why;

	if (is_pending(c, k, id))
		return;
	k->go_id = id;
	k->go_pending = 1;
	k->mirror |= m->mirror != 0;
	if (shim_go(c->s, m, in_fd, &why) < 0) {
		k->go_pending = 0;
		k->mirror = mirror_before;
		reply_err(c, k, id, &why);
	} else if (k->n_fds) {
		k->fds[0] = -1; /* taken */
	}
	drop_fds(k);
}

static void on_start(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	struct err why;

	if (is_pending(c, k, id))
		return;
	k->go_id = id;
	k->go_pending = 1;
	if (shim_unpark(c->s, msg, &why) < 0) {
		k->go_pending = 0;
		reply_err(c, k, id, &why);
	}
}

static void on_attach(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	(void)msg;
	reply_ok(c, k, id, ERR_UNSUPPORTED, "attach is not built yet");
}

static void on_release(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	struct err why = {0};

	(void)msg;
	shim_release(c->s, &why);
	reply_err(c, k, id, &why);
}

static void on_quit(struct ctl *c, struct conn *k, uint64_t id, const void *msg)
{
	const struct wm_shim_quit *m = msg;

	reply_ok(c, k, id, ERR_NONE, "");
	shim_quit(c->s, m->grace_ms, m->by == BY_LAUNCHER ? BY_LAUNCHER : BY_ORDER);
}

static const struct verb {
	uint16_t type;
	void (*fn)(struct ctl *c, struct conn *k, uint64_t id, const void *msg);
	int owner_only;
} verbs[] = {
    {WM_SHIM_HELLO, on_hello, 0}, {WM_SHIM_QUERY, on_query, 0},     {WM_SHIM_SIGNAL, on_signal, 0},
    {WM_SHIM_TAIL, on_tail, 0},   {WM_SHIM_GO, on_go, 0},           {WM_SHIM_ATTACH, on_attach, 0},
    {WM_SHIM_QUIT, on_quit, 1},   {WM_SHIM_RELEASE, on_release, 1}, {WM_SHIM_START, on_start, 1},
};

static const struct verb *verb_of(uint16_t type)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (verbs[i].type == type)
			return &verbs[i];
	return NULL;
}

static void on_frame(struct ctl *c, struct conn *k, const struct wire_frame *f)
{
	const struct verb *v = wire_allowed(f->type, WIRE_FROM_SHIMCLIENT, WIRE_LOCAL) ? verb_of(f->type) : NULL;
	struct err why;
	void *msg;

	if (!v) {
		refuse_order(c, k, f->id, ERR_PROTOCOL, "no such verb here");
	} else if (!k->greeted && f->type != WM_SHIM_HELLO) {
		refuse_order(c, k, f->id, ERR_UNAUTHORIZED, "hello comes first");
	} else if (v->owner_only && k->guest) {
		reply_ok(c, k, f->id, ERR_DENIED, "only the agent may do that");
	} else if (wire_decode(f->type, f->body, f->n, &msg, &why) < 0) {
		refuse_order(c, k, f->id, why.code, why.text);
	} else {
		v->fn(c, k, f->id, msg);
		wire_free(f->type, msg);
	}
}

/* ---- reading ------------------------------------------------------------------------------------ */

static void take_fds(struct conn *k, struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t n;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (k->n_fds < FDS_MAX)
				k->fds[k->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

static ssize_t receive_bytes(struct conn *k, uint8_t *p, size_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = p, .iov_len = n};
	struct msghdr m = {.msg_iov = &iov,
	                   .msg_iovlen = 1,
	                   .msg_control = control.space,
	                   .msg_controllen = sizeof(control.space)};
	ssize_t got;

	do
		got = recvmsg(k->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		take_fds(k, &m);
	return got;
}

static size_t frame_limit(const struct ctl *c, const struct conn *k)
{
	if (!k->greeted)
		return IN_STRANGER;
	if (c->s->phase == SP_PARKED && !k->guest)
		return IN_PARKED;
	return c->s->phase <= SP_PARKED ? IN_WAITING : IN_STARTED;
}

static void take_frames(struct ctl *c, struct conn *k)
{
	struct wire_frame f;
	struct err why;
	int rc;

	while (!k->closing) {
		if (buf_left(&k->in) >= WIRE_HEADER_SIZE && wire_header(buf_head(&k->in), &f, NULL) == 0 &&
		    f.n > frame_limit(c, k)) {
			refuse_order(c, k, f.id, ERR_LIMIT, "frame is too large here");
			return;
		}
		rc = wire_next(&k->in, &f, &why);
		if (rc < 0)
			refuse_order(c, k, 0, why.code, why.text);
		if (rc <= 0)
			return;
		on_frame(c, k, &f);
	}
}

static void on_readable(struct ctl *c, struct conn *k)
{
	uint8_t chunk[READ_CHUNK];
	ssize_t n = receive_bytes(k, chunk, sizeof(chunk));

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		conn_end(c, k);
		return;
	}
	if (k->closing)
		return; /* read and forgotten, so that our answer is not lost by a reset */
	if (buf_put(&k->in, chunk, (size_t)n) < 0) {
		refuse_order(c, k, 0, ERR_LIMIT, "too much at once");
		return;
	}
	take_frames(c, k);
	/* Descriptors that a frame did not use (without go) do not wait for the next frame. */
	if (buf_left(&k->in) == 0)
		drop_fds(k);
}

/* ---- accepting ---------------------------------------------------------------------------------- */

static struct conn *free_slot(struct ctl *c, int guest)
{
	struct conn *found = NULL;
	unsigned guests = 0;

	for (int i = 0; i < SHIM_MAX_CONNS; i++) {
		if (c->conns[i].fd < 0)
			found = &c->conns[i];
		else
			guests += (unsigned)c->conns[i].guest;
	}
	return guest && guests >= GUESTS_MAX ? NULL : found;
}

/* 0 owner, 1 guest, -1 nobody. */
static int who_is(const struct ctl *c, int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return -1;
	if (cred.uid == 0 || cred.uid == geteuid())
		return 0;
	return c->s->l.set_ids && cred.uid == c->s->l.uid ? 1 : -1;
}

static void turn_away(int fd, enum err_code code, const char *text)
{
	struct wm_shim_ok m = {.code = (uint32_t)code, .text = (char *)(uintptr_t)text};
	struct buf out;

	buf_init(&out, 1024);
	if (wire_encode(WM_SHIM_OK, &m, 0, &out, NULL) == 0)
		(void)!send(fd, buf_head(&out), buf_left(&out), MSG_NOSIGNAL | MSG_DONTWAIT);
	buf_fini(&out);
	close(fd);
}

static void on_connection(struct ctl *c)
{
	int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), who;
	struct conn *k;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			c->accept_at_us = now_us(c) + ACCEPT_US;
		return;
	}
	who = who_is(c, fd);
	if (who < 0) {
		turn_away(fd, ERR_DENIED, "not your shim");
		return;
	}
	k = free_slot(c, who);
	if (!k) {
		turn_away(fd, ERR_BUSY, "too many connections");
		return;
	}
	*k = (struct conn){.fd = fd, .guest = who, .deadline_us = now_us(c) + HELLO_US};
	buf_init(&k->in, WIRE_HEADER_SIZE + (who ? IN_WAITING : IN_PARKED) + READ_CHUNK);
	buf_init(&k->out, OUT_MAX);
}

/* ---- for the loop ------------------------------------------------------------------------------- */

unsigned ctl_poll(struct ctl *c, struct pollfd *fds, uint64_t *look_again)
{
	unsigned n = 1;

	if (c->accept_at_us && now_us(c) >= c->accept_at_us)
		c->accept_at_us = 0;
	*look_again = c->accept_at_us;
	fds[0] = (struct pollfd){.fd = c->accept_at_us ? -1 : c->fd, .events = POLLIN};
	for (int i = 0; i < SHIM_MAX_CONNS; i++) {
		struct conn *k = &c->conns[i];

		if (k->fd < 0)
			continue;
		if (k->deadline_us && (!*look_again || k->deadline_us < *look_again))
			*look_again = k->deadline_us;
		c->polled[n - 1] = k;
		fds[n++] =
		    (struct pollfd){.fd = k->fd, .events = (short)(POLLIN | (buf_left(&k->out) ? POLLOUT : 0))};
	}
	return n;
}

void ctl_handle(struct ctl *c, const struct pollfd *fds, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		struct conn *k = c->polled[i - 1];

		if (fds[i].revents & POLLOUT)
			flush_conn(c, k);
		if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
			on_readable(c, k);
	}
	for (int i = 0; i < SHIM_MAX_CONNS; i++) {
		struct conn *k = &c->conns[i];

		if (k->fd >= 0 && k->deadline_us && now_us(c) >= k->deadline_us)
			conn_close(c, k);
	}
	if (fds[0].revents)
		on_connection(c);
}

void ctl_changed(struct ctl *c)
{
	for (int i = 0; c && i < SHIM_MAX_CONNS; i++) {
		struct conn *k = &c->conns[i];

		if (k->fd >= 0 && k->watch && !k->closing)
			reply_status(c, k, k->watch_id);
	}
}

void ctl_started(struct ctl *c, enum err_code code, const char *text)
{
	for (int i = 0; c && i < SHIM_MAX_CONNS; i++) {
		struct conn *k = &c->conns[i];

		if (k->fd < 0 || !k->go_pending)
			continue;
		k->go_pending = 0;
		if (!k->closing)
			reply_ok(c, k, k->go_id, code, text);
	}
}

/* ---- life --------------------------------------------------------------------------------------- */

/* Through the open directory: a path may be longer than a socket address. */
static int bind_socket(struct ctl *c, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const struct shim *s = c->s;

	unlinkat(s->dir_fd, "ctl", 0); /* there is no other shim: the directory is locked */
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl", s->dir_fd);
	/* The umask of the shim makes it 0600 from the first instant. */
	if (bind(c->fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, errno, "ctl: bind");
	if (s->l.set_ids && fchownat(s->dir_fd, "ctl", s->l.uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "ctl: chown to %u", s->l.uid);
	if (listen(c->fd, SHIM_MAX_CONNS) < 0)
		return err_sys(e, errno, "ctl: listen");
	return 0;
}

struct ctl *ctl_create(struct shim *s, struct err *e)
{
	struct ctl *c = xcalloc(1, sizeof(*c));

	c->s = s;
	for (int i = 0; i < SHIM_MAX_CONNS; i++)
		c->conns[i].fd = -1;
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		err_sys(e, errno, "ctl: socket");
	else if (bind_socket(c, e) == 0)
		return c;
	ctl_destroy(c);
	return NULL;
}

void ctl_destroy(struct ctl *c)
{
	if (!c)
		return;
	for (int i = 0; i < SHIM_MAX_CONNS; i++)
		if (c->conns[i].fd >= 0)
			conn_close(c, &c->conns[i]);
	if (c->fd >= 0) {
		close(c->fd);
		unlinkat(c->s->dir_fd, "ctl", 0);
	}
	free(c);
}
