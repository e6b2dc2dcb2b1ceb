/*
 * test_wire_layouts: the bytes of every message, as each version in use lays them out, are those of
 * tests/frozen/wire-N.txt. The file of the previous version never changes. A change of the table changes the
 * file of the present version: run this test with HEARTH_FREEZE=1, and look at `git diff tests/frozen`.
 */
#include "common/net/wire_msg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

/* Every field gets a value of its own, by its number among the fields of its version: a newer field before it
 * does not change the bytes of an older version. */
static uint32_t at;

static char *text_at(void)
{
	return xasprintf("text %u", at);
}

#define FILL_U8(f)  (f) = (uint8_t)at
#define FILL_U32(f) (f) = 0x01020300u + at
#define FILL_U64(f) (f) = 0x0102030405060700u + at
#define FILL_I64(f) (f) = -(int64_t)(0x0102030405060700 + at)
#define FILL_F64(f) (f) = 0.5 + at
#define FILL_STR(f) (f) = text_at()
#define FILL_VEC(f, type, value)                                                                             \
	do {                                                                                                     \
		(f).n = 2;                                                                                           \
		(f).v = xcalloc(2, sizeof(type));                                                                    \
		(f).v[0] = (f).v[1] = value;                                                                         \
	} while (0)
#define FILL_STRV(f)                                                                                         \
	do {                                                                                                     \
		wire_strv_add(&(f), "one");                                                                          \
		wire_strv_add(&(f), "two");                                                                          \
	} while (0)
#define FILL_U32V(f) FILL_VEC(f, uint32_t, 0x0a0b0c00u + at)
#define FILL_U64V(f) FILL_VEC(f, uint64_t, 0x0a0b0c0d00000000u + at)
#define FILL_I64V(f) FILL_VEC(f, int64_t, -1000 - (int64_t)at)
#define FILL_F64V(f) FILL_VEC(f, double, 0.25 + at)
#define FILL_BYTES(f)                                                                                        \
	do {                                                                                                     \
		(f).n = 3;                                                                                           \
		(f).data = xmemdup("abc", 3);                                                                        \
	} while (0)

static struct wire_shared *shared_at(void)
{
	struct wm_note note = {.job = at, .text = (char *)(uintptr_t) "shared"};

	return wire_share(WM_NOTE, &note, NULL);
}
#define FILL_SHARED(f) (f) = shared_at()

static void *new_message(uint16_t type)
{
	uint32_t count[WIRE_VERSION + 1] = {0};

	switch (type) {
#define FIELD(kind, name, ...)                                                                               \
	at = WIRE_SINCE(__VA_ARGS__) * 16 + ++count[WIRE_SINCE(__VA_ARGS__)];                                    \
	FILL_##kind(m->name);
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

static const struct row {
	uint16_t type;
	unsigned since, newest; /* newest: the sum of its fields' marks; 0: none is newer than the message */
} rows[] = {
#define FIELD(kind, name, ...)                 +WIRE_SINCE(__VA_ARGS__)
#define M(num, NAME, name, from, phase, since) {num, since, 0 WM_##NAME##_F(FIELD)},
    WIRE_MESSAGES(M)
#undef M
#undef FIELD
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* "number name bytes" of each message that the version has. */
static char *layouts(unsigned version)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	struct buf b;
	struct err e;

	if (!f)
		abort();
	buf_init(&b, WIRE_MAX_BODY);
	for (size_t i = 0; i < N_ROWS; i++) {
		void *msg;

		if (!wire_speaks(version, rows[i].type))
			continue;
		msg = new_message(rows[i].type);
		buf_reset(&b);
		if (wire_encode_at(version, rows[i].type, msg, 7, &b, &e) < 0)
			tap_bail("%s: %s", wire_name(rows[i].type), e.text);
		fprintf(f, "%u %s ", rows[i].type, wire_name(rows[i].type));
		for (size_t k = 0; k < buf_left(&b); k++)
			fprintf(f, "%02x", buf_head(&b)[k]);
		fputc('\n', f);
		wire_free(rows[i].type, msg);
	}
	if (fclose(f) != 0)
		abort();
	buf_fini(&b);
	return text;
}

static void compare_lines(const char *name, char *want, char *got)
{
	char *save_want = NULL, *save_got = NULL;
	const char *w = strtok_r(want, "\n", &save_want), *g = strtok_r(got, "\n", &save_got);
	unsigned bad = 0;

	while ((w || g) && bad < 5) {
		if (!w || !g || strcmp(w, g) != 0) {
			tap_diag("%s has   %.200s", name, w ? w : "nothing more");
			tap_diag("the table %.200s", g ? g : "nothing more");
			bad++;
		}
		w = w ? strtok_r(NULL, "\n", &save_want) : NULL;
		g = g ? strtok_r(NULL, "\n", &save_got) : NULL;
	}
	ok(bad == 0, "%s: every message is laid out as it is frozen", name);
}

static void check_file(unsigned version)
{
	const char *top = getenv("HEARTH_TOP_SRCDIR");
	char *path = xasprintf("%s/tests/frozen/wire-%u.txt", top ? top : ".", version), *want;
	char *name = xasprintf("wire-%u.txt", version), *got = layouts(version);
	struct err e = {0};

	if (getenv("HEARTH_FREEZE") && version == WIRE_VERSION &&
	    fs_replace(path, got, strlen(got), 0644, &e) < 0)
		tap_bail("%s", e.text);
	if (fs_read_file(path, 1 << 20, &want, NULL, &e) < 0) {
		ok(0, "%s", e.text);
	} else {
		compare_lines(name, want, got);
		free(want);
	}
	free(path);
	free(name);
	free(got);
}

/* A message of the version before comes back the same through the present table. */
static void check_old_bytes(unsigned version)
{
	unsigned bad = 0;
	struct buf b, again, in;
	struct wire_frame f;
	struct err e;

	buf_init(&b, WIRE_MAX_BODY);
	buf_init(&again, WIRE_MAX_BODY);
	for (size_t i = 0; i < N_ROWS; i++) {
		void *msg, *back = NULL;

		if (!wire_speaks(version, rows[i].type))
			continue;
		msg = new_message(rows[i].type);
		buf_reset(&b);
		buf_reset(&again);
		wire_encode_at(version, rows[i].type, msg, 7, &b, &e);
		buf_view(&in, buf_head(&b), buf_left(&b));
		if (wire_next(&in, &f, &e) != 1 || wire_decode_at(version, f.type, f.body, f.n, &back, &e) < 0 ||
		    wire_encode_at(version, f.type, back, 7, &again, &e) < 0 || buf_left(&b) != buf_left(&again) ||
		    memcmp(buf_head(&b), buf_head(&again), buf_left(&b)) != 0) {
			tap_diag("%s: %s", wire_name(rows[i].type), e.text);
			bad++;
		}
		wire_free(rows[i].type, back);
		wire_free(rows[i].type, msg);
	}
	ok(bad == 0, "version %u goes round", version);
	buf_fini(&b);
	buf_fini(&again);
}

static void test_forever(void)
{
	static const uint16_t ever[] = {WM_CHALLENGE,   WM_HELLO,        WM_WELCOME,         WM_REFUSED,
	                                WM_BEAT,        WM_BEAT_ACK,     WM_PEER_ASK,        WM_PEER_ANSWER,
	                                WM_GANG,        WM_LOCAL_RSH,    WM_LOCAL_RSH_STATE, WM_SHIM_HELLO,
	                                WM_SHIM_QUERY,  WM_SHIM_SIGNAL,  WM_SHIM_TAIL,       WM_SHIM_GO,
	                                WM_SHIM_ATTACH, WM_SHIM_RELEASE, WM_SHIM_QUIT,       WM_SHIM_OK,
	                                WM_SHIM_STATUS, WM_SHIM_DATA};
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(ever) / sizeof(ever[0]); i++)
		ok(wire_speaks(0, ever[i]), "%s is understood without a common version", wire_name(ever[i]));
	for (size_t i = 0; i < N_ROWS; i++) {
		n += rows[i].since == WIRE_EVER;
		if (rows[i].since == WIRE_EVER)
			ok(rows[i].newest == 0, "%s: a message of WIRE_EVER has no newer field", wire_name(rows[i].type));
		else
			ok(!wire_speaks(0, rows[i].type), "%s needs a common version", wire_name(rows[i].type));
	}
	is_int(n, sizeof(ever) / sizeof(ever[0]), "no other message is of WIRE_EVER");
	is_int(wire_layout(WIRE_ALL, WM_METRICS), 2,
	       "metrics has the layout of version 2: agents store a batch of it (agent/logs/points.c)");
}

static void test_settle(void)
{
	is_int(wire_settle(WIRE_VERSION), WIRE_VERSION, "the present version");
	is_int(wire_settle(WIRE_VERSION - 1), WIRE_VERSION - 1, "the one before");
	is_int(wire_settle(WIRE_VERSION - 2), 0, "an older one: none");
	is_int(wire_settle(WIRE_VERSION + 1), 0, "a newer one: none");
#ifdef HEARTH_FAULTS
	fault_arm("wire.raised", 1, 1000000);
	is_int(wire_settle(WIRE_VERSION), WIRE_VERSION, "a raised build speaks the present version");
	is_int(wire_settle(WIRE_VERSION - 1), 0, "but not the one before it");
	is_int(wire_present(), WIRE_VERSION + 1, "its own is one more");
	fault_clear();
#endif
}

int main(void)
{
	check_file(WIRE_PREVIOUS);
	check_file(WIRE_VERSION);
	check_old_bytes(WIRE_PREVIOUS);
	check_old_bytes(WIRE_VERSION);
	test_forever();
	test_settle();
	return tap_done();
}
