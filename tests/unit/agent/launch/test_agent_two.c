/*
 * A real hearth-agent that holds two launches of one job: the older one is only killed and collected, also
 * after the agent was started again, and a later one never starts next to processes of it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#define LONG 20000 /* ms; a deadline, not a time that is waited */

static struct ctl *c;
static struct ctl_agent *a;

static const char *const run_a[] = {"--slots", "8", NULL};

static void prepare(uint64_t job, uint32_t attempt, uint64_t epoch, const char *shell)
{
	struct ctl_agent *const nodes[] = {a, NULL};
	const uint32_t ranks = 1;
	cleanup_free char *spec =
	    xasprintf("{\"name\":\"t\",\"command\":[\"/bin/sh\",\"-c\",\"%s\"],\"launcher\":\"direct\","
	              "\"resources\":{\"instances\":1,\"ranks_per_instance\":1}}",
	              shell);

	ctl_prepare(c, spec, job, attempt, epoch, nodes, &ranks);
}

/* The first attempt leaves a checkpoint, a model and an output, and fails. Its upload does not end. */
static void end_first(void)
{
	ctl_forget_reports(c);
	prepare(51, 1, 7,
	        "echo w > $SM_MODEL_DIR/w; echo o > $SM_OUTPUT_DATA_DIR/o; echo c > "
	        "$HEARTH_CHECKPOINT_DIR/step_3.pt; exit 3");
	ok(ctl_wait_attempt(a, 1, LAUNCH_READY, LONG), "attempt 1 is ready");
	c->no_blobs = 1;
	ctl_go(a, 51, 1, 7);
	ok(ctl_wait_attempt(a, 1, LAUNCH_ENDED, LONG), "it ends");
	ok(ctl_wait_over(a, 1, OVER_STOPPED, LONG), "its agent says that it has stopped");
	ctl_collect(a, 51, 1, 7, 1);
}

static void start_second(void)
{
	prepare(51, 2, 8, "echo second; exec sleep 100");
	ok(ctl_wait_attempt(a, 2, LAUNCH_READY, LONG), "attempt 2 is ready on the same node");
	is_int(a->attempts[1].state, LAUNCH_ENDED, "attempt 1 is not collected yet");
	ctl_go(a, 51, 2, 8);
	ok(ctl_wait_attempt(a, 2, LAUNCH_RUNNING, LONG), "attempt 2 runs");
}

static void test_collected_behind(void)
{
	const char *kinds;

	end_first();
	start_second();
	ctl_agent_kill(a, SIGKILL);
	a->control = NULL;
	memset(a->attempts, 0, sizeof(a->attempts));
	c->no_blobs = 0;
	ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, a->connections + 1, LONG), "the agent was killed; another one runs");
	ok(a->attempts[1].state >= LAUNCH_ENDED, "it has attempt 1");
	is_int(a->attempts[2].state, LAUNCH_RUNNING, "and attempt 2");
	ok(ctl_wait_over(a, 1, OVER_STOPPED, LONG), "nothing of attempt 1 is left but its files");
	ctl_collect(a, 51, 1, 8, 1); /* with the job's present epoch, as hearthd does */
	ok(ctl_wait_attempt(a, 1, LAUNCH_CLEANED, LONG), "attempt 1 is collected");
	is_int(a->attempts[2].state, LAUNCH_RUNNING, "attempt 2 runs on");
	kinds = a->artifacts ? a->artifacts : "";
	like(kinds, "model ", "its model was saved");
	like(kinds, "output ", "its output was saved");
	ok(strncmp(kinds, "checkpoint ", 11) == 0, "its checkpoints were saved first: %s", kinds);
	ctl_kill(a, 51, 2, 8, 0);
	ok(ctl_wait_attempt(a, 2, LAUNCH_ENDED, LONG), "attempt 2 is ended");
	ctl_collect(a, 51, 2, 8, 0);
	ok(ctl_wait_attempt(a, 2, LAUNCH_CLEANED, LONG), "and cleaned");
}

/* hearthd never orders this; were it to, its mistake must not become two attempts at once. */
static void test_never_together(void)
{
	ctl_forget_reports(c);
	prepare(52, 1, 1, "trap '' TERM; while :; do sleep 1; done");
	ok(ctl_wait_attempt(a, 1, LAUNCH_READY, LONG), "attempt 1 is ready");
	ctl_go(a, 52, 1, 1);
	ok(ctl_wait_attempt(a, 1, LAUNCH_RUNNING, LONG), "it runs");
	prepare(52, 2, 2, "exec sleep 100");
	ctl_go(a, 52, 1, 1);
	ok(ctl_wait_attempt(a, 2, LAUNCH_READY, LONG), "attempt 2 is prepared");
	ok(ctl_wait_attempt(a, 1, LAUNCH_ENDED, LONG), "attempt 1 was ended for it");
	ctl_go(a, 52, 2, 2);
	ok(ctl_wait_attempt(a, 2, LAUNCH_RUNNING, LONG), "attempt 2 runs then");
	for (uint32_t attempt = 1; attempt <= 2; attempt++) {
		ctl_kill(a, 52, attempt, 2, 0);
		ok(ctl_wait_attempt(a, attempt, LAUNCH_ENDED, LONG), "attempt %u has ended", attempt);
		ctl_collect(a, 52, attempt, 2, 0);
		ok(ctl_wait_attempt(a, attempt, LAUNCH_CLEANED, LONG), "attempt %u is cleaned", attempt);
	}
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
	a = ctl_agent_start(c, 0, "n1", run_a);
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	test_collected_behind();
	test_never_together();
	ctl_stop(c);
	return tap_done();
}
