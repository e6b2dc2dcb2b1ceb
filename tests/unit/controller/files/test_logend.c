/* logstore: the end of streams, compression, lists of streams, readers in other threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "controller/files/logs/logstore.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/files/loglab.h"

/* ---- the end, compression ---- */

static uint8_t *make_bytes(size_t n)
{
	uint8_t *p = xmalloc(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)((i * 2654435761u) >> 13 & (i % 7 ? 0x1f : 0xff));
	return p;
}

static void put_all(struct lab *l, const char *stream, const uint8_t *data, size_t n, uint64_t from)
{
	struct err e;

	for (size_t at = 0; at < n; at += 700001) {
		struct log_chunk c = {.job = 1,
		                      .attempt = 1,
		                      .stream = stream,
		                      .offset = from + at,
		                      .data = data + at,
		                      .n = n - at < 700001 ? n - at : 700001};

		if (logstore_append(l->ls, &c, &e) < 0)
			tap_bail("append: %s", e.text);
	}
}

static int same_bytes(struct lab *l, const char *stream, uint64_t offset, const uint8_t *want, size_t n)
{
	uint8_t *got = xmalloc(n + 1);
	size_t len = 0;
	struct err e;
	int rc = logstore_read(l->dir, 1, 1, stream, offset, got, n, &len, NULL, NULL, &e) == 0 && len == n &&
	         memcmp(got, want, n) == 0;

	free(got);
	return rc;
}

static void test_finish(void)
{
	const size_t n = 5 * 1024 * 1024 + 12345;
	uint8_t *data = make_bytes(n);
	char raw[1024], zst[1024], command[2048];
	struct log_stream st;
	struct stat s;
	struct lab l;
	struct err e;

	lab_open(&l, "finish");
	snprintf(raw, sizeof(raw), "%s/1/1/rank-0.log", l.dir);
	snprintf(zst, sizeof(zst), "%s/1/1/rank-0.zst", l.dir);
	put_all(&l, "rank-0", data, n, 0);
	put_all(&l, "rank-1", (const uint8_t *)"short", 5, 0);
	is_int(logstore_finish(l.ls, 1, 1, &e), 0, "logstore_finish");
	ok(l.complete, "followers are told");
	ok(logstore_stat(l.dir, 1, 1, "rank-0", &st, &e) == 0 && st.complete && st.size == n,
	   "complete at once, before it is compressed");
	lab_settle(&l);
	is_int(stat(zst, &s), 0, "there is a compressed file");
	ok(access(raw, F_OK) < 0 && (size_t)s.st_size < n * 3 / 4, "compressed: %zu -> %lld bytes", n,
	   (long long)s.st_size);
	ok(same_bytes(&l, "rank-0", 0, data, n), "all of it reads the same");
	ok(same_bytes(&l, "rank-0", 1048570, data + 1048570, 20), "across frames");
	ok(same_bytes(&l, "rank-0", 3 * 1048576, data + 3 * 1048576, 1048576), "a whole frame");
	ok(same_bytes(&l, "rank-0", n - 7, data + n - 7, 7), "the last bytes");
	ok(logstore_stat(l.dir, 1, 1, "rank-0", &st, &e) == 0 && st.complete && st.size == n,
	   "size and end are the same");
	ok(same_bytes(&l, "rank-1", 0, (const uint8_t *)"short", 5), "a short stream stays plain and complete");
	/* an agent that comes back late */
	put_all(&l, "rank-0", data + n - 100, 100, n - 100);
	lab_settle(&l);
	is_int((int64_t)l.durable, (int64_t)n, "a repetition after the end is acknowledged");
	put_all(&l, "rank-0", (const uint8_t *)"late words\n", 11, n);
	lab_settle(&l);
	ok(same_bytes(&l, "rank-0", n, (const uint8_t *)"late words\n", 11),
	   "words after the end are kept behind it");
	ok(logstore_stat(l.dir, 1, 1, "rank-0", &st, &e) == 0 && !st.complete && st.size == n + 11,
	   "and it is not complete any more");
	is_int(logstore_finish(l.ls, 1, 1, &e), 0, "finished again");
	lab_settle(&l);
	ok(logstore_stat(l.dir, 1, 1, "rank-0", &st, &e) == 0 && st.complete, "complete again");
	lab_close(&l);
	lab_reopen(&l, 0);
	put_all(&l, "rank-0", (const uint8_t *)"!", 1, n + 11);
	ok(same_bytes(&l, "rank-0", n + 5, (const uint8_t *)"words\n!", 7), "after a restart, too");
	snprintf(command, sizeof(command), "zstd -dcq %s | wc -c | grep -qx %zu", zst, n);
	if (system("command -v zstd >/dev/null") == 0)
		is_int(system(command), 0, "any zstd reads the file");
	else
		tap_skip("no zstd program");
	free(data);
	lab_close(&l);
}

/* The work that was waiting is done after a restart; a crash between rename and unlink leaves both files. */
static void test_finish_restart(void)
{
	const size_t n = 3 * 1024 * 1024;
	uint8_t *data = make_bytes(n);
	char raw[1024], zst[1024];
	struct lab l;
	struct err e;

	lab_open(&l, "refinish");
	snprintf(raw, sizeof(raw), "%s/1/1/rank-0.log", l.dir);
	snprintf(zst, sizeof(zst), "%s/1/1/rank-0.zst", l.dir);
	put_all(&l, "rank-0", data, n, 0);
	logstore_finish(l.ls, 1, 1, &e);
	loop_run_once(l.loop, 0);
	lab_close(&l);
	ok(access(raw, F_OK) == 0 && access(zst, F_OK) < 0, "stopped before it was compressed");
	lab_reopen(&l, 0);
	lab_settle(&l);
	ok(access(raw, F_OK) < 0 && access(zst, F_OK) == 0 && same_bytes(&l, "rank-0", 0, data, n),
	   "done after the restart");
	ok(fs_write_atomic(raw, data, n, 0600, &e) == 0, "both files, as after a crash");
	is_int(logstore_finish(l.ls, 1, 1, &e), 0, "finish");
	lab_settle(&l);
	ok(access(raw, F_OK) < 0 && same_bytes(&l, "rank-0", 0, data, n), "the plain one goes");
	free(data);
	lab_close(&l);
}

static int collect_stream(const struct log_stream *s, void *arg)
{
	char *out = arg;

	snprintf(out + strlen(out), 400 - strlen(out), "%u/%s:%llu%s ", s->attempt, s->name,
	         (unsigned long long)s->size, s->complete ? "." : "");
	return 0;
}

static void test_streams(void)
{
	static const char *const names[] = {"rank-10", "rank-2", "mpirun", "setup-algo-1"};
	struct log_chunk c = {.job = 3, .data = "12345", .n = 5, .offset = LOGSTORE_AT_END};
	char list[400] = "";
	struct lab l;
	struct err e;

	lab_open(&l, "streams");
	lab_close(&l);
	lab_reopen(&l, 2); /* two open at once */
	for (uint32_t attempt = 10; attempt; attempt = attempt == 10 ? 1 : 0)
		for (size_t i = 0; i < 4; i++) {
			c.attempt = attempt;
			c.stream = names[i];
			if (logstore_append(l.ls, &c, &e) < 0)
				tap_bail("append: %s", e.text);
		}
	c.attempt = 1;
	c.stream = "mpirun";
	is_int(logstore_append(l.ls, &c, &e), 0, "append at the end of a stream that was closed meanwhile");
	lab_settle(&l);
	logstore_finish(l.ls, 3, 10, &e);
	is_int(logstore_streams(l.dir, 3, 0, collect_stream, list, &e), 0, "logstore_streams");
	is_str(list,
	       "1/mpirun:10 1/rank-2:5 1/rank-10:5 1/setup-algo-1:5 10/mpirun:5. 10/rank-2:5. 10/rank-10:5. "
	       "10/setup-algo-1:5. ",
	       "attempts and streams in order, with what is complete");
	list[0] = '\0';
	is_int(logstore_streams(l.dir, 99, 0, collect_stream, list, &e), 0, "a job without logs");
	is_str(list, "", "has none");
	is_int(logstore_remove(l.ls, 3, &e), 0, "logstore_remove");
	is_int(logstore_streams(l.dir, 3, 0, collect_stream, list, &e), 0, "afterwards");
	is_str(list, "", "there is nothing");
	ok(logstore_idle(l.ls), "and nothing is waiting");
	is_int(logstore_remove(l.ls, 3, &e), 0, "removing again is fine");
	lab_close(&l);
}

#ifdef HEARTH_FAULTS
static void test_compress_fault(void)
{
	const size_t n = 2500000;
	uint8_t *data = make_bytes(n);
	struct lab l;
	struct err e;

	lab_open(&l, "cfault");
	put_all(&l, "rank-0", data, n, 0);
	fault_arm("log.compress", 2, 1);
	logstore_finish(l.ls, 1, 1, &e);
	for (int i = 0; i < 20; i++)
		loop_run_once(l.loop, 5);
	ok(!logstore_idle(l.ls) && same_bytes(&l, "rank-0", 0, data, n),
	   "a failed compression leaves the plain stream, and waits");
	fault_clear();
	lab_close(&l);
	lab_reopen(&l, 0);
	lab_settle(&l);
	ok(same_bytes(&l, "rank-0", 0, data, n), "and is done later");
	free(data);
	lab_close(&l);
}
#endif

/* ---- readers in other threads ---- */

struct reading {
	const char *dir;
	const uint8_t *data;
	size_t n;
	atomic_int stop;
	int bad, rounds;
};

static void *run_reader(void *arg)
{
	struct reading *r = arg;
	uint8_t *buf = xmalloc(300000);
	uint64_t at = 0, size;
	struct err e;
	size_t n;
	int complete = 0;

	while (!atomic_load(&r->stop) || at < r->n) {
		if (logstore_read(r->dir, 1, 1, "rank-0", at, buf, 300000, &n, &size, &complete, &e) < 0) {
			if (e.code != ERR_NOT_FOUND)
				r->bad++;
			continue;
		}
		r->bad += n && memcmp(buf, r->data + at, n) != 0;
		at += n;
		/* complete is only said with the last bytes */
		r->bad += complete && n == 0 && at != r->n;
		if (at == r->n && complete) {
			r->rounds++;
			at = 0;
			if (atomic_load(&r->stop))
				break;
		}
	}
	free(buf);
	return NULL;
}

static void test_readers(void)
{
	const size_t n = 4 * 1024 * 1024;
	struct reading r[3];
	pthread_t t[3];
	uint8_t *data = make_bytes(n);
	struct lab l;
	struct err e;

	lab_open(&l, "readers");
	for (int i = 0; i < 3; i++) {
		memset(&r[i], 0, sizeof(r[i]));
		r[i].dir = l.dir;
		r[i].data = data;
		r[i].n = n;
		pthread_create(&t[i], NULL, run_reader, &r[i]);
	}
	for (size_t at = 0; at < n; at += 65536) {
		struct log_chunk c = {
		    .job = 1, .attempt = 1, .stream = "rank-0", .offset = at, .data = data + at, .n = 65536};

		if (logstore_append(l.ls, &c, &e) < 0)
			tap_bail("append: %s", e.text);
		loop_run_once(l.loop, 0);
	}
	logstore_finish(l.ls, 1, 1, &e);
	lab_settle(&l);
	for (int i = 0; i < 3; i++)
		atomic_store(&r[i].stop, 1);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		ok(r[i].bad == 0 && r[i].rounds > 0,
		   "reader %d saw every byte right while it grew and was compressed (%d rounds)", i, r[i].rounds);
	}
	free(data);
	lab_close(&l);
}

int main(void)
{
	test_finish();
	test_finish_restart();
	test_streams();
#ifdef HEARTH_FAULTS
	test_compress_fault();
#else
	tap_skip("built without --enable-faults");
#endif
	test_readers();
	return tap_done();
}
