/*
 * upload: models, outputs and checkpoints into hearthd's store and into folders, of one node and of several,
 * again, empty, refused, cut off.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "common/tree/tree.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/stage/stagekit.h"

static struct stagekit k;

static struct {
	int done, rc;
	char text[512];
	char kinds[512]; /* "model:FILES " */
	char digest[128], uri[512];
	unsigned progress;
} up;

static void on_progress(uint64_t done, uint64_t total, void *arg)
{
	(void)done;
	(void)total;
	(void)arg;
	up.progress++;
}

static void on_artifact(const struct upload_result *r, void *arg)
{
	size_t n = strlen(up.kinds);

	(void)arg;
	snprintf(up.kinds + n, sizeof(up.kinds) - n, "%s:%d:%d ", r->kind, (int)r->files, (int)r->size_bytes);
	snprintf(up.digest, sizeof(up.digest), "%s", r->digest);
	snprintf(up.uri, sizeof(up.uri), "%s", r->uri);
}

static void on_done(int rc, const char *text, void *arg)
{
	(void)arg;
	up.done = 1;
	up.rc = rc;
	snprintf(up.text, sizeof(up.text), "%s", text ? text : "");
}

static const struct upload_ops ops = {.progress = on_progress, .artifact = on_artifact, .done = on_done};

static uint64_t epoch = 1;

static struct upload *begin(uint32_t node_rank, uint32_t n_nodes, const char *uri)
{
	memset(&up, 0, sizeof(up));
	return upload_start(&k.env, k.link, 7, (uint32_t)epoch, epoch, node_rank, n_nodes, &k.paths, &k.user, uri,
	                    &ops, NULL);
}

static void upload(uint32_t node_rank, uint32_t n_nodes, const char *uri)
{
	if (!begin(node_rank, n_nodes, uri))
		tap_bail("upload does not start");
	UNTIL(up.done);
}

/* A file of the job. */
static void made(const char *path, const char *text)
{
	cleanup_free char *full = xasprintf("%s/%s", k.paths.ml, path), *dir = xstrdup(full);

	stagekit_put(full, text);
	*strrchr(dir, '/') = '\0';
	if (chown(full, k.user.uid, k.user.gid) < 0 || chown(dir, k.user.uid, k.user.gid) < 0)
		tap_bail("%s: %s", full, strerror(errno));
}

static char *at(const char *dir, const char *path)
{
	cleanup_free char *full = xasprintf("%s/%s", dir, path);
	char *text;
	size_t n;

	return fs_read_file(full, 1 << 20, &text, &n, NULL) < 0 ? NULL : text;
}

static void is_at(const char *dir, const char *path, const char *want)
{
	cleanup_free char *got = at(dir, path);

	is_str(got, want, path);
}

static void test_empty(void)
{
	stagekit_job(&k);
	made("output/failure", "why it failed\n");
	upload(0, 1, NULL);
	is_int(up.rc, 0, "nothing left");
	is_str(up.kinds, "", "nothing kept; the failure file is told in other ways");
}

static void test_store(void)
{
	cleanup_free char *dir = xasprintf("%s/back", top), *manifest = NULL, *big = xcalloc(1, 900001);
	unsigned puts;
	struct err e;
	size_t n;

	stagekit_job(&k);
	memset(big, 'm', 900000);
	made("model/weights.bin", big);
	made("model/sub/config.json", "{}");
	made("output/data/result.txt", "fine\n");
	made("output/failure", "no\n");
	made("checkpoints/step-10", "c\n");
	upload(0, 1, NULL);
	is_int(up.rc, 0, up.text[0] ? up.text : "uploaded");
	is_str(up.kinds, "checkpoint:1:2 model:2:900002 output:1:5 ", "three kinds, with files and bytes");
	is_int(blob_get(k.ctl.blobdir, up.digest, 1 << 20, &manifest, &n, &e), 0, "the manifest is there");
	is_int(tree_extract(manifest, n, k.ctl.blobdir, dir, NULL, &e), 0, "the tree can be read back");
	is_at(dir, "data/result.txt", "fine\n");
	ok(up.uri[0] == '\0', "no address");
	puts = k.ctl.puts;
	upload(0, 1, NULL);
	is_str(up.kinds, "checkpoint:1:2 model:2:900002 output:1:5 ", "again");
	is_int(k.ctl.puts - puts, 3, "only the manifests are sent again");
}

/* A manifest of more than 4 MiB, which no single message holds. */
static void test_many(void)
{
	cleanup_free char *model = NULL, *manifest = NULL;
	struct tree_stats st = {0};
	struct err e;
	size_t n = 0;

	stagekit_job(&k);
	made("model/first", "1");
	model = xasprintf("%s/model", k.paths.ml);
	stagekit_many(model, 6000);
	upload(0, 1, NULL);
	is_int(up.rc, 0, up.text[0] ? up.text : "6,000 files far down");
	is_str(up.kinds, "model:6001:1 ", "are all there");
	is_int(blob_get(k.ctl.blobdir, up.digest, TREE_MANIFEST_MAX, &manifest, &n, &e), 0,
	       "with their manifest");
	ok(n > TREE_CHUNK_MAX, "which is larger than a piece: %zu bytes", n);
	is_int(tree_measure(manifest ? manifest : "", n, &st, &e), 0, "and whole");
	is_int((int64_t)st.files, 6001, "names all");
}

static void test_folder(void)
{
	cleanup_free char *dir = xasprintf("%s/results", top), *uri = xasprintf("file://%s/", dir),
	                  *want = xasprintf("file://%s/7/model", dir);
	struct stat st;

	if (mkdir(dir, 0755) < 0 || chown(dir, k.user.uid, k.user.gid) < 0)
		tap_bail("%s", dir);
	stagekit_job(&k);
	made("model/weights", "w1");
	made("model/old", "from the first attempt");
	made("output/data/x", "1");
	made("output/failure", "no\n");
	upload(0, 1, uri);
	is_int(up.rc, 0, up.text[0] ? up.text : "copied");
	is_str(up.kinds, "model:2:24 output:1:1 ", "kinds");
	is_at(dir, "7/model/weights", "w1");
	is_at(dir, "7/output/data/x", "1");
	is_at(dir, "7/output/failure", NULL);
	{
		cleanup_free char *file = xasprintf("%s/7/model/weights", dir);

		ok(stat(file, &st) == 0 && st.st_uid == k.user.uid, "they belong to the job's account");
	}
	stagekit_job(&k);
	made("model/weights", "w2");
	upload(0, 1, uri);
	is_str(up.uri, want, "the address that is told");
	is_at(dir, "7/model/weights", "w2");
	is_at(dir, "7/model/old", NULL);
	is_at(dir, "7/.hearth/model.part.1.1/weights", NULL);
	is_at(dir, "7/.hearth/model.old/weights", NULL);
	is_at(dir, "7/output/data/x", "1");
}

static void test_nodes(void)
{
	cleanup_free char *dir = xasprintf("%s/gang", top), *uri = xasprintf("file://%s", dir);

	if (mkdir(dir, 0755) < 0 || chown(dir, k.user.uid, k.user.gid) < 0)
		tap_bail("%s", dir);
	stagekit_job(&k);
	made("model/w", "of 1");
	made("output/o", "of 1");
	upload(0, 2, uri);
	stagekit_job(&k);
	made("model/w", "of 2");
	made("output/o", "of 2");
	made("checkpoints/c", "of 2");
	upload(1, 2, uri);
	is_int(up.rc, 0, up.text[0] ? up.text : "two nodes");
	is_at(dir, "7/model/w", "of 1");
	is_at(dir, "7/model/algo-2/w", "of 2");
	is_at(dir, "7/output/algo-1/o", "of 1");
	is_at(dir, "7/output/algo-2/o", "of 2");
	is_at(dir, "7/checkpoint/algo-2/c", "of 2");
	stagekit_job(&k);
	made("model/v", "of 1, second attempt");
	upload(0, 2, uri);
	is_at(dir, "7/model/v", "of 1, second attempt");
	is_at(dir, "7/model/w", NULL);
	is_at(dir, "7/model/algo-2/w", "of 2");
}

/* A file of the job's account anywhere, and its folder. */
static void theirs(const char *path, const char *text)
{
	cleanup_free char *dir = xstrdup(path);

	stagekit_put(path, text);
	*strrchr(dir, '/') = '\0';
	if (chown(path, k.user.uid, k.user.gid) < 0 || chown(dir, k.user.uid, k.user.gid) < 0)
		tap_bail("%s: %s", path, strerror(errno));
}

/* An attempt that was given up goes on where nobody reaches it, and comes last. */
static void test_late(void)
{
	cleanup_free char *dir = xasprintf("%s/late", top), *uri = xasprintf("file://%s", dir);
	cleanup_free char *part = xasprintf("%s/7/.hearth/model.part.2.2/w", dir);
	cleanup_free char *mark = xasprintf("%s/7/.hearth/model.epoch", dir);
	cleanup_free char *ca_file = xasprintf("%s/ca.pem", k.env.cfg.data_dir);

	if (mkdir(dir, 0755) < 0 || chown(dir, k.user.uid, k.user.gid) < 0)
		tap_bail("%s", dir);
	stagekit_job(&k);
	made("model/w", "of the third");
	epoch = 3;
	upload(0, 1, uri);
	is_int(up.rc, 0, up.text[0] ? up.text : "the newer attempt");
	theirs(part, "half of the second"); /* as another node left it */
	stagekit_job(&k);
	made("model/w", "of the second");
	epoch = 2;
	upload(0, 1, uri);
	is_int(up.rc, -1, "an older one is refused");
	like(up.text, "a newer attempt (epoch 3, this is 2)", "in words");
	is_at(dir, "7/model/w", "of the third");
	ok(access(part, F_OK) < 0, "and leaves nothing");
	theirs(part, "half of the second");
	stagekit_job(&k);
	made("model/w", "of the third, again");
	epoch = 3;
	upload(0, 1, uri);
	is_int(up.rc, 0, up.text[0] ? up.text : "the same one may try again");
	is_at(dir, "7/model/w", "of the third, again");
	ok(access(part, F_OK) < 0, "what others left on the way is gone");
	theirs(mark, "nonsense");
	upload(0, 1, uri);
	is_int(up.rc, 0, "a mark that says nothing hinders nobody");
	stagekit_put(ca_file, "another cluster");
	epoch = 1;
	stagekit_job(&k);
	made("model/w", "of another cluster");
	upload(0, 1, uri);
	is_int(up.rc, 0, "nor does one of another cluster");
	is_at(dir, "7/model/w", "of another cluster");
	unlink(ca_file);
}

/* What another upload holds is waited for, and a cancel ends the wait. */
static void test_turn(void)
{
	cleanup_free char *dir = xasprintf("%s/turn", top), *uri = xasprintf("file://%s", dir);
	cleanup_free char *mark = xasprintf("%s/7/.hearth/model.epoch", dir);
	cleanup_free char *part = xasprintf("%s/7/.hearth/model.part.1.1/w", dir);
	struct upload *u;
	int fd;

	if (mkdir(dir, 0755) < 0 || chown(dir, k.user.uid, k.user.gid) < 0)
		tap_bail("%s", dir);
	stagekit_job(&k);
	made("model/w", "first");
	upload(0, 1, uri);
	made("model/w", "second");
	fd = open(mark, O_RDWR | O_CLOEXEC);
	ok(fd >= 0 && flock(fd, LOCK_EX) == 0, "somebody is swapping");
	u = begin(0, 1, uri);
	UNTIL(access(part, F_OK) == 0);
	ok(!up.done, "this one waits");
	upload_cancel(u);
	UNTIL(access(part, F_OK) < 0);
	is_at(dir, "7/model/w", "first");
	close(fd);
	is_int(up.done, 0, "cancelled: it did not come in");
	upload(0, 1, uri);
	is_at(dir, "7/model/w", "second");
}

static void test_refused(void)
{
	cleanup_free char *dir = xasprintf("%s/mine", top), *uri = xasprintf("file://%s", dir), *ml = NULL;

	stagekit_job(&k);
	made("model/w", "x");
	upload(0, 1, "s3://bucket/x");
	is_int(up.rc, -1, "an address of another kind");
	like(up.text, "expected file:///PATH", "in words");
	upload(0, 1, "file:///proc/nonexistent/x");
	is_int(up.rc, -1, "a folder that cannot be");
	like(up.text, "model: output_uri: ", "in words");
	if (geteuid() == 0) {
		if (mkdir(dir, 0755) < 0)
			tap_bail("%s", dir);
		upload(0, 1, uri);
		is_int(up.rc, -1, "a folder that the job's account may not write to");
		like(up.text, "Permission denied", "in words");
		ml = xasprintf("%s/model/theirs", k.paths.ml);
		stagekit_put(ml, "secret");
		chmod(ml, 0600); /* root's: the job has no business with it */
		upload(0, 1, NULL);
		is_int(up.rc, -1, "a file that the job's account may not read");
		like(up.text, "theirs", "named");
	} else {
		tap_skip("permissions of another account: not root");
	}
	free(k.paths.ml);
	k.paths.ml = xstrdup("/nonexistent");
	ok(begin(0, 1, NULL) == NULL, "no folder at all");
}

static void test_cut(void)
{
	struct upload *u;

	stagekit_job(&k);
	made("model/w", "cut");
	k.ctl.deaf = 1;
	begin(0, 1, NULL);
	for (int i = 0; i < 10; i++)
		loop_run_once(loop, 5);
	k.ctl.deaf = 0;
	data_link_ctl_drop(&k.ctl);
	UNTIL(up.done);
	is_int(up.rc, 0, "goes on over a new connection");
	k.ctl.deaf = 1;
	u = begin(0, 1, NULL);
	for (int i = 0; i < 10; i++)
		loop_run_once(loop, 5);
	upload_cancel(u);
	for (int i = 0; i < 10; i++)
		loop_run_once(loop, 5);
	is_int(up.done, 0, "nothing after a cancel");
	k.ctl.deaf = 0;
}

int main(void)
{
	stagekit_start(&k);
	test_empty();
	test_store();
	test_many();
	test_folder();
	test_nodes();
	test_late();
	test_turn();
	test_cut();
	test_refused();
	stagekit_stop(&k);
	return tap_done();
}
