/* json: what is accepted, what is refused and where; getters; printing; damage of every byte. */
#include "common/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static cJSON *parse(const char *text, struct err *e)
{
	return json_parse(text, strlen(text), e);
}

static void test_good(void)
{
	static const struct {
		const char *text, *printed;
	} good[] = {
	    {"{}", "{}"},
	    {" [ ] \n", "[]"},
	    {"null", "null"},
	    {"\"x\"", "\"x\""},
	    {"-0", "0"},
	    {"[0, -1, 1.5, 1e3, 1E-2, 0.1, 123456789012345]", "[0,-1,1.5,1000,0.01,0.1,123456789012345]"},
	    {"1700000000000000", "1700000000000000"},
	    {"9007199254740992", "9007199254740992"},
	    {"1e300", "1e+300"},
	    {"{\"a\":{\"b\":[true,false,null]}}", "{\"a\":{\"b\":[true,false,null]}}"},
	    {"{\"a\":1,\"A\":2}", "{\"a\":1,\"A\":2}"},
	    {"\"\\u00e9\\ud83d\\ude00\\n\\/\\u001b\"", "\"\xc3\xa9\xf0\x9f\x98\x80\\n/\\u001b\""},
	    {"\"caf\xc3\xa9 \\\"q\\\" \\\\\"", "\"caf\xc3\xa9 \\\"q\\\" \\\\\""},
	};
	struct err e;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cJSON *v = parse(good[i].text, &e);
		char *text = v ? json_text(v) : NULL;

		if (!v)
			tap_diag("%s", e.text);
		is_str(text, good[i].printed, good[i].text);
		free(text);
		cJSON_Delete(v);
	}
}

static void test_bad(void)
{
	static const struct {
		const char *text, *message;
	} bad[] = {
	    {"", "line 1 column 1: expected a value, found the end"},
	    {"  \n ", "line 2 column 2: expected a value, found the end"},
	    {"{\"a\":1,}", "line 1 column 8: expected a key in double quotes, found '}'"},
	    {"{\n  \"a\": 1\n  \"b\": 2}", "line 3 column 3: expected ',' or '}', found '\"'"},
	    {"{'a':1}", "line 1 column 2: expected a key in double quotes, found '''"},
	    {"{a:1}", "expected a key in double quotes, found 'a'"},
	    {"{\"a\" 1}", "line 1 column 6: expected ':' after a key, found '1'"},
	    {"{\"a\":}", "expected a value, found '}'"},
	    {"[1,]", "line 1 column 4: expected a value, found ']'"},
	    {"[1 2]", "expected ',' or ']', found '2'"},
	    {"[1", "expected ',' or ']', found the end"},
	    {"{\"a\":1", "expected ',' or '}', found the end"},
	    {"[1]]", "line 1 column 4: expected nothing more, found ']'"},
	    {"{} x", "line 1 column 4: expected nothing more, found 'x'"},
	    {"01", "line 1 column 1: a number must not begin with 0"},
	    {"-", "expected a digit, found the end"},
	    {"1.", "expected a digit, found the end"},
	    {".5", "expected a value, found '.'"},
	    {"+1", "expected a value, found '+'"},
	    {"1e", "expected a digit"},
	    {"1e+", "expected a digit"},
	    {"1e999", "a number out of range"},
	    {"-1e999", "a number out of range"},
	    {"0x10", "expected nothing more, found 'x'"},
	    {"NaN", "expected a value, found 'N'"},
	    {"Infinity", "expected a value"},
	    {"-Infinity", "expected a digit"},
	    {"True", "expected a value"},
	    {"nul", "expected a value"},
	    {"nulll", "expected nothing more"},
	    {"\"abc", "line 1 column 1: string without an end"},
	    {"\"a\nb\"",
	     "line 1 column 3: control characters in a string must be escaped, found the end of the line"},
	    {"\"a\x01\"", "control characters in a string must be escaped, found byte 0x01"},
	    {"\"\\x41\"", "after a backslash, found 'x'"},
	    {"\"\\", "after a backslash, found the end"},
	    {"\"\\u12g4\"", "expected four hexadecimal digits after \\u, found 'g'"},
	    {"\"\\u12", "expected four hexadecimal digits after \\u, found the end"},
	    {"\"a\\u0000\"", "line 1 column 3: \\u0000 is not allowed in a string"},
	    {"\"\\ud800\"", "expected the second half of a surrogate pair"},
	    {"\"\\ud800\\u0041\"", "broken surrogate pair"},
	    {"\"\\udc00\"", "second half of a surrogate pair without the first"},
	    {"\"caf\xc3\"", "line 1 column 5: not UTF-8, found byte 0xc3"},
	    {"\"\xc3\xa9\x80\"", "line 1 column 3: not UTF-8, found byte 0x80"},
	    {"\xef\xbb\xbf{}", "line 1 column 1: expected a value"},
	    {"// c\n{}", "expected a value, found '/'"},
	    {"{\"a\":1,\"a\":2}", "the key \"a\" stands twice in one object"},
	    {"{\"x\":{\"a\":1,\"\\u0061\":2}}", "x: the key \"a\" stands twice in one object"},
	    {"111111111111111111111111111111111111111111111111111111111111111111", "more than 63 characters"},
	    {"[\"\xc3\xa9\", x]", "line 1 column 7: expected a value, found 'x'"},
	};
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cJSON *v = parse(bad[i].text, &e);

		ok(!v && e.code == ERR_INVALID, "refused (%zu)", i);
		like(v ? "accepted" : e.text, bad[i].message, bad[i].message);
		cJSON_Delete(v);
	}
	ok(!json_parse("{}\0", 3, &e), "a NUL after the end");
	ok(!json_parse("[1,\0 2]", 7, &e), "a NUL inside");
	ok(!json_parse("\"a\0b\"", 5, &e), "a NUL in a string");
}

static void test_depth(void)
{
	char text[2 * 100000 + 1];
	struct err e;
	cJSON *v;

	memset(text, '[', JSON_MAX_DEPTH);
	memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
	v = json_parse(text, 2 * JSON_MAX_DEPTH, &e);
	ok(v, "as deep as allowed");
	cJSON_Delete(v);
	memset(text, '[', 100000);
	memset(text + 100000, ']', 100000);
	ok(!json_parse(text, 200000, &e), "far too deep");
	like(e.text, "line 1 column 65: nested too deeply", "with its place");
}

static void test_getters(void)
{
	const char *s = "default";
	const cJSON *sub = NULL;
	int64_t n = 5;
	double f = 0.5;
	int b = 7;
	struct err e;
	cJSON *v = parse(
	    "{\"s\":\"x\",\"n\":12,\"big\":1e16,\"half\":1.5,\"b\":true,\"o\":{},\"l\":[1],\"z\":null}", &e);

	ok(json_get_str(v, "", "s", &s, &e) == 0 && strcmp(s, "x") == 0, "string");
	ok(json_get_str(v, "", "none", &s, &e) == 0 && strcmp(s, "x") == 0, "missing keeps");
	ok(json_get_str(v, "", "z", &s, &e) == 0 && strcmp(s, "x") == 0, "null keeps");
	ok(json_get_i64(v, "", "n", 0, 100, &n, &e) == 0 && n == 12, "whole number");
	ok(json_get_f64(v, "", "half", &f, &e) == 0 && f == 1.5, "number");
	ok(json_get_bool(v, "", "b", &b, &e) == 0 && b == 1, "bool");
	ok(json_get_obj(v, "", "o", &sub, &e) == 0 && cJSON_IsObject(sub), "object");
	ok(json_get_arr(v, "", "l", &sub, &e) == 0 && cJSON_IsArray(sub), "list");

	is_int(json_get_i64(v, "resources", "s", 0, 9, &n, &e), -1, "wrong type");
	is_str(e.text, "resources.s: expected a whole number, got a string", "names path and types");
	is_int(json_get_str(v, "", "n", &s, &e), -1, "wrong type at the root");
	is_str(e.text, "n: expected a string, got a number", "without a dot");
	is_int(json_get_i64(v, "", "n", 13, 20, &n, &e), -1, "too small");
	is_str(e.text, "n: 12 is less than 13", "says so");
	is_int(json_get_i64(v, "", "n", 0, 11, &n, &e), -1, "too large");
	is_str(e.text, "n: 12 is more than 11", "says so");
	is_int(json_get_i64(v, "", "half", 0, 11, &n, &e), -1, "not whole");
	is_str(e.text, "half: expected a whole number, got 1.5", "says so");
	is_int(json_get_i64(v, "", "big", 0, INT64_MAX, &n, &e), -1, "beyond 2^53");
	is_int(n, 12, "a failed getter writes nothing");
	is_int(json_get_bool(v, "", "n", &b, &e), -1, "1 is not true");
	is_int(json_get_obj(v, "", "l", &sub, &e), -1, "a list is no object");
	is_str(e.text, "l: expected an object, got a list", "says so");
	is_int(json_get_arr(v, "a.b", "o", &sub, &e), -1, "an object is no list");
	is_str(e.text, "a.b.o: expected a list, got an object", "says so");
	is_int(json_get_f64(v, "", "b", &f, &e), -1, "true is no number");
	cJSON_Delete(v);
}

static void test_keys(void)
{
	static const char *const known[] = {"instances", "environment", NULL};
	struct err e;
	cJSON *v = parse("{\"instances\":1,\"enviroment\":{}}", &e), *w = parse("{\"a\\u001b[31m\":1}", &e);

	is_int(json_check_keys(v, "resources", known, &e), -1, "unknown key");
	is_str(e.text, "resources: unknown key \"enviroment\", did you mean \"environment\"?",
	       "nearest is named");
	is_int(json_check_keys(w, "", known, &e), -1, "unknown key at the root");
	is_str(e.text, "unknown key \"a?[31m\"", "no control bytes in the message");
	cJSON_DeleteItemFromObject(v, "enviroment");
	is_int(json_check_keys(v, "", known, &e), 0, "known keys");
	cJSON_Delete(v);
	cJSON_Delete(w);
}

static void test_print(void)
{
	cJSON *v = cJSON_CreateObject();
	char *text;
	double same[] = {0.1, 1.0 / 3, 1e-300, 2.5e17, -123.456, 5e-324};
	struct err e;
	int good = 1;

	json_add_u64(v, "small", 1ull << 53);
	json_add_u64(v, "big", UINT64_MAX);
	json_add_time(v, "at", 1767323045678901ull);
	json_add_time(v, "never", 0);
	json_add_str(v, "none", NULL);
	json_add_str(v, "bytes", "a\xff\x1b\x7f\xc3");
	cJSON_AddNumberToObject(v, "nan", NAN);
	cJSON_AddNumberToObject(v, "inf", INFINITY);
	text = json_text(v);
	is_str(
	    text,
	    "{\"small\":9007199254740992,\"big\":\"18446744073709551615\",\"at\":\"2026-01-02T03:04:05.678901Z\","
	    "\"never\":null,\"none\":null,\"bytes\":\"a\xef\xbf\xbd\\u001b\\u007f\xef\xbf\xbd\",\"nan\":null,"
	    "\"inf\":null}",
	    "exact numbers, times, nulls, valid UTF-8 whatever comes");
	free(text);
	cJSON_Delete(v);

	v = parse("{\"a\":[1,{}],\"b\":{\"c\":[]}}", &e);
	text = json_text_pretty(v);
	is_str(text, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}", "pretty");
	free(text);
	cJSON_Delete(v);

	v = cJSON_Parse("[\"a\", 1, \"b c\", null]");
	text = json_join(v, ", ");
	is_str(text, "a, b c", "the strings of a list, joined");
	free(text);
	text = json_join(NULL, ", ");
	is_str(text, "", "of no list: nothing");
	free(text);
	cJSON_Delete(v);

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		v = cJSON_CreateNumber(same[i]);
		text = json_text(v);
		good &= strtod(text, NULL) == same[i];
		free(text);
		cJSON_Delete(v);
	}
	ok(good, "numbers read back the same");
}

/* What is accepted after damage must print, and its print must be accepted and print the same. */
static int stable(const char *text, size_t n)
{
	struct err e = {0};
	cJSON *v = json_parse(text, n, &e), *again;
	char *one, *two;
	int good;

	if (!v)
		return e.code == ERR_INVALID && strncmp(e.text, "", 1) != 0 && str_valid_utf8(e.text, strlen(e.text));
	one = json_text(v);
	again = json_parse(one, strlen(one), &e);
	two = again ? json_text(again) : xstrdup("?");
	good = strcmp(one, two) == 0;
	if (!good)
		tap_diag("%s\n# %s", one, two);
	free(one);
	free(two);
	cJSON_Delete(v);
	cJSON_Delete(again);
	return good;
}

static void test_damage(void)
{
	static const char text[] =
	    "{\"name\": \"caf\xc3\xa9 \\u00e9\\ud83d\\ude00 \\\"x\\\"\", \"list\": [1, -2.5e-3, true, "
	    "null, {\"a\": {}, \"b\": []}],\n \"last\": 0}";
	const size_t n = sizeof(text) - 1;
	int good = 1;

	for (size_t i = 0; i <= n; i++) {
		char *copy = xmemdup(text, i); /* exactly i bytes and no NUL: ASan sees a read past them */

		good &= stable(copy, i);
		free(copy);
	}
	ok(good, "every truncation");
	for (size_t i = 0; i < n; i++) {
		char *copy = xmemdup(text, n);

		for (int c = 0; c < 256; c++) {
			copy[i] = (char)c;
			good &= stable(copy, n);
		}
		free(copy);
	}
	ok(good, "every byte replaced by every other");
	for (size_t i = 0; i + 1 < n; i++) {
		char *copy = xmemdup(text, n);

		memmove(copy + i, copy + i + 1, n - i - 1);
		good &= stable(copy, n - 1);
		free(copy);
	}
	ok(good, "every byte left out");
}

/* Reading back what was written: what is not as it should be counts as missing. */
static void test_defaults(void)
{
	static const char text[] =
	    "{\"n\": 7, \"zero\": 0, \"less\": -1, \"most\": 9007199254740992, \"more\": 9007199254740994,"
	    "\"huge\": 1e300, \"text\": \"7\", \"list\": [7], \"null\": null}";
	static const char *const none[] = {"less", "more", "huge", "text", "list", "null", "missing"};
	cJSON *o = cJSON_Parse(text);

	is_int(json_whole(o, "n", 3), 7, "a number");
	is_int(json_whole(o, "zero", 3), 0, "zero is one");
	is_int(json_whole(o, "most", 3), 9007199254740992, "the greatest");
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		is_int(json_whole(o, none[i], 3), 3, none[i]);
	is_int(json_whole(NULL, "n", 3), 3, "of nothing");
	is_str(json_str_or(o, "text", "d"), "7", "a text");
	is_str(json_str_or(o, "n", "d"), "d", "a number is no text");
	is_str(json_str_or(NULL, "text", NULL), NULL, "of nothing");
	cJSON_Delete(o);
}

int main(void)
{
	test_defaults();
	test_good();
	test_bad();
	test_depth();
	test_getters();
	test_keys();
	test_print();
	test_damage();
	return tap_done();
}
