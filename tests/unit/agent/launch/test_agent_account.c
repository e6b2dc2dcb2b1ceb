/*
 * A real hearth-agent whose directory of accounts does not answer: it stays a member of the cluster, the
 * launch that asked fails in time and says why, and what runs already is not touched.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#ifdef HEARTH_FAULTS

#define LONG     30000 /* ms; a deadline, not a time that is waited */
#define PATIENCE 4000  /* of a launch that prepares */
#define MANY     16    /* look-ups that an agent lets hang */

static struct ctl *c;
static struct ctl_agent *a;

static void prepare(uint64_t job, const char *shell)
{
	ctl_prepare_shell(c, a, job, 1, shell);
}

static void clean(uint64_t job)
{
	ctl_collect(a, job, 1, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "job %d is cleaned", (int)job);
}

static void start(const char *faults)
{
	cleanup_free char *run = xasprintf("%s/run", tap_tmpdir());
	const char *const more[] = {"--run", run, NULL};

	if (faults)
		setenv("HEARTH_FAULTS", faults, 1);
	a = ctl_agent_start(c, 0, "n1", more);
	unsetenv("HEARTH_FAULTS");
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "the agent is connected");
}

static int has_beaten(struct ctl *x, void *arg)
{
	(void)arg;
	return a->beats >= x->want_beats;
}

static void test_hangs(void)
{

	c->prepare_timeout_ms = PATIENCE;
	prepare(71, "true");
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "a launch whose account is not found out about fails in time");
	c->want_beats = a->beats + 5;
	ok(ctl_wait(c, LONG, has_beaten, NULL), "and the node beats, though that thread still hangs");
	is_int(a->connections, 1, "and was never disconnected");
	like(a->launch ? a->launch->text : "", "account", "the reason names what was asked for");
	like(a->launch ? a->launch->text : "", "' within 4 s (does this node reach its directory",
	     "and how long it was waited for");
	is_int(a->launch ? a->launch->cls : 0, RC_AGENT, "it is the node's fault");
	clean(71);
}

static void test_killed(void)
{
	c->prepare_timeout_ms = 600000;
	prepare(72, "true");
	ok(ctl_wait_phase(a, "provisioning", LONG), "the controller sees that it is being prepared");
	ctl_kill(a, 72, 1, 1, 1000);
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "stopped while it waits");
	clean(72);
}

/* The account of a launch is known to its files: nobody is asked a second time. */
static void test_adopted(void)
{
	cleanup_free char *go = NULL;

	prepare(74, "until [ -e go ]; do read -t 1 x < /dev/null || sleep 0.1; done; exit 7");
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "the next one is answered, while the others still hang");
	ctl_go(a, 74, 1, 1);
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "running");
	ctl_agent_kill(a, SIGKILL);
	start("agent.account=1x1000");
	ok(ctl_wait_proc(a, PROC_RANK, 0, PS_RUNNING, LONG), "the rank runs on");
	go = xasprintf("%s/jobs/74.1/ml/code/go", a->dir);
	fclose(fopen(go, "w"));
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "and ends");
	is_int(ctl_proc(a, PROC_RANK, 0)->exit_code, 7, "exactly");
	clean(74);
}

struct count {
	enum launch_state state;
	unsigned n;
};

static unsigned count(enum launch_state s)
{
	unsigned n = 0;

	for (unsigned i = 100; i < CTL_JOBS; i++)
		n += a->states[i] == s;
	return n;
}

static int has_count(struct ctl *x, void *arg)
{
	const struct count *w = arg;

	(void)x;
	return count(w->state) >= w->n;
}

static int wait_count(enum launch_state s, unsigned n)
{
	struct count w = {.state = s, .n = n};

	if (ctl_wait(c, LONG, has_count, &w))
		return 1;
	tap_diag("%u of %u in state %d; text '%s'", count(s), n, (int)s, a->launch ? a->launch->text : "");
	return 0;
}

/* More than may hang at a time: the others wait for their turn, each no longer than for an answer. */
static void test_many(void)
{
	for (unsigned i = 0; i < 2 * MANY; i++) {
		c->prepare_timeout_ms = i < MANY ? 600000 : PATIENCE;
		prepare(100 + i, "true");
	}
	ok(wait_count(LAUNCH_FAILED, MANY), "those whose turn does not come in time fail");
	is_int(a->states[100], LAUNCH_PREPARING, "not the one that is asked for");
	like(a->launch ? a->launch->text : "", "' within 4 s (does this node reach its directory",
	     "as those that hang do");
	for (unsigned i = 0; i < MANY; i++)
		ctl_kill(a, 100 + i, 1, 1, 0);
	ok(wait_count(LAUNCH_FAILED, 2 * MANY), "and those that hang, when they are stopped");
	for (unsigned i = 0; i < 2 * MANY; i++)
		ctl_collect(a, 100 + i, 1, 1, 0);
	ok(wait_count(LAUNCH_CLEANED, 2 * MANY), "all are cleaned");
}

static int all_over(struct ctl *x, void *arg)
{
	(void)x;
	(void)arg;
	return count(LAUNCH_ENDED) + count(LAUNCH_FAILED) == 2 * MANY;
}

/* An agent that starts asks for all of its launches at once. */
static void test_many_adopted(void)
{
	c->prepare_timeout_ms = 600000;
	memset(a->states, 0, sizeof(a->states));
	for (unsigned i = 0; i < 2 * MANY; i++)
		prepare(150 + i, "true");
	ok(wait_count(LAUNCH_PREPARING, 2 * MANY), "twice as many prepare");
	ctl_kill(a, 150 + 2 * MANY - 1, 1, 1, 0);
	ok(wait_count(LAUNCH_FAILED, 1), "one that waits for its turn is stopped at once");
	ctl_agent_kill(a, SIGKILL);
	memset(a->states, 0, sizeof(a->states));
	start(NULL);
	ok(wait_count(LAUNCH_READY, 2 * MANY - 1), "an agent that is answered goes on with every other one");
	for (unsigned i = 0; i < 2 * MANY; i++)
		ctl_kill(a, 150 + i, 1, 1, 0);
	ok(ctl_wait(c, LONG, all_over, NULL), "all are stopped");
	for (unsigned i = 0; i < 2 * MANY; i++)
		ctl_collect(a, 150 + i, 1, 1, 0);
	ok(wait_count(LAUNCH_CLEANED, 2 * MANY), "and leaves nothing behind");
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
	start("agent.account=1x2");
	test_hangs();
	test_killed();
	test_adopted();
	test_many();
	test_many_adopted();
	ctl_agent_kill(a, SIGKILL);
	ctl_stop(c);
	return tap_done();
}

#else

int main(void)
{
	tap_skip_all("built without failpoints");
	return 0;
}

#endif
