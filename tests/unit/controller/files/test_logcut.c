/* A stream that is longer than it may be: its beginning and its newest part stay, offsets stay as they are,
 * the disk gets the rest back, and a reader is never given a hole for bytes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/files/loglab.h"

#define LINE  64u
#define PIECE (1u << 20)
#define MIB   (1ull << 20)

/* Lines of 64 bytes that begin with their offset. */
static void fill_lines(char *out, uint64_t offset)
{
	for (size_t i = 0; i < PIECE; i += LINE) {
		memset(out + i, '.', LINE);
		out[i + (size_t)snprintf(out + i, LINE, "%012llu", (unsigned long long)(offset + i))] = '.';
		out[i + LINE - 1] = '\n';
	}
}

static void put_mib(struct lab *l, uint64_t from, uint64_t n)
{
	char *piece = xmalloc(PIECE);
	struct err e = {.text = ""};

	for (uint64_t at = from * MIB; at < (from + n) * MIB; at += PIECE) {
		struct log_chunk c = {
		    .job = 1, .attempt = 1, .stream = "rank-0", .offset = at, .data = piece, .n = PIECE};

		fill_lines(piece, at);
		if (logstore_append(l->ls, &c, &e) < 0)
			tap_bail("%s", e.text);
		lab_settle(l);
	}
	free(piece);
}

static uint64_t on_disk(const struct lab *l)
{
	cleanup_free char *path = xasprintf("%s/1/1/rank-0.log", l->dir);
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static uint64_t cut_to(const struct lab *l)
{
	uint64_t to = 0;
	struct err e;

	if (logstore_cut(l->dir, 1, 1, "rank-0", &to, &e) < 0)
		tap_bail("%s", e.text);
	return to;
}

/* The line at an offset that begins one; "" nothing is read there. */
static const char *line_at(const struct lab *l, uint64_t offset)
{
	static char line[LINE];
	struct err e;
	size_t n;

	if (logstore_read(l->dir, 1, 1, "rank-0", offset, line, 12, &n, NULL, NULL, &e) < 0)
		tap_bail("%s", e.text);
	line[n] = '\0';
	return line;
}

static void test_cut(void)
{
	struct log_stream s;
	struct lab l;
	struct err e;
	uint64_t size, to;
	char *got, want[20];

	lab_open(&l, "cut");
	l.limit = 12 * MIB;
	put_mib(&l, 0, 12);
	is_int(cut_to(&l), 0, "a stream within its limit is whole");
	is_int(l.kept, 12 * MIB, "all of it counts");
	put_mib(&l, 12, 28);
	to = cut_to(&l);
	ok(to > 20 * MIB && to < 40 * MIB, "a longer one is cut up to offset %llu", (unsigned long long)to);
	ok(on_disk(&l) <= 13 * MIB, "the disk has %llu bytes of it", (unsigned long long)on_disk(&l));
	is_int(l.kept, (int64_t)(40 * MIB - (to - MIB)), "what was cut does not count");
	is_int(l.cuts, 1, "the first cut is reported");
	is_str(line_at(&l, 0), "000000000000", "its beginning is there");
	is_str(line_at(&l, MIB - LINE), "000001048512", "up to the end of the first part");
	is_str(line_at(&l, MIB), "", "nothing is read behind it");
	is_str(line_at(&l, to - LINE), "", "up to the end of the hole");
	snprintf(want, sizeof(want), "%012llu", (unsigned long long)to);
	is_str(line_at(&l, to), want, "then come its own bytes");
	is_str(line_at(&l, 40 * MIB - LINE), "000041942976", "the newest line is there");
	got = lab_content(&l, "rank-0", MIB - 10, &size, NULL);
	ok(strlen(got) == 10 && size == 40 * MIB, "a read ends where the hole begins, and knows the size");
	free(got);
	ok(logstore_stat(l.dir, 1, 1, "rank-0", &s, &e) == 0 && s.lost == to - MIB && s.cut_to == to,
	   "the list says how much is missing");
	lab_close(&l);

	lab_reopen(&l, 0);
	put_mib(&l, 40, 20);
	ok(cut_to(&l) > to && on_disk(&l) <= 13 * MIB, "after a restart it goes on");
	is_int(l.cuts, 1, "and is not reported again");
	is_int(logstore_finish(l.ls, 1, 1, &e), 0, "the attempt ends");
	lab_settle(&l);
	is_str(line_at(&l, 60 * MIB - LINE), "000062914496", "a stream with a hole stays as it is");
	ok(on_disk(&l) > 0, "and is not compressed");
	lab_close(&l);
}

static void test_least(void)
{
	struct lab l;

	lab_open(&l, "least");
	l.limit = 1;
	put_mib(&l, 0, 8);
	is_int(cut_to(&l), 0, "eight MiB stay whatever the limit is");
	put_mib(&l, 8, 8);
	ok(cut_to(&l) > 0 && on_disk(&l) <= 9 * MIB && on_disk(&l) >= 4 * MIB, "a longer stream has %llu bytes",
	   (unsigned long long)on_disk(&l));
	lab_close(&l);
	lab_open(&l, "none");
	put_mib(&l, 0, 30);
	is_int(cut_to(&l), 0, "without a limit nothing is cut");
	lab_close(&l);
}

/* The head of the index did not reach the disk, the hole did. */
static void test_power_loss(void)
{
	cleanup_free char *path = NULL;
	static const char zero[8];
	struct lab l;
	uint64_t to;
	int fd;

	setenv("HEARTH_TEST_BOOT_ID", "11111111-1111-1111-1111-111111111111", 1);
	lab_open(&l, "power");
	l.limit = 10 * MIB;
	put_mib(&l, 0, 20);
	to = cut_to(&l);
	lab_close(&l);
	path = xasprintf("%s/1/1/rank-0.ix", l.dir);
	fd = open(path, O_WRONLY);
	ok(to && pwrite(fd, zero, 8, 16) == 8, "the head has an older state");
	close(fd);
	setenv("HEARTH_TEST_BOOT_ID", "22222222-2222-2222-2222-222222222222", 1);
	lab_reopen(&l, 0);
	put_mib(&l, 20, 1);
	ok(cut_to(&l) >= to, "the hole is found");
	is_str(line_at(&l, MIB), "", "no reader gets it for bytes");
	lab_close(&l);
	unsetenv("HEARTH_TEST_BOOT_ID");
}

int main(void)
{
	test_cut();
	test_least();
	test_power_loss();
	return tap_done();
}
