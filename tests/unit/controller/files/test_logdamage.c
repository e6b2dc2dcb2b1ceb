/* Damaged log files: every read of them ends with bytes or an error, never with a crash; appending goes on.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/loop.h"
#include "controller/files/logs/logstore.h"
#include "tests/lib/tap.h"

#define N 1500000

static char dir[512];
static struct loop *loop;
static struct logstore *ls;
static uint64_t durable;

static void on_durable(uint64_t job, uint32_t attempt, const char *stream, uint64_t offset, int eof,
                       void *arg)
{
	(void)job;
	(void)attempt;
	(void)stream;
	(void)eof;
	(void)arg;
	durable = offset;
}

static void reopen_store(void)
{
	struct logstore_config c = {
	    .dir = dir, .clock = clock_real(), .loop = loop, .sync_ms = 1, .on_durable = on_durable};
	struct err e;

	logstore_close(ls);
	ls = logstore_open(&c, &e);
	if (!ls)
		tap_bail("logstore_open: %s", e.text);
}

static void settle_loop(void)
{
	uint64_t end = clock_boot_us(clock_real()) + 20000000;

	while (!logstore_idle(ls) && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 10);
}

static int put_bytes(uint64_t offset, const void *data, size_t n)
{
	struct log_chunk c = {.job = 1, .attempt = 1, .stream = "s", .offset = offset, .data = data, .n = n};
	struct err e;

	return logstore_append(ls, &c, &e);
}

/* Reads everything in every way. Number of calls that answered. */
static int read_all(void)
{
	static uint8_t buf[70000];
	struct log_mark *marks;
	struct log_stream st;
	uint64_t size = 0;
	int answered = 0, complete;
	struct err e;
	size_t n;

	for (uint64_t at = 0; at < N + 100000; at += sizeof(buf))
		answered += logstore_read(dir, 1, 1, "s", at, buf, sizeof(buf), &n, &size, &complete, &e) == 0;
	answered += logstore_stat(dir, 1, 1, "s", &st, &e) == 0;
	if (logstore_marks(dir, 1, 1, "s", 0, UINT64_MAX, &marks, &n, &e) == 0) {
		answered++;
		free(marks);
	}
	return answered;
}

static size_t load_file(const char *path, uint8_t **data)
{
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st) < 0)
		tap_bail("no %s", path);
	*data = xmalloc((size_t)st.st_size);
	if (read(fd, *data, (size_t)st.st_size) != st.st_size)
		tap_bail("cannot read %s", path);
	close(fd);
	return (size_t)st.st_size;
}

static void save_file(const char *path, const uint8_t *data, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		tap_bail("cannot write %s", path);
	close(fd);
}

/* Each byte of [from, to) with some bits turned, then each cut of every step-th length. */
static void spoil_file(const char *path, size_t from, size_t to, size_t step)
{
	uint8_t *good, *bad;
	size_t n = load_file(path, &good);
	int tried = 0;

	bad = xmalloc(n);
	for (size_t i = from; i < to && i < n; i += step) {
		memcpy(bad, good, n);
		bad[i] ^= (uint8_t)(1u << (i % 8) | 0x80);
		save_file(path, bad, n);
		read_all();
		tried++;
	}
	for (size_t cut = 0; cut < n; cut += n / 40 + 1) {
		save_file(path, good, cut);
		read_all();
		tried++;
	}
	save_file(path, good, n);
	ok(read_all() > 20, "%s: %d ways to be damaged, no crash; whole again", strrchr(path, '/') + 1, tried);
	free(good);
	free(bad);
}

int main(void)
{
	uint8_t *data = xmalloc(N), back[8];
	char path[600];
	struct stat st;
	struct err e;
	size_t n;

	for (size_t i = 0; i < N; i++)
		data[i] = (uint8_t)(i * i >> 5);
	snprintf(dir, sizeof(dir), "%s/logs", tap_tmpdir());
	loop = loop_create();
	reopen_store();
	put_bytes(0, data, 1000);
	put_bytes(5000, data + 5000, N - 5000);
	settle_loop();
	snprintf(path, sizeof(path), "%s/1/1/s.ix", dir);
	spoil_file(path, 0, 1000, 1);
	logstore_finish(ls, 1, 1, &e);
	settle_loop();
	snprintf(path, sizeof(path), "%s/1/1/s.zst", dir);
	if (stat(path, &st) < 0)
		tap_bail("it was not compressed");
	spoil_file(path, (size_t)st.st_size - 40, (size_t)st.st_size, 1); /* the table */
	spoil_file(path, 0, (size_t)st.st_size, (size_t)st.st_size / 100);
	/* An index that is not one: the stream begins behind what is compressed, and works. */
	snprintf(path, sizeof(path), "%s/1/1/s.ix", dir);
	reopen_store();
	save_file(path, data, 7777);
	ok(put_bytes(N, "after", 5) == 0, "appending to a stream with a ruined index");
	settle_loop();
	ok(durable == N + 5, "is acknowledged");
	ok(logstore_read(dir, 1, 1, "s", 0, back, 8, &n, NULL, NULL, &e) == 0 && n == 8 &&
	       memcmp(back, data, 8) == 0,
	   "and what was compressed is still there");
	logstore_close(ls);
	loop_destroy(loop);
	free(data);
	return tap_done();
}
