/*
 * test_wire_fields: the code of wire.c with a table of its own, in which fields and messages came with later
 * versions. The real table has such fields only at times.
 */
#define HEARTH_COMMON_NET_WIRE_MSG_H
#include "common/net/wire.h"

#define WM_ONE_F(F) F(U32, a) F(STR, middle, 3) F(U32, b) F(STRV, words, 5) F(SHARED, tail)
#define WM_TWO_F(F) F(U64, x)
#define WM_FIX_F(F) F(U32, a) F(U64, b, 4)
#define WIRE_MESSAGES(M)                                                                                     \
	M(1, ONE, one, WIRE_FROM_AGENT, WIRE_CONTROL, 2)                                                         \
	M(2, TWO, two, WIRE_FROM_AGENT, WIRE_CONTROL, 4)                                                         \
	M(3, FIX, fix, WIRE_FROM_AGENT, WIRE_CONTROL, WIRE_EVER)
enum { WM_ONE = 1, WM_TWO = 2, WM_FIX = 3 };
#define WIRE_SINCE(...) (__VA_ARGS__ + 0u)
struct wm_one {
	uint32_t a;
	char *middle;
	uint32_t b;
	struct wire_strv words;
	struct wire_shared *tail;
};
struct wm_two {
	uint64_t x;
};
struct wm_fix {
	uint32_t a;
	uint64_t b;
};

#include "common/net/wire.c" /* NOLINT: with this table */

#include "tests/lib/tap.h"

static size_t body_size(unsigned version, const struct wm_one *m)
{
	struct buf b;
	size_t n;

	buf_init(&b, 1 << 16);
	ok(wire_encode_at(version, WM_ONE, m, 1, &b, NULL) == 0, "version %u is encoded", version);
	n = buf_left(&b) - WIRE_HEADER_SIZE;
	buf_fini(&b);
	return n;
}

static struct wm_one *through(unsigned version, const struct wm_one *m)
{
	struct wire_frame f;
	struct buf b;
	struct err e;
	void *out = NULL;

	buf_init(&b, 1 << 16);
	if (wire_encode_at(version, WM_ONE, m, 1, &b, &e) < 0 || wire_next(&b, &f, &e) != 1 ||
	    wire_decode_at(version, WM_ONE, f.body, f.n, &out, &e) < 0)
		tap_bail("version %u: %s", version, e.text);
	buf_fini(&b);
	return out;
}

static void test_fields(void)
{
	char big[5000];
	struct wm_one m = {.a = 1, .middle = xstrdup("mid"), .b = 2}, *got;
	struct wire_shared *tail = NULL;
	struct buf front;

	memset(big, 'x', sizeof(big));
	wire_strv_add(&m.words, "w");
	m.tail = shared_new(big, sizeof(big));
	is_int((int64_t)body_size(2, &m), 4 + 4 + 4 + 5000, "the oldest has neither of the new fields");
	is_int((int64_t)body_size(3, &m), 4 + 7 + 4 + 4 + 5000, "version 3 has one more, in the middle");
	is_int((int64_t)body_size(4, &m), 4 + 7 + 4 + 4 + 5000, "version 4 the same");
	is_int((int64_t)body_size(5, &m), 4 + 7 + 4 + (4 + 5) + 4 + 5000, "version 5 both");
	got = through(2, &m);
	ok(got->a == 1 && got->b == 2 && got->tail->n == 5000, "the old fields arrive");
	is_str(got->middle, "", "a string that the version lacks is empty, not NULL");
	is_int(got->words.n, 0, "a vector that it lacks is empty");
	wire_free(WM_ONE, got);
	got = through(5, &m);
	ok(got->words.n == 1 && strcmp(got->middle, "mid") == 0, "the newest version has all");
	wire_free(WM_ONE, got);
	buf_init(&front, 1 << 16);
	is_int(wire_encode_front(2, WM_ONE, &m, 1, &front, &tail, NULL), 0, "a shared tail");
	ok(tail == m.tail, "ends the message in each version");
	is_int((int64_t)buf_left(&front), WIRE_HEADER_SIZE + 12, "and is not in the front");
	buf_fini(&front);
	wire_fini(WM_ONE, &m);
}

static void test_layout(void)
{
	is_int(wire_layout(2, WM_ONE), 2, "layout of the oldest");
	is_int(wire_layout(4, WM_ONE), 3, "version 4 has the layout of 3");
	is_int(wire_layout(WIRE_ALL, WM_ONE), 5, "the newest");
	is_int(wire_layout(4, WM_FIX), 4, "a message for ever, with a field that it should not have");
	ok(!wire_speaks(3, WM_TWO) && wire_speaks(4, WM_TWO), "a message is known since its version");
}

static void test_refused(void)
{
	uint8_t body[12] = {0};
	struct wm_two two = {.x = 1};
	struct wm_fix fix = {.a = 1, .b = 2};
	struct buf b;
	struct err e;
	void *msg;

	buf_init(&b, 1 << 16);
	is_int(wire_encode_at(3, WM_TWO, &two, 1, &b, &e), -1, "a message that the version lacks is not sent");
	is_int(e.code, ERR_UNSUPPORTED, "as unsupported");
	is_int((int64_t)buf_left(&b), 0, "nothing is appended");
	is_int(wire_decode_at(3, WM_TWO, body, 8, &msg, &e), -1, "nor accepted");
	is_int(wire_encode_at(2, WM_FIX, &fix, 1, &b, &e), 0, "numbers only");
	is_int((int64_t)buf_left(&b), WIRE_HEADER_SIZE + 4, "the old size");
	is_int(wire_decode_at(2, WM_FIX, body, 12, &msg, &e), -1, "bytes of a newer version are too many");
	is_int(wire_decode_at(4, WM_FIX, body, 4, &msg, &e), -1, "bytes of an older version are too few");
	is_int(wire_decode_at(4, WM_FIX, body, 12, &msg, &e), 0, "the right ones are accepted");
	wire_free(WM_FIX, msg);
	buf_fini(&b);
}

int main(void)
{
	test_fields();
	test_layout();
	test_refused();
	return tap_done();
}
