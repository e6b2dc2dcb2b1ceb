/*
 * A real hearth-agent on a machine full of processes: the ends of one user's launches do not silence the node
 * of another's, and a fence kills all launches at once.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/crowd.h"

#define LONG     60000 /* ms; a deadline, not a time that is waited */
#define OTHERS   1500  /* processes that belong to no launch: each look through /proc meets them */
#define GAP      1000000ul
#define FENCE_US 3000000ul

static pid_t others[OTHERS];

static void start_others(void)
{
	for (int i = 0; i < OTHERS; i++) {
		others[i] = fork();
		if (others[i] < 0)
			tap_bail("fork");
		if (others[i] == 0)
			for (;;)
				pause();
	}
}

static void end_others(void)
{
	for (int i = 0; i < OTHERS; i++)
		kill(others[i], SIGKILL);
	for (int i = 0; i < OTHERS; i++)
		waitpid(others[i], NULL, 0);
}

int main(void)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..";
	cleanup_free char *agent = xasprintf("%s/agent/hearth-agent", top);
	cleanup_free char *program = xasprintf("%s/tests/programs/crowd", top);
	cleanup_free char *run = xasprintf("%s/run", tap_tmpdir());
	const char *const more[] = {"--run", run, NULL};
	struct crowd ann = {.program = program, .first_job = 100, .launches = 12, .processes = 20};
	struct crowd bob = {.program = program, .first_job = 200, .launches = 12, .processes = 20};
	struct ctl_agent *a;
	struct ctl *c;
	uint64_t took;

	if (access(agent, X_OK) < 0 || access(program, X_OK) < 0)
		tap_skip_all("hearth-agent or programs/crowd is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	start_others();
	c = ctl_start(tap_tmpdir());
	c->lease_ms = 600000;
	c->prepare_timeout_ms = LONG;
	a = ann.a = bob.a = ctl_agent_start(c, 0, "n1", more);
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	if (crowd_start(&ann, LONG) < 0 || crowd_start(&bob, LONG) < 0)
		tap_bail("the launches do not run");

	a->beat_gap_us = 0;
	for (unsigned i = 0; i < ann.launches; i++)
		ctl_kill(a, ann.first_job + i, 1, 1, 0);
	ok(crowd_wait_states(&ann, LAUNCH_ENDED, LONG), "the first one's launches are ended at the same time");
	ok(crowd_is_gone(&ann), "none of their processes is left");
	ok(!crowd_is_gone(&bob), "the other one's run");
	ok(a->beat_gap_us < GAP, "and the node was silent for %u ms at most", (unsigned)(a->beat_gap_us / 1000));

	c->refused_as = ERR_GONE;
	ctl_refuse(c, a);
	ok(ctl_wait_refusals(c, 1, LONG), "the node is removed");
	took = crowd_wait_gone(&bob, LONG);
	ok(took && took < FENCE_US, "a fence has ended the launches of the other one after %u ms",
	   (unsigned)(took / 1000));
	ok(crowd_end_agent(&bob, LONG), "its agent cleans up and ends");
	ctl_stop(c);
	end_others();
	crowd_fini(&ann);
	crowd_fini(&bob);
	return tap_done();
}
