/*
 * Real hearth-agents that find launches of an earlier agent: some with a plan that cannot be read, some
 * whose state was not saved.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 60000 /* ms; a deadline, not a time that is waited */

static struct ctl *c;
static struct ctl_agent *a;

static void start(void)
{
	cleanup_free char *run = xasprintf("%s/run", tap_tmpdir());
	const char *const more[] = {"--run", run, NULL};

	a = ctl_agent_start(c, 0, "n1", more);
}

static char *below(uint64_t job, const char *name)
{
	return xasprintf("%s/run/%d.1%s%s", tap_tmpdir(), (int)job, name[0] ? "/" : "", name);
}

static int exists(uint64_t job, const char *name)
{
	cleanup_free char *path = below(job, name);

	return access(path, F_OK) == 0;
}

static int no_folder(struct ctl *x, void *job)
{
	(void)x;
	return !exists(*(uint64_t *)job, "");
}

static int alive(uint64_t job)
{
	cleanup_free char *token = xasprintf("token-%d-%llu-1-0", (int)getpid(), (unsigned long long)job);

	return proc_count_env("HEARTH_TOKEN_LAUNCH", token, NULL);
}

static int none_alive(struct ctl *x, void *job)
{
	(void)x;
	return alive(*(uint64_t *)job) == 0;
}

static void write_to(uint64_t job, const char *name, const char *text, size_t n)
{
	cleanup_free char *path = below(job, name);
	struct err e = {0};

	if (fs_replace(path, text, n, 0600, &e) < 0)
		tap_bail("%s", e.text);
}

static void spoil(uint64_t job, const char *name)
{
	write_to(job, name, "spoilt", 6);
}

static void run_job(uint64_t job)
{
	/* The second process is in no tree of the shim's. */
	ctl_prepare_shell(c, a, job, 1, "setsid sleep 1000 & sleep 1000");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job %d is ready", (int)job);
	ctl_go(a, job, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "and runs");
}

static void next_agent(void)
{
	int before = a->connections;

	ctl_forget_reports(c);
	start();
	ok(ctl_wait_synced(a, before + 1, LONG), "the next agent reports");
}

static void agent_dies(void)
{
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
}

static void collect(uint64_t job)
{
	ctl_collect(a, job, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "job %d is cleaned", (int)job);
	ok(ctl_wait(c, LONG, no_folder, &job), "its folder is gone");
}

/* ---- a plan that cannot be read ------------------------------------------------------------------------ */

static void ended_as_unreadable(uint64_t job, const char *why)
{
	next_agent();
	ok(a->launch && a->launch->job == job, "it tells of the launch");
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "and that it is over");
	is_int(alive(job), 0, "when nothing of it is left");
	like(a->launch ? a->launch->text : "", why, "with the reason");
	ctl_kill(a, job, 1, 1, 0);
	collect(job);
}

static void test_spoilt(void)
{
	run_job(11);
	agent_dies();
	spoil(11, "plan");
	ended_as_unreadable(11, "not a whole plan");
}

static void test_absent(void)
{
	cleanup_free char *plan = below(12, "plan");

	run_job(12);
	agent_dies();
	ok(unlink(plan) == 0, "the plan is gone, the shim is not");
	ended_as_unreadable(12, "No such file");
}

/* The launch runs on, and is reported as it is, with its epoch. */
static void goes_on_as_newer(uint64_t job, const char *why)
{
	next_agent();
	ok(a->launch && a->launch->job == job && a->launch->state == LAUNCH_RUNNING, "it is reported as running");
	is_int(a->launch ? (int64_t)a->launch->epoch : -1, 1, "with its epoch");
	like(a->launch ? a->launch->text : "", why, "with the reason");
	ok(alive(job) > 0, "and its processes run");
	ctl_collect(a, job, 1, 1, 0);
	ok(exists(job, "plan"), "its folder is not removed");
}

static void test_newer(void)
{
	cleanup_free char *plan = below(13, "plan"), *text = NULL;
	size_t n = 0;

	char version;

	run_job(13);
	agent_dies();
	if (fs_read_file(plan, 1 << 20, &text, &n, NULL) < 0 || n < 7 || strncmp(text + n - 7, "plan ", 5) != 0)
		tap_bail("the plan has no version");
	version = text[n - 2];
	text[n - 2] = '9';
	write_to(13, "plan", text, n);
	goes_on_as_newer(13, "a newer agent wrote the plan (version 9");
	agent_dies();
	text[n - 2] = version;
	write_to(13, "plan", text, n);
	next_agent();
	ok(a->launch && a->launch->state == LAUNCH_RUNNING, "an agent that reads it continues the launch");
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "with its rank");
	agent_dies();
	text[n - 2] = '9';
	write_to(13, "plan", text, n);
	goes_on_as_newer(13, "upgrade this agent");
	ctl_kill(a, 13, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "an order ends it all the same");
	is_int(alive(13), 0, "and nothing of it is left");
	collect(13);
}

/* Before versions: the message alone. */
static void test_older(void)
{
	cleanup_free char *plan = below(14, "plan"), *text = NULL;
	struct buf in, old;
	struct wire_frame f;
	struct err e;
	size_t n = 0;
	void *m;

	run_job(14);
	agent_dies();
	if (fs_read_file(plan, 1 << 20, &text, &n, NULL) < 0)
		tap_bail("no plan");
	buf_view(&in, text, n);
	buf_init(&old, 1 << 20);
	if (wire_header_any(buf_head(&in), &f, &e) < 0 ||
	    wire_decode_at(wire_layout(WIRE_ALL, WM_PREPARE), WM_PREPARE, buf_head(&in) + WIRE_HEADER_SIZE, f.n,
	                   &m, &e) < 0 ||
	    wire_encode_at(WIRE_OLDEST, WM_PREPARE, m, 0, &old, &e) < 0)
		tap_bail("the plan: %s", e.text);
	write_to(14, "plan", (const char *)buf_head(&old), buf_left(&old));
	wire_free(WM_PREPARE, m);
	buf_fini(&old);
	next_agent();
	is_int(a->launch ? a->launch->state : 0, LAUNCH_RUNNING, "a plan without a version is gone on with");
	ctl_kill(a, 14, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "ended by order");
	collect(14);
}

/* The mark of a process that still runs says what else belongs to it. */
static void test_by_environment(void)
{
	run_job(15);
	agent_dies();
	spoil(15, "plan");
	spoil(15, "rank-0/launch");
	ended_as_unreadable(15, "not a whole plan");
}

static void test_unknown(void)
{
	uint64_t job = 16;
	cleanup_free char *dir = below(job, "");
	cleanup_free char *shim_ctl = below(job, "rank-0/ctl");
	pid_t shim;

	run_job(job);
	shim = ctl_parent(ctl_proc(a, PROC_RANK, 0)->pid);
	agent_dies();
	spoil(job, "plan");
	spoil(job, "rank-0/launch");
	spoil(job, "rank-0/state");
	spoil(job, "container");
	unlink(shim_ctl);
	next_agent();
	ok(ctl_wait_log(a, "event=wreck_unknown job=16", LONG), "nothing is on record: said");
	is_int(a->launch ? a->launch->state : 0, LAUNCH_STOPPING, "it is not told to be over");
	like(a->launch ? a->launch->text : "", "end them by hand, then remove", "and what to do is said");
	ctl_collect(a, job, 1, 1, 0);
	ok(exists(job, "rank-0"), "its folder is kept");
	{
		cleanup_free char *token = xasprintf("token-%d-16-1-0", (int)getpid());

		kill(shim, SIGKILL);
		proc_sweep_env("HEARTH_TOKEN_LAUNCH", token, SIGKILL, 5, NULL);
		proc_sweep_env("HEARTH_HOLD", token, SIGKILL, 5, NULL); /* the holder of its namespaces */
		ok(ctl_wait(c, LONG, none_alive, &job), "ended by hand");
		fs_rm_rf(dir, NULL);
	}
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "the folder is gone: over");
	collect(job);
}

/* ---- a state that was not saved ------------------------------------------------------------------------ */

/* As an agent leaves it that could not write since. */
static void age_life(uint64_t job, enum launch_state state)
{
	cleanup_free char *path = below(job, "life"), *text = NULL;
	struct err e = {0};
	size_t n = 0;
	cJSON *o;

	if (fs_read_file(path, 1 << 20, &text, &n, &e) < 0 || !(o = cJSON_Parse(text)))
		tap_bail("life of %d: %s", (int)job, e.text);
	cJSON_ReplaceItemInObject(o, "state", cJSON_CreateNumber(state));
	cJSON_ReplaceItemInObject(o, "going", cJSON_CreateFalse());
	free(text);
	text = cJSON_PrintUnformatted(o);
	cJSON_Delete(o);
	write_to(job, "life", text, strlen(text));
}

/* Two ranks; the first ends at once, the second when it is told: neither that end nor the old state may spoil
 * the launch. */
static void test_old_life(uint64_t job, enum launch_state state)
{
	cleanup_free char *stop = xasprintf("%s/jobs/%d.1/ml/output/stop", a->dir, (int)job);
	FILE *f;

	ctl_prepare_shell(c, a, job, 2,
	                  "[ $RANK = 0 ] && exit 0; while [ ! -e ../output/stop ]; do sleep 0.05; done; exit 7");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "job %d is ready", (int)job);
	ctl_go(a, job, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_EXITED, LONG) && ctl_wait_proc(a, PROC_RANK, 1, PS_RUNNING, LONG),
	   "one rank has ended, one runs");
	agent_dies();
	age_life(job, state);
	next_agent();
	is_int(a->launch ? a->launch->state : 0, LAUNCH_RUNNING, "the launch runs on, whatever the file says");
	ok(ctl_wait_proc(a, PROC_RANK, 1, PS_RUNNING, LONG), "so does its rank");
	f = fopen(stop, "w");
	if (!f)
		tap_bail("%s", stop);
	fclose(f);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "it ends");
	is_int(ctl_proc(a, PROC_RANK, 1)->exit_code, 7, "by itself");
	collect(job);
}

static void test_go_refused(void)
{
#ifdef HEARTH_FAULTS
	ok(a->launch != NULL, "an agent is there");
	agent_dies();
	setenv("HEARTH_FAULTS", "agent.state=1x1000", 1);
	next_agent();
	unsetenv("HEARTH_FAULTS");
	ctl_prepare_shell(c, a, 31, 1, "sleep 1000");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "nothing can be saved: ready");
	ctl_go(a, 31, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "but it does not go");
	is_int(a->launch->cls, RC_DISK, "for the disk");
	like(a->launch->text, "the state of the launch could not be saved", "which is said");
	is_int(ctl_proc(a, PROC_RANK, 0)->started_us ? 1 : 0, 0, "its rank never ran");
	ctl_collect(a, 31, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and is cleaned");
#else
	tap_skip("built without failpoints");
#endif
}

int main(void)
{
	cleanup_free char *program = xasprintf(
	    "%s/agent/hearth-agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");

	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	c->lease_ms = 600000;
	start();
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	test_spoilt();
	test_absent();
	test_newer();
	test_older();
	test_by_environment();
	test_unknown();
	test_old_life(21, LAUNCH_READY);
	test_old_life(22, LAUNCH_PREPARING);
	test_go_refused();
	ctl_stop(c);
	return tap_done();
}
