/*
 * data_link, tailer, points: over a real connection to a controller's end: every byte once and in order,
 * records, ends, cuts of the connection, restarts of the agent in the middle, a controller that is slow or
 * silent, points neither lost nor doubled.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/link/data_link.h"
#include "agent/logs/metrics.h"
#include "agent/logs/nodelog.h"
#include "agent/logs/segments.h"
#include "agent/logs/tailer.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/logs/data_link_ctl.h"

static struct data_link_ctl ctl;
static struct agent_env env;
static struct data_link *data_link;
static struct tailer *tailer;

static void agent_start(void)
{
	data_link = data_link_create(&env, tls_ca_pem(ca), cert_path, key_path);
	tailer = tailer_create(&env, data_link);
}

static void agent_stop(void)
{
	tailer_destroy(tailer);
	data_link_destroy(data_link);
	loop_run_once(loop, 0);
}

static char *logdir(const char *stream)
{
	return xasprintf("%s/jobs/%s/logs/%s", env.cfg.data_dir, stream, stream); /* a job of its own each */
}

static struct tail *start(uint64_t job, const char *stream, uint32_t rank, const struct job_spec *spec)
{
	cleanup_free char *dir = logdir(stream);
	struct tail_params p = {
	    .job = job, .epoch = 1, .attempt = 1, .rank = rank, .stream = stream, .logdir = dir, .spec = spec};

	return tail_start(tailer, &p);
}

static void set_done(void *arg)
{
	(*(int *)arg)++;
}

static void finish(struct tail *tl)
{
	int done = 0;

	tail_finish(tl, set_done, &done);
	UNTIL(done);
	is_int(done, 1, "drained");
	tail_destroy(tl);
}

/* ---- bytes -----------------------------------------------------------------------------------------------
 */

static void test_live(void)
{
	cleanup_free char *dir = logdir("rank-0");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct data_link_ctl_stream *s = data_link_ctl_stream(&ctl, "7.1/rank-0");
	struct tail *tl = start(7, "rank-0", 0, NULL);
	uint64_t at, sum = 0, worst = 0;
	char line[32];

	UNTIL(ctl.opened);
	is_int(ctl.opened, 1, "connected");
	nodelog_bytes(n, "first\n", 6);
	UNTIL(s->n == 6);
	is_str(s->data, "first\n", "arrives");
	for (int i = 0; i < 100; i++) {
		size_t want = s->n + 10;

		snprintf(line, sizeof(line), "line %04d\n", i);
		at = clock_boot_us(clock_real());
		nodelog_bytes(n, line, 10);
		UNTIL(s->n == want);
		at = clock_boot_us(clock_real()) - at;
		sum += at;
		worst = at > worst ? at : worst;
	}
	/* A number to look at, no verdict: this machine may be busy. */
	tap_diag("write to received: mean %" PRIu64 " us, worst %" PRIu64 " us", sum / 100, worst);
	is_int(s->n, 1006, "a hundred lines, each sent before the next is written");
	is_int(s->sent_again, 0, "nothing twice");
	like(s->recs, "0@1 ", "with index records");
	is_int(s->eof, 0, "no end yet");
	finish(tl);
	is_int(s->eof, 1, "an end");
	nodelog_close(n);
}

static void test_empty(void)
{
	struct tail *tl = start(7, "empty", NO_RANK, NULL);

	finish(tl);
	is_int(data_link_ctl_stream(&ctl, "7.1/empty")->eof, 1, "an empty stream has an end too");
}

/* Bytes with a known pattern. */
static void flood(struct nodelog *n, uint64_t from, size_t len)
{
	char *p = xmalloc(len);

	for (size_t i = 0; i < len; i++)
		p[i] = (char)('a' + (from + i) % 23);
	nodelog_bytes(n, p, len);
	free(p);
}

static int is_flood(const struct data_link_ctl_stream *s, size_t len)
{
	if (s->n != len)
		return 0;
	for (size_t i = 0; i < len; i++)
		if (s->data[i] != (char)('a' + i % 23))
			return 0;
	return 1;
}

static unsigned files_in(const char *dir)
{
	struct segments d;
	unsigned n;

	segments_open(&d, dir, NULL);
	n = (unsigned)d.n;
	segments_close(&d);
	return n;
}

static void test_cuts(void)
{
	cleanup_free char *dir = logdir("cut");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct data_link_ctl_stream *s = data_link_ctl_stream(&ctl, "8.1/cut");
	struct tail *tl = start(8, "cut", 3, NULL);
	uint64_t len = 0;

	for (int i = 0; i < 30; i++) {
		flood(n, len, 1000000);
		len += 1000000;
		if (i % 7 == 3) {
			UNTIL(s->n > len / 2);
			data_link_ctl_drop(&ctl);
		}
		loop_run_once(loop, 0);
	}
	UNTIL(s->n == len);
	ok(is_flood(s, len), "30 MB over 4 cuts: every byte, in order");
	is_int(s->lost, 0, "nothing lost");
	tap_diag("sent again after cuts: %" PRIu64 " bytes", s->sent_again);
	ok(s->sent_again < 50u << 20, "not much twice");
	finish(tl);
	ok(files_in(dir) <= 2, "segments are removed when durable");
	nodelog_close(n);
}

static void test_slow_controller(void)
{
	cleanup_free char *dir = logdir("slow");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct data_link_ctl_stream *s = data_link_ctl_stream(&ctl, "9.1/slow");
	struct tail *tl;
	size_t before;
	unsigned segments;

	ctl.hold_acks = 1;
	tl = start(9, "slow", 0, NULL);
	for (int i = 0; i < 20; i++)
		flood(n, (uint64_t)i * 1000000, 1000000);
	segments = files_in(dir);
	UNTIL(s->n > DATA_LINK_STREAM_WINDOW / 2);
	/* Until nothing more comes for 300 ms. */
	before = 1;
	for (uint64_t quiet = clock_boot_us(clock_real()); clock_boot_us(clock_real()) - quiet < 300000;) {
		loop_run_once(loop, 10);
		if (s->n != before)
			quiet = clock_boot_us(clock_real());
		before = s->n;
	}
	ok(s->n <= DATA_LINK_STREAM_WINDOW && s->n > DATA_LINK_STREAM_WINDOW / 2,
	   "stops at the window: %zu bytes", s->n);
	is_int(files_in(dir), segments, "nothing is removed that is not durable");
	data_link_ctl_ack_all(&ctl);
	UNTIL(s->n == 20000000);
	ok(is_flood(s, 20000000), "goes on when acknowledged");
	finish(tl);
	nodelog_close(n);
}

/* The agent ends and another one comes, again and again, while the stream grows. */
static void test_restarts(void)
{
	cleanup_free char *dir = logdir("restart");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct data_link_ctl_stream *s = data_link_ctl_stream(&ctl, "10.1/restart");
	struct tail *tl = NULL;
	uint64_t len = 0;

	for (int i = 0; i < 12; i++) {
		size_t want;

		tl = start(10, "restart", 0, NULL);
		flood(n, len, 700000);
		len += 700000;
		want = len - 300000;
		UNTIL(s->n >= want);
		tail_destroy(tl);
		agent_stop();
		agent_start();
	}
	tl = start(10, "restart", 0, NULL);
	finish(tl);
	ok(is_flood(s, len), "every byte over 12 restarts");
	is_int(s->eof, 1, "and the end");
	tap_diag("sent again after restarts: %" PRIu64 " bytes", s->sent_again);
	ok(s->sent_again < 12u * 5000000, "an agent that starts again does not send all again");
	nodelog_close(n);
}

static void test_gap(void)
{
	cleanup_free char *dir = logdir("gap"), *path = NULL;
	char name[SEGMENT_NAME_SIZE];
	struct tail *tl;
	struct err e;

	fs_mkdir_p(dir, 0755, &e);
	for (uint64_t off = 0; off <= 30; off += 15) {
		segment_name(name, off, "log");
		path = xasprintf("%s/%s", dir, name);
		fs_replace(path, "0123456789", 10, 0644, &e);
		free(path);
		path = NULL;
	}
	tl = start(11, "gap", 0, NULL);
	finish(tl);
	is_str(data_link_ctl_stream(&ctl, "11.1/gap")->data, "0123456789#####0123456789#####0123456789",
	       "holes are holes");
}

/* A disk that filled at once: segments of which not a byte was written. */
static void test_gap_at_end(void)
{
	cleanup_free char *dir = logdir("lost"), *first = NULL, *last = NULL;
	char name[SEGMENT_NAME_SIZE];
	struct err e;

	fs_mkdir_p(dir, 0755, &e);
	segment_name(name, 0, "log");
	first = xasprintf("%s/%s", dir, name);
	segment_name(name, 15, "log");
	last = xasprintf("%s/%s", dir, name);
	fs_replace(first, "", 0, 0644, &e);
	fs_replace(last, "", 0, 0644, &e);
	finish(start(12, "lost", NO_RANK, NULL));
	is_int(data_link_ctl_stream(&ctl, "12.1/lost")->eof, 1, "a stream of lost bytes alone has an end");
	fs_replace(first, "0123456789", 10, 0644, &e);
	finish(start(12, "lost", NO_RANK, NULL));
	is_int(data_link_ctl_stream(&ctl, "12.1/lost")->eof, 1, "one that ends with lost bytes, too");
}

static void test_many_streams(void)
{
	struct nodelog *n[16];
	struct tail *tl[16];
	int good = 0;

	for (int i = 0; i < 16; i++) {
		cleanup_free char *stream = xasprintf("many-%d", i), *dir = logdir(stream);

		n[i] = nodelog_open(dir, env.clock, NULL);
		tl[i] = start(12, stream, (uint32_t)i, NULL);
		flood(n[i], 0, 3000000);
	}
	for (int i = 0; i < 16; i++) {
		cleanup_free char *name = xasprintf("12.1/many-%d", i);
		struct data_link_ctl_stream *s = data_link_ctl_stream(&ctl, name);

		UNTIL(s->n == 3000000);
		good += is_flood(s, 3000000);
		tail_destroy(tl[i]);
		nodelog_close(n[i]);
	}
	is_int(good, 16, "sixteen streams at once, 48 MB");
}

/* ---- points ----------------------------------------------------------------------------------------------
 */

static struct spec_metric patterns[] = {
    {(char *)(uintptr_t) "loss", (char *)(uintptr_t) "loss=(\\S+)"},
    {(char *)(uintptr_t) "step", (char *)(uintptr_t) "step=([0-9]+)"},
};
static const struct job_spec spec = {.metrics = patterns, .n_metrics = 2};

static void forget_points(void)
{
	ctl.points[0] = '\0';
	ctl.points_n = ctl.n_points = 0;
	ctl.last_seq = ctl.batches = ctl.repeated = 0;
}

static void add_json(const char *dir, const char *text)
{
	cleanup_free char *path = xasprintf("%s/metrics.jsonl", dir);
	FILE *f = fopen(path, "ae");

	if (!f || fputs(text, f) < 0)
		tap_bail("%s", path);
	fclose(f);
}

static void test_points(void)
{
	cleanup_free char *dir = logdir("p0");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct tail *tl = start(20, "p0", 5, &spec), *node = start(20, "setup-x", NO_RANK, NULL);

	forget_points();
	nodelog_bytes(n, "loss=2\n", 7);
	UNTIL(ctl.n_points == 1);
	is_str(ctl.points, "5:loss=2@-1 ", "a point before any step has none");
	forget_points();
	nodelog_bytes(n, "step=1 loss=0.5\nlo", 18);
	UNTIL(ctl.n_points == 2);
	is_str(ctl.points, "5:step=1@1 5:loss=0.5@1 ", "points of a line");
	nodelog_bytes(n, "ss=0.25\n", 8);
	UNTIL(ctl.n_points == 3);
	like(ctl.points, "5:loss=0.25@1", "a line in two pieces");
	add_json(dir, "{\"step\":7,\"acc\":0.9,\"x\":NaN}\n");
	UNTIL(ctl.n_points == 6);
	like(ctl.points, "5:step=7@7 5:acc=0.9@7 5:x=nan@7", "the metrics file");
	nodelog_bytes(n, "loss=9", 6);
	finish(tl);
	like(ctl.points, "5:loss=9@1", "an unfinished last line counts at the end");
	finish(node);
	nodelog_close(n);
}

/* Points 0 .. n-1, each once and in order? */
static int in_order(unsigned n)
{
	const char *p = ctl.points;
	unsigned rank;
	double v;
	long long step;
	int len;

	for (unsigned i = 0; i < n; i++) {
		if (sscanf(p, "%u:loss=%lf@%lld %n", &rank, &v, &step, &len) != 3 || v != (double)i ||
		    step != METRIC_NO_STEP)
			return 0;
		p += len;
	}
	return *p == '\0';
}

static void write_losses(struct nodelog *n, unsigned from, unsigned to)
{
	char line[64];

	for (unsigned i = from; i < to; i++)
		nodelog_bytes(n, line, (size_t)snprintf(line, sizeof(line), "loss=%u\n", i));
}

static void test_points_once(void)
{
	cleanup_free char *dir = logdir("q0");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct job_spec one = {.metrics = patterns, .n_metrics = 1};
	struct tail *tl;
	unsigned wrote = 0, target, batches;

	forget_points();
	for (int i = 0; i < 10; i++) {
		tl = start(21, "q0", 0, &one);
		write_losses(n, wrote, wrote + 1500);
		wrote += 1500;
		ctl.hold_metrics = i % 3 == 1; /* taken, but the agent never hears of it */
		target = (unsigned)ctl.n_points + 700;
		batches = ctl.batches;
		UNTIL(ctl.hold_metrics ? ctl.batches > batches : ctl.n_points >= target);
		if (i % 3 == 2)
			data_link_ctl_drop(&ctl);
		tail_destroy(tl);
		agent_stop();
		agent_start();
	}
	ctl.hold_metrics = 0;
	tl = start(21, "q0", 0, &one);
	finish(tl);
	is_int(ctl.n_points, wrote, "as many points as lines, over 10 restarts");
	ok(in_order(wrote), "each once, in order");
	ok(ctl.repeated > 0, "some batches came twice and were known by their number (%u)", ctl.repeated);
	nodelog_close(n);
}

static void test_points_slow(void)
{
	cleanup_free char *dir = logdir("r0");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct job_spec one = {.metrics = patterns, .n_metrics = 1};
	struct tail *tl;

	forget_points();
	ctl.hold_metrics = 1;
	tl = start(22, "r0", 0, &one);
	write_losses(n, 0, 20000);
	UNTIL(data_link_ctl_stream(&ctl, "22.1/r0")->n > 100000);
	for (int i = 0; i < 100; i++)
		loop_run_once(loop, 2);
	ok(ctl.batches == 1, "one batch under way, the rest waits on disk");
	ctl.hold_metrics = 0;
	data_link_ctl_drop(&ctl);
	finish(tl);
	ok(in_order(20000), "all of them in the end");
	nodelog_close(n);
}

/* What a crash, a full disk or a bad sector leaves of the small files must not end the agent. */
static void test_spoilt_state(void)
{
	size_t seen;
	cleanup_free char *dir = logdir("s0"), *state = xasprintf("%s/jobs/s0/logs/metrics", env.cfg.data_dir);
	cleanup_free char *acked = xasprintf("%s/acked", dir);
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct job_spec one = {.metrics = patterns, .n_metrics = 1};
	struct tail *tl;
	char *good, *bad;
	size_t len = 0;
	int again = 0;

	forget_points();
	ctl.hold_metrics = 1;
	tl = start(23, "s0", 0, &one);
	write_losses(n, 0, 50);
	UNTIL(ctl.batches);
	tail_destroy(tl);
	if (fs_read_file(state, 1 << 20, &good, &len, NULL) < 0)
		tap_bail("no state");
	bad = xmalloc(len + 16);
	for (unsigned i = 0; i < 400; i++) {
		uint16_t rnd[2];
		size_t cut;

		random_bytes(rnd, sizeof(rnd));
		cut = i % 2 ? len : rnd[0] % (len + 1);
		memcpy(bad, good, len);
		bad[rnd[1] % len] ^= (char)(1 << i % 8);
		fs_replace(state, bad, cut, 0600, NULL);
		fs_replace(acked, bad, cut < 30 ? cut : 30, 0600, NULL);
		tl = start(23, "s0", 0, &one);
		loop_run_once(loop, 0);
		tail_destroy(tl);
		again++;
	}
	is_int(again, 400, "spoilt state files are survived");
	unlink(state);
	unlink(acked);
	ctl.hold_metrics = 0;
	/* What the tails above sent is still on its way: until nothing more comes. */
	do {
		seen = ctl.batches + ctl.repeated;
		for (int i = 0; i < 30; i++)
			loop_run_once(loop, 10);
	} while (seen != ctl.batches + ctl.repeated);
	forget_points();
	tl = start(23, "s0", 0, &one);
	finish(tl);
	ok(in_order(50), "without a state all is read again");
	free(good);
	free(bad);
	nodelog_close(n);
}

/* ---- questions
 * --------------------------------------------------------------------------------------------- */

struct answer {
	int n, rc;
	struct err e;
};

static void on_answer(int rc, uint16_t type, void *reply, const struct err *e, void *arg)
{
	struct answer *a = arg;

	a->n++;
	a->rc = rc;
	if (e)
		a->e = *e;
	wire_free(type, reply);
}

static void test_requests(void)
{
	struct wm_blob_get m = {.digest = (char *)(uintptr_t) "00"};
	struct answer a = {0}, late = {0}, again = {0};

	data_link_request(data_link, WM_BLOB_GET, &m, 20000, on_answer, &a);
	UNTIL(a.n);
	is_int(a.rc, 0, "answered");
	ctl.deaf = 1;
	data_link_request(data_link, WM_BLOB_GET, &m, 50, on_answer, &late);
	UNTIL(late.n);
	is_int(late.e.code, ERR_TIMEOUT, "a deadline");
	data_link_request(data_link, WM_BLOB_GET, &m, 20000, on_answer, &again);
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, 1);
	ctl.deaf = 0;
	data_link_ctl_drop(&ctl);
	UNTIL(again.n);
	is_int(again.rc, 0, "asked again on a new connection");
	ctl.deaf = 1;
	memset(&late, 0, sizeof(late));
	data_link_request(data_link, WM_BLOB_GET, &m, 20000, on_answer, &late);
	agent_stop();
	is_int(late.e.code, ERR_UNAVAILABLE, "the end of the agent answers all");
	ctl.deaf = 0;
	agent_start();
}

/* ---- dialled again --------------------------------------------------------------------------------------
 */

/* What the agent says itself: how many connections came to nothing before this one. */
static unsigned opens, failures;

static void hear_opens(enum log_level level, const char *line, void *arg)
{
	const char *key = "event=bulk_open failures=", *at = strstr(line, key);

	(void)level;
	(void)arg;
	if (!at)
		return;
	opens++;
	failures = (unsigned)strtoul(at + strlen(key), NULL, 10);
}

static uint64_t later_boot_us(const struct clock *c)
{
	return clock_boot_us(clock_real()) + c->fake_boot_us;
}

static void drop_and_wait(void)
{
	unsigned before = opens;

	data_link_ctl_drop(&ctl);
	UNTIL(opens > before && data_link_is_up(data_link));
}

/* A controller that takes each connection and ends it at the first line must be left alone ever longer. */
static void test_full_disk(void)
{
	cleanup_free char *dir = logdir("full");
	struct clock later = *clock_real();
	struct nodelog *n;
	struct tail *tl;

	UNTIL(data_link_is_up(data_link));
	log_set_sink(hear_opens, NULL);
	n = nodelog_open(dir, env.clock, NULL);
	ctl.full = 1;
	tl = start(70, "full", 0, NULL);
	nodelog_line(n, "no room for this");
	UNTIL(failures >= 4);
	ok(failures >= 4, "connections that open and carry nothing count as failed, %u of %u", failures, opens);
	ctl.full = 0;
	finish(tl);
	drop_and_wait();
	is_int(failures, 1, "what was acknowledged makes up for them");
	drop_and_wait();
	is_int(failures, 2, "one that was short and idle does not");
	later.boot_us = later_boot_us;
	later.fake_boot_us = 11000000;
	env.clock = &later;
	drop_and_wait();
	is_int(failures, 1, "one that has lived for 10 s does");
	env.clock = clock_real();
	log_set_sink(NULL, NULL);
	nodelog_close(n);
}

/* Points count, too: here not a byte of log is acknowledged. Of two batches the second is sent when the
 * acknowledgement of the first has come. */
static void test_points_are_use(void)
{
	cleanup_free char *dir = logdir("use");
	struct nodelog *n = nodelog_open(dir, env.clock, NULL);
	struct job_spec one = {.metrics = patterns, .n_metrics = 1};
	unsigned batches;
	struct tail *tl;

	log_set_sink(hear_opens, NULL);
	drop_and_wait();
	drop_and_wait();
	is_int(failures, 2, "two connections came to nothing");
	forget_points();
	batches = ctl.batches;
	ctl.hold_acks = 1;
	tl = start(71, "use", 0, &one);
	for (unsigned i = 1; i <= 2; i++) {
		write_losses(n, i, i + 1);
		UNTIL(ctl.batches >= batches + i);
	}
	drop_and_wait();
	is_int(failures, 1, "metrics that were acknowledged make up for them");
	data_link_ctl_ack_all(&ctl);
	finish(tl);
	log_set_sink(NULL, NULL);
	nodelog_close(n);
}

#define DIAL_STEPS 200 /* of 10 ms at most: they end before the pause does */

/* The control connection is there again: nobody waits for the end of a long pause. */
static void test_dial_now(void)
{
	int opened = ctl.opened, steps = 0;

	ctl.closed_port = 1;
	ctl.refused = 0;
	data_link_ctl_drop(&ctl);
	UNTIL(ctl.refused >= 5); /* the next pause is one of 2.5 s at least */
	ctl.closed_port = 0;
	data_link_dial_now(data_link);
	/* Both ends are on this loop, so no step but those of the first pause is without an event. */
	for (; ctl.opened == opened && steps < DIAL_STEPS; steps++)
		loop_run_once(loop, 10);
	ok(ctl.opened > opened, "dialled at once, not after the pause: %d steps", steps);
	opened = ctl.opened;
	data_link_dial_now(data_link);
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, 1);
	is_int(ctl.opened, opened, "one that is up stays as it is");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* as the agent does */
	ends_start();
	data_link_ctl_start(&ctl);
	data_link_ctl_env(&ctl, &env, "agent");
	agent_start();
	test_live();
	test_empty();
	test_cuts();
	test_slow_controller();
	test_restarts();
	test_gap();
	test_gap_at_end();
	test_many_streams();
	test_points();
	test_points_once();
	test_points_slow();
	test_spoilt_state();
	test_requests();
	test_full_disk();
	test_points_are_use();
	test_dial_now();
	agent_stop();
	data_link_ctl_stop(&ctl);
	data_link_ctl_env_fini(&env);
	ends_stop();
	return tap_done();
}
