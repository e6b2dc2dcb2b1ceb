/*
 * trash: a folder goes out of the way at once and is removed by a thread; what an agent left is taken by the
 * next; waiting, forgetting, ending in between.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/trash.h"
#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "tests/lib/tap.h"

#define MANY 5000

static struct agent_env env;
static struct loop *loop;
static int calls, bad;

static void on_gone(const char *why, void *arg)
{
	(void)arg;
	calls++;
	bad += why != NULL;
}

static void turn_until_calls(int n)
{
	uint64_t end = clock_boot_us(clock_real()) + 60000000;

	while (calls < n && clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 20);
}

static void fill(const char *dir, int n)
{
	struct err e;

	if (fs_mkdir_p(dir, 0755, &e) < 0)
		tap_bail("%s", e.text);
	for (int i = 0; i < n; i++) {
		cleanup_free char *path = xasprintf("%s/%d", dir, i);

		if (fs_replace(path, "x", 1, 0600, &e) < 0)
			tap_bail("%s", e.text);
	}
}

struct count {
	char *dir;
	int n;
};

static int count_one(const char *name, void *arg)
{
	struct count *c = arg, below = {.dir = xasprintf("%s/%s", c->dir, name)};
	struct stat st;

	if (lstat(below.dir, &st) == 0 && S_ISDIR(st.st_mode))
		fs_each(below.dir, count_one, &below, NULL);
	else
		below.n = 1;
	c->n += below.n;
	free(below.dir);
	return 0;
}

static int files_in(const char *top)
{
	struct count c = {.dir = xasprintf("%s/trash", top)};

	fs_each(c.dir, count_one, &c, NULL);
	free(c.dir);
	return c.n;
}

static void test_put(void)
{
	cleanup_free char *work = xasprintf("%s/jobs/7.1", env.cfg.data_dir);
	cleanup_free char *run = xasprintf("%s/7.1/t", env.cfg.run_dir);
	struct trash *t = trash_create(&env);
	struct err e;

	fill(work, MANY);
	fill(run, 10);
	is_int(trash_put(t, work, "7.1", &e), 0, "put away");
	is_int(trash_put(t, run, "7.1", &e), 0, "from the other place, too");
	ok(access(work, F_OK) < 0 && access(run, F_OK) < 0, "out of the way at once");
	is_int(files_in(env.cfg.data_dir), MANY, "though no file of it was touched");
	is_int(files_in(env.cfg.run_dir), 10, "each on its own file system");
	trash_wait(t, "7.1", on_gone, &calls);
	is_int(calls, 0, "waiting says nothing yet");
	turn_until_calls(1);
	is_int(calls, 1, "told when it is gone");
	is_int(bad, 0, "well");
	is_int(files_in(env.cfg.data_dir) + files_in(env.cfg.run_dir), 0, "it is gone");
	is_int(trash_put(t, work, "7.1", &e), 0, "what is missing is no error");
	trash_wait(t, "7.1", on_gone, &calls);
	turn_until_calls(2);
	is_int(calls, 2, "and not waited for");
	trash_destroy(t);
}

/* An agent that is killed leaves its trash; the launch that it was of is told by the next one. */
static void test_left(void)
{
	cleanup_free char *left = xasprintf("%s/trash/8.2~00c0ffee", env.cfg.data_dir);
	struct trash *t;

	fill(left, 100);
	t = trash_create(&env);
	calls = 0;
	trash_wait(t, "8.2", on_gone, &calls);
	turn_until_calls(1);
	is_int(calls, 1, "left by another agent: told when it is gone");
	ok(access(left, F_OK) < 0, "it is gone");
	trash_destroy(t);
}

static void test_end(void)
{
	struct trash *t = trash_create(&env);
	struct err e;

	calls = 0;
	for (int i = 0; i < 12; i++) {
		cleanup_free char *work = xasprintf("%s/jobs/9.%d", env.cfg.data_dir, i);

		fill(work, 300);
		is_int(trash_put(t, work, "9.1", &e), 0, "more than there are threads");
	}
	trash_wait(t, "9.1", on_gone, &calls);
	trash_wait(t, "9.1", on_gone, &bad);
	loop_run_once(loop, 1);
	trash_forget(t, &bad);
	trash_destroy(t); /* in the middle */
	is_int(calls, 0, "ended in between: nobody is told");
	t = trash_create(&env);
	trash_wait(t, "9.1", on_gone, &calls);
	turn_until_calls(1);
	is_int(calls, 1, "the next one goes on");
	is_int(files_in(env.cfg.data_dir), 0, "to the end");
	trash_destroy(t);
}

int main(void)
{
	loop = loop_create();
	env.loop = loop;
	env.clock = clock_real();
	env.cfg.data_dir = xasprintf("%s/data", tap_tmpdir());
	env.cfg.run_dir = xasprintf("%s/run", tap_tmpdir());
	if (mkdir(env.cfg.data_dir, 0755) < 0 || mkdir(env.cfg.run_dir, 0755) < 0)
		tap_bail("%s", tap_tmpdir());
	test_put();
	test_left();
	test_end();
	free(env.cfg.data_dir);
	free(env.cfg.run_dir);
	loop_destroy(loop);
	return tap_done();
}
