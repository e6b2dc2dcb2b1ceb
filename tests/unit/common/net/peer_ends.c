/*
 * peer_ends: see peer_ends.h.
 */
#include "tests/unit/common/net/peer_ends.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

const char *top;
struct loop *loop;
struct tls_ca *ca, *other_ca;
char *cert_path, *key_path, *other_key_path, *foreign_cert_path, *foreign_key_path, *server_pem, *server_key;

static void on_open(struct peer *p, const struct wm_welcome *w, void *arg)
{
	struct end *x = arg;

	(void)p;
	x->opened++;
	if (w)
		x->session = w->session;
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct end *x = arg;

	x->n_msgs++;
	x->last_type = type;
	x->last_id = id;
	if (type == WM_BEAT)
		x->sum += ((struct wm_beat *)msg)->seq;
	if (type == WM_LOG_DATA) {
		const struct wm_log_data *d = msg;

		x->sum += d->data.n;
		for (uint32_t i = 0; i < d->data.n; i++)
			x->spoilt += d->data.data[i] != (uint8_t)(i * 31 + (i >> 8));
	}
	if (type == WM_PREPARE) { /* a table whose specification is full of s */
		const struct wire_shared *g = ((struct wm_prepare *)msg)->gang;
		uint32_t n = g ? (uint32_t)(g->data[1] << 16 | g->data[2] << 8 | g->data[3]) : 0;

		x->spoilt += !g || !n || n + 4 > g->n;
		for (uint32_t i = 0; g && i < n && i + 4 < g->n; i++)
			x->spoilt += g->data[i + 4] != 's';
	}
	wire_free(type, msg);
	if (x->destroy_on_msg) {
		peer_destroy(p);
		x->peer = NULL;
	}
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct end *x = arg;

	x->closed++;
	x->why = *why;
	peer_destroy(p);
	x->peer = NULL;
}

static void on_drain(struct peer *p, void *arg)
{
	(void)p;
	((struct end *)arg)->drained++;
}

static int on_hello(struct peer *p, const struct wm_hello *h, const char *node, struct wm_welcome *w,
                    struct err *e, void *arg)
{
	struct end *x = arg;

	x->hellos++;
	snprintf(x->node, sizeof(x->node), "%s", node);
	wire_free(WM_HELLO, x->hello);
	x->hello = wire_copy(WM_HELLO, h);
	if (x->close_on_hello) {
		peer_destroy(p);
		x->peer = NULL;
		return -1;
	}
	w->session = 4711;
	return x->refuse ? err_set(e, ERR_CONFLICT, "the node is here twice") : 0;
}

const struct peer_ops ends_ops = {on_open, on_msg, on_close, on_drain, on_hello};

static void on_request(struct bufferevent *bev, void *arg)
{
	struct server *s = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	struct peer_accept a = {
	    .ca = ca, .cluster = "test", .timeout_ms = s->timeout_ms, .out_limit = s->out_limit};
	int n;

	if (end.pos < 0)
		return;
	n = evbuffer_remove(in, s->request,
	                    (size_t)end.pos + 4 < sizeof(s->request) ? (size_t)end.pos + 4
	                                                             : sizeof(s->request) - 1);
	s->request[n > 0 ? n : 0] = '\0';
	bufferevent_write(bev, s->answer, strlen(s->answer));
	if (strncmp(s->answer, ANSWER, 12) != 0)
		return;
	s->waiting = NULL;
	s->end.peer = peer_accept(loop, bev, &a, &ends_ops, &s->end);
}

static void on_request_event(struct bufferevent *bev, short what, void *arg)
{
	struct server *s = arg;

	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	bufferevent_free(bev);
	s->waiting = NULL;
}

static void on_connection(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int n, void *arg)
{
	struct server *s = arg;
	int flags = BEV_OPT_CLOSE_ON_FREE;

	(void)l;
	(void)sa;
	(void)n;
	s->waiting = s->tls ? bufferevent_openssl_socket_new(loop_base(loop), fd, SSL_new(s->tls),
	                                                     BUFFEREVENT_SSL_ACCEPTING, flags)
	                    : bufferevent_socket_new(loop_base(loop), fd, flags);
	bufferevent_setcb(s->waiting, on_request, NULL, on_request_event, s);
	bufferevent_enable(s->waiting, EV_READ | EV_WRITE);
}

void peer_server_start(struct server *s, int tls, int family)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage got;
	socklen_t n = sizeof(got);
	struct err e;

	*s = (struct server){.answer = ANSWER};
	if (tls && !(s->tls = tls_server_ctx(server_pem, server_key, NULL, &e)))
		tap_bail("%s", e.text);
	s->listener = evconnlistener_new_bind(
	    loop_base(loop), on_connection, s, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 16,
	    family == AF_INET6 ? (struct sockaddr *)&six : (struct sockaddr *)&four,
	    family == AF_INET6 ? sizeof(six) : sizeof(four));
	if (!s->listener)
		tap_bail("cannot listen");
	getsockname(evconnlistener_get_fd(s->listener), (struct sockaddr *)&got, &n);
	s->port = ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
	                                   : ((struct sockaddr_in *)&got)->sin_port);
}

void peer_server_stop(struct server *s)
{
	peer_destroy(s->end.peer);
	wire_free(WM_HELLO, s->end.hello);
	if (s->waiting)
		bufferevent_free(s->waiting);
	evconnlistener_free(s->listener);
	SSL_CTX_free(s->tls);
	loop_run_once(loop, 0);
}

struct peer *dial_with(struct end *c, const char *url, uint8_t role, const char *cert, const char *key,
                       uint32_t timeout_ms)
{
	struct peer_dial d = {.url = url,
	                      .ca_pem = tls_ca_pem(ca),
	                      .node = "node1",
	                      .cert_path = cert,
	                      .key_path = key,
	                      .role = role,
	                      .instance = 99,
	                      .timeout_ms = timeout_ms};
	struct err e;

	*c = (struct end){0};
	c->peer = peer_dial(loop, &d, &ends_ops, c, &e);
	if (!c->peer)
		tap_bail("%s: %s", url, e.text);
	return c->peer;
}

char *url_of(const struct server *s)
{
	return xasprintf("%s://127.0.0.1:%u", s->tls ? "https" : "http", s->port);
}

void dial(struct end *c, const struct server *s, uint8_t role)
{
	char *url = url_of(s);

	dial_with(c, url, role, cert_path, key_path, 0);
	free(url);
}

static void make_agent(struct tls_ca *by, const char *file, const char *node, char **cert, char **key)
{
	char *csr, *pem;
	struct err e;

	*cert = xasprintf("%s/%s.pem", top, file);
	*key = xasprintf("%s/%s.key", top, file);
	if (tls_make_key_csr(*key, node, &csr, &e) < 0 || !(pem = tls_ca_sign_csr(by, csr, node, 30, &e)) ||
	    fs_replace(*cert, pem, strlen(pem), 0600, &e) < 0)
		tap_bail("%s", e.text);
	free(csr);
	free(pem);
}

static char *dir, *other, *unused;

void ends_start(void)
{
	static const char *const hosts[] = {"127.0.0.1", "::1", "localhost", NULL};
	struct err e;

	top = tap_tmpdir();
	dir = xasprintf("%s/ca", top);
	other = xasprintf("%s/other", top);
	if (fs_mkdir_p(dir, 0700, &e) < 0 || fs_mkdir_p(other, 0700, &e) < 0 ||
	    !(ca = tls_ca_open(dir, 1700000000000000, &e)) ||
	    !(other_ca = tls_ca_open(other, 1700000000000000, &e)) || tls_ca_server_cert(ca, dir, hosts, &e) < 0)
		tap_bail("%s", e.text);
	server_pem = xasprintf("%s/server.pem", dir);
	server_key = xasprintf("%s/server.key", dir);
	make_agent(ca, "node1", "node1", &cert_path, &key_path);
	make_agent(ca, "node2", "node2", &unused, &other_key_path);
	make_agent(other_ca, "foreign", "node1", &foreign_cert_path, &foreign_key_path);
	loop = loop_create();
}

void ends_stop(void)
{
	loop_destroy(loop);
	tls_ca_close(ca);
	tls_ca_close(other_ca);
	char *owned[] = {dir,
	                 other,
	                 unused,
	                 cert_path,
	                 key_path,
	                 other_key_path,
	                 foreign_cert_path,
	                 foreign_key_path,
	                 server_pem,
	                 server_key};
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		free(owned[i]);
}
