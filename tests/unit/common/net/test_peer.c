/*
 * test_peer: real connections on loopback, plain and TLS: handshake, frames both ways, addresses, answers to
 * the upgrade, deadlines, slow readers, bounds, closing. Who may connect at all: test_peer_auth.
 */
#include "tests/unit/common/net/peer_ends.h"

#include <errno.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* ---- tests ---------------------------------------------------------------------------------------- */

static void test_good(int tls)
{
	struct server s;
	struct end c;
	struct wm_beat beat = {0};
	struct wm_ack ack = {.acked = 5};
	struct wm_log_data data = {0};
	struct err e;

	peer_server_start(&s, tls, AF_INET);
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
	peer_server_stop(&s);
}

static void test_ipv6_and_names(void)
{
	struct server s;
	struct end c;
	char *url;

	peer_server_start(&s, 1, AF_INET6);
	url = xasprintf("https://[::1]:%u/", s.port);
	dial_with(&c, url, ROLE_BULK, cert_path, key_path, 0);
	UNTIL(c.opened || c.closed);
	ok(c.opened, "IPv6 address in brackets, TLS: %s", c.why.text);
	like(s.request, "Host: [::1]:", "with its brackets in the request");
	is_int(peer_role(s.end.peer), ROLE_BULK, "bulk");
	peer_destroy(c.peer);
	UNTIL(s.end.closed);
	free(url);
	peer_server_stop(&s);
	peer_server_start(&s, 1, AF_INET);
	url = xasprintf("https://localhost:%u", s.port);
	dial_with(&c, url, ROLE_CONTROL, cert_path, key_path, 0);
	UNTIL(c.opened || c.closed);
	ok(c.opened, "a name whose first address may be the wrong one: %s", c.why.text);
	peer_destroy(c.peer);
	free(url);
	peer_server_stop(&s);
}

static sem_t answer; /* the name server's */
static atomic_int answered;

static int slow_resolver(const char *host, const char *port, const struct addrinfo *hints,
                         struct addrinfo **out)
{
	struct addrinfo numeric = *hints;
	int rc;

	sem_wait(&answer);
	numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	rc = strcmp(host, "gone.test") ? getaddrinfo("127.0.0.1", port, &numeric, out) : EAI_NONAME;
	atomic_fetch_add(&answered, 1);
	return rc;
}

static int dial_slow(struct end *c, const char *host, unsigned port, uint32_t timeout_ms, struct err *e)
{
	char *url = xasprintf("http://%s:%u", host, port);
	struct peer_dial d = {.url = url,
	                      .node = "node1",
	                      .cert_path = cert_path,
	                      .key_path = key_path,
	                      .role = ROLE_CONTROL,
	                      .instance = 99,
	                      .timeout_ms = timeout_ms,
	                      .resolve = slow_resolver};

	memset(c, 0, sizeof(*c));
	c->peer = peer_dial(loop, &d, &ends_ops, c, e);
	free(url);
	return c->peer ? 0 : -1;
}

/* Dials that begin in the same microsecond run in any order, so which of them is one too many is not known.
 */
static unsigned count_closed(const struct end *ends, unsigned n)
{
	unsigned closed = 0;

	for (unsigned i = 0; i < n; i++)
		closed += ends[i].closed != 0;
	return closed;
}

/* A name server that does not answer holds up nothing but the dial, and that has its deadline. */
static void test_resolver(void)
{
	struct server s;
	struct end c, many[LOOKUP_MAX + 1];
	const char *why = "";
	struct err e;
	int busy = 0;

	sem_init(&answer, 0, 0);
	peer_server_start(&s, 0, AF_INET);
	dial_slow(&c, "hangs.test", s.port, 100, &e);
	UNTIL(c.closed);
	like(c.why.text, "name was not found in time", "a name server that hangs: the dial's deadline");
	is_int(c.why.code, ERR_TIMEOUT, "as such");
	is_int(atomic_load(&answered), 0, "the loop went on meanwhile");
	dial_slow(&c, "waits.test", s.port, 0, &e);
	sem_post(&answer); /* whichever look-up gets it: the first is dropped */
	sem_post(&answer);
	UNTIL(c.opened || c.closed);
	ok(c.opened, "one that answers late: %s", c.why.text);
	peer_destroy(c.peer);
	dial_slow(&c, "gone.test", s.port, 0, &e);
	sem_post(&answer);
	UNTIL(c.closed);
	like(c.why.text, "cannot find the host gone.test: ", "a name that is not known");
	UNTIL(lookup_threads() == 0); /* the dropped one may be the last to wake */
	for (unsigned i = 0; i <= LOOKUP_MAX; i++)
		dial_slow(&many[i], "hangs.test", s.port, 60000, &e);
	UNTIL(count_closed(many, LOOKUP_MAX + 1));
	for (unsigned i = 0; i <= LOOKUP_MAX; i++)
		why = many[i].closed ? many[i].why.text : why;
	like(why, "16 earlier look-ups have not come back", "threads are bounded");
	for (unsigned i = 0; i <= LOOKUP_MAX; i++) {
		busy += many[i].closed;
		peer_destroy(many[i].peer);
		sem_post(&answer);
	}
	is_int(busy, 1, "one too many");
	UNTIL(atomic_load(&answered) == 3 + LOOKUP_MAX);
	peer_server_stop(&s);
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

		ok(!peer_dial(loop, &d, &ends_ops, NULL, &e) && e.code == ERR_INVALID, "refused: %s", bad[i]);
	}
	struct peer_dial d = {
	    .url = "https://h:5", .ca_pem = "junk", .node = "n", .cert_path = "c", .key_path = "k"};
	ok(!peer_dial(loop, &d, &ends_ops, NULL, &e), "an authority that is none");
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
	    {"SSH-2.0-OpenSSH_9.2\r\n", "is not HTTP", ERR_PROTOCOL},
	    {"HTTP/1.1 1x1 no\r\n\r\n", "is not HTTP", ERR_PROTOCOL},
	};
	struct server s;
	struct end c;
	char *huge = xmalloc(20001);

	peer_server_start(&s, 0, AF_INET);
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
	peer_server_stop(&s);
	free(huge);
}

/* Dials scheme://; the listener takes what comes, answers with `says`, closes. */
static void wrong_scheme(const char *scheme, const char *says, struct end *c)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = -1;
	char junk[4096];
	char *url;

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, n) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &n) < 0)
		tap_bail("cannot listen");
	url = xasprintf("%s://127.0.0.1:%u", scheme, ntohs(in.sin_port));
	dial_with(c, url, ROLE_CONTROL, cert_path, key_path, 0);
	UNTIL((one = accept(fd, NULL, NULL)) >= 0);
	UNTIL(recv(one, junk, sizeof(junk), MSG_DONTWAIT) > 0);
	if (*says)
		(void)!send(one, says, strlen(says), MSG_NOSIGNAL);
	shutdown(one, SHUT_WR);
	UNTIL(c->closed);
	close(one);
	close(fd);
	free(url);
}

static void test_schemes(void)
{
	struct end c;

	wrong_scheme("https", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", &c);
	like(c.why.text, "does the controller speak http, not https?", "https to a plain port");
	wrong_scheme("http", "", &c);
	like(c.why.text, "does the controller speak https, not http?", "http to a port that closes");
	wrong_scheme("http", "\x15\x03\x01\x00\x02\x02\x46", &c);
	like(c.why.text, "and http or https", "http to a port that answers in TLS");
}

static void test_deadlines(void)
{
	struct server s;
	struct end c, d;
	char *url;
	int fd;

	/* a server that takes the connection and says nothing */
	peer_server_start(&s, 0, AF_INET);
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
	peer_server_stop(&s);
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

	peer_server_start(&s, tls, AF_INET);
	dial(&c, &s, ROLE_BULK);
	UNTIL(c.opened || c.closed);
	UNTIL(s.end.opened);
	peer_hold(s.end.peer, 1);
	data.stream = xstrdup("rank-0");
	data.data.n = 256 * 1024;
	data.data.data = xcalloc(1, data.data.n);
	for (uint32_t i = 0; i < data.data.n; i++)
		data.data.data[i] = (uint8_t)(i * 31 + (i >> 8));
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
	is_int(s.end.spoilt, 0, "no byte of it is spoilt");
	is_str(c.why.text, "closed by this side", "and ends well");
	wire_fini(WM_LOG_DATA, &data);
	peer_server_stop(&s);
}

/* Frames of the greatest size, and a small one behind them that nothing follows. */
static void test_large_frames(int tls)
{
	struct server s;
	struct end c;
	struct wm_blob_put put = {0};
	struct wm_blob_get get = {0};
	struct err e;

	peer_server_start(&s, tls, AF_INET);
	dial(&c, &s, ROLE_BULK);
	UNTIL(c.opened && s.end.opened);
	put.data.n = WIRE_MAX_BODY - 24;
	put.data.data = xcalloc(1, put.data.n);
	for (unsigned round = 1; round <= 4; round++) {
		if (peer_send(c.peer, WM_BLOB_PUT, &put, 1, &e) < 0 ||
		    peer_send(c.peer, WM_BLOB_GET, &get, round, &e) < 0)
			tap_bail("%s", e.text);
		UNTIL(s.end.n_msgs == 2 * round);
	}
	is_int(s.end.n_msgs, 8, "frames of the greatest size and small ones behind them arrive");
	peer_destroy(c.peer);
	UNTIL(s.end.closed);
	wire_fini(WM_BLOB_PUT, &put);
	peer_server_stop(&s);
}

/* What many are told alike is queued without a copy, and given back by the last. */
static void test_shared(int tls)
{
	struct server s;
	struct end c;
	struct wm_gang gang = {.spec = xcalloc(1, 300001)};
	struct wm_prepare m = {.job = 7};
	struct wire_shared *shared;
	struct err e;

	memset(gang.spec, 's', 300000);
	shared = wire_share(WM_GANG, &gang, &e);
	m.gang = shared;
	peer_server_start(&s, tls, AF_INET);
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened && s.end.opened);
	for (unsigned i = 0; i < 3; i++)
		if (peer_send(s.end.peer, WM_PREPARE, &m, i, &e) < 0)
			tap_bail("%s", e.text);
	is_int(shared->refs, 4, "three frames refer to the same bytes");
	UNTIL(c.n_msgs == 3);
	is_int(c.last_type, WM_PREPARE, "they arrive");
	is_int(c.spoilt, 0, "whole");
	UNTIL(shared->refs == 1);
	is_int(shared->refs, 1, "and let go of them");
	peer_destroy(c.peer);
	UNTIL(s.end.closed);
	wire_unshare(shared);
	wire_fini(WM_GANG, &gang);
	peer_server_stop(&s);
}

static void test_flush_deadline(void)
{
	struct server s;
	struct end c;
	struct wm_log_data data = {.job = 1};
	struct err e;

	peer_server_start(&s, 0, AF_INET);
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
	peer_server_stop(&s);
}

static void test_destroy_in_callback(void)
{
	struct server s;
	struct end c;
	struct wm_beat beat = {0};
	struct err e;

	peer_server_start(&s, 1, AF_INET);
	dial(&c, &s, ROLE_CONTROL);
	UNTIL(c.opened && s.end.opened);
	s.end.destroy_on_msg = 1;
	for (int i = 0; i < 10; i++)
		peer_send(c.peer, WM_BEAT, &beat, 1, &e);
	UNTIL(c.closed);
	is_int(s.end.n_msgs, 1, "destroyed in on_msg: nothing comes after it");
	is_int(s.end.closed, 0, "not even on_close");
	is_int(c.why.code, ERR_UNAVAILABLE, "the other side sees the end");
	peer_server_stop(&s);
	peer_destroy(NULL);
}

/* Opens a TCP connection without waiting for it. */
static int begin_tcp(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 && errno != EINPROGRESS))
		tap_bail("connect: %s", strerror(errno));
	return fd;
}

/* A listener with a full queue drops the first SYN of each. The kernel repeats the SYN of another program
 * after a second; a dial with try_ms is there first. */
static void test_lost_syn(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from = {0};
	struct sockaddr_in slow = {0};
	socklen_t n = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), filler, other, fd;
	uint64_t end_us = clock_boot_us(clock_real()) + 200000;
	struct end c = {0};
	struct err e;
	char *url;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 0) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &n) < 0)
		tap_bail("listen: %s", strerror(errno));
	filler = begin_tcp(&at);
	other = begin_tcp(&at);
	url = xasprintf("http://127.0.0.1:%u", ntohs(at.sin_port));
	c.peer = peer_dial(loop,
	                   &(struct peer_dial){.url = url,
	                                       .node = "node1",
	                                       .cert_path = cert_path,
	                                       .key_path = key_path,
	                                       .role = ROLE_CONTROL,
	                                       .try_ms = 50},
	                   &ends_ops, &c, &e);
	while (clock_boot_us(clock_real()) < end_us)
		loop_run_once(loop, 10);
	is_int(c.closed, 0, "a dial without an answer goes on");
	close(accept(listener, NULL, NULL));
	n = sizeof(slow);
	getsockname(other, (struct sockaddr *)&slow, &n);
	n = sizeof(from);
	UNTIL((fd = accept(listener, (struct sockaddr *)&from, &n)) >= 0);
	ok(fd >= 0 && from.sin_port != slow.sin_port, "it is there before the kernel repeats a lost SYN");
	peer_destroy(c.peer);
	close(fd);
	close(other);
	close(filler);
	close(listener);
	free(url);
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

int main(void)
{
	ends_start();
	test_good(0);
	test_good(1);
	test_ipv6_and_names();
	test_resolver();
	test_bad_urls();
	test_answers();
	test_schemes();
	test_deadlines();
	test_slow_reader(0);
	test_slow_reader(1);
	test_large_frames(0);
	test_large_frames(1);
	test_shared(0);
	test_shared(1);
	test_flush_deadline();
	test_destroy_in_callback();
	test_lost_syn();
	test_backoff();
	ends_stop();
	return tap_done();
}
