/*
 * Logs from an agent's connection to readers: whole, from an offset, from the end, followed; latency; events;
 * slow readers; names of streams; streams that do not exist yet or never end; acknowledgements.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/log_events.h"
#include "controller/api/log_names.h"
#include "controller/files/logs/logstore.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpagent.h"

static struct hkit *k;
static struct hagent *agent;

/* A job with one attempt, with a place on that node. */
static void job_on(uint64_t id, const char *node, const char *status)
{
	char *places = xasprintf("[{\"node\":\"other\",\"ranks\":1},{\"node\":\"%s\",\"ranks\":8}]", node);
	struct attempt_row at = {.job = id,
	                         .number = 1,
	                         .state =
	                             (char *)(uintptr_t)(strcmp(status, "running") != 0 ? "ended" : "running"),
	                         .outcome = (char *)"",
	                         .placement = places};
	struct store_txn *t = store_txn_new();

	hkit_job(k, id, "digits", NULL, status, 1);
	store_txn_attempt(t, &at);
	hkit_commit(k, t);
	free(places);
}

static int read_log(const char *path, int events, const char *last_id)
{
	int fd = raw_connect(k);
	char *text = xasprintf(
	    "GET /api/v1/jobs/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s%s%s%s\r\n", path,
	    hkit_token(k), events ? "Accept: text/event-stream\r\n" : "", last_id ? "Last-Event-ID: " : "",
	    last_id ? last_id : "", last_id ? "\r\n" : "");

	raw_send(fd, text);
	free(text);
	return fd;
}

static char *expect_log(const char *path, const char *needle)
{
	int fd = read_log(path, 0, NULL), closed;
	char *text = raw_read(fd, needle, 5000, &closed);

	close(fd);
	return text;
}

static void wait_durable(uint64_t job, const char *stream, uint64_t offset)
{
	struct wm_log_ack *ack;
	int good = 0;

	do {
		ack = hagent_expect(agent, WM_LOG_ACK, NULL, 5000);
		good = ack && ack->job == job && strcmp(ack->stream, stream) == 0 && ack->offset >= offset;
		if (ack)
			wire_free(WM_LOG_ACK, ack);
		else
			break;
	} while (!good);
	ok(good, "%s is acknowledged up to %llu", stream, (unsigned long long)offset);
}

static void test_reading(void)
{
	struct answer *a;
	char *text;

	hagent_log(agent, 1, "rank-0", 0, "first line\n", 0);
	hagent_log(agent, 1, "rank-0", 11, "second line\n", 0);
	wait_durable(1, "rank-0", 23);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-0", "admin", NULL, NULL);
	ok(a->status == 200 && strcmp(a->body, "first line\nsecond line\n") == 0,
	   "a stream that still grows, as it is");
	is_str(answer_header(a, "X-Hearth-Offset"), "0", "its offset");
	is_str(answer_header(a, "Content-Type"), "application/octet-stream", "its type");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-0?offset=11&limit=6", "admin", NULL, NULL);
	is_str(a->body, "second", "a part of it");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-0?offset=-5", "admin", NULL, NULL);
	ok(strcmp(a->body, "line\n") == 0 && strcmp(answer_header(a, "X-Hearth-Offset"), "18") == 0, "its end");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-0?offset=1000", "admin", NULL, NULL);
	ok(a->status == 200 && a->body_n == 0, "behind its end: nothing");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/logs", "admin", NULL, NULL);
	ok(strstr(a->body, "\"stream\":\"rank-0\"") && strstr(a->body, "\"size\":23") &&
	       strstr(a->body, "\"complete\":false"),
	   "the list: %s", a->body);
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-7", "admin", NULL, NULL);
	is_int(a->status, 404, "a stream that is not there");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-0?attempt=9", "admin", NULL, NULL);
	is_int(a->status, 404, "an attempt that is not there");
	answer_free(a);
	hagent_log(agent, 1, "rank-0", 0, "first line\n", 0); /* again, as after a lost acknowledgement */
	wait_durable(1, "rank-0", 23);
	hagent_log(agent, 1, "rank-0", 23, "", 1);
	text = expect_log("1/logs/rank-0?follow=1", "\r\n0\r\n\r\n");
	ok(strstr(text, "first line\nsecond line\n") && strstr(text, "\r\n0\r\n\r\n"),
	   "a follower of a complete stream ends with it");
	free(text);
	a = http(k, "GET", "/api/v1/jobs/1/logs", "admin", NULL, NULL);
	ok(strstr(a->body, "\"size\":23") && strstr(a->body, "\"complete\":true"), "nothing came twice");
	answer_free(a);
}

static void test_following(void)
{
	enum { N = 200 };
	uint64_t worst = 0, offset = 0, sum = 0;
	int fd = read_log("1/logs/rank-1?follow=1", 0, NULL), closed, i, good = 1;
	char line[32], *text;

	text = raw_read(fd, "HTTP/1.1 200", 150, &closed);
	ok(!*text, "a stream that does not exist yet: its follower waits");
	free(text);
	for (i = 0; i < N && good; i++) {
		uint64_t t0 = hkit_now_us(), took;

		snprintf(line, sizeof(line), "line %d.\n", i);
		hagent_log(agent, 1, "rank-1", offset, line, 0);
		offset += strlen(line);
		text = raw_read(fd, line, 5000, &closed);
		took = hkit_now_us() - t0;
		sum += took;
		worst = took > worst ? took : worst;
		good = strstr(text, line) != NULL;
		free(text);
	}
	ok(good, "each of %d lines reaches it", N);
	tap_diag("rank to follower: mean %llu us, worst %llu us", (unsigned long long)(sum / N),
	         (unsigned long long)worst);
	hagent_log(agent, 1, "rank-1", offset, "", 1);
	text = raw_read(fd, "0\r\n\r\n", 5000, &closed);
	ok(!!strstr(text, "0\r\n\r\n"), "the stream's end ends it");
	free(text);
	close(fd);
}

static void test_events(void)
{
	int fd, closed;
	char *text;

	hagent_log(agent, 1, "rank-2", 0, "one\n", 0);
	hagent_log(agent, 1, "rank-2", 4, "tw\xc3\xb6\n", 0);
	fd = read_log("1/logs/rank-2?follow=1", 1, NULL);
	text = raw_read(fd, "id: 9\n", 5000, &closed);
	ok(strstr(text, "data: {\"offset\":0,\"time\":\"20") && strstr(text, "\"fd\":1,\"text\":\"one\\n") &&
	       strstr(text, "tw\xc3\xb6\\n\"}"),
	   "lines as events: %s", text);
	free(text);
	hagent_log(agent, 1, "rank-2", 9, "three\xff\n", 0);
	text = raw_read(fd, "id: 16\n", 5000, &closed);
	free(text);
	hagent_log(agent, 1, "rank-2", 16, "", 1);
	text = raw_read(fd, "event: end\n", 5000, &closed);
	like(text, "event: end\n", "the end is an event, so that a browser does not come again");
	free(text);
	close(fd);
	fd = read_log("1/logs/rank-2?follow=1", 1, "9");
	text = raw_read(fd, "event: end\n", 5000, &closed);
	ok(!strstr(text, "\"one") && strstr(text, "three\xef\xbf\xbd\\n"),
	   "Last-Event-ID goes on exactly there; what is not UTF-8 is shown as such");
	free(text);
	close(fd);
	text = str_to_utf8("a\xc3\xa9\xc3", 4);
	is_str(text, "a\xc3\xa9\xef\xbf\xbd", "half a character");
	free(text);
	is_int((int)log_events_cut("a\xc3", 2), 1, "is waited for");
	is_int((int)log_events_cut("a\xe2\x82", 3), 2, "two thirds too");
	is_int((int)log_events_cut("a\xe2\x82\xac", 4), 0, "a whole one is not");
	is_int((int)log_events_cut("\xff", 1), 0, "nor is rubbish");
}

/* A stream of 64 MiB whose middle was cut out. Lines of 64 bytes begin with their offset. */
static uint64_t put_holed(const char *stream)
{
	enum { PIECE = 1u << 20, LINE = 64 };
	cleanup_free char *piece = xcalloc(1, PIECE + 1);
	uint64_t offset = 0;

	for (int i = 0; i < 64; i++, offset += PIECE) {
		for (size_t at = 0; at < PIECE; at += LINE) {
			memset(piece + at, '.', LINE);
			piece[at + (size_t)snprintf(piece + at, LINE, "%012llu", (unsigned long long)(offset + at))] =
			    '.';
			piece[at + LINE - 1] = '\n';
		}
		hagent_log(agent, 1, stream, offset, piece, 0);
		wait_durable(1, stream, offset + PIECE);
	}
	return offset;
}

/* Reads a stream as a client does: by the offset of each answer, and the bytes behind it. Returns the last
 * offset; *wrong: lines that are not where they should be, *rounds: answers. */
static uint64_t read_counting(const char *path, uint64_t offset, int *wrong, int *rounds)
{
	for (*wrong = *rounds = 0; *rounds < 5;) {
		cleanup_free char *at = xasprintf("%s&offset=%llu", path, (unsigned long long)offset), *text = NULL;
		int fd = read_log(at, 0, NULL), closed = 0, whole;
		const char *p;

		text = raw_read(fd, "\r\n0\r\n\r\n", 10000, &closed);
		close(fd);
		++*rounds;
		if (!(p = strstr(text, "X-Hearth-Offset: ")))
			return 0;
		offset = strtoull(p + 17, NULL, 10);
		whole = strstr(text, "\r\n0\r\n\r\n") != NULL;
		for (p = strstr(text, "\r\n\r\n") + 2; *p == '\r' && strtoul(p + 2, NULL, 16);) {
			size_t n = strtoul(p + 2, (char **)(uintptr_t)&p, 16);

			p += 2;
			for (size_t i = (64 - offset % 64) % 64; i + 64 <= n; i += 64)
				*wrong += strtoull(p + i, NULL, 10) != offset + i;
			offset += n;
			p += n;
		}
		if (whole)
			return offset;
	}
	return offset;
}

/* A reader of bytes counts them: it must never take a hole for bytes. */
static void test_hole(void)
{
	uint64_t end, to = 0;
	cleanup_free char *dir = xasprintf("%s/logs", hkit_dir(k));
	struct answer *a;
	struct err e;
	int wrong, rounds, fd, closed;
	char *text;

	end = put_holed("rank-6");
	if (logstore_cut(dir, 1, 1, "rank-6", &to, &e) < 0 || !to)
		tap_bail("the stream has no hole");
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-6?offset=2097152&limit=12", "admin", NULL, NULL);
	is_int(strtoll(answer_header(a, "X-Hearth-Offset"), NULL, 10), (int64_t)to,
	       "an answer that would begin in a hole begins behind it, and says so");
	is_int(strtoll(a->body, NULL, 10), (int64_t)to, "with the bytes that are there");
	answer_free(a);
	hagent_log(agent, 1, "rank-6", end, "", 1);
	is_int((int64_t)read_counting("1/logs/rank-6?follow=1", 0, &wrong, &rounds), (int64_t)end,
	       "a reader that counts bytes ends at the end of the stream");
	ok(wrong == 0 && rounds == 2, "each line is where its offset says: %d are not, in %d answers", wrong,
	   rounds);
	is_int((int64_t)read_counting("1/logs/rank-6?follow=1", (1 << 20) - 640, &wrong, &rounds), (int64_t)end,
	       "so does one that begins just before the hole");
	ok(wrong == 0 && rounds == 2, "after two answers, too: %d lines are wrong, %d answers", wrong, rounds);
	fd = read_log("1/logs/rank-6?follow=1&offset=1048000", 1, NULL);
	text = raw_read(fd, "event: end\n", 10000, &closed);
	ok(strstr(text, "event: skipped") && strstr(text, "event: end\n"), "events go on over the hole");
	free(text);
	close(fd);
}

/* A follower that stops reading for a while: it skips with a line that says so, and what it skipped is still
 * there. */
static void test_slow(void)
{
	enum { PIECE = 1u << 20, N = 40 };
	char *piece = xcalloc(1, PIECE + 1), *text, *at;
	uint64_t offset = 0, skipped = 0;
	int fd, small = 65536, closed, i;
	struct answer *a;

	for (i = 0; i < (int)PIECE; i++)
		piece[i] = (char)(i % 64 == 63 ? '\n' : 'a' + i % 26);
	hagent_log(agent, 1, "rank-3", offset, "begin\n", 0);
	offset = 6;
	fd = read_log("1/logs/rank-3?follow=1", 0, NULL);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	text = raw_read(fd, "begin\n", 5000, &closed);
	free(text);
	poll(NULL, 0, 50); /* it is live now: this read cannot be seen from here, and too early is no failure */
	for (i = 0; i < N; i++, offset += PIECE)
		hagent_log(agent, 1, "rank-3", offset, piece, 0);
	hagent_log(agent, 1, "rank-3", offset, "the end\n", 0);
	offset += 8;
	wait_durable(1, "rank-3", offset);
	text = raw_read(fd, "the end\n", 20000, &closed);
	at = strstr(text, "[hearth: ");
	ok(at && sscanf(at, "[hearth: %lu bytes skipped", &skipped) == 1 && skipped > 1000000,
	   "a slow follower skips: %.80s", at ? at : "-");
	ok(strstr(text, "the end\n") && strlen(text) < offset, "and is at the end again");
	free(text);
	close(fd);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-3", "admin", NULL, NULL);
	is_int((int64_t)a->body_n, (int64_t)offset, "nothing is missing on the disk");
	ok(a->body_n == offset && memcmp(a->body + 6 + 5 * PIECE, piece, PIECE) == 0, "nor changed");
	answer_free(a);
	free(piece);
}

static void test_ends(void)
{
	int fd, closed;
	uint64_t t0;
	char *text;

	job_on(2, "alpha", "running");
	fd = read_log("2/logs/rank-0?follow=1", 0, NULL);
	text = raw_read(fd, "HTTP", 100, &closed);
	free(text);
	job_on(2, "alpha", "failed");
	hkit_event(k, 900000, 2, "ended");
	text = raw_read(fd, "}", 5000, &closed);
	ok(strstr(text, "HTTP/1.1 404"), "a stream that never came: 404 when the job ends: %.60s", text);
	free(text);
	close(fd);
	job_on(3, "alpha", "running");
	hagent_log(agent, 3, "rank-0", 0, "then its node was lost\n", 0);
	fd = read_log("3/logs/rank-0?follow=1", 0, NULL);
	text = raw_read(fd, "lost\n", 5000, &closed);
	free(text);
	job_on(3, "alpha", "failed");
	t0 = hkit_now_us();
	hkit_event(k, 900001, 3, "attempt_ended");
	text = raw_read(fd, "0\r\n\r\n", 15000, &closed);
	ok(strstr(text, "0\r\n\r\n"), "a stream whose node is gone ends some seconds after its attempt (%llu ms)",
	   (unsigned long long)((hkit_now_us() - t0) / 1000));
	free(text);
	close(fd);
}

/* The files go later, on the thread that has them; the answer is the record's. */
static void test_removed(void)
{
	struct answer *a;

	job_on(4, "alpha", "running");
	hagent_log(agent, 4, "rank-0", 0, "still on the disk\n", 1);
	wait_durable(4, "rank-0", 18);
	hkit_job_removed(k, 4, "digits");
	a = http(k, "GET", "/api/v1/jobs/4/logs/rank-0", "admin", NULL, NULL);
	is_int(a->status, 404, "the log of a removed job is gone at once");
	ok(a->body && strstr(a->body, "logs of job 4 were removed"), "and says why: %s", a->body);
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/4/logs", "admin", NULL, NULL);
	is_int(a->status, 404, "so are its streams");
	answer_free(a);
}

/* The same for retention, which leaves the files to a later moment, too. */
static void test_retired(void)
{
	struct store_txn *t = store_txn_new();
	struct answer *a;

	job_on(5, "alpha", "running");
	hagent_log(agent, 5, "rank-0", 0, "still on the disk\n", 1);
	wait_durable(5, "rank-0", 18);
	job_on(5, "alpha", "completed");
	store_txn_retire(t, 5, STORE_LOGS, 1790000000000000ull);
	hkit_commit(k, t);
	a = http(k, "GET", "/api/v1/jobs/5/logs/rank-0", "admin", NULL, NULL);
	is_int(a->status, 404, "a log that retention has taken is gone at once");
	ok(a->body && strstr(a->body, "the logs of job 5 were removed by retention on 2026-09-21"),
	   "and says why: %s", a->body);
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/5/logs", "admin", NULL, NULL);
	is_int(a->status, 404, "so are its streams");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/5/metrics", "admin", NULL, NULL);
	is_int(a->status, 200, "its metrics are there");
	answer_free(a);
	t = store_txn_new();
	store_txn_retire(t, 5, STORE_METRICS, 1790000000000000ull);
	hkit_commit(k, t);
	a = http(k, "GET", "/api/v1/jobs/5/metrics/loss", "admin", NULL, NULL);
	ok(a->status == 404 && strstr(a->body, "by retention on 2026-09-21"), "until they go: %s", a->body);
	answer_free(a);
}

static void test_names(void)
{
	/* the second machine runs nothing itself */
	cJSON *places = cJSON_Parse("[{\"node\":\"m1\",\"ranks\":2},{\"node\":\"m0\",\"ranks\":0},"
	                            "{\"node\":\"m2\",\"ranks\":2}]");
	static const struct {
		const char *name, *node, *out;
	} cases[] = {
	    {"rank-3", NULL, "rank-3"},
	    {"mpirun", NULL, "mpirun"},
	    {"setup", NULL, "setup-algo-1"},
	    {"setup", "algo-2", "setup-algo-2"},
	    {"system", "m2", "system-algo-3"},
	    {"system-m2", NULL, "system-algo-3"},
	    {"setup-algo-7", NULL, "setup-algo-7"},
	    {"rank", NULL, "rank-0"},
	    {"rank", "m2", "rank-2"},
	    {"algo-3", NULL, "rank-2"},
	    {"algo-2", NULL, NULL},
	    {"m0", NULL, NULL},
	    {"setup", "m0", "setup-algo-2"},
	    {"m2", NULL, "rank-2"},
	    {"rank", "m3", NULL},
	    {"setup-m3", NULL, NULL},
	    {"rank-4", NULL, NULL},
	    {"rank-x", NULL, NULL},
	    {"rank-", NULL, NULL},
	    {"../x", NULL, NULL},
	    {"algo-9", NULL, NULL},
	    {"setupx", NULL, NULL},
	    {"", NULL, NULL},
	    {"algo-0", NULL, NULL},
	    {"rank-1/..", NULL, NULL},
	};
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[65] = "";
		struct err e = {.text = ""};
		int rc = log_name_choose(places, cases[i].name, cases[i].node, out, sizeof(out), &e);

		ok(cases[i].out ? rc == 0 && strcmp(out, cases[i].out) == 0 : rc < 0, "stream %s (node %s): %s%s",
		   cases[i].name, cases[i].node ? cases[i].node : "-", rc == 0 ? out : "", rc < 0 ? e.text : "");
	}
	cJSON_Delete(places);
}

/* Rank 3 is up and rank 2 is not yet: the first rank of their node is rank 2 all the same. */
static void test_first_rank_of_a_node(void)
{
	struct attempt_row at = {.job = 6,
	                         .number = 1,
	                         .state = "running",
	                         .outcome = "",
	                         .placement = "[{\"node\":\"m1\",\"ranks\":2},{\"node\":\"alpha\",\"ranks\":2}]"};
	struct rank_row third = {.job = 6,
	                         .attempt = 1,
	                         .rank = 3,
	                         .node = "alpha",
	                         .node_rank = 1,
	                         .local_rank = 1,
	                         .state = "running"};
	struct store_txn *t = store_txn_new();
	struct answer *a;

	hkit_job(k, 6, "digits", NULL, "running", 1);
	store_txn_attempt(t, &at);
	store_txn_rank(t, &third);
	hkit_commit(k, t);
	hagent_log(agent, 6, "rank-3", 0, "the second there\n", 0);
	hagent_log(agent, 6, "rank-2", 0, "the first there\n", 0);
	wait_durable(6, "rank-2", 16);
	a = http(k, "GET", "/api/v1/jobs/6/logs/rank?node=algo-2", "admin", NULL, NULL);
	is_str(a->body, "the first there\n", "the first rank of a node, while only a later one has started");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/6/logs/alpha", "admin", NULL, NULL);
	is_str(a->body, "the first there\n", "by the name of the machine, too");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/6/logs/rank?node=m3", "admin", NULL, NULL);
	is_int(a->status, 404, "another machine is refused");
	answer_free(a);
}

static void test_many_followers(void)
{
	enum { N = 200 };
	int fds[N], i, closed, good = 0;
	uint64_t t0;

	for (i = 0; i < N; i++)
		fds[i] = read_log("1/logs/rank-4?follow=1", 0, NULL);
	t0 = hkit_now_us();
	hagent_log(agent, 1, "rank-4", 0, "hello all\n", 0);
	for (i = 0; i < N; i++) {
		char *text = raw_read(fds[i], "hello all\n", 5000, &closed);

		good += strstr(text, "hello all\n") != NULL;
		free(text);
	}
	tap_diag("%d followers of one line: %llu us", N, (unsigned long long)(hkit_now_us() - t0));
	is_int(good, N, "every follower of a stream sees its line");
	for (i = 0; i < N; i++)
		close(fds[i]);
}

/* The disk fails once: the connection is closed, what follows on it makes no gap, and the agent's second try
 * is whole. */
static void test_disk(void)
{
#ifdef HEARTH_FAULTS
	struct answer *a;

	hagent_log(agent, 1, "rank-5", 0, "one\n", 0);
	wait_durable(1, "rank-5", 4);
	fault_arm("log.write", 1, 1);
	hagent_log(agent, 1, "rank-5", 4, "two\n", 0);
	hagent_log(agent, 1, "rank-5", 8, "three\n", 0);
	hagent_log(agent, 1, "rank-5", 14, "four\n", 0);
	ok(hagent_wait_closed(agent, 5000), "a log that cannot be written closes its connection");
	fault_clear();
	hagent_close(agent);
	agent = hagent_dial(k, "alpha", ROLE_BULK);
	ok(hagent_wait_open(agent, 5000) == 1, "the agent comes again");
	hagent_log(agent, 1, "rank-5", 4, "two\n", 0);
	hagent_log(agent, 1, "rank-5", 8, "three\nfour\n", 0);
	wait_durable(1, "rank-5", 19);
	a = http(k, "GET", "/api/v1/jobs/1/logs/rank-5", "admin", NULL, NULL);
	is_str(a->body, "one\ntwo\nthree\nfour\n", "and the log is whole");
	answer_free(a);
#else
	tap_skip("a build without failpoints");
#endif
}

/* Data of a node that has no place in the attempt are not taken; its agent is told not to send them again. */
static void test_strangers(void)
{
	struct answer *a;

	job_on(21, "beta", "running");
	hagent_log(agent, 21, "rank-0", 0, "not mine\n", 0);
	wait_durable(21, "rank-0", 9);
	a = http(k, "GET", "/api/v1/jobs/21/logs/rank-0", "admin", NULL, NULL);
	is_int(a->status, 404, "a node without a place in the attempt: nothing of it is there");
	answer_free(a);
	hagent_log(agent, 22, "rank-0", 0, "no such job\n", 0);
	wait_durable(22, "rank-0", 12);
	hkit_job(k, 23, "digits", NULL, "running", 0);
	hagent_log(agent, 23, "rank-0", 0, "no such attempt\n", 0);
	wait_durable(23, "rank-0", 16);
	a = http(k, "GET", "/api/v1/jobs/23/logs", "admin", NULL, NULL);
	ok(!strstr(a->body, "rank-0"), "nor of an attempt that is not on record: %s", a->body);
	answer_free(a);
	job_on(24, "alpha", "completed");
	hagent_log(agent, 24, "rank-0", 0, "late\n", 1);
	wait_durable(24, "rank-0", 5);
	a = http(k, "GET", "/api/v1/jobs/24/logs/rank-0", "admin", NULL, NULL);
	is_str(a->body, "late\n", "late data of an attempt that has ended are taken");
	answer_free(a);
	hagent_log(agent, 1, "rank-20", 0, "and mine\n", 0);
	wait_durable(1, "rank-20", 9);
	ok(hagent_wait_open(agent, 0) == 1, "the connection goes on");
}

/* The forced end of a log whose node is gone: the disk is full at first, the log thread's queue once. */
static void test_end_again(void)
{
#ifdef HEARTH_FAULTS
	for (int i = 0; i < 2; i++) {
		uint64_t job = 30 + (uint64_t)i;
		char *path = xasprintf("%llu/logs/rank-0?follow=1", (unsigned long long)job), *text;
		int fd, closed;

		job_on(job, "alpha", "running");
		hagent_log(agent, job, "rank-0", 0, "then its node was lost\n", 0);
		wait_durable(job, "rank-0", 23);
		fd = read_log(path, 0, NULL);
		text = raw_read(fd, "lost\n", 30000, &closed);
		free(text);
		fault_arm(i ? "log.end" : "log.write", 1, 1);
		hkit_event(k, 900010 + job, job, "attempt_ended");
		text = raw_read(fd, "0\r\n\r\n", 60000, &closed);
		ok(strstr(text, "0\r\n\r\n"), "%s: the end comes all the same",
		   i ? "no room in the queue" : "a full disk");
		fault_clear();
		free(text);
		free(path);
		close(fd);
	}
#else
	tap_skip("a build without failpoints");
#endif
}

int main(void)
{
	/* test_slow needs a stream of 40 MiB that is whole */
	k = hkit_start(&(struct hkit_options){.logs = {.stream = 48u << 20}});
	job_on(1, "alpha", "running");
	hagent_join(k, "alpha", 1);
	agent = hagent_dial(k, "alpha", ROLE_BULK);
	if (hagent_wait_open(agent, 5000) != 1)
		tap_bail("no connection: %s", hagent_why(agent));
	test_names();
	test_reading();
	test_following();
	test_events();
	test_slow();
	test_hole();
	test_many_followers();
	test_disk();
	test_first_rank_of_a_node();
	test_removed();
	test_retired();
	test_ends();
	test_strangers();
	test_end_again();
	hagent_close(agent);
	hkit_stop(k);
	return tap_done();
}
