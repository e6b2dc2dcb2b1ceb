/*
 * What the guard lets pass and what it refuses, each input whole and cut at every byte; and random bytes,
 * where the answer must not depend on the cuts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "controller/http/http_guard.h"
#include "tests/lib/tap.h"

struct pass {
	const char *text;
	unsigned requests;
	enum http_phase phase; /* at the end */
};
static const struct pass passes[] = {
    {"", 0, HTTP_IDLE},
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1, HTTP_IDLE},
    {"GET / HTTP/1.0\r\n\r\n", 1, HTTP_IDLE},
    {"GET /a%20b?x=1&y=%2f HTTP/1.1\r\nHost:a\r\nX-Empty:\r\nX: a \t \r\n\r\n", 1, HTTP_IDLE},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 1, HTTP_IDLE},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell", 0, HTTP_BODY},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 1, HTTP_IDLE},
    {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 1, HTTP_IDLE},
    {"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
     "chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n",
     1, HTTP_IDLE},
    {"PATCH / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n", 1, HTTP_IDLE},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 0, HTTP_BODY},
    {"DELETE / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 2, HTTP_IDLE},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHo", 1, HTTP_HEADER},
    {"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", 1, HTTP_IDLE},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 1, HTTP_IDLE},
    {"OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n", 1, HTTP_IDLE},
    {"GET / HTTP/1.1\r\nHost: a\r\nX-A-Very-Long-Name-Of-A-Header-That-Nobody-Knows: \xc3\xa9\r\n\r\n", 1,
     HTTP_IDLE},
};

struct refused {
	const char *text;
	int status;
};
#define H "POST / HTTP/1.1\r\nHost: a\r\n"
static const struct refused refusals[] = {
    {"\r\nGET / HTTP/1.1\r\n", 400},
    {"get / HTTP/1.1\r\n", 400},
    {"\x16\x03\x01", 400}, /* TLS on a plain port */
    {"BREW / HTTP/1.1\r\n", 501},
    {"CONNECT / HTTP/1.1\r\n", 501},
    {"TRACE / HTTP/1.1\r\n", 501},
    {"GETTTTTTTTT", 400},
    {"GET  / HTTP/1.1\r\n", 400},
    {"GET http://x/ HTTP/1.1\r\n", 400},
    {"OPTIONS * HTTP/1.1\r\n", 400},
    {"GET /a b HTTP/1.1\r\n", 400},
    {"GET /\tHTTP/1.1\r\n", 400},
    {"GET /\x01 HTTP/1.1\r\n", 400},
    {"GET /\xc3\xa9 HTTP/1.1\r\n", 400},
    {"GET /a#b HTTP/1.1\r\n", 400},
    {"GET /<x> HTTP/1.1\r\n", 400},
    {"GET /\r\n", 400},
    {"GET / HTTP/2.0\r\n", 505},
    {"GET / HTTP/1.2\r\n", 505},
    {"GET / HTTP/1.1 \r\n", 400},
    {"GET / http/1.1\r\n", 505},
    {"GET / HTTP/1.1\n", 400},
    {"GET / HTTP/1.1\rX", 400},
    {"GET / HTTP/1.1\r\nHost: a\n\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\n\n", 400},
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: a\x01\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
    {H "Content-Length: +5\r\n\r\n", 400},
    {H "Content-Length: -5\r\n\r\n", 400},
    {H "Content-Length: 0x5\r\n\r\n", 400},
    {H "Content-Length: 5,5\r\n\r\n", 400},
    {H "Content-Length: 5 5\r\n\r\n", 400},
    {H "Content-Length:\r\n\r\n", 400},
    {H "Content-Length: \t5\r\n\r\n", 400},
    {H "Content-Length:\t5\r\n\r\n", 400},
    {H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
    {H "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", 400},
    {H "Content-Length: 8388609\r\n\r\n", 413},
    {H "Content-Length: 99999999999999999999\r\n\r\n", 413},
    {H "Content-Length: 99999999999999999999999999999999999999\r\n\r\n", 400},
    {H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
    {H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {H "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {H "Transfer-Encoding: identity\r\n\r\n", 501},
    {H "Transfer-Encoding:\tchunked\r\n\r\n", 400},
    {H "Transfer-Encoding: xchunked\r\n\r\n", 501},
    {H "Expect: 200-ok\r\n\r\n", 417},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n\r\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n+5\r\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n0x5\r\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n5 \r\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n5\n", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n800001\r\n", 413},
    {H "Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n", 413},
    {H "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX", 400},
    {H "Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 400},
    {H "Content-Length: 2\r\n\r\nab\r\nGET / HTTP/1.1\r\n", 400}, /* an empty line between requests */
};

/* Feeds text in two pieces. */
static int feed_text(struct http_guard *g, const char *text, size_t n, size_t cut)
{
	http_guard_init(g);
	if (http_guard_feed(g, (const uint8_t *)text, cut) < 0)
		return -1;
	return http_guard_feed(g, (const uint8_t *)text + cut, n - cut);
}

static void test_passes(void)
{
	unsigned i;
	size_t cut;

	for (i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
		const struct pass *p = &passes[i];
		size_t n = strlen(p->text);
		int good = 1;

		for (cut = 0; cut <= n; cut++) {
			struct http_guard g;

			if (feed_text(&g, p->text, n, cut) < 0 || g.requests != p->requests || g.phase != p->phase) {
				tap_diag("cut at %zu: requests %d phase %d status %d %s", cut, (int)g.requests, (int)g.phase,
				         g.status, g.why ? g.why : "");
				good = 0;
				break;
			}
		}
		ok(good, "passes: %.40s", p->text);
	}
}

static void test_refusals(void)
{
	unsigned i;
	size_t cut;

	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refused *r = &refusals[i];
		size_t n = strlen(r->text);
		int good = 1;

		for (cut = 0; cut <= n; cut++) {
			struct http_guard g;

			if (feed_text(&g, r->text, n, cut) == 0 || g.status != r->status || g.phase != HTTP_REFUSED ||
			    !g.why || http_guard_feed(&g, (const uint8_t *)"G", 1) == 0) {
				tap_diag("cut at %zu: status %d want %d (%s) in %s", cut, g.status, r->status,
				         g.why ? g.why : "-", r->text);
				good = 0;
				break;
			}
		}
		ok(good, "refused with %d: %s", r->status,
		   r->text + (strncmp(r->text, H, strlen(H)) != 0 ? 0 : strlen(H)));
	}
}

static int feed_many(struct http_guard *g, char c, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (http_guard_feed(g, (const uint8_t *)&c, 1) < 0)
			return -1;
	return 0;
}

static void test_limits(void)
{
	struct http_guard g;
	int i, rc = 0;

	http_guard_init(&g);
	http_guard_feed(&g, (const uint8_t *)"GET /", 5);
	ok(feed_many(&g, 'a', HTTP_MAX_TARGET - 1) == 0, "a target of 8 KiB passes");
	ok(feed_many(&g, 'a', 1) < 0 && g.status == 414, "a longer one does not");

	http_guard_init(&g);
	http_guard_feed(&g, (const uint8_t *)"GET / HTTP/1.1\r\nX: ", 19);
	ok(feed_many(&g, 'a', HTTP_MAX_HEADER) < 0 && g.status == 431, "a header over 64 KiB is refused");
	ok(g.header_bytes <= HTTP_MAX_HEADER + 1, "as soon as it is known");

	http_guard_init(&g);
	http_guard_feed(&g, (const uint8_t *)"GET / HTTP/1.1\r\n", 16);
	for (i = 0; i < 200 && rc == 0; i++)
		rc = http_guard_feed(&g, (const uint8_t *)"A: b\r\n", 6);
	is_int(i, HTTP_MAX_HEADERS + 1, "128 header lines");
	is_int(g.status, 431, "status of too many");

	http_guard_init(&g);
	rc = http_guard_feed(&g, (const uint8_t *)H "Transfer-Encoding: chunked\r\n\r\n", strlen(H) + 30);
	for (i = 0; i < 9 && rc == 0; i++) {
		static char chunk[1024 * 1024 + 2];

		memset(chunk, 'x', sizeof(chunk));
		memcpy(chunk + sizeof(chunk) - 2, "\r\n", 2);
		rc = http_guard_feed(&g, (const uint8_t *)"100000\r\n", 8);
		if (rc == 0)
			rc = http_guard_feed(&g, (const uint8_t *)chunk, sizeof(chunk));
	}
	is_int(i, 9, "8 chunks of 1 MiB pass, the ninth does not");
	is_int(g.status, 413, "status of a body that grows too large");
}

/* The verdict depends on the bytes, not on how they are cut; and a refusal is final. */
static void test_random(void)
{
	static const char *const words[] = {"GET ",
	                                    "POST ",
	                                    "/",
	                                    "a?b=c",
	                                    " HTTP/1.1",
	                                    "\r\n",
	                                    "\n",
	                                    "Host: a\r\n",
	                                    "Content-Length: ",
	                                    "5",
	                                    "0",
	                                    "Transfer-Encoding: chunked\r\n",
	                                    "X: y\r\n",
	                                    "\r\n\r\n",
	                                    "hello",
	                                    "5\r\nhello\r\n",
	                                    "0\r\n\r\n",
	                                    "\t",
	                                    " ",
	                                    "+",
	                                    ":",
	                                    "\x7f"};
	unsigned seed = 12345, round, i;
	int good = 1;

	for (round = 0; round < 20000 && good; round++) {
		char text[512] = "";
		struct http_guard a, b;
		size_t n = 0, at = 0;
		int rc_a, rc_b = 0;

		for (i = 0; i < 12; i++)
			n += (size_t)snprintf(
			    text + n, sizeof(text) - n, "%s",
			    words[(seed = seed * 1103515245u + 12345u) / 65536 % (sizeof(words) / sizeof(words[0]))]);
		http_guard_init(&a);
		rc_a = http_guard_feed(&a, (const uint8_t *)text, n);
		http_guard_init(&b);
		while (at < n && rc_b == 0) {
			size_t k = 1 + (seed = seed * 1103515245u + 12345u) / 65536 % 7;

			k = k < n - at ? k : n - at;
			rc_b = http_guard_feed(&b, (const uint8_t *)text + at, k);
			at += k;
		}
		good = rc_a == rc_b && a.status == b.status && a.requests == b.requests && a.phase == b.phase;
		if (!good)
			tap_diag("round %u: %d/%d status %d/%d: %s", round, rc_a, rc_b, a.status, b.status, text);
	}
	ok(good, "20,000 random texts: cuts do not matter");
}

int main(void)
{
	test_passes();
	test_refusals();
	test_limits();
	test_random();
	return tap_done();
}
