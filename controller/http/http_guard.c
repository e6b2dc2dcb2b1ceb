/*
 * http_guard: a state machine over single bytes; bodies are skipped in one step.
 *
 * When evhttp and RFC 9112 differ, the stricter one wins: all that passes means the same to both. Two places
 * are not obvious: evhttp strips only blanks, not tabs, before a value (to it, "Transfer-Encoding:\tchunked"
 * has no coding), and it never reads a body of HEAD.
 */
#include "controller/http/http_guard.h"

#include <string.h>
#include <strings.h>

enum state {
	G_METHOD,
	G_TARGET,
	G_VERSION,
	G_VERSION_LF,
	G_LINE, /* first byte of a header line */
	G_NAME,
	G_OWS, /* blanks before the value */
	G_VALUE,
	G_VALUE_LF,
	G_END_LF,
	G_BODY,
	G_CHUNK_SIZE,
	G_CHUNK_SIZE_LF,
	G_CHUNK,
	G_CHUNK_CR,
	G_CHUNK_LF,
	G_LAST_CR, /* after the chunk of size 0 */
	G_LAST_LF,
	G_DEAD,
};

enum field { F_OTHER, F_HOST, F_LENGTH, F_CODING, F_EXPECT };

static const struct {
	const char *name;
	int body; /* may carry one */
} methods[] = {{"GET", 0}, {"HEAD", 0}, {"POST", 1}, {"PUT", 1}, {"PATCH", 1}, {"DELETE", 1}, {"OPTIONS", 0}};

static int refuse_stream(struct http_guard *g, int status, const char *why)
{
	g->phase = HTTP_REFUSED;
	g->state = G_DEAD;
	g->status = status;
	g->why = why;
	return -1;
}

static void start_request(struct http_guard *g)
{
	g->phase = HTTP_IDLE;
	g->state = G_METHOD;
	g->seen = g->chunked = 0;
	g->n_headers = g->n_token = g->digits = 0;
	g->header_bytes = g->target_bytes = 0;
	g->length = g->left = 0;
}

void http_guard_init(struct http_guard *g)
{
	memset(g, 0, sizeof(*g));
	start_request(g);
}

/* Characters of names (RFC 9110 token). */
static int is_token(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Characters of a request target: RFC 3986 and nothing that a browser would have to encode. */
static int is_target(uint8_t c)
{
	return c > 0x20 && c < 0x7f && !strchr("\"<>\\^`{|}#", c);
}

static int keep_byte(struct http_guard *g, uint8_t c)
{
	if (g->n_token + 1 >= sizeof(g->token))
		return -1;
	g->token[g->n_token++] = (char)c;
	g->token[g->n_token] = '\0';
	return 0;
}

static int end_method(struct http_guard *g)
{
	unsigned i;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (g->n_token && strcmp(g->token, methods[i].name) == 0) {
			g->method = (uint8_t)i;
			return 0;
		}
	return refuse_stream(g, 501, "unknown method");
}

static int end_version(struct http_guard *g)
{
	if (g->n_token == 8 && strncmp(g->token, "HTTP/1.", 7) == 0 &&
	    (g->token[7] == '0' || g->token[7] == '1')) {
		g->minor = (uint8_t)(g->token[7] - '0');
		return 0;
	}
	return refuse_stream(g, 505, "unknown version of HTTP; expected HTTP/1.0 or HTTP/1.1");
}

static int end_name(struct http_guard *g)
{
	static const struct {
		const char *name;
		enum field field;
	} known[] = {{"host", F_HOST},
	             {"content-length", F_LENGTH},
	             {"transfer-encoding", F_CODING},
	             {"expect", F_EXPECT}};
	unsigned i;

	g->field = F_OTHER;
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcasecmp(g->token, known[i].name) == 0)
			g->field = (uint8_t)known[i].field;
	g->n_token = 0;
	g->token[0] = '\0';
	if (++g->n_headers > HTTP_MAX_HEADERS)
		return refuse_stream(g, 431, "too many header lines");
	if (g->field != F_OTHER) {
		if (g->seen & (1u << g->field))
			return refuse_stream(g, 400,
			                     "Host, Content-Length, Transfer-Encoding and Expect must occur only once");
		g->seen |= (uint8_t)(1u << g->field);
	}
	return 0;
}

static int end_value(struct http_guard *g)
{
	unsigned i;

	while (g->n_token && (g->token[g->n_token - 1] == ' ' || g->token[g->n_token - 1] == '\t'))
		g->token[--g->n_token] = '\0';
	switch (g->field) {
	case F_LENGTH:
		if (g->n_token == 0)
			return refuse_stream(g, 400, "Content-Length is empty");
		for (i = 0; i < g->n_token; i++)
			if (g->token[i] < '0' || g->token[i] > '9')
				return refuse_stream(g, 400, "Content-Length is not a decimal number");
		if (g->n_token > 12)
			return refuse_stream(g, 413, "the body is too large");
		for (i = 0; i < g->n_token; i++)
			g->length = g->length * 10 + (uint64_t)(g->token[i] - '0');
		if (g->length > HTTP_MAX_BODY)
			return refuse_stream(g, 413, "the body is larger than 8 MiB");
		return 0;
	case F_CODING:
		if (strcasecmp(g->token, "chunked") != 0)
			return refuse_stream(g, 501, "unknown transfer coding; expected chunked");
		g->chunked = 1;
		return 0;
	case F_EXPECT:
		if (strcasecmp(g->token, "100-continue") != 0)
			return refuse_stream(g, 417, "unknown expectation; expected 100-continue");
		return 0;
	default:
		return 0;
	}
}

static int end_headers(struct http_guard *g)
{
	if (g->minor == 1 && !(g->seen & (1u << F_HOST)))
		return refuse_stream(g, 400, "Host is missing");
	if (g->chunked && (g->seen & (1u << F_LENGTH)))
		return refuse_stream(g, 400, "Content-Length and Transfer-Encoding exclude each other");
	if (g->chunked && g->minor == 0)
		return refuse_stream(g, 400, "Transfer-Encoding needs HTTP/1.1");
	if (!methods[g->method].body && (g->chunked || g->length))
		return refuse_stream(g, 400, "this method does not allow a body");
	g->phase = HTTP_BODY;
	if (g->chunked) {
		g->state = G_CHUNK_SIZE;
	} else if (g->length) {
		g->state = G_BODY;
		g->left = g->length;
	} else {
		g->requests++;
		start_request(g);
	}
	return 0;
}

static int chunk_digit(struct http_guard *g, uint8_t c)
{
	unsigned v;

	if (c >= '0' && c <= '9')
		v = (unsigned)(c - '0');
	else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		v = (unsigned)((c | 0x20) - 'a') + 10;
	else
		return refuse_stream(g, 400, "a chunk's size is not a hexadecimal number");
	if (++g->digits > 8)
		return refuse_stream(g, 413, "the body is larger than 8 MiB");
	g->left = g->left * 16 + v;
	return 0;
}

static int chunk_start(struct http_guard *g)
{
	g->length += g->left;
	if (g->length > HTTP_MAX_BODY)
		return refuse_stream(g, 413, "the body is larger than 8 MiB");
	g->state = g->left ? G_CHUNK : G_LAST_CR;
	g->digits = 0;
	return 0;
}

/* Request line. */
static int feed_line(struct http_guard *g, uint8_t c)
{
	switch (g->state) {
	case G_METHOD:
		g->phase = HTTP_HEADER;
		if (c == ' ') {
			if (end_method(g) < 0)
				return -1;
			g->state = G_TARGET;
			g->n_token = 0;
			return 0;
		}
		if (c < 'A' || c > 'Z' || g->n_token > 7)
			return refuse_stream(g, 400, "this is not an HTTP request");
		return keep_byte(g, c);
	case G_TARGET:
		if (c == ' ') {
			g->state = G_VERSION;
			g->n_token = 0;
			return g->target_bytes ? 0 : refuse_stream(g, 400, "the target is missing");
		}
		if (g->target_bytes++ == 0 && c != '/')
			return refuse_stream(g, 400, "the target does not begin with a slash");
		if (g->target_bytes > HTTP_MAX_TARGET)
			return refuse_stream(g, 414, "the target is longer than 8 KiB");
		return is_target(c) ? 0 : refuse_stream(g, 400, "the target has a byte that must be percent-encoded");
	case G_VERSION:
		if (c == '\r') {
			g->state = G_VERSION_LF;
			return end_version(g);
		}
		return c > 0x20 && c < 0x7f && keep_byte(g, c) == 0
		           ? 0
		           : refuse_stream(g, 400, "the request line is malformed");
	default: /* G_VERSION_LF */
		g->state = G_LINE;
		return c == '\n' ? 0 : refuse_stream(g, 400, "a line does not end with CR LF");
	}
}

static int feed_header(struct http_guard *g, uint8_t c)
{
	switch (g->state) {
	case G_LINE:
		g->n_token = 0;
		g->token[0] = '\0';
		if (c == '\r') {
			g->state = G_END_LF;
			return 0;
		}
		if (c == ' ' || c == '\t')
			return refuse_stream(g, 400, "a header line is folded");
		if (!is_token(c))
			return refuse_stream(g, 400, "a header line has no name");
		g->state = G_NAME;
		return keep_byte(g, c);
	case G_NAME:
		if (c == ':') {
			g->state = G_OWS;
			return end_name(g);
		}
		if (!is_token(c))
			return refuse_stream(g, 400, "a header's name has an invalid byte");
		if (keep_byte(g, c) < 0) /* longer than any that matters here */
			g->token[0] = '?';
		return 0;
	case G_OWS:
		if (c == ' ')
			return 0;
		if (c == '\t')
			return refuse_stream(g, 400, "a tab precedes a header's value");
		g->state = G_VALUE;
		/* fall through */
	case G_VALUE:
		if (c == '\r') {
			g->state = G_VALUE_LF;
			return end_value(g);
		}
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return refuse_stream(g, 400, "a header's value has a control byte");
		if (g->field != F_OTHER && g->field != F_HOST && keep_byte(g, c) < 0)
			return refuse_stream(g, 400, "a header's value is too long");
		return 0;
	case G_VALUE_LF:
		g->state = G_LINE;
		return c == '\n' ? 0 : refuse_stream(g, 400, "a line does not end with CR LF");
	default: /* G_END_LF */
		return c == '\n' ? end_headers(g) : refuse_stream(g, 400, "a line does not end with CR LF");
	}
}

static int feed_chunk(struct http_guard *g, uint8_t c)
{
	switch (g->state) {
	case G_CHUNK_SIZE:
		if (c != '\r')
			return chunk_digit(g, c);
		g->state = G_CHUNK_SIZE_LF;
		return g->digits ? 0 : refuse_stream(g, 400, "a chunk's size is missing");
	case G_CHUNK_SIZE_LF:
		return c == '\n' ? chunk_start(g) : refuse_stream(g, 400, "a line does not end with CR LF");
	case G_CHUNK_CR:
		g->state = G_CHUNK_LF;
		return c == '\r' ? 0 : refuse_stream(g, 400, "a chunk is longer than its size");
	case G_CHUNK_LF:
		g->state = G_CHUNK_SIZE;
		g->left = 0;
		return c == '\n' ? 0 : refuse_stream(g, 400, "a line does not end with CR LF");
	case G_LAST_CR:
		g->state = G_LAST_LF;
		return c == '\r' ? 0 : refuse_stream(g, 400, "trailers are not accepted");
	default: /* G_LAST_LF */
		if (c != '\n')
			return refuse_stream(g, 400, "a line does not end with CR LF");
		g->requests++;
		start_request(g);
		return 0;
	}
}

/* Skips bytes of a body or chunk; returns how many. */
static size_t skip_body(struct http_guard *g, size_t n)
{
	size_t k = n < g->left ? n : (size_t)g->left;

	g->left -= k;
	if (g->left)
		return k;
	if (g->state == G_CHUNK) {
		g->state = G_CHUNK_CR;
	} else {
		g->requests++;
		start_request(g);
	}
	return k;
}

int http_guard_feed(struct http_guard *g, const uint8_t *p, size_t n)
{
	int rc;

	while (n) {
		if (g->state == G_BODY || g->state == G_CHUNK) {
			size_t k = skip_body(g, n);

			p += k;
			n -= k;
			continue;
		}
		if (g->state <= G_VERSION_LF)
			rc = feed_line(g, *p);
		else if (g->state <= G_END_LF)
			rc = feed_header(g, *p);
		else if (g->state < G_DEAD)
			rc = feed_chunk(g, *p);
		else
			return -1;
		if (rc < 0)
			return -1;
		if (g->phase == HTTP_HEADER && ++g->header_bytes > HTTP_MAX_HEADER)
			return refuse_stream(g, 431, "the header is larger than 64 KiB");
		p++;
		n--;
	}
	return 0;
}
