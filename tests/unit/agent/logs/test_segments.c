/*
 * segments, nodelog: segment files read as one stream while they grow, rotate and vanish; compared with a
 * shim's own writer, byte for byte and record for record; random cuts and seeks.
 */
#include "agent/logs/segments.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/logs/nodelog.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "shim/out.h"
#include "tests/lib/tap.h"

static char *new_dir(const char *name)
{
	char *path = xasprintf("%s/%s", tap_tmpdir(), name);
	struct err e;

	if (fs_mkdir_p(path, 0755, &e) < 0)
		tap_bail("%s", e.text);
	return path;
}

static void put_file(const char *dir, uint64_t offset, const char *suffix, const void *p, size_t n)
{
	char name[SEGMENT_NAME_SIZE];
	cleanup_free char *path = NULL;
	struct err e;

	segment_name(name, offset, suffix);
	path = xasprintf("%s/%s", dir, name);
	if (fs_replace(path, p, n, 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static void put_recs(const char *dir, uint64_t offset, const uint32_t (*recs)[3], size_t n)
{
	struct buf b;

	buf_init(&b, 4096);
	for (size_t i = 0; i < n; i++) {
		buf_put_u32(&b, recs[i][0]);
		buf_put_u64(&b, recs[i][1]);
		buf_put_u32(&b, recs[i][2]);
	}
	put_file(dir, offset, "idx", n ? b.data : (const void *)"", b.len);
	buf_fini(&b);
}

/* "off@time/fd off@time/fd" */
static char *recs_text(struct buf *b)
{
	char *text = xstrdup(""), *next;
	uint32_t off, fd;
	uint64_t us;

	while (buf_get_u32(b, &off) == 0 && buf_get_u64(b, &us) == 0 && buf_get_u32(b, &fd) == 0) {
		next = xasprintf("%s%s%u@%u/%u", text, *text ? " " : "", off, (unsigned)us, fd);
		free(text);
		text = next;
	}
	return text;
}

static char *read_once(struct segment_cursor *c, size_t max, char **recs, uint64_t *gap)
{
	char *out = xcalloc(1, max + 1);
	struct buf b;
	struct err e;
	ptrdiff_t n;

	buf_init(&b, 65536);
	n = segment_cursor_read(c, out, max, &b, gap, &e);
	if (n < 0)
		tap_bail("%s", e.text);
	*recs = recs_text(&b);
	buf_fini(&b);
	return out;
}

static void expect(struct segment_cursor *c, size_t max, const char *data, const char *recs, uint64_t gap,
                   const char *what)
{
	cleanup_free char *got_recs = NULL, *got = NULL;
	uint64_t got_gap;

	got = read_once(c, max, &got_recs, &got_gap);
	is_str(got, data, what);
	is_str(got_recs, recs, "  its records");
	is_int(got_gap, gap, "  its gap");
}

static void test_records(void)
{
	static const uint32_t first[][3] = {{0, 100, 1}, {4, 200, 2}, {8, 300, 1}, {99, 999, 1}};
	static const uint32_t second[][3] = {{0, 400, 1}};
	cleanup_free char *dir = new_dir("records");
	struct segments d;
	struct segment_cursor c;
	struct err e;

	is_int(segments_open(&d, dir, &e), 0, "an empty folder");
	segment_cursor_init(&c, &d, 0);
	expect(&c, 100, "", "", 0, "nothing yet");
	put_recs(dir, 0, first, 4);
	put_file(dir, 0, "log", "aaaabbbbcc", 10);
	segments_scan(&d, &e);
	expect(&c, 6, "aaaabb", "0@100/1 4@200/2", 0, "cut in the middle of a record's bytes");
	expect(&c, 2, "bb", "0@200/2", 0, "the record goes on");
	expect(&c, 100, "cc", "0@300/1", 0, "one that begins there");
	expect(&c, 100, "", "", 0, "the end; a record past it is not believed");
	segment_cursor_seek(&c, 2);
	expect(&c, 3, "aab", "0@100/1 2@200/2", 0, "back again");
	put_file(dir, 15, "log", "zz\n", 3);
	put_recs(dir, 15, second, 1);
	put_file(dir, 10, "log", "dd", 2); /* an index that is missing costs the time stamps only */
	segments_scan(&d, &e);
	segment_cursor_seek(&c, 8);
	expect(&c, 100, "cc", "0@300/1", 0, "never over the end of a segment");
	expect(&c, 100, "dd", "", 0, "the next one");
	expect(&c, 100, "zz\n", "0@400/1", 3, "lost bytes are a gap");
	is_int(segments_end(&d), 18, "end of the stream");
	is_int(segments_remove_before(&d, 17), 2, "what lies before goes");
	is_int(d.n, 1, "one is left");
	is_int(segments_remove_before(&d, 1000), 0, "the last one stays");
	segment_cursor_seek(&c, 0);
	expect(&c, 100, "zz\n", "0@400/1", 15, "what was removed is a gap, too");
	put_file(dir, 3, "log", "x", 1);
	put_file(dir, 3, "log.tmp", "x", 1);
	put_file(dir, 3, "idx", "torn", 4);
	segments_scan(&d, &e);
	segment_cursor_seek(&c, 3);
	expect(&c, 100, "x", "", 0, "a torn index is none");
	segment_cursor_fini(&c);
	segments_close(&d);
	ok(segments_open(&d, "/nonexistent/dir", &e) < 0, "no folder");
}

/* A segment that is removed while it is read. */
static void test_vanish(void)
{
	cleanup_free char *dir = new_dir("vanish"), *path = NULL;
	char name[SEGMENT_NAME_SIZE];
	struct segments d;
	struct segment_cursor c;

	put_file(dir, 0, "log", "12345", 5);
	put_file(dir, 5, "log", "67890", 5);
	segments_open(&d, dir, NULL);
	segment_cursor_init(&c, &d, 0);
	expect(&c, 2, "12", "", 0, "begun");
	segment_name(name, 0, "log");
	path = xasprintf("%s/%s", dir, name);
	unlink(path);
	expect(&c, 100, "345", "", 0, "an open segment is read to its end");
	segment_cursor_fini(&c);
	segment_cursor_init(&c, &d, 0);
	expect(&c, 100, "67890", "", 5, "one that is listed and gone is a gap");
	segment_cursor_fini(&c);
	segments_close(&d);
}

/* The shim's writer on one side, cursors on the other. */
static void test_against_writer(void)
{
	cleanup_free char *dir = new_dir("writer");
	struct out *o;
	struct segments d;
	struct segment_cursor c;
	struct err e;
	int fds[2];
	char *wrote = xcalloc(1, 4 << 20), *got = xcalloc(1, 4 << 20), piece[3000];
	size_t n = 0, m = 0;
	uint64_t gap, gaps = 0;
	ptrdiff_t r;

	o = out_create(dir, 8192, 1 << 30, clock_real(), &e);
	if (!o || out_pipes(o, fds, &e) < 0)
		tap_bail("%s", e.text);
	segments_open(&d, dir, &e);
	segment_cursor_init(&c, &d, 0);
	for (int i = 0; i < 800; i++) {
		uint16_t rnd[2];
		struct pollfd p[2];
		size_t len;

		random_bytes(rnd, sizeof(rnd));
		len = rnd[0] % sizeof(piece);
		memset(piece, 'a' + i % 26, sizeof(piece));
		for (size_t k = 0; k < len; k += 70)
			piece[k] = '\n';
		if (len && write(fds[0], piece, len) == (ssize_t)len) {
			memcpy(wrote + n, piece, len);
			n += len;
		}
		out_poll(o, p);
		p[0].revents = p[1].revents = POLLIN;
		out_handle(o, p);
		if (rnd[1] % 3 == 0)
			segments_scan(&d, &e);
		while ((r = segment_cursor_read(&c, got + m, 1 + rnd[1] % 5000u, NULL, &gap, &e)) > 0) {
			m += (size_t)r;
			gaps += gap;
		}
		if (rnd[1] % 7 == 0 && m > 100) { /* sent again from an earlier place */
			segment_cursor_seek(&c, m - 100);
			m -= 100;
		}
	}
	out_drain(o);
	segments_scan(&d, &e);
	while ((r = segment_cursor_read(&c, got + m, 65536, NULL, &gap, &e)) > 0)
		m += (size_t)r;
	is_int(m, n, "every byte");
	ok(memcmp(got, wrote, n) == 0, "the same ones");
	is_int(gaps, 0, "no gap");
	ok(d.n > 20, "over many segments");
	close(fds[0]);
	close(fds[1]);
	out_destroy(o);
	segment_cursor_fini(&c);
	segments_close(&d);
	free(wrote);
	free(got);
}

static char *whole(const char *dir)
{
	struct segments d;
	struct segment_cursor c;
	char *out = xcalloc(1, 1 << 20);
	size_t n = 0;
	uint64_t gap;
	ptrdiff_t r;

	segments_open(&d, dir, NULL);
	segment_cursor_init(&c, &d, 0);
	while ((r = segment_cursor_read(&c, out + n, 65536, NULL, &gap, NULL)) > 0)
		n += (size_t)r;
	segment_cursor_fini(&c);
	segments_close(&d);
	return out;
}

static void test_nodelog(void)
{
	cleanup_free char *dir = new_dir("node");
	struct clock fake;
	struct nodelog *n;
	struct err e;
	char *text, *chunk = xcalloc(1, 1 << 20);
	struct segments d;

	clock_fake_init(&fake, 1767323045678901, 1000);
	n = nodelog_open(dir, &fake, &e);
	if (!n)
		tap_bail("%s", e.text);
	nodelog_line(n, "hello %d", 7);
	nodelog_line(n, "two\nlines");
	nodelog_bytes(n, "raw ", 4);
	nodelog_bytes(n, "output", 6);
	nodelog_line(n, "after raw");
	nodelog_line(n, "\n\nempty ones\n\nare left out\n");
	text = whole(dir);
	is_str(text,
	       "2026-01-02T03:04:05.678Z hello 7\n2026-01-02T03:04:05.678Z two\n2026-01-02T03:04:05.678Z "
	       "lines\nraw output\n"
	       "2026-01-02T03:04:05.678Z after raw\n"
	       "2026-01-02T03:04:05.678Z empty ones\n2026-01-02T03:04:05.678Z are left out\n",
	       "lines with time stamps, bytes as they are");
	free(text);
	nodelog_close(n);
	n = nodelog_open(dir, &fake, &e);
	nodelog_line(n, "again");
	text = whole(dir);
	like(text, "left out\n2026-01-02T03:04:05.678Z again\n", "opened again it goes on");
	free(text);
	for (int i = 0; i < 90; i++)
		nodelog_bytes(n, chunk, 1 << 20);
	segments_open(&d, dir, &e);
	ok(d.n > 2 && d.n <= 17, "rotated and bounded (%zu segments)", d.n);
	is_int(segments_end(&d) > 90u << 20, 1, "offsets run on");
	segments_close(&d);
	nodelog_close(n);
	nodelog_line(NULL, "nowhere");
	free(chunk);
	ok(nodelog_open("/proc/nonexistent/x", &fake, &e) == NULL, "a folder that cannot be");
}

static void last(const char *dir, size_t max, const char *want, const char *what)
{
	size_t n = 99;
	char *got = tail_last_lines(dir, max, &n);

	is_str(got, want, what);
	is_int(n, strlen(want), "  its length");
	free(got);
}

static void test_last_lines(void)
{
	cleanup_free char *dir = new_dir("last");

	last("/nonexistent", 100, "", "no folder");
	last(dir, 100, "", "no segments");
	put_file(dir, 0, "log", "one\ntwo\nthree\n", 14);
	last(dir, 100, "one\ntwo\nthree\n", "all there is");
	last(dir, 10, "three\n", "whole lines only");
	last(dir, 3, "ee\n", "but something rather than nothing");
	put_file(dir, 14, "log", "fo", 2);
	put_file(dir, 16, "log", "ur\nend", 6);
	last(dir, 17, "three\nfour\nend", "over segments, an unfinished line too");
}

int main(void)
{
	test_records();
	test_vanish();
	test_against_writer();
	test_nodelog();
	test_last_lines();
	return tap_done();
}
