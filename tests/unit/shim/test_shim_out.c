/* hearth-shim: output into segments; order, lines, bounds, full disks, the tail. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/os/fsutil.h"
#include "shim/out.h"
#include "tests/lib/shimlab.h"
#include "tests/lib/tap.h"

#define MB 1000000ull

static void test_streams(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *both = NULL, *one = NULL, *two = NULL;
	uint64_t gap;
	size_t n;

	lab_init(&x, "both", "6", NULL);
	strv_addf(&x.l.env, "VICTIM_LOG=%s/out.%020d.log", x.logdir, 0);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	both = lab_output(&x, 0, &n, &gap);
	one = lab_output(&x, 1, NULL, NULL);
	two = lab_output(&x, 2, NULL, NULL);
	is_str(both, "out 0\nerr 1\nout 2\nerr 3\nout 4\nerr 5\n", "both streams in order of arrival");
	is_str(one, "out 0\nout 2\nout 4\n", "stdout by the index");
	is_str(two, "err 1\nerr 3\nerr 5\n", "stderr by the index");
	is_int((int64_t)st->out_bytes, (int64_t)n, "out_bytes");
	is_int((int64_t)st->dropped_bytes, 0, "nothing dropped");
	is_int((int64_t)gap, 0, "no gap");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static int has_all_warnings(void *arg)
{
	cleanup_free char *two = lab_output(arg, 2, NULL, NULL);

	return strlen(two) == 160;
}

static void test_lines(void)
{
	struct lab x;
	cleanup_free char *both = NULL;
	size_t whole = 0;

	lab_init(&x, "halves", NULL);
	lab_start(&x);
	lab_wait_output(&x, "prompt> ");
	ok(1, "half a line is there without its end");
	ok(lab_until(has_all_warnings, &x), "and then the other stream's lines");
	both = lab_output(&x, 0, NULL, NULL);
	for (const char *p = both; (p = strstr(p, "first half, second half\n")); p++)
		whole++;
	is_int((int64_t)whole, 20, "no line is broken by the other stream");
	lab_end(&x);
}

/* A line that a program leaves open must hold the other stream only for a moment. */
static void test_open_line(void)
{
	struct lab x;
	uint64_t since;

	lab_init(&x, NULL);
	lab_argv(&x, "/bin/sh", "-c", "printf 'open: '; sleep 0.2; echo alarm >&2; read x", NULL);
	lab_start(&x);
	lab_wait_output(&x, "open: ");
	since = clock_boot_us(clock_real());
	lab_wait_output(&x, "alarm\n");
	ok(clock_boot_us(clock_real()) - since < 10 * MB, "stderr passes a line that stays open");
	lab_end(&x);
}

static uint64_t check_flood(const char *data, size_t n, uint64_t first)
{
	for (size_t at = 0; at + 100 <= n; at += 100, first++)
		if (strtoull(data + at, NULL, 10) != first || data[at + 98] != '|' || data[at + 99] != '\n')
			return first;
	return UINT64_MAX;
}

static void test_flood(void)
{
	struct wm_shim_status *st;
	struct lab x;
	cleanup_free char *data = NULL;
	uint64_t gap, us;
	size_t n;

	lab_init(&x, "flood", "50000000", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	data = lab_output(&x, 0, &n, &gap);
	is_int((int64_t)n, 50 * MB, "50 MB are on disk");
	ok(check_flood(data, n, 0) == UINT64_MAX, "byte for byte");
	is_int((int64_t)st->dropped_bytes, 0, "nothing dropped");
	us = st->ended_us - st->started_us;
	tap_diag("50 MB in %" PRIu64 " ms: %.0f MB/s", us / 1000, 50e6 / (double)(us ? us : 1));
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

struct sizes {
	const char *dir;
	uint64_t sum, largest;
	unsigned n;
};

static int add_size(const char *name, void *arg)
{
	struct sizes *s = arg;
	cleanup_free char *path = xasprintf("%s/%s", s->dir, name);
	struct stat st;

	if (!strstr(name, ".log") || stat(path, &st) < 0)
		return 0;
	s->n++;
	s->sum += (uint64_t)st.st_size;
	s->largest = (uint64_t)st.st_size > s->largest ? (uint64_t)st.st_size : s->largest;
	return 0;
}

static void test_bound(void)
{
	struct wm_shim_status *st;
	struct lab x;
	struct sizes s;
	cleanup_free char *data = NULL;
	uint64_t gap;
	size_t n;

	lab_init(&x, "flood", "50000000", NULL);
	x.l.segment_bytes = 1 * MB;
	x.l.max_bytes = 5 * MB;
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	s = (struct sizes){.dir = x.logdir};
	fs_each(x.logdir, add_size, &s, NULL);
	ok(s.sum <= 5 * MB && s.sum > 3 * MB, "what is on disk is bounded");
	ok(s.largest <= 1 * MB && s.n >= 4, "and so is a segment");
	is_int((int64_t)st->out_bytes, 50 * MB, "all bytes are counted");
	is_int((int64_t)(st->dropped_bytes + s.sum), 50 * MB, "dropped + kept = all");
	data = lab_output(&x, 0, &n, &gap);
	is_int((int64_t)gap, (int64_t)st->dropped_bytes, "the gap before the first segment says how much");
	/* Cuts are at line ends, so what is left begins with a whole line. */
	ok(check_flood(data, n, gap / 100) == UINT64_MAX, "the rest is whole and is the end of the stream");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

/* The reader takes segments away while the process writes. */
static void test_reader_removes(void)
{
	struct out *o;
	struct err e;
	cleanup_free char *dir = xasprintf("%s/removes", tap_tmpdir());
	int ends[2];
	char line[1000];
	struct sizes s = {.dir = dir};

	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	if (mkdir(dir, 0700) < 0 || !(o = out_create(dir, 4096, 16384, clock_real(), &e)) ||
	    out_pipes(o, ends, &e) < 0)
		tap_bail("out");
	for (int i = 0; i < 100; i++) {
		cleanup_free char *first = xasprintf("%s/out.%020d.log", dir, 0);

		if (write(ends[0], line, sizeof(line)) != (ssize_t)sizeof(line))
			tap_bail("write");
		out_drain(o);
		if (i == 10)
			unlink(first);
	}
	/* Segments of 4096 hold four lines of 1000; one was taken by the reader. */
	close(ends[0]);
	close(ends[1]);
	out_drain(o);
	ok(out_eof(o), "end of both streams");
	fs_each(dir, add_size, &s, NULL);
	is_int((int64_t)out_bytes(o), 100000, "all bytes are counted");
	is_int((int64_t)(out_dropped(o) + s.sum), 96000, "what the reader had taken is not counted as dropped");
	out_destroy(o);
}

static void test_tail(void)
{
	struct out *o;
	struct err e;
	cleanup_free char *dir = xasprintf("%s/tail", tap_tmpdir());
	static uint8_t got[SHIM_TAIL_MAX + 10], want[SHIM_TAIL_MAX * 12];
	int ends[2], same = 1;
	size_t n;

	if (mkdir(dir, 0700) < 0 || !(o = out_create(dir, 0, 0, clock_real(), &e)) || out_pipes(o, ends, &e) < 0)
		tap_bail("out");
	is_int((int64_t)out_tail(o, got, sizeof(got)), 0, "no tail yet");
	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = (uint8_t)(i * 7 + i / 251);
	/* Pieces of growing size, so that each position of the ring is crossed. */
	for (size_t at = 0, piece = 1; at < sizeof(want); piece = piece * 3 / 2 + 1) {
		if (piece > 2 * SHIM_TAIL_MAX)
			piece = 1; /* and again small ones after some that fill the tail alone */
		n = sizeof(want) - at < piece ? sizeof(want) - at : piece;
		if (write(ends[1], want + at, n) != (ssize_t)n)
			tap_bail("write");
		at += n;
		out_drain(o);
		n = out_tail(o, got, sizeof(got));
		same &= n == (at < SHIM_TAIL_MAX ? at : SHIM_TAIL_MAX) && memcmp(got, want + at - n, n) == 0;
		n = out_tail(o, got, 10);
		same &= n == (at < 10 ? at : 10) && memcmp(got, want + at - n, n) == 0;
	}
	ok(same, "the tail is always the last bytes");
	close(ends[0]);
	close(ends[1]);
	out_destroy(o);
}

#ifdef HEARTH_FAULTS
/* Writes fail for a while: the bytes of that time are a hole between two segments, and are counted. */
static void test_write_fault(void)
{
	struct out *o;
	struct err e;
	struct clock clock;
	cleanup_free char *dir = xasprintf("%s/fault", tap_tmpdir());
	struct sizes s = {.dir = dir};
	struct lab x = {.fd = -1};
	cleanup_free char *data = NULL;
	uint64_t gap;
	int ends[2];
	size_t n;

	clock_fake_init(&clock, 1000 * MB, 1000 * MB);
	if (mkdir(dir, 0700) < 0 || !(o = out_create(dir, 0, 0, &clock, &e)) || out_pipes(o, ends, &e) < 0)
		tap_bail("out");
	dprintf(ends[0], "one\n");
	out_drain(o);
	fault_arm("shim.write", 1, 1);
	dprintf(ends[0], "two\n");
	out_drain(o);
	dprintf(ends[0], "three\n");
	out_drain(o);
	is_int((int64_t)out_dropped(o), 10, "bytes are dropped, also those before the next try");
	clock_fake_advance(&clock, 10 * MB);
	dprintf(ends[0], "four\n");
	out_drain(o);
	fault_clear();
	is_int((int64_t)out_dropped(o), 10, "then it goes on");
	is_int((int64_t)out_bytes(o), 19, "the offset counts the dropped ones");
	fs_each(dir, add_size, &s, NULL);
	is_int(s.n, 2, "two segments");
	snprintf(x.logdir, sizeof(x.logdir), "%s", dir);
	data = lab_output(&x, 0, &n, &gap);
	is_str(data, "one\nfour\n", "with the rest");
	is_int((int64_t)gap, 10, "and the hole between them");
	close(ends[0]);
	close(ends[1]);
	out_destroy(o);
}
#endif

/* In a mount namespace of its own: 1 MiB of disk, 20 MB of output, then room again. */
static void on_full_disk(void)
{
	struct wm_shim_status *st;
	struct statvfs vfs;
	struct lab x;
	cleanup_free char *filler = NULL, *data = NULL;
	uint64_t gap;
	size_t n;
	int fd;

	lab_init(&x, NULL);
	lab_argv(&x, "/bin/sh", "-c", "$0 flood 20000000; echo full; kill -STOP $$; echo after", lab_victim(),
	         NULL);
	if (mount("hearth-test", x.logdir, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0)
		tap_bail("mount: %s", strerror(errno));
	filler = xasprintf("%s/filler", x.logdir);
	fd = open(filler, O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || fallocate(fd, 0, 0, 500 * 1024) < 0)
		tap_bail("filler");
	close(fd);
	lab_start(&x);
	lab_wait_output(&x, "full\n");
	statvfs(x.logdir, &vfs);
	ok(vfs.f_bfree == 0, "the disk is full");
	ok(1, "and the process wrote its 20 MB all the same");
	st = lab_wait(&x, PS_RUNNING);
	ok(st->dropped_bytes > 18 * MB, "what did not fit is counted");
	wire_free(WM_SHIM_STATUS, st);
	unlink(filler);
	/* Past the time for which no file is tried. */
	poll(NULL, 0, 300);
	lab_signal(&x, SIGCONT, 0);
	st = lab_wait(&x, PS_EXITED);
	data = lab_output(&x, 0, &n, &gap);
	like(data, "after\n", "with room again the output is kept again");
	is_int((int64_t)(n + gap), (int64_t)st->out_bytes, "kept + gap = all");
	is_int((int64_t)gap, (int64_t)st->dropped_bytes, "the gap is what was dropped");
	is_int(st->exit_code, 0, "the exit is exact");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

static void test_full_disk(void)
{
	if (getuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		tap_skip("a small disk needs root and a mount namespace");
		return;
	}
	on_full_disk();
}

static void test_closed_output(void)
{
	struct wm_shim_status *st;
	struct lab x;

	lab_init(&x, NULL);
	lab_argv(&x, "/bin/sh", "-c", "echo bye; exec >&- 2>&-; exit 4", NULL);
	lab_start(&x);
	st = lab_wait(&x, PS_EXITED);
	is_int(st->exit_code, 4, "a process that closes its output ends as it ends");
	is_int((int64_t)st->out_bytes, 4, "what it wrote before is there");
	wire_free(WM_SHIM_STATUS, st);
	lab_end(&x);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_streams();
	test_lines();
	test_open_line();
	test_flood();
	test_bound();
	test_reader_removes();
	test_tail();
#ifdef HEARTH_FAULTS
	test_write_fault();
#endif
	test_closed_output();
	test_full_disk();
	return tap_done();
}
