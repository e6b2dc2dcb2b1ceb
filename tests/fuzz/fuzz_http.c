/*
 * fuzz_http: the first byte chooses what the rest is.
 *
 * 0..: bytes of a connection. The guard's verdict must not depend on how they are cut; and for what it lets
 * pass an independent, slow reading of the same bytes must find as many requests as the guard does, for that
 * is what the guard promises about what comes behind it. 0x80..: an address against every pattern of the
 * route table, a query value, a Range, log bytes as text: nothing may leave its bounds.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/strutil.h"
#include "controller/api/api.h"
#include "controller/api/download.h"
#include "controller/api/log_events.h"
#include "controller/http/http_guard.h"

/* ---- an independent reading ------------------------------------------------------------------- */

struct text {
	const char *p;
	size_t n;
};

/* A line up to CR LF; 0 when it is not whole. */
static int take_line(struct text *t, struct text *line)
{
	const char *end = memmem(t->p, t->n, "\r\n", 2);

	if (!end)
		return 0;
	line->p = t->p;
	line->n = (size_t)(end - t->p);
	t->n -= line->n + 2;
	t->p = end + 2;
	return 1;
}

static int named(const struct text *line, const char *name, struct text *value)
{
	size_t n = strlen(name);

	if (line->n <= n || strncasecmp(line->p, name, n) != 0 || line->p[n] != ':')
		return 0;
	value->p = line->p + n + 1;
	value->n = line->n - n - 1;
	while (value->n && *value->p == ' ') {
		value->p++;
		value->n--;
	}
	while (value->n && strchr(" \t", value->p[value->n - 1]))
		value->n--;
	return 1;
}

static int skip(struct text *t, size_t n)
{
	if (t->n < n)
		return 0;
	t->p += n;
	t->n -= n;
	return 1;
}

static int skip_chunks(struct text *t)
{
	struct text line;

	while (take_line(t, &line)) {
		size_t n = strtoull(line.p, NULL, 16);

		if (n == 0)
			return skip(t, 2);
		if (!skip(t, n + 2))
			return 0;
	}
	return 0;
}

/* Whole requests in bytes that the guard let pass. */
static uint64_t count(const uint8_t *data, size_t size)
{
	struct text t = {(const char *)data, size}, line, value;
	uint64_t n = 0;

	while (take_line(&t, &line)) {
		size_t length = 0;
		int chunked = 0, more;

		while ((more = take_line(&t, &line)) && line.n) {
			if (named(&line, "content-length", &value))
				length = strtoull(value.p, NULL, 10);
			chunked |= named(&line, "transfer-encoding", &value);
		}
		if (!more || (chunked ? !skip_chunks(&t) : !skip(&t, length)))
			break;
		n++;
	}
	return n;
}

static void connection(const uint8_t *data, size_t size, unsigned step)
{
	struct http_guard whole, cut;
	size_t at;
	int a, b = 0;

	http_guard_init(&whole);
	a = http_guard_feed(&whole, data, size);
	http_guard_init(&cut);
	for (at = 0; at < size && b == 0; at += step)
		b = http_guard_feed(&cut, data + at, size - at < step ? size - at : step);
	if (a != b || whole.status != cut.status || whole.requests != cut.requests || whole.phase != cut.phase)
		abort();
	if (a < 0 && (whole.phase != HTTP_REFUSED || !whole.status || !whole.why))
		abort();
	if (a == 0 && count(data, size) != whole.requests)
		abort();
	if (whole.length > HTTP_MAX_BODY && a == 0)
		abort();
}

/* ---- addresses and values --------------------------------------------------------------------- */

static void address(const char *text)
{
	size_t n, i, j;
	const struct route *r = route_table(&n);

	for (i = 0; i < n; i++) {
		char *params[CALL_MAX_PARAMS];
		struct err e;

		if (route_match(r[i].pattern, text, api_check_param, params, &e) <= 0)
			continue;
		for (j = 0; j < CALL_MAX_PARAMS; j++) {
			if (params[j] && (str_has_control(params[j]) ||
			                  (!str_safe_relpath(params[j]) && !strstr(r[i].pattern, "{metric*}"))))
				abort();
			free(params[j]);
		}
	}
}

static void values(const char *text, size_t n)
{
	uint64_t first = 0, length = 0;
	char *out = route_decode(text, n, 1, NULL), *shown = str_to_utf8(text, n);

	if (out && (str_has_control(out) || strlen(out) > n))
		abort();
	if (!str_valid_utf8(shown, strlen(shown)) || log_events_cut(text, n) > 3)
		abort();
	if (download_range(text, 1000, &first, &length) > 0 && (length == 0 || first + length > 1000))
		abort();
	free(out);
	free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	if (data[0] < 0x80) {
		connection(data + 1, size - 1, data[0] % 61 + 1);
		return 0;
	}
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	address(text);
	values(text, size - 1);
	free(text);
	return 0;
}
