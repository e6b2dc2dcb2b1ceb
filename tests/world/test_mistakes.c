/*
 * Can the world find anything? Each known mistake is switched on by its failpoint, and the seeds must find it
 * within SEEDS runs. A mistake that nobody finds means a check that cannot fail.
 */
#include "common/base/fault.h"
#include "tests/lib/tap.h"
#include "tests/world/profile.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS 400

#ifdef HEARTH_FAULTS
static const struct {
	const char *name, *what;
	uint32_t faults;  /* that bring it to light */
	const char *with; /* another mistake, without which something else makes up for it; NULL none */
} mistakes[] = {
    {"mistake.old_epoch", "agents obey orders of an old epoch", 1u << SIM_F_OLD_ORDER, NULL},
    {"mistake.early_reply", "answers do not wait for the commit", 1u << SIM_F_HEARTHD, NULL},
    {"mistake.early_ack", "reports are acknowledged before they are durable",
     1u << SIM_F_HEARTHD | 1u << SIM_F_STORE_SLOW, NULL},
    {"mistake.event_twice", "the end of a rank is recorded twice", 0, NULL},
    {"mistake.lost_is_success", "a rank that nobody saw end counts as a success", 1u << SIM_F_SHIM, NULL},
    {"mistake.early_release", "resources are free before the kill is confirmed", 0, NULL},
    {"mistake.no_fence", "an agent that is cut off does not kill", 1u << SIM_F_CUT_ALL, "mistake.no_switch"},
    {"mistake.no_switch", "a rank outlives the lease when its agent is dead", 1u << SIM_F_AWAY, NULL},
    {"mistake.short_lease", "a node is called lost before its lease is over", 1u << SIM_F_CUT_ALL, NULL},
    {"mistake.any_answer", "any answer of a suspect node ends its launches", 1u << SIM_F_CUT_CTL, NULL},
    {"mistake.no_resend", "reports are not sent again on a new connection", 1u << SIM_F_RESET, NULL},
    {"mistake.no_idempotency", "a key is forgotten", 0, NULL},
    {"mistake.no_wait", "a job does not wait for another", 0, NULL},
    {"mistake.no_choice", "a requeue does not begin where it was asked to", 0, NULL},
    {"mistake.no_hold", "a step that is not there does not hold the job", 0, NULL},
    {"mistake.one_part", "every node begins with what the first one left", 0, NULL},
    {"mistake.no_sweep", "what a rank left behind is not killed", 0, NULL},
    {"mistake.no_quota", "a quota is not kept", 0, NULL},
    {"mistake.no_reservation", "a node that is kept is given to others", 0, NULL},
    {"mistake.two_takers", "a job that takes a part of a pool believes that it has all", 0, NULL},
    {"mistake.all_members", "all members of an array go at once", 0, NULL},
};

/* In a process of its own: a mistake may end it. */
static void seek(const char *name, const char *with, uint32_t faults, int out)
{
	struct sim_result r;

	fault_arm(name, 1, 1000000000);
	if (with)
		fault_arm(with, 1, 1000000000);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim_options o = profile_of(seed);

		o.faults |= faults;
		dprintf(out, "seed %llu: ", (unsigned long long)seed);
		if (sim_run(&o, &r) < 0) {
			dprintf(out, "%s\n", r.bad);
			_exit(0);
		}
		dprintf(out, "-\n");
	}
	_exit(1);
}

static void last_line(int fd, char *out, size_t size)
{
	FILE *f = fdopen(fd, "r");
	char line[1000];

	out[0] = '\0';
	while (f && fgets(line, sizeof line, f))
		snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
	if (f)
		fclose(f);
}

static void one(const char *name, const char *with, const char *what, uint32_t faults)
{
	char found[800];
	int fds[2], status = 0;
	pid_t pid;

	if (pipe(fds) < 0)
		tap_bail("pipe");
	pid = fork();
	if (pid < 0)
		tap_bail("fork");
	if (pid == 0) {
		close(fds[0]);
		seek(name, with, faults, fds[1]);
	}
	close(fds[1]);
	last_line(fds[0], found, sizeof found);
	waitpid(pid, &status, 0);
	ok((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
	       (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT),
	   "%s: %s: %s%s", name, what, found, WIFSIGNALED(status) ? "the program stopped itself" : "");
}
#endif

int main(int argc, char **argv)
{
	profile_tmpdir();
	tap_tmpdir(); /* one for all, removed by this process */
#ifdef HEARTH_FAULTS
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
		if (argc < 2 || strcmp(argv[1], mistakes[i].name) == 0)
			one(mistakes[i].name, mistakes[i].with, mistakes[i].what, mistakes[i].faults);
#else
	(void)argc;
	(void)argv;
	tap_skip_all("built without --enable-faults");
#endif
	return tap_done();
}
