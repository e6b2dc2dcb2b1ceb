/*
 * Connections: malformed requests over real sockets, keep-alive, pipelines, limits of time, size and number,
 * answers that come late, clients that go.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/chan.h"
#include "common/os/loop.h"
#include "controller/http/http.h"
#include "tests/lib/tap.h"

#define HOST "Host: localhost\r\n"

static struct loop *loop;
static struct http *server;
static struct http_counters count;
static struct chan *late_calls;
static unsigned port;
static char unix_path[100];
static _Atomic unsigned n_calls, n_gone, n_drained;
static struct call *_Atomic held;

/* ---- the server: /echo, /late (answered by a message), /hold (never), /big, /stream, /abort, /empty, /creds
 */

static void on_late(void *msg, void *arg)
{
	struct call *c = msg;

	(void)arg;
	if (call_open(c))
		call_text(c, 200, "text/plain", "late");
	call_drop(c);
}

static void on_gone(struct call *c)
{
	(void)c;
	atomic_fetch_add(&n_gone, 1);
}

static void on_drain(struct call *c)
{
	(void)c;
	atomic_fetch_add(&n_drained, 1);
}

static void answer_text(struct call *c, const char *text)
{
	struct evbuffer *b = evbuffer_new();

	evbuffer_add(b, text, strlen(text));
	call_stream_put(c, b);
	evbuffer_free(b);
}

static void answer_big(struct call *c)
{
	struct evbuffer *b = evbuffer_new();
	char *p = xcalloc(1, 4u << 20);

	memset(p, 'x', 4u << 20);
	evbuffer_add(b, p, 4u << 20);
	free(p);
	call_buffer(c, 200, "text/plain", b);
}

static void on_call(struct call *c, void *arg)
{
	char text[512];
	struct err e;

	(void)arg;
	atomic_fetch_add(&n_calls, 1);
	if (strcmp(c->path, "/known") == 0 && call_known(c, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	if (strcmp(c->path, "/known") == 0) { /* an answer without end */
		call_stream_start(c, 200, "text/plain", -1);
	} else if (strcmp(c->path, "/late") == 0) {
		call_hold(c);
		chan_send(late_calls, c);
	} else if (strcmp(c->path, "/hold") == 0) {
		c->on_gone = on_gone;
		atomic_store(&held, call_hold(c));
	} else if (strcmp(c->path, "/big") == 0) {
		answer_big(c);
	} else if (strcmp(c->path, "/stream") == 0) {
		c->on_gone = on_gone;
		c->on_drain = on_drain;
		call_stream_start(c, 200, "text/plain", -1);
		answer_text(c, "one ");
		answer_text(c, "two");
		if (c->query_text)
			call_stream_end(c);
	} else if (strcmp(c->path, "/abort") == 0) {
		call_stream_start(c, 200, "text/plain", 100);
		answer_text(c, "part");
		call_stream_abort(c);
	} else if (strcmp(c->path, "/empty") == 0) {
		call_empty(c, 204);
	} else if (strcmp(c->path, "/creds") == 0) {
		snprintf(text, sizeof(text), "unix=%d uid=%u", c->is_unix, c->uid);
		call_text(c, 200, "text/plain", text);
	} else {
		snprintf(text, sizeof(text), "%s %s %.20s %zu", http_method_name(c->method), c->path,
		         c->query_text ? c->query_text : "-", c->body_n);
		call_text(c, 200, "text/plain", text);
	}
}

static void *run_loop(void *arg)
{
	(void)arg;
	loop_run(loop);
	return NULL;
}

static void on_stop(void *msg, void *arg)
{
	(void)msg;
	(void)arg;
	loop_stop(loop);
}

/* ---- clients ---------------------------------------------------------------------------------- */

static int dial_port(void)
{
	struct sockaddr_in a = {
	    .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		tap_bail("connect: %s", strerror(errno));
	return fd;
}

static void send_text(int fd, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		ssize_t k = send(fd, text, n, MSG_NOSIGNAL);

		if (k <= 0)
			return;
		text += k;
		n -= (size_t)k;
	}
}

/* Until needle, the end, or the deadline. */
static char *read_answer(int fd, const char *needle, unsigned ms, int *closed)
{
	uint64_t end = clock_boot_us(clock_real()) + ms * 1000ull;
	char *text = xcalloc(1, 1), piece[65536];
	size_t n = 0;

	*closed = 0;
	while (!(needle && strstr(text, needle))) {
		uint64_t now = clock_boot_us(clock_real());
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t k;

		if (now >= end || poll(&p, 1, (int)((end - now) / 1000) + 1) <= 0)
			break;
		k = recv(fd, piece, sizeof(piece), 0);
		if (k <= 0) {
			*closed = 1;
			break;
		}
		text = xrealloc(text, n + (size_t)k + 1);
		memcpy(text + n, piece, (size_t)k);
		n += (size_t)k;
		text[n] = '\0';
	}
	return text;
}

static char *exchange_text(const char *request, const char *needle, int *closed)
{
	int fd = dial_port();
	char *text;

	send_text(fd, request);
	text = read_answer(fd, needle, 5000, closed);
	close(fd);
	return text;
}

static int status_of(const char *text)
{
	return strncmp(text, "HTTP/1.", 7) || strlen(text) < 12 ? 0 : atoi(text + 9);
}

/* Waits for an atomic to reach a value. */
static int wait_reached(_Atomic unsigned *v, unsigned want)
{
	uint64_t end = clock_boot_us(clock_real()) + 5000000;

	while (atomic_load(v) < want && clock_boot_us(clock_real()) < end)
		poll(NULL, 0, 2);
	return atomic_load(v) >= want;
}

static void test_malformed(void)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
	    {"GET / HTTP/1.1\nHost: a\n\n", 400},
	    {"GET / HTTP/1.1\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nhello", 400},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", 400},
	    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", 501},
	    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 9000000\r\n\r\n", 413},
	    {"HEAD / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 400},
	    {"BREW / HTTP/1.1\r\n" HOST "\r\n", 501},
	    {"GET http://a/ HTTP/1.1\r\n" HOST "\r\n", 400},
	    {"GET / HTTP/3.0\r\n" HOST "\r\n", 505},
	    {"GET / HTTP/1.1\r\n" HOST "X : y\r\n\r\n", 400},
	    {"GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", 400},
	    {"\x16\x03\x01\x02\x01\x01", 400},
	    /* A good request in front of a bad one, in one piece: neither is done, since it may be an attack on
	       the second's framing. */
	    {"GET /a HTTP/1.1\r\n" HOST "\r\nGET /b\r\n", 400},
	};
	unsigned i, before = atomic_load(&n_calls);

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int closed;
		char *text = exchange_text(cases[i].text, NULL, &closed);

		ok(status_of(text) == cases[i].status && closed && strstr(text, "application/problem+json") &&
		       strstr(text, "Connection: close"),
		   "refused with %d and closed: %.40s -> %.40s", cases[i].status, cases[i].text, text);
		free(text);
	}
	is_int(atomic_load(&n_calls), before, "no handler saw any of them");
}

static void test_good(void)
{
	int closed, fd;
	char *text;

	text = exchange_text("GET /x%20y?a=b HTTP/1.1\r\n" HOST "\r\n", "GET /x%20y a=b 0", &closed);
	ok(strstr(text, "GET /x%20y a=b 0") && !closed, "a request and its answer; the connection stays");
	free(text);
	text = exchange_text("GET /x HTTP/1.0\r\n\r\n", NULL, &closed);
	ok(strstr(text, "GET /x - 0") && closed, "HTTP/1.0 is answered and closed");
	free(text);
	text = exchange_text("GET /x HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", NULL, &closed);
	ok(strstr(text, "GET /x - 0") && closed, "Connection: close is honoured");
	free(text);
	text = exchange_text("PATCH /p HTTP/1.1\r\n" HOST
	                     "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n",
	                     "PATCH /p - 8", &closed);
	ok(!!strstr(text, "PATCH /p - 8"), "PATCH, chunked");
	free(text);
	text = exchange_text("PUT /e HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
	                     "100 Continue\r\n\r\n", &closed);
	ok(!!strstr(text, "100 Continue"), "100-continue is said");
	free(text);
	text = exchange_text("HEAD /h HTTP/1.1\r\n" HOST "\r\n", "\r\n\r\n", &closed);
	ok(status_of(text) == 200 && !strstr(text, "HEAD /h"), "HEAD has no body");
	free(text);
	text = exchange_text("GET /empty HTTP/1.1\r\n" HOST "\r\n", "\r\n\r\n", &closed);
	is_int(status_of(text), 204, "an empty answer");
	free(text);

	fd = dial_port();
	send_text(fd, "GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\nPOST /3 HTTP/1.1\r\n" HOST
	              "Content-Length: 2\r\n\r\nabGET /4 HTTP/1.1\r\n" HOST "\r\n");
	text = read_answer(fd, "GET /4 - 0", 5000, &closed);
	ok(strstr(text, "GET /1") && strstr(text, "GET /2") && strstr(text, "POST /3 - 2") &&
	       strstr(text, "GET /4"),
	   "a pipeline is answered in order");
	free(text);
	send_text(fd, "GET /late HTTP/1.1\r\n" HOST "\r\n");
	text = read_answer(fd, "late", 5000, &closed);
	ok(!!strstr(text, "late"), "an answer that comes later");
	free(text);
	close(fd);
}

static void test_pieces(void)
{
	static const char request[] = "POST /slow HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello";
	int fd = dial_port(), closed;
	size_t i;
	char *text;

	for (i = 0; i < sizeof(request) - 1; i++)
		ok(send(fd, request + i, 1, MSG_NOSIGNAL) == 1 || i == 0, "byte %zu", i);
	text = read_answer(fd, "POST /slow - 5", 5000, &closed);
	ok(!!strstr(text, "POST /slow - 5"), "a request byte by byte");
	free(text);
	close(fd);
}

static void test_times(void)
{
	int fd = dial_port(), idle = dial_port(), body = dial_port(), closed;
	char *text;

	send_text(fd, "GET /x HTTP/1.1\r\n");
	send_text(body, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc");
	text = read_answer(fd, NULL, 5000, &closed);
	ok(status_of(text) == 408 && closed, "a header that does not end: 408 and closed");
	free(text);
	text = read_answer(body, NULL, 5000, &closed);
	ok(status_of(text) == 408 && closed, "a body that does not come: 408 and closed");
	free(text);
	text = read_answer(idle, NULL, 5000, &closed);
	ok(!*text && closed, "an idle connection is closed without a word");
	free(text);
	close(fd);
	close(idle);
	close(body);
}

static void test_streams(void)
{
	int fd, closed;
	unsigned gone = atomic_load(&n_gone);
	char *text;

	text = exchange_text("GET /stream?end HTTP/1.1\r\n" HOST "\r\n", "0\r\n\r\n", &closed);
	ok(strstr(text, "Transfer-Encoding: chunked") && strstr(text, "4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"),
	   "a stream in chunks");
	free(text);
	text = exchange_text("GET /stream?end HTTP/1.0\r\n\r\n", NULL, &closed);
	ok(closed && strstr(text, "\r\n\r\none two") && !strstr(text, "chunked"),
	   "to HTTP/1.0 as plain bytes until the close");
	free(text);
	text = exchange_text("GET /abort HTTP/1.1\r\n" HOST "\r\n", NULL, &closed);
	ok(closed, "an aborted stream closes: the reader sees that it is not whole");
	free(text);
	fd = dial_port();
	send_text(fd, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
	text = read_answer(fd, "two", 5000, &closed);
	ok(strstr(text, "two") && wait_reached(&n_drained, 1), "a stream goes on, and says when it has drained");
	free(text);
	close(fd);
	ok(wait_reached(&n_gone, gone + 1), "its handler hears that the client has gone");
	fd = dial_port();
	send_text(fd, "GET /big HTTP/1.1\r\n" HOST "\r\n");
	close(fd);
	fd = dial_port();
	send_text(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	while (!atomic_load(&held))
		poll(NULL, 0, 2);
	close(fd);
	chan_send(late_calls, atomic_exchange(&held, NULL)); /* answered to nobody */
	text = exchange_text("GET /x HTTP/1.1\r\n" HOST "\r\n", "GET /x - 0", &closed);
	ok(!!strstr(text, "GET /x - 0"), "answers to clients that have gone harm nobody");
	free(text);
}

static void test_many(void)
{
	enum { N = 40 }; /* the limit is 32, half of it for users */
	int fds[N], i, closed, refused = 0, answered = 0;
	char *text;

	for (i = 0; i < N; i++) {
		fds[i] = dial_port();
		send_text(fds[i], "GET /known HTTP/1.1\r\n" HOST "\r\n");
		text = read_answer(fds[i], "\r\n\r\n", 2000, &closed);
		refused += status_of(text) == 429 && strstr(text, "Retry-After: ");
		answered += status_of(text) == 200;
		free(text);
	}
	is_int(answered, 16, "as many connections of a user as allowed are served");
	is_int(refused, 24, "the others are told 429");
	for (i = 0; i < N; i++)
		close(fds[i]);
	for (i = 0; i < 100 && atomic_load(&count.open) > 0; i++)
		poll(NULL, 0, 20);
	is_int(atomic_load(&count.open), 0, "all are counted off again");
	text = exchange_text("GET /x HTTP/1.1\r\n" HOST "\r\n", "GET /x - 0", &closed);
	ok(!!strstr(text, "GET /x - 0"), "then there is room again");
	free(text);
}

static void test_unix(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), closed;
	char want[64], *text;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", unix_path);
	snprintf(want, sizeof(want), "unix=1 uid=%u", getuid());
	ok(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "the unix socket");
	send_text(fd, "GET /creds HTTP/1.1\r\nHost: x\r\n\r\n");
	text = read_answer(fd, want, 5000, &closed);
	like(text, want, "who is on the other side");
	free(text);
	close(fd);
}

static void test_pipeline_limit(void)
{
	int fd = dial_port(), closed, i;
	char *text, *lots = xcalloc(1, 300000);

	for (i = 0; i < 10000; i++)
		memcpy(lots + i * 28, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 28);
	send_text(fd, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
	text = read_answer(fd, "two", 5000, &closed);
	free(text);
	send_text(fd, lots);
	text = read_answer(fd, NULL, 5000, &closed);
	ok(closed, "too much behind a request in work: closed");
	free(text);
	free(lots);
	close(fd);
}

static unsigned seed = 4711;

static unsigned random_below(unsigned below)
{
	seed = seed * 1103515245u + 12345u;
	return seed / 65536 % below;
}

/* Clients that send half-sense in pieces and go at any moment. What is asked of the server: to live, to let
 * go of everything, and to answer others. */
static void test_random(void)
{
	static const char *const words[] = {
	    "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
	    "GET /late HTTP/1.1\r\nHost: a\r\n\r\n",
	    "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
	    "GET /stream?end HTTP/1.1\r\nHost: a\r\n\r\n",
	    "GET /abort HTTP/1.1\r\nHost: a\r\n\r\n",
	    "GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
	    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
	    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n",
	    "PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	    "GET /empty HTTP/1.0\r\n\r\n",
	    "PUT /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
	    "hello",
	    "\r\n",
	    "GET ",
	    "\n",
	    "X: y\r\n",
	    "HEAD /h HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	    "5\r\nhello\r\n",
	    "0\r\n\r\n",
	    "\x16\x03",
	};
	unsigned i, j;
	int closed;
	char *text;

	for (i = 0; i < 600; i++) {
		int fd = dial_port();
		unsigned n = 1 + random_below(6);

		for (j = 0; j < n; j++) {
			const char *w = words[random_below(sizeof(words) / sizeof(words[0]))];
			size_t len = strlen(w), k = random_below(8) ? len : random_below((unsigned)len + 1);

			if (send(fd, w, k, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
		}
		if (random_below(3) == 0)
			free(read_answer(fd, "\r\n", random_below(20), &closed));
		if (random_below(4) == 0)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	text = exchange_text("GET /x HTTP/1.1\r\n" HOST "\r\n", "GET /x - 0", &closed);
	ok(!!strstr(text, "GET /x - 0"), "after 600 clients without manners others are answered");
	free(text);
	for (i = 0; i < 250 && atomic_load(&count.open) > 0; i++)
		poll(NULL, 0, 20);
	is_int(atomic_load(&count.open), 0, "and nothing is left of them");
	is_int(atomic_load(&count.streams), 0, "no stream either");
}

static void drop_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level >= LOG_LVL_ERROR)
		fprintf(stderr, "%s\n", line);
}

static int open_listener(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		tap_bail("listen: %s", strerror(errno));
	port = ntohs(a.sin_port);
	return fd;
}

static int listening_unix(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(unix_path, sizeof(unix_path), "%.80s/s", tap_tmpdir());
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", unix_path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 16) < 0)
		tap_bail("listen: %s", strerror(errno));
	return fd;
}

int main(void)
{
	int tcp = open_listener(), local = listening_unix();
	struct http_config c = {.tcp_fd = tcp,
	                        .unix_fd = local,
	                        .max_conns = 32,
	                        .idle_ms = 700,
	                        .header_ms = 300,
	                        .body_ms = 300,
	                        .count = &count};
	struct chan *stop;
	pthread_t thread;
	struct err e;

	signal(SIGPIPE, SIG_IGN); /* as hearthd does */
	log_set_sink(drop_line, NULL);
	loop = loop_create();
	c.loop = loop;
	late_calls = chan_create(loop, 64, 0, on_late, NULL);
	stop = chan_create(loop, 1, 0, on_stop, NULL);
	server = http_create(&c, on_call, NULL, &e);
	if (!server)
		tap_bail("%s", e.text);
	pthread_create(&thread, NULL, run_loop, NULL);
	test_malformed();
	test_good();
	test_pieces();
	test_times();
	test_streams();
	test_unix();
	test_pipeline_limit();
	test_many();
	test_random();
	chan_send_wait(stop, stop);
	pthread_join(thread, NULL);
	http_destroy(server);
	chan_destroy(late_calls, NULL);
	chan_destroy(stop, NULL);
	loop_destroy(loop);
	close(tcp);
	close(local);
	return tap_done();
}
