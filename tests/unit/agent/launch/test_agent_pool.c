/*
 * A real hearth-agent with warm pools: the cache folder of a job becomes that of the pool that it leaves, the
 * pool's next jobs find it under all its names, and it goes with the pool. A node is clean when memory of the
 * job's GPUs is free, or leaves the pool.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 20000 /* ms; a deadline, not a time that is waited */

static struct ctl *c;
static struct ctl_agent *a;

static char gpus[4096]; /* file of invented GPUs */
static const char *const run_a[] = {"--slots", "8", "--warm-cache", "4MiB", "--fake-gpus", gpus, NULL};

static int has_no_folder(struct ctl *ctl, void *arg)
{
	cleanup_free char *path = xasprintf("%s/pools/%s", a->dir, (const char *)arg);

	(void)ctl;
	return access(path, F_OK) < 0;
}

static int has_folder(struct ctl *ctl, void *arg)
{
	return !has_no_folder(ctl, arg);
}

/* Up to CLEANED; what the rank printed is in the stream. */
static const char *run_job(uint64_t job, const char *shell)
{
	cleanup_free char *stream = xasprintf("%d rank-0", (int)job);

	ctl_prepare_shell(c, a, job, 1, shell);
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job %d is ready", (int)job);
	ctl_go(a, job, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "it ends");
	ctl_collect(a, job, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and is cleaned");
	return ctl_stream(c, stream);
}

static void test_hand_over(void)
{
	c->pool = 0;
	c->pool_keep = 1;
	run_job(61, "echo compiled > $HEARTH_WARM_CACHE/x; echo y > $SM_MODEL_DIR/y");
	ctl_pools(a, 62, 61);
	ok(ctl_wait(c, LONG, has_folder, (char[]){"62"}), "the pool has the folder of the job that left it");
	c->pool = 62;
	is_str(run_job(63, "cat $SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY/x; stat -c %a $HEARTH_WARM_CACHE/."),
	       "compiled\n700\n", "a job of the pool has its files, closed to other accounts");
	is_str(
	    run_job(64,
	            "test -d /opt/ml/model || { echo compiled; exit; }; cat /opt/ml/sagemaker/warmpoolcache/x"),
	    "compiled\n", "they are where the managed service has them");
	c->pool = 0;
	c->pool_keep = 0;
	is_str(run_job(65, "ls $HEARTH_WARM_CACHE"), "", "a job without a pool has an empty folder");
}

static void test_restart(void)
{
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "the agent was killed; another one runs");
	ok(has_folder(c, (char[]){"62"}), "the pool's folder waits for the list of pools");
	ctl_pools(a, 0, 0);
	ok(ctl_wait(c, LONG, has_no_folder, (char[]){"62"}), "and goes, because hearthd does not name the pool");
}

static void test_limit(void)
{
	c->pool_keep = 1;
	ctl_prepare_shell(c, a, 66, 1, "head -c 16000000 /dev/zero > $HEARTH_WARM_CACHE/big; sleep 100");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job 66 is ready");
	ctl_go(a, 66, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "a job that fills its cache folder is ended");
	like(a->launch->text, "limit of the warm cache passed: ", "the reason says so");
	like(a->launch->text, "4.0MiB allowed", "with the limit");
	ctl_collect(a, 66, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "it is cleaned");
	ok(ctl_wait(c, LONG, has_no_folder, (char[]){"66"}), "and the folder is removed");
}

static void set_gpu(const char *used)
{
	cleanup_free char *text = xasprintf("[{\"memory\": \"80GiB\", \"memory_used\": \"%s\"}, {}]", used);
	struct err e;

	if (fs_replace(gpus, text, strlen(text), 0600, &e) < 0)
		tap_bail("%s", e.text);
}

static void end_gpu_job(uint64_t job)
{
	ctl_prepare_shell(c, a, job, 1, "true");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job %d is ready", (int)job);
	ctl_go(a, job, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "it ends");
	ctl_collect(a, job, 1, 1, 0);
}

static void test_gpus(void)
{
	c->gpus = 1;
	set_gpu("6GiB");
	end_gpu_job(67);
	ok(!ctl_wait_state(a, LAUNCH_CLEANED, 1500),
	   "a node is not clean while memory of the job's GPU is in use");
	set_gpu("300MiB"); /* the driver's own */
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "it is when the driver has freed it");
	is_str(a->pool_bad, "", "nothing is wrong with that");
	set_gpu("6GiB");
	c->pool_keep = 0;
	end_gpu_job(69);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, 5000), "a job without a pool does not wait for memory of its GPUs");
	set_gpu("0");
	c->pool_keep = 1;
#ifdef HEARTH_FAULTS
	setenv("HEARTH_FAULTS", "agent.gpus=1x1000", 1);
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	ctl_agent_start(c, 0, "n1", run_a);
	unsetenv("HEARTH_FAULTS");
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "another agent, which waits less");
	set_gpu("6GiB");
	end_gpu_job(68);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "the wait for the memory has an end");
	is_str(a->pool_bad, "0 68 6.0GiB of GPU 0 are in use 50 s after the job",
	       "the node leaves the pool as suspect");
#else
	tap_skip("needs --enable-faults");
#endif
}

static void put_gpus(const char *text)
{
	struct err e;

	if (fs_replace(gpus, text, strlen(text), 0600, &e) < 0)
		tap_bail("%s", e.text);
}

/* Runs a job that changes the file of GPUs in between. */
static void change_gpus(uint64_t job, const char *before, const char *after)
{
	put_gpus(before);
	ctl_prepare_shell(c, a, job, 1, "true");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job %d is ready", (int)job);
	put_gpus(after);
	ctl_go(a, job, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "it changes settings of its GPU and ends");
	ctl_collect(a, job, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "the node is clean");
}

static int gpus_are(struct ctl *ctl, void *arg)
{
	char *text = NULL;
	size_t n;
	int same;

	(void)ctl;
	if (fs_read_file(gpus, 4096, &text, &n, NULL) < 0)
		return 0;
	same = strcmp(text, arg) == 0;
	free(text);
	return same;
}

static void test_settings(void)
{
	char was[] = "[{\"power_mw\":400000,\"compute_mode\":0,\"mig_mode\":0}]",
	     cold[] = "[{\"compute_mode\":0}]";

	a->pool_bad[0] = '\0';
	change_gpus(75, was, "[{\"power_mw\":300000,\"compute_mode\":3,\"mig_mode\":0}]");
	ok(gpus_are(c, was), "the settings are as before the job");
	is_str(a->pool_bad, "", "and the node stays in the pool");
	change_gpus(76, "[{\"power_mw\":400000}]", "[{\"power_mw\":300000,\"stuck\":true}]");
	is_str(a->pool_bad, "0 76 power limit (mW) of GPU 0 is 300000 after the job, and was 400000",
	       "a setting that cannot be put back makes the node a suspect");
	c->pool_keep = 0;
	change_gpus(77, cold, "[{\"compute_mode\":2}]");
	ok(ctl_wait(c, LONG, gpus_are, cold), "a job without a pool leaves no settings, either");
	c->pool_keep = 1;
}

int main(void)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..";
	cleanup_free char *agent = xasprintf("%s/agent/hearth-agent", top);

	if (access(agent, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	snprintf(gpus, sizeof(gpus), "%s/gpus.json", tap_tmpdir());
	set_gpu("0");
	c->lease_ms = 600000;
	c->prepare_timeout_ms = LONG;
	a = ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	test_hand_over();
	test_restart();
	test_limit();
	test_gpus();
	test_settings();
	ctl_stop(c);
	return tap_done();
}
