/*
 * What a container makes visible again of linked inputs below /tmp: what the job's account may go to by
 * itself, and nothing that only root may, wherever a link leads. And who may look into its /tmp from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/capture.h"
#include "agent/base/layers.h"
#include "agent/base/user.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/container/containerkit.h"

#define ACCOUNT 65534
#define GROUP   54321 /* a supplementary one */

static struct agent_env env;
static struct launch_paths paths;

static char *in_tmp(const char *name)
{
	return xasprintf("%s/%s", tap_tmpdir(), name);
}

static void make_dir(const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	cleanup_free char *path = in_tmp(name);
	struct err e;

	if (fs_mkdir_p(path, 0755, &e) < 0 || chmod(path, mode) < 0 || chown(path, uid, gid) < 0)
		tap_bail("%s", path);
}

static void put(const char *name)
{
	cleanup_free char *path = in_tmp(name);
	struct err e;

	if (fs_replace(path, "text\n", 5, 0644, &e) < 0)
		tap_bail("%s", e.text);
}

static void make_link(const char *name, const char *to)
{
	cleanup_free char *path = in_tmp(name), *target = in_tmp(to);

	if (symlink(target, path) < 0)
		tap_bail("%s", path);
}

/* To the same by way of the working folder of whoever follows it. */
static void link_by_proc(const char *name, const char *to)
{
	cleanup_free char *path = in_tmp(name), *target = in_tmp(to),
	                  *proc = xasprintf("/proc/self/cwd%s", target);

	if (symlink(proc, path) < 0)
		tap_bail("%s", path);
}

static void make_files(void)
{
	chmod(tap_tmpdir(), 0755);
	make_dir("closed", 0700, 0, 0);
	make_dir("closed/inner", 0755, 0, 0);
	put("closed/inner/secret");
	make_dir("group", 0710, 0, GROUP);
	make_dir("group/inner", 0755, 0, 0);
	put("group/inner/shared");
	make_dir("open", 0755, 0, 0);
	put("open/public");
	make_dir("mine", 0700, ACCOUNT, ACCOUNT);
	make_dir("mine/good", 0755, ACCOUNT, ACCOUNT);
	put("mine/good/own");
	make_link("mine/swapped", "closed/inner");
	make_link("mine/file", "closed/inner/secret");
	make_link("mine/fine", "open");
	make_link("mine/ours", "group/inner");
	link_by_proc("mine/proc", "open");
}

/* As staging leaves it: what the inputs were linked to when it looked. */
static void list_links(void)
{
	static const char *const names[] = {"mine/good", "mine/swapped", "mine/file",    "mine/fine", "mine/ours",
	                                    "missing",   "mine/file/x",  "closed/inner", "mine/proc"};
	cleanup_free char *path = xasprintf("%s/links", paths.work);
	FILE *f = fopen(path, "w");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		fprintf(f, "%s/%s\n", tap_tmpdir(), names[i]);
	fclose(f);
}

static int seen(uint32_t holder, const char *name)
{
	cleanup_free char *path = xasprintf("/proc/%u/root%s/%s", holder, tap_tmpdir(), name);

	return access(path, F_OK) == 0;
}

/* The errno that an account gets which opens the path so; 0: it may. */
static int open_as(uid_t uid, const char *path, int flags)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
			_exit(255);
		_exit(open(path, flags | O_CLOEXEC, 0600) < 0 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Inside, /tmp is open to every account; its path outside is closed to all but the agent. */
static void test_closed(uint32_t holder)
{
	cleanup_free char *inside = xasprintf("/proc/%u/root/tmp", holder);
	cleanup_free char *tmp = xasprintf("%s/private/tmp", paths.work), *mine = xasprintf("%s/mine", tmp);
	struct stat in, out;

	ok(stat(inside, &in) == 0 && stat(tmp, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino,
	   "/tmp is a folder of the launch");
	is_int(in.st_mode & 07777, 01777, "with the usual rights inside");
	put("data/jobs/8.1/private/tmp/mine");
	is_int(open_as(ACCOUNT, paths.work, O_RDONLY), 0, "here another account comes as far as the launch");
	is_int(open_as(ACCOUNT, tmp, O_RDONLY), EACCES, "it cannot list the launch's /tmp by its path");
	is_int(open_as(ACCOUNT, mine, O_RDONLY), EACCES, "nor read a file in it");
	is_int(open_as(ACCOUNT, mine, O_WRONLY | O_CREAT), EACCES, "nor leave one there");
}

static void test_links(void)
{
	gid_t groups[USER_GROUPS_MAX] = {ACCOUNT, GROUP};
	cleanup_free char *home = in_tmp("closed/inner");
	struct launch_user user = {.uid = ACCOUNT,
	                           .gid = ACCOUNT,
	                           .name = (char *)(uintptr_t) "nobody",
	                           .home = home,
	                           .groups = groups,
	                           .n_groups = USER_GROUPS_MAX};
	struct container_params p = {.name = "hold.1", .token = "hold-token", .paths = &paths, .user = &user};
	struct strv procs = {0}, oom = {0};
	struct container *c;
	uint32_t holder = 0;
	struct err e = {0};
	uint64_t start;

	for (uint32_t i = 2; i < USER_GROUPS_MAX; i++)
		groups[i] = 4000000000u + i; /* as long an argument as may be */
	make_files();
	list_links();
	c = kit_container(&env, &p, &e);
	if (!c)
		tap_bail("container: %s", e.text);
	container_shim(c, &procs, &oom, &holder, &start);
	strv_fini(&procs);
	strv_fini(&oom);
	if (!holder) {
		tap_skip("no right to make namespaces");
		container_destroy(c);
		return;
	}
	ok(seen(holder, "mine/good/own"), "a folder of the account's own is there");
	ok(seen(holder, "mine/fine/public"), "so is one that it may reach by a link");
	ok(seen(holder, "mine/ours/shared"), "and one that its groups let it into");
	ok(!seen(holder, "mine/swapped/secret"), "a link into a folder that is closed to it leads nowhere");
	ok(!seen(holder, "mine/file"), "nor does one to a file there");
	ok(!seen(holder, "mine/proc/public"),
	   "nor does a link by way of /proc, which the holder would follow as itself");
	ok(!seen(holder, "closed/inner/secret"), "nor the name itself, be it the account's home");
	ok(seen(holder, "run"), "what the agent needs is there");
	test_closed(holder);
	container_destroy(c);
}

/* An agent that ends while one is being made, of a launch that nobody will prepare again: the next one takes
 * it over to end it, and nothing of it is left. */
static void test_half(void)
{
	struct launch_user user = {.name = (char *)(uintptr_t) "root", .home = (char *)(uintptr_t) "/root"};
	struct container_params p = {.name = "hold.2", .token = "half-token", .paths = &paths, .user = &user};
	struct strv procs = {0}, oom = {0};
	uint32_t holder = 0;
	uint64_t start, end = clock_boot_us(clock_real()) + 60000000;
	struct err e = {0};
	struct container *c = container_create(&env, &p, &kit_ops, NULL, &e);

	if (!c)
		tap_bail("container: %s", e.text);
	container_shim(c, &procs, &oom, &holder, &start);
	container_forget(c);
	c = container_adopt(&env, &p, &kit_ops, NULL, &e);
	ok(c && !container_isolated(c), "one that was being made is taken over");
	container_destroy(c);
	while (proc_count_env("HEARTH_HOLD", p.token, &e) > 0 && clock_boot_us(clock_real()) < end)
		loop_run_once(env.loop, 20);
	is_int(proc_count_env("HEARTH_HOLD", p.token, &e), 0, "its holder is gone");
	for (size_t i = 0; i < procs.n; i++)
		ok(access(procs.v[i], F_OK) < 0, "and its group: %s", procs.v[i]);
	strv_fini(&procs);
	strv_fini(&oom);
}

/* A launch that waited gets its files when its container runs already. */
static void test_join(void)
{
	struct launch_user user = {.name = (char *)(uintptr_t) "root", .home = (char *)(uintptr_t) "/root"};
	struct container_params p = {.name = "hold.3", .token = "join-token", .paths = &paths, .user = &user};
	cleanup_free char *lower = in_tmp("data/cache/t"),
	                  *hold = xasprintf("%s/hearth-hold", env.cfg.libexec_dir), *out = NULL, *pid = NULL,
	                  *ticks = NULL, *shown = NULL, *code = in_tmp("data/jobs/8.1/ml/code");
	struct strv procs = {0}, oom = {0}, layers = {0};
	struct err e = {0};
	struct container *c = kit_container(&env, &p, &e);
	const char *argv[] = {hold, "--join", NULL, "--start", NULL, "--layer", NULL, NULL};
	struct capture run = {.argv = argv, .timeout_ms = 10000, .max = 512};
	uint32_t holder = 0;
	uint64_t start;
	size_t n;

	if (!c)
		tap_bail("container: %s", e.text);
	container_shim(c, &procs, &oom, &holder, &start);
	make_dir("data/cache/t", 0755, 0, 0);
	put("data/cache/t/file");
	make_dir("data/jobs/8.1/ml/code", 0755, 0, 0);
	if (layers_add(paths.work, "code", lower, NULL, &e) < 0)
		tap_bail("%s", e.text);
	layers_list(paths.work, &layers);
	is_int(layers.n, 1, "one layer");
	argv[2] = pid = xasprintf("%u", holder);
	argv[4] = ticks = xasprintf("%" PRIu64, start);
	argv[6] = layers.v[0];
	is_int(capture_run(&run, &out, &n, &e), 0, "it is mounted in a container that runs");
	shown = xasprintf("/proc/%u/root/opt/ml/code/file", holder);
	ok(access(shown, F_OK) == 0, "its processes see the files");
	is_int(rmdir(code), 0, "which are not in the folder behind it");
	free(ticks);
	argv[4] = ticks = xasprintf("%" PRIu64, start + 1);
	free(out);
	out = NULL;
	is_int(capture_run(&run, &out, &n, &e), -1, "a process of the same number is not taken for the holder");
	strv_fini(&procs);
	strv_fini(&oom);
	strv_fini(&layers);
	container_destroy(c);
}

int main(void)
{
	cleanup_free char *data = in_tmp("data"), *run = in_tmp("run"), *libexec = NULL;

	if (geteuid() != 0)
		tap_skip_all("needs root: there is no other account to act as");
	if (strncmp(tap_tmpdir(), "/tmp/", 5) != 0)
		tap_skip_all("needs a folder below /tmp");
	libexec = xasprintf("%s/agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : ".");
	env = (struct agent_env){
	    .loop = loop_create(),
	    .clock = clock_real(),
	    .is_root = 1,
	    .cfg = {.data_dir = data, .run_dir = run, .node = (char *)(uintptr_t) "n1", .libexec_dir = libexec}};
	paths.run = in_tmp("run/8.1");
	paths.work = in_tmp("data/jobs/8.1");
	paths.ml = in_tmp("data/jobs/8.1/ml");
	make_dir("run/8.1", 0711, 0, 0);
	make_dir("data/jobs/8.1/ml", 0755, 0, 0);
	test_links();
	test_half();
	test_join();
	container_env_fini(&env);
	loop_destroy(env.loop);
	free(paths.run);
	free(paths.work);
	free(paths.ml);
	return tap_done();
}
