/* jobctl against a scripted controller: source and artifacts up and down, logs, events, Ctrl-C. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"
#include "tests/unit/jobctl/jobctl_run.h"
#include "tests/unit/jobctl/jobctl_server.h"

/* ---- upload ---- */

/* Chunks that are missing are sent, the manifest last; the rest is not. */
static void wants_blobs(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	static char missing[1 << 20];
	(void)nth;
	if (!strcmp(q->method, "POST") && strstr(q->uri, "/blobs/missing")) {
		const char *list = strchr(q->body, '[');
		snprintf(missing, sizeof(missing), "{\"missing\":%s", *(int *)arg ? list : "[]}");
		a->body = missing;
	} else {
		a->body = "{\"id\":3}";
	}
}

static void test_upload(void)
{
	int all = 1;
	struct js *s = js_start(wants_blobs, &all, NULL);
	char *dir = jr_path("src"), *big = jr_path("src/big");
	mkdir(dir, 0700);
	jr_put_file("src/train.py", "print(1)\n");
	jr_put_file("src/.hearthignore", "*.py\n");
	jr_put_file("job.json", "{\"command\": [\"true\"], \"source_dir\": \"src\"}\n");
	FILE *f = fopen(big, "w");
	for (int i = 0; i < 5000000; i++)
		putc(i % 251, f);
	fclose(f);
	jr_expect(s, "submit $T/job.json", 0, "3\n", "");
	is_int(js_count_of(s, "POST", "/blobs/missing"), 1, "asked once");
	is_int(js_count_of(s, "PUT", "/blobs/"), 4,
	       "two chunks of the large file, one of the small ones, the manifest");
	const struct js_seen *manifest = js_last_of(s, "PUT");
	ok(!strncmp(manifest->body, "hearth-tree 1\n", 14), "the manifest comes last");
	char hex[HASH_HEX_SIZE];
	hash_hex(manifest->body, manifest->body_n, hex);
	like(manifest->uri, hex, "under its digest");
	like(js_last_of(s, "POST")->body, hex, "which the job names");
	is_str(manifest->content_type, "application/octet-stream", "as bytes");
	all = 0;
	jr_expect(s, "submit $T/job.json", 0, "3\n", "");
	is_int(js_count_of(s, "PUT", "/blobs/"), 4, "what is there is not sent again");
	unlink(big);
	free(big);
	free(dir);
	js_stop(s);
}

/* ---- get ---- */

struct artifact {
	char *manifest, digest[HASH_HEX_SIZE], chunk[HASH_HEX_SIZE];
	const char *data;
	char list[512];
};

static void gives_blobs(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	const struct artifact *t = arg;
	(void)nth;
	a->type = "application/octet-stream";
	if (strstr(q->uri, "/jobs/7"))
		a->body = t->list;
	else if (strstr(q->uri, t->digest))
		a->body = t->manifest;
	else if (strstr(q->uri, t->chunk))
		a->body = t->data;
	else
		a->status = 404;
}

static void test_get(void)
{
	struct artifact t = {.data = "weights"};
	hash_hex("weights", 7, t.chunk);
	t.manifest = xasprintf("hearth-tree 1\nf 640 7 model.bin %s:0:7\n", t.chunk);
	hash_hex(t.manifest, strlen(t.manifest), t.digest);
	snprintf(t.list, sizeof(t.list),
	         "{\"artifacts\":[{\"kind\":\"model\",\"attempt\":1,\"node\":\"n1\",\"digest\":\"%064d\"},{"
	         "\"kind\":\"model\",\"attempt\":2,\"node\":"
	         "\"n1\",\"digest\":\"%s\"},{\"kind\":\"output\",\"attempt\":2,\"digest\":\"no\"}],\"id\":7}",
	         0, t.digest);
	struct js *s = js_start(gives_blobs, &t, NULL);
	char *want = xasprintf("%s/got\n", tap_tmpdir());
	jr_expect(s, "get 7 model $T/got", 0, want, "");
	char *text = jr_read_text("got/model.bin");
	is_str(text, "weights", "the newest attempt's file is there");
	free(text);
	like(js_last_of(s, "GET")->uri, "?job=7&kind=model", "asked for as part of the job");
	jr_expect(s, "get 7 model $T/got", 4, "", "is not empty");
	jr_expect(s, "get 7 model $T/got --force", 0, want, "");
	jr_expect(s, "get 7 checkpoint $T/none", 3, "", "job 7 left no checkpoint");
	jr_expect(s, "get 7 output $T/bad", 4, "", "which is not a digest");
	t.data = "weighty";
	jr_expect(s, "get 7 model $T/torn", 4, "", "bytes that do not match the digest");
	char *torn = jr_path("torn");
	ok(rmdir(torn) == 0, "and nothing is left of the attempt");
	free(torn);
	free(want);
	js_stop(s);
	free(t.manifest);
}

/* ---- logs ---- */

struct story {
	_Atomic int logs, shows;
	int kind;
};

/* The stream breaks in the middle, answers 503, goes on; then attempt 2; then the job has ended. */
static void two_attempts(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	static const char *const first = "one\ntwo\nthree\n";
	struct story *st = arg;
	const char *offset = strstr(q->uri, "offset=");
	(void)nth;
	a->body = "{\"id\":5}";
	if (!strcmp(q->method, "POST"))
		return;
	if (!strstr(q->uri, "/logs/")) {
		int n = ++st->shows;
		a->body = n < 3   ? "{\"status\":\"running\",\"attempt_count\":1}"
		          : n < 5 ? "{\"status\":\"starting\",\"attempt_count\":2}"
		                  : "{\"status\":\"completed\",\"attempt_count\":2}";
		return;
	}
	int n = ++st->logs;
	a->chunked = 1;
	a->headers[0] = "X-Hearth-Attempt";
	a->headers[1] = strstr(q->uri, "attempt=2") ? "2" : "1";
	a->headers[2] = "X-Hearth-Offset";
	if (n == 1) {
		a->headers[3] = "0";
		a->body = first;
		a->body_n = 6;
		a->cut = 1;
	} else if (n == 2) {
		a->chunked = 0;
		a->status = 503;
		a->body = "{}";
	} else if (!strstr(q->uri, "attempt=2")) {
		a->headers[3] = "6";
		a->body = first + (offset ? atoi(offset + 7) : 0);
	} else {
		a->headers[3] = "0";
		a->body = "four\n";
	}
}

static void test_follow(void)
{
	struct story st = {0};
	struct js *s = js_start(two_attempts, &st, NULL);
	jr_expect(s, "logs 5 -f", 0, "one\ntwo\nthree\nfour\n", "[hearth: attempt 2]\njob 5 completed\n");
	like(js_seen(s, 0)->uri, "/logs/rank-0?offset=0&skip=0&follow=1&attempt=0",
	     "from the start, of the newest attempt");
	like(js_seen(s, 1)->uri, "offset=6&skip=0&follow=1&attempt=1",
	     "then from the next byte of the same attempt");
	js_stop(s);
	struct story third = {0};
	s = js_start(two_attempts, &third, NULL);
	jr_expect(s, "logs 5 -f --json --grep [rw]", 0,
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":4,\"text\":\"two\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":8,\"text\":\"three\"}\n"
	          "{\"attempt\":2,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"four\"}\n",
	          "[hearth: attempt 2]\njob 5 completed\n");
	js_stop(s);
	struct story sent = {0};
	s = js_start(two_attempts, &sent, NULL);
	jr_put_file("plain.json", "{\"command\": [\"true\"]}\n");
	jr_expect(s, "submit $T/plain.json -f --json", 0,
	          "{\n  \"id\": 5\n}\n{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"one\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":4,\"text\":\"two\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":8,\"text\":\"three\"}\n"
	          "{\"attempt\":2,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"four\"}\n",
	          "job 5 completed\n");
	js_stop(s);
	struct story again = {0};
	s = js_start(two_attempts, &again, NULL);
	jr_expect(s, "logs 5 -f --grep [ne]e$", 0, "one\nthree\n", NULL);
	js_stop(s);
}

/* A stream of 1024 bytes whose bytes 8 to 1000 are cut out: an answer over them breaks off, and the next one
 * begins behind them. */
static void holed(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	static char at[16];
	const char *offset = strstr(q->uri, "offset=");
	int from = offset ? atoi(offset + 7) : 0;
	(void)nth;
	(void)arg;
	a->body = "{\"status\":\"completed\",\"attempt_count\":1}";
	if (!strstr(q->uri, "/logs/"))
		return;
	from = from < 0 ? (from < -1024 ? 0 : 1024 + from) : from;
	from = from >= 8 && from < 1000 ? 1000 : from;
	snprintf(at, sizeof(at), "%d", from);
	a->chunked = 1;
	a->headers[0] = "X-Hearth-Offset";
	a->headers[1] = at;
	a->headers[2] = "X-Hearth-Attempt";
	a->headers[3] = "1";
	a->cut = from < 8;
	a->body = from < 8 ? "one\ntwo." : &"ee\nfour is the line.\n5\n"[from - 1000];
}

static void test_hole(void)
{
	static const char hole[] = "[hearth: 992 bytes are missing here: the log is longer than its limit]\n";
	struct js *s = js_start(holed, NULL, NULL);
	char *want = xasprintf("one\ntwo.\n%see\nfour is the line.\n5\n", hole);
	jr_expect(s, "logs 5", 0, want, "");
	jr_expect(s, "logs 5 -f", 0, want, "job 5 completed\n");
	free(want);
	like(js_last_of(s, "GET")->uri, "/jobs/5", "it ends");
	want = xasprintf("two.\n%sfour is the line.\n", hole);
	jr_expect(s, "logs 5 --grep [wu]", 0, want, "");
	free(want);
	jr_expect(s, "logs 5 --json", 0,
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":0,\"text\":\"one\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":4,\"text\":\"two.\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":1000,\"lost\":992}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":1000,\"text\":\"ee\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":1003,\"text\":\"four is the line.\"}\n"
	          "{\"attempt\":1,\"stream\":\"rank-0\",\"offset\":1021,\"text\":\"5\"}\n",
	          "");
	jr_expect(s, "logs 5 --tail 2", 0, "four is the line.\n5\n", "");
	jr_expect(s, "logs 5 --tail 9", 0, "ee\nfour is the line.\n5\n", "");
	js_stop(s);
}

static void simple_logs(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	struct story *st = arg;
	(void)nth;
	if (strstr(q->uri, "/logs?") || !strcmp(q->uri, "/api/v1/jobs/5/logs")) {
		a->body = "{\"streams\":[{\"stream\":\"setup-algo-1\",\"size\":5,\"attempt\":1},{\"stream\":"
		          "\"mpirun\",\"size\":0,\"attempt\":1}]}";
	} else if (strstr(q->uri, "/logs/setup-algo-1")) {
		a->chunked = 1;
		a->body = "pip!\n";
	} else if (strstr(q->uri, "/logs/rank-1?")) {
		a->chunked = 1;
		a->body = "later\n";
		a->headers[0] = "X-Hearth-Offset";
		a->headers[1] = "100";
		a->hang = strstr(q->uri, "follow=1") != NULL;
	} else if (strstr(q->uri, "/logs/") || strstr(q->uri, "/why")) {
		a->status = 404;
		a->body = "{\"detail\":\"no such stream\"}";
	} else {
		a->body = st->kind ? "{\"status\":\"running\",\"attempt_count\":1}"
		                   : "{\"status\":\"failed\",\"reason\":\"it broke\",\"attempt_count\":1}";
	}
}

static void test_logs(void)
{
	struct story st = {0};
	struct js *s = js_start(simple_logs, &st, NULL);
	jr_expect(s, "logs 5", 0, "pip!\n", "rank 0 wrote nothing; showing stream setup-algo-1");
	jr_expect(s, "logs 5 -f", 1, "pip!\n", "rank 0 wrote nothing");
	jr_expect(s, "logs 5 -f", 1, "pip!\n", "job 5 failed: it broke\nMore: jobctl show 5");
	jr_expect(s, "logs 5 -s mpirun -a 1 -f", 3, "", "no such stream");
	jr_expect(s, "logs 5 --rank 7", 3, "", "The streams are: setup-algo-1, mpirun");
	jr_expect(s, "logs 5 -a 1", 0, "pip!\n", "rank 0 wrote nothing");
	struct run r;
	jr_finish(&r, jr_start(js_url(s), "logs 5 -a 9", -1));
	like(r.err, "jobctl: job 5 has only 1 attempt; attempt 9 does not exist\n",
	     "no stream of another attempt");
	run_fini(&r);
	jr_expect(s, "logs 5 --rank 1", 0,
	          "[hearth: 100 bytes are missing here: the log is longer than its limit]\nlater\n", "");
	jr_expect(s, "logs 5 --rank 1 --offset -50 --attempt 3", 0, "later\n", "");
	like(js_last_of(s, "GET")->uri, "/logs/rank-1?offset=-50&skip=0&follow=0&attempt=3",
	     "a place before the end, an attempt");
	jr_expect(s, "logs 5 --stream setup --node 2", 3, "", "no such stream");
	is_int(js_count_of(s, "GET", "/logs/setup?offset=0&skip=0&follow=0&attempt=0&node=algo-2"), 1,
	       "a node by number");
	jr_expect(s, "logs 5 --node big-1", 3, "", NULL);
	is_int(js_count_of(s, "GET", "/logs/rank?offset=0&skip=0&follow=0&attempt=0&node=big-1"), 1,
	       "a node by name");
	js_stop(s);
}

/* Ctrl-C while nothing comes: it ends at once, the job is left alone. */
static void interrupt_one(const char *line, unsigned after, const char *err)
{
	struct story st = {.kind = 1};
	struct js *s = js_start(simple_logs, &st, NULL);
	struct run r;
	pid_t pid = jr_start(js_url(s), line, -1);
	is_int(js_wait(s, after, 20000), 0, "it runs");
	/* Until it has shown what there is, so that it waits now. */
	for (int i = 0; i < 2000 && after == 1; i++) {
		char *text = jr_read_text("stdout");
		int there = strstr(text, "later") != NULL;
		free(text);
		if (there)
			break;
		poll(NULL, 0, 10);
	}
	kill(pid, SIGINT);
	jr_finish(&r, pid);
	is_int(r.code, 130, line);
	like(r.err, err, "says what it says");
	is_int(js_count_of(s, "POST", "/stop"), 0, "and stops no job");
	run_fini(&r);
	js_stop(s);
}

/* ---- events ---- */

static void event_story(const struct js_seen *q, unsigned nth, struct js_answer *a, void *arg)
{
	struct story *st = arg;
	(void)nth;
	if (strstr(q->uri, "/events?")) {
		a->body = "{\"events\":[{\"id\":4,\"type\":\"placed\",\"data\":{}}]}";
		return;
	}
	a->chunked = 1;
	a->type = "text/event-stream";
	if (++st->logs == 1) {
		a->cut = 1;
		a->body = ": beat\n\nid: 5\nevent: launching\ndata: "
		          "{\"id\":5,\"type\":\"launching\",\"data\":{}}\n\nid: 6\ndata: {\"id\":6,";
	} else {
		a->hang = 1;
		a->body = "id: 6\r\ndata: "
		          "{\"id\":6,\"type\":\"outcome\",\"data\":{}}\r\n\r\ndata:{\"id\":7,\"type\":\"ended\","
		          "\"data\":{}}\n\n";
	}
}

static void test_events(void)
{
	struct story st = {0};
	struct js *s = js_start(event_story, &st, NULL);
	struct run r;
	jr_finish(&r, jr_start(js_url(s), "events 5 -f --json", -1));
	is_int(r.code, 0, "events until the job has ended");
	is_str(r.out,
	       "{\"id\":4,\"type\":\"placed\",\"data\":{}}\n{\"id\":5,\"type\":\"launching\",\"data\":{}}\n"
	       "{\"id\":6,\"type\":\"outcome\",\"data\":{}}\n{\"id\":7,\"type\":\"ended\",\"data\":{}}\n",
	       "each once, over a broken connection");
	is_str(js_seen(s, 1)->last_event_id, "4", "behind what was read");
	is_str(js_seen(s, 2)->last_event_id, "5", "and behind what was seen");
	run_fini(&r);
	js_stop(s);
}

int main(void)
{
	jr_init();
	test_upload();
	test_get();
	test_follow();
	test_hole();
	test_logs();
	interrupt_one("logs 5 --rank 1 -f", 1, "");
	interrupt_one("wait 9", 2, "");
	test_events();
	return tap_done();
}
