/*
 * peer_move: an open connection leaves its loop for the loop of another thread.
 *
 * libevent binds a bufferevent to its loop for life, so the connection gets a new one: the descriptor, the
 * TLS session and the bytes of both buffers move. Three things could still connect it with the old loop:
 *
 * - Events. They are removed from the loop before anything moves.
 * - The number of the descriptor, which owners of the old bufferevent shut down and close. The connection
 *   moves to a new number, and the old one becomes an empty file.
 * - The TLS session, which the old bufferevent frees later, at a time of libevent's choice. It holds a
 *   reference of its own, and the session has no descriptor until its new bufferevent exists.
 *
 * A byte in the old input buffer tells the end of the old bufferevent: libevent frees the buffer last.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/bufferevent_struct.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/net/peer_int.h"

#define SINGLE_MAX (128 * 1024) /* bytes that one read or write may move */

struct peer_parcel {
	int fd;
	SSL *ssl; /* NULL plain */
	struct evbuffer *in, *out;
	int old_fd; /* of TLS: an empty file, ours to close; -1 none */
	uint8_t role;
	unsigned version;
	size_t skip, out_limit;
	char node[TLS_NODE_MAX + 1];
	void (*done)(struct peer_parcel *pp, void *arg);
	void *arg;
};

void peer_parcel_free(struct peer_parcel *pp)
{
	if (!pp)
		return;
	SSL_free(pp->ssl);
	if (pp->fd >= 0)
		close(pp->fd);
	if (pp->old_fd >= 0)
		close(pp->old_fd);
	evbuffer_free(pp->in);
	evbuffer_free(pp->out);
	free(pp);
}

/* ---- packing ------------------------------------------------------------------------------------- */

/* Moves the connection to a new number. -1: nothing has changed. */
static int move_number(int fd, struct err *e)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), empty = open("/dev/null", O_RDWR | O_CLOEXEC);
	int rc = 0;

	if (copy < 0 || empty < 0 || dup3(empty, fd, O_CLOEXEC) < 0)
		rc = err_sys(e, errno, "cannot move the connection to another thread");
	if (empty >= 0)
		close(empty);
	if (rc < 0 && copy >= 0)
		close(copy);
	return rc < 0 ? -1 : copy;
}

/* Bytes that OpenSSL has read and decrypted cause no event on the new loop. */
static void read_pending(SSL *ssl, struct evbuffer *in)
{
	char piece[4096];
	int n;

	while (SSL_pending(ssl) > 0 && (n = SSL_read(ssl, piece, sizeof(piece))) > 0)
		evbuffer_add(in, piece, (size_t)n);
}

static void take_bytes(struct bufferevent *bev, struct peer_parcel *pp)
{
	struct evbuffer *in = bufferevent_get_input(bev), *out = bufferevent_get_output(bev);

	pp->in = evbuffer_new();
	pp->out = evbuffer_new();
	evbuffer_unfreeze(in, 1);
	evbuffer_unfreeze(out, 1);
	evbuffer_add_buffer(pp->in, in);
	evbuffer_add_buffer(pp->out, out);
}

static void take_session(struct bufferevent *bev, int old_fd, struct peer_parcel *pp)
{
	SSL *ssl = bufferevent_openssl_get_ssl(bev);

	if (!ssl)
		return; /* a plain bufferevent closes the old number itself */
	read_pending(ssl, pp->in);
	SSL_up_ref(ssl);
	SSL_set_bio(ssl, NULL, NULL);
	pp->ssl = ssl;
	pp->old_fd = old_fd;
}

/* The old bufferevent is gone. */
static void on_bev_gone(const void *data, size_t n, void *arg)
{
	struct peer_parcel *pp = arg;

	(void)data;
	(void)n;
	if (pp->old_fd >= 0)
		close(pp->old_fd);
	pp->old_fd = -1;
	pp->done(pp, pp->arg);
}

int peer_pack(struct peer *p, void (*done)(struct peer_parcel *pp, void *arg), void *arg, struct err *e)
{
	struct bufferevent *bev = p->bev;
	struct peer_parcel *pp;
	int old_fd, fd;

	if (!peer_alive(p) || p->state != PEER_OPEN || p->ended || !bev)
		return err_set(e, ERR_UNAVAILABLE, "the connection is closed");
	bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
	bufferevent_disable(bev, EV_READ | EV_WRITE);
	/* Disabling leaves an event that TLS waits for in the other direction. */
	event_del(&bev->ev_read);
	event_del(&bev->ev_write);
	old_fd = (int)bufferevent_getfd(bev);
	fd = move_number(old_fd, e);
	if (fd < 0)
		return -1;
	pp = xcalloc(1, sizeof(*pp));
	pp->fd = fd;
	pp->old_fd = -1;
	pp->role = p->role;
	pp->version = p->version;
	pp->skip = p->skip;
	pp->out_limit = p->out_limit;
	memcpy(pp->node, p->node, sizeof(pp->node));
	pp->done = done;
	pp->arg = arg;
	take_bytes(bev, pp);
	take_session(bev, old_fd, pp);
	evbuffer_unfreeze(bufferevent_get_input(bev), 0);
	evbuffer_add_reference(bufferevent_get_input(bev), "", 1, on_bev_gone, pp);
	peer_destroy(p);
	return 0;
}

/* ---- unpacking ----------------------------------------------------------------------------------- */

static struct bufferevent *make_bev(struct loop *l, struct peer_parcel *pp)
{
	struct event_base *base = loop_base(l);
	struct bufferevent *bev =
	    pp->ssl ? bufferevent_openssl_socket_new(base, pp->fd, pp->ssl, BUFFEREVENT_SSL_OPEN,
	                                             BEV_OPT_CLOSE_ON_FREE)
	            : bufferevent_socket_new(base, pp->fd, BEV_OPT_CLOSE_ON_FREE);

	if (!bev) {
		log_error("event=out_of_memory what=bufferevent");
		abort();
	}
	pp->ssl = NULL;
	pp->fd = -1;
	return bev;
}

struct peer *peer_unpack(struct loop *l, struct peer_parcel *pp, const struct peer_ops *ops, void *arg)
{
	struct peer *p = peer_new(l, ops, arg, pp->out_limit);
	int plain = !pp->ssl;
	struct bufferevent *bev = make_bev(l, pp);
	struct evbuffer *in = bufferevent_get_input(bev);

	p->accepting = 1;
	p->role = pp->role;
	p->version = pp->version;
	p->skip = pp->skip;
	memcpy(p->node, pp->node, sizeof(p->node));
	bufferevent_set_max_single_read(bev, SINGLE_MAX);
	bufferevent_set_max_single_write(bev, SINGLE_MAX);
	evbuffer_unfreeze(in, 0);
	evbuffer_add_buffer(in, pp->in);
	if (plain) /* a bufferevent with TLS does not unfreeze its buffers to fill them */
		evbuffer_freeze(in, 0);
	p->state = PEER_OPEN;
	peer_use(p, bev);
	bufferevent_write_buffer(bev, pp->out);
	peer_parcel_free(pp);
	bufferevent_trigger(bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
	return p;
}
