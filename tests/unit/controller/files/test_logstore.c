/* logstore: offsets, gaps, marks, durability, crash and power loss, failed writes and syncs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void test_append(void)
{
	struct lab l;
	struct err e;
	uint64_t size, off;
	int complete;
	char *s;

	lab_open(&l, "append");
	is_int(lab_put(&l, 0, "hello ", 0, &e), 0, "append");
	is_content(&l, 0, "hello ", "it can be read at once");
	ok(l.size == 6 && !l.complete && l.words == 0, "followers know, nothing is acknowledged yet");
	lab_settle(&l);
	ok(l.durable == 6 && !l.eof, "acknowledged after the sync");
	is_str(l.stream, "rank-0", "with its name");
	is_int(lab_put(&l, 3, "lo world", 0, &e), 0, "a piece that overlaps");
	is_content(&l, 0, "hello world", "only what is new is taken");
	is_int(lab_put(&l, 0, "hello", 0, &e), 0, "a repetition");
	l.words = 0;
	lab_settle(&l);
	ok(l.words == 1 && l.durable == 11, "is acknowledged again");
	is_int(lab_put(&l, 11, "\n", 1, &e), 0, "the end");
	lab_settle(&l);
	ok(l.eof && l.durable == 12 && l.complete, "the end is durable");
	is_content(&l, 6, "world\n", "from an offset");
	is_content(&l, 12, "", "at the end");
	is_content(&l, 999, "", "behind the end");
	s = lab_content(&l, "rank-0", 0, &size, &complete);
	ok(size == 12 && complete, "size and completeness");
	free(s);
	is_int(logstore_durable(l.ls, 1, 1, "rank-0", &off, &e), 0, "logstore_durable");
	is_int((int64_t)off, 12, "where an agent goes on");
	ok(logstore_durable(l.ls, 1, 1, "rank-9", &off, &e) == 0 && off == 0, "0 for a stream that is not there");
	s = lab_content(&l, "rank-9", 0, NULL, NULL);
	is_str(s, "NOT FOUND", "and asking did not make it");
	free(s);
	lab_close(&l);
}

static void test_refusals(void)
{
	static const char *const bad[] = {"", "../x", "a/b", ".hidden", "a b", "x\n"};
	struct log_chunk c = {.job = 1, .attempt = 1, .stream = "s", .data = "x", .n = 1};
	uint8_t rec[32] = {0};
	struct lab l;
	struct err e;

	lab_open(&l, "refuse");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		c.stream = bad[i];
		ok(logstore_append(l.ls, &c, &e) < 0 && e.code == ERR_INVALID, "stream name \"%s\" is refused",
		   bad[i]);
	}
	c.stream = "s";
	c.rec = rec;
	c.rec_n = 15;
	ok(logstore_append(l.ls, &c, &e) < 0, "half a record");
	c.rec_n = 32;
	rec[3] = 9;
	ok(logstore_append(l.ls, &c, &e) < 0, "a record beyond the data");
	c.rec_n = 0;
	c.offset = UINT64_MAX - 5;
	ok(logstore_append(l.ls, &c, &e) < 0, "an offset near the end of the world");
	c.offset = 0;
	c.n = 9u << 20;
	ok(logstore_append(l.ls, &c, &e) < 0 && e.code == ERR_LIMIT, "a chunk that is too large");
	c.n = 1;
	c.job = 0;
	ok(logstore_append(l.ls, &c, &e) < 0, "no job");
	lab_close(&l);
}

static void test_gap(void)
{
	struct log_stream st;
	struct lab l;
	struct err e;
	uint64_t off;

	lab_open(&l, "gap");
	lab_put(&l, 0, "abc", 0, &e);
	is_int(lab_put(&l, 1003, "xyz\n", 0, &e), 0, "a piece that begins behind the end");
	is_content(&l, 0, "abc\n[hearth: 1000 bytes are missing here]\nxyz\n",
	           "the gap is visible, with its size");
	is_int(lab_put(&l, 1005, "z\nmore", 0, &e), 0, "offsets go on as the source counts");
	is_content(&l, 0, "abc\n[hearth: 1000 bytes are missing here]\nxyz\nmore", "overlap after a gap");
	lab_settle(&l);
	is_int((int64_t)l.durable, 1011, "durable in source offsets");
	is_int(logstore_stat(l.dir, 1, 1, "rank-0", &st, &e), 0, "logstore_stat");
	ok(st.lost == 1000 && st.size == 50 && st.first_us && st.last_us >= st.first_us,
	   "stat knows what was lost (%llu, %llu)", (unsigned long long)st.lost, (unsigned long long)st.size);
	lab_close(&l);
	lab_reopen(&l, 0);
	ok(logstore_durable(l.ls, 1, 1, "rank-0", &off, &e) == 0 && off == 1011, "the same after a restart");
	is_int(lab_put(&l, 1011, "!", 0, &e), 0, "append after it");
	is_content(&l, 46, "more!", "lands at the end");
	is_int(lab_put(&l, 2000, "", 1, &e), 0, "lost bytes right before the end");
	lab_settle(&l);
	ok(l.eof && l.durable == 2000, "eof behind a gap");
	lab_close(&l);
}

static void put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void rec_at(uint8_t *p, uint32_t off, uint64_t us, uint32_t fd)
{
	put_u32(p, off);
	put_u32(p + 4, (uint32_t)(us >> 32));
	put_u32(p + 8, (uint32_t)us);
	put_u32(p + 12, fd);
}

static void test_marks(void)
{
	struct log_chunk c = {.job = 1, .attempt = 1, .stream = "rank-0", .data = "aaaabbbbcccc", .n = 12};
	struct log_mark *m;
	uint8_t rec[48];
	struct lab l;
	struct err e;
	size_t n;

	lab_open(&l, "marks");
	rec_at(rec, 0, 1000000, 1);
	rec_at(rec + 16, 4, 2000000, 2);
	rec_at(rec + 32, 8, 2000500, 2); /* half a millisecond later on the same descriptor */
	c.rec = rec;
	c.rec_n = 48;
	is_int(logstore_append(l.ls, &c, &e), 0, "a chunk with its index");
	is_int(logstore_marks(l.dir, 1, 1, "rank-0", 0, 100, &m, &n, &e), 0, "logstore_marks");
	ok(n == 2 && m[0].offset == 0 && m[0].at_us == 1000000 && m[0].fd == 1 && m[1].offset == 4 &&
	       m[1].at_us == 2000000 && m[1].fd == 2,
	   "times and descriptors; close ones share a mark");
	free(m);
	/* again with 6 bytes more, index from the start: the known part is passed over */
	c.data = "aaaabbbbccccdddddd";
	c.n = 18;
	rec_at(rec + 32, 12, 9000000, 1);
	is_int(logstore_append(l.ls, &c, &e), 0, "a repetition that brings more");
	is_int(logstore_marks(l.dir, 1, 1, "rank-0", 13, 2, &m, &n, &e), 0, "marks from the middle");
	ok(n == 1 && m[0].offset == 12 && m[0].at_us == 9000000 && m[0].fd == 1,
	   "the one that covers the offset");
	free(m);
	is_int(logstore_marks(l.dir, 1, 1, "rank-0", 5, 8, &m, &n, &e), 0, "marks of a range");
	ok(n == 2 && m[0].offset == 4 && m[1].offset == 12, "from the covering one on");
	free(m);
	lab_close(&l);
}

/* ---- crash ---- */

/* The child appends until it is killed and tells each acknowledged offset; afterwards everything acknowledged
 * is there. */
static void crash_child(struct lab *l, int out)
{
	char block[5000];
	uint64_t at = 0, told = 0;
	struct log_chunk c = {.job = 1, .attempt = 1, .stream = "rank-0", .data = block};
	struct err e;

	for (;;) {
		c.offset = at;
		c.n = 1 + (at * 7919) % sizeof(block);
		for (size_t i = 0; i < c.n; i++)
			block[i] = (char)('a' + (at + i) % 26);
		if (logstore_append(l->ls, &c, &e) < 0)
			_exit(3);
		at += c.n;
		loop_run_once(l->loop, 0);
		if (l->durable > told) {
			told = l->durable;
			if (write(out, &told, sizeof(told)) != sizeof(told))
				_exit(4);
		}
	}
}

static void test_kill(void)
{
	uint64_t acked = 0, off, size;
	int fds[2], wrong = 0, status;
	char *buf = xmalloc(1 << 20);
	struct lab l;
	struct err e;
	size_t n;
	pid_t pid;

	lab_open(&l, "kill");
	lab_close(&l);
	if (pipe(fds) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		lab_reopen(&l, 0);
		crash_child(&l, fds[1]);
	}
	close(fds[1]);
	for (int i = 0; i < 20 && read(fds[0], &off, sizeof(off)) == sizeof(off); i++)
		acked = off;
	kill(pid, SIGKILL);
	while (read(fds[0], &off, sizeof(off)) == sizeof(off))
		acked = off;
	close(fds[0]);
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && acked > 0, "killed in the middle, %llu bytes acknowledged",
	   (unsigned long long)acked);
	lab_reopen(&l, 0);
	ok(logstore_durable(l.ls, 1, 1, "rank-0", &off, &e) == 0 && off >= acked,
	   "nothing that was acknowledged is lost");
	for (uint64_t at = 0; at < acked; at += n) {
		if (logstore_read(l.dir, 1, 1, "rank-0", at, buf, 1 << 20, &n, &size, NULL, &e) < 0 || n == 0)
			tap_bail("cannot read back: %s", e.text);
		for (size_t i = 0; i < n; i++)
			wrong += buf[i] != (char)('a' + (at + i) % 26);
	}
	ok(!wrong, "every byte is what was sent");
	free(buf);
	lab_close(&l);
}

/* Another boot id: what was not synced is cut off, even when bytes stand there. */
static void test_power_loss(void)
{
	uint8_t slots[64];
	int newer;
	char path[1024];
	struct lab l;
	struct err e;
	uint64_t off;
	int fd;

	setenv("HEARTH_TEST_BOOT_ID", "11111111-1111-1111-1111-111111111111", 1);
	lab_open(&l, "power");
	lab_put(&l, 0, "synced.", 0, &e);
	lab_put(&l, 107, "after a gap.", 0, &e);
	lab_close(&l);
	snprintf(path, sizeof(path), "%s/1/1/rank-0.log", l.dir);
	fd = open(path, O_WRONLY | O_APPEND);
	ok(write(fd, "\0\0\0\0\0\0", 6) == 6, "zeros at the end, as a file system may leave them");
	close(fd);
	snprintf(path, sizeof(path), "%s/1/1/rank-0.ix", l.dir);
	fd = open(path, O_WRONLY | O_APPEND);
	ok(write(fd, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 35) == 35,
	   "in the index, too");
	close(fd);
	setenv("HEARTH_TEST_BOOT_ID", "22222222-2222-2222-2222-222222222222", 1);
	lab_reopen(&l, 0);
	ok(logstore_durable(l.ls, 1, 1, "rank-0", &off, &e) == 0 && off == 119, "durable offset as acknowledged");
	lab_put(&l, 119, "again", 0, &e);
	is_content(&l, 0, "synced.\n[hearth: 100 bytes are missing here]\nafter a gap.again",
	           "the unsynced end was cut off");
	lab_settle(&l);
	lab_close(&l);
	/* A promise that reached the disk before what it promises: the other one counts, and this one never
	 * again. */
	snprintf(path, sizeof(path), "%s/1/1/rank-0.ix", l.dir);
	fd = open(path, O_RDWR);
	ok(pread(fd, slots, 64, 32) == 64, "two places tell what was synced");
	newer = memcmp(slots, slots + 32, 8) > 0 ? 0 : 1;
	memcpy(slots + 32 * !newer, slots + 32 * newer, 32);
	slots[32 * !newer + 7] = (uint8_t)(slots[32 * !newer + 7] + 3); /* three bytes more, */
	slots[32 * !newer + 31] = 0xff;                                 /* 255 records */
	ok(pwrite(fd, slots, 64, 32) == 64, "one promises too much");
	close(fd);
	snprintf(path, sizeof(path), "%s/1/1/rank-0.log", l.dir);
	fd = open(path, O_WRONLY | O_APPEND);
	ok(write(fd, "???", 3) == 3, "and three bytes are there");
	close(fd);
	setenv("HEARTH_TEST_BOOT_ID", "33333333-3333-3333-3333-333333333333", 1);
	lab_reopen(&l, 0);
	ok(logstore_durable(l.ls, 1, 1, "rank-0", &off, &e) == 0 && off == 124, "it does not count");
	is_content(&l, 45, "after a gap.again", "its bytes are cut off");
	snprintf(path, sizeof(path), "%s/1/1/rank-0.ix", l.dir);
	fd = open(path, O_RDONLY);
	ok(pread(fd, slots, 64, 32) == 64 && memcmp(slots, slots + 32, 32) == 0, "and it is gone");
	close(fd);
	lab_close(&l);
	unsetenv("HEARTH_TEST_BOOT_ID");
}

/* ---- failures ---- */

#ifdef HEARTH_FAULTS
/* The n-th write fails, n = 1, 2, ... until none does: nothing half is left, the same bytes go in afterwards.
 */
static void test_write_faults(void)
{
	struct lab l;
	struct err e;
	unsigned n = 0;
	int failed, bad = 0;

	do {
		char name[32];

		snprintf(name, sizeof(name), "wfault%u", ++n);
		lab_open(&l, name);
		fault_clear();
		fault_arm("log.write", n, 1);
		failed = lab_put(&l, 0, "abc", 0, &e) < 0;
		failed |= lab_put(&l, 103, "def", 1, &e) < 0;
		fault_clear();
		bad += lab_put(&l, 0, "abc", 0, &e) < 0 || lab_put(&l, 103, "def", 1, &e) < 0;
		char *s = lab_content(&l, "rank-0", 0, NULL, NULL);
		/* When "abc" failed, the second piece found a gap of 103 bytes: its sender is told to close instead;
		 * here it does not. */
		bad += strcmp(s, "abc\n[hearth: 100 bytes are missing here]\ndef") != 0 &&
		       strcmp(s, "[hearth: 103 bytes are missing here]\ndef") != 0;
		free(s);
		lab_settle(&l);
		bad += l.durable != 106 || !l.eof;
		lab_close(&l);
	} while (failed && n < 50);
	ok(!bad && n > 4 && n < 50, "each of %u writes fails once, nothing half stays", n - 1);
}

static void test_sync_faults(void)
{
	struct lab l;
	struct err e;
	uint64_t off;

	lab_open(&l, "sfault");
	lab_put(&l, 0, "one", 0, &e);
	lab_settle(&l);
	fault_arm("log.sync", 1, 1);
	lab_put(&l, 3, "two", 0, &e);
	lab_settle(&l);
	ok(l.errors == 1 && l.durable == 3, "a failed sync is not acknowledged, its sender is told");
	ok(logstore_durable(l.ls, 1, 1, "rank-0", &off, &e) == 0 && off == 3,
	   "the stream is back at what is certain");
	fault_clear();
	lab_put(&l, 3, "two", 0, &e);
	lab_settle(&l);
	ok(l.durable == 6, "sent again it goes well");
	is_content(&l, 0, "onetwo", "nothing twice");
	lab_close(&l);
}

static void test_names_fault(void)
{
	struct lab l;
	struct err e;

	lab_open(&l, "nfault");
	fault_arm("log.sync_names", 1, 2); /* by the round for all, and by the stream's own */
	lab_put(&l, 0, "one", 0, &e), lab_settle(&l);
	ok(l.errors == 1 && l.durable == 0, "while the names are not on the disk nothing is acknowledged");
	fault_clear();
	lab_put(&l, 0, "one", 0, &e), lab_settle(&l);
	is_content(&l, 0, "one", "sent again it is there once");
	lab_close(&l);
}
#endif

int main(void)
{
	test_append();
	test_refusals();
	test_gap();
	test_marks();
	test_kill();
	test_power_loss();
#ifdef HEARTH_FAULTS
	test_write_faults();
	test_sync_faults();
	test_names_fault();
#else
	tap_skip("built without --enable-faults");
#endif
	return tap_done();
}
