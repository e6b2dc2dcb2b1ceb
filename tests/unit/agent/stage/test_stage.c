/*
 * stage: source trees and inputs into a job's folders: what arrives, whose it is, what is cached, what is
 * refused and in which words; limits, cancel, a controller that is away.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/base/copy.h"
#include "agent/base/layers.h"
#include "agent/launch/launch_steps.h"
#include "agent/pool/uses.h"
#include "agent/stage/cache.h"
#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/stage/stagekit.h"

static struct stagekit k;

static char *in_top(const char *name)
{
	return xasprintf("%s/%s", top, name);
}

static void put(const char *name, const char *text)
{
	cleanup_free char *path = in_top(name);

	stagekit_put(path, text);
}

static void is_file(const char *path, const char *want)
{
	cleanup_free char *got = stagekit_read(&k, path);

	is_str(got, want, path);
	is_int(stagekit_owner(&k, path), k.user.uid, "  belongs to the job");
}

/* ---- trees
 * ------------------------------------------------------------------------------------------------- */

static void test_bundle(void)
{
	cleanup_free char *src = in_top("src"), *digest = NULL, *entry = NULL, *inner = NULL;
	unsigned gets;

	put("src/train.py", "print(1)\n");
	put("src/pkg/mod.py", "x = 1\n");
	digest = stagekit_tree(&k, src);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, k.text ? k.text : "staged");
	is_file("code/train.py", "print(1)\n");
	is_file("code/pkg/mod.py", "x = 1\n");
	is_str(k.phases, "bundle ", "phase");
	like(k.log, "source tree", "a line in the setup stream");
	gets = k.ctl.gets;
	ok(gets >= 2, "chunks came from the controller");
	stagekit_run(&k, "", digest, NULL, NULL);
	is_file("code/train.py", "print(1)\n");
	is_int(k.ctl.gets, gets, "the second job of the same tree asks for nothing");

	put("src/train.py", "print(2)\n");
	free(digest);
	digest = stagekit_tree(&k, src);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_file("code/train.py", "print(2)\n");
	is_file("code/pkg/mod.py", "x = 1\n");

	/* A rest of a crash: no marker. */
	entry = xasprintf("%s/cache/trees/%s/.complete", k.env.cfg.data_dir, digest);
	unlink(entry);
	inner = xasprintf("%s/cache/trees/%s/tree/rest", k.env.cfg.data_dir, digest);
	stagekit_put(inner, "half");
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, "made again");
	ok(stagekit_owner(&k, "code/rest") == (uid_t)-1, "without the rest");

	stagekit_run(&k, "", "0000000000000000000000000000000000000000000000000000000000000000", NULL, NULL);
	is_int(k.rc, -1, "a tree that hearthd has not");
	is_int(k.cls, RC_STAGING, "is not the user's fault");
	like(k.text, "source tree: ", "says what");
	stagekit_run(&k, "", "../../etc", NULL, NULL);
	like(k.text, "is not a digest", "a digest that is none");
}

/* A manifest of more than 4 MiB comes in pieces, also when the connection breaks between them. */
static void test_many(void)
{
	cleanup_free char *src = in_top("many"), *digest = NULL;
	unsigned gets = k.ctl.gets;

	put("many/a", "first\n");
	stagekit_many(src, 6000);
	digest = stagekit_tree(&k, src);
	stagekit_begin(&k, "", digest, NULL, NULL);
	for (int i = 0; i < 4000 && k.ctl.gets == gets && !k.done; i++)
		loop_run_once(loop, 5);
	data_link_ctl_drop(&k.ctl);
	stagekit_wait(&k);
	is_int(k.rc, 0, k.text ? k.text : "staged");
	is_file("code/a", "first\n");
	ok(k.ctl.gets - gets >= 3, "in %u pieces", k.ctl.gets - gets);
}

/* A chunk in the node's cache is damaged: noticed and fetched again. */
static int spoil(const char *name, void *arg)
{
	cleanup_free char *path = xasprintf("%s/%s", (const char *)arg, name);
	struct stat st;
	int fd;

	if (stat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return fs_each(path, spoil, path, NULL);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, "X", 1, 0) != 1)
		tap_bail("%s", path);
	close(fd);
	return 0;
}

static void test_damage(void)
{
	cleanup_free char *src = in_top("src2"), *digest = NULL,
	                  *blobs = xasprintf("%s/cache/blobs", k.env.cfg.data_dir);
	cleanup_free char *trees = xasprintf("%s/cache/trees", k.env.cfg.data_dir);

	put("src2/a", "alpha\n");
	put("src2/b", "beta\n");
	digest = stagekit_tree(&k, src);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, "staged");
	fs_rm_rf(trees, NULL);
	fs_each(blobs, spoil, blobs, NULL);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, k.text ? k.text : "staged from damaged blobs");
	is_file("code/a", "alpha\n");
}

/* A manifest of one chunk, many times. */
static void test_vast(void)
{
	const unsigned parts = 500000;
	cleanup_free char *piece = xcalloc(1, TREE_CHUNK_MAX), *text = NULL;
	char chunk[HASH_HEX_SIZE], digest[HASH_HEX_SIZE];
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	struct err e;

	hash_hex(piece, TREE_CHUNK_MAX, chunk);
	fprintf(f, "hearth-tree 1\nf 644 %llu big ", (unsigned long long)parts * TREE_CHUNK_MAX);
	for (unsigned i = 0; i < parts; i++)
		fprintf(f, "%s%s:0:%u", i ? "," : "", chunk, TREE_CHUNK_MAX);
	fprintf(f, "\n");
	fclose(f);
	hash_hex(text, n, digest);
	if (blob_cache(k.ctl.blobdir, digest, text, n, &e) < 0)
		tap_bail("%s", e.text);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, -1, "2 TB in 40 MB");
	is_int(k.cls, RC_DISK, "are more than the disk has");
	like(k.text, "the tree needs 1.9TiB", "which is said before anything is written");
}

static void test_cut(void)
{
	cleanup_free char *src = in_top("src3"), *digest = NULL;

	put("src3/a", "gamma\n");
	digest = stagekit_tree(&k, src);
	k.ctl.deaf = 1;
	stagekit_begin(&k, "", digest, NULL, NULL);
	for (int i = 0; i < 20; i++)
		loop_run_once(loop, 5);
	is_int(k.done, 0, "waits for the controller");
	k.ctl.deaf = 0;
	data_link_ctl_drop(&k.ctl);
	stagekit_wait(&k);
	is_int(k.rc, 0, "and goes on when it is there again");
	is_file("code/a", "gamma\n");
}

static void test_cancel(void)
{
	cleanup_free char *src = in_top("src4"), *digest = NULL;
	struct stage *s;
	int calls;

	put("src4/a", "delta\n");
	digest = stagekit_tree(&k, src);
	k.ctl.deaf = 1;
	s = stagekit_begin(&k, "", digest, NULL, NULL);
	for (int i = 0; i < 10; i++)
		loop_run_once(loop, 5);
	calls = (int)k.n_progress;
	stage_cancel(s);
	for (int i = 0; i < 30; i++)
		loop_run_once(loop, 5);
	is_int(k.done, 0, "no callback after a cancel");
	is_int(k.n_progress, calls, "no progress either");
	k.ctl.deaf = 0;
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, "the next job is not held up");
}

/* ---- files ------------------------------------------------------------------------------------------------
 */

static void run_inputs(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void run_inputs(const char *fmt, ...)
{
	cleanup_free char *keys = NULL;
	va_list ap;

	va_start(ap, fmt);
	keys = xvasprintf(fmt, ap);
	va_end(ap);
	stagekit_run(&k, keys, NULL, NULL, NULL);
}

static void test_files(void)
{
	cleanup_free char *dir = in_top("data"), *fifo = in_top("data/fifo"), *link = in_top("data/link");
	char target[512], *path;
	ssize_t n;

	put("data/a.csv", "1,2\n");
	put("data/sub/b.csv", "3\n");
	if (mkfifo(fifo, 0644) < 0 || symlink("a.csv", link) < 0)
		tap_bail("%s", strerror(errno));
	run_inputs("\"inputs\":{\"train\":{\"uri\":\"file://%s\"},\"one\":{\"uri\":\"file://%s/a.csv\"}}", dir,
	           dir);
	is_int(k.rc, 0, k.text ? k.text : "copied");
	is_file("input/data/train/a.csv", "1,2\n");
	is_file("input/data/train/sub/b.csv", "3\n");
	is_file("input/data/train/link", "1,2\n");
	is_file("input/data/one/a.csv", "1,2\n");
	ok(stagekit_owner(&k, "input/data/train/fifo") == (uid_t)-1, "a FIFO is left out");
	like(k.log, "left out", "and that is said");
	is_str(k.phases, "input:train input:one ", "phases");

	run_inputs("\"inputs\":{\"train\":{\"uri\":\"file://%s\",\"mode\":\"link\"},\"one\":{\"uri\":\"file://%s/"
	           "a.csv\",\"mode\":\"link\"}}",
	           dir, dir);
	is_int(k.rc, 0, k.text ? k.text : "linked");
	path = xasprintf("%s/input/data/train", k.paths.ml);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	is_str(target, dir, "the channel is a link");
	free(path);
	is_file("input/data/one/a.csv", "1,2\n");
	path = xasprintf("%s/links", k.paths.work);
	char *links = NULL;
	size_t len;
	fs_read_file(path, 4096, &links, &len, NULL);
	like(links ? links : "", dir, "what must stay visible is written down");
	free(links);
	free(path);
}

static void test_unreadable(void)
{
	cleanup_free char *dir = in_top("locked"), *file = in_top("data/secret"),
	                  *inner = in_top("tree/deep/secret");

	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file:///nonexistent/data\"}}");
	is_int(k.rc, -1, "missing");
	is_int(k.cls, RC_USER_ERROR, "the user's error");
	is_str(k.text, "input x: /nonexistent/data: No such file or directory", "the path and why");
	like(k.log, "No such file or directory", "in the setup stream too");
	if (geteuid() != 0) {
		tap_skip("permissions of another account: not root");
		return;
	}
	put("data/secret", "s\n");
	put("locked/x", "s\n");
	put("tree/deep/secret", "s\n");
	put("tree/fine", "f\n");
	chmod(file, 0600);
	chmod(dir, 0700);
	chmod(inner, 0600);
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s\"}}", file);
	is_int(k.cls, RC_USER_ERROR, "not readable by the job's account");
	like(k.text, "data/secret: Permission denied", "the path and why");
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s/x\",\"mode\":\"link\"}}", dir);
	like(k.text, "locked/x: Permission denied", "a link to what it may not read is refused, too");
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s/tree\"}}", top);
	is_int(k.cls, RC_USER_ERROR, "one file in a tree");
	like(k.text, "tree/deep/secret: open: Permission denied", "is named");
}

/* What this process holds open is no way to it: neither by its own numbers nor by a link to them. */
static void test_procfs(void)
{
	static const char *const modes[] = {"", ",\"mode\":\"link\"", ",\"unpack\":true"};
	cleanup_free char *theirs = in_top("theirs"), *secret = in_top("theirs/secret"), *way = in_top("way");
	int fd;

	put("theirs/secret", "of another user\n"); /* open to all, in a folder that is closed */
	if (chmod(theirs, 0700) < 0 || (fd = open(secret, O_RDONLY | O_CLOEXEC)) < 0)
		tap_bail("%s", secret);
	for (int i = 0; i < 64; i++) {
		cleanup_free char *path = xasprintf("input/data/x/%d", i);

		run_inputs("\"inputs\":{\"x\":{\"uri\":\"file:///proc/self/fd/%d\"%s}}", i, modes[i % 3]);
		is_int(k.rc, -1, path);
		is_int(k.cls, RC_USER_ERROR, "  is the job's fault");
		like(k.text, "procfs", "  for a reason");
		ok(stagekit_owner(&k, path) == (uid_t)-1, "  and nothing is there");
	}
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file:///proc/%d/fd/%d\"}}", (int)getpid(), fd);
	is_int(k.rc, -1, "by the number of this process");
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file:///proc/%d/root%s\"}}", (int)getpid(), secret);
	is_int(k.rc, -1, "by its root");
	for (int i = 0; i < 2; i++) {
		cleanup_free char *to = i ? xasprintf("/proc/%d/fd/%d", (int)getpid(), fd) : xstrdup("/dev/stdin");

		unlink(way);
		if (symlink(to, way) < 0)
			tap_bail("%s", way);
		run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s\"}}", way);
		is_int(k.rc, -1, "by a link of the user's");
	}
	run_inputs("\"output_uri\":\"file:///proc/self/cwd/x\"");
	is_int(k.rc, -1, "nor do results go there");
	like(k.text, "procfs", "  for a reason");
	close(fd);
}

static void test_limits(void)
{
	cleanup_free char *file = in_top("big"), *src = in_top("bigsrc"), *digest = NULL,
	                  *text = xcalloc(1, 300001);

	memset(text, 'x', 300000);
	put("big", text);
	put("bigsrc/big", text);
	run_inputs("\"resources\":{\"disk\":\"100KiB\"},\"inputs\":{\"x\":{\"uri\":\"file://%s\"}}", file);
	is_int(k.rc, -1, "an input that is larger than the disk limit");
	is_int(k.cls, RC_USER_ERROR, "not the node's fault");
	like(k.text, "disk limit leaves", "in words");
	run_inputs("\"resources\":{\"disk\":\"100KiB\"},\"inputs\":{\"x\":{\"uri\":\"file://%s\"}}", src);
	is_int(k.cls, RC_USER_ERROR, "in a folder");
	like(k.text, "disk limit", "in the same words");
	digest = stagekit_tree(&k, src);
	stagekit_run(&k, "\"resources\":{\"disk\":\"100KiB\"}", digest, NULL, NULL);
	is_int(k.cls, RC_USER_ERROR, "a source tree");
	run_inputs("\"resources\":{\"disk\":\"500KiB\"},\"inputs\":{\"x\":{\"uri\":\"file://"
	           "%s\"},\"y\":{\"uri\":\"file://%s\"}}",
	           file, file);
	is_int(k.cls, RC_USER_ERROR, "two that are too large together");
	run_inputs("\"resources\":{\"disk\":\"700KiB\"},\"inputs\":{\"x\":{\"uri\":\"file://"
	           "%s\"},\"y\":{\"uri\":\"file://%s\"}}",
	           file, file);
	is_int(k.rc, 0, k.text ? k.text : "two that fit");
}

static void test_jobs(void)
{
	cleanup_free char *dir = in_top("made"), *uri = NULL, *digest = NULL;
	const char *one[] = {NULL}, *none[] = {""};

	put("made/model.bin", "weights\n");
	digest = stagekit_tree(&k, dir);
	uri = xasprintf("file://%s", dir);
	one[0] = digest;
	stagekit_run(&k, "\"inputs\":{\"base\":{\"uri\":\"job:17/model\"}}", NULL, NULL, one);
	is_int(k.rc, 0, k.text ? k.text : "a tree of another job");
	is_file("input/data/base/model.bin", "weights\n");
	one[0] = uri;
	stagekit_run(&k, "\"inputs\":{\"base\":{\"uri\":\"job:17/model\"}}", NULL, NULL, one);
	is_file("input/data/base/model.bin", "weights\n");
	stagekit_run(&k, "\"inputs\":{\"base\":{\"uri\":\"job:17/model\"}}", NULL, NULL, none);
	like(k.text, "job:17/model: hearthd has no stored files", "nothing named");
	stagekit_run(&k, "", NULL, digest, NULL);
	is_file("checkpoints/model.bin", "weights\n");
	stagekit_run(&k, "", NULL, uri, NULL);
	is_file("checkpoints/model.bin", "weights\n");
	is_str(k.phases, "resume ", "phase");
	stagekit_run(&k, "", NULL, "file:///nonexistent/ckpt", NULL);
	is_int(k.cls, RC_USER_ERROR, "a checkpoint that is not there");
}

static void make_tar(const char *args)
{
	cleanup_free char *line = xasprintf("cd %s && %s", top, args);

	if (system(line) != 0)
		tap_bail("%s", line);
}

static void test_unpack(void)
{
	static const char *const forms[][2] = {{"cf", "t.tar"}, {"czf", "t.tar.gz"}};

	put("pack/a", "A\n");
	put("pack/sub/b", "B\n");
	for (size_t i = 0; i < 2; i++) {
		cleanup_free char *args = xasprintf("tar %s %s -C pack .", forms[i][0], forms[i][1]);

		make_tar(args);
		run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s/%s\",\"unpack\":true}}", top, forms[i][1]);
		is_int(k.rc, 0, k.text ? k.text : forms[i][1]);
		is_file("input/data/x/a", "A\n");
		is_file("input/data/x/sub/b", "B\n");
	}
	make_tar("tar cPf evil.tar --transform='s,^,../../,' pack/a");
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s/evil.tar\",\"unpack\":true}}", top);
	is_int(k.rc, -1, "an archive that climbs out");
	is_int(k.cls, RC_USER_ERROR, "is refused");
	ok(stagekit_owner(&k, "input/pack/a") == (uid_t)-1, "and nothing got out");
	put("noise.tar.gz", "this is no archive");
	run_inputs("\"inputs\":{\"x\":{\"uri\":\"file://%s/noise.tar.gz\",\"unpack\":true}}", top);
	like(k.text, "cannot be unpacked", "what is no archive");
	make_tar("head -c 400000 /dev/zero >pack/zeros && tar czf bomb.tar.gz -C pack .");
	run_inputs("\"resources\":{\"disk\":\"100KiB\"},\"inputs\":{\"x\":{\"uri\":\"file://%s/"
	           "bomb.tar.gz\",\"unpack\":true}}",
	           top);
	is_int(k.cls, RC_USER_ERROR, "contents larger than the limit");
}

/* ---- the caches themselves
 * ---------------------------------------------------------------------------------- */

static int never(void *arg)
{
	(void)arg;
	return -1;
}
static int used(const char *dir, void *arg)
{
	return strstr(dir, arg) != NULL;
}

static void test_cache(void)
{
	cleanup_free char *kind = in_top("kind"), *file = NULL, *text = xcalloc(1, 100001);
	struct cache_entry c, d;
	struct err e;

	memset(text, 'y', 100000);
	for (int i = 0; i < 4; i++) {
		cleanup_free char *key = xasprintf("k%d", i), *path = NULL, *marker = NULL;
		struct timespec t[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};

		is_int(cache_open(&c, kind, key, 0755, never, NULL, &e), 0, "opened");
		is_int(c.complete, 0, "new");
		path = xasprintf("%s/data", c.dir);
		stagekit_put(path, text);
		is_int(cache_open(&d, kind, key, 0755, never, NULL, &e), -1, "nobody else gets it while it is made");
		is_int(cache_commit(&c, &e), 0, "made");
		is_int(cache_open(&d, kind, key, 0755, never, NULL, &e), 0, "then others may read it");
		is_int(d.complete, 1, "complete");
		cache_close(&d);
		cache_close(&c);
		marker = xasprintf("%s/%s/.complete", kind, key);
		utimensat(AT_FDCWD, marker, t, 0);
	}
	cache_open(&c, kind, "k0", 0755, never, NULL, &e); /* oldest, but read: and it counts as used now */
	is_int(cache_evict(kind, 250000, used, (char *)(uintptr_t) "k1"), 2, "two have to go");
	file = xasprintf("%s/k0/data", kind);
	ok(access(file, F_OK) == 0, "not the one that is read");
	free(file);
	file = xasprintf("%s/k1/data", kind);
	ok(access(file, F_OK) == 0, "not the one in use");
	free(file);
	file = xasprintf("%s/k2/data", kind);
	ok(access(file, F_OK) < 0, "the oldest of the others");
	cache_close(&c);
	cache_open(&c, kind, "half", 0755, never, NULL, &e);
	cache_close(&c);
	free(file);
	file = xasprintf("%s/half", kind);
	ok(access(file, F_OK) < 0, "one that was not finished is removed");
}

static int stop_soon(uint64_t bytes, void *arg)
{
	(void)bytes;
	return --*(int *)arg < 0 ? -1 : 0;
}

static void test_copy(void)
{
	cleanup_free char *src = in_top("cp"), *dst = in_top("cp-to"), *file = in_top("cp-to/one/f1");
	struct copy c = {.limit = 0};
	struct err e;
	int to, steps = 2;
	char *text;
	size_t n;

	for (int i = 0; i < 5; i++) {
		cleanup_free char *name = xasprintf("cp/f%d", i);

		put(name, "12345");
	}
	fs_mkdir_p(dst, 0755, &e);
	to = open(dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_int(copy_tree(&c, src, to, "one", &e), 0, "a tree");
	is_int(c.files, 5, "files");
	is_int(c.bytes, 25, "bytes");
	put("cp/f1", "new");
	is_int(copy_tree(&c, src, to, "one", &e), 0, "over an older copy");
	fs_read_file(file, 100, &text, &n, NULL);
	is_str(text, "new", "is replaced");
	free(text);
	c = (struct copy){.limit = 12};
	is_int(copy_tree(&c, src, to, "two", &e), -1, "a bound");
	is_int(e.code, ERR_LIMIT, "as such");
	c = (struct copy){.step = stop_soon, .arg = &steps};
	is_int(copy_tree(&c, src, to, "three", &e), -1, "stopped");
	is_int(e.code, ERR_UNAVAILABLE, "as such");
	is_int(copy_tree(&c, "/nonexistent", to, "x", &e), -1, "nothing to copy");
	close(to);
}

/* ---- the account has other processes
 * ------------------------------------------------------------------------------------------------- */

static const char *trap; /* below ml */

/* Where staging goes there is a link to a folder of root's. */
static void set_trap(struct stagekit *kit)
{
	cleanup_free char *path = xasprintf("%s/%s", kit->paths.ml, trap), *away = in_top("away");
	cleanup_free char *prize = in_top("prize");
	struct err e;

	fs_rm_rf(away, &e);
	if ((rename(path, away) < 0 && errno != ENOENT) || symlink(prize, path) < 0)
		tap_bail("%s: %s", path, strerror(errno));
}

static void give_early(struct stagekit *kit)
{
	if (chown(kit->paths.ml, kit->user.uid, kit->user.gid) < 0)
		tap_bail("chown");
}

static int add_name(const char *name, void *arg)
{
	snprintf((char *)arg + strlen(arg), 100 - strlen(arg), "%s ", name);
	return 0;
}

static void is_untouched(const char *what)
{
	cleanup_free char *prize = in_top("prize"), *inner = in_top("prize/data");
	char names[100] = "";
	struct stat st, st2;
	struct err e;

	fs_each(prize, add_name, names, &e);
	is_str(names, "data ", what);
	ok(stat(prize, &st) == 0 && st.st_uid == 0 && (st.st_mode & 07777) == 0711 && stat(inner, &st2) == 0 &&
	       st2.st_uid == 0 && (st2.st_mode & 07777) == 0701,
	   "  nor is it given to the account");
}

/* Can a process of this account open it? 2: it could not try. */
static int others_open(uid_t uid, const char *below_ml)
{
	cleanup_free char *path = xasprintf("%s/%s", k.paths.ml, below_ml);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
			_exit(2);
		_exit(open(path, O_RDONLY | O_CLOEXEC) >= 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static void test_hostile(void)
{
	static const char *const traps[] = {"code", "input", "input/data", "input/data/x", "checkpoints"};
	cleanup_free char *src = in_top("hsrc"), *digest = NULL, *keys = NULL, *prize = in_top("prize");
	cleanup_free char *inner = in_top("prize/data");
	struct err e;

	if (geteuid() != 0) {
		tap_skip("another account's processes: not root");
		return;
	}
	put("hsrc/train.py", "print(1)\n");
	digest = stagekit_tree(&k, src);
	keys = xasprintf("\"inputs\":{\"x\":{\"uri\":\"file://%s\"},\"y\":{\"uri\":\"job:1/model\"}}", src);
	if (fs_mkdir_p(inner, 0755, &e) < 0 || chmod(prize, 0711) < 0 || chmod(inner, 0701) < 0)
		tap_bail("%s", inner);
	stagekit_run(&k, keys, digest, digest, (const char *const[]){"", digest});
	is_int(k.rc, 0, k.text ? k.text : "staged");
	is_file("input/data/x/train.py", "print(1)\n");
	is_file("input/data/y/train.py", "print(1)\n");
	is_file("checkpoints/train.py", "print(1)\n");
	is_int(stagekit_owner(&k, ""), k.user.uid, "ml is handed over");
	is_int(stagekit_owner(&k, "input"), k.user.uid, "input");
	is_int(stagekit_owner(&k, "input/data"), k.user.uid, "input/data");
	is_int(stagekit_owner(&k, "input/data/y"), k.user.uid, "a channel");
	is_int(stagekit_owner(&k, "input/config"), k.user.uid, "input/config");
	is_int(others_open(k.user.uid, "code/train.py"), 1, "its account reads the source tree");
	is_int(others_open(2, "code/train.py"), 0, "another account does not");
	is_int(others_open(2, "input/data"), 0, "nor does it list the inputs");
	for (size_t i = 0; i < sizeof(traps) / sizeof(traps[0]); i++) {
		trap = traps[i];
		k.before = set_trap;
		stagekit_run(&k, keys, digest, digest, (const char *const[]){"", digest});
		k.before = NULL;
		is_int(k.rc, -1, "a link is refused");
		is_untouched(trap);
		is_int(others_open(k.user.uid, "code/train.py"), 0, "what is not whole is not handed over");
	}
	k.before = give_early;
	stagekit_run(&k, "", digest, NULL, NULL);
	k.before = NULL;
	is_int(k.rc, -1, "an ml that the account has already");
	like(k.text, "open to others", "is not filled");
}

/* A launch that is prepared again: the first try's ml was handed over, and its owner waited for this. */
static void test_dirs_again(void)
{
	unsigned at = 0, turns = 0;
	int rc;
	struct launch_host host = {.env = &k.env};
	struct launch l = {.host = &host, .user = k.user};
	cleanup_free char *prize = in_top("prize"), *code = NULL, *old = NULL;
	char names[100] = "";
	struct stat st;
	struct err e;

	if (geteuid() != 0)
		return;
	stagekit_job(&k);
	l.paths = k.paths;
	code = xasprintf("%s/code", k.paths.ml);
	old = xasprintf("%s/old", k.paths.work);
	if (rmdir(code) < 0 || symlink(prize, code) < 0)
		tap_bail("%s", code);
	while ((rc = launch_make_dirs(&l, &at, &e)) == 1)
		turns++;
	is_int(rc, 0, "folders are made again");
	ok(turns >= 3, "in several turns");
	is_untouched("a link in the old ones is not followed");
	ok(lstat(k.paths.ml, &st) == 0 && st.st_uid == 0 && (st.st_mode & 07777) == 0700, "ml is new and closed");
	ok(lstat(code, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == k.user.uid,
	   "code is a folder of the job's");
	is_int(others_open(k.user.uid, "code"), 0, "that it does not reach yet");
	fs_each(old, add_name, names, &e);
	is_int((int)strlen(names), 17, "the old one is put aside");
}

static void hang(struct worker *w, void *arg)
{
	(void)arg;
	while (worker_pause(w, 60000) == 0)
		continue;
}

/* Other jobs of the account have all threads that it may have: the job waits, and that counts as progress. */
static void test_busy(void)
{
	struct worker_task task = {.run = hang, .owner = k.user.uid + 1ull};
	struct workers *ws = data_link_workers(k.link, POOL_STAGING);
	struct worker *others[64];
	uint64_t end_us;

	for (int i = 0; i < 64; i++)
		others[i] = worker_start(ws, &task, NULL, NULL);
	stagekit_begin(&k, "", NULL, NULL, NULL);
	end_us = clock_boot_us(clock_real()) + 8000000;
	while (!k.n_progress && clock_boot_us(clock_real()) < end_us)
		loop_run_once(k.env.loop, 50);
	is_str(k.phases, "waiting ", "a job without a thread reports that it waits");
	ok(!k.done, "and goes on waiting");
	for (int i = 0; i < 64; i++)
		worker_cancel(others[i]);
	stagekit_wait(&k);
	is_int(k.rc, 0, "it has its turn");
}

/* An input in the cache that warm pool 5 uses. It says that it has so many bytes; `real` are there. */
static void make_pool_input(const char *key, const char *bytes, size_t real)
{
	cleanup_free char *kind = xasprintf("%s/cache/inputs", k.env.cfg.data_dir);
	cleanup_free char *data = xasprintf("%s/%s/data", kind, key), *text = xcalloc(1, real + 1);
	cleanup_free char *pool = xasprintf("%s/pools/5", k.env.cfg.data_dir), *use = xasprintf("inputs/%s", key);
	cleanup_free char *mark = xasprintf("%s/%s/.complete", kind, key);
	struct cache_entry c;
	struct err e;

	if (fs_mkdir_p(pool, 0755, &e) < 0 || cache_open(&c, kind, key, 0755, never, NULL, &e) < 0 ||
	    fs_write_atomic(data, text, real, 0644, &e) < 0 || cache_commit(&c, &e) < 0 ||
	    uses_add(pool, use, &e) < 0)
		tap_bail("%s", e.text);
	cache_close(&c);
	if (bytes)
		stagekit_put(mark, bytes);
}

static int has_pool_input(const char *key)
{
	cleanup_free char *path = xasprintf("%s/cache/inputs/%s/data", k.env.cfg.data_dir, key);

	return access(path, F_OK) == 0;
}

static void test_pool_bound(void)
{
	cleanup_free char *mark = xasprintf("%s/cache/.evicted", k.env.cfg.data_dir),
	                  *work = xasprintf("%s/jobs/9999.1", k.env.cfg.data_dir),
	                  *lower = xasprintf("%s/cache/inputs/shown/files", k.env.cfg.data_dir);
	struct err e = {0};

	make_pool_input("vast", "90000000000000", 1);
	make_pool_input("small", NULL, 1);
	unlink(mark);
	stagekit_run(&k, "", NULL, NULL, NULL);
	ok(!has_pool_input("vast"), "what pools use is evicted, too, above the bound of its kind");
	ok(has_pool_input("small"), "within it stays");
	make_pool_input("shown", "90000000000000", 1);
	if (fs_mkdir_p(work, 0711, &e) < 0 || layers_add(work, "input/data/x", lower, NULL, &e) < 0)
		tap_bail("%s", e.text);
	unlink(mark);
	stagekit_run(&k, "", NULL, NULL, NULL);
	ok(has_pool_input("shown"), "what a running job sees as a layer stays above it");
	fs_rm_rf(work, NULL);
}

/* On a disk of 256 MiB. */
static void test_full_disk(void)
{
	cleanup_free char *piece = xcalloc(1, TREE_CHUNK_MAX), *text = xstrdup(""), *manifest = NULL;
	char chunk[HASH_HEX_SIZE], digest[HASH_HEX_SIZE];
	const unsigned parts = (30u << 20) / TREE_CHUNK_MAX + 1;
	struct err e;

	if (geteuid() != 0 || mount("none", k.env.cfg.data_dir, "tmpfs", 0, "size=256m,mode=0711") < 0) {
		tap_skip("no disk of its own");
		return;
	}
	make_pool_input("large", NULL, 240u << 20);
	hash_hex(piece, TREE_CHUNK_MAX, chunk);
	for (unsigned i = 0; i < parts; i++) {
		char *next = xasprintf("%s%s%s:0:%u", text, i ? "," : "", chunk, TREE_CHUNK_MAX);

		free(text);
		text = next;
	}
	manifest =
	    xasprintf("hearth-tree 1\nf 644 %llu big %s\n", (unsigned long long)parts * TREE_CHUNK_MAX, text);
	hash_hex(manifest, strlen(manifest), digest);
	if (blob_cache(k.ctl.blobdir, chunk, piece, TREE_CHUNK_MAX, &e) < 0 ||
	    blob_cache(k.ctl.blobdir, digest, manifest, strlen(manifest), &e) < 0)
		tap_bail("%s", e.text);
	stagekit_run(&k, "", digest, NULL, NULL);
	is_int(k.rc, 0, k.text ? k.text : "a tree has room where the rest of a disk is a pool's");
	ok(!has_pool_input("large"), "what the pool used went for it");
	umount2(k.env.cfg.data_dir, MNT_DETACH);
}

int main(void)
{
	/* Its mounts are its own. */
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0)
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	stagekit_start(&k);
	test_bundle();
	test_many();
	test_damage();
	test_vast();
	test_cut();
	test_cancel();
	test_files();
	test_unreadable();
	test_procfs();
	test_limits();
	test_jobs();
	test_unpack();
	test_cache();
	test_copy();
	test_hostile();
	test_dirs_again();
	test_busy();
	test_pool_bound();
	test_full_disk();
	stagekit_stop(&k);
	return tap_done();
}
