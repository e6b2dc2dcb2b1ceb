/*
 * test_wire: every message of the table goes round; every cut and every flipped byte is refused or gives a
 * message that can be encoded again; limits hold before memory is taken; who may send what.
 */
#include "common/net/wire_msg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* A small generator of its own, so that a failure can be seen again. */
static uint64_t seed = 20261121;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return below ? (uint32_t)(seed >> 33) % below : 0;
}

static char *rnd_str(void)
{
	size_t n = rnd(20);
	char *s = xcalloc(n + 1, 1);

	for (size_t i = 0; i < n; i++)
		s[i] = (char)(1 + rnd(255));
	return s;
}

/* One filler a kind. */
#define FILL_U8(f)  (f) = (uint8_t)rnd(256)
#define FILL_U32(f) (f) = rnd(0x7fffffff) * 2 + rnd(2)
#define FILL_U64(f) (f) = (uint64_t)rnd(0x7fffffff) << 33 | rnd(0x7fffffff)
#define FILL_I64(f) (f) = -(int64_t)((uint64_t)rnd(0x7fffffff) << 31)
#define FILL_F64(f) (f) = (double)rnd(1000000) / 7 - 1000
#define FILL_STR(f) (f) = rnd_str()
#define FILL_VEC(f, type, value)                                                                             \
	do {                                                                                                     \
		(f).n = rnd(4);                                                                                      \
		(f).v = (f).n ? xcalloc((f).n, sizeof(type)) : 0;                                                    \
		for (uint32_t i_ = 0; i_ < (f).n; i_++)                                                              \
			(f).v[i_] = value;                                                                               \
	} while (0)
#define FILL_STRV(f) FILL_VEC(f, char *, rnd_str())
#define FILL_U32V(f) FILL_VEC(f, uint32_t, rnd(0x7fffffff))
#define FILL_U64V(f) FILL_VEC(f, uint64_t, (uint64_t)rnd(0x7fffffff) << 20)
#define FILL_I64V(f) FILL_VEC(f, int64_t, (int64_t)rnd(1000) - 500)
#define FILL_F64V(f) FILL_VEC(f, double, (double)rnd(1000) / 3)
#define FILL_BYTES(f)                                                                                        \
	do {                                                                                                     \
		(f).n = rnd(30);                                                                                     \
		(f).data = (f).n ? xcalloc((f).n, 1) : NULL;                                                         \
		for (uint32_t i_ = 0; i_ < (f).n; i_++)                                                              \
			(f).data[i_] = (uint8_t)rnd(256);                                                                \
	} while (0)

/* Any bytes will do: what is in them is looked at by who asked for them. */
static struct wire_shared *rnd_shared(void)
{
	struct wm_note note = {.job = rnd(1000)};
	struct wire_shared *s;

	if (!rnd(3))
		return NULL;
	note.text = rnd_str();
	s = wire_share(WM_NOTE, &note, NULL);
	free(note.text);
	return s;
}
#define FILL_SHARED(f) (f) = rnd_shared()

static void *new_message(uint16_t type)
{
	switch (type) {
#define FIELD(kind, name, ...) FILL_##kind(m->name);
#define M(num, NAME, name, from, phase, since)                                                               \
	case num: {                                                                                              \
		struct wm_##name *m = xcalloc(1, sizeof(*m));                                                        \
		WM_##NAME##_F(FIELD) return m;                                                                       \
	}
		WIRE_MESSAGES(M)
#undef M
#undef FIELD
	default:
		return NULL;
	}
}

static const uint16_t types[] = {
#define M(num, NAME, name, from, phase, since) num,
    WIRE_MESSAGES(M)
#undef M
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static int same_bytes(const struct buf *a, const struct buf *b)
{
	return buf_left(a) == buf_left(b) && memcmp(buf_head(a), buf_head(b), buf_left(a)) == 0;
}

static void encode(uint16_t type, const void *msg, uint64_t id, struct buf *out)
{
	struct err e;

	buf_reset(out);
	if (wire_encode(type, msg, id, out, &e) < 0)
		tap_bail("%s: %s", wire_name(type), e.text);
}

static int round_trip(uint16_t type, struct buf *one, struct buf *two)
{
	void *msg = new_message(type), *back = NULL, *copy;
	uint64_t id = (uint64_t)rnd(1000) << 40;
	struct wire_frame f = {0};
	struct err e;
	struct buf in;
	int good;

	encode(type, msg, id, one);
	buf_view(&in, buf_head(one), buf_left(one));
	good = wire_next(&in, &f, &e) == 1 && f.type == type && f.id == id && buf_left(&in) == 0 &&
	       wire_decode(type, f.body, f.n, &back, &e) == 0;
	if (good) {
		encode(type, back, id, two);
		good = same_bytes(one, two);
		copy = wire_copy(type, back);
		wire_free(type, back);
		encode(type, copy, id, two);
		good = good && same_bytes(one, two);
		wire_free(type, copy);
	}
	wire_free(type, msg);
	return good;
}

static void test_round_trip(void)
{
	struct buf one, two;

	buf_init(&one, WIRE_MAX_BODY);
	buf_init(&two, WIRE_MAX_BODY);
	for (size_t i = 0; i < N_TYPES; i++) {
		int good = 1;

		for (int k = 0; k < 50; k++)
			good = good && round_trip(types[i], &one, &two);
		ok(good, "%s goes round, by decoding and by copying", wire_name(types[i]));
	}
	buf_fini(&one);
	buf_fini(&two);
}

/* A body cut anywhere is never accepted: every field is needed and trailing bytes are refused. */
static void test_truncation(void)
{
	struct buf out;
	int bad = 0;

	buf_init(&out, WIRE_MAX_BODY);
	for (size_t i = 0; i < N_TYPES; i++) {
		void *msg = new_message(types[i]);
		struct err e;

		encode(types[i], msg, 1, &out);
		wire_free(types[i], msg);
		for (size_t cut = 0; cut < buf_left(&out); cut++) {
			/* A copy of exactly that size, so that a read beyond it is seen by the sanitizer. */
			uint8_t *part = xmemdup(buf_head(&out), cut ? cut : 1);
			struct wire_frame f;
			struct buf in;
			void *back;

			buf_view(&in, part, cut);
			if (wire_next(&in, &f, &e) != 0 || in.pos != 0)
				bad++;
			if (cut >= WIRE_HEADER_SIZE &&
			    wire_decode(types[i], part + WIRE_HEADER_SIZE, cut - WIRE_HEADER_SIZE, &back, &e) == 0) {
				wire_free(types[i], back);
				bad++;
			}
			free(part);
		}
	}
	is_int(bad, 0, "no message cut short is accepted");
	buf_fini(&out);
}

/* Any change of any byte gives an error or a message that encodes again; never a crash or a leak. */
static void test_flips(void)
{
	struct buf out, again;
	unsigned accepted = 0, refused = 0;

	buf_init(&out, WIRE_MAX_BODY);
	buf_init(&again, WIRE_MAX_BODY);
	for (size_t i = 0; i < N_TYPES; i++) {
		void *msg = new_message(types[i]);

		encode(types[i], msg, 1, &out);
		wire_free(types[i], msg);
		for (size_t at = 0; at < buf_left(&out) * 9; at++) {
			uint8_t *bytes = xmemdup(buf_head(&out), buf_left(&out));
			struct wire_frame f;
			struct buf in;
			struct err e;
			void *back;

			bytes[at / 9] = (uint8_t)(bytes[at / 9] ^ (at % 9 < 8 ? 1u << at % 9 : 0xffu));
			buf_view(&in, bytes, buf_left(&out));
			if (wire_next(&in, &f, &e) == 1 && wire_decode(f.type, f.body, f.n, &back, &e) == 0) {
				accepted++;
				encode(f.type, back, 1, &again);
				wire_free(f.type, back);
			} else {
				refused++;
			}
			free(bytes);
		}
	}
	ok(accepted > 1000 && refused > 1000, "flipped bits: %u messages accepted, %u refused", accepted,
	   refused);
	buf_fini(&out);
	buf_fini(&again);
}

static void put_header(struct buf *b, uint32_t n, uint16_t type, uint16_t reserved)
{
	buf_reset(b);
	buf_put_u32(b, n);
	buf_put_u16(b, type);
	buf_put_u16(b, reserved);
	buf_put_u64(b, 7);
}

static void test_headers(void)
{
	struct wire_frame f;
	struct buf in;
	struct err e;

	buf_init(&in, 1 << 20);
	put_header(&in, 0, 9999, 0);
	is_int(wire_next(&in, &f, &e), -1, "unknown type");
	like(e.text, "unknown type 9999", "it is named");
	is_int(e.code, ERR_PROTOCOL, "as a protocol error");
	put_header(&in, 0, WM_ACK, 1);
	is_int(wire_next(&in, &f, &e), -1, "reserved bits");
	put_header(&in, WIRE_MAX_BODY + 1, WM_PREPARE, 0);
	is_int(wire_next(&in, &f, &e), -1, "a body beyond the limit is refused by its header");
	like(e.text, "prepare", "message named");
	put_header(&in, WIRE_MAX_BODY, WM_PREPARE, 0);
	is_int(wire_next(&in, &f, &e), 0, "a body at the limit is waited for");
	put_header(&in, 64 * 1024 + 1, WM_HELLO, 0);
	is_int(wire_next(&in, &f, &e), -1, "a hello, sent before anyone is known, is at most 64 KiB");
	put_header(&in, 9, WM_ACK, 0);
	is_int(wire_next(&in, &f, &e), -1, "a message of fixed fields has their exact size at most");
	put_header(&in, 8, WM_ACK, 0);
	buf_put_u64(&in, 5);
	is_int(wire_next(&in, &f, &e), 1, "whole frame");
	is_int(f.n, 8, "its length");
	is_int(f.id, 7, "its id");
	buf_fini(&in);
}

static void test_hostile_bodies(void)
{
	/* blob_have is one STRV: a count, then strings */
	static const uint8_t many[] = {0x00, 0x10, 0x00, 0x00, 0, 0, 0, 0};
	static const uint8_t over[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
	static const uint8_t nul[] = {0, 0, 0, 1, 0, 0, 0, 3, 'a', 0, 'b'};
	static const uint8_t trailing[] = {0, 0, 0, 0, 0};
	struct err e;
	void *msg;

	is_int(wire_decode(WM_BLOB_HAVE, many, sizeof(many), &msg, &e), -1, "more entries than bytes could hold");
	is_int(wire_decode(WM_BLOB_HAVE, over, sizeof(over), &msg, &e), -1, "more entries than the limit");
	like(e.text, "digests", "the field is named");
	is_int(wire_decode(WM_BLOB_HAVE, nul, sizeof(nul), &msg, &e), -1, "a string with NUL inside");
	is_int(wire_decode(WM_BLOB_HAVE, trailing, sizeof(trailing), &msg, &e), -1, "trailing bytes");
	is_int(wire_decode(9999, trailing, sizeof(trailing), &msg, &e), -1, "unknown type");
}

static void test_encode_limits(void)
{
	struct wm_note note = {0};
	struct wm_blob_put put = {0};
	struct wm_hello hello = {0};
	struct buf out;
	struct err e;

	buf_init(&out, 64);
	note.text = xcalloc(1, WIRE_MAX_STR + 2);
	memset(note.text, 'x', WIRE_MAX_STR + 1);
	is_int(wire_encode(WM_NOTE, &note, 1, &out, &e), -1, "a string over the limit is not sent");
	is_int(e.code, ERR_LIMIT, "as a limit");
	like(e.text, "note.text", "field named");
	is_int(buf_left(&out), 0, "nothing appended");
	note.text[100] = '\0';
	is_int(wire_encode(WM_NOTE, &note, 1, &out, &e), -1, "no room in the buffer");
	is_int(e.code, ERR_BUSY, "as busy");
	is_int(buf_left(&out), 0, "nothing appended");
	note.text[3] = '\0';
	is_int(wire_encode(WM_NOTE, &note, 1, &out, &e), 0, "a short one fits");
	buf_fini(&out);
	wire_fini(WM_NOTE, &note);
	ok(!note.text, "fini clears");

	buf_init(&out, 2 * WIRE_MAX_BODY);
	put.data.data = xcalloc(1, WIRE_MAX_BODY);
	put.data.n = WIRE_MAX_BODY;
	is_int(wire_encode(WM_BLOB_PUT, &put, 1, &out, &e), -1, "a body over the limit is not sent");
	is_int(e.code, ERR_LIMIT, "as a limit");
	put.data.n = 4 * 1024 * 1024;
	is_int(wire_encode(WM_BLOB_PUT, &put, 1, &out, &e), 0,
	       "a chunk of 4 MiB is, and NULL strings go as empty ones");
	wire_fini(WM_BLOB_PUT, &put);
	hello.cert_pem = xcalloc(1, 70000);
	memset(hello.cert_pem, 'x', 69999);
	is_int(wire_encode(WM_HELLO, &hello, 1, &out, &e), -1, "handshake messages are small");
	wire_fini(WM_HELLO, &hello);
	is_int(wire_encode(9999, &hello, 1, &out, &e), -1, "unknown type");
	buf_fini(&out);
}

static void test_table(void)
{
	char text[400];
	struct wm_prepare p = {.job = 17, .attempt = 2, .token = (char *)"SECRET", .job_name = (char *)"a b"};
	struct wire_strv v = {0};
	struct wire_u32v u = {0};

	ok(wire_allowed(WM_BEAT, WIRE_FROM_AGENT, WIRE_CONTROL), "an agent may send beats on control");
	ok(!wire_allowed(WM_BEAT, WIRE_FROM_AGENT, WIRE_BULK), "not on bulk");
	ok(!wire_allowed(WM_BEAT, WIRE_FROM_CTL, WIRE_CONTROL), "the controller sends none");
	ok(!wire_allowed(WM_BEAT, WIRE_FROM_AGENT, WIRE_HANDSHAKE), "none before the welcome");
	ok(!wire_allowed(9999, ~0u, ~0u), "unknown types never");
	is_str(wire_name(WM_LAUNCH_REPORT), "launch_report", "name");
	is_str(wire_name(9999), "?", "unknown name");
	wire_text(WM_PREPARE, &p, text, sizeof(text));
	like(text, "prepare job=17 attempt=2", "text for logs");
	ok(!strstr(text, "SECRET"), "without secrets");
	like(text, "job_name=\"a b\"", "quoted");
	is_str(wire_text(9999, &p, text, sizeof(text)), "?", "text of unknown type");
	is_str(wire_text(WM_PREPARE, &p, text, 4), "pre", "text cut at the size");
	for (uint32_t i = 0; i < 20; i++) {
		char s[16];

		snprintf(s, sizeof(s), "%" PRIu32, i);
		wire_strv_add(&v, s);
		wire_u32v_add(&u, i);
	}
	ok(v.n == 20 && strcmp(v.v[19], "19") == 0 && u.n == 20 && u.v[19] == 19, "vectors are filled");
	for (uint32_t i = 0; i < v.n; i++)
		free(v.v[i]);
	free(v.v);
	free(u.v);
	wire_free(WM_PREPARE, NULL);
}

/* "a U8@, b STR@3, " becomes "a U8, b STR (since 3)". */
static char *fields_text(const char *s)
{
	char *text = xstrdup("");

	while (*s) {
		size_t name = strcspn(s, "@"), since = strcspn(s + name + 1, ",");
		char *longer = xasprintf("%s%s%.*s%s%.*s%s", text, *text ? ", " : "", (int)name, s,
		                         since ? " (since " : "", (int)since, s + name + 1, since ? ")" : "");

		free(text);
		text = longer;
		s += name + 1 + since + 2; /* "@", the mark, ", " */
	}
	return text;
}

/* docs/spec/02-wire.md has a row for each message, with its fields in order. */
static void test_document(void)
{
	static const struct {
		unsigned num, since;
		const char *name, *fields;
	} rows[] = {
#define FIELD(kind, name, ...)                 #name " " #kind "@" #__VA_ARGS__ ", "
#define M(num, NAME, name, from, phase, since) {num, since, #name, WM_##NAME##_F(FIELD)},
	    WIRE_MESSAGES(M)
#undef M
#undef FIELD
	};
	const char *top = getenv("HEARTH_TOP_SRCDIR");
	char *path = xasprintf("%s/docs/spec/02-wire.md", top ? top : "."), *text;
	size_t missing = 0, n;
	struct err e;

	if (fs_read_file(path, 1 << 20, &text, &n, &e) < 0) {
		free(path);
		tap_skip("docs/spec/02-wire.md is not here");
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *head = xasprintf("| %u | %s | ", rows[i].num, rows[i].name), *at = strstr(text, head);
		char *fields = fields_text(rows[i].fields), *found = at ? strstr(at, fields) : NULL;
		char *since = xasprintf("Since version %u.", rows[i].since);
		char *line = at ? xstrndup(at, strcspn(at, "\n")) : xstrdup("");

		if (!found || memchr(at, '\n', (size_t)(found - at))) {
			tap_diag("no row like: %s... | %s |", head, fields);
			missing++;
		}
		if (rows[i].since > 2 && !strstr(line, since)) {
			tap_diag("the row of %s lacks: %s", rows[i].name, since);
			missing++;
		}
		free(since);
		free(line);
		free(head);
		free(fields);
	}
	is_int(missing, 0, "each message has its row in the document");
	free(text);
	free(path);
}

/* Random bytes as bodies of every type, and as streams. */
static void test_noise(void)
{
	uint8_t bytes[512];
	unsigned accepted = 0;

	for (size_t i = 0; i < N_TYPES * 400; i++) {
		uint16_t type = types[i % N_TYPES];
		size_t n = rnd(sizeof(bytes));
		uint8_t *exact;
		void *msg;

		for (size_t k = 0; k < n; k++)
			bytes[k] = rnd(3) ? 0 : (uint8_t)rnd(8);
		exact = xmemdup(bytes, n ? n : 1);
		if (wire_decode(type, exact, n, &msg, NULL) == 0) {
			accepted++;
			wire_free(type, msg);
		}
		free(exact);
	}
	ok(1, "noise: %u accepted", accepted);
}

/* Each kind of field in a log line; a line that is full ends at a field. */
static void test_text(void)
{
	uint64_t memory[2] = {1, 2};
	struct wm_beat b = {.seq = 3, .load1 = 0.5, .ahead_us = -7, .gpu_memory_used = {memory, 2}};
	struct wm_launch_report r = {.job = 1, .state = LAUNCH_READY, .text = (char *)(uintptr_t) "a\nb"};
	struct wm_shim_go go = {.env = {NULL, 0}, .mirror = 1};
	char *secret = (char *)(uintptr_t) "SECRET=1", text[400], was[400] = "";

	wire_text(WM_BEAT, &b, text, sizeof(text));
	like(text, "beat seq=3 boot_us=0 load1=0.5", "whole numbers and others");
	like(text, "gpu_memory_used=[2]", "of a vector how many");
	like(text, "ahead_us=-7", "negative ones");
	ok(!strstr(text, "gpu_util"), "an empty one is left out");
	wire_text(WM_LAUNCH_REPORT, &r, text, sizeof(text));
	like(text, "state=2", "a byte");
	ok(!strchr(text, '\n'), "one line, whatever is in a text");
	go.env.v = &secret;
	go.env.n = 1;
	is_str(wire_text(WM_SHIM_GO, &go, text, sizeof(text)), "shim_go mirror=1", "an environment is not shown");
	is_str(wire_text(WM_BEAT, &b, text, 0), "", "no room, nothing written");
	for (size_t n = 1; n < sizeof(text); n++) {
		wire_text(WM_BEAT, &b, text, n);
		if (strlen(text) >= n || (n > 5 && strncmp(text, was, strlen(was)) != 0))
			break;
		snprintf(was, sizeof(was), "%s", text);
	}
	is_str(was, wire_text(WM_BEAT, &b, text, sizeof(text)), "cut at any size, it is the front of the whole");
}

/* Vectors at their bounds, sent and received. */
static void test_vector_limits(void)
{
	struct wm_blob_have have = {0};
	struct wm_metrics m = {0};
	char *huge = xcalloc(1, WIRE_MAX_STR + 2);
	struct buf out;
	struct err e;
	void *msg;

	buf_init(&out, WIRE_MAX_BODY * 2);
	have.digests.v = xcalloc(WIRE_MAX_ITEMS + 1, sizeof(char *)); /* NULL counts as "" */
	have.digests.n = WIRE_MAX_ITEMS + 1;
	is_int(wire_encode(WM_BLOB_HAVE, &have, 1, &out, &e), -1, "strings: one more than the limit");
	is_str(e.text, "blob_have.digests is too large to send", "is not sent");
	have.digests.n = WIRE_MAX_ITEMS;
	is_int(wire_encode(WM_BLOB_HAVE, &have, 1, &out, &e), 0, "as many as the limit are");
	is_int(wire_decode(WM_BLOB_HAVE, buf_head(&out) + WIRE_HEADER_SIZE, buf_left(&out) - WIRE_HEADER_SIZE,
	                   &msg, &e),
	       0, "and received");
	ok(((struct wm_blob_have *)msg)->digests.v[WIRE_MAX_ITEMS - 1][0] == '\0', "each as an empty string");
	wire_free(WM_BLOB_HAVE, msg);
	msg = wire_copy(WM_BLOB_HAVE, &have);
	is_str(((struct wm_blob_have *)msg)->digests.v[5], "", "copied as such, too");
	wire_free(WM_BLOB_HAVE, msg);
	memset(huge, 'x', WIRE_MAX_STR + 1);
	have.digests.v[0] = huge;
	have.digests.n = 1;
	is_int(wire_encode(WM_BLOB_HAVE, &have, 1, &out, &e), -1, "a string of a vector that is too long");
	huge[WIRE_MAX_STR] = '\0';
	buf_reset(&out);
	is_int(wire_encode(WM_BLOB_HAVE, &have, 1, &out, &e), 0, "the longest");
	is_int(wire_decode(WM_BLOB_HAVE, buf_head(&out) + WIRE_HEADER_SIZE, buf_left(&out) - WIRE_HEADER_SIZE,
	                   &msg, &e),
	       0, "is received");
	wire_free(WM_BLOB_HAVE, msg);
	have.digests.v[0] = NULL;
	wire_fini(WM_BLOB_HAVE, &have);
	free(huge);
	m.ranks.v = xcalloc(WIRE_MAX_ITEMS + 1, sizeof(uint32_t));
	m.ranks.n = WIRE_MAX_ITEMS + 1;
	is_int(wire_encode(WM_METRICS, &m, 1, &out, &e), -1, "numbers: one more than the limit");
	is_str(e.text, "metrics.ranks is too large to send", "by name");
	wire_fini(WM_METRICS, &m);
	buf_reset(&out);
	is_int(wire_decode(WM_ACK, buf_head(&out), 9, &msg, &e), -1, "a body beyond its type's size");
	is_str(e.text, "ack of 9 bytes, at most 8 are allowed", "is not looked at");
	buf_fini(&out);
}

/* A message whose last bytes are shared: front and tail are together what a plain encoding is. */
static void test_tail(void)
{
	for (size_t size = 10; size <= 100000; size *= 10) {
		struct wm_note note = {.text = xcalloc(1, size + 1)};
		struct wm_prepare p = {.job = 5, .url = (char *)(uintptr_t) "http://h:1"};
		struct wire_shared *tail = NULL;
		struct buf whole, front;
		struct err e;

		memset(note.text, 'n', size);
		p.gang = wire_share(WM_NOTE, &note, &e);
		buf_init(&whole, WIRE_MAX_BODY);
		buf_init(&front, WIRE_MAX_BODY);
		encode(WM_PREPARE, &p, 3, &whole);
		is_int(wire_encode_front(WIRE_ALL, WM_PREPARE, &p, 3, &front, &tail, &e), 0, "the front");
		ok(!tail == (size < 4096), "shared bytes stay apart when they are many (%zu)", size);
		if (tail)
			memcpy(({
				       uint8_t *room;

				       buf_reserve(&front, tail->n, &room);
				       room;
			       }),
			       tail->data, tail->n);
		ok(buf_left(&front) + (tail ? tail->n : 0) == buf_left(&whole) &&
		       memcmp(buf_head(&front), buf_head(&whole), buf_left(&whole)) == 0,
		   "front and tail are the whole");
		buf_fini(&whole);
		buf_fini(&front);
		wire_unshare(p.gang);
		wire_fini(WM_NOTE, &note);
	}
	wire_unshare(NULL);
}

int main(void)
{
	test_text();
	test_vector_limits();
	test_tail();
	test_round_trip();
	test_truncation();
	test_flips();
	test_headers();
	test_hostile_bodies();
	test_encode_limits();
	test_table();
	test_document();
	test_noise();
	return tap_done();
}
