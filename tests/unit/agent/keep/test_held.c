/* held: a copy outside goes also where the node holds nothing, or nothing any more, of that launch; what has
 * a copy elsewhere makes room first. */
#include "agent/keep/held.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/keep/keep_index.h"
#include "common/base/clock.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agentkit.h"

static char *make_copy(const char *name)
{
	char *path = xasprintf("%s/share/%s", tap_tmpdir(), name);
	cleanup_free char *manifest = xasprintf("%s.manifest", path), *file = xasprintf("%s/w", path);
	struct err e;

	if (fs_mkdir_p(path, 0755, &e) < 0 || fs_replace(file, "w", 1, 0644, &e) < 0 ||
	    fs_replace(manifest, "m", 1, 0644, &e) < 0)
		tap_bail("%s", e.text);
	return path;
}

static int is_gone(struct agent *a, const char *path)
{
	for (int i = 0; i < 500 && access(path, F_OK) == 0; i++)
		loop_run_once(a->env.loop, 20);
	return access(path, F_OK) < 0;
}

static char *make_held(const char *launch, uint8_t state, time_t at)
{
	char *dir = xasprintf("%s/data/held/%s", tap_tmpdir(), launch);
	cleanup_free char *index = xasprintf("%s/index", dir);
	const struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};
	struct keep_index x = {0};
	struct keep_entry *en = keep_index_add(&x);
	struct err e;

	en->seq = 1;
	en->bytes = 100;
	en->state = state;
	en->name = xstrdup("at-1");
	en->format = xstrdup("plain");
	en->step_by = xstrdup("name");
	en->uri = xstrdup("");
	if (fs_mkdir_p(dir, 0700, &e) < 0 || keep_index_save(&x, dir, &e) < 0 ||
	    utimensat(AT_FDCWD, index, times, 0) < 0)
		tap_bail("%s", e.text);
	keep_index_fini(&x);
	return dir;
}

static int never(const char *launch, void *arg)
{
	(void)launch;
	(void)arg;
	return 0;
}

/* Ended launches hold more than the limit. */
static void test_sweep(struct agent *a)
{
	time_t now = (time_t)(clock_real_us(clock_real()) / 1000000);
	cleanup_free char *old = make_held("18.1", CKPT_COPYING, now - 300);
	cleanup_free char *copied = make_held("18.2", CKPT_VERIFIED, now - 200);
	cleanup_free char *newest = make_held("18.3", CKPT_VERIFIED, now - 100);
	struct trash *trash = trash_create(&a->env);

	a->env.cfg.held_limit = 250;
	held_sweep(&a->env, trash, never, NULL);
	ok(access(copied, F_OK) < 0, "the oldest that has a copy elsewhere goes first");
	ok(access(old, F_OK) == 0 && access(newest, F_OK) == 0, "and no other");
	a->env.cfg.held_limit = 50;
	for (int i = 0; i < 3; i++) /* and the folder of 17.1 */
		held_sweep(&a->env, trash, never, NULL);
	ok(access(newest, F_OK) < 0 && access(old, F_OK) < 0, "one that has none goes when there is no other");
	trash_destroy(trash);
}

int main(void)
{
	struct agent *a = agentkit_open(tap_tmpdir());
	cleanup_free char *one = make_copy("one"), *two = make_copy("two");
	cleanup_free char *place = xasprintf("%s/data/held/17.1/files/3", tap_tmpdir());
	struct launch_user user = {.uid = getuid(), .gid = getgid(), .name = (char *)(uintptr_t) "me"};
	struct held_removal r = {
	    .env = &a->env, .link = a->host.link, .launch = "17.1", .user = &user, .seq = 3, .copy = one};
	struct err e;

	a->env.is_root = geteuid() == 0;
	a->env.cfg.libexec_dir =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	held_remove(&r);
	ok(is_gone(a, one), "nothing is held: the copy goes");
	if (fs_mkdir_p(place, 0700, &e) < 0)
		tap_bail("%s", e.text);
	r.copy = two;
	r.seq = 0;
	held_remove(&r);
	ok(is_gone(a, two), "the copy of another node's part goes");
	ok(access(place, F_OK) == 0, "and nothing of what is held");
	r.seq = 3;
	r.copy = NULL;
	held_remove(&r);
	ok(is_gone(a, place), "a held one goes alone, too");
	test_sweep(a);
	free(a->env.cfg.libexec_dir);
	agentkit_close(a);
	return tap_done();
}
