/*
 * peer: frames over a bufferevent, both directions, bounds and closing. See peer.h.
 *
 * Input: the header of a frame is checked (type known, allowed from this side in this phase, length) as soon
 * as it is there, so that nobody can make us wait for or store a body that would be refused. Before the
 * handshake is done only handshake messages pass, and the input buffer is small. Output: bounded by
 * out_limit; one frame always fits into an empty queue. Release: callbacks of the user run inside
 * peer_enter/peer_leave; a peer destroyed or failed there is released on the way out.
 */
#include "common/net/peer.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/net/peer_int.h"

#define TURN_FRAMES  256 /* handled in one go, then others have their turn */
#define TURN_BYTES   (1024 * 1024)
#define COPY_MAX     4096        /* frames from here on are not copied into the queue */
#define IN_MAX_SHAKE (80 * 1024) /* a handshake message and a header of HTTP */
/* Room for more than one frame, so that reading is never suspended in the middle of a TLS record: the rest of
 * it would lie inside OpenSSL, where no event of the socket tells of it. */
#define IN_MAX (WIRE_MAX_BODY + WIRE_HEADER_SIZE + 64 * 1024)

static void on_read(struct bufferevent *bev, void *arg);
static void on_write(struct bufferevent *bev, void *arg);
static void on_event(struct bufferevent *bev, short what, void *arg);
static int read_frames(struct peer *p, unsigned frames);

/* ---- life ---------------------------------------------------------------------------------------- */

static void release_peer(struct peer *p)
{
	if (p->bev)
		bufferevent_free(p->bev);
	loop_timer_destroy(p->timer);
	peer_dial_free(p->dial);
	free(p->cluster);
	free(p);
}

void peer_enter(struct peer *p)
{
	loop_enter(p->loop);
	p->depth++;
}

void peer_leave(struct peer *p)
{
	if (--p->depth == 0 && p->dead)
		release_peer(p);
}

int peer_alive(const struct peer *p)
{
	return !p->dead && p->state != PEER_CLOSED;
}

static void stop_io(struct peer *p)
{
	if (p->bev) {
		bufferevent_setcb(p->bev, NULL, NULL, NULL, NULL);
		bufferevent_disable(p->bev, EV_READ | EV_WRITE);
	}
	loop_timer_cancel(p->timer);
}

void peer_destroy(struct peer *p)
{
	if (!p || p->dead)
		return;
	stop_io(p);
	p->dead = 1;
	p->state = PEER_CLOSED;
	if (p->depth == 0)
		release_peer(p);
}

void peer_fail(struct peer *p, const struct err *why)
{
	if (!peer_alive(p))
		return;
	p->why = *why;
	p->state = PEER_CLOSED;
	stop_io(p);
	if (p->bev) {
		/* The other side should see the end now, not when our owner gets round to destroying the peer. */
		bufferevent_free(p->bev);
		p->bev = NULL;
	}
	peer_dial_free(p->dial);
	p->dial = NULL;
	peer_enter(p);
	p->ops.on_close(p, &p->why, p->arg);
	peer_leave(p);
}

static void fail_with(struct peer *p, enum err_code code, const char *text)
{
	struct err e;

	err_set(&e, code, "%s", text);
	peer_fail(p, &e);
}

/* ---- deadlines ----------------------------------------------------------------------------------- */

static const char *waiting_for(enum peer_state s)
{
	switch (s) {
	case PEER_LOOKING_UP:
		return "the host's name was not found in time: mend the name service, or give the address in numbers";
	case PEER_CONNECTING:
		return "connection not made in time";
	case PEER_TLS:
		return "TLS handshake not done in time";
	case PEER_UPGRADING:
		return "no answer to the HTTP upgrade in time";
	default:
		return "handshake not done in time";
	}
}

/* What came before the end still counts: REFUSED and a close mostly come together. */
static void read_rest(struct peer *p)
{
	if (p->state == PEER_UPGRADING)
		peer_dial_read(p);
	while (p->state >= PEER_CHALLENGED && peer_alive(p) && read_frames(p, UINT32_MAX))
		;
	peer_fail(p, &p->why);
}

static void on_timer(void *arg)
{
	struct peer *p = arg;

	peer_enter(p);
	if (p->ended)
		read_rest(p);
	else if (p->state == PEER_FLUSHING)
		fail_with(p, ERR_TIMEOUT,
		          p->shut || !p->bev ? "closed by this side" : "closed by this side before all was sent");
	else
		fail_with(p, ERR_TIMEOUT, waiting_for(p->state));
	peer_leave(p);
}

struct peer *peer_new(struct loop *l, const struct peer_ops *ops, void *arg, size_t out_limit)
{
	struct peer *p = xcalloc(1, sizeof(*p));

	p->loop = l;
	p->ops = *ops;
	p->arg = arg;
	p->out_limit = out_limit ? out_limit : PEER_OUT_LIMIT;
	p->timer = loop_timer_create(l, on_timer, p);
	return p;
}

void peer_use(struct peer *p, struct bufferevent *bev)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);

	p->bev = bev;
	/* Frames end by themselves, so an end without TLS's farewell is an end like any other. */
	if (ssl) {
		SSL_set_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
		bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	}
	bufferevent_setcb(bev, on_read, on_write, on_event, p);
	bufferevent_setwatermark(bev, EV_READ, 0, p->state == PEER_OPEN ? IN_MAX : IN_MAX_SHAKE);
	bufferevent_setwatermark(bev, EV_WRITE, p->out_limit / 4, 0);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

void peer_open(struct peer *p, const struct wm_welcome *welcome)
{
	if (!p->ended)
		loop_timer_cancel(p->timer);
	p->state = PEER_OPEN;
	bufferevent_setwatermark(p->bev, EV_READ, 0, IN_MAX);
	p->ops.on_open(p, welcome, p->arg);
}

/* ---- input --------------------------------------------------------------------------------------- */

static unsigned phase_of(const struct peer *p)
{
	if (p->state != PEER_OPEN)
		return WIRE_HANDSHAKE;
	return p->role == ROLE_BULK ? WIRE_BULK : WIRE_CONTROL;
}

/* An open connection without a common version: of the other side's frames only some can be understood. */
static int is_foreign(const struct peer *p, const uint8_t header[WIRE_HEADER_SIZE], struct wire_frame *f,
                      struct err *e)
{
	if (p->version || p->state != PEER_OPEN)
		return 0;
	return wire_header_any(header, f, e) < 0 ? -1 : !wire_speaks(p->version, f->type);
}

/* Drops input of a frame that is skipped. 1 when all of it is gone. */
static int skip_frame(struct peer *p, struct evbuffer *in)
{
	size_t have = evbuffer_get_length(in), n = have < p->skip ? have : p->skip;

	evbuffer_drain(in, n);
	p->skip -= n;
	return p->skip == 0;
}

/* Checks the header at the front of the input. 1 a whole frame is there, 0 not yet, -1 refused. */
static int check_header(struct peer *p, struct evbuffer *in, struct wire_frame *f, struct err *e)
{
	uint8_t header[WIRE_HEADER_SIZE];
	int foreign;

	do {
		if (!skip_frame(p, in) || evbuffer_copyout(in, header, sizeof(header)) < (ssize_t)sizeof(header))
			return 0;
		foreign = is_foreign(p, header, f, e);
		p->skip = foreign > 0 ? WIRE_HEADER_SIZE + (size_t)f->n : 0;
	} while (foreign > 0);
	if (foreign < 0 || wire_header(header, f, e) < 0)
		return -1;
	if (!wire_allowed(f->type, p->accepting ? WIRE_FROM_AGENT : WIRE_FROM_CTL, phase_of(p)) ||
	    !wire_speaks(p->version, f->type))
		return err_set(e, ERR_PROTOCOL, "a %s frame is not allowed here", wire_name(f->type));
	return evbuffer_get_length(in) >= WIRE_HEADER_SIZE + (size_t)f->n;
}

static void deliver_frame(struct peer *p, const struct wire_frame *f, void *msg)
{
	if (p->state == PEER_OPEN) {
		p->ops.on_msg(p, f->type, f->id, msg, p->arg);
		return;
	}
	peer_shake(p, f->type, msg);
	wire_free(f->type, msg);
}

/* Handles whole frames, up to `frames` of them and TURN_BYTES. 1 when there may be more. */
static int read_frames(struct peer *p, unsigned frames)
{
	struct evbuffer *in = bufferevent_get_input(p->bev);
	size_t bytes = 0;

	while (peer_alive(p) && p->state != PEER_FLUSHING && !p->held) {
		struct wire_frame f;
		struct err e;
		void *msg = NULL;
		const uint8_t *data;
		int rc;

		if (frames-- == 0 || bytes > TURN_BYTES)
			return 1;
		rc = check_header(p, in, &f, &e);
		if (rc == 0)
			return 0;
		if (rc > 0) {
			data = evbuffer_pullup(in, (ssize_t)(WIRE_HEADER_SIZE + (size_t)f.n));
			rc = wire_decode_at(p->version, f.type, data + WIRE_HEADER_SIZE, f.n, &msg, &e);
		}
		if (rc < 0) {
			peer_fail(p, &e);
			return 0;
		}
		evbuffer_drain(in, WIRE_HEADER_SIZE + (size_t)f.n);
		bytes += WIRE_HEADER_SIZE + (size_t)f.n;
		deliver_frame(p, &f, msg);
	}
	return 0;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct peer *p = arg;

	(void)bev;
	peer_enter(p);
	if (p->state == PEER_UPGRADING)
		peer_dial_read(p);
	if (p->state == PEER_FLUSHING)
		evbuffer_drain(bufferevent_get_input(p->bev), evbuffer_get_length(bufferevent_get_input(p->bev)));
	else if (p->state >= PEER_CHALLENGED && peer_alive(p) && read_frames(p, TURN_FRAMES) && peer_alive(p))
		bufferevent_trigger(p->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
	peer_leave(p);
}

void peer_hold(struct peer *p, int hold)
{
	if (!peer_alive(p) || p->held == hold)
		return;
	p->held = hold;
	if (!p->bev)
		return;
	if (hold) {
		bufferevent_disable(p->bev, EV_READ);
		return;
	}
	bufferevent_enable(p->bev, EV_READ);
	/* Bytes that are already in the buffer cause no event. */
	bufferevent_trigger(p->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* ---- output -------------------------------------------------------------------------------------- */

size_t peer_queued(const struct peer *p)
{
	return p->bev ? evbuffer_get_length(bufferevent_get_output(p->bev)) : 0;
}

static void free_data(const void *data, size_t n, void *arg)
{
	(void)data;
	(void)n;
	free(arg);
}

static void drop_shared(const void *data, size_t n, void *arg)
{
	(void)data;
	(void)n;
	wire_unshare(arg);
}

/* Bytes that other connections send too: none copies them. */
static int hand_over_shared(struct bufferevent *bev, struct wire_shared *s)
{
	if (evbuffer_add_reference(bufferevent_get_output(bev), s->data, s->n, drop_shared,
	                           wire_share_again(s)) == 0)
		return 0;
	wire_unshare(s);
	return -1;
}

/* Queues what is in out. Large frames go over without a copy: out is empty then. */
static int hand_over(struct bufferevent *bev, struct buf *out)
{
	if (buf_left(out) < COPY_MAX)
		return bufferevent_write(bev, buf_head(out), buf_left(out));
	if (evbuffer_add_reference(bufferevent_get_output(bev), buf_head(out), buf_left(out), free_data,
	                           out->data) < 0)
		return -1;
	buf_init(out, 0);
	return 0;
}

int peer_queue(struct peer *p, uint16_t type, const void *msg, uint64_t id, struct err *e)
{
	size_t queued = peer_queued(p), n;
	struct wire_shared *tail;
	struct buf out;
	int rc;

	if (!p->bev)
		return err_set(e, ERR_UNAVAILABLE, "the connection is closed");
	buf_init(&out, WIRE_HEADER_SIZE + WIRE_MAX_BODY);
	if (wire_encode_front(p->version, type, msg, id, &out, &tail, e) < 0) {
		buf_fini(&out);
		return -1;
	}
	n = buf_left(&out) + (tail ? tail->n : 0);
	if (queued && queued + n > p->out_limit) {
		p->want_drain = 1;
		rc = err_set(e, ERR_BUSY, "%zu bytes are waiting to be sent", queued);
	} else {
		/* The front alone would be a torn frame; but what fails here is out of memory, which aborts. */
		rc = hand_over(p->bev, &out) < 0 || (tail && hand_over_shared(p->bev, tail) < 0)
		         ? err_set(e, ERR_INTERNAL, "cannot queue a frame")
		         : 0;
		if (queued + n > p->out_limit / 4)
			p->want_drain = 1;
	}
	buf_fini(&out);
	return rc;
}

int peer_send(struct peer *p, uint16_t type, const void *msg, uint64_t id, struct err *e)
{
	if (p->dead || p->state != PEER_OPEN)
		return err_set(e, ERR_UNAVAILABLE, "the connection is %s",
		               peer_alive(p) ? "not open yet, or closing" : "closed");
	if (!wire_allowed(type, p->accepting ? WIRE_FROM_CTL : WIRE_FROM_AGENT, phase_of(p)))
		return err_set(e, ERR_INTERNAL, "%s may not be sent on this connection", wire_name(type));
	if (!peer_speaks(p, type))
		return err_set(e, ERR_UNSUPPORTED, "the other side does not know %s; upgrade it", wire_name(type));
	if (FAULT("wire.send")) { /* as when the other side is gone: what was sent before may be lost, too */
		shutdown(bufferevent_getfd(p->bev), SHUT_RDWR);
		return err_sys(e, EPIPE, "send");
	}
	return peer_queue(p, type, msg, id, e);
}

/* All is written: says good-bye and waits for the other side's. Closing at once could make the kernel drop
 * what the other side has not read yet, when it is just sending something. */
static void shut_side(struct peer *p)
{
	SSL *ssl = bufferevent_openssl_get_ssl(p->bev);
	evutil_socket_t fd = bufferevent_getfd(p->bev);

	if (p->shut)
		return;
	p->shut = 1;
	if (ssl)
		SSL_shutdown(ssl);
	ERR_clear_error();
	if (fd >= 0)
		shutdown((int)fd, SHUT_WR);
}

static void on_write(struct bufferevent *bev, void *arg)
{
	struct peer *p = arg;

	(void)bev;
	peer_enter(p);
	if (p->state == PEER_FLUSHING && peer_queued(p) == 0)
		shut_side(p);
	else if (p->state == PEER_OPEN && p->want_drain) {
		p->want_drain = 0;
		if (p->ops.on_drain)
			p->ops.on_drain(p, p->arg);
	}
	peer_leave(p);
}

void peer_close_flushed(struct peer *p, uint32_t timeout_ms)
{
	if (!peer_alive(p) || p->state == PEER_FLUSHING)
		return;
	p->state = PEER_FLUSHING;
	/* Still connecting: nothing is queued, the end comes at once (but from the loop). */
	if (!p->ended)
		loop_timer_arm(p->timer, p->bev ? (uint64_t)timeout_ms * 1000 : 0);
	peer_dial_free(p->dial);
	p->dial = NULL;
	if (!p->bev)
		return;
	p->held = 0;
	bufferevent_enable(p->bev, EV_READ);
	bufferevent_setwatermark(p->bev, EV_WRITE, 0, 0);
	if (peer_queued(p) == 0)
		shut_side(p);
}

/* ---- events -------------------------------------------------------------------------------------- */

/* Why a connection broke, as far as anybody knows. errnum is that of the socket. */
static void describe_error(struct peer *p, int errnum, struct err *e)
{
	SSL *ssl = bufferevent_openssl_get_ssl(p->bev);
	unsigned long code = bufferevent_get_openssl_error(p->bev);
	long verify = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

	if (p->state == PEER_TLS && verify != X509_V_OK)
		err_set(e, ERR_UNAUTHORIZED,
		        "the server's certificate is not accepted: %s (is this the cluster that the node joined? "
		        "if not, join again with a token and an empty data folder)",
		        X509_verify_cert_error_string(verify));
	else if (code)
		err_set(e, ERR_PROTOCOL, "TLS: %s%s",
		        ERR_reason_error_string(code) ? ERR_reason_error_string(code) : "unknown error",
		        p->state == PEER_TLS ? " (does the controller speak http, not https?)" : "");
	else if (errnum)
		err_sys(e, errnum, "connection lost");
	else
		err_set(e, ERR_UNAVAILABLE, "connection lost");
	/* Whatever the system calls it, callers want to know that the other side is not there. */
	if (e->code == ERR_IO)
		e->code = ERR_UNAVAILABLE;
	ERR_clear_error();
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct peer *p = arg;
	int errnum = EVUTIL_SOCKET_ERROR();
	struct err e;

	(void)bev;
	peer_enter(p);
	if (what & BEV_EVENT_CONNECTED) {
		if (p->state == PEER_TLS)
			peer_dial_connected(p);
	} else if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) && peer_alive(p) && !p->ended) {
		if (what & BEV_EVENT_EOF)
			err_set(&e, ERR_UNAVAILABLE, "%s%s", p->shut ? "closed by this side" : "closed by the other side",
			        p->state == PEER_UPGRADING && p->dial && !p->dial->tls
			            ? " without an answer (does the controller speak https, not http?)"
			            : "");
		else
			describe_error(p, errnum, &e);
		/* Not now: with TLS, libevent reports the end before it has put the last bytes into the buffer. */
		p->why = e;
		p->ended = 1;
		loop_timer_arm(p->timer, 0);
	}
	peer_leave(p);
}

/* ---- the rest ------------------------------------------------------------------------------------ */

struct peer *peer_accept(struct loop *l, struct bufferevent *bev, const struct peer_accept *a,
                         const struct peer_ops *ops, void *arg)
{
	struct peer *p = peer_new(l, ops, arg, a->out_limit);

	assert(ops->on_hello);
	p->accepting = 1;
	p->state = PEER_CHALLENGED;
	p->ca = a->ca;
	p->cluster = xstrdup(a->cluster ? a->cluster : "");
	loop_timer_arm(p->timer, (a->timeout_ms ? a->timeout_ms : PEER_TIMEOUT_MS) * 1000ull);
	peer_use(p, bev);
	/* Into an empty queue it always goes; should it not, the deadline ends the peer. */
	(void)peer_send_challenge(p, NULL);
	/* The agent may have sent its part already: that brings no event. */
	bufferevent_trigger(bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
	return p;
}

uint8_t peer_role(const struct peer *p)
{
	return p->role;
}

unsigned peer_version(const struct peer *p)
{
	return p->version;
}

int peer_speaks(const struct peer *p, uint16_t type)
{
	return wire_speaks(p->version, type);
}

const char *peer_node(const struct peer *p)
{
	return p->node;
}

uint32_t peer_backoff_ms(unsigned failures)
{
	uint32_t ms = 5000, noise;

	if (failures < 1)
		failures = 1;
	if (failures <= 6)
		ms = 100u << (failures - 1);
	random_bytes(&noise, sizeof(noise));
	return ms * 4 / 5 + noise % (ms * 2 / 5 + 1);
}
