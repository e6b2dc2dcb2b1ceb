/* strutil: sizes, durations, names, nearest word, UTF-8, paths, hex. */
#include "common/base/strutil.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/tap.h"

static void test_size(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {{"0", 0},
	            {"1024", 1024},
	            {"7B", 7},
	            {"8GiB", 8ull << 30},
	            {"512M", 512ull << 20},
	            {"1.5TB", 1500000000000ull},
	            {"1.5K", 1536},
	            {"2k", 2048},
	            {"3Ki", 3072},
	            {"0.000000001GB", 1},
	            {"1.9999999999999999999999KB", 1999},
	            {"18446744073709551615", UINT64_MAX},
	            {"16383P", 16383ull << 50}};
	static const char *const bad[] = {"",
	                                  "x",
	                                  "-1",
	                                  "1.5",
	                                  "1.5B",
	                                  "1.",
	                                  "1.G",
	                                  ".5G",
	                                  "1 G",
	                                  "1GG",
	                                  "GiB",
	                                  "1GiX",
	                                  "1e9",
	                                  "+1",
	                                  " 1",
	                                  "1X",
	                                  "0x10",
	                                  "16384P",
	                                  "1Gi ",
	                                  "18446744073709551616",
	                                  "99999999999999999999999G"};
	uint64_t v;
	struct err e;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		v = 12345;
		ok(str_parse_size(good[i].text, &v, &e) == 0 && v == good[i].bytes, "size %s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		v = 12345;
		e.code = ERR_NONE;
		ok(str_parse_size(bad[i], &v, &e) == -1 && v == 12345 && e.code == ERR_INVALID, "no size: '%s'",
		   bad[i]);
	}
}

static void test_size_text(void)
{
	char s[32];
	uint64_t back;
	int good = 1;

	is_str(str_size(0, s, sizeof(s)), "0B", "nothing");
	is_str(str_size(1023, s, sizeof(s)), "1023B", "bytes");
	is_str(str_size(1536, s, sizeof(s)), "1.5KiB", "KiB");
	is_str(str_size(8ull << 30, s, sizeof(s)), "8.0GiB", "GiB");
	is_str(str_size((1ull << 20) - 1, s, sizeof(s)), "1.0MiB", "never 1024.0KiB");
	is_str(str_size(UINT64_MAX, s, sizeof(s)), "16.0EiB", "the largest");
	for (uint64_t v = 1; v < 1ull << 50; v = v * 3 + 1) {
		str_size(v, s, sizeof(s));
		good &= str_parse_size(s, &back, NULL) == 0 && back <= v + v / 16 && back + back / 16 + 1 >= v;
	}
	ok(good, "what is printed can be read");
}

static void test_money(void)
{
	static const struct {
		double n;
		const char *text;
	} all[] = {{0, "0.00"},
	           {12.4, "12.40"},
	           {1, "1.00"},
	           {0.5, "0.50"},
	           {0.05, "0.05"},
	           {0.333333, "0.33"},
	           {0.0123, "0.0123"},
	           {0.000123, "0.000123"},
	           {0.0000004, "0.00"},
	           {0.00312, "0.0031"},
	           {0.000001, "0.000001"},
	           {-0.004, "-0.004"},
	           {123456.789, "123456.79"}};
	char out[40];

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		is_str(str_amount(all[i].n, out, sizeof(out)), all[i].text, "as much of it as one can read");
}

static void test_duration(void)
{
	static const struct {
		const char *text;
		uint64_t seconds;
	} good[] = {{"0", 0},       {"90", 90},      {"90s", 90},         {"5m", 300},    {"2h", 7200},
	            {"7d", 604800}, {"1h30m", 5400}, {"1d2h3m4s", 93784}, {"1d1s", 86401}};
	static const char *const bad[] = {"",
	                                  "h",
	                                  "1h30",
	                                  "1m1h",
	                                  "1h1h",
	                                  "-1s",
	                                  "1.5h",
	                                  "1 h",
	                                  "1H",
	                                  "1ms",
	                                  "1w",
	                                  "1s ",
	                                  "99999999999999999999s",
	                                  "213503982334602d"};
	char s[64];
	uint64_t v, back;
	struct err e;
	int same = 1;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ok(str_parse_duration(good[i].text, &v, &e) == 0 && v == good[i].seconds, "duration %s",
		   good[i].text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		v = 12345;
		ok(str_parse_duration(bad[i], &v, &e) == -1 && v == 12345, "no duration: '%s'", bad[i]);
	}
	is_str(str_duration(0, s, sizeof(s)), "0s", "zero");
	is_str(str_duration(5400, s, sizeof(s)), "1h30m", "1h30m");
	is_str(str_duration(93784, s, sizeof(s)), "1d2h3m4s", "all units");
	for (v = 1; v < 1ull << 60; v = v * 3 + 1)
		same &= str_parse_duration(str_duration(v, s, sizeof(s)), &back, NULL) == 0 && back == v;
	ok(same, "what is printed can be read");
	str_duration(93784, s, 4);
	ok(strlen(s) < 4, "a small buffer is not overrun");
}

static void test_u64(void)
{
	uint64_t v = 5;

	ok(str_parse_u64("18446744073709551615", &v) == 0 && v == UINT64_MAX, "the largest");
	ok(str_parse_u64("007", &v) == 0 && v == 7, "leading zeros");
	is_int(str_parse_u64("18446744073709551616", &v), -1, "one more");
	is_int(str_parse_u64("", &v), -1, "empty");
	is_int(str_parse_u64("1x", &v), -1, "rest");
	is_int(str_parse_u64(" 1", &v), -1, "blank");
	is_int(v, 7, "nothing written");
}

static void test_nearest(void)
{
	static const char *const known[] = {"instances", "environment", "hyperparameters", "id", "name", NULL};
	char longest[200];

	is_str(str_nearest("instnaces", known), "instances", "swapped letters");
	is_str(str_nearest("nmae", known), "name", "a swap is one edit");
	is_str(str_nearest("enviroment", known), "environment", "left out");
	is_str(str_nearest("hyper_parameters", known), "hyperparameters", "one too many");
	is_str(str_nearest("name", known), "name", "itself");
	is_str(str_nearest("zzzzzz", known), NULL, "nothing near");
	is_str(str_nearest("x", known), NULL, "one letter is like nothing");
	is_str(str_nearest("", known), NULL, "empty");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	is_str(str_nearest(longest, known), NULL, "very long");
}

static void test_name(void)
{
	static const char *const good[] = {"a", "A1", "my-job_2.x", "0", "a.b.c", "abcdefghij"};
	static const char *const bad[] = {"",    ".a",   "-a",       "_a",    "a/b", "../x",       "a..b",
	                                  "a b", "a\nb", "\xc3\xa9", "a\x1b", "a$",  "abcdefghijk"};
	struct err e;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ok(str_check_name(good[i], 10, "name", &e) == 0, "name %s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e.text[0] = '\0';
		ok(str_check_name(bad[i], 10, "job name", &e) == -1 && strncmp(e.text, "job name", 8) == 0 &&
		       !str_has_control(e.text),
		   "no name: %zu", i);
	}
	is_int(str_check_name(NULL, 10, "name", &e), -1, "NULL");
}

static void test_utf8(void)
{
	static const char *const bad[] = {"\x80",
	                                  "\xc3",
	                                  "\xc0\xaf",
	                                  "\xc1\xbf",
	                                  "\xe0\x80\xaf",
	                                  "\xed\xa0\x80",
	                                  "\xf0\x80\x80\xaf",
	                                  "\xf4\x90\x80\x80",
	                                  "\xf5\x80\x80\x80",
	                                  "\xe2\x82",
	                                  "\xff",
	                                  "a\xc3(",
	                                  "\xf0\x9f\x98"};
	int good = 1;

	ok(str_valid_utf8("plain", 5), "ASCII");
	ok(str_valid_utf8("", 0), "empty");
	ok(str_valid_utf8("a\0b", 3), "NUL is a character");
	ok(str_valid_utf8("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf", 16),
	   "2, 3, 4 bytes");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		good &= !str_valid_utf8(bad[i], strlen(bad[i]));
	ok(good, "overlong, surrogates, cut and stray bytes are refused");
}

static void test_rest(void)
{
	static const char *const safe[] = {"a", "a/b", "...", "a/..b", ".hidden/x", "a b"};
	static const char *const unsafe[] = {"",     "/a",   "a/", "a//b",  "..",  "a/../b",
	                                     "../a", "a/..", ".",  "a/./b", "a\nb"};
	uint8_t raw[3] = {0x00, 0xab, 0xff}, back[3] = {0};
	char hex[7];
	int good = 1;

	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		ok(str_safe_relpath(safe[i]), "safe path %s", safe[i]);
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
		good &= !str_safe_relpath(unsafe[i]);
	ok(good && !str_safe_relpath(NULL), "unsafe paths");
	str_hex(raw, 3, hex);
	is_str(hex, "00abff", "hex");
	ok(str_unhex(hex, back, 3) == 0 && memcmp(raw, back, 3) == 0, "unhex");
	ok(str_unhex("00ABFF", back, 3) < 0 && str_unhex("00ab", back, 3) < 0 &&
	       str_unhex("00abff0", back, 3) < 0 && str_unhex("00abfg", back, 3) < 0,
	   "unhex refuses");
	ok(str_has_control("a\tb") && str_has_control("\x7f") && !str_has_control("caf\xc3\xa9"),
	   "control bytes");
}

int main(void)
{
	test_size();
	test_size_text();
	test_money();
	test_duration();
	test_u64();
	test_nearest();
	test_name();
	test_utf8();
	test_rest();
	return tap_done();
}
