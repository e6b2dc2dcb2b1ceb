/* buf: round trips, limits, views; then every truncation and many flipped bytes of a good message. */
#include "common/base/buf.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static void test_round_trip(void)
{
	struct buf b;
	const uint8_t *p;
	uint8_t v8, raw[3];
	uint16_t v16;
	uint32_t v32, n;
	uint64_t v64;
	double f;
	char *s;

	buf_init(&b, 1000);
	is_int(buf_put_u8(&b, 0xab), 0, "put u8");
	is_int(buf_put_u16(&b, 0x1234), 0, "put u16");
	is_int(buf_put_u32(&b, 0xdeadbeef), 0, "put u32");
	is_int(buf_put_u64(&b, 0x0102030405060708ull), 0, "put u64");
	is_int(buf_put_f64(&b, -0.1), 0, "put f64");
	is_int(buf_put_bytes(&b, "a\0b", 3), 0, "put bytes");
	is_int(buf_put_str(&b, "text"), 0, "put str");
	is_int(buf_put_str(&b, NULL), 0, "put NULL str");
	is_int(buf_put(&b, "xyz", 3), 0, "put raw");
	is_int(b.data[1], 0x12, "big-endian");

	ok(buf_get_u8(&b, &v8) == 0 && v8 == 0xab, "get u8");
	ok(buf_get_u16(&b, &v16) == 0 && v16 == 0x1234, "get u16");
	ok(buf_get_u32(&b, &v32) == 0 && v32 == 0xdeadbeef, "get u32");
	ok(buf_get_u64(&b, &v64) == 0 && v64 == 0x0102030405060708ull, "get u64");
	ok(buf_get_f64(&b, &f) == 0 && f == -0.1, "get f64");
	ok(buf_get_bytes(&b, &p, &n, 3) == 0 && n == 3 && memcmp(p, "a\0b", 3) == 0, "get bytes");
	ok(buf_get_str(&b, &s, 4) == 0, "get str");
	is_str(s, "text", "its text");
	free(s);
	ok(buf_get_str(&b, &s, 0) == 0, "get empty str");
	is_str(s, "", "its text");
	free(s);
	ok(buf_get(&b, raw, 3) == 0 && memcmp(raw, "xyz", 3) == 0, "get raw");
	is_int(buf_left(&b), 0, "nothing left");
	is_int(buf_get_u8(&b, &v8), -1, "nothing more to get");
	buf_put_f64(&b, NAN);
	ok(buf_get_f64(&b, &f) == 0 && isnan(f), "NaN passes");
	buf_fini(&b);
}

static void test_limit(void)
{
	struct buf b;
	uint8_t *room, data[64] = {0};

	buf_init(&b, 10);
	is_int(buf_put(&b, data, 10), 0, "up to the limit");
	is_int(buf_put_u8(&b, 1), -1, "not over it");
	is_int(b.len, 10, "and it stays as it was");
	is_int(buf_skip(&b, 11), -1, "skip not past the end");
	is_int(buf_skip(&b, 4), 0, "skip");
	is_int(buf_put_u32(&b, 7), 0, "read bytes make room");
	is_int(buf_left(&b), 10, "ten unread bytes");
	is_int(buf_put(&b, data, SIZE_MAX), -1, "a size that wraps");
	is_int(buf_put_bytes(&b, data, SIZE_MAX), -1, "bytes of a size that wraps");
	is_int(buf_put_bytes(&b, data, SIZE_MAX - 3), -1, "bytes whose length field wraps");
	buf_reset(&b);
	is_int(buf_put_bytes(&b, data, 7), -1, "length and bytes together over the limit");
	is_int(b.len, 0, "no length left behind");
	is_int(buf_reserve(&b, 11, &room), -1, "reserve over the limit");
	is_int(buf_reserve(&b, 10, &room), 0, "reserve");
	memset(room, 5, 10);
	b.len += 10;
	is_int(buf_head(&b)[9], 5, "reserved bytes are the buffer's");
	buf_fini(&b);

	buf_init(&b, 0);
	is_int(buf_put_u8(&b, 1), -1, "limit 0 takes nothing");
	is_int(buf_put(&b, NULL, 0), 0, "but nothing fits");
	is_int(buf_reserve(&b, 0, &room), 0, "reserve nothing");
	ok(room, "not NULL");
	buf_fini(&b);

	buf_init(&b, 100000);
	for (int i = 0; i < 100000; i++)
		buf_put_u8(&b, (uint8_t)i);
	is_int(b.len, 100000, "grows to its limit");
	is_int(b.cap, 100000, "and not over it");
	buf_fini(&b);
}

static void test_view(void)
{
	struct buf b;
	uint16_t v;

	buf_view(&b, "\x01\x02", 2);
	is_int(buf_put_u8(&b, 1), -1, "a view is read-only");
	ok(buf_get_u16(&b, &v) == 0 && v == 0x0102, "and can be read");
	buf_fini(&b);
	buf_view(&b, NULL, 0);
	is_int(buf_get_u16(&b, &v), -1, "an empty view");
	buf_fini(&b);
}

static void test_refused(void)
{
	struct buf b;
	const uint8_t *p = NULL;
	uint32_t n = 77;
	char *s = NULL;

	buf_view(&b, "\0\0\0\5abcde", 9);
	is_int(buf_get_bytes(&b, &p, &n, 4), -1, "longer than max");
	is_int(b.pos, 0, "nothing moved");
	ok(!p && n == 77, "nothing written");
	is_int(buf_get_str(&b, &s, 5), 0, "as long as max");
	free(s);
	s = NULL;
	buf_view(&b, "\0\0\0\3a\0b", 7);
	is_int(buf_get_str(&b, &s, 5), -1, "a NUL inside");
	ok(b.pos == 0 && !s, "nothing moved");
	buf_view(&b, "\xff\xff\xff\xffxx", 6);
	is_int(buf_get_bytes(&b, &p, &n, UINT32_MAX), -1, "a length without its bytes");
	is_int(b.pos, 0, "nothing moved");
}

/* Reads the message of test_damage; each getter may fail, none may read outside (the sanitizers watch). */
static int read_all(struct buf *b)
{
	const uint8_t *p;
	uint64_t v64;
	uint32_t n, sum = 0;
	uint8_t v8;
	char *s;

	while (buf_left(b)) {
		size_t before = b->pos;

		if (buf_get_u8(b, &v8) < 0 || buf_get_u64(b, &v64) < 0 || buf_get_bytes(b, &p, &n, 1000) < 0)
			return -1;
		for (uint32_t i = 0; i < n; i++)
			sum += p[i];
		if (buf_get_str(b, &s, 50) < 0)
			return -1;
		sum += (uint32_t)strlen(s);
		free(s);
		if (b->pos <= before)
			return -2;
	}
	return sum == 0 ? -3 : 0;
}

static void test_damage(void)
{
	struct buf whole, view;
	int good = 1;

	buf_init(&whole, 4096);
	for (int i = 0; i < 5; i++) {
		buf_put_u8(&whole, (uint8_t)i);
		buf_put_u64(&whole, 1ull << i);
		buf_put_bytes(&whole, "some bytes of data", 18);
		buf_put_str(&whole, "a string");
	}
	view = whole;
	is_int(read_all(&view), 0, "the whole message is read");
	for (size_t n = 0; n < whole.len; n++) {
		uint8_t *copy = xmemdup(whole.data, n); /* of exactly that size, so that ASan sees its end */

		buf_view(&view, copy, n);
		good &= read_all(&view) == (n == 0 ? -3 : n % 43 == 0 ? 0 : -1); /* 43 bytes a record */
		free(copy);
	}
	ok(good, "every truncation is refused, at message bounds it is short");
	for (size_t i = 0; i < whole.len * 8; i++) {
		whole.data[i / 8] ^= (uint8_t)(1u << i % 8);
		buf_view(&view, whole.data, whole.len);
		good &= read_all(&view) != -2;
		whole.data[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	ok(good, "every flipped bit is survived");
	buf_fini(&whole);
}

int main(void)
{
	test_round_trip();
	test_limit();
	test_view();
	test_refused();
	test_damage();
	return tap_done();
}
