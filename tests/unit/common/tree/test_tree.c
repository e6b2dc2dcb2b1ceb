/*
 * test_tree: random trees go out and come back the same; a changed file renews few chunks; hostile manifests
 * and hostile targets are refused; damaged and missing blobs are noticed.
 */
#include "common/tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static uint64_t seed = 77;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return below ? (uint32_t)(seed >> 33) % below : 0;
}

static const char *top;

static char *in_top(const char *name)
{
	return xasprintf("%s/%s", top, name);
}

static void make_file(const char *path, size_t n, mode_t mode)
{
	char *data = xmalloc(n + 8);
	struct err e;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = (uint64_t)rnd(0x7fffffff) << 32 | rnd(0x7fffffff);

		memcpy(data + i, &v, 8);
	}
	if (fs_replace(path, data, n, mode, &e) < 0)
		tap_bail("%s", e.text);
	free(data);
}

static void put_text(const char *dir, const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", dir, name);
	struct err e;

	if (fs_replace(path, text, strlen(text), 0644, &e) < 0)
		tap_bail("%s", e.text);
	free(path);
}

static int to_blobs(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	if (blob_has(arg, digest))
		return 0;
	return blob_cache(arg, digest, data, n, e) < 0 ? -1 : 1;
}

struct result {
	char *manifest, digest[HASH_HEX_SIZE];
	size_t n;
	struct tree_stats st;
	uint64_t special;
};

static struct result scan(const char *dir, const char *blobs)
{
	struct result r = {0};
	struct err e;

	if (tree_scan(dir, NULL, NULL, blobs ? to_blobs : NULL, (void *)(uintptr_t)blobs, &r.manifest, &r.n,
	              r.digest, &r.st, &r.special, &e) < 0)
		tap_bail("scan of %s: %s", dir, e.text);
	return r;
}

/* ---- random trees --------------------------------------------------------------------------------- */

static void random_name(char out[24])
{
	static const char *const odd[] = {"a b", "new\nline", "per%cent", "tab\t", "del\x7f",
	                                  "ünï", "-dash",     "..hidden", "a..b",  "quote'\""};

	if (rnd(6) == 0)
		snprintf(out, 24, "%s%u", odd[rnd(sizeof(odd) / sizeof(odd[0]))], rnd(100));
	else
		snprintf(out, 24, "%c%u", (char)('a' + rnd(4)), rnd(1000));
}

static void random_dir(const char *path, unsigned depth)
{
	unsigned n = rnd(8) + (depth == 0 ? 4 : 0);

	for (unsigned i = 0; i < n; i++) {
		char name[24], *sub;

		random_name(name);
		sub = xasprintf("%s/%s", path, name);
		if (access(sub, F_OK) == 0) {
			free(sub);
			continue;
		}
		switch (rnd(7)) {
		case 0:
		case 1:
			if (depth < 4 && mkdir(sub, 0700) == 0) {
				random_dir(sub, depth + 1);
				chmod(sub, rnd(2) ? 0755 : 0711);
			}
			break;
		case 2:
			(void)!symlink(rnd(2) ? "some where" : "./a/b", sub);
			break;
		case 3:
			make_file(sub, 0, 0644);
			break;
		case 4:
			make_file(sub, TREE_PACK_MAX - 5 + rnd(10), 0755);
			break;
		default:
			make_file(sub, rnd(20000), rnd(2) ? 0644 : 0400);
		}
		free(sub);
	}
}

static void test_random(void)
{
	int same = 1, measured = 1;

	for (int round = 0; round < 12; round++) {
		char *dir = xasprintf("%s/r%d", top, round), *blobs = xasprintf("%s/rb%d", top, round),
		     *out = xasprintf("%s/ro%d", top, round);
		struct tree_stats st, m;
		struct result r, back;
		struct err e;

		mkdir(dir, 0755);
		random_dir(dir, 0);
		r = scan(dir, blobs);
		if (tree_extract(r.manifest, r.n, blobs, out, &st, &e) < 0)
			tap_bail("extract: %s", e.text);
		back = scan(out, NULL);
		same = same && strcmp(r.digest, back.digest) == 0 && r.n == back.n && st.files == r.st.files &&
		       st.bytes == r.st.bytes;
		measured = measured && tree_measure(r.manifest, r.n, &m, &e) == 0 && m.files == r.st.files &&
		           m.bytes == r.st.bytes && m.chunks == r.st.chunks && st.chunks == m.chunks;
		/* again over what is there: the same */
		if (tree_extract(r.manifest, r.n, blobs, out, NULL, &e) < 0)
			tap_bail("extract again: %s", e.text);
		free(back.manifest);
		back = scan(out, NULL);
		same = same && strcmp(r.digest, back.digest) == 0;
		free(back.manifest);
		free(r.manifest);
		free(dir);
		free(blobs);
		free(out);
	}
	ok(same, "random trees come back the same, also over what is there");
	ok(measured, "measuring a manifest gives files, bytes and chunks");
}

static void test_large_file(void)
{
	char *dir = in_top("large"), *path = in_top("large/big"), *blobs = in_top("large_b"),
	     *out = in_top("large_o");
	struct result r, again, back;
	char **v;
	size_t n;
	struct err e;
	int fd;

	mkdir(dir, 0755);
	make_file(path, 2 * TREE_CHUNK_MAX + 12345, 0644);
	r = scan(dir, blobs);
	is_int(r.st.chunks, 3, "a file of 8 MiB and something has three chunks");
	is_int(r.st.new_chunks, 3, "all new");
	is_int(r.st.new_bytes, 2 * TREE_CHUNK_MAX + 12345, "new bytes");
	is_int(tree_chunks(r.manifest, r.n, &v, &n, &e), 0, "list of chunks");
	is_int(n, 3, "three");
	ok(n == 3 && blob_has(blobs, v[0]) && blob_has(blobs, v[2]), "all are there");
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
	is_int(tree_extract(r.manifest, r.n, blobs, out, NULL, &e), 0, "extracted");
	back = scan(out, NULL);
	is_str(back.digest, r.digest, "the same");
	fd = open(path, O_WRONLY);
	(void)!pwrite(fd, "x", 1, TREE_CHUNK_MAX + 5);
	close(fd);
	again = scan(dir, blobs);
	is_int(again.st.new_chunks, 1, "one changed byte renews one chunk");
	free(again.manifest);
	free(back.manifest);
	free(r.manifest);
	free(dir);
	free(path);
	free(blobs);
	free(out);
}

static void test_few_renewed(void)
{
	char *dir = in_top("many"), *blobs = in_top("many_b");
	struct result r, again;
	uint64_t worst = 0;

	mkdir(dir, 0755);
	for (int i = 0; i < 1000; i++) {
		char *path = xasprintf("%s/f%04d", dir, i);

		make_file(path, 1000 + rnd(2000), 0644);
		free(path);
	}
	r = scan(dir, blobs);
	ok(r.st.chunks > 10 && r.st.chunks < 100, "a thousand small files make %" PRIu64 " packs", r.st.chunks);
	for (int k = 0; k < 5; k++) {
		char *path = xasprintf("%s/f%04d", dir, 100 + k * 190);

		make_file(path, 1500, 0644);
		again = scan(dir, blobs);
		worst = again.st.new_chunks > worst ? again.st.new_chunks : worst;
		ok(strcmp(again.digest, r.digest) != 0, "the tree's digest changes");
		free(again.manifest);
		free(path);
	}
	is_int(worst, 1, "one changed file renews one pack");
	put_text(dir, "f0500b", "a new file");
	again = scan(dir, blobs);
	ok(again.st.new_chunks <= 2, "a new file renews at most two packs");
	free(again.manifest);
	again = scan(dir, blobs);
	is_int(again.st.new_chunks, 0, "nothing changed, nothing new");
	free(again.manifest);
	free(r.manifest);
	free(dir);
	free(blobs);
}

/* ---- what is left out ------------------------------------------------------------------------------ */

static int skip_pyc(const char *relpath, int is_dir, void *arg)
{
	(*(int *)arg)++;
	return is_dir ? strcmp(relpath, "sub/.git") == 0
	              : strcmp(strrchr(relpath, '.') ? strrchr(relpath, '.') : "", ".pyc") == 0;
}

static void test_left_out(void)
{
	char *dir = in_top("odd"), *sub = in_top("odd/sub"), *git = in_top("odd/sub/.git"),
	     *fifo = in_top("odd/fifo");
	static const char *const links[][2] = {
	    {"/etc/passwd", "abs"}, {"../x", "up"},   {"sub/../../x", "through"},
	    {"sub/..", "behind"},   {"fine", "good"}, {"./sub", "dot"},
	};
	struct result r = {0};
	int calls = 0;
	struct err e;

	mkdir(dir, 0755);
	mkdir(sub, 0755);
	mkdir(git, 0755);
	mkfifo(fifo, 0644);
	put_text(git, "config", "x");
	put_text(sub, "a.pyc", "x");
	put_text(sub, "a.py", "x");
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		char *path = xasprintf("%s/%s", dir, links[i][1]);

		(void)!symlink(links[i][0], path);
		free(path);
	}
	{
		char *path = xasprintf("%s/sub/ok", dir);

		(void)!symlink("../sub/a.py", path);
		free(path);
	}
	is_int(tree_scan(dir, skip_pyc, &calls, NULL, NULL, &r.manifest, &r.n, r.digest, &r.st, &r.special, &e),
	       0, "scan");
	is_int(r.special, 5, "a FIFO and four links that lead out are left out and counted");
	ok(strstr(r.manifest, "l 777 good fine\n") && strstr(r.manifest, "l 777 dot ./sub\n") &&
	       strstr(r.manifest, "l 777 sub/ok ../sub/a.py\n"),
	   "good links are there");
	ok(!strstr(r.manifest, "passwd") && !strstr(r.manifest, "behind"), "bad ones are not");
	ok(!strstr(r.manifest, ".git") && !strstr(r.manifest, "pyc") && strstr(r.manifest, "sub/a.py"),
	   "skipped is skipped");
	is_int(r.st.files, 1, "one file");
	free(r.manifest);
	is_int(tree_scan("/nonexistent", NULL, NULL, NULL, NULL, &r.manifest, &r.n, r.digest, NULL, NULL, &e), -1,
	       "no such folder");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	free(dir);
	free(sub);
	free(git);
	free(fifo);
}

static int refuse_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	(void)digest;
	(void)data;
	(void)n;
	(void)arg;
	return err_set(e, ERR_NOSPACE, "full");
}

static void test_stop(void)
{
	char *dir = in_top("stop");
	struct result r = {0};
	struct err e;

	mkdir(dir, 0755);
	r = scan(dir, NULL);
	is_str(r.manifest, "hearth-tree 1\n", "an empty folder");
	free(r.manifest);
	put_text(dir, "a", "x");
	is_int(tree_scan(dir, NULL, NULL, refuse_chunk, NULL, &r.manifest, &r.n, r.digest, NULL, NULL, &e), -1,
	       "the receiver may stop it");
	is_int(e.code, ERR_NOSPACE, "with its reason");
	free(dir);
}

/* ---- hostile manifests ------------------------------------------------------------------------------ */

#define H  "hearth-tree 1\n"
#define D0 "0000000000000000000000000000000000000000000000000000000000000000"

static const struct {
	const char *text, *message;
} hostile[] = {
    {"", "not a manifest of a tree"},
    {"hearth-tree 2\n", "not a manifest of a tree"},
    {H "d 755", "cut short"},
    {H "d 755\n", "path"},
    {H "d 755 \n", "mode"},
    {H "d 755 a \n", "path"},
    {H "d 755 a b\n", "more on the line"},
    {H "x 755 a\n", "begins with"},
    {H "d 999 a\n", "mode"},
    {H "d 4755 a\n", "mode"},
    {H "d 0755 a\n", "mode"},
    {H "d -1 a\n", "mode"},
    {H "d 755 /etc\n", "path"},
    {H "d 755 ../etc\n", "path"},
    {H "d 755 a/../b\n", "path"},
    {H "d 755 ..\n", "path"},
    {H "d 755 .\n", "path"},
    {H "d 755 a/./b\n", "path"},
    {H "d 755 a//b\n", "path"},
    {H "d 755 a/\n", "path"},
    {H "d 755 %2E%2E\n", "path"},
    {H "d 755 a%00\n", "path"},
    {H "d 755 a%2Fb\n", "path"},
    {H "d 755 a%0a\n", "path"},
    {H "d 755 a%0\n", "path"},
    {H "d 755 a%\n", "path"},
    {H "d 755 a\tb\n", "path"},
    {H "d 755 b\nd 755 a\n", "not in order"},
    {H "d 755 a\nd 755 a\n", "not in order"},
    {H "d 755 a/b\n", "parent is not a directory"},
    {H "l 777 a b\nf 644 0 a/x -\n", "parent is not a directory"},
    {H "f 644 0 a -\nf 644 0 a/x -\n", "parent is not a directory"},
    {H "l 777 a /etc\n", "leaves the tree"},
    {H "l 777 a ..\n", "leaves the tree"},
    {H "l 777 a b/../../c\n", "leaves the tree"},
    {H "l 777 a b/..\n", "leaves the tree"},
    {H "l 777 a ./../b\n", "leaves the tree"},
    {H "d 755 d\nl 777 d/a ../../b\n", "leaves the tree"},
    {H "l 777 a\n", "leaves the tree"},
    {H "f 644 5 a\n", "chunks are missing"},
    {H "f 644 5 a -\n", "chunks are wrong"},
    {H "f 644 0 a " D0 ":0:1\n", "chunks are wrong"},
    {H "f 644 2 a " D0 ":0:1\n", "chunks are wrong"},
    {H "f 644 1 a " D0 ":0:1,\n", "chunks are wrong"},
    {H "f 644 0 a " D0 ":0:0\n", "chunks are wrong"},
    {H "f 644 1 a " D0 ":0\n", "chunks are wrong"},
    {H "f 644 1 a " D0 ":4194304:1\n", "chunks are wrong"},
    {H "f 644 1 a " D0 ":99999999999999999999:1\n", "chunks are wrong"},
    {H "f 644 1 a 00:0:1\n", "chunks are wrong"},
    {H "f 644 1 a ../../../etc/passwd:0:1\n", "chunks are wrong"},
    {H "f 644 18446744073709551617 a -\n", "size"},
    {H "f 644 1x a -\n", "size"},
    {H "f 644 01 a " D0 ":0:1\n", "size"},
};

static void test_hostile(void)
{
	char *out = in_top("hostile_o"), *blobs = in_top("hostile_b"), deep[1024] = H "d 755 a";
	struct err e;

	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		int rc = tree_extract(hostile[i].text, strlen(hostile[i].text), blobs, out, NULL, &e);

		if (rc == 0)
			ok(0, "accepted: %s", hostile[i].text);
		else
			like(e.text, hostile[i].message, hostile[i].text);
	}
	ok(access(out, F_OK) < 0, "a bad manifest leaves nothing behind");
	for (size_t i = 0, n = strlen(deep); i < 200; i++, n += 2)
		snprintf(deep + n, sizeof(deep) - n, "/a%s", i == 199 ? "\n" : "");
	is_int(tree_each(deep, strlen(deep), NULL, NULL, &e), -1, "too deep");
	is_int(tree_each(H "d 755 a\0b\n", sizeof(H) - 1 + 10, NULL, NULL, &e), -1, "a NUL byte");
	free(out);
	free(blobs);
}

/* Cuts and changes of a good manifest never crash, and whatever is accepted stays inside. */
static void test_noise(void)
{
	char *dir = in_top("r0");
	struct result r = scan(dir, NULL);
	unsigned accepted = 0;

	for (unsigned i = 0; i < 3000; i++) {
		size_t n = rnd(4) ? r.n : rnd((uint32_t)r.n);
		char *text = xmemdup(r.manifest, n ? n : 1);

		for (unsigned k = rnd(4); n && k > 0; k--)
			text[rnd((uint32_t)n)] = (char)rnd(256);
		accepted += tree_each(text, n, NULL, NULL, NULL) == 0;
		free(text);
	}
	ok(1, "noise: %u of 3000 accepted", accepted);
	free(r.manifest);
	free(dir);
}

/* ---- hostile targets and damaged blobs --------------------------------------------------------------- */

static void test_target(void)
{
	char *dir = in_top("src"), *sub = in_top("src/sub"), *blobs = in_top("src_b"), *out = in_top("out"),
	     *outside = in_top("outside");
	char *link = in_top("out/sub"), *victim = in_top("outside/f"), *file_link = in_top("out/top"), *text;
	struct result r;
	size_t n;
	struct stat st;
	struct err e;

	mkdir(dir, 0755);
	mkdir(sub, 0755);
	put_text(sub, "f", "new");
	put_text(dir, "top", "new top");
	mkdir(outside, 0755);
	put_text(outside, "f", "old");
	mkdir(out, 0755);
	r = scan(dir, blobs);
	(void)!symlink(outside, link);
	is_int(tree_extract(r.manifest, r.n, blobs, out, NULL, &e), -1,
	       "a link where a folder should be is not followed");
	is_int(fs_read_file(victim, 100, &text, &n, &e), 0, "what it points to");
	is_str(text, "old", "is untouched");
	free(text);
	unlink(link);
	unlink(file_link);
	(void)!symlink(victim, file_link);
	is_int(tree_extract(r.manifest, r.n, blobs, out, NULL, &e), 0, "a link where a file should be");
	ok(lstat(file_link, &st) == 0 && S_ISREG(st.st_mode), "is replaced by the file");
	is_int(fs_read_file(victim, 100, &text, &n, &e), 0, "what it pointed to");
	is_str(text, "old", "is untouched");
	free(text);
	free(r.manifest);
	char *owned[] = {dir, sub, blobs, out, outside, link, victim, file_link};
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		free(owned[i]);
}

static void test_blobs(void)
{
	char *blobs = in_top("blobs"), *dir = in_top("bsrc"), *out = in_top("bout"), digest[HASH_HEX_SIZE],
	     path[4096], *data, *bad;
	struct result r;
	size_t n;
	struct err e;

	hash_hex("hello", 5, digest);
	is_int(blob_put(blobs, digest, "hello", 5, &e), 0, "put");
	is_int(blob_put(blobs, digest, "hello", 5, &e), 0, "put again");
	is_int(blob_put(blobs, digest, "hellO", 5, &e), -1, "other content under that digest");
	is_int(blob_put(blobs, "../../x", "hello", 5, &e), -1, "a digest that is a path");
	is_int(blob_get(blobs, "../../../etc/passwd", 100, &data, &n, &e), -1, "to read too");
	ok(!blob_has(blobs, "..") && blob_path(blobs, "x", path, sizeof(path)) < 0, "nor elsewhere");
	is_int(blob_get(blobs, digest, 100, &data, &n, &e), 0, "get");
	ok(n == 5 && memcmp(data, "hello", 5) == 0, "content");
	free(data);
	is_int(blob_get(blobs, digest, 4, &data, &n, &e), -1, "larger than allowed");
	is_int(e.code, ERR_LIMIT, "limit");
	ok(blob_has(blobs, digest), "it stays");
	blob_path(blobs, digest, path, sizeof(path));
	(void)!truncate(path, 3);
	is_int(blob_get(blobs, digest, 100, &data, &n, &e), -1, "a torn blob");
	is_int(e.code, ERR_IO, "is damaged");
	ok(!blob_has(blobs, digest), "and moved aside");
	bad = xasprintf("%s.bad", path);
	ok(access(bad, F_OK) == 0, "not thrown away");
	is_int(blob_put(blobs, digest, "hello", 5, &e), 0, "put anew");
	is_int(blob_get(blobs, digest, 100, &data, &n, &e), 0, "whole again");
	free(data);
	is_int(blob_get(blobs, D0, 100, &data, &n, &e), -1, "not there");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	mkdir(dir, 0755);
	put_text(dir, "a", "some text");
	r = scan(dir, blobs);
	hash_hex("some text", 9, digest);
	blob_path(blobs, digest, path, sizeof(path));
	unlink(path);
	is_int(tree_extract(r.manifest, r.n, blobs, out, NULL, &e), -1, "a tree whose blob is missing");
	is_int(e.code, ERR_NOT_FOUND, "not found");
	free(r.manifest);
	/* the manifest asks for more of the chunk than there is */
	r.manifest = xasprintf(H "f 644 9 a %s:1:9\n", digest);
	is_int(blob_cache(blobs, digest, "some text", 9, &e), 0, "cached");
	is_int(tree_extract(r.manifest, strlen(r.manifest), blobs, out, NULL, &e), -1, "a part beyond its chunk");
	like(e.text, "shorter than the manifest says", "said so");
	free(r.manifest);
	free(bad);
	free(blobs);
	free(dir);
	free(out);
}

/* A tree out of an earlier one: equal files are the same files. */
static void test_base(void)
{
	char *dir = in_top("r0"), *blobs = in_top("base_b"), *first = in_top("base_1"),
	     *second = in_top("base_2"), *big, *changed, *same;
	struct result was = scan(dir, blobs), is;
	size_t changed_n, same_n;
	struct tree_stats more, all;
	struct stat a, b;
	struct err e = {0};

	is_int(tree_extract(was.manifest, was.n, blobs, first, NULL, &e), 0, "the first tree is written");
	put_text(dir, "zz-new", "new\n");
	big = xasprintf("%s/zz-big", dir);
	make_file(big, TREE_PACK_MAX + 1, 0644);
	is = scan(dir, blobs);
	is_int(tree_split(is.manifest, is.n, was.manifest, was.n, &changed, &changed_n, &same, &same_n, &e), 0,
	       "two manifests");
	tree_measure(changed, changed_n, &more, &e);
	tree_measure(is.manifest, is.n, &all, &e);
	ok(more.files >= 2 && more.files < all.files, "%" PRIu64 " of %" PRIu64 " files changed", more.files,
	   all.files);
	is_int(tree_extract(changed, changed_n, blobs, second, NULL, &e), 0, "the changed files are written");
	is_int(tree_link(same, same_n, first, second, &e), 0, e.code ? e.text : "the others get names");
	free(changed);
	free(same);
	free(is.manifest);
	free(was.manifest);
	was = scan(second, NULL);
	is = scan(dir, NULL);
	is_str(was.digest, is.digest, "and make the same tree");
	is_int(tree_split(is.manifest, is.n, is.manifest, is.n, &changed, &changed_n, &same, &same_n, &e), 0,
	       "a manifest and itself");
	tree_measure(changed, changed_n, &more, &e);
	is_int(more.files, 0, "have no changed file");
	free(changed);
	free(same);
	is_int(tree_split("x", 1, is.manifest, is.n, &changed, &changed_n, &same, &same_n, &e), -1,
	       "a damaged manifest is refused");
	changed = xasprintf("%s/zz-new", second);
	same = xasprintf("%s/zz-new", first);
	ok(stat(changed, &a) == 0 && stat(same, &b) < 0, "the first tree is as it was");
	free(changed);
	free(same);
	free(is.manifest);
	free(was.manifest);
	free(big);
	free(dir);
	free(blobs);
	free(first);
	free(second);
}

int main(void)
{
	top = tap_tmpdir();
	test_random();
	test_base();
	test_large_file();
	test_few_renewed();
	test_left_out();
	test_stop();
	test_hostile();
	test_noise();
	test_target();
	test_blobs();
	return tap_done();
}
