/*
 * Memory of outside size: what other programs send says how large it is, and memory is taken by what has
 * come, never by what is said. Allocation aborts when it fails (common/base/xalloc.h), so a length that lies
 * must not reach it: here every allocation of the readers is counted (the linker puts them behind counters),
 * for bytes by chance whose lengths and counts lie.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/net/wire.h"
#include "common/spec/spec.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"

#define BODY_MOST 512
#define TRIES     400 /* bodies of each type */

static uint64_t rng = 0x9e3779b97f4a7c15u;
static size_t taken, requests; /* bytes asked for, and how often */
static uint64_t refuse_at;     /* a request above this is a finding of its own: it is not made */

void *__real_xmalloc(size_t n);
void *__real_xcalloc(size_t n, size_t size);
void *__real_xrealloc(void *p, size_t n);
void *__real_xreallocarray(void *p, size_t n, size_t size);
char *__real_xstrndup(const char *s, size_t n);
void *__real_xmemdup(const void *p, size_t n);
void *__wrap_xmalloc(size_t n);
void *__wrap_xcalloc(size_t n, size_t size);
void *__wrap_xrealloc(void *p, size_t n);
void *__wrap_xreallocarray(void *p, size_t n, size_t size);
char *__wrap_xstrndup(const char *s, size_t n);
void *__wrap_xmemdup(const void *p, size_t n);

static void count(size_t n)
{
	taken += n;
	requests++;
	if (refuse_at && n > refuse_at)
		tap_bail("%zu bytes are asked for at once, for an input of at most %d", n, BODY_MOST);
}

void *__wrap_xmalloc(size_t n)
{
	count(n);
	return __real_xmalloc(n);
}

void *__wrap_xcalloc(size_t n, size_t size)
{
	count(size && n > SIZE_MAX / size ? SIZE_MAX : n * size);
	return __real_xcalloc(n, size);
}

void *__wrap_xrealloc(void *p, size_t n)
{
	count(n);
	return __real_xrealloc(p, n);
}

void *__wrap_xreallocarray(void *p, size_t n, size_t size)
{
	count(size && n > SIZE_MAX / size ? SIZE_MAX : n * size);
	return __real_xreallocarray(p, n, size);
}

char *__wrap_xstrndup(const char *s, size_t n)
{
	count(strnlen(s, n) + 1);
	return __real_xstrndup(s, n);
}

void *__wrap_xmemdup(const void *p, size_t n)
{
	count(n);
	return __real_xmemdup(p, n);
}

static void *cjson_malloc(size_t n)
{
	return xmalloc(n);
}

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 33) % n;
}

/* ---- frames --------------------------------------------------------------------------------------- */

/* Numbers that a length is read from: small ones, all sizes up to the limits, beyond them, and all bits. */
static uint32_t lie(size_t left)
{
	static const uint32_t lies[] = {UINT32_MAX,   1u << 31,      WIRE_MAX_ITEMS, WIRE_MAX_ITEMS + 1,
	                                WIRE_MAX_STR, WIRE_MAX_BODY, 1u << 16};

	switch (rnd(3)) {
	case 0:
		return lies[rnd(sizeof(lies) / sizeof(lies[0]))];
	case 1:
		return (uint32_t)left / (1 + rnd(8)) + rnd(3);
	default:
		return 1u << rnd(32);
	}
}

/* Zeros (empty strings and vectors, so that what comes behind them is read, too) with a few lies, anywhere.
 */
static size_t body_of_lies(uint8_t *body)
{
	size_t n = rnd(BODY_MOST + 1);

	memset(body, 0, n);
	for (unsigned lies = rnd(4); lies && n >= 4; lies--) {
		size_t at = rnd((uint32_t)(rnd(2) ? n : n < 64 ? n : 64) - 3);
		uint32_t v = lie(n - at - 4);

		for (size_t i = 0; i < 4; i++)
			body[at + i] = (uint8_t)(v >> (24 - 8 * i));
	}
	return n;
}

static void test_frames(void)
{
	unsigned types = 0, deep = 0, tries = 0, over = 0;
	size_t most = 0;
	uint8_t body[BODY_MOST + 1];

	for (unsigned type = 0; type < 65536; type++) {
		if (strcmp(wire_name((uint16_t)type), "?") == 0)
			continue;
		types++;
		for (int i = 0; i < TRIES; i++) {
			size_t n = body_of_lies(body);
			struct err e;
			void *msg;

			taken = requests = 0;
			refuse_at = 1u << 20;
			if (wire_decode((uint16_t)type, body, n, &msg, &e) == 0)
				wire_free((uint16_t)type, msg);
			refuse_at = 0;
			tries++;
			deep += requests > 3;
			most = taken > most ? taken : most;
			/* A pointer for each four bytes, an empty string (of at least a byte) behind each, and the
			 * message itself. */
			over += taken > 8 * n + 4096;
		}
	}
	ok(types > 30, "%u types of messages", types);
	ok(deep > tries / 20, "%u of %u bodies are read beyond their first fields", deep, tries);
	is_int(over, 0, "none takes more memory than what came allows");
	ok(most < 16384, "the most was %zu bytes, for bodies of %d", most, BODY_MOST);
}

/* A frame that says that it is large: nothing is taken for it while it has not come. */
static void test_header(void)
{
	uint8_t header[WIRE_HEADER_SIZE] = {0};
	struct buf in;
	struct wire_frame f;
	struct err e;

	header[0] = (uint8_t)(WIRE_MAX_BODY >> 24);
	header[1] = (uint8_t)(WIRE_MAX_BODY >> 16);
	header[5] = 0;
	for (unsigned type = 1; type < 200; type++) {
		header[5] = (uint8_t)type;
		buf_init(&in, 2 * WIRE_HEADER_SIZE);
		buf_put(&in, header, sizeof(header));
		taken = 0;
		(void)wire_next(&in, &f, &e);
		if (taken)
			break;
		buf_fini(&in);
	}
	is_int((int64_t)taken, 0, "a header alone takes no memory, whatever it says");
}

#define H "hearth-tree 1\n"
#define D "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* ---- text ----------------------------------------------------------------------------------------- */

static size_t text_by_chance(char *text, size_t most)
{
	static const char *const parts[] = {"{",
	                                    "}",
	                                    "[",
	                                    "]",
	                                    ",",
	                                    ":",
	                                    "\"a\"",
	                                    "\"resources\"",
	                                    "\"instances\"",
	                                    "4294967295",
	                                    "1e308",
	                                    "\"\\u0041\"",
	                                    "null",
	                                    "-1",
	                                    "\"command\"",
	                                    "\"sweep\"",
	                                    "\"count\"",
	                                    "10000",
	                                    " "};
	size_t n = 0;

	while (n + 16 < most && rnd(200)) {
		const char *p = parts[rnd(sizeof(parts) / sizeof(parts[0]))];

		memcpy(text + n, p, strlen(p));
		n += strlen(p);
	}
	text[n] = '\0';
	return n;
}

/* Whole texts with as many values as their bytes can be, and others that are none. */
static size_t text_of_kind(int kind, char *text, size_t most)
{
	static const char *const dense[] = {"0", "[]", "{}", "\"\""};
	size_t n = 1, to = rnd((uint32_t)most - 80);

	if (kind == 0)
		return text_by_chance(text, most);
	if (kind == 1) {
		n = 1 + rnd(500);
		memset(text, '[', n);
		text[n] = '\0';
		return n;
	}
	text[0] = '[';
	while (n < to)
		n += (size_t)snprintf(text + n, most - n, "%s,", dense[rnd(4)]);
	return n + (size_t)snprintf(text + n, most - n, "0]");
}

static void test_json(void)
{
	cJSON_Hooks counted = {.malloc_fn = cjson_malloc, .free_fn = free};
	size_t over = 0, parsed = 0, most = 0;
	char text[2048];

	cJSON_InitHooks(&counted);
	for (int i = 0; i < 4000; i++) {
		size_t n = text_of_kind(i % 4, text, sizeof(text));
		struct job_spec *spec;
		struct err e;
		cJSON *v;

		taken = 0;
		v = json_parse(text, n, &e);
		parsed += v != NULL;
		cJSON_Delete(v);
		most = n && taken / n > most ? taken / n : most;
		over += taken > 128 * n + 4096;
		taken = 0;
		spec = spec_parse(text, n, &e);
		spec_destroy(spec);
		over += taken > 512 * n + 65536;
	}
	cJSON_InitHooks(NULL);
	ok(parsed > 1000 && most > 8, "%zu texts are read, with up to %zu bytes of memory a byte", parsed, most);
	is_int((int64_t)over, 0, "no text takes more memory than its length allows");
}

static void test_manifests(void)
{
	static const char *const lies[] = {
	    H "f 644 4194304 a " D ":0:4194304\n",
	    H "f 644 9223372036854775807 a " D ":0:9223372036854775807\n",
	    H "f 644 18446744073709551615 a " D ":0:4194304\n",
	    H "f 644 4294967296 a " D ":0:4194304," D ":4194304:4290772992\n",
	};
	size_t over = 0;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct tree_stats st;
		size_t count_of = 0;
		struct err e;
		char **v = NULL;

		taken = requests = 0;
		(void)tree_measure(lies[i], strlen(lies[i]), &st, &e);
		if (tree_chunks(lies[i], strlen(lies[i]), &v, &count_of, &e) == 0) {
			for (size_t k = 0; k < count_of; k++)
				free(v[k]);
			free(v);
		}
		over += taken > 65536;
	}
	is_int((int64_t)over, 0, "a manifest of large files takes no memory for them");
}

int main(void)
{
	test_frames();
	test_header();
	test_json();
	test_manifests();
	return tap_done();
}
