/*
 * peer_dial: the way to hearthd: URL, addresses one after the other, TCP, TLS, the upgrade of an HTTP
 * connection.
 *
 * A name is looked up beside the loop (lookup.h). Each address gets a share of the time that is left, so that
 * one which swallows packets does not hide the others.
 */
#include "common/net/peer.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/peer_int.h"

#define HEADER_MAX (8 * 1024) /* of the answer to the upgrade */
#define UPGRADE    "hearth-agent/1"
#define LEAST_TRY  1000 /* ms for an address at least */
#define ADDRS_MAX  8

static void try_next(struct peer *p, const struct err *last);

void peer_dial_free(struct peer_dialling *d)
{
	if (!d)
		return;
	lookup_cancel(d->lookup);
	loop_fd_destroy(d->connecting);
	loop_timer_destroy(d->attempt);
	if (d->fd >= 0)
		close(d->fd);
	if (d->addrs)
		freeaddrinfo(d->addrs);
	SSL_CTX_free(d->ctx);
	free(d->host);
	free(d->port);
	free(d->cert_path);
	free(d->key_path);
	free(d->node);
	free(d);
}

/* ---- URL ----------------------------------------------------------------------------------------- */

/* http[s]://HOST:PORT[/], HOST a name, an IPv4 address or [an IPv6 one]. */
static int read_url(struct peer_dialling *d, const char *url, struct err *e)
{
	const char *host, *end, *port;
	uint64_t n;

	d->tls = strncmp(url, "https://", 8) == 0;
	if (!d->tls && strncmp(url, "http://", 7) != 0)
		return err_set(e, ERR_INVALID,
		               "\"%.200s\": a controller's address is http://HOST:PORT or https://HOST:PORT", url);
	host = url + (d->tls ? 8 : 7);
	if (*host == '[') {
		host++;
		end = strchr(host, ']');
		port = end ? end + 1 : NULL;
	} else {
		end = host + strcspn(host, ":/");
		port = end;
	}
	if (!end || end == host || *port != ':')
		return err_set(e, ERR_INVALID, "\"%.200s\": host or port is missing", url);
	port++;
	d->host = xstrndup(host, (size_t)(end - host));
	d->port = xstrndup(port, strcspn(port, "/"));
	if (str_parse_u64(d->port, &n) < 0 || n < 1 || n > 65535)
		return err_set(e, ERR_INVALID, "\"%.200s\": the port must be a number from 1 to 65535", url);
	port += strlen(d->port);
	if (*port && strcmp(port, "/") != 0)
		return err_set(e, ERR_INVALID, "\"%.200s\": there must be nothing after the port", url);
	if (str_has_control(d->host) || strpbrk(d->host, " @?#\\\"'<>"))
		return err_set(e, ERR_INVALID, "\"%.200s\": the host must be a name or an address", url);
	return 0;
}

static unsigned count_addrs(const struct addrinfo *addrs)
{
	unsigned n = 0;

	for (; addrs && n < ADDRS_MAX; addrs = addrs->ai_next)
		n++;
	return n;
}

static void on_found(struct addrinfo *addrs, const struct err *why, void *arg)
{
	struct peer *p = arg;
	struct peer_dialling *d = p->dial;

	peer_enter(p);
	d->lookup = NULL;
	d->addrs = d->next = addrs;
	d->n_addrs = count_addrs(addrs);
	p->state = PEER_CONNECTING;
	if (!d->addrs)
		peer_fail(p, why);
	else
		try_next(p, &(struct err){.code = ERR_UNAVAILABLE, .text = "the host has no address"});
	peer_leave(p);
}

/* ---- TCP ----------------------------------------------------------------------------------------- */

static void end_try(struct peer_dialling *d)
{
	loop_fd_destroy(d->connecting);
	d->connecting = NULL;
	loop_timer_cancel(d->attempt);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

static void send_upgrade(struct peer *p)
{
	const struct peer_dialling *d = p->dial;
	int six = strchr(d->host, ':') != NULL;

	p->state = PEER_UPGRADING;
	evbuffer_add_printf(
	    bufferevent_get_output(p->bev),
	    "GET /agent/v1 HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: Upgrade\r\nUpgrade: " UPGRADE
	    "\r\nUser-Agent: hearth-agent/" PACKAGE_VERSION "\r\n\r\n",
	    six ? "[" : "", d->host, six ? "]" : "", d->port);
}

void peer_dial_connected(struct peer *p)
{
	send_upgrade(p);
}

/* The TCP connection is there: TLS or the upgrade next. */
static void connected(struct peer *p)
{
	struct peer_dialling *d = p->dial;
	struct bufferevent *bev = NULL;
	int fd = d->fd, one = 1;
	SSL *ssl = NULL;
	struct err e;

	loop_fd_destroy(d->connecting);
	d->connecting = NULL;
	loop_timer_cancel(d->attempt);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!d->tls) {
		bev = bufferevent_socket_new(loop_base(p->loop), fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	} else {
		ssl = SSL_new(d->ctx);
		if (ssl && tls_client_expect(ssl, d->host, &e) < 0) {
			SSL_free(ssl);
			peer_fail(p, &e);
			return;
		}
		if (ssl)
			bev = bufferevent_openssl_socket_new(loop_base(p->loop), fd, ssl, BUFFEREVENT_SSL_CONNECTING,
			                                     BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	}
	if (!bev) {
		SSL_free(ssl);
		err_set(&e, ERR_INTERNAL, "cannot make a connection's buffers");
		peer_fail(p, &e);
		return;
	}
	d->fd = -1; /* bev's now */
	p->state = PEER_TLS;
	peer_use(p, bev);
	if (!d->tls)
		send_upgrade(p);
}

static void on_connectable(int fd, int what, void *arg)
{
	struct peer *p = arg;
	int errnum = 0;
	socklen_t n = sizeof(errnum);
	struct err e;

	(void)what;
	peer_enter(p);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &n) < 0)
		errnum = errno;
	if (errnum) {
		err_sys(&e, errnum, "cannot connect to %s port %s", p->dial->host, p->dial->port);
		try_next(p, &e);
	} else {
		connected(p);
	}
	peer_leave(p);
}

/* The end of timeout_ms ends the rounds. */
static void try_again(struct peer_dialling *d)
{
	d->rounds++;
	d->next = d->addrs;
	d->n_addrs = count_addrs(d->addrs);
}

/* Returns how long the next try may last; 0: until timeout_ms. */
static uint64_t try_ms(const struct peer_dialling *d)
{
	uint64_t share_ms = d->timeout_ms / d->n_addrs;

	if (d->try_ms)
		return d->rounds < 8 ? d->try_ms : 8ull * d->try_ms;
	if (d->n_addrs == 1)
		return 0;
	return share_ms < LEAST_TRY ? LEAST_TRY : share_ms;
}

static void on_attempt_over(void *arg)
{
	struct peer *p = arg;
	struct err e;

	peer_enter(p);
	err_set(&e, ERR_TIMEOUT, "no answer from %s port %s", p->dial->host, p->dial->port);
	if (!p->dial->n_addrs)
		try_again(p->dial);
	try_next(p, &e);
	peer_leave(p);
}

/* Begins with the next address; when none is left, fails with what was wrong with the last. */
static void try_next(struct peer *p, const struct err *last)
{
	struct peer_dialling *d = p->dial;
	struct err why = *last;

	end_try(d);
	while (d->next && d->n_addrs) {
		const struct addrinfo *a = d->next;
		uint64_t ms = try_ms(d);

		d->next = a->ai_next;
		d->n_addrs--;
		d->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (d->fd >= 0 && (connect(d->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS)) {
			/* A connection made at once is reported as writable too. */
			d->connecting = loop_fd_create(p->loop, d->fd, LOOP_WRITE, on_connectable, p);
			if (ms)
				loop_timer_arm(d->attempt, ms * 1000);
			return;
		}
		err_sys(&why, errno, "cannot connect to %s port %s", d->host, d->port);
		end_try(d);
	}
	why.code = why.code == ERR_TIMEOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
	peer_fail(p, &why);
}

/* ---- answer to the upgrade ------------------------------------------------------------------------ */

/* Value of a header field in the lines after the status line, without blanks around; NULL when it is not
 * there. */
static const char *field(const char *header, const char *name, size_t *n)
{
	const char *line = strstr(header, "\r\n");

	while (line && line[2]) {
		const char *end;

		line += 2;
		end = strstr(line, "\r\n");
		if (!end)
			return NULL;
		if (strncasecmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
			const char *v = line + strlen(name) + 1;

			while (*v == ' ' || *v == '\t')
				v++;
			while (end > v && (end[-1] == ' ' || end[-1] == '\t'))
				end--;
			*n = (size_t)(end - v);
			return v;
		}
		line = end;
	}
	return NULL;
}

static int check_answer(const char *header, struct err *e)
{
	const char *upgrade;
	size_t n = 0, line = strcspn(header, "\r\n");
	enum err_code code;

	if (strncmp(header, "HTTP/1.1 ", 9) != 0 || strspn(header + 9, "0123456789") != 3)
		return err_set(e, ERR_PROTOCOL,
		               "the answer is not HTTP: check that the port is hearthd's, and http or https");
	if (strncmp(header + 9, "101", 3) != 0) {
		code = header[9] == '5' || header[9] == '4' ? ERR_UNAVAILABLE : ERR_PROTOCOL;
		return err_set(e, code, "hearthd does not take the connection: %.*s", line > 100 ? 100 : (int)line,
		               header);
	}
	upgrade = field(header, "Upgrade", &n);
	if (!upgrade || n != strlen(UPGRADE) || strncasecmp(upgrade, UPGRADE, n) != 0)
		return err_set(e, ERR_PROTOCOL, "the server does not speak " UPGRADE);
	return 0;
}

void peer_dial_read(struct peer *p)
{
	struct evbuffer *in = bufferevent_get_input(p->bev);
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	char header[HEADER_MAX + 1];
	struct err e;
	size_t n;

	/* A server that speaks no HTTP is found out by its first bytes, not by the deadline. */
	if (end.pos < 0 && evbuffer_get_length(in) < HEADER_MAX) {
		n = (size_t)evbuffer_copyout(in, header, 5);
		header[n] = '\0';
		if (strncmp(header, "HTTP/", n) != 0) {
			err_set(&e, ERR_PROTOCOL,
			        "the answer is not HTTP: check that the port is hearthd's, and http or https");
			peer_fail(p, &e);
		}
		return;
	}
	if (end.pos < 0 || end.pos + 4 > HEADER_MAX) {
		err_set(&e, ERR_LIMIT, "the answer to the upgrade has a header of more than %d bytes", HEADER_MAX);
		peer_fail(p, &e);
		return;
	}
	n = (size_t)end.pos + 4;
	evbuffer_remove(in, header, n);
	header[n] = '\0';
	if (check_answer(header, &e) < 0)
		peer_fail(p, &e);
	else
		p->state = PEER_CHALLENGED;
}

/* ---- entry --------------------------------------------------------------------------------------- */

/* The first try runs from the loop, so that a failure reaches the caller after peer_dial has returned. */
static void on_start(void *arg)
{
	struct peer *p = arg;
	struct err e;

	peer_enter(p);
	loop_timer_destroy(p->dial->attempt);
	p->dial->attempt = loop_timer_create(p->loop, on_attempt_over, p);
	p->dial->lookup = lookup_start(p->loop, p->dial->host, p->dial->port, p->dial->resolve, on_found, p, &e);
	if (!p->dial->lookup)
		peer_fail(p, &e);
	peer_leave(p);
}

struct peer *peer_dial(struct loop *l, const struct peer_dial *d, const struct peer_ops *ops, void *arg,
                       struct err *e)
{
	struct peer_dialling *x = xcalloc(1, sizeof(*x));
	struct peer *p;

	x->fd = -1;
	if (read_url(x, d->url, e) < 0 ||
	    (x->tls && !(x->ctx = tls_client_ctx(d->ca_pem ? d->ca_pem : "", NULL, NULL, e)))) {
		peer_dial_free(x);
		return NULL;
	}
	x->node = xstrdup(d->node);
	x->cert_path = xstrdup(d->cert_path);
	x->key_path = xstrdup(d->key_path);
	x->instance = d->instance;
	x->resolve = d->resolve;
	x->timeout_ms = d->timeout_ms ? d->timeout_ms : PEER_TIMEOUT_MS;
	x->try_ms = d->try_ms;
	p = peer_new(l, ops, arg, d->out_limit);
	p->dial = x;
	p->role = d->role;
	snprintf(p->node, sizeof(p->node), "%s", d->node);
	loop_timer_arm(p->timer, x->timeout_ms * 1000ull);
	x->attempt = loop_timer_create(l, on_start, p);
	loop_timer_arm(x->attempt, 0);
	return p;
}
