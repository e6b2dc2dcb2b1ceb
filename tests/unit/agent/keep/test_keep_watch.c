/* keep_watch: a helper that fails again and again does not end the watch while the launch runs. */
#include "agent/keep/keep_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agentkit.h"

struct seen {
	unsigned held, warnings, done;
	int over;
	char *text;
};

static void give_moment(struct keep_moment *out, void *arg)
{
	const struct seen *s = arg;

	*out = (struct keep_moment){
	    .now_us = clock_real_us(clock_real()), .from_us = 1, .first_node = 1, .over = s->over};
}

static void on_held(struct keep_entry *en, void *arg)
{
	((struct seen *)arg)->held++;
	keep_entry_fini(en);
}

static void on_torn(struct keep_entry *en, const char *why, void *arg)
{
	(void)why;
	(void)arg;
	keep_entry_fini(en);
}

static void on_warning(const char *key, const char *text, void *arg)
{
	struct seen *s = arg;

	(void)key;
	s->warnings++;
	free(s->text);
	s->text = xstrdup(text);
}

static void on_done(void *arg)
{
	((struct seen *)arg)->done++;
}

static const struct keep_watch_ops ops = {
    .moment = give_moment, .held = on_held, .torn = on_torn, .warn = on_warning, .done = on_done};

static int turn_until(struct agent *a, const unsigned *what, int s)
{
	for (int i = 0; i < s * 50 && !*what; i++)
		loop_run_once(a->env.loop, 20);
	return *what > 0;
}

int main(void)
{
	struct agent *a = agentkit_open(tap_tmpdir());
	cleanup_free char *ml = xasprintf("%s/ml", tap_tmpdir()), *held = xasprintf("%s/held", tap_tmpdir());
	cleanup_free char *folder = xasprintf("%s/checkpoints", ml), *file = xasprintf("%s/at-1.pt", folder);
	cleanup_free char *libexec = xasprintf("%s/libexec", tap_tmpdir());
	cleanup_free char *programs =
	    xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	struct launch_user user = {.uid = getuid(), .gid = getgid(), .name = (char *)(uintptr_t) "me"};
	struct keep_index *x = xcalloc(1, sizeof(*x));
	struct seen s = {0};
	const struct keep_watch_params p = {.env = &a->env,
	                                    .workers = data_link_workers(a->host.link, POOL_KEEPERS),
	                                    .user = &user,
	                                    .ml = ml,
	                                    .held = held,
	                                    .cpus = "",
	                                    .next_seq = 1,
	                                    .known = x};
	struct keep_watch *k;
	struct err e;

	a->env.is_root = geteuid() == 0;
	a->env.cfg.libexec_dir = xstrdup(libexec);
	if (fs_mkdir_p(folder, 0755, &e) < 0 || fs_mkdir_p(held, 0700, &e) < 0 ||
	    fs_replace(file, "one", 3, 0644, &e) < 0)
		tap_bail("%s", e.text);
	k = keep_watch_start(&p, &ops, &s, &e);
	ok(k != NULL, "a watch without a helper");
	ok(turn_until(a, &s.warnings, 20), "after five failures the owner hears it");
	like(s.text, "The agent tries again", "and that the agent goes on");
	is_int((long)s.done, 0, "the watch has not ended");
	if (symlink(programs, libexec) < 0)
		tap_bail("%s", libexec);
	ok(turn_until(a, &s.held, 20), "a helper that works again secures the checkpoint");
	is_int((long)s.warnings, 1, "with one warning");
	s.over = 1;
	keep_watch_hurry(k);
	ok(turn_until(a, &s.done, 20), "the end of the launch ends the watch");
	free(a->env.cfg.libexec_dir);
	free(s.text);
	free(x);
	agentkit_close(a);
	return tap_done();
}
