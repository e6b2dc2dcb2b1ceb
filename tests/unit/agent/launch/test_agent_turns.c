/*
 * A real hearth-agent that prepares a launch of many processes on a machine where each takes a while to
 * start: it goes on to beat between them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

#ifdef HEARTH_FAULTS

#define LONG  60000     /* ms; a deadline, not a time that is waited */
#define RANKS 32        /* of 150 ms each */
#define GAP   2000000ul /* us: less than half of what all of them take */

int main(void)
{
	static const char shell[] = "{\"name\":\"t\",\"command\":[\"/bin/true\"],\"launcher\":\"direct\","
	                            "\"resources\":{\"instances\":1,\"ranks_per_instance\":32}}";
	cleanup_free char *program = xasprintf(
	    "%s/agent/hearth-agent", getenv("HEARTH_TOP_BUILDDIR") ? getenv("HEARTH_TOP_BUILDDIR") : "..");
	cleanup_free char *run = xasprintf("%s/run", tap_tmpdir());
	const char *const more[] = {"--run", run, NULL};
	const uint32_t ranks[] = {RANKS};
	struct ctl_agent *nodes[] = {NULL, NULL};
	struct ctl_agent *a;
	struct ctl *c;

	if (access(program, X_OK) < 0)
		tap_skip_all("hearth-agent is not built");
	chmod(tap_tmpdir(), 0711);
	signal(SIGPIPE, SIG_IGN);
	c = ctl_start(tap_tmpdir());
	c->lease_ms = 600000;
	c->prepare_timeout_ms = 600000;
	setenv("HEARTH_FAULTS", "agent.slow_spawn=1x1000", 1);
	a = nodes[0] = ctl_agent_start(c, 0, "n1", more);
	unsetenv("HEARTH_FAULTS");
	ok(ctl_wait_synced(a, 1, LONG), "connected");
	a->beat_gap_us = 0;
	ctl_prepare(c, shell, 31, 1, 1, nodes, ranks);
	ok(ctl_wait_state(a, LAUNCH_READY, LONG), "a launch of 32 processes is ready");
	ok(a->beat_gap_us < GAP, "the node was silent for %u ms at most", (unsigned)(a->beat_gap_us / 1000));
	ctl_go(a, 31, 1, 1);
	ok(ctl_wait_state(a, LAUNCH_ENDED, LONG), "it runs");
	is_int(ctl_proc(a, PROC_RANK, RANKS - 1)->exit_code, 0, "to its end");
	ctl_collect(a, 31, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and is cleaned");
	/* Ended in the middle: those that are there go, the others never come. */
	ctl_forget_reports(c);
	ctl_prepare(c, shell, 32, 1, 1, nodes, ranks);
	ok(ctl_wait_phase(a, "launching", LONG), "another one");
	ctl_kill(a, 32, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_FAILED, LONG), "is ended while its processes are being started");
	ctl_collect(a, 32, 1, 1, 0);
	ok(ctl_wait_state(a, LAUNCH_CLEANED, LONG), "and is cleaned");
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
