/*
 * test_peer: real connections on loopback, plain and TLS: handshake, frames both ways, wrong authority, wrong
 * signature, a proof used again, forbidden frames, rubbish, slow readers, bounds, closing.
 *
 * The server here does what hearthd's HTTP server does: reads the upgrade, answers 101, hands the bufferevent
 * over. Where a client must misbehave, the test writes its bytes itself.
 */
#include "common/peer.h"

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

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/xalloc.h"
#include "tests/lib/tap.h"

#define ANSWER "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nUPGRADE:  hearth-agent/1 \r\n\r\n"

static const char *top;
static struct loop *loop;
static struct tls_ca *ca, *other_ca;
static char *cert_path, *key_path, *other_key_path, *foreign_cert_path, *foreign_key_path, *server_pem,
    *server_key;

/* ---- one end -------------------------------------------------------------------------------------- */

struct end {
	struct peer *peer;
	int opened, closed, drained, hellos;
	struct err why;
	uint64_t session; /* of the welcome */
	unsigned n_msgs;
	uint16_t last_type;
	uint64_t last_id, sum;
	int refuse; /* on_hello says no */
	int destroy_on_msg, close_on_hello;
	char node[64];
	struct wm_hello *hello;
};

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
	if (type == WM_LOG_DATA)
		x->sum += ((struct wm_log_data *)msg)->data.n;
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

static const struct peer_ops ops = {on_open, on_msg, on_close, on_drain, on_hello};

/* ---- server --------------------------------------------------------------------------------------- */

struct server {
	struct evconnlistener *listener;
	SSL_CTX *tls;
	unsigned short port;
	struct end end; /* of the newest connection */
	const char *answer;
	struct bufferevent *waiting; /* reads the request */
	uint32_t timeout_ms;
	size_t out_limit;
	char request[1024];
};

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
	s->end.peer = peer_accept(loop, bev, &a, &ops, &s->end);
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

static void server_start(struct server *s, int tls, int family)
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

static void server_stop(struct server *s)
{
	peer_destroy(s->end.peer);
	wire_free(WM_HELLO, s->end.hello);
	if (s->waiting)
		bufferevent_free(s->waiting);
	evconnlistener_free(s->listener);
	SSL_CTX_free(s->tls);
	loop_run_once(loop, 0);
}

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* Runs the loop until cond, at most 20 s. */
#define UNTIL(cond)                                                                                          \
	do {                                                                                                     \
		for (uint64_t end_us_ = now_us() + 20000000; !(cond) && now_us() < end_us_;)                         \
			loop_run_once(loop, 10);                                                                         \
	} while (0)

static struct peer *dial_with(struct end *c, const char *url, uint8_t role, const char *cert, const char *key,
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
	c->peer = peer_dial(loop, &d, &ops, c, &e);
	if (!c->peer)
		tap_bail("%s: %s", url, e.text);
	return c->peer;
}

static char *url_of(const struct server *s)
{
	return xasprintf("%s://127.0.0.1:%u", s->tls ? "https" : "http", s->port);
}

static void dial(struct end *c, const struct server *s, uint8_t role)
{
	char *url = url_of(s);

	dial_with(c, url, role, cert_path, key_path, 0);
	free(url);
}

/* ---- tests ---------------------------------------------------------------------------------------- */

static void test_good(int tls)
{
	struct server s;
	struct end c;
	struct wm_beat beat = {0};
	struct wm_ack ack = {.acked = 5};
	struct wm_log_data data = {0};
	struct err e;

	server_start(&s, tls, AF_INET);
	dial(&c, &s, ROLE_CONTROL);
	is_int(peer_send(c.peer, WM_BEAT, &beat, 1, &e), -1, "nothing can be sent before it is open");
	UNTIL(c.opened || c.closed);
	ok(c.opened && s.end.opened, "%s: both ends are open", tls ? "TLS" : "plain");
	if (c.closed)
		tap_bail("%s", c.why.text);
	is_int(c.session, 4711, "the welcome is handed on");
	is_str(s.end.node, "node1", "the server knows the node by its certificate");
	is_int(s.end.hello->instance, 99, "instance");
	ok(s.end.hello->boot_id[0] && s.end.hello->software[0], "boot id and software");
	is_str(peer_node(s.end.peer), "node1", "peer_node");
	is_int(peer_role(s.end.peer), ROLE_CONTROL, "peer_role");
	like(s.request, "GET /agent/v1 HTTP/1.1\r\nHost: 127.0.0.1:", "the request");
	like(s.request, "Upgrade: hearth-agent/1\r\n", "asks for the upgrade");
	for (unsigned i = 1; i <= 1000; i++) {
		beat.seq = i;
		if (peer_send(c.peer, WM_BEAT, &beat, i, &e) < 0)
			tap_bail("%s", e.text);
	}
	UNTIL(s.end.n_msgs == 1000);
	is_int(s.end.sum, 500500, "a thousand beats arrive");
	is_int(s.end.last_id, 1000, "in order");
	is_int(peer_send(s.end.peer, WM_ACK, &ack, 9, &e), 0, "and an answer");
	UNTIL(c.n_msgs);
	is_int(c.last_type, WM_ACK, "arrives");
	is_int(peer_send(c.peer, WM_ACK, &ack, 1, &e), -1, "an agent may not send what only hearthd sends");
	is_int(peer_send(c.peer, WM_LOG_DATA, &data, 1, &e), -1, "nor bulk messages on control");
	peer_close_flushed(c.peer, 5000);
	is_int(peer_send(c.peer, WM_BEAT, &beat, 1, &e), -1, "nothing can be sent while closing");
	UNTIL(c.closed && s.end.closed);
	is_str(c.why.text, "closed by this side", "the one who closed knows");
	is_str(s.end.why.text, "closed by the other side", "the other one too");
	is_int(c.closed + s.end.closed, 2, "once each");
	server_stop(&s);
}

static void test_ipv6_and_names(void)
{
	struct server s;
	struct end c;
	char *url;

	server_start(&s, 1, AF_INET6);
	url = xasprintf("https://[::1]:%u/", s.port);
	dial_with(&c, url, ROLE_BULK, cert_path, key_path, 0);
	UNTIL(c.opened || c.closed);
	ok(c.opened, "IPv6 address in brackets, TLS: %s", c.why.text);
	like(s.request, "Host: [::1]:", "with its brackets in the request");
	is_int(peer_role(s.end.peer), ROLE_BULK, "bulk");
	peer_destroy(c.peer);
	UNTIL(s.end.closed);
	free(url);
	server_stop(&s);
	server_start(&s, 1, AF_INET);
	url = xasprintf("https://localhost:%u", s.port);
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 0);
	UNTIL(c.opened || c.closed);
	ok(c.opened, "a name whose first address may be the wrong one: %s", c.why.text);
	peer_destroy(c.peer);
	free(url);
	server_stop(&s);
}

static void test_bad_urls(void)
{
	static const char *const bad[] = {"",
	                                  "ftp://h:1",
	                                  "http://",
	                                  "http://h",
	                                  "http://h:",
	                                  "http://h:0",
	                                  "http://h:70000",
	                                  "http://h:1/x",
	                                  "http://h:1x",
	                                  "http://[::1:5",
	                                  "http://a b:5",
	                                  "http://u@h:5",
	                                  "http://h\r\nX: y:5",
	                                  "http://:5"};
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct peer_dial d = {
		    .url = bad[i], .node = "n", .cert_path = "c", .key_path = "k", .role = ROLE_CONTROL};

		ok(!peer_dial(loop, &d, &ops, NULL, &e) && e.code == ERR_INVALID, "refused: %s", bad[i]);
	}
	struct peer_dial d = {
	    .url = "https://h:5", .ca_pem = "junk", .node = "n", .cert_path = "c", .key_path = "k"};
	ok(!peer_dial(loop, &d, &ops, NULL, &e), "an authority that is none");
}

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

	server_start(&s, tls, AF_INET);
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
	server_stop(&s);
}

static void test_wrong_server(void)
{
	struct server s;
	struct end c;
	char *url, *dir = xasprintf("%s/other", top);
	static const char *const hosts[] = {"127.0.0.1", NULL}, *const elsewhere[] = {"10.77.0.9", NULL};
	struct err e;

	server_start(&s, 1, AF_INET);
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
	server_stop(&s);
	server_start(&s, 0, AF_INET);
	url = xasprintf("https://127.0.0.1:%u", s.port);
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 300);
	UNTIL(c.opened || c.closed);
	ok(!c.opened, "https to a plain port: %s", c.why.text);
	free(url);
	free(dir);
	server_stop(&s);
}

static void test_answers(void)
{
	static const struct {
		const char *answer, *message;
		enum err_code code;
	} cases[] = {
	    {"HTTP/1.1 503 Service Unavailable\r\n\r\n", "503 Service Unavailable", ERR_UNAVAILABLE},
	    {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found", ERR_UNAVAILABLE},
	    {"HTTP/1.1 200 OK\r\n\r\n", "200 OK", ERR_PROTOCOL},
	    {"SSH-2.0-OpenSSH_9.2\r\n", "is no HTTP", ERR_PROTOCOL},
	    {"HTTP/1.1 1x1 no\r\n\r\n", "is no HTTP", ERR_PROTOCOL},
	};
	struct server s;
	struct end c;
	char *huge = xmalloc(20001);

	server_start(&s, 0, AF_INET);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		s.answer = cases[i].answer;
		dial(&c, &s, ROLE_CONTROL);
		UNTIL(c.opened || c.closed);
		like(c.why.text, cases[i].message, cases[i].answer);
		is_int(c.why.code, cases[i].code, "its code");
		UNTIL(!s.waiting);
	}
	memset(huge, 'a', 20000);
	huge[20000] = '\0';
	memcpy(huge, "HTTP/1.1 500 ", 13);
	s.answer = huge;
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened || c.closed);
	is_int(c.why.code, ERR_LIMIT, "a header without end");
	UNTIL(!s.waiting);
	server_stop(&s);
	free(huge);
}

static void test_deadlines(void)
{
	struct server s;
	struct end c, d;
	char *url;
	int fd;

	/* a server that takes the connection and says nothing */
	server_start(&s, 0, AF_INET);
	s.answer = "";
	url = url_of(&s);
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 200);
	UNTIL(c.closed);
	is_int(c.why.code, ERR_TIMEOUT, "no answer to the upgrade");
	like(c.why.text, "upgrade", "said so");
	UNTIL(!s.waiting);
	/* an agent that says nothing after the upgrade */
	s.answer = ANSWER;
	s.timeout_ms = 200;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	{
		struct sockaddr_in a = {
		    .sin_family = AF_INET, .sin_port = htons(s.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		    write(fd, "GET / HTTP/1.1\r\n\r\n", 18) != 18)
			tap_bail("connect");
	}
	UNTIL(s.end.closed);
	is_int(s.end.why.code, ERR_TIMEOUT, "an agent that is silent");
	close(fd);
	server_stop(&s);
	/* nobody listens */
	dial_with(&d, url, ROLE_CONTROL, cert_path, key_path, 0);
	is_int(d.closed, 0, "a failure is never reported before peer_dial returns");
	UNTIL(d.closed);
	is_int(d.why.code, ERR_UNAVAILABLE, "nobody listens");
	like(d.why.text, "127.0.0.1", "address named");
	/* destroyed and closed before anything happened */
	dial_with(&d, url, ROLE_CONTROL, cert_path, key_path, 0);
	peer_destroy(d.peer);
	dial_with(&d, url, ROLE_CONTROL, cert_path, key_path, 0);
	peer_close_flushed(d.peer, 1000);
	UNTIL(d.closed);
	is_str(d.why.text, "closed by this side", "closed while connecting");
	free(url);
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

		if (buf_left(&r->in) > 4 && !memcmp(buf_head(&r->in), "HTTP", 4)) {
			const uint8_t *end = memmem(buf_head(&r->in), buf_left(&r->in), "\r\n\r\n", 4);

			if (end)
				buf_skip(&r->in, (size_t)(end - buf_head(&r->in)) + 4);
		}
		if (!(buf_left(&r->in) > 4 && !memcmp(buf_head(&r->in), "HTTP", 4)) && wire_next(&r->in, f, &e) == 1)
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

	server_start(&s, 0, AF_INET);
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
	expect_refused(&r, "version 99");
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
	server_stop(&s);
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

	server_start(&s, 0, AF_INET);
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
	server_stop(&s);
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

	server_start(&s, 0, AF_INET);
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
	server_stop(&s);
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

	server_start(&s, 1, AF_INET);
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
	server_stop(&s);
}

/* ---- bounds ----------------------------------------------------------------------------------------- */

static void test_slow_reader(int tls)
{
	struct server s;
	struct end c;
	struct wm_log_data data = {.job = 1};
	struct wm_log_ack ack = {.job = 1};
	unsigned sent = 0, refused = 0;
	uint64_t want;
	int busy = 1;
	struct err e;

	server_start(&s, tls, AF_INET);
	dial(&c, &s, ROLE_BULK);
	UNTIL(c.opened || c.closed);
	UNTIL(s.end.opened);
	peer_hold(s.end.peer, 1);
	data.stream = xstrdup("rank-0");
	data.data.n = 256 * 1024;
	data.data.data = xcalloc(1, data.data.n);
	/* Until the queue is full and stays full: then the kernel's buffers are full too. */
	for (int i = 0; i < 2000 && refused < 20; i++) {
		if (peer_send(c.peer, WM_LOG_DATA, &data, sent, &e) == 0) {
			sent++;
			refused = 0;
		} else {
			refused++;
			busy = busy && e.code == ERR_BUSY;
		}
		loop_run_once(loop, 1);
	}
	ok(busy, "a full queue refuses as busy");
	ok(refused >= 20, "a reader that does not read: after %u messages no more are taken", sent);
	ok(peer_queued(c.peer) <= 16 * 1024 * 1024, "what is queued is bounded (%zu)", peer_queued(c.peer));
	ok(s.end.n_msgs == 0, "the one who holds gets nothing");
	c.drained = 0;
	is_int(peer_send(s.end.peer, WM_LOG_ACK, &ack, 1, &e), 0, "the other direction is free");
	UNTIL(c.n_msgs);
	is_int(c.n_msgs, 1, "and works");
	peer_hold(s.end.peer, 0);
	want = (uint64_t)sent * data.data.n;
	UNTIL(s.end.sum == want);
	ok(s.end.sum == want, "released, all of it comes: %u messages", s.end.n_msgs);
	UNTIL(c.drained);
	ok(c.drained >= 1, "the sender is told that there is room");
	/* what is queued when it closes still arrives */
	for (unsigned i = 0; i < 20; i++)
		if (peer_send(c.peer, WM_LOG_DATA, &data, 0, &e) == 0)
			want += data.data.n;
	peer_close_flushed(c.peer, 5000);
	UNTIL(c.closed && s.end.closed);
	ok(s.end.sum == want, "closing sends what is queued");
	is_str(c.why.text, "closed by this side", "and ends well");
	wire_fini(WM_LOG_DATA, &data);
	server_stop(&s);
}

static void test_flush_deadline(void)
{
	struct server s;
	struct end c;
	struct wm_log_data data = {.job = 1};
	struct err e;

	server_start(&s, 0, AF_INET);
	dial(&c, &s, ROLE_BULK);
	UNTIL(c.opened && s.end.opened);
	peer_hold(s.end.peer, 1);
	data.data.n = 1024 * 1024;
	data.data.data = xcalloc(1, data.data.n);
	while (peer_send(c.peer, WM_LOG_DATA, &data, 0, &e) == 0)
		;
	peer_close_flushed(c.peer, 200);
	UNTIL(c.closed);
	is_str(c.why.text, "closed by this side before all was sent",
	       "a reader that does not read does not hold up the end");
	is_int(c.why.code, ERR_TIMEOUT, "timed out");
	wire_fini(WM_LOG_DATA, &data);
	server_stop(&s);
}

static void test_destroy_in_callback(void)
{
	struct server s;
	struct end c;
	struct wm_beat beat = {0};
	struct err e;

	server_start(&s, 1, AF_INET);
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened && s.end.opened);
	s.end.destroy_on_msg = 1;
	for (int i = 0; i < 10; i++)
		peer_send(c.peer, WM_BEAT, &beat, 1, &e);
	UNTIL(c.closed);
	is_int(s.end.n_msgs, 1, "destroyed in on_msg: nothing comes after it");
	is_int(s.end.closed, 0, "not even on_close");
	is_int(c.why.code, ERR_UNAVAILABLE, "the other side sees the end");
	server_stop(&s);
	peer_destroy(NULL);
}

static void test_backoff(void)
{
	static const uint32_t want[] = {100, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
	int good = 1;

	for (unsigned f = 0; f < sizeof(want) / sizeof(want[0]); f++)
		for (int i = 0; i < 200; i++) {
			uint32_t ms = peer_backoff_ms(f);

			good = good && ms >= want[f] * 4 / 5 && ms <= want[f] * 6 / 5;
		}
	ok(good && peer_backoff_ms(1000000) <= 6000, "delays grow from 100 ms to 5 s, a fifth up or down");
}

/* ---- set-up ----------------------------------------------------------------------------------------- */

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

int main(void)
{
	static const char *const hosts[] = {"127.0.0.1", "::1", "localhost", NULL};
	char *dir, *other, *unused;
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

	test_good(0);
	test_good(1);
	test_ipv6_and_names();
	test_bad_urls();
	test_refusals(0);
	test_refusals(1);
	test_wrong_server();
	test_answers();
	test_deadlines();
	test_replay();
	test_forbidden();
	test_forbidden_open();
	test_between();
	test_slow_reader(0);
	test_slow_reader(1);
	test_flush_deadline();
	test_destroy_in_callback();
	test_backoff();

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
	return tap_done();
}
