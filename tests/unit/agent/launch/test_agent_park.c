/*
 * Real hearth-agents that park launches for a warm pool: the launcher and the shims wait; a job takes them
 * over and starts. Real shims, real mpirun; the test orders in hearthd's place.
 */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "shim/shim.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/parkkit.h"

static struct ctl *c;
static struct ctl_agent *a, *b;

static const char *const run_a[] = {"--slots", "8", NULL};

static void test_main_path(struct park_pool *p, uint64_t job)
{
	cleanup_free char *stream = xasprintf("%d rank-1", (int)job),
	                  *no_stream = xasprintf("%d rank-1", (int)p->id);
	struct ctl_agent *last = p->nodes[1] ? p->nodes[1] : a;

	park_all(p);
	park_take(
	    p, job,
	    "echo job $HEARTH_JOB_ID rank $RANK of $WORLD_SIZE in $PWD ${OMPI_COMM_WORLD_RANK:-none}; echo m "
	    "> $SM_MODEL_DIR/m; test $RANK = 0 || exit 7");
	ok(park_wait_all(p, job, LAUNCH_READY), "a job takes it over: ready");
	ok(park_has_folder(p, a), "its folder is that of the parking");
	is_int(a->states[p->id], LAUNCH_PARKED, "no report of the parking follows");
	is_str(ctl_stream(c, stream), "", "nothing runs before GO");
	park_go(p, job);
	ok(park_wait_all(p, job, LAUNCH_ENDED), "it ends");
	is_int(park_exit_code(last, job, 1), 7, "with the exit status of its program");
	park_clean(p, job, 1);
	like(ctl_stream(c, stream), "rank 1 of 2 in ", "its output is the job's");
	like(ctl_stream(c, stream), "/code 1\n", "in its source folder, with the variables of the launcher");
	ok(!strstr(ctl_stream(c, stream), "of the parking"), "and not that of the parking");
	is_str(ctl_stream(c, no_stream), "", "the parking has no output");
	ok(!park_has_folder(p, a), "the folder is removed");
	is_int(park_processes(p, 0), 0, "no process is left");
}

/* Rank 1 ends before the main node gets its GO. That is the end of the job, not a failed take-over. */
static void test_late_go(struct park_pool *p, uint64_t job)
{
	park_all(p);
	park_take(p, job, "exit 3");
	ok(park_wait_all(p, job, LAUNCH_READY), "a job takes it over: ready");
	ctl_go(b, job, 1, 1);
	ok(park_wait(b, job, LAUNCH_ENDED), "it has ended on the second node");
	ok(!ctl_wait_state(a, LAUNCH_FAILED, 300), "the main node waits for GO");
	ctl_go(a, job, 1, 1);
	ok(park_wait(a, job, LAUNCH_ENDED), "it ends there, too");
	is_int(park_exit_code(b, job, 1), 3, "with the exit status of the rank that ran");
	is_int(park_exit_code(a, job, 0), 999, "the other one was not started");
	park_clean(p, job, 1);
}

static void test_no_go(struct park_pool *p, uint64_t job)
{
	park_all(p);
	park_take(p, job, "exit 3");
	ok(park_wait_all(p, job, LAUNCH_READY), "a job takes it over: ready");
	ctl_kill(b, job, 1, 1, 0);
	ok(park_wait(b, job, LAUNCH_FAILED), "it is killed on the second node");
	ok(park_wait(a, job, LAUNCH_FAILED), "without GO the take-over has failed on the first one");
	park_clean(p, job, 1);
	is_int(park_processes(p, 0) + park_processes(p, 1), 0, "no process is left");
}

static char *with_env(const char *format, const char *env)
{
	const char *at = strstr(format, "%s");

	return xasprintf("%.*s%s%s", (int)(at - format), format, env, at + 2);
}

/* A script, or a folder that Python runs as a program. */
static void write_program(const char *path, int is_file)
{
	static const char text[] =
	    "import os, sys\nprint('wave' in sys.modules, os.environ['RANK'], sys.argv[1:], "
	    "'cwd' if os.getcwd().endswith('/code') else '')\nsys.exit(7)\n";
	cleanup_free char *script = is_file ? xstrdup(path) : xasprintf("%s/__main__.py", path);
	struct err e;

	if (!is_file && mkdir(path, 0755) < 0)
		tap_bail("mkdir %s", path);
	if (fs_replace(script, text, sizeof(text) - 1, 0644, &e) < 0)
		tap_bail("%s", e.text);
}

/* The interpreter waits with its modules. A job with a variable that Python reads at its start gets another
 * one, and so does one with a folder as its program.
 */
static void test_preload(const char *launcher, uint64_t pool, uint64_t job, const char *name, const char *env,
                         const char *want)
{
	int is_file = strchr(name, '.') != NULL;
	cleanup_free char *program = xasprintf("%s/%s", a->dir, name), *stream = xasprintf("%d rank-0", (int)job);
	cleanup_free char *system = xasprintf("%d system-algo-1", (int)job);
	cleanup_free char *format = xasprintf("{\"name\":\"t\",\"command\":[\"/usr/bin/python3\",\"%s\",\"x\"],"
	                                      "\"launcher\":\"%s\",\"warm_pool\":{\"preload\":[\"wave\"],"
	                                      "\"keep_alive_s\":60}%%s,"
	                                      "\"resources\":{\"instances\":1,\"ranks_per_instance\":1}}",
	                                      program, launcher);
	struct ctl_agent *one[] = {a, NULL};
	struct park_pool p = {c, one, launcher, 1, pool, 1, NULL};
	cleanup_free char *parked = with_env(format, ""), *taken = with_env(format, env);

	write_program(program, is_file);
	p.spec = parked;
	park_all(&p);
	is_str(a->launch->text, "", "the interpreter is well");
	p.spec = taken;
	park_take(&p, job, "");
	ok(park_wait(a, job, LAUNCH_READY), "a job takes it over: ready");
	park_go(&p, job);
	ok(park_wait(a, job, LAUNCH_ENDED), "it ends");
	is_int(park_exit_code(a, job, 0), 7, "with its exit status");
	park_clean(&p, job, 1);
	is_str(ctl_stream(c, stream), want, "the modules were there, or were not");
	if (!is_file)
		like(ctl_stream(c, system), SHIM_TEXT_AFRESH, "the node's log tells that it was not used");
	is_int(park_processes(&p, 0), 0, "no process is left");
}

int main(void)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..";
	cleanup_free char *agent = xasprintf("%s/agent/hearth-agent", top);
	struct ctl_agent *one[2] = {0}, *two[3] = {0};

	if (access(agent, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	c->lease_ms = 600000;
	c->prepare_timeout_ms = LONG;
	one[0] = two[0] = a = ctl_agent_start(c, 0, "n1", run_a);
	two[1] = b = ctl_agent_start(c, 1, "n2", run_a);
	ok(ctl_wait_synced(a, 1, LONG) && ctl_wait_synced(b, 1, LONG), "connected");
	test_main_path(&(struct park_pool){c, one, "direct", 2, 60, 1, NULL}, 61);
	test_main_path(&(struct park_pool){c, one, "mpirun", 2, 62, 1, NULL}, 63);
	test_main_path(&(struct park_pool){c, two, "mpirun", 1, 64, 1, NULL}, 65);
	test_late_go(&(struct park_pool){c, two, "mpirun", 1, 66, 1, NULL}, 67);
	test_no_go(&(struct park_pool){c, two, "mpirun", 1, 68, 1, NULL}, 69);
	test_preload("direct", 70, 71, "script.py", "", "True 0 ['x'] cwd\n");
	test_preload("mpirun", 72, 73, "script.py", "", "True 0 ['x'] cwd\n");
	test_preload("direct", 76, 77, "program", "", "False 0 ['x'] cwd\n");
	test_preload("mpirun", 74, 75, "script.py", ",\"environment\":{\"PYTHONHASHSEED\":\"1\"}",
	             "False 0 ['x'] cwd\n");
	ctl_stop(c);
	return tap_done();
}
