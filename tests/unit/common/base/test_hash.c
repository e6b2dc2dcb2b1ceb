/* hash: known digests, pieces against the whole, randomness, comparison. */
#include "common/base/hash.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static const char empty_hex[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char abc_hex[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void test_digest(void)
{
	char hex[HASH_HEX_SIZE], whole[HASH_HEX_SIZE];
	uint8_t *data = xmalloc(200000);
	struct hash_ctx *h;
	int good = 1;

	hash_hex("", 0, hex);
	is_str(hex, empty_hex, "nothing");
	hash_hex(NULL, 0, hex);
	is_str(hex, empty_hex, "NULL");
	hash_hex("abc", 3, hex);
	is_str(hex, abc_hex, "abc (FIPS 180-4)");
	random_bytes(data, 200000);
	hash_hex(data, 200000, whole);
	for (size_t piece = 1; piece < 200000; piece = piece * 3 + 1) {
		h = hash_start();
		hash_add(h, data, 0);
		for (size_t at = 0; at < 200000; at += piece)
			hash_add(h, data + at, at + piece <= 200000 ? piece : 200000 - at);
		hash_end_hex(h, hex);
		good &= strcmp(hex, whole) == 0;
	}
	ok(good, "any pieces give the digest of the whole");
	free(data);
}

static void test_file(void)
{
	char path[4200], hex[HASH_HEX_SIZE] = "untouched";
	struct err e;

	snprintf(path, sizeof(path), "%s/f", tap_tmpdir());
	is_int(hash_file_hex(path, hex, &e), -1, "no file");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	is_int(hash_file_hex(tap_tmpdir(), hex, &e), -1, "a folder");
	is_str(hex, "untouched", "nothing written");
	fs_replace(path, "abc", 3, 0600, &e);
	is_int(hash_file_hex(path, hex, &e), 0, "a file");
	is_str(hex, abc_hex, "its digest");
}

static void test_hex(void)
{
	char s[HASH_HEX_SIZE];

	ok(hash_is_hex(abc_hex), "a digest");
	ok(!hash_is_hex("abc") && !hash_is_hex("") && !hash_is_hex(NULL), "too short");
	memcpy(s, abc_hex, sizeof(s));
	s[5] = 'A';
	ok(!hash_is_hex(s), "upper case");
	s[5] = '/';
	ok(!hash_is_hex(s), "a slash");
}

static void test_random(void)
{
	uint8_t a[32] = {0}, b[32] = {0};
	char text[80];
	int seen[256] = {0}, kinds = 0;
	uint8_t *big = xmalloc(3u << 20);

	random_bytes(a, sizeof(a));
	random_bytes(b, sizeof(b));
	ok(memcmp(a, b, sizeof(a)) != 0, "two draws differ");
	random_bytes(big, 3u << 20);
	for (size_t i = 0; i < 3u << 20; i++)
		seen[big[i]]++;
	for (int i = 0; i < 256; i++)
		kinds += seen[i] > 10000 && seen[i] < 14600; /* 12288 each; the bounds are 20 sigma away */
	is_int(kinds, 256, "all bytes about as often");
	free(big);
	for (size_t n = 0; n < 70; n++) {
		memset(text, '?', sizeof(text));
		random_hex(text, n);
		if (strlen(text) != n || strspn(text, "0123456789abcdef") != n || text[n + 1] != '?')
			break;
		if (n == 69)
			ok(1, "hex digits of every length, no byte more");
	}
}

int main(void)
{
	test_digest();
	test_file();
	test_hex();
	test_random();
	ok(const_time_equal("abc", "abc", 3) == 1 && const_time_equal("abc", "abd", 3) == 0 &&
	       const_time_equal("x", "y", 0) == 1,
	   "comparison");
	return tap_done();
}
