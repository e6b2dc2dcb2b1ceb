/*
 * stage_check: an output_uri that would take nothing, and a step that is not there, are found before anything
 * is brought in.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
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

/* A folder of the job's account, or of root. */
static void folder(const char *name, uid_t uid, mode_t mode)
{
	cleanup_free char *path = in_top(name);
	struct err e;

	if (fs_mkdir_p(path, 0755, &e) < 0 || chmod(path, mode) < 0 ||
	    (k.env.is_root && chown(path, uid, uid) < 0))
		tap_bail("%s", path);
}

static int nothing(const char *name, void *arg)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static int entries(const char *name)
{
	cleanup_free char *path = in_top(name);
	int n = 0;

	fs_each(path, nothing, &n, NULL);
	return n;
}

static void output(const char *name, const char *bundle)
{
	cleanup_free char *keys = xasprintf("\"output_uri\":\"file://%s/%s\"", top, name);

	stagekit_run(&k, keys, bundle, NULL, NULL);
}

static void refused(const char *name, const char *why, enum reason_class cls)
{
	static const char missing[] = "0123456789012345678901234567890123456789012345678901234567890123";

	output(name, missing); /* which would fail, too, and later */
	is_int(k.rc, -1, name);
	like(k.text, "output_uri, as account ", "says what is wrong");
	like(k.text, name, "where");
	like(k.text, why, "and why");
	is_int(k.cls, cls, cls == RC_USER_ERROR ? "it would be so on every node" : "another node may have it");
	is_str(k.phases, "", "before anything is brought in");
}

static void test_output(void)
{
	folder("own", k.user.uid, 0755);
	output("own/", NULL);
	is_int(k.rc, 0, k.text ? k.text : "a folder of the account's own");
	is_int(entries("own"), 0, "nothing is left in it by looking");
	output("own/made/here", NULL);
	is_int(k.rc, 0, k.text ? k.text : "a missing one is made");
	is_int(entries("own/made/here"), 0, "and is empty");
	put("plain", "x");
	refused("plain", "is not a folder", RC_USER_ERROR);
	refused("plain/below", "is not a folder", RC_USER_ERROR);
	if (!k.env.is_root)
		return;
	folder("roots", 0, 0755);
	refused("roots", "cannot be written", RC_STAGING);
	refused("roots/below", "is not there and cannot be made", RC_STAGING);
	folder("closed", 0, 0700);
	folder("closed/own", k.user.uid, 0755);
	refused("closed/own", "Permission denied", RC_STAGING);
}

static void resume(const char *name, int64_t at)
{
	cleanup_free char *uri = xasprintf("file://%s/%s", top, name);

	k.resume_step = at;
	stagekit_run(&k, "", NULL, uri, NULL);
	k.resume_step = -1;
}

/* The same from hearthd. */
static void in_store(const char *name, int64_t at)
{
	cleanup_free char *path = in_top(name), *digest = stagekit_tree(&k, path);

	k.resume_step = at;
	stagekit_run(&k, "", NULL, digest, NULL);
	k.resume_step = -1;
	is_int(k.rc, 0, k.text ? k.text : "from hearthd's store");
}

static int is_staged(const char *name)
{
	cleanup_free char *path = xasprintf("checkpoints/%s", name), *text = stagekit_read(&k, path);

	return text != NULL;
}

static void has(const char *name, const char *says)
{
	ok(is_staged(name), "%s", says);
}

static void has_not(const char *name, const char *says)
{
	ok(!is_staged(name), "%s", says);
}

static void test_steps(void)
{
	put("ckpt/step-100/w", "a");
	put("ckpt/model_200.pt", "b");
	put("ckpt/.part-300", "c");
	put("ckpt/readme", "d");
	put("nodes/algo-1/step-7/w", "e");
	put("nodes/algo-2/step-8/w", "f");
	put("none/readme", "g");
	folder("ckpt", k.user.uid, 0755);
	resume("ckpt", 200);
	is_int(k.rc, 0, k.text ? k.text : "a step that is there");
	has("step-100/w", "with what came before it");
	resume("ckpt", -1);
	is_int(k.rc, 0, k.text ? k.text : "no step named");
	has("model_200.pt", "all is there");
	resume("ckpt", 100);
	has("step-100/w", "of an earlier step");
	has("readme", "all that has none");
	has_not("model_200.pt", "nothing of what came after it");
	like(k.log, "1 entries of steps after 100 were left out", "which the log says");
	in_store("ckpt", 100);
	has("step-100/w", "so it is from hearthd's store");
	has_not("model_200.pt", "where it is left out, too");
	in_store("ckpt", -1);
	has("model_200.pt", "but stays in what is kept of it here");
	resume("ckpt", 300);
	is_int(k.rc, -1, "a step that is not there");
	is_int(k.cls, RC_USER_ERROR, "is the job's fault");
	like(k.text, "holds no step 300; there are 100, 200", "and is told with those that are");
	like(k.text, "checkpoint to resume from", "as what it is");
	resume("nodes", 8);
	is_int(k.rc, 0, k.text ? k.text : "of several nodes");
	has("algo-2/step-8/w", "a node's folder is no step");
	resume("nodes", 7);
	has("algo-1/step-7/w", "each node's is there");
	has_not("algo-2/step-8/w", "but for what is of a later step");
	resume("nodes", 2);
	like(k.text, "holds no step 2; there are 7, 8", "whose folders are no steps");
	resume("none", 1);
	like(k.text, "no name in it has a number", "not laid out by steps");
	resume("plain", 1);
	like(k.text, "is not a folder of checkpoints", "a file");
	resume("gone", 1);
	is_int(k.cls, RC_USER_ERROR, "a folder that is not there");
	like(k.text, "No such file", "is told as before");
}

int main(void)
{
	stagekit_start(&k);
	test_output();
	test_steps();
	stagekit_stop(&k);
	return tap_done();
}
