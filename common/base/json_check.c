/*
 * json_check: the strict reading of RFC 8259 that comes before cJSON builds its tree. It builds nothing:
 * it reports whether the text is valid, and if not the place and the bytes found. Duplicate keys are found
 * later in the tree, where escapes are already undone ("a" and "\u0061" are the same key).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"

struct check {
	const char *start, *p, *end;
	struct err *e;
};

/* ---- messages ---------------------------------------------------------------------------------- */

static void describe(const struct check *c, const char *at, char out[32])
{
	size_t n = 1;

	if (at >= c->end)
		snprintf(out, 32, "the end");
	else if (*at == '\n')
		snprintf(out, 32, "the end of the line");
	else if ((unsigned char)*at < 0x20 || *at == 0x7f)
		snprintf(out, 32, "byte 0x%02x", (unsigned)(unsigned char)*at);
	else {
		while (n < 4 && at + n < c->end && ((unsigned char)at[n] & 0xc0) == 0x80)
			n++;
		if (str_valid_utf8(at, n))
			snprintf(out, 32, "'%.*s'", (int)n, at);
		else
			snprintf(out, 32, "byte 0x%02x", (unsigned)(unsigned char)*at);
	}
}

/* Columns count characters, from 1, as editors do. */
static int bad_at(const struct check *c, const char *at, const char *what)
{
	size_t line = 1, column = 1;
	char found[32];

	for (const char *p = c->start; p < at; p++) {
		if (*p == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)*p & 0xc0) != 0x80) {
			column++;
		}
	}
	describe(c, at, found);
	return err_set(c->e, ERR_INVALID, "line %zu column %zu: %s, found %s", line, column, what, found);
}

static int bad(const struct check *c, const char *what)
{
	return bad_at(c, c->p, what);
}

/* ---- the grammar ------------------------------------------------------------------------------- */

static void skip_space(struct check *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
		c->p++;
}

static int at(const struct check *c, char wanted)
{
	return c->p < c->end && *c->p == wanted;
}

static int at_digit(const struct check *c)
{
	return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

/* Four hex digits after "\u". */
static int check_hex(struct check *c, unsigned *out)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++, c->p++) {
		char ch = c->p < c->end ? *c->p : '\0';

		if (ch >= '0' && ch <= '9')
			v = v * 16 + (unsigned)(ch - '0');
		else if ((ch | 32) >= 'a' && (ch | 32) <= 'f')
			v = v * 16 + (unsigned)((ch | 32) - 'a' + 10);
		else
			return bad(c, "expected four hexadecimal digits after \\u");
	}
	*out = v;
	return 0;
}

static int check_escape(struct check *c)
{
	const char *start = c->p++;
	unsigned high, low;

	if (c->p < c->end && *c->p && strchr("\"\\/bfnrt", *c->p)) {
		c->p++;
		return 0;
	}
	if (!at(c, 'u'))
		return bad(c, "expected one of \" \\ / b f n r t u after a backslash");
	c->p++;
	if (check_hex(c, &high) < 0)
		return -1;
	if (high == 0)
		return bad_at(c, start, "\\u0000 is not allowed in a string");
	if (high >= 0xdc00 && high <= 0xdfff)
		return bad_at(c, start, "second half of a surrogate pair without the first");
	if (high < 0xd800 || high > 0xdbff)
		return 0;
	if (c->end - c->p < 2 || c->p[0] != '\\' || c->p[1] != 'u')
		return bad(c, "expected the second half of a surrogate pair");
	c->p += 2;
	if (check_hex(c, &low) < 0)
		return -1;
	if (low < 0xdc00 || low > 0xdfff)
		return bad_at(c, start, "broken surrogate pair");
	return 0;
}

static int check_string(struct check *c)
{
	const char *start = c->p++;

	while (c->p < c->end && *c->p != '"') {
		if ((unsigned char)*c->p < 0x20)
			return bad(c, "control characters in a string must be escaped");
		if (*c->p != '\\')
			c->p++;
		else if (check_escape(c) < 0)
			return -1;
	}
	if (c->p == c->end)
		return bad_at(c, start, "string without an end");
	c->p++;
	return 0;
}

static int check_digits(struct check *c)
{
	if (!at_digit(c))
		return bad(c, "expected a digit");
	while (at_digit(c))
		c->p++;
	return 0;
}

static int check_number(struct check *c)
{
	const char *start = c->p;
	int exponent = 0;
	char text[64];
	size_t n;

	if (at(c, '-'))
		c->p++;
	if (at(c, '0')) {
		c->p++;
		if (at_digit(c))
			return bad_at(c, start, "a number must not begin with 0");
	} else if (check_digits(c) < 0) {
		return -1;
	}
	if (at(c, '.')) {
		c->p++;
		if (check_digits(c) < 0)
			return -1;
	}
	if (at(c, 'e') || at(c, 'E')) {
		exponent = 1;
		c->p++;
		if (at(c, '+') || at(c, '-'))
			c->p++;
		if (check_digits(c) < 0)
			return -1;
	}
	n = (size_t)(c->p - start);
	if (n >= sizeof(text)) /* cJSON reads 63 characters of a number and would stop in its middle */
		return bad_at(c, start, "a number with more than 63 characters");
	if (!exponent) /* 63 digits are no infinity */
		return 0;
	memcpy(text, start, n);
	text[n] = '\0';
	if (!isfinite(strtod(text, NULL)))
		return bad_at(c, start, "a number out of range");
	return 0;
}

static int check_word(struct check *c)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(c->end - c->p) >= n && memcmp(c->p, words[i], n) == 0) {
			c->p += n;
			return 0;
		}
	}
	return bad(c, "expected a value");
}

static int check_value(struct check *c, int depth);

static int check_key(struct check *c)
{
	skip_space(c);
	if (!at(c, '"'))
		return bad(c, "expected a key in double quotes");
	if (check_string(c) < 0)
		return -1;
	skip_space(c);
	if (!at(c, ':'))
		return bad(c, "expected ':' after a key");
	c->p++;
	return 0;
}

/* An object or a list, from its opening bracket. */
static int check_members(struct check *c, int depth)
{
	const char close = *c->p == '{' ? '}' : ']';

	if (depth >= JSON_MAX_DEPTH)
		return bad(c, "nested too deeply");
	c->p++;
	skip_space(c);
	if (at(c, close)) {
		c->p++;
		return 0;
	}
	for (;; c->p++) {
		if ((close == '}' && check_key(c) < 0) || check_value(c, depth + 1) < 0)
			return -1;
		skip_space(c);
		if (at(c, close)) {
			c->p++;
			return 0;
		}
		if (!at(c, ','))
			return bad(c, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
	}
}

static int check_value(struct check *c, int depth)
{
	skip_space(c);
	if (c->p == c->end)
		return bad(c, "expected a value");
	if (*c->p == '{' || *c->p == '[')
		return check_members(c, depth);
	if (*c->p == '"')
		return check_string(c);
	if (*c->p == '-' || at_digit(c))
		return check_number(c);
	return check_word(c);
}

/* ---- duplicate keys ---------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#define FEW_KEYS 12

static int stands_twice(const char *key, struct err *e)
{
	return err_set(e, ERR_INVALID, "the key \"%.80s\" stands twice in one object", key);
}

/* Each with each: cheaper than to sort them, for as many as nearly all objects have. */
static int check_few_keys(const cJSON *obj, struct err *e)
{
	const cJSON *v, *w;

	cJSON_ArrayForEach (v, obj)
		for (w = v->next; w; w = w->next)
			if (strcmp(v->string, w->string) == 0)
				return stands_twice(v->string, e);
	return 0;
}

/* By sorting: a hash table could be filled with colliding keys on purpose. */
static int check_object_keys(const cJSON *obj, struct err *e)
{
	cleanup_free const char **keys = NULL;
	const cJSON *v;
	size_t n = 0;

	cJSON_ArrayForEach (v, obj) {
		n++;
	}
	if (n <= FEW_KEYS)
		return check_few_keys(obj, e);
	keys = xcalloc(n, sizeof(*keys));
	n = 0;
	cJSON_ArrayForEach (v, obj) {
		keys[n++] = v->string;
	}
	qsort(keys, n, sizeof(*keys), by_text);
	for (size_t i = 1; i < n; i++)
		if (strcmp(keys[i - 1], keys[i]) == 0)
			return stands_twice(keys[i], e);
	return 0;
}

static int check_keys(const cJSON *v, struct err *e)
{
	const cJSON *child;

	if (cJSON_IsObject(v) && check_object_keys(v, e) < 0)
		return -1;
	cJSON_ArrayForEach (child, v) {
		if (child->child && check_keys(child, e) < 0) {
			if (child->string)
				err_wrap(e, "%.80s", child->string);
			return -1;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------ */

static int check_text(const char *text, size_t n, struct err *e)
{
	struct check c = {.start = text, .p = text, .end = text + n, .e = e};

	if (check_value(&c, 0) < 0)
		return -1;
	skip_space(&c);
	if (c.p != c.end)
		return bad(&c, "expected nothing more");
	return 0;
}

/* Position of the first byte that is not UTF-8, so that the message can name it. */
static int check_utf8(const char *text, size_t n, struct err *e)
{
	struct check c = {.start = text, .p = text, .end = text + n, .e = e};
	size_t len;

	if (str_valid_utf8(text, n))
		return 0;
	for (; c.p < c.end; c.p += len) {
		for (len = 1; len <= 4 && c.p + len <= c.end && !str_valid_utf8(c.p, len); len++)
			continue;
		if (len > 4 || c.p + len > c.end)
			break;
	}
	return bad(&c, "not UTF-8");
}

cJSON *json_parse(const char *text, size_t n, struct err *e)
{
	cJSON *v;

	if (check_utf8(text, n, e) < 0 || check_text(text, n, e) < 0)
		return NULL;
	v = cJSON_ParseWithLength(text, n);
	if (!v) {
		err_set(e, ERR_INVALID, "not understood as JSON");
		return NULL;
	}
	if (check_keys(v, e) < 0) {
		cJSON_Delete(v);
		return NULL;
	}
	return v;
}
