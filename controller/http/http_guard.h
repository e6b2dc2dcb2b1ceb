/*
 * http_guard: is this byte stream well-formed HTTP/1? Pure; no buffer, no I/O.
 *
 * libevent's evhttp is lenient in places that are dangerous behind a proxy or next to another parser
 * (repeated Content-Length, "+5", a bare LF, "Transfer-Encoding" after a tab, bodies of HEAD). Every byte of
 * a connection passes the guard before evhttp may see it. The guard follows the framing of requests and
 * refuses what RFC 9112 forbids or leaves open. It accepts a subset of what evhttp accepts, and for that
 * subset both agree where a request ends.
 *
 * Refused: anything but "METHOD SP /origin-form SP HTTP/1.x CRLF", bare CR or LF, control bytes, folded
 * headers, blanks around a header's name, a tab before its value, more or fewer than one Host in HTTP/1.1,
 * repeated or non-decimal Content-Length, Content-Length with Transfer-Encoding, any coding but "chunked",
 * chunk extensions, trailers, bodies with GET and HEAD, headers over 64 KiB or 128 lines, a target over 8
 * KiB, a body over the limit.
 */
#ifndef HEARTH_CONTROLLER_HTTP_HTTP_GUARD_H
#define HEARTH_CONTROLLER_HTTP_HTTP_GUARD_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_MAX_HEADER  (64u * 1024)
#define HTTP_MAX_HEADERS 128u
#define HTTP_MAX_TARGET  (8u * 1024)
#define HTTP_MAX_BODY    (8u * 1024 * 1024)

enum http_phase { HTTP_IDLE, HTTP_HEADER, HTTP_BODY, HTTP_REFUSED };

struct http_guard {
	/* for the owner */
	enum http_phase phase;
	uint64_t requests; /* complete ones so far */
	uint64_t length; /* announced bytes of the present request's body; of a chunked one those of its chunks so
	                    far */
	int status;      /* when refused: HTTP status of the answer */
	const char *why; /* when refused: a sentence */

	/* its own */
	uint8_t state;
	uint8_t method; /* index into its table */
	uint8_t minor;  /* HTTP/1.minor */
	uint8_t seen;   /* bits of headers that may come once */
	uint8_t field;  /* which header the present line is */
	uint8_t chunked;
	unsigned n_headers;
	size_t header_bytes, target_bytes;
	uint64_t left;   /* of the body or chunk */
	unsigned digits; /* of a chunk size */
	unsigned n_token;
	char token[32]; /* present method, version, header name or short value, lower case for names */
};

void http_guard_init(struct http_guard *g);
/* Checks n more bytes. 0: fine. -1: refused for good; the caller must not use these bytes. */
int http_guard_feed(struct http_guard *g, const uint8_t *p, size_t n);

#endif
