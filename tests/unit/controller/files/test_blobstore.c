/* blobstore: owners, uploads in pieces, garbage collection. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/blobs/blobstore.h"
#include "tests/lib/tap.h"

static struct clock clock_;
static struct blobstore *bs;
static char dir[512];

#define HOUR_US 3600000000ull

static void open_store(const char *name)
{
	struct err e;

	clock_fake_init(&clock_, clock_real_us(clock_real()), 1);
	snprintf(dir, sizeof(dir), "%s/%s", tap_tmpdir(), name);
	bs = blobstore_open(dir, &clock_, &e);
	if (!bs)
		tap_bail("blobstore_open: %s", e.text);
}

static int put_blob(const char *owner, const char *digest, uint64_t offset, uint64_t total, const void *data,
                    size_t n, uint64_t *present, int *complete, struct err *e)
{
	struct blob_piece p = {owner, digest, offset, total, data, n};

	return blobstore_put(bs, &p, present, complete, e);
}

static void put_whole(const char *owner, const char *text, char digest[HASH_HEX_SIZE])
{
	uint64_t present;
	struct err e;
	int complete;

	hash_hex(text, strlen(text), digest);
	if (put_blob(owner, digest, 0, strlen(text), text, strlen(text), &present, &complete, &e) < 0 ||
	    !complete || present != strlen(text))
		tap_bail("put: %s", e.text);
}

static void test_owners(void)
{
	char d[HASH_HEX_SIZE], *data;
	const char *list[2];
	uint8_t missing[2];
	uint64_t size;
	struct err e;
	size_t n;
	int fd;

	open_store("owners");
	put_whole("alice", "a secret recipe", d);
	ok(blobstore_has(bs, "alice", d), "alice has what she has put");
	ok(!blobstore_has(bs, "bob", d), "bob has not, though he knows the digest");
	ok(blobstore_has(bs, NULL, d), "hearthd has it");
	ok(blobstore_get(bs, "bob", d, &data, &n, &e) < 0 && e.code == ERR_NOT_FOUND, "bob cannot get it");
	ok(blobstore_open_blob(bs, "bob", d, &size, &e) < 0 && e.code == ERR_NOT_FOUND, "nor open it");
	list[0] = d;
	list[1] = "0000000000000000000000000000000000000000000000000000000000000000";
	ok(blobstore_missing(bs, "bob", list, 2, missing, &e) == 0 && missing[0] && missing[1],
	   "he is told to upload it");
	ok(blobstore_missing(bs, "alice", list, 2, missing, &e) == 0 && !missing[0] && missing[1], "she is not");
	put_whole("bob", "a secret recipe", d);
	ok(blobstore_get(bs, "bob", d, &data, &n, &e) == 0 && n == 15 && memcmp(data, "a secret recipe", 15) == 0,
	   "having shown it, he may");
	free(data);
	fd = blobstore_open_blob(bs, "alice", d, &size, &e);
	ok(fd >= 0 && size == 15, "opened for streaming");
	close(fd);
	put_whole("c/../../d@x.org", "odd", d);
	ok(blobstore_has(bs, "c/../../d@x.org", d), "any owner's name is one folder");
	ok(!blobstore_has(bs, "", d), "but an empty one");
	blobstore_close(bs);
}

static void test_bad(void)
{
	static const char *const bad[] = {"", "abc", "../../../../etc/passwd",
	                                  "ABCDEF0000000000000000000000000000000000000000000000000000000000",
	                                  "00000000000000000000000000000000000000000000000000000000000000000"};
	char d[HASH_HEX_SIZE], *big = xcalloc(1, BLOBSTORE_PIECE_MAX + 1);
	uint64_t present;
	struct err e;
	int complete;

	open_store("bad");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(put_blob("a", bad[i], 0, 1, "x", 1, &present, &complete, &e) < 0 && e.code == ERR_INVALID &&
		       !blobstore_has(bs, NULL, bad[i]),
		   "\"%.20s\" is not a digest", bad[i]);
	hash_hex("x", 1, d);
	ok(put_blob("a", d, 0, 1, "y", 1, &present, &complete, &e) < 0 && e.code == ERR_INVALID,
	   "content with another digest");
	ok(!blobstore_has(bs, NULL, d), "is not kept");
	ok(put_blob("a", d, 0, 0, big, BLOBSTORE_PIECE_MAX + 1, &present, &complete, &e) < 0 &&
	       e.code == ERR_LIMIT,
	   "a piece that is too large");
	ok(put_blob("a", d, BLOBSTORE_BLOB_MAX, 0, "x", 1, &present, &complete, &e) < 0 && e.code == ERR_LIMIT,
	   "a blob that is too large");
	ok(put_blob("a", d, UINT64_MAX, 0, "x", 1, &present, &complete, &e) < 0, "an offset that wraps");
	ok(put_blob("a", d, 5, 3, "x", 1, &present, &complete, &e) < 0 && e.code == ERR_INVALID,
	   "a piece behind the end");
	free(big);
	blobstore_close(bs);
}

static void test_pieces(void)
{
	const size_t n = 3 * BLOBSTORE_PIECE_MAX + 777;
	uint8_t *data = xmalloc(n);
	char d[HASH_HEX_SIZE], path[1024], *back;
	uint64_t present;
	struct err e;
	int complete, fd;
	size_t len;

	for (size_t i = 0; i < n; i++)
		data[i] = (uint8_t)(i * 31 >> 3);
	hash_hex(data, n, d);
	open_store("pieces");
	ok(put_blob("a", d, 0, n, data, BLOBSTORE_PIECE_MAX, &present, &complete, &e) == 0 && !complete &&
	       present == BLOBSTORE_PIECE_MAX,
	   "first piece");
	ok(put_blob("a", d, 2 * BLOBSTORE_PIECE_MAX, n, data, 10, &present, &complete, &e) < 0 &&
	       e.code == ERR_CONFLICT && present == BLOBSTORE_PIECE_MAX,
	   "a piece too far is refused, with what is there");
	ok(put_blob("a", d, 0, n, data, BLOBSTORE_PIECE_MAX, &present, &complete, &e) == 0 &&
	       present == BLOBSTORE_PIECE_MAX,
	   "a repeated piece");
	ok(blobstore_present(bs, "a", d, &present, &complete, &e) == 0 && present == BLOBSTORE_PIECE_MAX &&
	       !complete,
	   "where to go on");
	ok(blobstore_present(bs, "b", d, &present, &complete, &e) == 0 && present == 0 && !complete,
	   "another owner has an upload of his own");
	blobstore_close(bs);
	bs = blobstore_open(dir, &clock_, &e);
	ok(put_blob("a", d, BLOBSTORE_PIECE_MAX - 100, n, data + BLOBSTORE_PIECE_MAX - 100, BLOBSTORE_PIECE_MAX,
	            &present, &complete, &e) == 0 &&
	       present == 2 * BLOBSTORE_PIECE_MAX - 100,
	   "goes on after a restart, with an overlap");
	snprintf(path, sizeof(path), "%s/uploads/a.%s", dir, d);
	fd = open(path, O_RDWR);
	ok(fd >= 0 && flock(fd, LOCK_EX) == 0, "another connection holds the upload");
	ok(put_blob("a", d, present, n, data + present, 1, &present, &complete, &e) < 0 && e.code == ERR_BUSY,
	   "so this one is told");
	close(fd);
	present = 2 * BLOBSTORE_PIECE_MAX - 100;
	ok(put_blob("a", d, present, n, data + present, BLOBSTORE_PIECE_MAX, &present, &complete, &e) == 0 &&
	       !complete,
	   "third");
	ok(put_blob("a", d, present, n, data + present, n - present, &present, &complete, &e) == 0 && complete &&
	       present == n,
	   "last");
	ok(access(path, F_OK) < 0, "the upload's file is gone");
	ok(blobstore_get(bs, "a", d, &back, &len, &e) == 0 && len == n && memcmp(back, data, n) == 0,
	   "the blob is what was sent");
	free(back);
	ok(blobstore_present(bs, "a", d, &present, &complete, &e) == 0 && complete && present == n, "complete");
	ok(put_blob("a", d, 0, n, data, 5, &present, &complete, &e) == 0 && complete,
	   "putting it again is done at once");
	/* without a total: found by the digest */
	hash_hex(data, 1000, d);
	ok(put_blob("a", d, 0, 0, data, 400, &present, &complete, &e) == 0 && !complete, "total not told: first");
	ok(put_blob("a", d, 400, 0, data + 400, 600, &present, &complete, &e) == 0 && complete,
	   "complete when the digest is right");
	/* wrong content */
	hash_hex(data, 2000, d);
	ok(put_blob("a", d, 0, 2000, data + 1, 400, &present, &complete, &e) == 0 && !complete,
	   "a wrong first piece");
	ok(put_blob("a", d, 400, 2000, data + 400, 1600, &present, &complete, &e) < 0 && e.code == ERR_INVALID,
	   "shows at the end");
	ok(blobstore_present(bs, "a", d, &present, &complete, &e) == 0 && present == 0,
	   "and the upload begins again");
	free(data);
	blobstore_close(bs);
}

/* ---- trees and garbage ------------------------------------------------------------------------ */

static int store_chunk(const char *digest, const void *data, size_t n, void *arg, struct err *e)
{
	uint64_t present;
	int complete;

	return put_blob(arg, digest, 0, n, data, n, &present, &complete, e);
}

/* A tree of two files, uploaded by owner; gives the manifest's digest. */
static void make_tree(char *owner, const char *name, const char *text, char digest[HASH_HEX_SIZE])
{
	char src[1024], path[1100], *manifest;
	uint64_t present;
	struct err e;
	size_t n;
	int complete;

	snprintf(src, sizeof(src), "%s/src-%s", tap_tmpdir(), name);
	snprintf(path, sizeof(path), "%s/train.py", src);
	if (fs_mkdir_p(src, 0700, &e) < 0 || fs_write_atomic(path, text, strlen(text), 0600, &e) < 0 ||
	    tree_scan(src, NULL, NULL, store_chunk, owner, &manifest, &n, digest, NULL, NULL, &e) < 0 ||
	    put_blob(owner, digest, 0, n, manifest, n, &present, &complete, &e) < 0)
		tap_bail("make_tree: %s", e.text);
	free(manifest);
}

struct roots {
	const char *v[4];
	int fail;
};

static int each_root(int (*mark)(const char *digest, void *mark_arg), void *mark_arg, void *arg,
                     struct err *e)
{
	struct roots *r = arg;

	for (int i = 0; i < 4; i++)
		if (r->v[i] && mark(r->v[i], mark_arg) < 0)
			return err_set(e, ERR_INTERNAL, "stopped");
	return r->fail ? err_set(e, ERR_IO, "the store is broken") : 0;
}

static void test_tree(void)
{
	char t1[HASH_HEX_SIZE], chunk[HASH_HEX_SIZE], file[1200];
	struct err e;

	open_store("tree");
	make_tree((char *)(uintptr_t) "alice", "t1", "print(1)\n", t1);
	is_int(blobstore_check_tree(bs, "alice", t1, 0, &e), 0, "a whole tree");
	ok(blobstore_check_tree(bs, "bob", t1, 0, &e) < 0 && e.code == ERR_NOT_FOUND, "is not bob's");
	is_int(blobstore_give(bs, "bob", t1, &e), 0, "until it is given to him");
	is_int(blobstore_check_tree(bs, "bob", t1, 0, &e), 0, "then it is");
	hash_hex("print(1)\n", 9, chunk);
	snprintf(file, sizeof(file), "%s/blobs/%.2s/%s", dir, chunk, chunk);
	ok(unlink(file) == 0, "a chunk gets lost");
	ok(blobstore_check_tree(bs, "alice", t1, 0, &e) < 0 && e.code == ERR_NOT_FOUND,
	   "then the tree is not whole");
	like(e.text, "1 of the 1 chunks", "and the message says what is missing");
	ok(blobstore_give(bs, "carol", t1, &e) < 0, "nor can it be given");
	blobstore_close(bs);
}

/* A small manifest of a large tree: one chunk many times. */
static void test_large(void)
{
	char chunk[HASH_HEX_SIZE], digest[HASH_HEX_SIZE], *piece = xcalloc(1, TREE_CHUNK_MAX);
	uint64_t present;
	int complete;
	const unsigned parts = (unsigned)(BLOBSTORE_TREE_MAX / TREE_CHUNK_MAX) + 1;
	cleanup_free char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	struct err e;

	open_store("large");
	hash_hex(piece, TREE_CHUNK_MAX, chunk);
	fprintf(f, "hearth-tree 1\nf 644 %" PRIu64 " big ", (uint64_t)parts * TREE_CHUNK_MAX);
	for (unsigned i = 0; i < parts; i++)
		fprintf(f, "%s%s:0:%u", i ? "," : "", chunk, TREE_CHUNK_MAX);
	fprintf(f, "\n");
	fclose(f);
	hash_hex(text, n, digest);
	if (put_blob("alice", chunk, 0, TREE_CHUNK_MAX, piece, TREE_CHUNK_MAX, &present, &complete, &e) < 0 ||
	    put_blob("alice", digest, 0, n, text, n, &present, &complete, &e) < 0)
		tap_bail("%s", e.text);
	is_int(blobstore_check_tree(bs, "alice", digest, 0, &e), -1, "4 MiB that stand for more than 64 GiB");
	is_int(e.code, ERR_LIMIT, "are too much");
	like(e.text, "at most 64.0GiB are allowed", "and the bound is named");
	is_int(blobstore_check_tree(bs, "alice", digest, 1 << 30, &e), -1, "with a disk limit");
	like(e.text, "resources.disk allows 1.0GiB", "that one is named");
	free(piece);
	blobstore_close(bs);
}

static void test_gc(void)
{
	char keep[HASH_HEX_SIZE], drop[HASH_HEX_SIZE], plain[HASH_HEX_SIZE], young[HASH_HEX_SIZE],
	    lost[HASH_HEX_SIZE], path[1100];
	struct roots r = {{keep, plain, lost, "no digest"}, 0};
	struct blobstore_gc gc = {.roots = each_root, .arg = &r};
	struct err e;
	uint64_t present;
	int complete, fd;

	open_store("gc");
	make_tree((char *)(uintptr_t) "alice", "keep", "print('keep')\n", keep);
	make_tree((char *)(uintptr_t) "alice", "drop", "print('drop')\n", drop);
	put_whole("alice", "a failure text", plain);
	hash_hex("never", 5, lost);
	is_int(blobstore_gc(bs, &gc, &e), 0, "blobstore_gc");
	ok(gc.removed == 0 && gc.kept == 5 && gc.manifests_missing == 1, "nothing is old enough (kept %llu)",
	   (unsigned long long)gc.kept);
	ok(blobstore_is_fresh(bs, plain) && !blobstore_is_fresh(bs, lost), "what was put just now is fresh");
	clock_fake_advance(&clock_, 2 * HOUR_US);
	ok(!blobstore_is_fresh(bs, plain), "what garbage collection may take is not");
	put_whole("alice", "young", young);
	gc.keep_since_us = clock_real_us(&clock_) - 3 * HOUR_US;
	is_int(blobstore_gc(bs, &gc, &e), 0, "with an upload that goes on for three hours");
	is_int((int64_t)gc.removed, 0, "nothing younger than it goes");
	gc.keep_since_us = 0;
	is_int(blobstore_gc(bs, &gc, &e), 0, "after two hours");
	ok(gc.removed == 2 && gc.references_removed == 2,
	   "the tree without a root went, with its chunk and references (%llu, %llu)",
	   (unsigned long long)gc.removed, (unsigned long long)gc.references_removed);
	is_int(blobstore_check_tree(bs, "alice", keep, 0, &e), 0, "the one with a root stayed, with its chunk");
	ok(!blobstore_has(bs, "alice", drop) && blobstore_has(bs, "alice", plain) &&
	       blobstore_has(bs, "alice", young),
	   "the rest is right");
	/* being asked for keeps a blob */
	r.v[0] = r.v[1] = NULL;
	clock_fake_advance(&clock_, 2 * HOUR_US);
	const char *list[1] = {plain};
	uint8_t missing[1];
	blobstore_missing(bs, "alice", list, 1, missing, &e);
	ok(blobstore_is_fresh(bs, plain), "being asked for makes it fresh");
	is_int(blobstore_gc(bs, &gc, &e), 0, "without roots");
	ok(gc.removed == 3 && blobstore_has(bs, "alice", plain), "what was promised a moment ago stays (%llu)",
	   (unsigned long long)gc.removed);
	/* uploads */
	hash_hex("0123456789", 10, lost);
	put_blob("alice", lost, 0, 10, "01234", 5, &present, &complete, &e);
	put_blob(NULL, lost, 0, 10, "01234", 5, &present, &complete, &e); /* a node's */
	clock_fake_advance(&clock_, 23 * HOUR_US);
	blobstore_gc(bs, &gc, &e);
	is_int((int64_t)gc.uploads_removed, 0, "an upload may rest for some hours");
	clock_fake_advance(&clock_, 12 * HOUR_US);
	blobstore_gc(bs, &gc, &e);
	is_int((int64_t)gc.uploads_removed, 2, "but not for a day, a user's and a node's");
	/* safety */
	make_tree((char *)(uintptr_t) "alice", "keep2", "print('keep')\n", keep);
	clock_fake_advance(&clock_, 2 * HOUR_US);
	r.fail = 1;
	r.v[0] = keep;
	ok(blobstore_gc(bs, &gc, &e) < 0 && blobstore_check_tree(bs, "alice", keep, 0, &e) == 0,
	   "roots that cannot be read: nothing is removed");
	r.fail = 0;
	clock_fake_advance(&clock_, 2 * HOUR_US);
	snprintf(path, sizeof(path), "%s/blobs/%.2s/%s", dir, keep, keep);
	fd = open(path, O_WRONLY);
	ok(pwrite(fd, "X", 1, 3) == 1, "a manifest gets damaged");
	close(fd);
	put_whole("alice", "garbage", young);
	clock_fake_advance(&clock_, 2 * HOUR_US);
	ok(blobstore_gc(bs, &gc, &e) < 0, "a damaged manifest ends the run");
	ok(blobstore_has(bs, "alice", young), "before anything is removed");
	blobstore_close(bs);
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *run_putter(void *arg)
{
	char text[64], d[HASH_HEX_SIZE];
	uint64_t present;
	struct err e;
	int *bad = arg, complete;

	for (int i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "blob %d", i % 50);
		hash_hex(text, strlen(text), d);
		if (put_blob("t", d, 0, strlen(text), text, strlen(text), &present, &complete, &e) < 0 || !complete)
			++*bad;
		/* Put this moment: garbage collection must leave it. */
		*bad += !blobstore_has(bs, "t", d);
	}
	return NULL;
}

static void test_threads(void)
{
	struct roots r = {{0}, 0};
	struct blobstore_gc gc = {.roots = each_root, .arg = &r};
	pthread_t t[3];
	int bad[3] = {0}, rc = 0;
	char d[HASH_HEX_SIZE], text[64];
	struct err e;

	open_store("threads");
	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "blob %d", i);
		put_whole("t", text, d);
	}
	clock_fake_advance(&clock_, 2 * HOUR_US); /* all of them are old now */
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, run_putter, &bad[i]);
	for (int i = 0; i < 20; i++)
		rc |= blobstore_gc(bs, &gc, &e);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ok(rc == 0 && bad[0] + bad[1] + bad[2] == 0,
	   "puts and garbage collection at once: what was put is there");
	blobstore_close(bs);
}

int main(void)
{
	test_owners();
	test_bad();
	test_pieces();
	test_tree();
	test_large();
	test_gc();
	test_threads();
	return tap_done();
}
