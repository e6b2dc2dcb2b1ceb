/*
 * test_peer_server: the dialling side against a hearthd that misbehaves: other versions, odd challenges,
 * frames in the wrong order, torn or dripped byte by byte, refusals with any code; addresses that do not
 * answer. The test writes the server's bytes itself.
 */
#include "tests/unit/common/net/peer_ends.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static int listener, port;

static int listen_at(uint32_t address, int at, int backlog)
{
	struct sockaddr_in in = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons((uint16_t)at)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, backlog) < 0)
		tap_bail("cannot listen");
	return fd;
}

static int port_of(int fd)
{
	struct sockaddr_in in;
	socklen_t n = sizeof(in);

	if (getsockname(fd, (struct sockaddr *)&in, &n) < 0)
		tap_bail("getsockname");
	return ntohs(in.sin_port);
}

/* ---- what the server says ---------------------------------------------------------------------- */

static void put(struct buf *b, uint16_t type, const void *msg)
{
	struct err e;

	if (wire_encode(type, msg, 0, b, &e) < 0)
		tap_bail("%s", e.text);
}

static void put_text(struct buf *b, const char *text)
{
	for (; *text; text++)
		buf_put_u8(b, (uint8_t)*text);
}

static void put_challenge(struct buf *b, uint32_t from, uint32_t to, uint32_t nonce_n)
{
	uint8_t nonce[100] = {7};
	struct wm_challenge c = {.version_min = from, .version_max = to, .nonce = {nonce, nonce_n}};

	put(b, WM_CHALLENGE, &c);
}

static void put_welcome(struct buf *b, uint32_t version)
{
	struct wm_welcome w = {.version = version, .session = 4711};

	put(b, WM_WELCOME, &w);
}

static void put_refused(struct buf *b, uint32_t code, const char *text)
{
	struct wm_refused r = {.code = code, .text = (char *)(uintptr_t)text};

	put(b, WM_REFUSED, &r);
}

/* Dials, reads the request, says it `step` bytes at a time, then closes its side where `close_it` is. Until
 * the dialling end is open or closed. */
static void talk(struct end *c, uint8_t role, struct buf *says, size_t step, int close_it)
{
	char *url = xasprintf("http://127.0.0.1:%d", port), request[4096] = "";
	size_t got = 0, sent = 0, all = buf_left(says);
	int fd = -1;

	dial_with(c, url, role, cert_path, key_path, 0);
	free(url);
	UNTIL((fd = accept(listener, NULL, NULL)) >= 0);
	UNTIL(({
		ssize_t n = recv(fd, request + got, sizeof(request) - 1 - got, MSG_DONTWAIT);

		got += n > 0 ? (size_t)n : 0;
		strstr(request, "\r\n\r\n");
	}));
	while (sent < all && !c->closed) {
		size_t n = step < all - sent ? step : all - sent;

		if (send(fd, buf_head(says) + sent, n, MSG_NOSIGNAL) != (ssize_t)n)
			break;
		sent += n;
		loop_run_once(loop, 1);
	}
	if (close_it)
		shutdown(fd, SHUT_WR);
	UNTIL(c->closed || (c->opened && !close_it));
	close(fd);
}

static void begin(struct buf *b)
{
	buf_reset(b);
	put_text(b, ANSWER);
}

static void fails(struct buf *b, enum err_code code, const char *says, const char *what)
{
	struct end c;

	talk(&c, ROLE_CONTROL, b, SIZE_MAX, 1);
	ok(!c.opened && c.closed == 1, "%s: %s", what, c.why.text);
	is_int(c.why.code, code, "its code");
	like(c.why.text, says, "its words");
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void test_challenges(struct buf *b)
{
	begin(b);
	put_challenge(b, WIRE_VERSION + 1, WIRE_VERSION + 2, 32);
	fails(b, ERR_UNSUPPORTED, "this agent speaks 2 and 3: upgrade this agent",
	      "a hearthd that accepts newer agents only");
	begin(b);
	put_challenge(b, 0, WIRE_OLDEST - 1, 32);
	fails(b, ERR_UNSUPPORTED, "hearthd accepts versions 0 to 1 of the protocol", "one that is too old");
	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 15);
	fails(b, ERR_PROTOCOL, "a nonce of 15 bytes", "a nonce that may have been used before");
	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 65);
	fails(b, ERR_PROTOCOL, "a nonce of 65 bytes", "one that is too long");
	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
	put_welcome(b, WIRE_VERSION - 1);
	fails(b, ERR_PROTOCOL, "settled on version 2, which was not offered", "a welcome in another version");
}

static void test_order(struct buf *b)
{
	struct wm_beat_ack ack = {0};
	struct wm_beat beat = {0};
	struct wm_hello hello = {0};
	struct wm_log_ack bulk = {0};

	begin(b);
	put_welcome(b, WIRE_VERSION);
	fails(b, ERR_PROTOCOL, "a welcome frame is not allowed here", "a welcome before the proof");
	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
	fails(b, ERR_PROTOCOL, "a challenge frame is not allowed here", "a second challenge");
	begin(b);
	put(b, WM_HELLO, &hello);
	fails(b, ERR_PROTOCOL, "a hello frame is not allowed here", "a hello from hearthd");
	begin(b);
	put(b, WM_BEAT_ACK, &ack);
	fails(b, ERR_PROTOCOL, "a beat_ack frame is not allowed here",
	      "an answer to a beat before the handshake");
	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
	put_welcome(b, WIRE_VERSION);
	for (int i = 0; i < 4; i++) {
		struct end c;
		struct buf whole;

		buf_init(&whole, 1 << 16);
		buf_put_bytes(&whole, buf_head(b), (uint32_t)buf_left(b));
		buf_skip(&whole, 4); /* the length that put_bytes wrote */
		if (i == 0)
			put(&whole, WM_BEAT, &beat);
		else if (i == 1)
			put_welcome(&whole, WIRE_VERSION);
		else if (i == 2)
			put(&whole, WM_LOG_ACK, &bulk);
		else
			put_refused(&whole, ERR_CONFLICT, "late");
		talk(&c, ROLE_CONTROL, &whole, SIZE_MAX, 1);
		is_int(c.opened, 1, "open");
		is_int(c.why.code, ERR_PROTOCOL, "and closed by what is not allowed then");
		like(c.why.text, "frame is not allowed here", c.why.text);
		is_int(c.n_msgs, 0, "which is not handed on");
		buf_fini(&whole);
	}
}

/* What hearthd offers, what the agent makes of it, and what it speaks then. */
static void test_versions(struct buf *b)
{
	static const struct {
		unsigned min, max, welcome, speaks;
		const char *what;
	} cases[] = {
	    {WIRE_OLDEST, WIRE_VERSION, WIRE_VERSION, WIRE_VERSION, "a hearthd of the same version"},
	    {WIRE_VERSION - 1, WIRE_VERSION - 1, WIRE_VERSION - 1, WIRE_VERSION - 1, "the one before"},
	    {WIRE_OLDEST, WIRE_VERSION + 1, WIRE_VERSION, WIRE_VERSION, "the next one"},
	    {WIRE_OLDEST, WIRE_VERSION + 2, 0, 0, "one that is two versions ahead"},
	};
	struct wm_ack ack = {0};
	struct wm_beat_ack beat_ack = {.seq = 1};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct end c;

		begin(b);
		put_challenge(b, cases[i].min, cases[i].max, 32);
		put_welcome(b, cases[i].welcome);
		put(b, WM_ACK, &ack);
		/* A frame of a type that nobody here knows. */
		buf_put_u32(b, 5);
		buf_put_u16(b, cases[i].speaks ? WM_ACK : 9999);
		buf_put_u16(b, 0);
		buf_put_u64(b, 0);
		buf_put(b, "12345", 5);
		put(b, WM_BEAT_ACK, &beat_ack);
		talk(&c, ROLE_CONTROL, b, 7, 1);
		ok(c.opened == 1, "%s: open (%s)", cases[i].what, c.why.text);
		is_int(c.n_msgs, 1, "one message is understood");
		is_int(c.last_type, cases[i].speaks ? WM_ACK : WM_BEAT_ACK,
		       cases[i].speaks ? "an acknowledgement" : "the answer to a beat, nothing else");
		ok(!c.peer || peer_version(c.peer) == cases[i].speaks, "version");
		peer_destroy(c.peer);
	}
}

/* A code is believed when it is one of ours. */
static void test_refused(struct buf *b)
{
	for (uint32_t code = 0; code <= ERR_GONE + 2u; code++) {
		char *text = xasprintf("because of %u", code);

		begin(b);
		put_refused(b, code, text);
		fails(b, code > ERR_NONE && code <= ERR_GONE ? (enum err_code)code : ERR_DENIED, text, "refused");
		free(text);
	}
	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
	put_refused(b, UINT32_MAX, "no");
	fails(b, ERR_DENIED, "hearthd refuses this agent: no", "refused after the proof");
}

/* The whole handshake and one message, in pieces of any size; cut short anywhere it is an end, not a message.
 */
static void test_torn(struct buf *b)
{
	struct wm_ack ack = {.acked = 5};
	struct end c;
	size_t all, head = strlen(ANSWER), open_at;
	unsigned opened = 0, taken = 0, bad = 0;

	begin(b);
	put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
	put_welcome(b, WIRE_VERSION);
	open_at = buf_left(b);
	put(b, WM_ACK, &ack);
	all = buf_left(b);
	for (size_t step = 1; step <= 17; step += 8) {
		talk(&c, ROLE_CONTROL, b, step, 1);
		ok(c.opened == 1 && c.n_msgs == 1 && c.last_type == WM_ACK, "dripped, %zu bytes at a time", step);
		is_str(c.why.text, "closed by the other side", "then the end");
	}
	for (size_t cut = head - 3; cut < all; cut++) {
		struct buf part;

		buf_view(&part, buf_head(b), cut);
		talk(&c, ROLE_CONTROL, &part, SIZE_MAX, 1);
		opened += (unsigned)c.opened;
		taken += c.n_msgs;
		bad += c.closed != 1 || c.why.code != ERR_UNAVAILABLE || (cut < open_at && c.opened);
	}
	is_int(bad, 0, "cut anywhere: closed once, as by the other side");
	is_int(opened, (int64_t)(all - open_at), "open where the welcome was whole");
	is_int(taken, 0, "and no message that was not");
	/* A header alone that cannot be ends it, no body is waited for. */
	for (int i = 0; i < 3; i++) {
		static const char *const says[] = {"unknown type 9999", "at most 8 are allowed",
		                                   "reserved field is 1"};

		begin(b);
		put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
		put_welcome(b, WIRE_VERSION);
		buf_put_u32(b, i == 1 ? 9 : 8);
		buf_put_u16(b, i == 0 ? 9999 : WM_ACK);
		buf_put_u16(b, i == 2);
		buf_put_u64(b, 0);
		talk(&c, ROLE_CONTROL, b, SIZE_MAX, 0);
		UNTIL(c.closed);
		is_int(c.why.code, ERR_PROTOCOL, says[i]);
		like(c.why.text, says[i], "by its header");
	}
}

static void test_upgrades(struct buf *b)
{
	static const char *const bad[] = {
	    "HTTP/1.1 101 Switching Protocols\r\n\r\n",
	    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
	    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: hearth-agent/11\r\n\r\n",
	    "HTTP/1.1 101 Switching Protocols\r\nX-Upgrade: hearth-agent/1\r\n\r\n",
	    "HTTP/1.1 101 Switching Protocols\r\nUpgrade hearth-agent/1\r\n\r\n",
	};
	struct end c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		buf_reset(b);
		put_text(b, bad[i]);
		fails(b, ERR_PROTOCOL, "the server does not speak hearth-agent/1", bad[i]);
	}
	buf_reset(b);
	put_text(b, "HTTP/1.1 101 ok\r\nServer: x\r\nupgrade:\t HEARTH-agent/1\t\r\nDate: y\r\n\r\n");
	put_challenge(b, 0, 99, 16);
	put_welcome(b, WIRE_VERSION);
	talk(&c, ROLE_BULK, b, SIZE_MAX, 0);
	ok(c.opened == 1 && c.session == 4711, "names and values in any case, blanks around them: %s",
	   c.why.text);
	peer_destroy(c.peer);
}

/* ---- addresses --------------------------------------------------------------------------------- */

static const char *const *addresses;

/* All of them, in order. */
static int resolver(const char *host, const char *to, const struct addrinfo *hints, struct addrinfo **out)
{
	struct addrinfo numeric = *hints, **end = out;

	(void)host;
	numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	for (const char *const *a = addresses; *a; a++) {
		int rc = getaddrinfo(*a, to, &numeric, end);

		if (rc)
			return rc;
		end = &(*end)->ai_next;
	}
	return 0;
}

static void dial_name(struct end *c, int to, uint32_t timeout_ms)
{
	char *url = xasprintf("http://many.test:%d", to);
	struct peer_dial d = {.url = url,
	                      .node = "node1",
	                      .cert_path = cert_path,
	                      .key_path = key_path,
	                      .role = ROLE_CONTROL,
	                      .timeout_ms = timeout_ms,
	                      .resolve = resolver};
	struct err e;

	*c = (struct end){0};
	c->peer = peer_dial(loop, &d, &ends_ops, c, &e);
	if (!c->peer)
		tap_bail("%s", e.text);
	free(url);
}

static void test_addresses(void)
{
	static const char *const refused_first[] = {"127.0.0.3", "255.255.255.255", "127.0.0.1", NULL};
	static const char *const silent_first[] = {"127.0.0.2", "127.0.0.1", NULL};
	static const char *const silent[] = {"127.0.0.2", NULL};
	static const char *const none[] = {"127.0.0.3", "255.255.255.255", NULL};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	int full, fds[4], at;
	struct server s;
	struct end c;

	peer_server_start(&s, 0, AF_INET);
	at = s.port;
	addresses = refused_first;
	dial_name(&c, at, 0);
	UNTIL(c.opened || c.closed);
	ok(c.opened, "addresses that refuse, or cannot be: the next one: %s", c.why.text);
	peer_destroy(c.peer);
	addresses = none;
	dial_name(&c, at, 0);
	UNTIL(c.closed);
	is_int(c.why.code, ERR_UNAVAILABLE, "none that takes it");
	like(c.why.text, "cannot connect to many.test port", "says so");
	/* A listener whose queue is full lets connections hang. */
	full = listen_at(INADDR_LOOPBACK + 1, at, 0);
	in.sin_port = htons((uint16_t)at);
	for (size_t i = 0; i < 4; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)!connect(fds[i], (struct sockaddr *)&in, sizeof(in));
	}
	UNTIL(s.end.closed);
	addresses = silent_first;
	dial_name(&c, at, 30000);
	peer_destroy(c.peer);
	dial_name(&c, at, 2000); /* a second for the first address */
	UNTIL(c.opened || c.closed);
	ok(c.opened || c.why.code == ERR_TIMEOUT, "an address that does not answer: the next one: %s",
	   c.why.text);
	ok(c.opened, "which does");
	peer_destroy(c.peer);
	addresses = silent;
	dial_name(&c, at, 300);
	UNTIL(c.closed);
	is_int(c.why.code, ERR_TIMEOUT, "no other one");
	is_str(c.why.text, "connection not made in time", "the dial's own deadline");
	dial_name(&c, at, 60000);
	UNTIL(lookup_threads() == 0);
	loop_run_once(loop, 10);
	peer_destroy(c.peer); /* while it connects */
	ok(!c.opened && !c.closed, "destroyed in the middle: nothing follows");
	for (size_t i = 0; i < 4; i++)
		close(fds[i]);
	close(full);
	peer_server_stop(&s);
}

/* Again and again, as an agent does it: each failure is told once, and the one that is taken is like the
 * first. */
static void test_again(struct buf *b)
{
	struct end c;

	for (int i = 0; i < 20; i++) {
		begin(b);
		put_challenge(b, WIRE_VERSION, WIRE_VERSION, 32);
		if (i < 19)
			put_refused(b, ERR_CONFLICT, "the node is here twice");
		else
			put_welcome(b, WIRE_VERSION);
		talk(&c, ROLE_CONTROL, b, 1 + (size_t)i * 7, i < 19);
		ok(i < 19 ? c.closed == 1 && c.why.code == ERR_CONFLICT : c.opened == 1 && !c.closed, "try %d",
		   i + 1);
	}
	UNTIL(c.closed);
	is_int(c.why.code, ERR_UNAVAILABLE, "until hearthd is gone again");
}

int main(void)
{
	struct buf b;

	ends_start();
	listener = listen_at(INADDR_LOOPBACK, 0, 16);
	port = port_of(listener);
	buf_init(&b, 1 << 16);
	test_challenges(&b);
	test_order(&b);
	test_versions(&b);
	test_refused(&b);
	test_torn(&b);
	test_upgrades(&b);
	test_addresses();
	test_again(&b);
	buf_fini(&b);
	close(listener);
	ends_stop();
	return tap_done();
}
