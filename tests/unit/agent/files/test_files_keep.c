/*
 * files_keep: what hearth-files does with checkpoints: it holds what the job cannot change any more, with its
 * links and the files of all ranks, and nothing that changes meanwhile, is too large, or has no room; it
 * copies sparse files without their holes; a copy into a folder goes on where it was cut off, and what was
 * damaged is found.
 */
#include "agent/files/files_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static struct agent_env env;
static struct launch_user user;
static struct files *f;
static int ml, held, stop_after, steps;
static struct listing l;

static int count_step(uint64_t bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	return stop_after && ++steps >= stop_after ? -1 : 0;
}

static char *in_tmp(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

static void put_n(const char *name, const char *text, size_t n)
{
	cleanup_free char *path = in_tmp(name);
	cleanup_free char *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	struct err e;

	if (fs_mkdir_p(dir, 0755, &e) < 0 || fs_replace(path, text, n, 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static void put(const char *name, const char *text)
{
	put_n(name, text, strlen(text));
}

static char *get(const char *name)
{
	cleanup_free char *path = in_tmp(name);
	char *text = NULL;
	size_t n;
	struct err e;

	return fs_read_file(path, 1 << 20, &text, &n, &e) < 0 ? xstrdup(e.text) : text;
}

static void begin(void)
{
	const struct files_params p = {.env = &env, .user = &user, .step = count_step};
	struct err e;

	files_destroy(f);
	steps = stop_after = 0;
	f = files_create(&p);
	if (files_keep(f, held, &e) < 0)
		tap_bail("%s", e.text);
}

static void look(void)
{
	struct err e;

	listing_fini(&l);
	if (files_watch(f, ml, "checkpoints", 0, 1, &l, &e) < 0)
		tap_bail("%s", e.text);
}

static uint64_t print_of(const char *name, int ranks)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l.n; i = listing_after(&l, i)) {
		cleanup_free char *own = listing_rank_name(l.items[i].path);

		if (!ranks && strcmp(l.items[i].path, name) == 0)
			return listing_print(&l, i);
		if (ranks && own && strcmp(own, name) == 0)
			sum += listing_part_print(&l, i);
	}
	return sum;
}

/* "": it is held; else why not. */
static const char *hold(struct files_hold h)
{
	static struct err e;

	h.ml = ml;
	h.dir = "checkpoints";
	if (!h.print)
		h.print = print_of(h.entry, h.ranks);
	e = (struct err){0};
	return files_hold(f, &h, &e) < 0 ? e.text : "";
}

static void is_text(const char *name, const char *want, const char *what)
{
	cleanup_free char *text = get(name);

	is_str(text, want, what);
}

/* ---- holding ------------------------------------------------------------------------------------------ */

static void test_hold(void)
{
	cleanup_free char *last = in_tmp("ml/checkpoints/last.ckpt"), *copied = in_tmp("held/1/last.ckpt");
	uint64_t print;
	char target[64] = "";

	put("ml/checkpoints/epoch=0-step=7.ckpt", "seven");
	if (symlink("epoch=0-step=7.ckpt", last) < 0)
		tap_bail("%s", strerror(errno));
	look();
	is_str(hold((struct files_hold){.entry = "epoch=0-step=7.ckpt", .place = "1", .links = 1}), "",
	       "a file is held");
	is_text("held/1/epoch=0-step=7.ckpt", "seven", "its content");
	ok(readlink(copied, target, sizeof(target) - 1) > 0, "the link that names it is held, too");
	is_str(target, "epoch=0-step=7.ckpt", "with its target");
	print = print_of("epoch=0-step=7.ckpt", 0);
	put("ml/checkpoints/epoch=0-step=7.ckpt", "again");
	like(hold((struct files_hold){.entry = "epoch=0-step=7.ckpt", .place = "2", .print = print}),
	     "has changed", "what was written again since the look is not held");
	ok(access(copied, F_OK) == 0, "what is held stays");
	is_text("held/1/epoch=0-step=7.ckpt", "seven", "as it was");
	like(hold((struct files_hold){.entry = "gone.pt", .place = "3", .print = 1}), "gone.pt is gone",
	     "what was removed since the look has its own reason");
}

/* An agent that was killed left it, and the next one begins with the same number. */
static void test_left(void)
{
	cleanup_free char *rest = NULL;

	put("held/4/whole-4.pt", "ha");
	put("held/4/other/part", "x");
	put("ml/checkpoints/whole-4.pt", "half no more");
	look();
	is_str(hold((struct files_hold){.entry = "whole-4.pt", .place = "4"}), "",
	       "a place with a part of a checkpoint is used again");
	is_text("held/4/whole-4.pt", "half no more", "it has the whole one");
	rest = get("held/4/other/part");
	like(rest, "No such file", "and nothing else");
}

static void test_ranks(void)
{
	cleanup_free char *rest = NULL;

	put("ml/checkpoints/ckpt-5_rank0.pt", "zero");
	put("ml/checkpoints/ckpt-5_rank1.pt", "one");
	put("ml/checkpoints/ckpt-5_rank1.pt.tmp", "half");
	look();
	is_str(hold((struct files_hold){.entry = "ckpt-5_rank*.pt", .place = "5", .ranks = 1}), "",
	       "the files of two ranks are held as one");
	is_text("held/5/ckpt-5_rank0.pt", "zero", "the first");
	is_text("held/5/ckpt-5_rank1.pt", "one", "the second");
	rest = get("held/5/ckpt-5_rank1.pt.tmp");
	like(rest, "No such file", "an unfinished one is not");
}

static void test_bounds(void)
{
	cleanup_free char *big = in_tmp("ml/checkpoints/big-9.pt"), *copy = in_tmp("held/9/big-9.pt");
	cleanup_free char *odd = in_tmp("ml/checkpoints/odd-4/\xff\xfe.bin");
	struct files_digest d;
	struct stat st;
	struct err e;
	int fd;

	put("ml/checkpoints/model-3.pt", "0123456789");
	look();
	like(hold((struct files_hold){.entry = "model-3.pt", .place = "6", .most = 9}), "--held-limit",
	     "one that is larger than its bound is not held, and why");
	is_str(hold((struct files_hold){.entry = "model-3.pt", .place = "6", .most = 10}), "",
	       "one of that size is");
	fd = open(big, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)8 << 30) < 0 || pwrite(fd, "x", 1, (off_t)5 << 30) != 1)
		tap_bail("%s", strerror(errno));
	close(fd);
	look();
	is_str(hold((struct files_hold){.entry = "big-9.pt", .place = "9"}), "",
	       "a sparse file of 8 GiB is held");
	ok(stat(copy, &st) == 0 && st.st_size == (off_t)8 << 30, "with its size");
	ok(st.st_blocks < 4096, "without its holes (%lld blocks)", (long long)st.st_blocks);
	fd = open(copy, O_RDONLY | O_CLOEXEC);
	ok(fd >= 0 && pread(fd, &st, 1, (off_t)5 << 30) == 1 && *(char *)&st == 'x', "and its data");
	close(fd);
	unlink(big);
	like(hold((struct files_hold){.entry = "../held", .place = "11", .print = 1}), "gone",
	     "nothing outside of the folder is held");
	put("ml/checkpoints/odd-4/a.bin", "a");
	fd = open(odd, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ok(fd >= 0 && write(fd, "odd", 3) == 3, "a file whose name is not UTF-8");
	close(fd);
	look();
	is_str(hold((struct files_hold){.entry = "odd-4", .place = "12"}), "", "a folder with it is held");
	is_text("held/12/odd-4/\xff\xfe.bin", "odd", "with that file");
	ok(files_digest(f, "12", &d, &e) == 0, "and has a digest");
}

static void make_link(const char *target, const char *name)
{
	cleanup_free char *path = in_tmp(name);

	unlink(path);
	if (symlink(target, path) < 0)
		tap_bail("%s", strerror(errno));
}

static const char *hold_linked(void)
{
	look();
	return hold((struct files_hold){.entry = "checkpoint-500", .place = "14"});
}

/* A copy of it would lack that file, and count as whole. */
static void test_outside(void)
{
	cleanup_free char *fifo = in_tmp("ml/checkpoints/checkpoint-500/pipe"), *rest = NULL;

	put("ml/checkpoints/base.pt", "base");
	put("ml/checkpoints/checkpoint-500/part/model.pt", "model");
	make_link("part/model.pt", "ml/checkpoints/checkpoint-500/model.pt");
	make_link("../model.pt", "ml/checkpoints/checkpoint-500/part/again.pt");
	is_str(hold_linked(), "", "links inside of a checkpoint are held with it");
	make_link("/scratch/base.pt", "ml/checkpoints/checkpoint-500/base.pt");
	like(hold_linked(), "checkpoint-500/base.pt leaves the checkpoint",
	     "one with a link to another place is not, and why");
	make_link("../base.pt", "ml/checkpoints/checkpoint-500/base.pt");
	like(hold_linked(), "checkpoint-500/base.pt leaves the checkpoint",
	     "one with a link to its neighbour is not, either");
	make_link("../../checkpoint-500/model.pt", "ml/checkpoints/checkpoint-500/part/again.pt");
	make_link("part/model.pt", "ml/checkpoints/checkpoint-500/base.pt");
	like(hold_linked(), "again.pt leaves the checkpoint", "deeper");
	make_link("../model.pt", "ml/checkpoints/checkpoint-500/part/again.pt");
	if (mkfifo(fifo, 0644) < 0)
		tap_bail("%s", strerror(errno));
	like(hold_linked(), "checkpoint-500/pipe is a FIFO", "one with a FIFO is not, either");
	rest = get("held/14/checkpoint-500/model.pt");
	like(rest, "No such file", "nothing of it stays behind");
	unlink(fifo);
	is_str(hold_linked(), "", "without it, it is held");
}

static void test_many(void)
{
	cleanup_free char *first = in_tmp("ml/checkpoints/many-8/first");

	put("ml/checkpoints/many-8/first", "x");
	for (unsigned i = 0; i < LISTING_ITEMS + 1000; i++) {
		cleanup_free char *name = xasprintf("%s/ml/checkpoints/many-8/%u", tap_tmpdir(), i);

		if (link(first, name) < 0)
			tap_bail("%s", strerror(errno));
	}
	look();
	ok(l.cut, "a folder with 21,000 names is more than a listing holds");
	like(hold((struct files_hold){.entry = "many-8", .place = "13", .print = 1}), "more than 20000 files",
	     "it is not held, and why");
}

/* ---- hearth.json -------------------------------------------------------------------------------------- */

static void test_check(void)
{
	struct err e;

	put("held/20/at-1/model.pt", "good");
	put("held/20/at-1/hearth.json",
	    "{\"step\": 1, \"files\": {\"model.pt\": {\"size\": 4, \"sha256\": "
	    "\"770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c\"}}}");
	is_int(files_check(f, "20", &e), 0, "a file has the sha256 that its hearth.json names");
	put("held/20/at-1/model.pt", "gooD");
	is_int(files_check(f, "20", &e), -1, "another content");
	like(e.text, "model.pt has another sha256", "is found");
	is_int((long)e.code, ERR_IO, "as damage");
	put("held/21/model.pt", "x");
	is_int(files_check(f, "21", &e), 0, "without hearth.json there is nothing to check");
}

/* ---- copies ------------------------------------------------------------------------------------------- */

static void test_copy(void)
{
	cleanup_free char *out = in_tmp("out"), *part = in_tmp("out/17/kept/.x.part");
	cleanup_free char *manifest = in_tmp("out/17/kept/x.manifest"), *copy = in_tmp("out/17/kept/x");
	const size_t n = 24u << 20;
	char *text = xcalloc(1, n);
	struct files_digest d, first;
	struct stat st = {0};
	struct err e;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)(i * 2654435761u >> 13);
	put_n("held/30/model.pt", text, n);
	free(text);
	ok(files_digest(f, "30", &first, &e) == 0, "the digest of what is held");
	files_calm(f, "", 24u << 20, 0, &e); /* a second for all of it */
	stop_after = 3;
	is_int(files_put_kept(f, "30", out, "17/kept/x", "m\n", &d, &e), -1, "a copy is cut off");
	ok(access(manifest, F_OK) < 0 && access(copy, F_OK) < 0, "it does not count as a copy");
	{
		cleanup_free char *file = xasprintf("%s/model.pt", part);

		/* The helper ends by itself when its agent has gone. */
		for (int i = 0; i < 50 && stat(file, &st) < 0; i++)
			usleep(100000);
		ok(st.st_size > 0 && st.st_size < (off_t)n, "a part of it is there (%lld bytes)",
		   (long long)st.st_size);
	}
	begin();
	is_int(files_put_kept(f, "30", out, "17/kept/x", "m\n", &d, &e), 0, "the next one goes on");
	is_str(d.digest, first.digest, "and is the same");
	ok(access(manifest, F_OK) == 0 && access(part, F_OK) < 0, "its manifest is there, and no part");
	ok(d.resumed > 0, "what was there was not copied again (%llu bytes)", (unsigned long long)d.resumed);

	put("out/17/kept/.y.part/model.pt", "left by something else, and longer");
	put("held/31/model.pt", "short");
	is_int(files_put_kept(f, "31", out, "17/kept/y", "m\n", &d, &e), 0,
	       "what is left of another one does no harm");
	is_text("out/17/kept/y/model.pt", "short", "the copy is right");
	put("out/17/kept/.z.part/other", "stays");
	is_int(files_put_kept(f, "31", out, "17/kept/z", "m\n", &d, &e), -1, "a file too many");
	like(e.text, "differs", "is found when the copy is read back");
	is_int(files_put_kept(f, "31", out, "17/kept/z", "m\n", &d, &e), 0, "and the next try begins again");
	put("out/17/kept/.z.part/other", "cut off");
	is_int(files_drop(f, "", copy, &e), 0, "a copy is removed");
	ok(access(manifest, F_OK) < 0 && access(copy, F_OK) < 0, "with its manifest");
	{
		cleanup_free char *z = in_tmp("out/17/kept/z"), *rest = in_tmp("out/17/kept/.z.part");

		is_int(files_drop(f, "", z, &e), 0, "another one");
		ok(access(rest, F_OK) < 0, "and what a cut off copy has left");
	}
}

int main(void)
{
	cleanup_free char *libexec =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	cleanup_free char *folder = in_tmp("ml/checkpoints"), *top = in_tmp("ml"), *dir = in_tmp("held");
	struct err e;

	env = (struct agent_env){.is_root = geteuid() == 0, .cfg = {.libexec_dir = libexec}};
	user = (struct launch_user){.uid = geteuid(), .gid = getegid(), .name = (char *)(uintptr_t) "me"};
	if (fs_mkdir_p(folder, 0755, &e) < 0 || fs_mkdir_p(dir, 0700, &e) < 0)
		tap_bail("%s", e.text);
	ml = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	held = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	begin();
	test_hold();
	test_left();
	test_ranks();
	test_bounds();
	test_outside();
	test_check();
	test_copy();
	test_many();
	files_destroy(f);
	listing_fini(&l);
	return tap_done();
}
