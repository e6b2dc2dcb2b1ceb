/* held: a copy outside goes also where the node holds nothing, or nothing any more, of that launch. */
#include "agent/keep/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	free(a->env.cfg.libexec_dir);
	agentkit_close(a);
	return tap_done();
}
