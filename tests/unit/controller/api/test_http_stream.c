/*
 * Live events: replay, live, resume by Last-Event-ID across restarts, one job's, slow readers, a flood; no
 * event is missed and none comes twice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

static struct hkit *k;

static int open_stream_as(const char *token, const char *query, const char *last_id)
{
	int fd = raw_connect(k);
	char *text = xasprintf("GET /api/v1/stream%s HTTP/1.1\r\nHost: localhost\r\nAccept: "
	                       "text/event-stream\r\nAuthorization: Bearer %s\r\n%s%s%s\r\n",
	                       query, token, last_id ? "Last-Event-ID: " : "", last_id ? last_id : "",
	                       last_id ? "\r\n" : "");

	raw_send(fd, text);
	free(text);
	return fd;
}

static int open_stream(const char *query, const char *last_id)
{
	return open_stream_as(hkit_token(k), query, last_id);
}

/* Ids in order of appearance in the text; returns how many. */
static unsigned ids_of(const char *text, uint64_t *ids, unsigned max)
{
	unsigned n = 0;
	const char *p = text, *end = text + strlen(text);

	while (n < max && (p = memmem(p, (size_t)(end - p), "\nid: ", 5))) {
		uint64_t id = 0;

		for (p += 5; *p >= '0' && *p <= '9'; p++)
			id = id * 10 + (uint64_t)(*p - '0');
		ids[n++] = id;
	}
	return n;
}

struct batch {
	uint64_t first, job;
	unsigned n;
};

static void send_notices(struct hkit *kit, void *arg)
{
	struct batch *b = arg;
	unsigned i;

	for (i = 0; i < b->n; i++) {
		struct event_row ev = {
		    .id = b->first + i, .job = b->job, .at_us = 1, .type = (char *)"changed", .data = (char *)"{}"};

		server_notice(hkit_server(kit), &ev);
	}
}

static void send_notice(struct hkit *kit, void *ev)
{
	server_notice(hkit_server(kit), ev);
}

static void send_event(uint64_t id, const char *type, const char *data)
{
	struct event_row ev = {
	    .id = id, .at_us = 1, .type = (char *)(uintptr_t)type, .data = (char *)(uintptr_t)data};
	struct store_txn *t = store_txn_new();

	store_txn_event(t, &ev);
	hkit_commit(k, t);
	hkit_call(k, send_notice, &ev);
}

/* n events in one transaction, then made known. */
static void send_flood(uint64_t first, uint64_t job, unsigned n)
{
	struct store_txn *t = store_txn_new();
	struct batch b = {.first = first, .job = job, .n = n};
	unsigned i;

	for (i = 0; i < n; i++) {
		struct event_row ev = {
		    .id = first + i, .job = job, .at_us = 1, .type = (char *)"changed", .data = (char *)"{}"};

		store_txn_event(t, &ev);
	}
	hkit_commit(k, t);
	hkit_call(k, send_notices, &b);
}

static void test_replay_and_live(void)
{
	uint64_t ids[16];
	int fd = open_stream("", "0"), closed;
	char *text;

	text = raw_read(fd, "id: 1001\n", 5000, &closed);
	is_int(ids_of(text, ids, 16), 2, "what is in the store is told first");
	ok(ids[0] == 1000 && ids[1] == 1001, "in order");
	like(text, "event: submitted\ndata: {\"id\":1000,\"job\":1,\"attempt\":0,", "as events with their data");
	like(text, "Content-Type: text/event-stream", "type of the answer");
	like(text, "retry: 1000", "reconnection time");
	free(text);
	hkit_event(k, 1002, 1, "placed");
	text = raw_read(fd, "id: 1002\n", 5000, &closed);
	is_int(ids_of(text, ids, 16), 1, "then what happens, once");
	free(text);
	close(fd);

	fd = open_stream("?after=1001", NULL);
	text = raw_read(fd, "id: 1002\n", 5000, &closed);
	is_int(ids_of(text, ids, 16), 1, "after=");
	free(text);
	close(fd);

	fd = open_stream("", NULL);
	text = raw_read(fd, "retry: 1000\n\n", 5000, &closed);
	ok(ids_of(text, ids, 16) == 0, "with neither: from now on");
	free(text);
	hkit_event(k, 1003, 2, "placed");
	text = raw_read(fd, "id: 1003\n", 5000, &closed);
	is_int(ids_of(text, ids, 16), 1, "the next event");
	free(text);
	close(fd);

	fd = open_stream("?job=1", "0");
	text = raw_read(fd, "id: 1002\n", 5000, &closed);
	free(text);
	hkit_event(k, 1004, 2, "placed");
	hkit_event(k, 1005, 1, "ended");
	text = raw_read(fd, "id: 1005\n", 5000, &closed);
	ok(ids_of(text, ids, 16) == 1 && ids[0] == 1005, "one job's only");
	free(text);
	close(fd);
}

static void ada_token(const char *secret)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE];

	hash_hex(secret, strlen(secret), hash);
	store_txn_token(t, &(struct token_row){.id = (char *)(uintptr_t) "u1",
	                                       .kind = (char *)(uintptr_t) "user",
	                                       .secret_hash = hash,
	                                       .owner = (char *)(uintptr_t) "ada",
	                                       .created_us = 1});
	hkit_commit(k, t);
}

/* Four events of tokens and one of a node, to a follower of that token, from the store and live. */
static void read_tokens(const char *token, int live, uint64_t first, const char *who, unsigned want)
{
	uint64_t ids[16];
	int fd = -1, closed;
	char *text, after[32], end[32];

	snprintf(after, sizeof(after), "%llu", (unsigned long long)first - 1);
	snprintf(end, sizeof(end), "id: %llu\n", (unsigned long long)first + 4);
	if (live) {
		fd = open_stream_as(token, "", after);
		text = raw_read(fd, "retry: 1000\n\n", 5000, &closed);
		free(text);
	}
	send_event(first, "token_made", "{\"id\":\"u2\",\"user\":\"bob\",\"by\":\"bob\"}");
	send_event(first + 1, "token_made", "{\"id\":\"u3\",\"user\":\"ada\",\"by\":\"root\"}");
	send_event(first + 2, "token_removed", "{\"id\":\"u2\",\"by\":\"bob\",\"user\":\"bob\"}");
	send_event(first + 3, "token_removed", "{\"id\":\"u9\",\"by\":\"ada\"}");
	send_event(first + 4, "drained", "{\"node\":\"n1\"}");
	if (!live)
		fd = open_stream_as(token, "", after);
	text = raw_read(fd, end, 5000, &closed);
	ok(ids_of(text, ids, 16) == want, "events of tokens, %s: %s", live ? "live" : "from the store", who);
	free(text);
	close(fd);
}

static void test_tokens(void)
{
	ada_token("ada-secret");
	read_tokens("ada-secret", 0, 33010, "a user sees her own only", 2);
	read_tokens("ada-secret", 1, 33020, "a user sees her own only", 2);
	read_tokens(hkit_token(k), 0, 33030, "an administrator sees all", 5);
	read_tokens(hkit_token(k), 1, 33040, "an administrator sees all", 5);
}

/* Events of warm pools belong to the cluster; a follower of a job sees those that name it. */
static void test_pools(void)
{
	uint64_t ids[16];
	int fd = open_stream("?job=1", "33100"), closed;
	char *text = raw_read(fd, "retry: 1000\n\n", 5000, &closed);

	free(text);
	send_event(33101, "pool_made", "{\"pool\":3,\"job\":1}");
	send_event(33102, "pool_made", "{\"pool\":4,\"job\":11}");
	send_event(33103, "pool_taken", "{\"pool\":3,\"job\":2,\"left_by\":1}");
	send_event(33104, "pool_changed", "{\"pool\":3}");
	send_event(33105, "node_lost", "{\"job\":1}");
	hkit_event(k, 33106, 1, "ended");
	text = raw_read(fd, "id: 33106\n", 5000, &closed);
	is_int(ids_of(text, ids, 16), 3, "one job's events of pools, live");
	ok(ids[0] == 33101 && ids[1] == 33103 && ids[2] == 33106, "those that name it");
	free(text);
	close(fd);
	fd = open_stream("?job=1", "33100");
	text = raw_read(fd, "id: 33106\n", 5000, &closed);
	is_int(ids_of(text, ids, 16), 3, "the same from the store");
	free(text);
	close(fd);
}

static void test_bad(void)
{
	static const char *const bad[] = {"Last-Event-ID: x", NULL};
	struct answer *a = http(k, "GET", "/api/v1/stream", "admin", NULL, bad);

	is_int(a->status, 400, "an id that is none");
	answer_free(a);
	a = http(k, "GET", "/api/v1/stream?job=99", "admin", NULL, NULL);
	is_int(a->status, 404, "a job that is not there");
	answer_free(a);
}

static void test_restart(void)
{
	struct hkit_options o = {.dir = hkit_dir(k)};
	char dir[512];
	uint64_t ids[32];
	int closed, fd = open_stream("", "1003");
	char *text = raw_read(fd, "id: 1005\n", 5000, &closed);

	is_int(ids_of(text, ids, 32), 2, "before a restart");
	free(text);
	snprintf(dir, sizeof(dir), "%s", hkit_dir(k));
	o.dir = dir;
	hkit_stop(k);
	text = raw_read(fd, NULL, 5000, &closed);
	ok(closed, "the connection ends with hearthd");
	free(text);
	close(fd);
	k = hkit_start(&o);
	fd = open_stream("", "1005");
	hkit_event(k, 1006, 1, "placed");
	text = raw_read(fd, "id: 1006\n", 5000, &closed);
	ok(ids_of(text, ids, 32) == 1 && ids[0] == 1006, "after it: exactly what came since");
	free(text);
	close(fd);
	fd = open_stream("", NULL);
	text = raw_read(fd, "retry: 1000\n\n", 5000, &closed);
	free(text);
	hkit_event(k, 1007, 1, "placed");
	text = raw_read(fd, "id: 1007\n", 5000, &closed);
	ok(ids_of(text, ids, 32) == 1 && ids[0] == 1007, "from now on, after a restart too");
	free(text);
	close(fd);
}

/* A reader that does not read while thousands of events come, then does. */
static void test_slow(void)
{
	enum { N = 30000 };
	uint64_t *ids = xcalloc(N + 16, sizeof(*ids));
	unsigned n, i, at;
	int fd = open_stream("", "1007"), small = 65536, closed, good = 1;
	char *text;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (at = 0; at < N; at += 1000)
		send_flood(2000 + at, 1, 1000);
	text = raw_read(fd, "id: 31999\n", 30000, &closed);
	n = ids_of(text, ids, N + 16);
	is_int(n, N, "a slow reader gets them all");
	for (i = 0; i < n && good; i++)
		good = ids[i] == 2000 + i;
	ok(good, "in order, none twice");
	free(text);
	free(ids);
	close(fd);
}

struct reader {
	pthread_t thread;
	unsigned missing, n;
	uint64_t last;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	uint64_t *ids = xcalloc(20000, sizeof(*ids)), want = 40000;
	unsigned i;
	int fd = open_stream("", "39999"), closed;
	char *text = raw_read(fd, "id: 49999\n", 30000, &closed);

	r->n = ids_of(text, ids, 20000);
	for (i = 0; i < r->n; i++, want++)
		r->missing += ids[i] != want;
	r->last = r->n ? ids[r->n - 1] : 0;
	free(text);
	free(ids);
	close(fd);
	return NULL;
}

/* Readers that come while a flood goes on. */
static void test_race(void)
{
	struct reader r[8] = {{0}};
	unsigned i;
	int good = 1;

	for (i = 0; i < 100; i++) {
		if (i % 10 == 5 && i / 10 < 8)
			pthread_create(&r[i / 10].thread, NULL, read_all, &r[i / 10]);
		send_flood(40000 + i * 100, 2, 100);
	}
	for (i = 0; i < 8; i++) {
		pthread_join(r[i].thread, NULL);
		good = good && r[i].n == 10000 && r[i].missing == 0 && r[i].last == 49999;
		if (!good)
			tap_diag("reader %u: %u events, %u wrong, last %llu", i, r[i].n, r[i].missing,
			         (unsigned long long)r[i].last);
	}
	ok(good, "eight readers that join in the middle of a flood miss nothing");
}

int main(void)
{
	k = hkit_start(NULL);
	hkit_job(k, 1, "a", NULL, "queued", 0);
	hkit_job(k, 2, "b", NULL, "queued", 0);
	hkit_event(k, 1001, 1, "placed");
	test_bad();
	hkit_stop(k);
	k = hkit_start(NULL);
	hkit_job(k, 1, "a", NULL, "queued", 0);
	hkit_event(k, 1001, 1, "placed");
	{
		struct store_txn *t = store_txn_new();
		struct job_row row = {.id = 2,
		                      .name = (char *)"b",
		                      .owner = (char *)"x",
		                      .experiment = (char *)"",
		                      .notes = (char *)"",
		                      .status = (char *)"queued",
		                      .queue = (char *)"",
		                      .spec = (char *)"{}",
		                      .exit_code = -1,
		                      .reason = (char *)"",
		                      .wanted = (char *)"",
		                      .cleanup = (char *)"",
		                      .idem_digest = (char *)""};

		store_txn_job(t, &row);
		hkit_commit(k, t);
	}
	test_replay_and_live();
	test_restart();
	test_slow();
	test_tokens();
	test_pools();
	test_race();
	hkit_stop(k);
	return tap_done();
}
