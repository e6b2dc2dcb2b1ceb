/*
 * Real hearth-agents with parked launches, and what goes wrong: refused
 * take-overs, an agent that dies at any step, a dead launcher or shim, kills.
 * Nothing of a launch stays behind, and no job runs twice.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/parkkit.h"

#define POINTS_MAX 20

static struct ctl *c;
static struct ctl_agent *a;
static struct ctl_agent *one[2];

static const char *const run_a[] = {"--slots", "8", NULL};

static int is_back(struct ctl *ctl, void *arg)
{
	(void)ctl;
	return a->synced >= *(int *)arg || ctl_is_zombie((uint32_t)a->pid);
}

/* A process that the dead agent had just forked may hold its lock for a moment.
 */
static void restart(const char *fault)
{
	int n = a->connections + 1;

	for (int i = 0; i < 50 && a->synced < n; i++) {
		ctl_agent_kill(a, SIGKILL);
		a->control = NULL;
		if (fault)
			setenv("HEARTH_FAULTS", fault, 1);
		ctl_agent_start(c, 0, "n1", run_a);
		unsetenv("HEARTH_FAULTS");
		ctl_wait(c, LONG, is_back, &n);
	}
	if (a->synced < n)
		tap_bail("the agent does not come back");
}

static void kill_parked(struct park_pool *p)
{
	ctl_kill(a, p->id, p->parking, 1, 0);
	ok(park_wait(a, p->id, LAUNCH_FAILED), "a kill ends the parked launch");
	park_clean(p, p->id, p->parking);
	is_int(park_processes(p, 0), 0, "no process is left");
	ok(!park_has_folder(p, a), "nor its folder");
}

static void test_refused(void)
{
	struct park_pool p = {c, one, "mpirun", 2, 60, 1, NULL}, other = {c, one, "mpirun", 1, 60, 1, NULL},
	                 none = {c, one, "mpirun", 2, 60, 9, NULL};

	park_all(&p);
	park_take(&other, 61, "true");
	ok(park_wait(a, 61, LAUNCH_FAILED), "a job with other ranks does not get the launch");
	like(a->launch->text, "launch 60.1 was parked with another value of: ranks",
	     "the reason names the field");
	park_take(&none, 62, "true");
	ok(park_wait(a, 62, LAUNCH_FAILED), "a parking that is not there cannot be taken over");
	like(a->launch->text, "launch 60.9 is not parked on this node", "the reason says so");
	is_int(a->states[60], LAUNCH_PARKED, "both leave the launch as it is");
	park_take(&p, 63, "test $RANK = 1 && exit 5; exec sleep 100");
	ok(park_wait(a, 63, LAUNCH_READY), "one job gets it");
	park_take(&p, 64, "true");
	ok(park_wait(a, 64, LAUNCH_FAILED), "a second one does not");
	like(a->launch->text, "launch 60.1 is not parked on this node", "the reason says so");
	park_take(&p, 63, "test $RANK = 1 && exit 5; exec sleep 100"); /* repeated, as after a
	                                                                  lost answer */
	park_go(&p, 63);
	ok(park_wait(a, 63, LAUNCH_ENDED), "the first one runs and ends");
	is_int(park_exit_code(a, 63, 1), 5, "with its exit status");
	park_clean(&p, 63, 1);
}

static void test_killed(const char *launcher, uint64_t pool)
{
	struct park_pool p = {c, one, launcher, 2, pool, 1, NULL};

	park_all(&p);
	kill_parked(&p);
	park_take(&p, pool + 1, "true");
	ok(park_wait(a, pool + 1, LAUNCH_FAILED), "nobody gets it any more");
}

static void test_adopted(void)
{
	struct park_pool p = {c, one, "mpirun", 2, 70, 1, NULL};

	park_all(&p);
	restart(NULL);
	ok(park_wait(a, 70, LAUNCH_PARKED), "another agent has the parked launch");
	ok(ctl_wait_log(a, "event=parked_again launch=70.1", LONG), "its shims wait");
	park_take(&p, 71, "test $RANK = 1 && exit 6; exec sleep 100");
	ok(park_wait(a, 71, LAUNCH_READY), "a job takes it over");
	restart(NULL);
	ok(park_wait(a, 71, LAUNCH_READY), "another agent has the job, which waits");
	park_go(&p, 71);
	ok(park_wait(a, 71, LAUNCH_ENDED), "it runs and ends");
	is_int(park_exit_code(a, 71, 1), 6, "with its exit status");
	park_clean(&p, 71, 1);
	ok(!park_has_folder(&p, a), "the folder is removed");
}

struct moment {
	uint64_t job;
	enum launch_state state;
};

/* Or its agent has died, or it has failed. */
static int has_come(struct ctl *ctl, void *arg)
{
	const struct moment *m = arg;
	uint8_t state = a->states[m->job];

	(void)ctl;
	return state == m->state || state == LAUNCH_FAILED || ctl_is_zombie((uint32_t)a->pid);
}

static int is_ready(uint64_t job)
{
	ctl_wait(c, LONG, has_come, &(struct moment){job, LAUNCH_READY});
	return a->states[job] == LAUNCH_READY;
}

static int is_ended(uint64_t job)
{
	ctl_wait(c, LONG, has_come, &(struct moment){job, LAUNCH_ENDED});
	return a->states[job] == LAUNCH_ENDED || a->states[job] == LAUNCH_FAILED;
}

/* Dies at the n-th point of a take-over and comes back; hearthd says again what
 * was not answered. Returns 0 when there is no n-th point. */
static int die_at(unsigned n, const char *launcher, uint64_t pool)
{
	struct park_pool p = {c, one, launcher, 2, pool, 1, NULL};
	uint64_t job = pool + 1;
	cleanup_free char *fault = xasprintf("agent.take=%u", n), *ran = NULL;
	cleanup_free char *mark = xasprintf("%s/pools/%d/cache/ran", a->dir, (int)pool);
	const char *shell = "echo x >> $HEARTH_WARM_CACHE/ran";
	int died;

	tap_diag("%s: point %u", launcher, n);
	restart(fault);
	park_all(&p);
	park_take(&p, job, shell);
	if (is_ready(job))
		park_go(&p, job);
	is_ended(job);
	died = ctl_is_zombie((uint32_t)a->pid);
	restart(NULL);
	if (a->states[job] == 0) { /* its answer never came */
		cleanup_free char *again = xasprintf("event=parked_again launch=%d.1", (int)pool);

		ctl_wait_log(a, again, LONG);
		park_take(&p, job, shell);
		is_ready(job);
	}
	if (a->states[job] == LAUNCH_READY)
		park_go(&p, job);
	ok(is_ended(job), "the job ends");
	if (a->states[job] == LAUNCH_FAILED) { /* hearthd starts it cold, and has no
		                                      use for the launch */
		ctl_kill(a, p.id, 1, 1, 0);
		is_ended(p.id);
		park_clean(&p, p.id, 1);
	}
	ok(fs_read_file(mark, 100, &ran, NULL, NULL) < 0 ? a->states[job] == LAUNCH_FAILED
	                                                 : strcmp(ran, "x\nx\n") == 0,
	   "each rank ran once, or none did: state %u, '%s'", a->states[job], ran ? ran : "");
	park_clean(&p, job, 1);
	is_int(park_processes(&p, 0), 0, "no process is left");
	ok(!park_has_folder(&p, a), "the folder is removed");
	return died;
}

static void test_dying(const char *launcher, uint64_t pool)
{
	unsigned n = 1;

	while (n < POINTS_MAX && die_at(n, launcher, pool + 2 * n))
		n++;
	ok(n > 5 && n < POINTS_MAX, "%u points", n - 1);
}

/* hearthd hears at once that the launch is of no use any more. */
static void test_broken(uint8_t kind, uint32_t rank, uint64_t pool)
{
	struct park_pool p = {c, one, "mpirun", 2, pool, 1, NULL};
	const struct wm_proc_report *r;

	park_all(&p);
	r = ctl_proc(a, kind, rank);
	kill(kind == PROC_MPIRUN ? (pid_t)r->pid : ctl_parent(r->pid), SIGKILL);
	ok(park_wait(a, p.id, LAUNCH_FAILED), "a parked launch whose mpirun is killed has failed");
	like(a->launch->text, "ended while the launch was parked", "the reason says so");
	park_clean(&p, p.id, 1);
	is_int(park_processes(&p, 0), 0, "no process is left");
}

/* ---- an agent that dies at the start
 * ----------------------------------------------------------------- */

#define AFTER_START "agent.take=7" /* of the first rank of two, the only one of one */

static void take_and_die(struct park_pool *p, uint64_t job)
{
	restart(AFTER_START);
	park_all(p);
	park_take(p, job, "");
	ok(is_ready(job), "job %d is ready", (int)job);
	park_go(p, job);
	is_ended(job);
	ok(ctl_is_zombie((uint32_t)a->pid), "the agent dies behind the start of its rank");
}

/* Why it did not start is the user's to know. */
static void test_reason(void)
{
	struct park_pool p = {c, one, "direct", 1, 160, 1, NULL};
	const struct wm_proc_report *r;

	p.spec = "{\"name\":\"t\",\"command\":[\"/no/such\"],\"launcher\":\"direct\","
	         "\"resources\":{\"instances\":1,\"ranks_per_instance\":1}}";
	take_and_die(&p, 161);
	restart(NULL);
	ok(park_wait(a, 161, LAUNCH_ENDED), "the next agent reports the end of the launch");
	r = park_rank(a, 161, 0);
	is_int(r ? r->state : 0, PS_FAILED, "and that its rank failed to start");
	like(r ? r->text : "", "/no/such", "and why");
	park_clean(&p, 161, 1);
}

/* In place of Python: it says that it is ready, takes a program, and begins it
 * when there is a file. */
static char *slow_interpreter(const char *dir, const char *begin)
{
	cleanup_free char *text = xasprintf("#!/bin/sh\necho ready >&8\nread frame <&8\n"
	                                    "while [ ! -e %s ]; do sleep 0.02; done\nprintf g >&8\nexit 7\n",
	                                    begin);
	char *path = xasprintf("%s/python3", dir);
	struct err e = {0};

	if (fs_replace(path, text, strlen(text), 0755, &e) < 0)
		tap_bail("%s", e.text);
	return path;
}

static void test_slow_start(void)
{
	struct park_pool p = {c, one, "direct", 1, 162, 1, NULL};
	char dir[] = "/srv/hearth-test-XXXXXX"; /* jobs of root's agent have a /tmp of
	                                           their own */
	const char *seen = geteuid() == 0 && mkdtemp(dir) ? dir : tap_tmpdir();
	cleanup_free char *begin = xasprintf("%s/begin", seen), *python = slow_interpreter(seen, begin);
	cleanup_free char *spec =
	    xasprintf("{\"name\":\"t\",\"command\":[\"%s\",\"x.py\"],\"launcher\":\"direct\","
	              "\"warm_pool\":{\"preload\":[\"json\"],\"keep_alive_s\":60},"
	              "\"resources\":{\"instances\":1,\"ranks_per_instance\":1}}",
	              python);

	p.spec = spec;
	take_and_die(&p, 163);
	restart(NULL);
	ok(ctl_wait_log(a, "order=shim_start reason=\"started already\"", LONG),
	   "the next agent starts it once more, too late");
	fs_replace(begin, "", 0, 0644, NULL);
	ok(park_wait(a, 163, LAUNCH_ENDED), "the rank begins later, and the launch ends");
	is_int(park_exit_code(a, 163, 0), 7, "with its exit status");
	park_clean(&p, 163, 1);
	if (seen == dir)
		fs_rm_rf(dir, NULL);
}

/* ---- the account -------------------------------------------------------------------------------------- */

/* The processes that wait have the groups of their start. The job starts cold. */
static void test_account(const char *fault, uint64_t pool, const char *why)
{
	struct park_pool p = {c, one, "direct", 1, pool, 1, NULL};

	restart(fault);
	park_all(&p);
	park_take(&p, pool + 1, "true");
	ok(park_wait(a, pool + 1, LAUNCH_FAILED), "the launch is not ready");
	like(a->launch->text, why, "it says why");
	park_clean(&p, pool + 1, 1);
	is_int(park_processes(&p, 0), 0, "no process is left");
}

/* GO would come too late to find that out. */
static void test_silent(void)
{
	struct park_pool p = {c, one, "mpirun", 1, 76, 1, NULL};
	const struct wm_proc_report *r;
	pid_t shim;

	park_all(&p);
	r = ctl_proc(a, PROC_MPIRUN, 0xffffffff);
	shim = ctl_parent(r->pid);
	ok(shim > 1 && kill(shim, SIGSTOP) == 0, "a shim hangs");
	park_take(&p, 77, "true");
	ok(park_wait(a, 77, LAUNCH_FAILED), "the launch is not ready");
	like(a->launch->text, "the shim of mpirun does not answer any more", "it says why");
	kill(shim, SIGCONT);
	park_clean(&p, 77, 1);
	is_int(park_processes(&p, 0), 0, "no process is left");
}

/* ---- the size of a start ------------------------------------------------------------------------------ */

#define LARGE 16 /* variables of 56 kB: with a hyperparameter, which comes in several forms, above 1 MiB */

static char *large_spec(void)
{
	cleanup_free char *text = xcalloc(1, 56001);
	char *env = xstrdup(""), *spec;

	memset(text, 'x', 56000);
	for (int i = 0; i < LARGE; i++) {
		char *more = xasprintf("%s%s\"V%d\":\"%s\"", env, i ? "," : "", i, text);

		free(env);
		env = more;
	}
	spec = xasprintf("{\"name\":\"t\",\"command\":[\"/bin/sh\",\"-c\",\"exit 7\"],\"launcher\":\"direct\","
	                 "\"environment\":{%s},\"hyperparameters\":{\"h\":\"%.40000s\"},"
	                 "\"resources\":{\"instances\":1,\"ranks_per_instance\":2}}",
	                 env, text);
	free(env);
	return spec;
}

/* What a cold launch starts, a parked one does, too. */
static void test_large(void)
{
	struct park_pool p = {c, one, "direct", 2, 170, 1, NULL};
	cleanup_free char *spec = large_spec();

	restart(NULL);
	park_all(&p);
	p.spec = spec;
	park_take(&p, 171, "");
	ok(is_ready(171), "a job with a large environment is ready");
	park_go(&p, 171);
	ok(park_wait(a, 171, LAUNCH_ENDED), "it runs and ends");
	is_int(park_exit_code(a, 171, 1), 7, "with its exit status");
	park_clean(&p, 171, 1);
}

/* Then the job starts cold, which it cannot any more once it has its GO. */
static void test_too_large(void)
{
	struct park_pool p = {c, one, "direct", 2, 172, 1, NULL};

	restart("agent.start_large=1");
	park_all(&p);
	park_take(&p, 173, "true");
	ok(park_wait(a, 173, LAUNCH_FAILED), "a start that a shim would refuse: the launch is not ready");
	like(a->launch->text, "arguments and environment of a rank are larger than 4194304 bytes", "it says why");
	park_clean(&p, 173, 1);
}

static void test_dropped(void)
{
	struct park_pool p = {c, one, "direct", 1, 174, 1, NULL};
	const struct wm_proc_report *r;

	restart("agent.start_dropped=1");
	park_all(&p);
	park_take(&p, 175, "true");
	ok(is_ready(175), "a job is ready");
	park_go(&p, 175);
	ok(park_wait(a, 175, LAUNCH_ENDED), "a start that cannot be sent ends the launch");
	r = park_rank(a, 175, 0);
	is_int(r ? r->state : 0, PS_FAILED, "its rank has failed");
	park_clean(&p, 175, 1);
}

/* ---- a plan that cannot be read
 * ------------------------------------------------------------------------ */

static void make_newer(const struct park_pool *p)
{
	cleanup_free char *path = NULL, *text = NULL;
	char sock[512];
	struct err e = {0};
	size_t n = 0;

	ctl_sock_path(a, sock, sizeof(sock));
	path = xasprintf("%.*s/%d.%u/plan", (int)(strrchr(sock, '/') - sock), sock, (int)p->id, p->parking);
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	if (fs_read_file(path, 1 << 20, &text, &n, &e) < 0 || n < 7 || strncmp(text + n - 7, "plan ", 5) != 0)
		tap_bail("the plan has no version: %s", e.text);
	text[n - 2] = '9';
	if (fs_replace(path, text, n, 0600, &e) < 0)
		tap_bail("%s", e.text);
}

static void end_newer(const struct park_pool *p, uint64_t job, uint32_t attempt)
{
	ok(park_processes(p, 0) > 0, "its processes run");
	ctl_kill(a, job, attempt, 1, 0);
	ok(park_wait(a, job, LAUNCH_ENDED), "an order ends it");
	is_int(park_processes(p, 0), 0, "no process is left");
	ctl_collect(a, job, attempt, 1, 0);
	ok(park_wait(a, job, LAUNCH_CLEANED), "it is cleaned");
}

/* Known by the job that has it, not by the parking that it was. */
static void test_newer(void)
{
	struct park_pool p = {c, one, "direct", 1, 164, 1, NULL}, waits = {c, one, "direct", 1, 166, 1, NULL};

	restart(NULL);
	park_all(&p);
	park_take(&p, 165, "exec sleep 100");
	ok(is_ready(165), "a job takes a launch over");
	park_go(&p, 165);
	ok(park_wait(a, 165, LAUNCH_RUNNING), "it runs");
	make_newer(&p);
	a->states[164] = a->states[165] = 0;
	restart(NULL);
	is_int(a->states[165], LAUNCH_RUNNING, "an older agent says that the job runs");
	is_int(a->states[164], 0, "and nothing of the parking");
	end_newer(&p, 165, 1);
	park_all(&waits);
	make_newer(&waits);
	a->states[166] = 0;
	restart(NULL);
	is_int(a->states[166], LAUNCH_PARKED, "an older agent says that a parked launch is parked");
	end_newer(&waits, 166, 1);
}

int main(void)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..";
	cleanup_free char *agent = xasprintf("%s/agent/hearth-agent", top);

	if (access(agent, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	c->lease_ms = 600000;
	c->prepare_timeout_ms = LONG;
	one[0] = a = ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	test_refused();
	test_killed("direct", 66);
	test_killed("mpirun", 68);
	test_adopted();
	test_broken(PROC_MPIRUN, 0xffffffff, 74);
	test_silent();
	test_newer();
	test_large();
#ifdef HEARTH_FAULTS
	test_dying("direct", 80);
	test_dying("mpirun", 120);
	test_reason();
	test_slow_start();
	test_too_large();
	test_dropped();
	test_account("agent.account=2", 176, "no answer about the account in time");
	if (geteuid() == 0)
		test_account("agent.account_groups=2", 178, "the account has other groups than when");
#endif
	ctl_stop(c);
	return tap_done();
}
