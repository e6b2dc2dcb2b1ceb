/*
 * test_peer_auth: who may connect, and what an end does that misbehaves: wrong authority, wrong address,
 * wrong key, a proof used again or passed on by somebody in between, forbidden frames, rubbish. Where a
 * client must misbehave, the test writes its bytes itself.
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
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* Expects the dial to fail with that text. */
static void expect_failure(struct server *s, const char *cert, const char *key, const char *message,
                           const char *what)
{
	struct end c;
	char *url = url_of(s);

	dial_with(&c, url, ROLE_CONTROL, cert, key, 0);
	UNTIL(c.opened || c.closed);
	ok(!c.opened && c.closed == 1, "%s", what);
	like(c.why.text, message, what);
	peer_destroy(c.peer);
	UNTIL(!s->end.peer);
	free(url);
}

static void test_refusals(int tls)
{
	struct server s;

	peer_server_start(&s, tls, AF_INET);
	expect_failure(&s, foreign_cert_path, foreign_key_path, "not valid in this cluster",
	               "a certificate of another cluster");
	expect_failure(&s, cert_path, other_key_path, "signature does not fit", "a certificate without its key");
	expect_failure(&s, "/nonexistent", key_path, "/nonexistent", "no certificate");
	expect_failure(&s, cert_path, "/nonexistent", "/nonexistent", "no key");
	is_int(s.end.hellos, 0, "none of them came before the controller");
	s.end.refuse = 1;
	expect_failure(&s, cert_path, key_path, "hearthd refuses this agent: the node is here twice",
	               "the controller says no");
	is_int(s.end.hellos, 1, "asked once");
	s.end.refuse = 0;
	s.end.close_on_hello = 1;
	expect_failure(&s, cert_path, key_path, "closed by the other side", "destroyed in on_hello");
	peer_server_stop(&s);
}

static void test_wrong_server(void)
{
	struct server s;
	struct end c;
	char *url, *dir = xasprintf("%s/other", top);
	static const char *const hosts[] = {"127.0.0.1", NULL}, *const elsewhere[] = {"10.77.0.9", NULL};
	struct err e;

	peer_server_start(&s, 1, AF_INET);
	/* hearthd of another cluster */
	tls_ca_server_cert(other_ca, dir, hosts, &e);
	SSL_CTX_free(s.tls);
	{
		char *pem = xasprintf("%s/server.pem", dir), *key = xasprintf("%s/server.key", dir);

		s.tls = tls_server_ctx(pem, key, NULL, &e);
		free(pem);
		free(key);
	}
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened || c.closed);
	ok(!c.opened, "a server of another cluster");
	like(c.why.text, "certificate is not accepted", "is named as such");
	is_int(c.why.code, ERR_UNAUTHORIZED, "unauthorized");
	is_int(s.end.hellos, 0, "it learns nothing");
	/* right authority, wrong address */
	SSL_CTX_free(s.tls);
	{
		char *d2 = xasprintf("%s/elsewhere", top), *pem = xasprintf("%s/server.pem", d2),
		     *key = xasprintf("%s/server.key", d2);

		fs_mkdir_p(d2, 0700, &e);
		tls_ca_server_cert(ca, d2, elsewhere, &e);
		s.tls = tls_server_ctx(pem, key, NULL, &e);
		free(d2);
		free(pem);
		free(key);
	}
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened || c.closed);
	like(c.why.text, "certificate is not accepted", "a server with a certificate for another address");
	/* http where https is spoken, and the other way round */
	url = xasprintf("http://127.0.0.1:%u", s.port);
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 3000);
	UNTIL(c.opened || c.closed);
	ok(!c.opened, "http to a TLS port: %s", c.why.text);
	free(url);
	peer_server_stop(&s);
	peer_server_start(&s, 0, AF_INET);
	url = xasprintf("https://127.0.0.1:%u", s.port);
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 300);
	UNTIL(c.opened || c.closed);
	ok(!c.opened, "https to a plain port: %s", c.why.text);
	free(url);
	free(dir);
	peer_server_stop(&s);
}

/* ---- an agent that misbehaves ----------------------------------------------------------------------- */

struct raw {
	int fd;
	struct buf in;
};

static void raw_connect(struct raw *r, const struct server *s)
{
	struct sockaddr_in a = {
	    .sin_family = AF_INET, .sin_port = htons(s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	buf_init(&r->in, 1 << 20);
	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(r->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    write(r->fd, "GET / HTTP/1.1\r\n\r\n", 18) != 18)
		tap_bail("connect");
	UNTIL(recv(r->fd, (char[1]){0}, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
}

/* Next frame that comes; 0 when the server closed. */
static int raw_frame(struct raw *r, struct wire_frame *f)
{
	for (int i = 0; i < 1000; i++) {
		uint8_t bytes[4096];
		ssize_t n;
		struct err e;

		if (buf_left(&r->in) > 4 && memcmp(buf_head(&r->in), "HTTP", 4) == 0) {
			const uint8_t *end = memmem(buf_head(&r->in), buf_left(&r->in), "\r\n\r\n", 4);

			if (end)
				buf_skip(&r->in, (size_t)(end - buf_head(&r->in)) + 4);
		}
		if (!(buf_left(&r->in) > 4 && memcmp(buf_head(&r->in), "HTTP", 4) == 0) &&
		    wire_next(&r->in, f, &e) == 1)
			return 1;
		loop_run_once(loop, 5);
		n = recv(r->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n == 0)
			return 0;
		if (n > 0)
			buf_put(&r->in, bytes, (size_t)n);
	}
	return 0;
}

static void raw_send(struct raw *r, uint16_t type, const void *msg)
{
	struct buf out;
	struct err e;

	buf_init(&out, 1 << 20);
	if (wire_encode(type, msg, 1, &out, &e) < 0 ||
	    write(r->fd, buf_head(&out), buf_left(&out)) != (ssize_t)buf_left(&out))
		tap_bail("raw_send");
	buf_fini(&out);
}

static void raw_close(struct raw *r)
{
	close(r->fd);
	buf_fini(&r->in);
}

static void expect_refused(struct raw *r, const char *message)
{
	struct wire_frame f;
	void *msg = NULL;
	struct err e;

	if (!raw_frame(r, &f) || f.type != WM_REFUSED || wire_decode(f.type, f.body, f.n, &msg, &e) < 0) {
		ok(0, "refused: %s", message);
		return;
	}
	like(((struct wm_refused *)msg)->text, message, "refused");
	wire_free(WM_REFUSED, msg);
}

/* A hello that was good once, on another connection: its proof fits another nonce. */
static void test_replay(void)
{
	struct server s;
	struct end c;
	struct raw r;
	struct wm_hello *h;
	struct wire_frame f;

	peer_server_start(&s, 0, AF_INET);
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened || c.closed);
	h = s.end.hello;
	s.end.hello = NULL;
	peer_destroy(c.peer);
	UNTIL(!s.end.peer);
	s.end.hellos = 0;
	raw_connect(&r, &s);
	ok(raw_frame(&r, &f) && f.type == WM_CHALLENGE, "challenge");
	raw_send(&r, WM_HELLO, h);
	expect_refused(&r, "signature does not fit");
	raw_close(&r);
	UNTIL(!s.end.peer);
	raw_connect(&r, &s);
	h->role = 7;
	raw_send(&r, WM_HELLO, h);
	ok(raw_frame(&r, &f), "challenge");
	expect_refused(&r, "no role 7");
	raw_close(&r);
	UNTIL(!s.end.peer);
	raw_connect(&r, &s);
	h->role = ROLE_CONTROL;
	h->version = 99;
	raw_send(&r, WM_HELLO, h);
	ok(raw_frame(&r, &f), "challenge");
	expect_refused(&r, "signature does not fit"); /* the version alone is accepted */
	raw_close(&r);
	UNTIL(!s.end.peer);
	raw_connect(&r, &s);
	h->role = ROLE_BULK;
	raw_send(&r, WM_HELLO, h);
	ok(raw_frame(&r, &f), "challenge");
	expect_refused(&r, "speaks version 99 of the protocol, hearthd versions 2 and 3: upgrade hearthd");
	raw_close(&r);
	UNTIL(!s.end.peer);
	raw_connect(&r, &s);
	h->role = ROLE_CONTROL;
	h->version = WIRE_OLDEST - 1;
	raw_send(&r, WM_HELLO, h);
	ok(raw_frame(&r, &f), "challenge");
	expect_refused(&r, "upgrade this agent");
	raw_close(&r);
	UNTIL(!s.end.peer);
	raw_connect(&r, &s);
	h->version = WIRE_VERSION;
	free(h->node);
	h->node = xstrdup("node2");
	raw_send(&r, WM_HELLO, h);
	ok(raw_frame(&r, &f), "challenge");
	expect_refused(&r, "certificate is for the node node1, not for node2");
	raw_close(&r);
	UNTIL(!s.end.peer);
	is_int(s.end.hellos, 0, "none of them came before the controller");
	wire_free(WM_HELLO, h);
	peer_server_stop(&s);
}

static void test_forbidden(void)
{
	struct server s;
	struct raw r;
	struct wire_frame f;
	struct wm_beat beat = {0};
	static const uint8_t huge[] = {0x7f, 0xff, 0xff, 0xff, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
	static const uint8_t bulk[] = {0, 0x40, 0, 0, 0, 68, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
	const struct {
		const void *data;
		size_t n;
		const char *message;
	} cases[] = {
	    {huge, sizeof(huge), "hello frame of 2147483647 bytes"},
	    {bulk, sizeof(bulk), "blob_put frame is not allowed here"},
	    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, "unknown type"},
	};

	peer_server_start(&s, 0, AF_INET);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		s.end.closed = 0;
		raw_connect(&r, &s);
		ok(raw_frame(&r, &f), "challenge");
		if (write(r.fd, cases[i].data, cases[i].n) != (ssize_t)cases[i].n)
			tap_bail("write");
		UNTIL(s.end.closed);
		like(s.end.why.text, cases[i].message, "refused by its header alone");
		is_int(s.end.why.code, ERR_PROTOCOL, "protocol error");
		raw_close(&r);
	}
	s.end.closed = 0;
	raw_connect(&r, &s);
	raw_send(&r, WM_BEAT, &beat);
	UNTIL(s.end.closed);
	like(s.end.why.text, "beat frame is not allowed here", "a beat before the hello");
	raw_close(&r);
	peer_server_stop(&s);
}

/* An agent with a good proof that then sends what only hearthd may send. */
static void test_forbidden_open(void)
{
	struct server s;
	struct raw r;
	struct wire_frame f;
	struct wm_challenge *ch = NULL;
	struct wm_hello h = {.version = WIRE_VERSION, .role = ROLE_BULK, .node = (char *)"node1"};
	struct wm_ack ack = {0};
	uint8_t proof[12 + 32 + 1] = "hearth-hello";
	size_t n;
	struct err e;

	peer_server_start(&s, 0, AF_INET);
	raw_connect(&r, &s);
	if (!raw_frame(&r, &f) || wire_decode(f.type, f.body, f.n, (void **)&ch, &e) < 0 || ch->nonce.n != 32)
		tap_bail("challenge");
	memcpy(proof + 12, ch->nonce.data, 32);
	proof[44] = ROLE_BULK;
	if (fs_read_file(cert_path, 1 << 16, &h.cert_pem, &n, &e) < 0 ||
	    tls_sign(key_path, proof, sizeof(proof), &h.proof.data, &n, &e) < 0)
		tap_bail("%s", e.text);
	h.proof.n = (uint32_t)n;
	raw_send(&r, WM_HELLO, &h);
	UNTIL(s.end.opened || s.end.closed);
	ok(s.end.opened, "a proof made by the book is accepted");
	raw_send(&r, WM_ACK, &ack);
	UNTIL(s.end.closed);
	like(s.end.why.text, "ack frame is not allowed here", "an agent that sends hearthd's message is cut off");
	is_int(s.end.n_msgs, 0, "it was not handed on");
	raw_close(&r);
	wire_free(WM_CHALLENGE, ch);
	free(h.cert_pem);
	free(h.proof.data);
	peer_server_stop(&s);
}

/* Somebody in between: takes the agent's plain connection and has a TLS connection of his own to hearthd. He
 * can pass the nonce and the proof on, but the proof is not bound to his TLS connection. */
struct between {
	struct evconnlistener *listener;
	SSL_CTX *ctx;
	struct bufferevent *to_agent, *to_server;
	unsigned short server_port;
};

static void pass_on(struct bufferevent *bev, void *arg)
{
	struct between *b = arg;

	bufferevent_write_buffer(bev == b->to_agent ? b->to_server : b->to_agent, bufferevent_get_input(bev));
}

static void on_between(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int n, void *arg)
{
	struct between *b = arg;
	struct sockaddr_in a = {
	    .sin_family = AF_INET, .sin_port = htons(b->server_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)l;
	(void)sa;
	(void)n;
	b->to_agent = bufferevent_socket_new(loop_base(loop), fd, BEV_OPT_CLOSE_ON_FREE);
	b->to_server = bufferevent_openssl_socket_new(loop_base(loop), -1, SSL_new(b->ctx),
	                                              BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(b->to_agent, pass_on, NULL, NULL, b);
	bufferevent_setcb(b->to_server, pass_on, NULL, NULL, b);
	bufferevent_enable(b->to_agent, EV_READ | EV_WRITE);
	bufferevent_enable(b->to_server, EV_READ | EV_WRITE);
	bufferevent_socket_connect(b->to_server, (struct sockaddr *)&a, sizeof(a));
}

static void test_between(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	struct between b = {0};
	struct server s;
	struct end c;
	char *url;
	struct err e;

	peer_server_start(&s, 1, AF_INET);
	b.server_port = s.port;
	b.ctx = tls_client_ctx(tls_ca_pem(ca), NULL, NULL, &e);
	b.listener = evconnlistener_new_bind(loop_base(loop), on_between, &b, LEV_OPT_CLOSE_ON_FREE, 4,
	                                     (struct sockaddr *)&a, sizeof(a));
	getsockname(evconnlistener_get_fd(b.listener), (struct sockaddr *)&a, &n);
	url = xasprintf("http://127.0.0.1:%u", ntohs(a.sin_port));
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 0);
	UNTIL(c.opened || c.closed);
	ok(!c.opened && !s.end.hellos, "a proof passed on into another TLS connection is refused");
	like(c.why.text, "signature does not fit", "as one that does not fit");
	UNTIL(!s.end.peer);
	free(url);
	bufferevent_free(b.to_agent);
	bufferevent_free(b.to_server);
	evconnlistener_free(b.listener);
	SSL_CTX_free(b.ctx);
	peer_server_stop(&s);
}

int main(void)
{
	ends_start();
	test_refusals(0);
	test_refusals(1);
	test_wrong_server();
	test_replay();
	test_forbidden();
	test_forbidden_open();
	test_between();
	ends_stop();
	return tap_done();
}
