/*
 * Agents: upgrade, who may connect, a newer connection replaces the older, orders both ways, a state thread
 * that is slow (nothing lost, nothing out of order), METRICS, blobs over the bulk connection, of launches on
 * the agent's node only.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpagent.h"

static struct hkit *k;
static _Atomic unsigned n_beats, out_of_order, n_metrics;
static _Atomic uint64_t last_beat, metrics_session;

static void on_agent_msg(struct hkit *kit, const char *node, uint64_t session, uint16_t type, uint64_t id,
                         void *msg)
{
	(void)kit;
	(void)node;
	(void)id;
	if (type == WM_BEAT) {
		const struct wm_beat *b = msg;

		if (b->seq != atomic_load(&last_beat) + 1)
			atomic_fetch_add(&out_of_order, 1);
		atomic_store(&last_beat, b->seq);
		atomic_fetch_add(&n_beats, 1);
	}
	if (type == WM_METRICS) {
		atomic_store(&metrics_session, session);
		atomic_fetch_add(&n_metrics, 1);
	}
	wire_free(type, msg);
}

static int wait_reached(_Atomic unsigned *v, unsigned want, unsigned timeout_ms)
{
	uint64_t end = hkit_now_us() + timeout_ms * 1000ull;

	while (atomic_load(v) < want && hkit_now_us() < end)
		poll(NULL, 0, 2);
	return atomic_load(v) >= want;
}

static int reached_f(unsigned (*f)(struct hkit *), unsigned want)
{
	uint64_t end = hkit_now_us() + 5000000;

	while (f(k) < want && hkit_now_us() < end)
		poll(NULL, 0, 2);
	return f(k) >= want;
}

static void test_door(void)
{
	static const char *const wrong[] = {"Connection: Upgrade", "Upgrade: websocket", NULL};
	struct answer *a = http(k, "GET", "/agent/v1", NULL, NULL, NULL);
	struct hagent *x;

	is_int(a->status, 426, "the door without an upgrade");
	answer_free(a);
	a = http(k, "GET", "/agent/v1", NULL, NULL, wrong);
	is_int(a->status, 426, "with another protocol");
	answer_free(a);
	hagent_join(k, "alpha", 1);
	hagent_join(k, "gone", 2);
	hagent_row(k, "gone", 2, "removed", NULL);
	hagent_join(k, "twice", 3);
	hagent_row(k, "twice", 3, "up", "00000000000000000000000000000000");
	x = hagent_dial(k, "gone", ROLE_CONTROL);
	ok(hagent_wait_open(x, 5000) == -1 && strstr(hagent_why(x), "removed"), "a removed node is refused: %s",
	   hagent_why(x));
	is_int(hagent_code(x), ERR_DENIED,
	       "but not told to give all up: its certificate is not that of the record");
	hagent_close(x);
	hagent_join_as(k, "left", 4, "removed");
	x = hagent_dial(k, "left", ROLE_CONTROL);
	ok(hagent_wait_open(x, 5000) == -1 && strstr(hagent_why(x), "removed"), "the very one is refused, too");
	is_int(hagent_code(x), ERR_GONE, "and told that it is gone for good");
	hagent_close(x);
	x = hagent_dial(k, "twice", ROLE_BULK);
	ok(hagent_wait_open(x, 5000) == -1 && strstr(hagent_why(x), "joined again"), "an old certificate too: %s",
	   hagent_why(x));
	is_int(hagent_code(x), ERR_DENIED, "which is no removal");
	hagent_close(x);
}

static void send_to(struct hkit *kit, void *arg)
{
	struct wm_ack ack = {.acked = 77};

	server_send_agent(hkit_server(kit), "alpha", *(uint64_t *)arg, WM_ACK, &ack, 5);
	server_send_agent(hkit_server(kit), "alpha", 12345, WM_ACK, &ack, 6); /* of another session: dropped */
	server_metrics_ack(hkit_server(kit), "alpha", 1, 1, 9);
}

static void close_it(struct hkit *kit, void *arg)
{
	server_close_agent(hkit_server(kit), "alpha", *(uint64_t *)arg, "test");
}

static void test_orders(void)
{
	struct hagent *c = hagent_dial(k, "alpha", ROLE_CONTROL), *b = hagent_dial(k, "alpha", ROLE_BULK), *newer;
	char *name = (char *)"loss";
	uint32_t ix = 0, rank = 0;
	int64_t step = 1;
	double value = 0.5;
	uint64_t at = 1, session, id;
	struct wm_metrics m = {.job = 1,
	                       .attempt = 1,
	                       .epoch = 1,
	                       .seq = 9,
	                       .names = {&name, 1},
	                       .name_ix = {&ix, 1},
	                       .ranks = {&rank, 1},
	                       .steps = {&step, 1},
	                       .values = {&value, 1},
	                       .times = {&at, 1}};
	struct wm_ack *ack;
	struct wm_metrics_ack *mack;

	ok(hagent_wait_open(c, 5000) == 1 && hagent_wait_open(b, 5000) == 1, "both connections open: %s %s",
	   hagent_why(c), hagent_why(b));
	ok(reached_f(hkit_agents_up, 1), "the state thread hears of the control connection");
	session = hkit_agent_session(k);
	ok(session == hagent_session(c), "of the session that the agent was told");
	hagent_send(b, WM_METRICS, &m, 3);
	ok(wait_reached(&n_metrics, 1, 5000) && atomic_load(&metrics_session) == session,
	   "METRICS arrive, under the control session");
	hkit_call(k, send_to, &session);
	ack = hagent_expect(c, WM_ACK, &id, 5000);
	ok(ack && ack->acked == 77 && id == 5, "an order arrives");
	wire_free(WM_ACK, ack);
	mack = hagent_expect(b, WM_METRICS_ACK, NULL, 5000);
	ok(mack && mack->seq == 9, "and the acknowledgement of points on the bulk connection");
	wire_free(WM_METRICS_ACK, mack);
	newer = hagent_dial(k, "alpha", ROLE_CONTROL);
	ok(hagent_wait_open(newer, 5000) == 1 && hagent_wait_closed(c, 5000),
	   "a newer connection replaces the older");
	ok(reached_f(hkit_agents_up, 2) && reached_f(hkit_agents_down, 1), "the state thread hears both");
	ok(hkit_agent_session(k) > session && hkit_agent_session(k) == hagent_session(newer), "sessions rise");
	ok(hagent_wait_closed(b, 20) == 0, "the bulk connection stays");
	session = hagent_session(newer);
	hkit_call(k, close_it, &session);
	ok(hagent_wait_closed(newer, 5000) && hagent_wait_closed(b, 5000),
	   "the state thread closes a node: both end");
	ok(reached_f(hkit_agents_down, 2), "and it hears of it");
	hagent_close(c);
	hagent_close(b);
	hagent_close(newer);
}

static void sleep_long(struct hkit *kit, void *arg)
{
	uint64_t end = hkit_now_us() + 20000000;
	int paused = 0;

	(void)arg;
	/* What a stuck disk or a debugger does to the state thread: until its channel is full. */
	while (hkit_now_us() < end && !paused) {
		cJSON *stats = server_stats(hkit_server(kit));

		paused = cJSON_GetObjectItem(stats, "agent_pauses_total")->valuedouble > 0;
		cJSON_Delete(stats);
		poll(NULL, 0, 10);
	}
}

static void *make_it_sleep(void *arg)
{
	hkit_call(k, sleep_long, arg);
	return NULL;
}

static void test_slow_state_thread(void)
{
	enum { N = 100000 }; /* far more than its channel holds */
	struct hagent *c = hagent_dial(k, "alpha", ROLE_CONTROL);
	struct wm_beat beat = {.boot_us = 1};
	struct answer *a;
	pthread_t t;
	unsigned i;

	ok(hagent_wait_open(c, 5000) == 1, "connected");
	atomic_store(&n_beats, 0);
	atomic_store(&last_beat, 0);
	atomic_store(&out_of_order, 0);
	for (i = 1; i <= N; i++) {
		if (i == 1000)
			pthread_create(&t, NULL, make_it_sleep, NULL);
		beat.seq = i;
		hagent_send(c, WM_BEAT, &beat, i);
	}
	ok(wait_reached(&n_beats, N, 20000), "a flood against a state thread that sleeps: all %u of %u arrive",
	   atomic_load(&n_beats), N);
	is_int(atomic_load(&out_of_order), 0, "in order");
	pthread_join(t, NULL);
	a = http(k, "GET", "/metrics", "admin", NULL, NULL);
	ok(a->status == 200 && !strstr(a->body, "hearth_agent_pauses_total 0\n"),
	   "its connection was paused for that");
	answer_free(a);
	hagent_close(c);
	ok(reached_f(hkit_agents_down, 3), "and the end is heard");
}

struct order {
	uint64_t session;
	const char *bundle, *resume;
};

static void send_prepare(struct hkit *kit, void *arg)
{
	const struct order *o = arg;
	struct wm_prepare m = {.job = 1,
	                       .attempt = (uint32_t)o->session,
	                       .epoch = 1,
	                       .bundle_digest = (char *)(uintptr_t)o->bundle,
	                       .resume_from = (char *)(uintptr_t)o->resume};

	server_send_agent(hkit_server(kit), "alpha", o->session, WM_PREPARE, &m, 1);
}

/* alpha gets an order to prepare a launch with these trees. */
static void order_trees(const char *bundle, const char *resume)
{
	struct hagent *c = hagent_dial(k, "alpha", ROLE_CONTROL);
	uint64_t end = hkit_now_us() + 5000000;
	struct order o = {.bundle = bundle, .resume = resume};
	struct wm_prepare *m;

	ok(hagent_wait_open(c, 5000) == 1, "alpha's control connection opens");
	while (hkit_agent_session(k) != hagent_session(c) && hkit_now_us() < end)
		poll(NULL, 0, 2);
	o.session = hagent_session(c);
	hkit_call(k, send_prepare, &o);
	m = hagent_expect(c, WM_PREPARE, NULL, 5000);
	ok(m && strcmp(m->bundle_digest, bundle) == 0, "alpha gets an order to prepare");
	wire_free(WM_PREPARE, m);
	hagent_close(c);
}

static struct hagent *stranger;

/* Its answer comes after a while. */
static void ask_as_stranger(const char *digest)
{
	struct wm_blob_get get = {.digest = (char *)(uintptr_t)digest};

	hagent_join(k, "stranger", 9);
	stranger = hagent_dial(k, "stranger", ROLE_BULK);
	ok(hagent_wait_open(stranger, 5000) == 1, "another node connects");
	hagent_send(stranger, WM_BLOB_GET, &get, 4);
}

static void test_stranger(void)
{
	struct wm_blob_data *got = hagent_expect(stranger, WM_BLOB_DATA, NULL, 20000);

	ok(got && got->code == ERR_DENIED && got->data.n == 0,
	   "a node without a launch that needs the blob does not get it");
	like(got ? got->text : "-", "no launch on node stranger needs this blob", "the reason names the node");
	wire_free(WM_BLOB_DATA, got);
	hagent_close(stranger);
}

static void test_blobs(void)
{
	struct hagent *b = hagent_dial(k, "alpha", ROLE_BULK);
	char data[] = "content of a blob", digest[HASH_HEX_SIZE], other[HASH_HEX_SIZE];
	char *both[2] = {digest, other};
	struct wm_blob_put put = {
	    .digest = digest, .total = sizeof(data) - 1, .data = {(uint8_t *)data, sizeof(data) - 1}};
	struct wm_blob_get get = {.digest = digest};
	struct wm_blob_have have = {.digests = {both, 2}};
	struct wm_blob_ok *done;
	struct wm_blob_data *got;
	struct wm_blob_missing *missing;
	uint64_t id;

	hash_hex(data, sizeof(data) - 1, digest);
	hash_hex("x", 1, other);
	ok(hagent_wait_open(b, 5000) == 1, "connected");
	hagent_send(b, WM_BLOB_HAVE, &have, 1);
	missing = hagent_expect(b, WM_BLOB_MISSING, &id, 5000);
	ok(missing && missing->digests.n == 2 && id == 1, "both blobs are missing");
	wire_free(WM_BLOB_MISSING, missing);
	hagent_send(b, WM_BLOB_PUT, &put, 2);
	done = hagent_expect(b, WM_BLOB_OK, &id, 5000);
	ok(done && done->code == 0 && id == 2, "one is put: %s", done ? done->text : "-");
	wire_free(WM_BLOB_OK, done);
	hagent_send(b, WM_BLOB_HAVE, &have, 3);
	missing = hagent_expect(b, WM_BLOB_MISSING, &id, 5000);
	ok(missing && missing->digests.n == 1 && strcmp(missing->digests.v[0], other) == 0,
	   "the other is still missing");
	wire_free(WM_BLOB_MISSING, missing);
	ask_as_stranger(digest);
	order_trees(digest, other);
	hagent_send(b, WM_BLOB_GET, &get, 4);
	got = hagent_expect(b, WM_BLOB_DATA, &id, 5000);
	ok(got && got->code == 0 && got->data.n == sizeof(data) - 1 &&
	       memcmp(got->data.data, data, got->data.n) == 0,
	   "and comes back");
	wire_free(WM_BLOB_DATA, got);
	get.digest = other;
	hagent_send(b, WM_BLOB_GET, &get, 5);
	got = hagent_expect(b, WM_BLOB_DATA, &id, 5000);
	ok(got && got->code != 0 && *got->text, "one that is not there: %s", got ? got->text : "-");
	wire_free(WM_BLOB_DATA, got);
	put.digest = other;
	hagent_send(b, WM_BLOB_PUT, &put, 6);
	done = hagent_expect(b, WM_BLOB_OK, &id, 5000);
	ok(done && done->code != 0, "content with another digest is refused: %s", done ? done->text : "-");
	wire_free(WM_BLOB_OK, done);
	hagent_close(b);
}

static int put_code(struct hagent *b, const struct wm_blob_put *put, uint64_t *present)
{
	struct wm_blob_ok *r;
	int code;

	hagent_send(b, WM_BLOB_PUT, put, 7);
	r = hagent_expect(b, WM_BLOB_OK, NULL, 10000);
	code = r ? (int)r->code : -1;
	*present = r ? r->present : 0;
	wire_free(WM_BLOB_OK, r);
	return code;
}

/* A manifest of many files is larger than a message may be: it goes and comes in pieces. */
static void test_large_blob(void)
{
	enum { PIECE = 4u << 20, SIZE = 2 * PIECE + 1000 };
	struct hagent *b = hagent_dial(k, "alpha", ROLE_BULK);
	char *data = xcalloc(1, SIZE), *back = xcalloc(1, SIZE + 1), digest[HASH_HEX_SIZE];
	struct wm_blob_put put = {.digest = digest, .total = SIZE, .data = {(uint8_t *)data, PIECE}};
	struct wm_blob_get get = {.digest = digest};
	struct wm_blob_data *got;
	uint64_t present, n = 0;

	for (unsigned i = 0; i < SIZE; i++)
		data[i] = (char)(i * 2654435761u >> 24);
	hash_hex(data, SIZE, digest);
	ok(hagent_wait_open(b, 5000) == 1, "connected");
	is_int(put_code(b, &put, &present), 0, "the first piece");
	is_int((int64_t)present, PIECE, "is kept");
	is_int(put_code(b, &put, &present), 0, "again, after a lost answer");
	is_int((int64_t)present, PIECE, "it counts once");
	put.offset = 2 * PIECE;
	put.data = (struct wire_bytes){(uint8_t *)data + 2 * PIECE, 1000};
	is_int(put_code(b, &put, &present), ERR_CONFLICT, "a piece behind a gap is refused");
	is_int((int64_t)present, PIECE, "with what is there");
	put.offset = PIECE;
	put.data = (struct wire_bytes){(uint8_t *)data + PIECE, PIECE};
	is_int(put_code(b, &put, &present), 0, "the second");
	put.offset = 2 * PIECE;
	put.data = (struct wire_bytes){(uint8_t *)data + 2 * PIECE, 1000};
	is_int(put_code(b, &put, &present), 0, "the last");
	is_int((int64_t)present, SIZE, "whole");
	/* After a restart of hearthd an agent's question may come before the order that comes again. */
	get.offset = SIZE;
	hagent_send(b, WM_BLOB_GET, &get, 8);
	poll(NULL, 0, 100);
	order_trees(digest, "");
	got = hagent_expect(b, WM_BLOB_DATA, NULL, 10000);
	ok(got && got->code == 0 && got->total == SIZE, "a question before its order waits for the order: %s",
	   got ? got->text : "-");
	wire_free(WM_BLOB_DATA, got);
	do {
		get.offset = n;
		hagent_send(b, WM_BLOB_GET, &get, 8);
		got = hagent_expect(b, WM_BLOB_DATA, NULL, 10000);
		if (!got || got->code || got->total != SIZE || !got->data.n || got->data.n > PIECE)
			break;
		memcpy(back + n, got->data.data, got->data.n);
		n += got->data.n;
		wire_free(WM_BLOB_DATA, got);
		got = NULL;
	} while (n < SIZE);
	wire_free(WM_BLOB_DATA, got);
	ok(n == SIZE && memcmp(back, data, SIZE) == 0, "it comes back in pieces");
	get.offset = SIZE + 1;
	hagent_send(b, WM_BLOB_GET, &get, 9);
	got = hagent_expect(b, WM_BLOB_DATA, NULL, 10000);
	ok(got && got->code == ERR_INVALID, "nothing lies behind its end: %s", got ? got->text : "-");
	wire_free(WM_BLOB_DATA, got);
	hagent_close(b);
	free(data);
	free(back);
}

/* An agent that asks for far more than it takes: nothing is lost, nothing closed, and memory is bounded by
 * what it is asked for. */
static void test_many_blobs(void)
{
	enum { N = 40, SIZE = 4u << 20 };
	struct hagent *b = hagent_dial(k, "alpha", ROLE_BULK);
	char *data = xcalloc(1, SIZE), digest[HASH_HEX_SIZE];
	struct wm_blob_put put = {.digest = digest, .total = SIZE, .data = {(uint8_t *)data, SIZE}};
	struct wm_blob_get get = {.digest = digest};
	struct wm_blob_data *got;
	unsigned i, whole = 0;
	uint64_t id, wrong = 0;

	memset(data, 'z', SIZE);
	hash_hex(data, SIZE, digest);
	ok(hagent_wait_open(b, 5000) == 1, "connected");
	hagent_send(b, WM_BLOB_PUT, &put, 1);
	wire_free(WM_BLOB_OK, hagent_expect(b, WM_BLOB_OK, NULL, 10000));
	order_trees(digest, "");
	hagent_hold(b, 1);
	for (i = 0; i < N; i++)
		hagent_send(b, WM_BLOB_GET, &get, 100 + i);
	poll(NULL, 0, 500); /* the answers pile up on the server's side: too short is no failure */
	hagent_hold(b, 0);
	for (i = 0; i < N; i++) {
		got = hagent_expect(b, WM_BLOB_DATA, &id, 20000);
		whole += got && got->code == 0 && got->data.n == SIZE;
		wrong += id != 100 + i;
		wire_free(WM_BLOB_DATA, got);
	}
	is_int(whole, N, "40 blobs of 4 MiB asked for at once");
	is_int((int64_t)wrong, 0, "in order");
	hagent_close(b);
	free(data);
}

int main(void)
{
	struct hkit_options o = {.on_agent_msg = on_agent_msg};
	struct hagent *left;

	k = hkit_start(&o);
	test_door();
	test_orders();
	test_slow_state_thread();
	test_blobs();
	test_large_blob();
	test_many_blobs();
	test_stranger();
	left = hagent_dial(k, "alpha", ROLE_CONTROL);
	hagent_wait_open(left, 5000);
	hkit_stop(k);
	ok(hagent_wait_closed(left, 5000), "the end of hearthd ends connections");
	hagent_close(left);
	return tap_done();
}
